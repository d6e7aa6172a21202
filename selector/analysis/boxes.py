"""Sets of situations as lists of boxes: what two of them share, what one leaves of another, and what covers what."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from selector.analysis.space import Box, bits, lowest

STEPS = 20_000
_MOST_SHORT = 3
_FEW = 256


class BudgetError(Exception):
    """A question was left open: it took more steps than were allowed."""


@dataclass(slots=True)
class Budget:
    """How many boxes may still be looked at for one question."""

    left: int = STEPS
    of: Budget | None = None

    def spend(self, steps: int = 1) -> None:
        """Take steps. Raises `BudgetError` when there are not so many left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError
        if self.of is not None:
            self.of.spend(steps)

    def part(self, most: int) -> Budget:
        """Give a budget of its own for one question, which is spent of this one as well."""
        return Budget(most, self)


def meet(one: Box, other: Box) -> Box | None:
    """Give what two boxes share, None when that is nothing."""
    shared = tuple(a & b for a, b in zip(one, other, strict=True))
    return shared if all(shared) else None


def within(inner: Box, outer: Box) -> bool:
    """Whether a box lies in another one."""
    return all(not a & ~b for a, b in zip(inner, outer, strict=True))


def minus(box: Box, taken: Box) -> Iterator[Box]:
    """Give what a box leaves when another one is taken from it, as boxes that do not overlap."""
    if meet(box, taken) is None:
        yield box
        return
    rest = list(box)
    for at, mask in enumerate(taken):
        outside = rest[at] & ~mask
        if outside:
            yield (*rest[:at], outside, *rest[at + 1 :])
            rest[at] &= mask


def without(box: Box, taken: Iterable[Box], budget: Budget) -> list[Box]:
    """Give what a box leaves when others are taken from it, as boxes that do not overlap."""
    rest = [box]
    for other in taken:
        budget.spend(len(rest))
        rest = [part for piece in rest for part in minus(piece, other)]
        if not rest:
            break
    return rest


def disjoint(boxes: Iterable[Box], budget: Budget) -> list[Box]:
    """Give boxes that hold the same situations, each of them once."""
    found: list[Box] = []
    for box in boxes:
        found += without(box, found, budget)
    return found


def merged(boxes: Sequence[Box]) -> list[Box]:
    """Join boxes that differ in one variable alone, until none are left to join; they must not overlap."""
    if not boxes:
        return []
    before, found = list[Box](), list(dict.fromkeys(boxes))
    while len(found) != len(before):
        before = found
        for at in range(len(boxes[0])):
            groups: dict[Box, int] = {}
            for box in found:
                rest = box[:at] + box[at + 1 :]
                groups[rest] = groups.get(rest, 0) | box[at]
            found = [(*rest[:at], mask, *rest[at:]) for rest, mask in groups.items()]
    return found


@dataclass(slots=True)
class Index:
    """Which of many boxes touch or hold a box, as bits by their number; box `n` belongs to owner ``owners[n]``."""

    boxes: Sequence[Box]
    owners: Sequence[int]
    holding: list[list[int]] = field(default_factory=list)
    touched: dict[tuple[int, int], int] = field(default_factory=dict)
    held: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Note for each class of each variable which boxes it is in."""
        width = len(self.boxes[0]) if self.boxes else 0
        for at in range(width):
            alike: dict[int, int] = {}
            for number, box in enumerate(self.boxes):
                alike[box[at]] = alike.get(box[at], 0) | 1 << number
            classes = [0] * max(mask.bit_length() for mask in alike)
            for mask, numbers in alike.items():
                for cell in bits(mask):
                    classes[cell] |= numbers
            self.holding.append(classes)

    def touching(self, box: Box, among: int) -> int:
        """Give which of the boxes `among` share a situation with a box."""
        for at, mask in enumerate(box):
            if not among:
                return 0
            among &= self._touching(at, mask)
        return among

    def _touching(self, at: int, mask: int) -> int:
        """Give which boxes share classes of one variable with these."""
        key = (at, mask)
        if key not in self.touched:
            found = 0
            for cell in bits(mask):
                found |= self._class(at, cell)
            self.touched[key] = found
        return self.touched[key]

    def around(self, box: Box, among: int) -> int:
        """Give which of the boxes `among` hold a box whole."""
        for at, mask in enumerate(box):
            if not among:
                return 0
            among &= self._holding(at, mask)
        return among

    def _holding(self, at: int, mask: int) -> int:
        """Give which boxes hold some classes of one variable."""
        key = (at, mask)
        if key not in self.held:
            found = -1
            for cell in bits(mask):
                found &= self._class(at, cell)
            self.held[key] = found
        return self.held[key]

    def _class(self, at: int, cell: int) -> int:
        classes = self.holding[at]
        return classes[cell] if cell < len(classes) else 0

    def below(self, owner: int) -> int:
        """Give the boxes of owners before one; owners must be in ascending order."""
        return (1 << bisect.bisect_left(self.owners, owner)) - 1

    def uncovered(self, box: Box, among: int, budget: Budget, used: set[int] | None = None) -> Iterator[Box]:
        """Give the parts of a box that none of the boxes `among` holds, without overlap.

        `used` takes the owners of boxes that were needed to cover the rest.
        """
        waiting = [(box, self.touching(box, among))]
        while waiting:
            here, rest = waiting.pop()
            budget.spend()
            if not rest:
                yield here
                continue
            number, whole = self._best(here, rest)
            if used is not None:
                used.add(self.owners[number])
            if not whole:
                waiting += self._cut(here, number, rest)

    def _cut(self, box: Box, number: int, among: int) -> Iterator[tuple[Box, int]]:
        """Give what a box leaves of another one, in parts, each with those `among` that touch it."""
        inside = list(box)
        for at, mask in enumerate(self.boxes[number]):
            outside = inside[at] & ~mask
            if outside:
                yield (*inside[:at], outside, *inside[at + 1 :]), among & self._touching(at, outside)
                inside[at] &= mask
                among &= self._touching(at, inside[at])

    def _best(self, box: Box, among: int) -> tuple[int, bool]:
        """Find a box that holds another one whole, or else one that falls short in the fewest variables."""
        # Bit n of reached[k] says that box n falls short in more than k variables.
        reached = [0] * _MOST_SHORT
        for at, mask in enumerate(box):
            short = among & ~self._holding(at, mask)
            if not short:
                continue
            for count in range(_MOST_SHORT - 1, 0, -1):
                reached[count] |= reached[count - 1] & short
            reached[0] |= short
        few = next((found for more in reached if (found := among & ~more)), among)
        best = lowest(few)
        if len(self.boxes) <= _FEW:  # where there is time, what leaves least makes for fewer parts
            best = min(bits(few), key=lambda number: self._outside(box, number))
        return best, bool(among & ~reached[0])

    def _outside(self, box: Box, number: int) -> int:
        """Count the classes of a box that another one leaves, over all variables."""
        return sum((mask & ~held).bit_count() for mask, held in zip(box, self.boxes[number], strict=True))
