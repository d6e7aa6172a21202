"""Whole numbers cut into stretches that no test tells apart, and pairs of them of which one divides the other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

MOST_PERIOD = 4096
MOST_TRIES = 100_000


class TooManyError(Exception):
    """The classes of a fact are more than are enumerated; the message says why."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The numbers from `start` to `end` (None: without end) of some residues; `step` is -1 where they go down.

    Only numbers with the same remainder for every divisor that is asked for are in one stretch.
    """

    start: int
    end: int | None
    residues: frozenset[int]
    period: int
    step: int = 1

    def __iter__(self) -> Iterator[int]:
        """Give the members, those nearest to `start` first."""
        for number in itertools.count(self.start, self.step):
            if self.end is not None and number > self.end:
                return
            if number % self.period in self.residues:
                yield number

    def holds(self, number: int) -> bool:
        """Whether a number is a member."""
        inside = self.step * (number - self.start) >= 0 and (self.end is None or number <= self.end)
        return inside and number % self.period in self.residues


def line_of(marks: Iterable[int], divisors: Iterable[int], least: int | None) -> list[Stretch]:
    """Cut the numbers from `least` on (None: all) at marks, and sort each piece by what divides them."""
    asked = sorted(divisors)
    period = math.lcm(*asked)
    if period > MOST_PERIOD:
        listed = ", ".join(map(str, asked[:6]))
        raise TooManyError(f"the divisors {listed} have no common multiple below {MOST_PERIOD}")
    patterns: dict[tuple[bool, ...], set[int]] = {}
    for number in range(period):
        patterns.setdefault(tuple(not number % divisor for divisor in asked), set()).add(number)
    points = sorted({mark for mark in marks if least is None or mark >= least})
    pieces: list[tuple[int, int | None, int]] = []
    start = least
    for point in points:
        pieces.append((point - 1, None, -1) if start is None else (start, point - 1, 1))
        pieces.append((point, point, 1))
        start = point + 1
    pieces += [(0 if start is None else start, None, 1), *([(-1, None, -1)] if start is None else [])]
    found = (Stretch(one, end, frozenset(of), period, step) for one, end, step in pieces for of in patterns.values())
    return [stretch for stretch in found if any(True for _ in stretch)]


def members(stretch: Stretch, count: int) -> list[int]:
    """Give the first members, as many as `count` or as there are."""
    return list(itertools.islice(stretch, count))


# --- one divides the other ----------------------------------------------------------------------------------------


def divisible(one: Stretch, other: Stretch) -> tuple[int, int] | None:
    """Find a number of `one` and another number of `other` that divides it, or None where there are none.

    Both must have the same period, and 0 and numbers of either sign must stand in stretches of their own. Raises
    `TooManyError` where the answer takes too many tries.
    """
    if one.holds(0):
        return next(((0, number) for number in other if number), None)
    furthest = None if one.end is None else max(abs(one.start), abs(one.end))
    for tries, divisor in enumerate(_nearest_first(other)):
        if furthest is None:
            if tries == len(other.residues):
                return None  # what divides one of endlessly many depends on the remainder of the divisor alone
        elif abs(divisor) > furthest:
            return None
        if tries == MOST_TRIES:
            raise TooManyError("which numbers divide each other takes too many tries")
        found = _multiple(one, divisor) if divisor else None
        if found is not None:
            return found, divisor
    return None


def _nearest_first(stretch: Stretch) -> Iterator[int]:
    """Give the members, those nearest to 0 first."""
    if stretch.end is None or stretch.start >= 0:
        return iter(stretch)
    down = Stretch(stretch.end, None, stretch.residues, stretch.period, -1)
    return itertools.takewhile(lambda number: number >= stretch.start, down)


def _multiple(stretch: Stretch, divisor: int) -> int | None:
    """Find a member that is a multiple of a number, and not that number."""
    turn = math.lcm(stretch.period, divisor)
    for residue in stretch.residues:
        some = _meeting(residue, stretch.period, abs(divisor))
        if some is None:
            continue
        first = stretch.start + stretch.step * (stretch.step * (some - stretch.start) % turn)
        for number in (first, first + stretch.step * turn):
            if number != divisor and stretch.holds(number):
                return number
    return None


def _meeting(residue: int, period: int, divisor: int) -> int | None:
    """Find a multiple of `divisor` with this remainder for `period`."""
    shared = math.gcd(period, divisor)
    if residue % shared:
        return None
    return divisor * (residue // shared * pow(divisor // shared, -1, period // shared))


def indivisible(one: Stretch, other: Stretch) -> tuple[int, int] | None:
    """Find a number of `one` and a number of `other` that does not divide it, or None where there are none."""
    # What divides two numbers of a residue divides all of them; and all but a few numbers divide none but 0.
    numbers = members(one, 2 * len(one.residues))
    if not any(numbers):
        return None
    pairs = ((number, divisor) for divisor in other if divisor for number in numbers)
    return next(((number, divisor) for number, divisor in pairs if number % divisor), None)
