"""A rule table as a table: what each row asks of each fact, where it wins, and what is left of it on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.analysis.boxes import STEPS, Budget, BudgetError, meet, merged
from selector.analysis.regions import Regions, needs_of, regions_of, told
from selector.analysis.space import Box, size
from selector.analysis.values import TooManyError
from selector.facts import derive
from selector.rendering.conditions import NEVER, Asked, asked, remaining
from selector.rules.conditions import Both, Condition
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Value, Vocabulary
from selector.ruleset import RuleSet

MOST_BOXES = 3
_SHORT = 72


@dataclass(frozen=True, slots=True)
class Line:
    """One row: what it asks (or where it wins, as sentences), what it does with what, and why it stands there."""

    row: str
    asked: Asked
    wins: tuple[str, ...] | None
    action: str
    target: str
    because: str


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table to be drawn: its title, the facts that have a column, its lines, and what is to be said below it."""

    title: str
    facts: tuple[str, ...]
    grouped: bool
    effective: bool
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()


def sheet(rules: RuleSet, name: str, *, effective: bool = False, machine: Mapping[str, Value] | None = None) -> Sheet:
    """Make the sheet of a table: as it is written, or where each row wins (`effective`); whole, or for a machine."""
    table = rules.tables[name]
    written = _Written(rules, table, machine)
    regions, notes = None, list[str]()
    if effective or machine is not None:
        regions, problem = _regions(rules, table)
        notes += [problem] if problem else []
    lines = tuple(_lines(written, regions, effective=effective and regions is not None))
    if machine is not None:
        gone = [row.id for row in table.rows if row.id not in {line.row for line in lines}]
        notes += [f"cannot win here: {', '.join(gone)}"] if gone else []
    facts = dict.fromkeys(fact for line in lines for fact in line.asked.facts)
    title = f"{table.name}: {' '.join(table.description.split())}" if table.description else table.name
    grouped = any(line.asked.rest for line in lines)
    return Sheet(title, tuple(facts), grouped, effective and regions is not None, lines, tuple(notes))


def _regions(rules: RuleSet, table: Table) -> tuple[Regions | None, str | None]:
    try:
        return regions_of(table, rules.abilities.get(table.targets, {}), rules.vocabulary), None
    except (TooManyError, BudgetError) as error:
        return None, f"where rows win was not worked out: {str(error) or 'that takes too many steps'}"


def _lines(written: _Written, regions: Regions | None, *, effective: bool) -> Iterator[Line]:
    here = None if regions is None else written.here(regions)
    for at, row in enumerate(written.table.rows):
        condition = written.condition(row)
        if condition == NEVER:
            continue
        wins = None
        if regions is not None and here is not None:
            wins = _wins(regions, at, here, written.fixed_variables(regions))
            if wins == () and written.machine is not None:
                continue
        target = "" if row.action == "" else " ".join(row.target.split())
        told_ = (wins or ("nowhere",)) if effective and wins is not None else None
        yield Line(row.id, asked(condition), told_, row.action, target, short(row.because))


def _wins(regions: Regions, at: int, here: Box, fixed: set[int]) -> tuple[str, ...]:
    """Tell where a row wins, within `here`; variables in `fixed` go without saying."""
    full = regions.space.full
    try:
        found = [box for left in regions.left(at, Budget(STEPS)) if (box := meet(left, here)) is not None]
    except BudgetError:
        return ("where it wins was not worked out: that takes too many steps",)
    boxes = merged([tuple(full[n] if n in fixed else mask for n, mask in enumerate(box)) for box in found])
    if len(boxes) <= MOST_BOXES:
        return tuple(told(box, regions.space) for box in boxes)
    if not regions.table.rows[at].conditional:
        return (f"wherever no row before it does ({len(boxes)} regions)",)
    largest = sorted(boxes, key=size, reverse=True)[: MOST_BOXES - 1]
    return (*(told(box, regions.space) for box in largest), f"and in {len(boxes) - len(largest)} regions more")


def short(text: str) -> str:
    """Give the first sentence or clause of a text, cut between words where that is long."""
    line = " ".join(text.split())
    for sign in (". ", "; ", ": "):
        line = line.partition(sign)[0]
    line = line.rstrip(".")
    if len(line) <= _SHORT:
        return line
    return line[: line[:_SHORT].rfind(" ")].rstrip(",") + " …" if " " in line[:_SHORT] else line[:_SHORT] + "…"


@dataclass(frozen=True, slots=True)
class _Written:
    """What the rows of a table say: all of it, or what is left of it on a machine."""

    rules: RuleSet
    table: Table
    machine: Mapping[str, Value] | None

    @property
    def facts(self) -> Mapping[str, Value]:
        """The machine's facts, with what follows from them."""
        return derive(dict(self.machine or {}), self.rules.vocabulary)

    def condition(self, row: Row) -> Condition:
        """Give what a row asks. On a machine that is what is open of it, with what its target needs."""
        if self.machine is None:
            return row.when
        needs = () if row.read_from else needs_of(row, self.rules.abilities.get(self.table.targets, {}))
        return remaining(Both((row.when, *needs)), self.facts, machine_facts(self.rules.vocabulary))

    def here(self, regions: Regions) -> Box:
        """Give the box of all situations on the machine."""
        space = regions.space
        box = list(space.full)
        if self.machine is None:
            return space.full
        fixed = machine_facts(self.rules.vocabulary)
        for test in space.tests:
            if test.fact in fixed:
                answers, held = space.of(test), test.holds(self.facts)
                neither = ~(answers.true | answers.false)
                box[answers.variable] &= neither if held is None else answers.true if held else answers.false
        return tuple(box)

    def fixed_variables(self, regions: Regions) -> set[int]:
        """Give the variables that the machine decides alone."""
        fixed = machine_facts(self.rules.vocabulary) if self.machine is not None else set()
        variables = enumerate(regions.space.variables)
        return {at for at, variable in variables if set(variable.names) <= fixed}


def machine_facts(vocabulary: Vocabulary) -> set[str]:
    """Name the facts that a machine has, known or not, and those that follow from them alone."""
    found = {fact.name for fact in vocabulary.group.get("machine", ())}
    for derived in vocabulary.derived:
        if {derived.first, derived.second} <= found:
            found.add(derived.name)
    return found


def columns(drawn: Sheet) -> Sequence[tuple[str, str]]:
    """Give the columns of a sheet in full: what each is called, and how its cells are found (see `cell`)."""
    facts = [("where it wins", "wins")] if drawn.effective else [(fact, f"fact:{fact}") for fact in drawn.facts]
    groups = [("and", "rest")] if drawn.grouped and not drawn.effective else []
    return [("row", "row"), *facts, *groups, ("action", "action"), ("target", "target"), ("because", "because")]


def cell(line: Line, column: str) -> list[str]:
    """Give the lines of one cell of a sheet."""
    if column.startswith("fact:"):
        return [line.asked.of(column.removeprefix("fact:"))]
    if column == "rest":
        return list(line.asked.rest)
    if column == "wins":
        return list(line.wins or ())
    if column == "when":
        return line.asked.lines() or ["always"]
    return [str(getattr(line, column))]
