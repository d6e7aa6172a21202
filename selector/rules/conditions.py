"""Conditions: how a `when` is read, and what it says of a set of facts: holds, fails, or undetermined."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from selector.rules.problems import Place, shown
from selector.rules.vocabulary import Value

Facts = Mapping[str, Value]
UNKNOWN = object()
"""Stands for a fact that is not given, where what was said of facts is remembered by their values."""
Truth = bool | None


@dataclass(frozen=True, slots=True)
class Test:
    """One fact against what is asked of it.

    `check` is asked only about a value that is known and not null; `at_null` and `at_unknown` are the answers for
    null and for a fact that is not given. `special` words answer like an unknown one unless they are asked for.
    `mentions` are the values, bounds or comparisons that are written, for those who reason about the test.
    """

    fact: str
    op: str
    wanted: str
    check: Callable[[object], bool]
    at_null: bool
    at_unknown: Truth
    special: frozenset[str]
    place: Place
    mentions: tuple[Value, ...] = ()

    def holds(self, facts: Facts) -> Truth:
        """Evaluate against the facts; a name that is not in them is unknown."""
        if self.fact not in facts:
            return self.at_unknown
        value = facts[self.fact]
        if value is None:
            return self.at_null
        if self.special and value in self.special:
            return self.at_unknown
        return self.check(value)


@dataclass(frozen=True, slots=True)
class Both:
    """All parts hold (`all`, and every mapping of facts)."""

    parts: tuple[Condition, ...]

    def holds(self, facts: Facts) -> Truth:
        """False when one part fails, undetermined when none fails and one is undetermined."""
        answer: Truth = True
        for part in self.parts:
            held = part.holds(facts)
            if held is False:
                return False
            if held is None:
                answer = None
        return answer


@dataclass(frozen=True, slots=True)
class Either:
    """One part at least holds (`any`)."""

    parts: tuple[Condition, ...]

    def holds(self, facts: Facts) -> Truth:
        """True when one part holds, undetermined when none holds and one is undetermined."""
        answer: Truth = False
        for part in self.parts:
            held = part.holds(facts)
            if held is True:
                return True
            if held is None:
                answer = None
        return answer


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold (`not`)."""

    part: Condition

    def holds(self, facts: Facts) -> Truth:
        """Turn true and false around; undetermined stays so."""
        held = self.part.holds(facts)
        return None if held is None else not held


Condition = Test | Both | Either | Not
ALWAYS = Both(())


@dataclass(frozen=True, slots=True)
class Result:
    """What one test said: the fact, what was asked, what it is, whether that holds, and where it is written.

    `negated` tells that it stands below an odd number of `not`; `group` is the path of `any`, `all` and `not` to it.
    """

    fact: str
    op: str
    wanted: str
    got: Value
    known: bool
    held: Truth
    place: Place
    origin: Literal["when", "ability", "engine"]
    group: str = ""
    negated: bool = False

    @property
    def blamed(self) -> bool:
        """Whether this test, read through its `not`s, kept the row from firing."""
        return self.held is None or self.held is self.negated

    def reason(self) -> str:
        """Say what was wanted and what is: ``head_dim: wanted 128, got 64``."""
        got = shown(self.got) if self.known else "unknown"
        return f"{self.fact}: wanted {'not ' if self.negated else ''}{self.wanted}, got {got}"


def tests(condition: Condition) -> Iterator[Test]:
    """Give every test in a condition, in the order in which it is written."""
    if isinstance(condition, Test):
        yield condition
    elif isinstance(condition, Not):
        yield from tests(condition.part)
    else:
        for part in condition.parts:
            yield from tests(part)


def would_hold(condition: Condition, facts: Facts, grant: Callable[[Test], bool]) -> bool:
    """Whether the condition holds with some of its tests taken as met; what stands below a `not` is asked as it is."""
    if isinstance(condition, Test):
        return condition.holds(facts) is True or grant(condition)
    if isinstance(condition, Not):
        return condition.holds(facts) is True
    parts = (would_hold(part, facts, grant) for part in condition.parts)
    return any(parts) if isinstance(condition, Either) else all(parts)


def results(
    condition: Condition, facts: Facts, origin: Literal["when", "ability"], group: str = "", *, negated: bool = False
) -> Iterator[Result]:
    """Evaluate every test of a condition on its own, for a trace."""
    if isinstance(condition, Test):
        name = condition.fact
        got = facts.get(name)
        held = condition.holds(facts)
        place = condition.place
        yield Result(name, condition.op, condition.wanted, got, name in facts, held, place, origin, group, negated)
    elif isinstance(condition, Not):
        yield from results(condition.part, facts, origin, f"{group}not.", negated=not negated)
    else:
        inner = f"{group}any." if isinstance(condition, Either) else group
        for part in condition.parts:
            yield from results(part, facts, origin, inner, negated=negated)


def blame(condition: Condition, facts: Facts, origin: Literal["when", "ability"]) -> list[Result]:
    """Give the tests that stand in the way: of an `all` each part that does not hold, of an `any` the nearest parts."""
    _, faults = _faults(condition, facts, wanted=True)
    return [result for test, negated in faults for result in results(test, facts, origin, negated=negated)]


_Cost = tuple[int, int]
_Faults = tuple[_Cost, list[tuple[Test, bool]]]


def distance(condition: Condition, facts: Facts, *, wanted: bool = True) -> tuple[int, int]:
    """Give how far a condition is from being `wanted`: tests that fail, then tests that are undetermined."""
    return _faults(condition, facts, wanted=wanted)[0]


def _faults(condition: Condition, facts: Facts, *, wanted: bool) -> _Faults:
    """Find what keeps a condition from being `wanted`, and how much it is: tests that fail, then undetermined ones."""
    if condition.holds(facts) is wanted:
        return (0, 0), []
    if isinstance(condition, Test):
        return ((0, 1) if condition.holds(facts) is None else (1, 0)), [(condition, not wanted)]
    if isinstance(condition, Not):
        return _faults(condition.part, facts, wanted=not wanted)
    parts = [_faults(part, facts, wanted=wanted) for part in condition.parts]
    if isinstance(condition, Either) is wanted:
        least = min((cost for cost, _ in parts), default=(0, 0))
        return least, [fault for cost, found in parts if cost == least for fault in found]
    cost = (sum(failed for (failed, _), _ in parts), sum(open_ for (_, open_), _ in parts))
    return cost, [fault for _, found in parts for fault in found]
