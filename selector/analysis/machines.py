"""Which changes concern machines that there really are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from selector.analysis.boxes import meet
from selector.analysis.diff import Change, Diff, TableDiff
from selector.analysis.space import Space
from selector.rules.vocabulary import Value, Vocabulary


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
    own = {fact.name for fact in vocabulary.group["machine"]}
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
