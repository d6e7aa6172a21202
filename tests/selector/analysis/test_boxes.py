from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.analysis.boxes import Budget, BudgetError, Index, disjoint, meet, merged, minus, within
from selector.analysis.space import Box, bits, size

WIDTH = 3
BOX = st.tuples(*[st.integers(1, 15)] * WIDTH)
BOXES = st.lists(BOX, max_size=6)


def points(boxes: list[Box]) -> list[tuple[int, ...]]:
    """Give every situation of some boxes, as often as it is in them."""
    return [point for box in boxes for point in itertools.product(*(list(bits(mask)) for mask in box))]


def assert_apart(boxes: list[Box]) -> None:
    """Hold that no two boxes share a situation."""
    assert len(points(boxes)) == len(set(points(boxes)))


@settings(max_examples=300, deadline=None)
@given(one=BOX, other=BOX)
def test_two_boxes(one: Box, other: Box) -> None:
    """What they share, whether one lies in the other, and what is left of one."""
    here, there = set(points([one])), set(points([other]))
    shared = meet(one, other)
    left = list(minus(one, other))

    assert set(points([shared] if shared else [])) == here & there
    assert within(one, other) is (here <= there)
    assert set(points(left)) == here - there
    assert_apart(left)
    assert size(one) == len(here)


@settings(max_examples=300, deadline=None)
@given(boxes=BOXES)
def test_boxes_that_do_not_overlap_hold_the_same(boxes: list[Box]) -> None:
    """Made apart, and then joined where they differ in one variable."""
    apart = disjoint(boxes, Budget())
    joined = merged(apart)

    assert set(points(apart)) == set(points(joined)) == set(points(boxes))
    assert_apart(apart)
    assert_apart(joined)
    assert len(joined) <= len(apart)


@settings(max_examples=300, deadline=None)
@given(boxes=BOXES, box=BOX, data=st.data())
def test_the_index_finds_what_touches_holds_and_covers(boxes: list[Box], box: Box, data: st.DataObject) -> None:
    """Among all of the boxes, and among some."""
    owners = sorted(data.draw(st.lists(st.integers(0, 4), min_size=len(boxes), max_size=len(boxes))))
    among = data.draw(st.integers(0, (1 << len(boxes)) - 1))
    index = Index(boxes, owners)
    some = [boxes[number] for number in bits(among)]
    used: set[int] = set()

    left = list(index.uncovered(box, among, Budget(), used))

    assert list(bits(index.touching(box, among))) == [n for n in bits(among) if meet(box, boxes[n]) is not None]
    assert list(bits(index.around(box, among))) == [n for n in bits(among) if within(box, boxes[n])]
    assert set(points(left)) == set(points([box])) - set(points(some))
    assert_apart(left)
    taken = [boxes[number] for number in bits(among) if owners[number] in used]
    assert set(points([box])) - set(points(taken)) == set(points(left))
    owner = data.draw(st.integers(0, 5))
    assert list(bits(index.below(owner))) == [n for n, other in enumerate(owners) if other < owner]


def test_a_budget_ends() -> None:
    """After as many steps as it has."""
    budget = Budget(2)
    budget.spend()
    budget.spend()

    with pytest.raises(BudgetError):
        budget.spend()


def test_nothing_is_nothing() -> None:
    """No boxes, and boxes of no variable."""
    assert merged([]) == []
    assert disjoint([], Budget(0)) == []
    assert merged([()]) == [()]
    assert list(Index([], []).uncovered((1,), 0, Budget())) == [(1,)]
