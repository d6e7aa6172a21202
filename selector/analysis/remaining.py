"""What is still possible where facts are not known: a small tree that asks for one fact after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from selector.analysis.changes import with_facts
from selector.analysis.regions import variable_told
from selector.analysis.space import make_space
from selector.analysis.values import TooManyError
from selector.decision import Decision, Inputs
from selector.resolve import resolve
from selector.rules.conditions import Test, tests
from selector.ruleset import RuleSet

MOST_DECISIONS = 2_000
MOST_DEPTH = 5


@dataclass(frozen=True, slots=True)
class Leaf:
    """What runs in all that is left: a backend, or None where the selection is refused."""

    backend: str | None
    rule: str | None

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {"backend": self.backend, "rule": self.rule}


@dataclass(frozen=True, slots=True)
class Question:
    """A fact that is not known, and what follows from each answer; answers that come to the same are one."""

    fact: str
    answers: tuple[tuple[str, Leaf | Question], ...]

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {"fact": self.fact, "answers": [{"if": told, **node.to_dict()} for told, node in self.answers]}


Node = Leaf | Question


class _TooLongError(Exception):
    """More decisions than are made for one tree."""


def remaining(decision: Decision) -> Node | None:
    """Give the tree for a decision, or None where nothing is open, or the tree would be too large to be of use.

    Raises `ValueError` for a decision without inputs or rules.
    """
    if decision.inputs is None or decision.rules is None:
        raise ValueError("wanted a decision with its inputs and rules")
    open_facts = [name for name in decision.missing if _askable(name, decision.rules)]
    if not open_facts:
        return None
    try:
        found = _Tree(decision.rules, _asked(decision.rules)).grow(decision.inputs, tuple(open_facts), 0)
    except (_TooLongError, TooManyError):
        return None
    return found if isinstance(found, Question) else None


def _askable(name: str, rules: RuleSet) -> bool:
    fact = rules.vocabulary.facts.get(name)
    return fact is not None and fact.group in ("machine", "request")


def _asked(rules: RuleSet) -> Mapping[str, list[Test]]:
    """Give every test of the rules by its fact."""
    found: dict[str, list[Test]] = {}
    conditions = [row.when for table in rules.tables.values() for row in table.rows]
    conditions += [need for needs in rules.abilities.values() for need in needs.values()]
    for condition in conditions:
        for test in tests(condition):
            found.setdefault(test.fact, []).append(test)
    return found


@dataclass(slots=True)
class _Tree:
    rules: RuleSet
    asked: Mapping[str, list[Test]]
    made: int = 0

    def grow(self, inputs: Inputs, open_facts: tuple[str, ...], depth: int) -> Node:
        """Ask for the first fact that makes a difference."""
        for at, name in enumerate(open_facts):
            if depth == MOST_DEPTH:
                break
            rest = open_facts[at + 1 :]
            answers = list(self.answers(inputs, name, rest, depth))
            if len(answers) > 1:
                return Question(name, tuple(answers))
        return self.leaf(inputs)

    def answers(self, inputs: Inputs, name: str, rest: tuple[str, ...], depth: int) -> Iterator[tuple[str, Node]]:
        """Give what follows from each class of values of a fact, classes that come to the same joined."""
        space = make_space(self.asked.get(name, []), self.rules.vocabulary, {name})
        found: dict[Node, int] = {}
        for variable in space.variables:  # one, or none where no test asks about the fact
            for at, cell in enumerate(variable.cells):
                node = self.grow(with_facts(inputs, cell.facts, self.rules.vocabulary), rest, depth + 1)
                found[node] = found.get(node, 0) | 1 << at
        for node, mask in found.items():
            yield variable_told(space.variables[0], mask, space, 0), node

    def leaf(self, inputs: Inputs) -> Leaf:
        """Decide."""
        self.made += 1
        if self.made > MOST_DECISIONS:
            raise _TooLongError
        decision = resolve(inputs, self.rules)
        return Leaf(decision.backend, decision.rule)
