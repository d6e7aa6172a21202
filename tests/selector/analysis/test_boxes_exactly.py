"""Which boxes come out, in which order, and how many steps that takes."""

from __future__ import annotations

import pytest

from selector.analysis import boxes as module
from selector.analysis.boxes import STEPS, Budget, BudgetError, Index, disjoint, meet, merged, minus, within, without
from selector.analysis.space import Box


def test_boxes_of_two_spaces_are_not_compared() -> None:
    """They have no variable in common."""
    for compare in (meet, within):
        for one, other in (((1,), (1, 1)), ((1, 1), (1,))):
            with pytest.raises(ValueError, match="zip"):
                compare(one, other)


def test_a_budget_takes_the_steps_that_are_spent() -> None:
    """Down to none; one more than it has ends it."""
    assert Budget().left == STEPS
    budget = Budget(5)
    budget.spend()
    budget.spend(2)

    assert budget.left == 2
    with pytest.raises(BudgetError):
        budget.spend(3)


def test_what_a_part_of_a_budget_takes_the_whole_loses_too() -> None:
    """Whichever ends first ends both."""
    whole = Budget(5)
    part = whole.part(3)
    part.spend(2)

    assert (part.left, whole.left) == (1, 3)
    with pytest.raises(BudgetError):
        part.spend(2)
    other = whole.part(9)
    other.spend(3)
    with pytest.raises(BudgetError):
        other.spend()


@pytest.mark.parametrize(
    ("box", "taken", "left"),
    [
        ((3, 3), (1, 1), [(2, 3), (1, 2)]),
        ((3, 3), (3, 1), [(3, 2)]),
        ((3, 3), (5, 1), [(2, 3), (1, 2)]),
        ((3, 3), (3, 3), []),
        ((3, 3), (4, 3), [(3, 3)]),
        ((3, 3), (3, 4), [(3, 3)]),
        ((7, 7, 7), (1, 3, 5), [(6, 7, 7), (1, 4, 7), (1, 3, 2)]),
    ],
)
def test_what_is_left_is_cut_variable_by_variable(box: Box, taken: Box, left: list[Box]) -> None:
    """The first part differs in the first variable, and the next ones agree in it with what is taken."""
    assert list(minus(box, taken)) == left


def test_what_others_leave_costs_a_step_for_each_part() -> None:
    """Until nothing is left; what is taken afterwards costs nothing."""
    budget = Budget(10)

    assert without((3, 3), [(1, 1), (2, 2)], budget) == [(2, 1), (1, 2)]
    assert budget.left == 7
    assert without((1, 1), [(1, 1), (1, 1), (1, 1)], budget) == []
    assert budget.left == 6
    assert without((1, 1), [], budget) == [(1, 1)]
    assert budget.left == 6


def test_making_boxes_apart_costs_a_step_for_each_comparison() -> None:
    """The first keeps all that it holds."""
    budget = Budget(10)

    assert disjoint([(3, 1), (2, 3), (1, 1), (4, 4)], budget) == [(3, 1), (2, 2), (4, 4)]
    assert budget.left == 6


@pytest.mark.parametrize(
    ("boxes", "joined"),
    [
        ([(1, 1), (2, 1)], [(3, 1)]),
        ([], []),
        ([()], [()]),
        ([(1, 1), (1, 2)], [(1, 3)]),
        ([(2, 2), (4, 2)], [(6, 2)]),
        ([(1, 1), (2, 2)], [(1, 1), (2, 2)]),
        ([(1, 1), (1, 1)], [(1, 1)]),
        ([(1, 1), (2, 1), (3, 2)], [(3, 3)]),
        ([(4, 3), (3, 2), (1, 1), (2, 1)], [(7, 3)]),
        ([(1, 1, 1), (1, 2, 1), (1, 3, 2), (2, 3, 3)], [(3, 3, 3)]),
    ],
)
def test_boxes_are_joined_until_none_are_left_to_join(boxes: list[Box], joined: list[Box]) -> None:
    """In one variable after the other, and again where that made more of them alike."""
    assert merged(boxes) == joined


def test_the_index_notes_the_boxes_of_each_class() -> None:
    """One bit for each box, for as many classes as the boxes have."""
    index = Index([(1, 2), (3, 2), (4, 8)], [0, 0, 1])

    assert index.holding == [[0b011, 0b010, 0b100], [0, 0b011, 0, 0b100]]
    assert Index([], []).holding == []


def test_a_class_in_no_box_is_touched_and_held_by_none() -> None:
    """Whether it lies behind the last one or between."""
    index = Index([(1, 2), (3, 2)], [0, 1])

    assert [index.touching((mask, 2), 0b11) for mask in (1, 2, 3, 4, 8, 5)] == [0b11, 0b10, 0b11, 0, 0, 0b11]
    assert [index.around((mask, 2), 0b11) for mask in (1, 2, 3, 4, 8, 5)] == [0b11, 0b10, 0b10, 0, 0, 0]
    assert [index.touching((1, mask), 0b11) for mask in (1, 2, 4)] == [0, 0b11, 0]


def test_the_index_answers_among_any_of_the_boxes() -> None:
    """What it has found for all of them serves for some."""
    index = Index([(1, 1), (3, 1), (2, 3)], [0, 1, 2])

    assert [index.touching((3, 1), among) for among in (0b111, 0b010, 0b101, 0)] == [0b111, 0b010, 0b101, 0]
    assert [index.around((1, 1), among) for among in (0b111, 0b010, 0b101, 0)] == [0b011, 0b010, 0b001, 0]
    assert [index.around((3, 1), among) for among in (0b111, 0b101)] == [0b010, 0]


def test_the_boxes_of_owners_before_one() -> None:
    """Owners may have several boxes, or none."""
    index = Index([(1,), (1,), (1,), (1,)], [0, 0, 2, 3])

    assert [index.below(owner) for owner in range(5)] == [0, 0b11, 0b11, 0b111, 0b1111]


@pytest.mark.parametrize(
    ("boxes", "box", "left", "steps", "used"),
    [
        ([(1, 1)], (3, 3), [(1, 2), (2, 3)], 3, {10}),
        ([(5, 1)], (3, 3), [(1, 2), (2, 3)], 3, {10}),
        ([(3, 3)], (3, 3), [], 1, {10}),
        ([(3, 3), (7, 3)], (3, 3), [], 1, {10}),
        ([(4, 3)], (3, 3), [(3, 3)], 1, set()),
        ([(4, 3), (3, 3), (7, 7)], (3, 3), [], 1, {11}),
        ([(1, 3), (3, 3)], (3, 3), [], 1, {11}),
        ([(1, 3), (2, 3)], (3, 3), [], 2, {10, 11}),
        ([(1, 3), (2, 1)], (3, 3), [(2, 2)], 3, {10, 11}),
        ([(1, 1), (3, 1)], (3, 3), [(3, 2)], 2, {11}),
        ([(1, 1), (1, 2)], (3, 3), [(2, 3)], 3, {10, 11}),
    ],
)
def test_what_no_box_covers(boxes: list[Box], box: Box, left: list[Box], steps: int, used: set[int]) -> None:
    """A step for each part that is looked at; the owners that were needed are told, of several the first."""
    index, budget, told = Index(boxes, range(10, 10 + len(boxes))), Budget(9), set[int]()
    everything = (1 << len(boxes)) - 1

    assert list(index.uncovered(box, everything, budget, told)) == left
    assert (9 - budget.left, told) == (steps, used)
    assert list(index.uncovered(box, everything, Budget(steps))) == left
    with pytest.raises(BudgetError):
        list(index.uncovered(box, everything, Budget(steps - 1)))


@pytest.mark.parametrize(("among", "left"), [(0b01, [(1, 2), (2, 3)]), (0b10, [(1, 1), (2, 3)]), (0b11, [(2, 3)])])
def test_only_the_boxes_that_count_cover(among: int, left: list[Box]) -> None:
    """Whatever others there are."""
    assert list(Index([(1, 1), (1, 2)], [0, 1]).uncovered((3, 3), among, Budget())) == left


@pytest.mark.parametrize(
    ("boxes", "best", "whole"),
    [
        ([(15, 15, 15, 15)], 0, True),
        ([(7, 15, 15, 15)], 0, False),
        ([(7, 15, 15, 15), (15, 15, 15, 15)], 1, True),
        ([(15, 15, 15, 15), (15, 15, 15, 15)], 0, True),
        ([(7, 7, 15, 15), (7, 15, 15, 15)], 1, False),
        ([(7, 7, 15, 15), (15, 15, 7, 15)], 1, False),
        ([(7, 7, 7, 15), (15, 7, 7, 15)], 1, False),
        ([(7, 7, 7, 15), (15, 1, 15, 1)], 1, False),
        ([(7, 7, 7, 7), (15, 7, 7, 7)], 0, False),
        ([(15, 15, 7, 7), (15, 15, 15, 1)], 1, False),
    ],
)
def test_the_best_box_falls_short_in_the_fewest_variables(
    boxes: list[Box], best: int, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Up to three are counted; of several the first."""
    monkeypatch.setattr(module, "_FEW", 0)
    index, box = Index(boxes, range(len(boxes))), (15, 15, 15, 15)

    assert index._best(box, (1 << len(boxes)) - 1) == (best, whole)
    assert index._best(box, 1 << len(boxes) - 1) == (len(boxes) - 1, boxes[-1] == box)


@pytest.mark.parametrize(
    ("boxes", "best"),
    [
        ([(1, 15), (7, 15)], 1),
        ([(1, 15), (15, 7)], 1),
        ([(3, 15), (15, 3)], 0),
        ([(1, 31), (30, 1)], 0),
        ([(7, 7), (1, 15)], 1),
        ([(16, 7), (1, 7)], 1),
    ],
)
def test_of_few_boxes_the_best_leaves_the_fewest_classes(
    boxes: list[Box], best: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Among those that fall short in the fewest variables; of many boxes it is not counted."""
    index = Index(boxes, range(len(boxes)))

    assert index._best((15, 15), 0b11) == (best, False)
    monkeypatch.setattr(module, "_FEW", 2)
    assert index._best((15, 15), 0b11) == (best, False)
    monkeypatch.setattr(module, "_FEW", 1)
    assert index._best((15, 15), 0b11) == (0 if boxes[0] != (7, 7) else 1, False)


def test_the_classes_that_a_box_leaves_are_counted_over_all_variables() -> None:
    """Those that it has beyond the other one do not count."""
    index = Index([(3, 1), (31, 16)], [0, 1])

    assert [index._outside((15, 7), number) for number in (0, 1)] == [4, 3]
    for box in ((15,), (15, 7, 1)):
        with pytest.raises(ValueError, match="zip"):
            index._outside(box, 0)
