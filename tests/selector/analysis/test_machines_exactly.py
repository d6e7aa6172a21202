"""Which changes concern a machine, by each of its facts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from selector.analysis.diff import Diff, TableDiff, diff
from selector.analysis.machines import narrowed, on_machine
from selector.rules.vocabulary import Value
from selector.ruleset import shipped
from tests.selector.analysis.small_rules import rules_of

ROWS = (
    "id: a, when: {cudnn: '>=9.5', mask_free: true}, use: CUDNN_ATTN",
    "id: b, when: {cudnn: '>=9.5'}, use: FLASH_ATTN",
    "id: c, when: {not: {cudnn: '>=9.5'}, role: self}, use: SAGE_ATTN",
    "id: d, use: TORCH_SDPA",
)
NEW, UNMASKED = "cudnn >=9.5, mask_free true", "cudnn >=9.5, mask_free not true or not known"
SELF, OTHERS, UNKNOWN = "cudnn not >=9.5, role self", "cudnn not >=9.5, role not self", "cudnn not known"


def every_row_changed() -> Diff:
    """Compare the rows with the same that all use another backend."""
    return diff(rules_of(ROWS, {}), rules_of([f"{row.partition(', use')[0]}, use: TRTLLM_ATTN" for row in ROWS], {}))


@pytest.mark.parametrize(
    ("machine", "concerned"),
    [
        ({"cudnn": 90500}, [NEW, UNMASKED]),
        ({"cudnn": 90400}, [SELF, OTHERS]),
        ({"cudnn": None}, [SELF, OTHERS]),
        ({}, [UNKNOWN]),
        ({"cudnn": 90500, "mask_free": False, "role": "cross"}, [NEW, UNMASKED]),
        ({"cudnn": 90400, "role": "cross"}, [SELF, OTHERS]),
        ({"platform": "cpu", "arch": None, "cudnn": 90400}, [SELF, OTHERS]),
    ],
)
def test_what_a_machine_says_of_its_own_facts_counts(machine: Mapping[str, Value], concerned: list[str]) -> None:
    """Whatever a request may say; a fact that is not told is not known."""
    (table,) = [table for table in every_row_changed().tables if table.changes]

    assert [change.where for change in table.changes] == [NEW, UNMASKED, SELF, OTHERS, UNKNOWN]
    assert [change.where for change in on_machine(table, machine, shipped().vocabulary)] == concerned


def test_every_fact_of_a_machine_counts() -> None:
    """A change concerns it where all of them allow it."""
    rows = ("id: a, when: {cudnn: '>=9.5', packages.flash-attn: present}, use: CUDNN_ATTN", "id: d, use: TORCH_SDPA")
    found = diff(rules_of(rows, {}), rules_of((rows[0].replace("CUDNN", "FLASH"), rows[1]), {}))
    (table,) = [table for table in found.tables if table.changes]

    def concerned(cudnn: Value, package: Value) -> bool:
        machine: dict[str, Value] = {"cudnn": cudnn, "packages.flash-attn": package}
        return bool(on_machine(table, machine, shipped().vocabulary))

    assert concerned(90500, "2.8")
    assert not concerned(90500, None)
    assert not concerned(90400, "2.8")


@pytest.mark.parametrize(("cudnn", "row"), [(90800, "a"), (90600, "b"), (90400, "c")])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_every_condition_on_a_fact_counts(cudnn: int, row: str, order: tuple[int, int]) -> None:
    """In whatever order they stand."""
    tests = (
        "id: a, when: {cudnn: '>=9.8'}, use: CUDNN_ATTN",
        "id: b, when: {all: [{cudnn: '>=9.5'}, {cudnn: '<9.8'}]}, use: FLASH_ATTN",
    )
    rows = (*(tests[at] for at in order), "id: c, when: {cudnn: present}, use: SAGE_ATTN", "id: d, use: TORCH_SDPA")
    others = [f"{one.partition(', use')[0]}, use: TRTLLM_ATTN" for one in rows]
    (table,) = [table for table in diff(rules_of(rows, {}), rules_of(others, {})).tables if table.changes]

    assert [change.rows for change in on_machine(table, {"cudnn": cudnn}, shipped().vocabulary)] == [(row, row)]


def test_a_table_that_was_not_compared_concerns_no_machine() -> None:
    """It has no changes."""
    assert on_machine(TableDiff("mine", (), open="the table is new"), {"cudnn": 90500}, shipped().vocabulary) == []


def test_some_of_the_changes_are_kept() -> None:
    """And all else as it was, tables without changes too."""
    whole = every_row_changed()
    changes = [change for table in whole.tables for change in table.changes]

    found = narrowed(whole, [changes[3], changes[1]])

    assert [(table.table, table.changes) for table in found.tables] == [
        (table.table, (changes[1], changes[3]) if table.changes else ()) for table in whole.tables
    ]
    assert [(table.space, table.open) for table in found.tables] == [
        (table.space, table.open) for table in whole.tables
    ]
    assert (found.beside, found.digests) == (whole.beside, whole.digests)
