"""What resolution needs of a rule set again and again, worked out once; what was said of facts is remembered."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from selector.facts import derive
from selector.rules.conditions import ALWAYS, UNKNOWN, Both, Condition, Result, Test, blame, tests
from selector.rules.tables import Row
from selector.rules.vocabulary import PACKAGE_PREFIX, Value
from selector.rules.walk import needs_newer

if TYPE_CHECKING:
    from selector.catalog import Caution
    from selector.kinds import Numbers
    from selector.ruleset import RuleSet

Facts = Mapping[str, Value]
Said = TypeVar("Said")
MOST_KEPT = 4_096
_Newer = tuple[Row, Sequence[Result]]


class _Dated(NamedTuple):
    """A row that may want a newer package: its place, its tests of versions, and what else it asks.

    `when` is what has to hold whatever the versions are; `open` says that a fact names its target.
    """

    at: int
    row: Row
    tests: tuple[Test, ...]
    when: Condition
    open: bool


def _keep(known: dict[object, Said], key: object, said: Said) -> Said:
    if len(known) >= MOST_KEPT:
        known.clear()
    known[key] = said
    return said


class _Conditional(Protocol):
    """What has a condition."""

    @property
    def when(self) -> Condition: ...


Some = TypeVar("Some", bound=_Conditional)


class _Holding(Generic[Some]):
    """Which of some conditions hold, remembered by the values of the facts that they ask about."""

    def __init__(self, some: Iterable[Some]) -> None:
        self._some = tuple(some)
        self._names = tuple(dict.fromkeys(test.fact for one in self._some for test in tests(one.when)))
        self._known: dict[object, tuple[Some, ...]] = {}

    def __call__(self, facts: Facts) -> tuple[Some, ...]:
        if not self._some:
            return ()
        key = tuple([facts.get(name, UNKNOWN) for name in self._names])
        found = self._known.get(key)
        if found is None:
            found = _keep(self._known, key, tuple(one for one in self._some if one.when.holds(facts) is True))
        return found


class Prepared:
    """Answers for one rule set. Threads may share it; what it remembers is bounded."""

    def __init__(self, rules: RuleSet) -> None:
        """Look through the rules."""
        self._rules = rules
        self._backends = rules.abilities["backends"]
        self._versions = {PACKAGE_PREFIX + key for key in rules.vocabulary.packages}
        rows = rules.table("platform_default").rows
        self._places = {id(row): at for at, row in enumerate(rows)}
        self._dated = _Holding(self._find_dated(rows))
        self._asked: dict[tuple[str, str], tuple[str, ...]] = {}
        self._unmet: dict[object, tuple[str, ...]] = {}
        self._standing = _Holding(rules.warnings)
        self._unverified = {name: _Holding(one.unverified) for name, one in rules.backends.items()}
        self.unconfigured: Facts = derive(dict(self._find_unconfigured()), rules.vocabulary)
        """The facts that stand for a config without blocks, with those that follow from them."""
        self.apart = self._configured_apart()
        """Whether no fact follows from one of the config and another one."""
        called = {fact.name for fact in rules.vocabulary.group.get("call", ())}
        self.required_of_calls = tuple(name for name in rules.table("call").requires if name in called)

    @functools.cached_property
    def numbers(self) -> Numbers:
        """What the rules ask of the numbers in a request."""
        from selector.kinds import Numbers  # only for many requests at once

        return Numbers(self._rules)

    # --- warnings ---

    def standing(self, facts: Facts) -> tuple[Caution, ...]:
        """Give the warnings that stand for these facts, whatever is chosen."""
        return self._standing(facts)

    def unverified(self, backend: str, facts: Facts) -> tuple[Caution, ...]:
        """Give what is unverified about a backend for these facts."""
        return self._unverified[backend](facts)

    # --- needs that are not met ---

    def unmet(self, table: str, facts: Facts) -> tuple[str, ...]:
        """Give the needs of the backend that are not met, each as a reason."""
        backend = str(facts["backend"])
        names = self.asked_by(table, backend)
        key = (table, backend, *[facts.get(name, UNKNOWN) for name in names])
        found = self._unmet.get(key)
        if found is None:
            found = _keep(self._unmet, key, tuple(dict.fromkeys(self._reasons(table, backend, facts))))
        return found

    def asked_by(self, table: str, backend: str) -> tuple[str, ...]:
        """Name every fact on which those reasons depend."""
        names = self._asked.get((table, backend))
        if names is None:
            names = self._asked[table, backend] = tuple(dict.fromkeys(self._asked_by(table, backend)))
        return names

    def _asked_by(self, table: str, backend: str) -> Iterator[str]:
        yield from (test.fact for test in tests(self._backends.get(backend, ALWAYS)))
        yield from (row.read_from for row in self._using(table) if row.read_from is not None)

    def _using(self, table: str) -> Iterator[Row]:
        return (row for row in self._rules.table(table).rows if row.action == "use")

    def _reasons(self, table: str, backend: str, facts: Facts) -> Iterator[str]:
        if any(row.target_for(facts) == backend for row in self._using(table)):
            needs = self._backends.get(backend, ALWAYS)
            yield from (result.reason() for result in blame(needs, facts, "ability"))

    # --- newer packages ---

    def newer(self, winner: Row, facts: Facts) -> _Newer | None:
        """Give the first row before the winner that would win with a newer package, and what is too old for it."""
        end = self._places[id(winner)]
        for row in self._dated(facts):
            if row.at >= end:
                return None
            if row.open or any(_fails(test, facts) for test in row.tests):
                old = needs_newer(row.row, facts, self._backends, self._versions)
                if old:
                    return row.row, old
        return None

    def _find_dated(self, rows: Sequence[Row]) -> Iterator[_Dated]:
        for at, row in enumerate(rows):
            ability = ALWAYS if row.action != "use" else self._backends.get(row.target, ALWAYS)
            dated = tuple(test for test in _bounds(row.when, ability) if test.fact in self._versions)
            if dated or row.read_from is not None:
                yield _Dated(at, row, dated, self._firm(row.when, ability), row.read_from is not None)

    def _firm(self, *conditions: Condition) -> Both:
        """Give the parts that must all hold and ask for no version."""
        parts = [part for one in conditions for part in (one.parts if isinstance(one, Both) else (one,))]
        return Both(tuple(part for part in parts if not any(test.fact in self._versions for test in tests(part))))

    # --- the config ---

    def _configured_apart(self) -> bool:
        config = {fact.name for fact in self._rules.vocabulary.group.get("config", ())}
        return all((one.first in config) == (one.second in config) for one in self._rules.vocabulary.derived)

    def _find_unconfigured(self) -> Iterator[tuple[str, Value]]:
        for fact in self._rules.vocabulary.group.get("config", ()):
            if fact.type == "boolean" and "." not in fact.name:
                yield fact.name, False
            elif "." in fact.name and fact.null:
                yield fact.name, None


def _bounds(*conditions: Condition) -> Iterator[Test]:
    for condition in conditions:
        yield from (test for test in tests(condition) if test.op in ("compare", "min"))


def _fails(test: Test, facts: Facts) -> bool:
    value = facts.get(test.fact)
    return value is not None and not test.check(value)
