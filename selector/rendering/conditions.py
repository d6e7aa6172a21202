"""Conditions as short texts: what stands in the cell of one fact, and what is left of it where some facts are known."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from selector.rules.conditions import ALWAYS, Both, Condition, Either, Facts, Not, Test

NEVER = Either(())
_PASSES = " or unknown"


@dataclass(frozen=True, slots=True)
class Asked:
    """What a condition asks: of each fact that stands alone, and in groups of several facts (`rest`)."""

    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    rest: tuple[str, ...] = ()

    def of(self, fact: str) -> str:
        """Give what is asked of one fact."""
        parts = self.facts.get(fact, ())
        bare = [part.removesuffix(_PASSES) for part in parts]
        if len(parts) > 1 and all(part.endswith(_PASSES) for part in parts):
            return f"{' and '.join(bare)},{_PASSES}"
        return " and ".join(parts)

    def lines(self) -> list[str]:
        """Give one line for each fact or group."""
        return [*(f"{fact} {self.of(fact)}" for fact in self.facts), *self.rest]


def asked(condition: Condition) -> Asked:
    """Sort what a condition asks by fact."""
    facts: dict[str, list[str]] = {}
    rest: list[str] = []
    for part in _parts(condition):
        test, negated = (part.part, True) if isinstance(part, Not) else (part, False)
        if isinstance(test, Test):
            facts.setdefault(test.fact, []).append(_wanted(test, negated=negated))
        else:
            rest.append(in_words(part))
    return Asked({fact: tuple(_once(parts)) for fact, parts in facts.items()}, tuple(dict.fromkeys(rest)))


def _once(parts: list[str]) -> list[str]:
    """Leave out what is said already, by the same words or by narrower ones."""
    return [
        part
        for part in dict.fromkeys(parts)
        if part.removesuffix(_PASSES) == part or part.removesuffix(_PASSES) not in parts
    ]


def _parts(condition: Condition) -> Iterator[Condition]:
    if isinstance(condition, Both):
        for part in condition.parts:
            yield from _parts(part)
    else:
        yield condition


def in_words(condition: Condition) -> str:
    """Say a condition in one line."""
    if isinstance(condition, Test):
        return f"{condition.fact} {_wanted(condition, negated=False)}"
    if isinstance(condition, Not):
        if isinstance(condition.part, Test):
            return f"{condition.part.fact} {_wanted(condition.part, negated=True)}"
        return f"not ({in_words(condition.part)})"
    if isinstance(condition, Either):
        return " or ".join(_inside(part) for part in condition.parts)
    return " and ".join(in_words(part) if isinstance(part, Test | Not) else _inside(part) for part in condition.parts)


def _inside(part: Condition) -> str:
    return in_words(part) if isinstance(part, Test | Not) else f"({in_words(part)})"


def _wanted(test: Test, *, negated: bool) -> str:
    """Say what is asked of a fact; what holds for an unknown one too is told."""
    wanted = test.wanted.removeprefix("one of ")
    if test.op == "in" and wanted == test.wanted:
        wanted = wanted.partition(" (")[0]  # a named set, without its values
    passes = test.at_unknown is not None and test.at_unknown is not negated
    return f"{'not ' if negated else ''}{wanted}{_PASSES if passes else ''}"


# --- where some facts are known -----------------------------------------------------------------------------------


def remaining(condition: Condition, facts: Facts, fixed: Collection[str], *, wanted: bool = True) -> Condition:
    """Give what must still be met where the facts in `fixed` are as they are; those that are unknown stay so.

    It is `ALWAYS` where nothing is left to be met, and `NEVER` where it cannot be: a condition that is undetermined by
    what stays unknown is not met.
    """
    if isinstance(condition, Test):
        if condition.fact not in fixed:
            return condition if wanted else Not(condition)
        return ALWAYS if condition.holds(facts) is wanted else NEVER
    if isinstance(condition, Not):
        return remaining(condition.part, facts, fixed, wanted=not wanted)
    parts = [remaining(part, facts, fixed, wanted=wanted) for part in condition.parts]
    if isinstance(condition, Either) is wanted:
        return _either(parts)
    return _both(parts)


def _both(parts: list[Condition]) -> Condition:
    if NEVER in parts:
        return NEVER
    left = [part for part in parts if part != ALWAYS]
    return left[0] if len(left) == 1 else Both(tuple(left))


def _either(parts: list[Condition]) -> Condition:
    if ALWAYS in parts:
        return ALWAYS
    left = [part for part in parts if part != NEVER]
    return left[0] if len(left) == 1 else Either(tuple(left))
