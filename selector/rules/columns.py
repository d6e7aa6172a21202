"""Large tables by columns: for each fact and value, which rows it leaves open, as the bits of one number.

`walk.first` is the definition, and asks row by row. Here a decision looks up one number for each fact and takes the
lowest bit that all of them have, so ten thousand rows cost three or four lookups. What a value says of the rows is
found out when it is first met, by the tests themselves. Conditions over several facts are asked of the rows left over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from selector.rules.compiled import Decide
from selector.rules.conditions import ALWAYS, UNKNOWN, Both, Condition, Facts, tests
from selector.rules.tables import Table
from selector.rules.vocabulary import Value
from selector.rules.walk import Abilities

Answer = TypeVar("Answer")
MOST_VALUES = 1_024
"""How many values of one fact are kept."""


class Column(dict[object, int]):
    """For each value of a fact the rows that it leaves open, a bit for each; found out when a value is first met."""

    def __init__(self, name: str, everything: int) -> None:
        """Start with nothing known of any value."""
        super().__init__()
        self.name = name
        self.everything = everything
        self.parts: list[tuple[int, Condition]] = []

    def __missing__(self, value: object) -> int:
        """Ask every condition about a value."""
        facts: dict[str, Value] = {} if value is UNKNOWN else {self.name: value}  # type: ignore[dict-item]
        failing = bytearray(self.everything.bit_length() // 8 + 1)
        for at, part in self.parts:
            if part.holds(facts) is not True:
                failing[at >> 3] |= 1 << (at & 7)
        if len(self) >= MOST_VALUES:
            self.clear()
        found = self[value] = self.everything & ~int.from_bytes(failing, "little")
        return found


class Columns:
    """The first row that holds, for tables that are too large for code of their own. Threads may share it."""

    def __init__(self, table: Table, abilities: Abilities) -> None:
        """Sort the conditions by the facts that they ask about."""
        self.table, self.abilities = table, abilities
        everything = (1 << len(table.rows)) - 1
        columns: dict[str, Column] = {}
        self.rest: dict[int, list[Condition]] = {}
        self.named: dict[int, str] = {}
        for at, row in enumerate(table.rows):
            needed: Condition = ALWAYS
            if row.action == "use":
                if row.read_from is None:
                    needed = abilities.get(row.target, ALWAYS)
                else:
                    self.named[at] = row.read_from
            for part in (*_conjuncts(row.when), *_conjuncts(needed)):
                names = {test.fact for test in tests(part)}
                if len(names) == 1:
                    (name,) = names
                    column = columns.setdefault(name, Column(name, everything))
                    column.parts.append((at, part))
                else:
                    self.rest.setdefault(at, []).append(part)
        self.everything = everything
        self.columns = list(columns.items())
        self.plain = not self.rest and not self.named

    def find(self, facts: Facts) -> int:
        """Give the number of the first row that holds, -1 where none does."""
        left = self.everything
        for name, column in self.columns:
            left &= column[facts.get(name, UNKNOWN)]
        if self.plain:
            return (left & -left).bit_length() - 1
        while left:
            at = (left & -left).bit_length() - 1
            if all(part.holds(facts) is True for part in self.asked(at, facts)):
                return at
            left &= left - 1
        return -1

    def asked(self, at: int, facts: Facts) -> Iterator[Condition]:
        """Give what is left to ask of a row: conditions over several facts, and the needs of a target that is named."""
        yield from self.rest.get(at, ())
        if at in self.named:
            yield self.abilities.get(str(facts[self.named[at]]), ALWAYS)


def by_columns(columns: Columns, answers: Sequence[Answer]) -> Decide[Answer]:
    """Make a function that gives the answer of the first row that holds, None where none does."""
    told = (*answers, None)  # -1 is the last
    find = columns.find
    return lambda facts: told[find(facts)]


def _conjuncts(condition: Condition) -> Iterator[Condition]:
    """Give the parts that all have to hold."""
    if isinstance(condition, Both):
        for part in condition.parts:
            yield from _conjuncts(part)
    else:
        yield condition
