"""Stretches of numbers and pairs that divide each other, held against counting them out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

import pytest

from selector.analysis import numbers as module
from selector.analysis.numbers import (
    MOST_PERIOD,
    Stretch,
    TooManyError,
    divisible,
    indivisible,
    line_of,
    members,
)

NUMBERS = range(-40, 41)
LEASTS = (None, -2, 0, 1, 5)
MARKS: tuple[tuple[int, ...], ...] = ((), (0,), (0, 4), (-9, -4, 0), (0, 1, 2, 8), (-1, 0, 7, 7))
DIVISORS: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (3,), (2, 3), (4, 6), (2, 4))
CASES = list(itertools.product(MARKS, DIVISORS, LEASTS))


def stretch(start: int, end: int | None, residues: Iterable[int] = (0,), period: int = 1, step: int = 1) -> Stretch:
    """Give a stretch; of all numbers, where no residues are named."""
    return Stretch(start, end, frozenset(residues), period, step)


# --- stretches ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("found", "first"),
    [
        (stretch(3, 6), [3, 4, 5, 6]),
        (stretch(3, 3), [3]),
        (stretch(3, 2), []),
        (stretch(3, None), [3, 4, 5, 6, 7]),
        (stretch(3, None, step=-1), [3, 2, 1, 0, -1]),
        (stretch(-3, 8, [0], 4), [0, 4, 8]),
        (stretch(-3, 7, [0, 3], 4), [-1, 0, 3, 4, 7]),
        (stretch(-3, None, [1], 4, -1), [-3, -7, -11, -15, -19]),
    ],
)
def test_the_members_of_a_stretch_are_those_that_it_holds(found: Stretch, first: list[int]) -> None:
    """From its start on, one after the other; as many are given as there are."""
    away = range(first[-1] if found.step < 0 else -40, first[-1] + 1 if found.end is None and found.step > 0 else 40)

    assert members(found, 5) == first
    assert members(found, 2) == first[:2]
    assert [number for number in away if found.holds(number)] == sorted(first) if first else True


def test_a_stretch_holds_both_of_its_ends() -> None:
    """And nothing beyond them."""
    assert [number for number in NUMBERS if stretch(3, 6).holds(number)] == [3, 4, 5, 6]
    assert [number for number in NUMBERS if stretch(3, 6, [1], 2).holds(number)] == [3, 5]
    assert [number for number in NUMBERS if stretch(37, None).holds(number)] == [37, 38, 39, 40]
    assert [number for number in NUMBERS if stretch(-37, None, step=-1).holds(number)] == [-40, -39, -38, -37]
    assert [number for number in NUMBERS if stretch(0, -1).holds(number)] == []


# --- a line -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("marks", "divisors", "least", "line"),
    [
        ([], [], None, [stretch(0, None), stretch(-1, None, step=-1)]),
        ([], [], 3, [stretch(3, None)]),
        ([5], [], None, [stretch(4, None, step=-1), stretch(5, 5), stretch(6, None)]),
        ([5, 1, 5], [], 1, [stretch(1, 1), stretch(2, 4), stretch(5, 5), stretch(6, None)]),
        ([1, 2], [], 0, [stretch(0, 0), stretch(1, 1), stretch(2, 2), stretch(3, None)]),
        ([1, 2], [], 2, [stretch(2, 2), stretch(3, None)]),
        ([], [2], 1, [stretch(1, None, [0], 2), stretch(1, None, [1], 2)]),
        ([7], [3], 6, [stretch(6, 6, [0], 3), stretch(7, 7, [1, 2], 3), stretch(8, None, [0], 3),
                       stretch(8, None, [1, 2], 3)]),
        ([], [2, 3], None, [stretch(one, None, of, 6, step) for one, step in ((0, 1), (-1, -1))
                            for of in ([0], [1, 5], [2, 4], [3])]),
    ],
)  # fmt: skip
def test_a_line_is_cut_at_its_marks_and_by_what_divides(
    marks: list[int], divisors: list[int], least: int | None, line: list[Stretch]
) -> None:
    """Each mark stands alone; a line without a least number goes up from 0 and down from -1, or away from its marks."""
    assert line_of(marks, divisors, least) == line


@pytest.mark.parametrize(("marks", "divisors", "least"), CASES)
def test_every_number_is_in_one_stretch_of_its_kind(
    marks: tuple[int, ...], divisors: tuple[int, ...], least: int | None
) -> None:
    """Numbers of one stretch are told apart by no mark and no divisor, and no stretch is empty."""
    line = line_of(marks, divisors, least)

    for number in NUMBERS:
        assert sum(one.holds(number) for one in line) == (1 if least is None or number >= least else 0)
    for one in line:
        inside = [number for number in NUMBERS if one.holds(number)]
        assert inside
        assert sorted(members(one, len(inside))) == inside
        kinds = {
            (*((number > mark) - (number < mark) for mark in marks), *(number % by == 0 for by in divisors))
            for number in inside
        }
        assert len(kinds) == 1


def test_divisors_may_have_a_multiple_as_large_as_is_allowed() -> None:
    """One more, and they are refused; the message names the first six."""
    assert [len(one.residues) for one in line_of([], [MOST_PERIOD], 0)] == [1, MOST_PERIOD - 1]
    with pytest.raises(TooManyError) as caught:
        line_of([], [MOST_PERIOD + 1], 0)
    assert str(caught.value) == "the divisors 4097 have no common multiple below 4096"
    with pytest.raises(TooManyError) as caught:
        line_of([], [13, 7, 11, 3, 2, 5, 17], 0)
    assert str(caught.value) == "the divisors 2, 3, 5, 7, 11, 13 have no common multiple below 4096"


# --- one divides the other ----------------------------------------------------------------------------------------


def lines() -> Iterator[list[Stretch]]:
    """Give lines on which 0 and either sign stand apart, short enough for every pair of their stretches."""
    for marks in ((0,), (0, 3, 5, 12), (0, -4, -10), (-7, -1, 0, 1, 6)):
        for divisors in ((), (2,), (3, 2)):
            yield line_of(marks, divisors, None)


PAIRS = [pair for line in lines() for pair in itertools.product(line, line)]


def some(one: Stretch) -> list[int]:
    """Give members enough for every answer about divisors: all, or those of many periods."""
    return members(one, 14 * len(one.residues))


def test_a_pair_that_divides_is_found_where_there_is_one() -> None:
    """Of two numbers that are not the same."""
    for one, other in PAIRS:
        found = divisible(one, other)
        some_pair = any(n != by and by and n % by == 0 for n in some(one) for by in some(other))

        assert (found is not None) is some_pair, (one, other)
        if found is not None:
            number, divisor = found
            assert type(number) is type(divisor) is int
            assert one.holds(number)
            assert other.holds(divisor)
            assert number % divisor == 0
            assert number != divisor


def test_a_pair_that_does_not_divide_is_found_where_there_is_one() -> None:
    """0 is no divisor, and is divided by all."""
    for one, other in PAIRS:
        found = indivisible(one, other)
        some_pair = any(by and n % by for n in some(one) for by in some(other))

        assert (found is not None) is some_pair, (one, other)
        if found is not None:
            number, divisor = found
            assert one.holds(number)
            assert other.holds(divisor)
            assert number % divisor


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (stretch(1, None), stretch(1, None), (2, 1)),
        (stretch(5, 5), stretch(-9, -1), (5, -1)),
        (stretch(5, 5), stretch(-9, -4), (5, -5)),
        (stretch(5, 5), stretch(2, 5), None),
        (stretch(-8, -8), stretch(2, None), (-8, 2)),
        (stretch(-8, -8), stretch(8, None), (-8, 8)),
        (stretch(-8, -8), stretch(9, None), None),
        (stretch(6, 8), stretch(4, None), (8, 4)),
        (stretch(0, 0), stretch(0, 0), None),
        (stretch(0, 0), stretch(3, 4), (0, 3)),
        (stretch(4, 4), stretch(0, 0), None),
        (stretch(1, None, [1, 3], 4), stretch(2, None, [0, 2], 4), None),
        (stretch(1, None, [2], 4), stretch(4, None, [0, 2], 4), (18, 6)),
        (stretch(1, None, [1, 5], 6), stretch(2, None, [2, 4], 6), None),
        (stretch(10**30, None), stretch(10**20 + 1, 10**20 + 1), (10**30 + 10**20 + 1 - 10**30 % (10**20 + 1),
                                                                 10**20 + 1)),
        (stretch(-3, None, step=-1), stretch(7, 7), (-7, 7)),
        (stretch(-3, None, step=-1), stretch(-7, -7), (-14, -7)),
        (stretch(7, None), stretch(7, 7), (14, 7)),
        (stretch(1, 12, [1], 4), stretch(3, 3, [3], 4), (9, 3)),
        (stretch(1, None, [1, 2], 4), stretch(2, 2, [1, 2], 4), (6, 2)),
    ],
)  # fmt: skip
def test_the_divisor_nearest_to_0_is_tried_first(one: Stretch, other: Stretch, found: tuple[int, int] | None) -> None:
    """With the first of its multiples."""
    assert divisible(one, other) == found


def test_a_multiple_with_a_remainder_is_found_where_there_is_one() -> None:
    """Whichever remainder, of whichever number."""
    for period, divisor in itertools.product(range(1, 13), range(1, 16)):
        for residue in range(period):
            found = module._meeting(residue, period, divisor)
            there = any(number % period == residue for number in range(0, period * divisor, divisor))

            assert (found is not None) is there
            if found is not None:
                assert type(found) is int
                assert (found % period, found % divisor) == (residue, 0)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        (stretch(1, None), stretch(1, None), (1, 2)),
        (stretch(0, 0), stretch(1, None), None),
        (stretch(12, 12), stretch(1, None), (12, 5)),
        (stretch(12, 12), stretch(1, 4), None),
        (stretch(12, 12), stretch(0, 0), None),
        (stretch(4, 8, [0], 4), stretch(4, 4, [0], 4), None),
        (stretch(1, None, [0], 4), stretch(8, 8, [0], 4), (4, 8)),
        (stretch(8, None, [0], 4), stretch(8, 8, [0], 4), (12, 8)),
        (stretch(5, None, [0, 1], 4), stretch(5, 5, [1], 4), (8, 5)),
        (stretch(4, None, [0, 2], 4), stretch(2, 2, [0, 2], 4), None),
    ],
)
def test_the_first_number_that_is_not_divided_is_found(
    one: Stretch, other: Stretch, found: tuple[int, int] | None
) -> None:
    """By the first divisor that leaves one."""
    assert indivisible(one, other) == found


def test_numbers_that_go_far_down_are_not_counted_out() -> None:
    """Those near 0 are tried first, from the end of the stretch."""
    assert divisible(stretch(-(10**30), -6), stretch(-(10**30), -6)) == (4 - 10**30, -6)
    assert divisible(stretch(7, 7), stretch(-(10**30), -2)) == (7, -7)
    assert divisible(stretch(7, 7), stretch(-(10**30), -8)) is None


@pytest.mark.parametrize(
    ("line", "nearest"),
    [
        (stretch(0, 3), [0, 1, 2, 3]),
        (stretch(2, None), [2, 3, 4, 5]),
        (stretch(-2, None, step=-1), [-2, -3, -4, -5]),
        (stretch(-3, -1), [-1, -2, -3]),
        (stretch(-9, -1, [3], 4), [-1, -5, -9]),
    ],
)
def test_divisors_are_tried_from_0_on(line: Stretch, nearest: list[int]) -> None:
    """Whichever side of it they are on."""
    assert list(itertools.islice(module._nearest_first(line), 4)) == nearest


def test_what_takes_too_many_tries_is_an_open_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are allowed are made; the last of them may find one."""
    monkeypatch.setattr(module, "MOST_TRIES", 5)

    assert divisible(stretch(35, 35), stretch(3, 20)) == (35, 5)
    assert divisible(stretch(49, 49), stretch(3, 20)) == (49, 7)
    assert divisible(stretch(49, 49), stretch(3, 7)) == (49, 7)
    with pytest.raises(TooManyError) as caught:
        divisible(stretch(64, 64), stretch(9, 32))
    assert str(caught.value) == "which numbers divide each other takes too many tries"
