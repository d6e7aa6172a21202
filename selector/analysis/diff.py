"""`diff`: in which situations two rule sets decide differently, as boxes that do not overlap."""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from selector.analysis.boxes import Budget, BudgetError, Index, disjoint, meet, merged, minus
from selector.analysis.lint import written
from selector.analysis.regions import Regions, Where, asked_by, needs_of, regions_of, told, witness
from selector.analysis.space import Box, Space, known_in, make_space, size
from selector.analysis.values import TooManyError
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Fact, Value, Vocabulary
from selector.rules.walk import Abilities
from selector.ruleset import RuleSet

STEPS = 200_000
_BESIDE = ("models", "roles", "warnings")
_CHOOSING = "explicit"
_NAMED = "backend"


@dataclass(frozen=True, slots=True)
class Change:
    """Situations in which a table answers otherwise: where (in words and as a box), by which rows, and an example.

    `before` and `after` are what the rows do (``use CUDNN_ATTN``), or None where no row holds. `cells` counts classes
    of situations that no test of either set can tell apart.
    """

    table: str
    where: str
    before: str | None
    after: str | None
    rows: tuple[str | None, str | None]
    cells: int
    example: Mapping[str, Value]
    box: Box

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {
            "table": self.table, "where": self.where, "before": self.before, "after": self.after,
            "rows": list(self.rows), "cells": self.cells, "example": dict(self.example),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableDiff:
    """What changes in one table; `open` says why the answer is not complete, where it is not."""

    table: str
    changes: tuple[Change, ...]
    space: Space | None = field(default=None, compare=False, repr=False)
    open: str | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """What changes between two rule sets. `beside` names what else differs: models, roles and warnings."""

    tables: tuple[TableDiff, ...]
    beside: tuple[str, ...]
    digests: tuple[str, str]

    @property
    def changed(self) -> bool:
        """Whether anything decides otherwise, may do so, or is said otherwise."""
        return bool(self.beside) or any(table.changes or table.open for table in self.tables)


def diff(old: RuleSet, new: RuleSet, steps: int = STEPS) -> Diff:
    """Compare two rule sets over every situation."""
    names = list(dict.fromkeys([*old.tables, *new.tables]))
    tables = tuple(_table(name, old, new, steps) for name in names)
    return Diff(tables, tuple(_beside(old, new)), (old.digest, new.digest))


def _beside(old: RuleSet, new: RuleSet) -> Iterator[str]:
    """Name entries of the other files that differ; what backends are said to be unverified for is among them."""
    for kind in _BESIDE:
        before, after = (dict(_entries(rules, kind)) for rules in (old, new))
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                how = "new" if name not in before else "gone" if name not in after else "changed"
                yield f"{kind}: {name} ({how})"
    for name in dict.fromkeys([*old.backends, *new.backends]):
        told = [_cautions(rules, name) for rules in (old, new)]
        if told[0] != told[1]:
            yield f"backends: what is unverified about {name} (changed)"


def _entries(rules: RuleSet, kind: str) -> Iterator[tuple[str, object]]:
    node = rules.content[kind].value
    section = node.get(kind) if isinstance(node, dict) else None
    if section is None:
        return
    if isinstance(section.value, dict):
        yield from ((name, child.plain()) for name, child in section.value.items())
    elif isinstance(section.value, list):
        for at, child in enumerate(section.value):
            plain = child.plain()
            names = plain.get("names", [plain.get("id", at)]) if isinstance(plain, dict) else [at]
            yield from ((str(name), plain) for name in (names if isinstance(names, list) else [names]))


def _cautions(rules: RuleSet, name: str) -> object:
    backend = rules.backends.get(name)
    return None if backend is None else [(written(one.when), one.warn) for one in backend.unverified]


# --- one table ----------------------------------------------------------------------------------------------------


def _table(name: str, old: RuleSet, new: RuleSet, steps: int) -> TableDiff:
    before, after = old.tables.get(name), new.tables.get(name)
    if before is None or after is None:
        return TableDiff(name, (), open="the table is new" if before is None else "the table is gone")
    try:
        return _compared(before, after, old, new, steps)
    except (TooManyError, BudgetError) as error:
        why = str(error) or f"the answer takes more than {steps} steps"
        return TableDiff(name, (), open=why)


def _compared(before: Table, after: Table, old: RuleSet, new: RuleSet, steps: int) -> TableDiff:
    abilities = [rules.abilities.get(table.targets, {}) for rules, table in ((old, before), (new, after))]
    signed = [_signed(table, able) for table, able in zip((before, after), abilities, strict=True)]
    stays = _stable(*signed)
    if all(len(stays) == len(rows) for rows in signed) and before.requires == after.requires:
        return TableDiff(before.name, ())
    words = _union(old.vocabulary, new.vocabulary)
    asked = [test for table, able in zip((before, after), abilities, strict=True)
             for test in asked_by(table, able, words)]  # fmt: skip
    known = known_in(before, old.vocabulary) & known_in(after, new.vocabulary)
    space = make_space(asked, words, known, engine=False)
    sides = [regions_of(table, able, words, space) for table, able in zip((before, after), abilities, strict=True)]
    budget = Budget(steps)
    domain = [box for side, rows in zip(sides, signed, strict=True)
              for at, row in enumerate(rows) if row not in stays for box in side.held[at]]  # fmt: skip
    found: dict[tuple[int | None, int | None], list[Box]] = {}
    domain = list(_told_here(domain, before, abilities, space))
    for box in disjoint(domain, budget):
        for one, part in _winners(sides[0].index, box, budget):
            for two, piece in _winners(sides[1].index, part, budget):
                if _outcome(before, one) != _outcome(after, two):
                    found.setdefault((one, two), []).append(piece)
    changes = tuple(_changes(found, sides, space))
    return TableDiff(before.name, changes, space)


def _told_here(domain: Sequence[Box], table: Table, abilities: Sequence[Abilities], space: Space) -> Iterator[Box]:
    """Leave out, for tables that are asked about a backend that was chosen, what changes who can be chosen.

    That is told where it is chosen; here only situations count in which both sets let the backend run.
    """
    if table.name == _CHOOSING or _NAMED not in table.requires or not table.requires or not abilities[0]:
        yield from domain
        return
    where, able = Where(space), list[Box]()
    names = [test for test in space.tests if test.fact == _NAMED and test.op == "equals" and not test.place.file]
    for test in names:
        needs = [side[name] for side in abilities for name in [str(test.mentions[0])] if name in side]
        if len(needs) == len(abilities):
            found = where.holds(test)
            for need in needs:
                found = where.both(found, where.holds(need))
            able += found
    yield from where.both(domain, able)


def _signed(table: Table, abilities: Abilities) -> list[object]:
    """Give what makes a row what it is: its id, what it does, when, and what its target needs."""
    return [
        (row.id, _does(row), written(row.when), tuple(map(written, needs_of(row, abilities)))) for row in table.rows
    ]


def _does(row: Row) -> tuple[object, ...]:
    target = "" if row.action == "refuse" else row.target  # the words of a refusal are no other decision
    return (row.action, target, row.transform, tuple(sorted(row.redecide.items())))


def _stable(old: Sequence[object], new: Sequence[object]) -> set[object]:
    """Give the rows that are the same and stand in the same order: a longest such series."""
    place = {row: at for at, row in enumerate(new)}
    common = [row for row in old if row in place]
    tails: list[int] = []
    last: list[object] = []
    before: dict[object, object] = {}
    for row in common:
        at = bisect.bisect_left(tails, place[row])
        if at:
            before[row] = last[at - 1]
        tails[at:at + 1], last[at:at + 1] = [place[row]], [row]  # fmt: skip
    found: set[object] = set()
    here = last[-1] if last else None
    while here is not None:
        found.add(here)
        here = before.get(here)
    return found


def _winners(index: Index, box: Box, budget: Budget) -> Iterator[tuple[int | None, Box]]:
    """Cut a box into parts, each with the row that wins in all of it, or None where no row holds."""
    waiting = [box]
    everything = (1 << len(index.boxes)) - 1
    while waiting:
        here = waiting.pop()
        budget.spend()
        touching = index.touching(here, everything)
        if not touching:
            yield None, here
            continue
        number = (touching & -touching).bit_length() - 1
        shared = meet(here, index.boxes[number])
        if shared is not None:
            yield index.owners[number], shared
        waiting += minus(here, index.boxes[number])


def _outcome(table: Table, row: int | None) -> object:
    return None if row is None else _does(table.rows[row])


def _changes(
    found: Mapping[tuple[int | None, int | None], list[Box]], sides: Sequence[Regions], space: Space
) -> Iterator[Change]:
    """Join and sort the parts, and tell each."""
    before, after = sides[0].table, sides[1].table
    for one, two in sorted(found, key=lambda rows: tuple(-1 if row is None else row for row in rows)):
        for box in sorted(merged(found[one, two]), reverse=True):
            rows = tuple(None if at is None else table.rows[at] for table, at in ((before, one), (after, two)))
            yield Change(
                before.name, told(box, space), _words(rows[0]), _words(rows[1]),
                (rows[0].id if rows[0] else None, rows[1].id if rows[1] else None),
                size(box), witness(box, sides[1]), box,
            )  # fmt: skip


def _words(row: Row | None) -> str | None:
    """Say what a row does."""
    if row is None:
        return None
    return "refuse" if row.action == "refuse" else f"{row.action} {row.target}"


def _union(old: Vocabulary, new: Vocabulary) -> Vocabulary:
    """Give the words of both sets; a fact that both know takes the values of both."""
    facts: dict[str, Fact] = dict(old.facts)
    for name, fact in new.facts.items():
        known = facts.get(name)
        values = tuple(dict.fromkeys([*known.values, *fact.values])) if known and known.values and fact.values else ()
        facts[name] = replace(fact, values=values) if values else fact
    derived = {one.name: one for one in (*old.derived, *new.derived)}
    return Vocabulary(facts, {**old.sets, **new.sets}, {**old.packages, **new.packages}, tuple(derived.values()))


# --- machines that there really are -------------------------------------------------------------------------------


def narrowed(found: Diff, kept: Sequence[Change]) -> Diff:
    """Give the same with some of its changes alone."""
    ids = {id(change) for change in kept}
    tables = [
        replace(table, changes=tuple(change for change in table.changes if id(change) in ids)) for table in found.tables
    ]
    return replace(found, tables=tuple(tables))


def on_machine(table: TableDiff, machine: Mapping[str, Value], vocabulary: Vocabulary) -> list[Change]:
    """Give the changes that concern a machine: those that its facts leave possible."""
    space = table.space
    if space is None:
        return []
    own = {fact.name for fact in vocabulary.group.get("machine", ())}
    box = tuple(_possible(space, at, machine, own) for at in range(len(space.variables)))
    return [change for change in table.changes if meet(change.box, box) is not None]


def _possible(space: Space, at: int, machine: Mapping[str, Value], own: set[str]) -> int:
    """Give the classes of one variable in which the machine's own facts answer as they do."""
    asked = [test for test in space.tests if space.of(test).variable == at and test.fact in own]
    mask = space.variables[at].full
    for test in asked:
        answers = space.of(test)
        held = test.holds(machine)
        undetermined = space.variables[at].full & ~answers.true & ~answers.false
        mask &= answers.true if held else answers.false if held is False else undetermined
    return mask
