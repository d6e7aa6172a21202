"""What rules ask of numbers: those of which every test says the same are of one kind, and no rule tells them apart."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from selector.rules.conditions import tests

if TYPE_CHECKING:
    from selector.rules.vocabulary import Fact
    from selector.ruleset import RuleSet

_MOST_NUMBERS = 8_192

Check = Callable[[object], bool]


class Kinds(dict[int | str, int | str]):
    """Of one fact, the kind of each number that was met: what each of the tests says of it, one bit for each.

    A word that stands for a number is a kind of its own, and so is a number that the fact cannot have.
    """

    def __init__(self, fact: Fact, checks: Sequence[Check]) -> None:
        """Take what may be asked of the fact."""
        super().__init__()
        self.least: float = -math.inf if fact.minimum is None else fact.minimum
        self.checks = checks

    def __missing__(self, number: int | str) -> int | str:
        if isinstance(number, str):
            return number
        if len(self) >= _MOST_NUMBERS:
            self.clear()
        within = sum(1 << at for at, check in enumerate(self.checks) if check(number))
        kind = self[number] = within if number >= self.least else -1
        return kind


class Numbers:
    """What a rule set asks of the numbers in a request. Threads may share it."""

    def __init__(self, rules: RuleSet) -> None:
        """Collect every test of every number."""
        vocabulary = rules.vocabulary
        asked: dict[str, dict[object, Check]] = {}
        for condition in rules.conditions():
            for test in tests(condition):
                asked.setdefault(test.fact, {})[test.op, test.wanted, test.mentions] = test.check
        named = {row.read_from for table in rules.tables.values() for row in table.rows}
        self.derived = vocabulary.derived
        self.kinds = {
            fact.name: Kinds(fact, tuple(asked.get(fact.name, {}).values()))
            for group in ("request", "call")
            for fact in vocabulary.group.get(group, ())
            if fact.type == "integer" and fact.name not in named
        }
