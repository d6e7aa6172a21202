"""What another table answers where a row of one table wins: region by region, or as a whole where they are too many."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from selector.analysis.boxes import Budget, Index, meet, minus, without
from selector.analysis.regions import Regions
from selector.analysis.space import Box, lowest


@dataclass(frozen=True, slots=True)
class Wins:
    """The situations that a row wins within some boxes, and another table over the same space.

    Winners of the other table that are in `passed` are passed over: they are told elsewhere.
    """

    own: Regions
    other: Regions
    row: int
    boxes: Sequence[Box]
    both: Index
    """The boxes of the own table, then those of the other one."""
    passed: Collection[int | None] = ()

    def pieces(self, budget: Budget) -> Iterator[tuple[int | None, Box]]:
        """Give boxes without overlap that hold these situations, each with the one row that wins there, None for none.

        Raises `BudgetError` when there are too many.
        """
        before = self.own.index.below(self.row)
        taken: list[Box] = []
        for box in self.boxes:
            for part in self.own.index.uncovered(box, before, budget):
                for piece in without(part, taken, budget):
                    yield from self._answered(piece, budget)
            taken.append(box)

    def _answered(self, piece: Box, budget: Budget) -> Iterator[tuple[int | None, Box]]:
        everything = self.other.index.below(len(self.other.held))
        for winner, shared in _winners(self.other.index, piece, everything, budget):
            if winner not in self.passed:
                yield winner, shared

    def example(self, winner: int | None, budget: Budget) -> Box | None:
        """Give one box of these situations in which that row wins (None: no row does), None when there is none.

        Raises `BudgetError` when it takes too long to find out.
        """
        theirs = self.other.index.below(len(self.other.held) if winner is None else winner)
        among = self.own.index.below(self.row) | theirs << len(self.own.index.boxes)
        for box in self.boxes:
            for target in [self.own.space.full] if winner is None else self.other.held[winner]:
                shared = meet(box, target)
                found = None if shared is None else next(self.both.uncovered(shared, among, budget), None)
                if found is not None:
                    return found
        return None

    def around(self) -> Box:
        """Give one box around all of them."""
        around = [0] * len(self.own.space.full)
        for box in self.boxes:
            around = [mask | more for mask, more in zip(around, box, strict=True)]
        return tuple(around)


def joint(one: Index, other: Index) -> Index:
    """Give an index of the boxes of both, in this order."""
    return Index([*one.boxes, *other.boxes], [*one.owners, *other.owners])


def _winners(index: Index, box: Box, among: int, budget: Budget) -> Iterator[tuple[int | None, Box]]:
    """Cut a box into parts, each with the row that wins in all of it, or None where none of the boxes `among` is."""
    waiting = [box]
    while waiting:
        here = waiting.pop()
        budget.spend()
        touching = index.touching(here, among)
        if not touching:
            yield None, here
            continue
        number = lowest(touching)
        shared = meet(here, index.boxes[number])
        if shared is not None:
            yield index.owners[number], shared
        waiting += minus(here, index.boxes[number])
