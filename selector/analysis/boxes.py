"""Sets of situations as lists of boxes: what two of them share, what one leaves of another, and what covers what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from selector.analysis.space import Box, bits

STEPS = 20_000


class BudgetError(Exception):
    """A question was left open: it took more steps than were allowed."""


@dataclass(slots=True)
class Budget:
    """How many boxes may still be looked at for one question."""

    left: int = STEPS

    def spend(self, steps: int = 1) -> None:
        """Take steps. Raises `BudgetError` when there are not so many left."""
        self.left -= steps
        if self.left < 0:
            raise BudgetError


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
    found = list(dict.fromkeys(boxes))
    width = len(found[0]) if found else 0
    joined = True
    while joined:
        joined = False
        for at in range(width):
            groups: dict[tuple[int, ...], int] = {}
            for box in found:
                rest = (*box[:at], 0, *box[at + 1 :])
                groups[rest] = groups.get(rest, 0) | box[at]
            if len(groups) < len(found):
                found = [(*rest[:at], mask, *rest[at + 1 :]) for rest, mask in groups.items()]
                joined = True
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
            classes = [0] * max((box[at].bit_length() for box in self.boxes), default=0)
            for number, box in enumerate(self.boxes):
                for cell in bits(box[at]):
                    classes[cell] |= 1 << number
            self.holding.append(classes)

    def touching(self, box: Box, among: int) -> int:
        """Give which of the boxes `among` share a situation with a box."""
        for at, mask in enumerate(box):
            if not among:
                return 0
            key = (at, mask)
            if key not in self.touched:
                found = 0
                for cell in bits(mask):
                    found |= self._class(at, cell)
                self.touched[key] = found
            among &= self.touched[key]
        return among

    def around(self, box: Box, among: int) -> int:
        """Give which of the boxes `among` hold a box whole."""
        for at, mask in enumerate(box):
            if not among:
                return 0
            key = (at, mask)
            if key not in self.held:
                found = -1
                for cell in bits(mask):
                    found &= self._class(at, cell)
                self.held[key] = found
            among &= self.held[key]
        return among

    def _class(self, at: int, cell: int) -> int:
        classes = self.holding[at]
        return classes[cell] if cell < len(classes) else 0

    def below(self, owner: int) -> int:
        """Give the boxes of owners before one; owners must be in ascending order."""
        count = next((number for number, other in enumerate(self.owners) if other >= owner), len(self.owners))
        return (1 << count) - 1

    def uncovered(self, box: Box, among: int, budget: Budget, used: set[int] | None = None) -> Iterator[Box]:
        """Give the parts of a box that none of the boxes `among` holds, without overlap.

        `used` takes the owners of boxes that were needed to cover the rest.
        """
        waiting = [(box, among)]
        while waiting:
            here, rest = waiting.pop()
            budget.spend()
            rest = self.touching(here, rest)
            if not rest:
                yield here
                continue
            around = self.around(here, rest)
            if around:
                if used is not None:
                    used.add(self.owners[(around & -around).bit_length() - 1])
                continue
            number = self._widest(here, rest)
            inside = list(here)
            for at, mask in enumerate(self.boxes[number]):
                outside = inside[at] & ~mask
                if outside:
                    waiting.append(((*inside[:at], outside, *inside[at + 1 :]), rest))
                    inside[at] &= mask
            if used is not None:
                used.add(self.owners[number])

    def _widest(self, box: Box, among: int) -> int:
        """Find, of some of the boxes, one that takes much of a box: it leaves least in the fewest variables."""
        best, cost = -1, (1 << 30, 0)
        for count, number in enumerate(bits(among)):
            outside = [(mask & ~held).bit_count() for mask, held in zip(box, self.boxes[number], strict=True)]
            found = (sum(1 for left in outside if left), sum(outside))
            if found < cost:
                best, cost = number, found
            if count >= 32 or cost[0] == 1:  # noqa: PLR2004 - good enough, and soon
                break
        return best
