"""How much of the rules some decisions show: which rows won and lost, which conditions held, failed and were blamed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from selector.catalog import Caution
from selector.rule_files import TABLES
from selector.rules.conditions import Condition, Facts, Result, results, tests
from selector.rules.nodes import Node, follow
from selector.rules.problems import Place
from selector.rules.tables import Row, Table
from selector.rules.walk import Step
from selector.ruleset import RuleSet
from selector.tracing import Trace, Walk

Kind = Literal["row", "condition"]
WHAT_ROWS_DO = ("wins", "loses")
WHAT_CONDITIONS_DO = ("holds", "fails", "blamed")
_HELD: Mapping[bool | None, str] = {True: "holds", False: "fails", None: "open"}


class Point(NamedTuple):
    """One thing that scenarios can show: that a row wins or loses, that a condition holds, fails or is blamed."""

    code: str
    does: str


@dataclass(slots=True)
class Item:
    """A row, or a condition of a row, an ability or a warning, with how often it did what.

    `code` is ``table/row-id`` for a row. For a condition ``:fact.matcher`` follows the row, ``backends/NAME``,
    ``providers/name`` or the warning that it belongs to, and ``#2`` says that it is the second of that name there.
    `wanted` is what scenarios should show: a row that nothing can keep from firing never loses, and conditions of
    warnings are blamed for nothing. `counts` also tells how often a condition was open (its fact not known); `first` is
    the first scenario that showed each.
    """

    code: str
    kind: Kind
    place: Place
    wanted: tuple[str, ...]
    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def saw(self, does: str, scenario: str) -> None:
        """Count what it did in a scenario."""
        self.counts[does] += 1
        self.first.setdefault(does, scenario)


class Share(NamedTuple):
    """How many of some points were shown."""

    shown: int
    total: int

    @property
    def percent(self) -> float:
        """The share in percent, 100 where there is nothing to show."""
        return 100 * self.shown / self.total if self.total else 100.0

    def below(self, percent: float) -> bool:
        """Whether fewer were shown than that."""
        return 100 * self.shown < percent * self.total


class Coverage:
    """Counts what the rows and conditions of a rule set do in the scenarios that are added.

    A condition holds or fails wherever its row was looked at, also when another condition already kept the row from
    firing; it is blamed where it stood in the row's way, by failing or by being open. `unreachable` are points that no
    scenario can show, so that they are not asked for.
    """

    def __init__(self, rules: RuleSet, unreachable: Collection[Point] = ()) -> None:
        """Begin with nothing shown."""
        self.rules = rules
        self.unreachable = frozenset(unreachable)
        self.items: dict[str, Item] = {}
        self._codes: dict[str, tuple[str, ...]] = {}
        for table in map(rules.table, TABLES):  # no decision walks a table of the user's own
            for row in table.rows:
                self._put_row(table, row)
        for kind, abilities in rules.abilities.items():
            for name, ability in abilities.items():
                self._put_conditions(f"{kind}/{name}", ability)
        for name, caution in _cautions(rules):
            self._put_conditions(name, caution.when, WHAT_CONDITIONS_DO[:2])

    # --- what there is ---

    def _put_row(self, table: Table, row: Row) -> None:
        abilities = self.rules.abilities.get(table.targets, {})
        targets = (abilities.values() if row.read_from else [abilities[row.target]]) if row.action == "use" else ()
        can_lose = any(True for needed in (row.when, *targets) for _ in tests(needed))
        self.items[row.name] = Item(row.name, "row", row.place, WHAT_ROWS_DO if can_lose else WHAT_ROWS_DO[:1])
        self._put_conditions(row.name, row.when)

    def _put_conditions(self, subject: str, condition: Condition, wanted: tuple[str, ...] = WHAT_CONDITIONS_DO) -> None:
        again: Counter[str] = Counter()
        codes = []
        for test in tests(condition):
            code = f"{subject}:{test.fact}.{test.op}"
            again[code] += 1
            code = code if again[code] == 1 else f"{code}#{again[code]}"
            self.items[code] = Item(code, "condition", test.place, wanted)
            codes.append(code)
        self._codes[subject] = tuple(codes)

    def conditions(self, subject: str) -> list[Item]:
        """Give the conditions of a row, an ability (``backends/NAME``) or a warning, as they are written."""
        return [self.items[code] for code in self._codes[subject]]

    def subjects(self) -> Iterator[str]:
        """Give every row, ability and warning in order."""
        yield from self._codes

    # --- what was shown ---

    def add(self, trace: Trace, scenario: str) -> None:
        """Count every row that was looked at."""
        for walk in trace.walks:
            for step in walk.steps:
                if step.outcome != "not_reached":
                    self._add_step(walk, step, scenario)
        if trace.walks:
            self._add_cautions(trace, scenario)

    def _add_step(self, walk: Walk, step: Step, scenario: str) -> None:
        row = step.row
        self.items[row.name].saw("wins" if step.outcome == "chosen" else "loses", scenario)
        self._add_results(row.name, [result for result in step.results if result.origin == "when"], step, scenario)
        if row.action == "use":
            needed = [result for result in step.results if result.origin == "ability"]
            subject = f"{self.rules.table(walk.table).targets}/{row.target_for(walk.facts)}"
            if subject in self._codes:
                self._add_results(subject, needed, step, scenario)

    def _add_results(self, subject: str, found: Sequence[Result], step: Step | None, scenario: str) -> None:
        blamed = {_identity(result) for result in step.blamed} if step is not None else set()
        for item, result in zip(self.conditions(subject), found, strict=True):
            item.saw(_HELD[result.held], scenario)
            if _identity(result) in blamed:
                item.saw("blamed", scenario)

    def _add_cautions(self, trace: Trace, scenario: str) -> None:
        """Count the conditions of warnings: standing ones once, those of each backend where it was taken."""
        for name, caution in _standing(self.rules):
            self._add_caution(name, caution, trace.walks[0].facts, scenario)
        for walk in trace.walks:
            chosen = walk.chosen
            if chosen is None or chosen.row.action != "use" or self.rules.table(walk.table).targets != "backends":
                continue
            backend = chosen.row.target_for(walk.facts)
            for name, caution in _of_backend(backend, self.rules):
                self._add_caution(name, caution, {**walk.facts, "backend": backend}, scenario)

    def _add_caution(self, name: str, caution: Caution, facts: Facts, scenario: str) -> None:
        self._add_results(name, [*results(caution.when, facts, "when")], None, scenario)

    # --- what that makes ---

    def points(self, kind: Kind) -> Iterator[Point]:
        """Give everything of that kind that scenarios should show."""
        for item in self.items.values():
            if item.kind == kind:
                yield from (point for does in item.wanted if (point := Point(item.code, does)) not in self.unreachable)

    def share(self, kind: Kind) -> Share:
        """Give how much of that kind was shown."""
        found = [self.items[point.code].counts[point.does] > 0 for point in self.points(kind)]
        return Share(sum(found), len(found))

    def missing(self) -> list[Point]:
        """Give what was not shown: rows first."""
        points = [*self.points("row"), *self.points("condition")]
        return [point for point in points if not self.items[point.code].counts[point.does]]


def _identity(result: Result) -> tuple[object, ...]:
    return result.origin, result.place, result.fact, result.op, result.wanted


def _cautions(rules: RuleSet) -> Iterator[tuple[str, Caution]]:
    yield from _standing(rules)
    for backend in rules.backends:
        yield from _of_backend(backend, rules)


def _standing(rules: RuleSet) -> Iterator[tuple[str, Caution]]:
    """Give the standing warnings, each by its id where it has one, else by its number."""
    file = rules.content.get("warnings", Node({}, 0, 0))
    for index, caution in enumerate(rules.warnings):
        written = follow(file, ("warnings", index, "id")).value
        yield f"warnings/{written if isinstance(written, str) else index + 1}", caution


def _of_backend(name: str, rules: RuleSet) -> Iterator[tuple[str, Caution]]:
    """Give what is unverified about a backend, each by its number."""
    for index, caution in enumerate(rules.backends[name].unverified, 1):
        yield f"backends/{name}/unverified-{index}", caution
