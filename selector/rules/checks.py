"""What is asked of a value, as functions that can be written to disk: named ones with what they are asked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from selector.rules.orders import ORDERS, Compare

Check = Callable[[object], bool]


def equal(wanted: object, got: object) -> bool:
    """Whether two values are equal and of one type."""
    return type(got) is type(wanted) and got == wanted


def any_of(checks: Sequence[Check], got: object) -> bool:
    """Whether one check at least holds."""
    return any(check(got) for check in checks)


def multiple(divisor: int, got: object) -> bool:
    """Whether a value is an integer that the divisor divides."""
    return isinstance(got, int) and got % divisor == 0


def at_least(bound: int, got: object) -> bool:
    """Whether a value is an integer that is not smaller."""
    return isinstance(got, int) and got >= bound


def at_most(bound: int, got: object) -> bool:
    """Whether a value is an integer that is not larger."""
    return isinstance(got, int) and got <= bound


def constant(answer: bool, _: object) -> bool:  # noqa: FBT001 - given by position before the value
    """Answer the same for every value."""
    return answer


class Comparison:
    """A list of bounds in the order of that name, compiled when it is first asked."""

    __slots__ = ("_holds", "order", "text")

    def __init__(self, order: str, text: str, holds: Compare | None = None) -> None:
        """Take the function too where it is compiled already."""
        self.order = order
        self.text = text
        self._holds = holds

    def __call__(self, got: object) -> bool:
        """Whether a value is within the bounds."""
        holds = self._holds
        if holds is None:
            holds = self._holds = ORDERS[self.order].comparison(self.text)
        return holds(got)
