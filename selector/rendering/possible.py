"""What is still possible while facts are not known, as branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from selector.analysis.remaining import Leaf, Node, Question, remaining
from selector.decision import Decision
from selector.rendering.layout import Branch
from selector.rendering.text import words
from selector.ruleset import RuleSet

MOST_LEAVES = 16


def possibilities(decision: Decision, rules: RuleSet) -> Iterator[Branch]:
    """Give the tree of what is still possible; nothing where nothing is, or the tree is too large to be of use."""
    found = remaining(replace(decision, rules=rules)) if decision.inputs is not None else None
    if isinstance(found, Question):
        count = _leaves(found)
        if count <= MOST_LEAVES:
            yield Branch(words("depends on what is not known"), branches=list(_answers(found)))
        else:
            yield Branch(words(f"depends on what is not known, in {count} ways: --format json tells them all"))


def _answers(question: Question) -> Iterator[Branch]:
    for told, node in question.answers:
        if isinstance(node, Leaf):
            yield Branch(words(f"{told}: {_leaf(node)}"))
        else:
            yield Branch(words(told), branches=list(_answers(node)))


def _leaf(node: Leaf) -> str:
    return f"{node.backend or 'refused'}{f' ({node.rule})' if node.rule else ''}"


def _leaves(node: Node) -> int:
    return 1 if isinstance(node, Leaf) else sum(_leaves(inner) for _, inner in node.answers)
