"""What another table answers where a row wins: each box, in its order, and how many steps that takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from selector.analysis.boxes import Budget, BudgetError, Index, meet
from selector.analysis.regions import Regions, asked_by, regions_of
from selector.analysis.space import Box, make_space
from selector.analysis.winners import Wins, joint
from selector.ruleset import shipped
from tests.selector.analysis.small_rules import table_of

OWN = (
    "id: a, when: {mask_free: true}, use: A", "id: b, when: {any: [{compile: true}, {mask_free: false}]}, use: B",
    "id: c, use: C",
)  # fmt: skip
OTHER = (
    "id: a, when: {compile: false}, use: A", "id: b, when: {mask_free: [true, false]}, use: B",
    "id: d, when: {compile: true}, use: B",
)  # fmt: skip


def sides(first: Sequence[str] = OWN, second: Sequence[str] = OTHER) -> tuple[Regions, Regions]:
    """Work both tables out over `mask_free` and `compile`; of each, class 1 is not known, 2 is true and 4 is false."""
    words = shipped().vocabulary
    tables = [table_of("platform_default", rows) for rows in (first, second)]
    space = make_space([test for table in tables for test in asked_by(table, {}, words)], words)
    own, other = (regions_of(table, {}, words, space) for table in tables)
    return own, other


def wins(row: int, passed: Sequence[int | None] = (), boxes: Sequence[Box] | None = None) -> Wins:
    """Give the wins of a row of the one table, within all that meets it or within some boxes."""
    own, other = sides()
    return Wins(own, other, row, own.held[row] if boxes is None else boxes, joint(own.index, other.index), passed)


@pytest.mark.parametrize(
    ("row", "pieces", "steps"),
    [
        (0, [(0, (2, 4)), (1, (2, 3))], 3),
        (1, [(1, (4, 2)), (2, (1, 2)), (0, (4, 4)), (1, (4, 1))], 8),
        (2, [(0, (1, 4)), (None, (1, 1))], 6),
    ],
)
def test_wins_are_cut_by_what_the_other_table_answers(
    row: int, pieces: list[tuple[int | None, Box]], steps: int
) -> None:
    """Each situation once, though the boxes of a row overlap; what no row answers is a piece too."""
    assert list(wins(row).pieces(Budget(steps))) == pieces
    with pytest.raises(BudgetError):
        list(wins(row).pieces(Budget(steps - 1)))


@pytest.mark.parametrize(
    ("own", "other", "pieces"),
    [
        (["id: a, use: A"], ["id: a, when: {mask_free: true, compile: true}, use: A"],
         [(0, (2, 2)), (None, (2, 5)), (None, (5, 7))]),
        (["id: a, use: A"], ["id: a, use: A"], [(0, ())]),
    ],
)  # fmt: skip
def test_another_table_may_leave_much_without_an_answer(
    own: list[str], other: list[str], pieces: list[tuple[int | None, Box]]
) -> None:
    """Each part of that is a piece."""
    one, two = sides(own, other)

    assert list(Wins(one, two, 0, one.held[0], joint(one.index, two.index)).pieces(Budget())) == pieces


def test_of_another_table_that_never_answers_nothing_is_asked() -> None:
    """All of the wins are one piece."""
    own, _ = sides(["id: a, use: A"], ["id: a, use: A"])
    other = replace(own, held=(), index=Index([], []))

    assert list(Wins(own, other, 0, own.held[0], joint(own.index, other.index)).pieces(Budget())) == [(None, ())]


@pytest.mark.parametrize(
    ("row", "boxes", "pieces"),
    [
        (0, [], []),
        (0, [(6, 1)], [(1, (2, 1))]),
        (1, [(1, 2), (5, 2)], [(2, (1, 2)), (1, (4, 2))]),
        (2, [(1, 3)], [(None, (1, 1))]),
    ],
)
def test_only_what_is_asked_about_is_cut(row: int, boxes: list[Box], pieces: list[tuple[int | None, Box]]) -> None:
    """Rows that stand before it there take what is theirs all the same."""
    within = [box for held in wins(row).boxes for one in boxes if (box := meet(one, held)) is not None]

    assert list(wins(row, boxes=within).pieces(Budget())) == pieces


@pytest.mark.parametrize(
    ("passed", "pieces"),
    [
        ([1], [(2, (1, 2)), (0, (4, 4))]),
        ([0, 2], [(1, (4, 2)), (1, (4, 1))]),
        ([None], [(1, (4, 2)), (2, (1, 2)), (0, (4, 4)), (1, (4, 1))]),
    ],
)
def test_winners_are_passed_over(passed: list[int | None], pieces: list[tuple[int | None, Box]]) -> None:
    """They still take what is theirs from those after them."""
    assert list(wins(1, passed).pieces(Budget())) == pieces


def test_that_no_row_wins_may_be_passed_over_too() -> None:
    """It is told elsewhere as well."""
    assert list(wins(2, [None]).pieces(Budget())) == [(0, (1, 4))]


@pytest.mark.parametrize(
    ("row", "winner", "example", "steps"),
    [
        (0, 0, (2, 4), 1), (0, 1, (2, 3), 2), (0, 2, None, 1), (0, None, None, 1),
        (1, 0, (4, 4), 1), (1, 1, (4, 2), 2), (1, 2, (1, 2), 2), (1, None, None, 2),
        (2, 0, (1, 4), 3), (2, 1, None, 2), (2, 2, None, 1), (2, None, (1, 1), 4),
    ],
)  # fmt: skip
def test_an_example_of_each_winner_is_found_where_there_is_one(
    row: int, winner: int | None, example: Box | None, steps: int
) -> None:
    """Without cutting all the rest."""
    assert wins(row).example(winner, Budget(steps)) == example
    with pytest.raises(BudgetError):
        wins(row).example(winner, Budget(steps - 1))


@pytest.mark.parametrize(
    ("boxes", "around"),
    [([(2, 4)], (2, 4)), ([(2, 4), (4, 4)], (6, 4)), ([(2, 4), (4, 1), (2, 2)], (6, 7)), ([], (0, 0))],
)
def test_one_box_lies_around_all_wins(boxes: list[Box], around: Box) -> None:
    """As small as it can."""
    assert wins(0, boxes=boxes).around() == around


@pytest.mark.parametrize("box", [(1,), (1, 1, 1)])
def test_boxes_of_another_space_are_no_wins(box: Box) -> None:
    """They have other variables."""
    with pytest.raises(ValueError, match="zip"):
        wins(0, boxes=[box]).around()


def test_an_index_of_both_tables_holds_the_boxes_of_the_one_first() -> None:
    """With their owners."""
    found = joint(Index([(1,), (2,)], [0, 3]), Index([(4,)], [1]))

    assert (found.boxes, found.owners) == ([(1,), (2,), (4,)], [0, 3, 1])
    assert found.touching((6,), 0b111) == 0b110
