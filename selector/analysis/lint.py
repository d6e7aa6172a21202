"""`lint`: what is wrong, doubtful or worth knowing about tables, proven over every situation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.analysis.boxes import STEPS, Budget, BudgetError, meet, without
from selector.analysis.findings import LEVELS, Finding
from selector.analysis.regions import Regions, Where, needs_of, regions_of, told, witness
from selector.analysis.space import Box, Space, bits
from selector.analysis.values import TooManyError
from selector.rules.conditions import ALWAYS, Both, Condition, Either, Not, Test, tests
from selector.rules.problems import listing
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet


def lint_tables(rules: RuleSet, steps: int = STEPS) -> list[Finding]:
    """Check every table; findings come worst first, then in the order of the files."""
    found = [finding for table in rules.tables.values() for finding in lint_table(table, rules, steps)]
    return ordered(found)


def ordered(found: Sequence[Finding]) -> list[Finding]:
    """Sort findings: worst first, then by place."""
    return sorted(found, key=lambda finding: (LEVELS.index(finding.level), finding.place, finding.code))


def lint_table(table: Table, rules: RuleSet, steps: int = STEPS) -> Iterator[Finding]:
    """Check one table over its whole space; at most `steps` boxes are looked at for each question."""
    abilities = rules.abilities.get(table.targets, {})
    try:
        regions = regions_of(table, abilities, rules.vocabulary)
    except (TooManyError, BudgetError) as error:
        message = f"table `{table.name}` is not checked: {str(error) or 'a row falls into too many boxes'}"
        yield Finding("open-question", table.place, message)
        return
    check = _Check(regions, abilities, steps)
    for at in range(len(table.rows)):
        yield from check.row(at)
    yield from check.same_when()


@dataclass(frozen=True, slots=True)
class _Check:
    """The questions that are asked about the rows of one table."""

    regions: Regions
    abilities: Mapping[str, Condition]
    steps: int

    def row(self, at: int) -> Iterator[Finding]:
        """Ask everything about one row; a question that takes too long is left open, and told."""
        row = self.regions.table.rows[at]
        if not self.regions.held[at]:
            yield self.never(at)
            return
        for ask, question in (
            (self.shadowed, "whether the rows before it leave it anything"),
            (self.cannot_run, "where its target cannot run"),
            (self.implied, "whether one of its conditions is implied"),
        ):
            try:
                found = list(ask(at))
            except BudgetError:
                message = f"row `{row.id}`: {question} was not found out in {self.steps} steps"
                yield Finding("open-question", row.place, message, rows=(row.name,))
                continue
            yield from found
            if any(finding.code == "shadowed" for finding in found):
                return

    def never(self, at: int) -> Finding:
        """Tell of a row that nothing meets."""
        row = self.regions.table.rows[at]
        if not self.regions.wished[at]:
            return Finding(
                "never-fires", row.place, f"row `{row.id}` never fires: its conditions contradict each other"
            )
        message = f"row `{row.id}` never fires: `{row.target}` cannot run where its conditions hold"
        return Finding("never-fires", row.place, message, self.shown(self.regions.wished[at][0]))

    def shadowed(self, at: int) -> Iterator[Finding]:
        """Tell of a row of which the rows before it leave nothing, or not all."""
        row, used = self.regions.table.rows[at], set[int]()
        left = next(self.regions.left(at, Budget(self.steps), used), None)
        if left is None:
            names = self.named(sorted(used))
            message = f"row `{row.id}` never fires: {listing(names)} before it {_takes(names)} all that meets it"
            yield Finding("shadowed", row.place, message, self.shown(self.regions.held[at][0]), names)
            return
        earlier = self.earlier(at)
        if earlier:
            names = self.named(earlier)
            shared = self.shared(at, earlier[0])
            more = f" and {len(names) - 1} more before it take" if len(names) > 1 else " takes"
            message = (
                f"row `{row.id}` fires only partly: {names[0]}{more} part of it, such as {told(shared, self.space)}"
            )
            yield Finding("partly-shadowed", row.place, message, self.shown(shared), names)

    def earlier(self, at: int) -> list[int]:
        """Give the rows before one that share a situation with it."""
        index = self.regions.index
        before = index.below(at)
        touched = 0
        for box in self.regions.held[at]:
            touched |= index.touching(box, before)
        return sorted({index.owners[number] for number in bits(touched)})

    def shared(self, at: int, other: int) -> Box:
        """Give a box that two rows share."""
        return next(
            box
            for one in self.regions.held[at]
            for two in self.regions.held[other]
            if (box := meet(one, two)) is not None
        )

    def cannot_run(self, at: int) -> Iterator[Finding]:
        """Tell of a preference for what cannot run in a situation that the row admits and no earlier row takes."""
        row, budget = self.regions.table.rows[at], Budget(self.steps)
        if row.action != "use" or row.read_from:
            return
        before = self.regions.index.below(at)
        for box in self.regions.wished[at]:
            for part in without(box, self.regions.held[at], budget):
                left = next(self.regions.index.uncovered(part, before, budget), None)
                if left is not None:
                    message = (
                        f"row `{row.id}` prefers `{row.target}` where it cannot run, such as {told(left, self.space)}"
                    )
                    yield Finding("cannot-run", row.place, message, self.shown(left), (row.name,))
                    return

    def implied(self, at: int) -> Iterator[Finding]:
        """Tell of conditions without which the row would win just as often."""
        row = self.regions.table.rows[at]
        parts = row.when.parts if isinstance(row.when, Both) else (row.when,)
        if row.read_from and row.action == "use":
            return
        where, needs = Where(self.space), Both(tuple(needs_of(row, self.abilities)))
        before, budget = self.regions.index.below(at), Budget(self.steps)
        for number, part in enumerate(parts):
            others = Both((*parts[:number], *parts[number + 1 :], needs))
            wider = [piece for box in where.holds(others) for piece in without(box, self.regions.held[at], budget)]
            left = (next(self.regions.index.uncovered(box, before, budget), None) for box in wider)
            if any(box is not None for box in left):
                continue
            by = "the rows before it" if wider else "the other conditions and what the target needs"
            names = listing([f"`{name}`" for name in dict.fromkeys(test.fact for test in tests(part))])
            message = f"row `{row.id}`: its condition on {names} changes nothing, {by} imply it"
            yield Finding("implied-condition", next(tests(part)).place, message, None, (row.name,))

    def same_when(self) -> Iterator[Finding]:
        """Tell of rows with the same condition, where what their targets need does not tell them apart."""
        seen: dict[object, Row] = {}
        for row in self.regions.table.rows:
            if not row.conditional:
                continue
            key = (written(row.when), self.needed(row))
            first = seen.setdefault(key, row)
            if first is not row:
                message = (
                    f"row `{row.id}` has the condition of `{first.id}` in line {first.place.line}, which goes before it"
                )
                yield Finding("same-when", row.place, message, None, (row.name, first.name))

    def needed(self, row: Row) -> object:
        """Give what the target of a row needs, so that rows can be compared by it."""
        if row.action == "use" and row.read_from:
            return row.read_from
        return tuple(need for need in map(written, needs_of(row, self.abilities)) if need != written(ALWAYS))

    @property
    def space(self) -> Space:
        """The space of the table."""
        return self.regions.space

    def named(self, rows: Sequence[int]) -> tuple[str, ...]:
        """Give the ids of rows, in quotes."""
        return tuple(f"`{self.regions.table.rows[at].id}`" for at in rows)

    def shown(self, box: Box) -> Mapping[str, Value]:
        """Give a situation in a box."""
        return witness(box, self.regions)


def _takes(names: Sequence[str]) -> str:
    return "takes" if len(names) == 1 else "take"


def written(condition: Condition) -> object:
    """Give what a condition says, without where it stands, so that two of them can be compared."""
    if isinstance(condition, Test):
        unknown, special = condition.at_unknown, condition.special
        return (condition.fact, condition.op, condition.mentions, condition.at_null, unknown, special)
    if isinstance(condition, Not):
        return ("not", written(condition.part))
    kind = "any" if isinstance(condition, Either) else "all"
    return (kind, frozenset(written(part) for part in condition.parts))
