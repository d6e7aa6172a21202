"""What is asked of a value, asked directly: of values of every type, and a comparison no more than once compiled."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial

import pytest

from selector.rules.checks import Check, Comparison, any_of, at_least, at_most, constant, equal, multiple
from selector.rules.orders import ORDERS, Order


@pytest.mark.parametrize(
    ("check", "yes", "no"),
    [
        (partial(equal, 1), [1], [True, 1.0, "1", 2, None]),
        (partial(equal, True), [True], [1, False]),
        (partial(equal, "x"), ["x"], ["y", None]),
        (partial(any_of, (partial(equal, 1), partial(equal, "x"))), [1, "x"], [2, "y"]),
        (partial(any_of, ()), [], [1]),
        (partial(multiple, 8), [0, 8, -16], [1, 4, 9, "8", 8.0]),
        (partial(at_least, 8), [8, 9], [7, "9", 9.0]),
        (partial(at_most, 8), [8, 7], [9, "7", 7.0]),
        (partial(constant, True), [1, "x"], []),
        (partial(constant, False), [], [1, "x"]),
        (Comparison("number", ">=8,<10"), [8, 9], [7, 10]),
        (Comparison("number", ">=8", partial(operator.eq, 3)), [3], [8]),
    ],
)
def test_a_check_holds_for_some_values(check: Check, yes: list[object], no: list[object]) -> None:
    """And for no value of another type."""
    assert [value for value in yes if check(value) is not True] == []
    assert [value for value in no if check(value) is not False] == []


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let there be an order `mine`, and give what it is asked to read."""
    read: list[str] = []

    def noted(text: str) -> int:
        read.append(text)
        return int(text)

    same: Callable[[object], object] = lambda value: value  # noqa: E731 - typed for `Order`
    monkeypatch.setitem(ORDERS, "mine", Order("mine", "integer", ">=1", noted, same))
    return read


def test_a_comparison_is_compiled_when_it_is_first_asked(compiled: list[str]) -> None:
    """And never again."""
    check = Comparison("mine", ">=8")
    assert compiled == []

    assert [check(value) for value in (7, 8, 9)] == [False, True, True]
    assert compiled == ["8"]


def test_a_comparison_that_is_compiled_already_is_asked_as_it_is(compiled: list[str]) -> None:
    """So that nothing is compiled twice."""
    check = Comparison("mine", ">=8", ORDERS["mine"].comparison(">=8"))

    assert [check(value) for value in (7, 8)] == [False, True]
    assert compiled == ["8"]
    assert (check.order, check.text) == ("mine", ">=8")
