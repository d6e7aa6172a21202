"""What tables that are laid out by columns keep, and what they say where no row holds."""

from __future__ import annotations

import pytest

from selector.rules.columns import MOST_VALUES, Columns, by_columns
from tests.selector.rules.language import condition, table

ROWS = "".join(f"  - {{id: r{at}, when: {{steps: {at}}}, use: A, because: x}}\n" for at in range(60))


def test_where_no_row_holds_none_is_found() -> None:
    """The number of the row otherwise; however many there are."""
    columns = Columns(table(f"table: t\nrows:\n{ROWS}"), {})

    assert [columns.find({"steps": at}) for at in range(-1, 61)] == [-1, *range(60), -1]
    assert columns.find({}) == -1


def test_where_no_row_holds_none_is_found_after_all_are_asked() -> None:
    """Conditions over several facts are asked row by row."""
    either = "  - {id: e, when: {any: [{causal: true}, {mask_free: true}]}, use: B, because: x}\n"
    columns = Columns(table(f"table: t\nrows:\n{either}{ROWS}"), {"A": condition("not: {head_dim: 64, role: x}")})

    assert columns.find({"steps": 59, "causal": True}) == 0
    assert columns.find({"steps": 59}) == -1
    assert columns.find({"steps": 59, "head_dim": 63, "causal": False, "mask_free": False}) == 60
    assert columns.find({"steps": 60, "head_dim": 63}) == -1
    assert columns.find({"steps": 59, "head_dim": 64, "role": "x"}) == -1


@pytest.mark.parametrize("more", [0, 1, 5])
def test_values_are_forgotten_when_there_are_too_many(more: int) -> None:
    """All at once, and what is met again is found out again."""
    columns = Columns(table(f"table: t\nrows:\n{ROWS}"), {})
    ((_, column),) = columns.columns
    decide = by_columns(columns, range(60))

    found = [decide({"steps": at}) for at in range(MOST_VALUES + more)]

    assert found[:61] == [*range(60), None]
    assert len(column) == (more or MOST_VALUES)
    assert decide({"steps": 5}) == 5
