"""How a `when` is read from YAML: facts and groups, every name checked against the vocabulary."""

from __future__ import annotations

from dataclasses import dataclass

from selector.rules.conditions import ALWAYS, Both, Condition, Either, Not
from selector.rules.fields import Source, kind_of
from selector.rules.matchers import OPERATORS, UNKNOWN, Matcher
from selector.rules.nodes import Node
from selector.rules.problems import nearest, shown
from selector.rules.vocabulary import Vocabulary

__all__ = ["GROUPS", "OPERATORS", "UNKNOWN", "Reader"]

GROUPS = ("all", "any", "not")


@dataclass(slots=True)
class Reader:
    """Reads conditions of one file; what is wrong is noted in `source`, and reading goes on."""

    vocabulary: Vocabulary
    source: Source

    def when(self, node: Node, path: str) -> Condition:
        """Read a mapping of facts and groups, all of which must hold."""
        place = node.at(self.source.file, path)
        if not isinstance(node.value, dict):
            self.source.note(place, "wrong-type", f"wanted a mapping of facts, got {kind_of(node)}")
            return ALWAYS
        if not node.value:
            self.source.note(place, "empty-when", "wanted at least one fact", "leave the key out")
        parts = [self.entry(name, child, f"{path}.{name}") for name, child in node.value.items()]
        return parts[0] if len(parts) == 1 else Both(tuple(parts))

    def entry(self, name: str, node: Node, path: str) -> Condition:
        """Read one entry of a `when`: a group or a fact."""
        if name == "not":
            return Not(self.when(node, path))
        if name in GROUPS:
            parts = self.alternatives(node, path)
            return Either(parts) if name == "any" else Both(parts)
        fact = self.vocabulary.facts.get(name)
        if fact is not None:
            return Matcher(fact, self.vocabulary, self.source, path).read(node)
        if name not in self.vocabulary.broken:
            hint = nearest(name, [*self.vocabulary.facts, *GROUPS])
            self.source.note(node.key_at(self.source.file, path), "unknown-fact", f"no fact `{shown(name)}`", hint)
        return ALWAYS

    def alternatives(self, node: Node, path: str) -> tuple[Condition, ...]:
        """Read the list below `any` or `all`."""
        if not isinstance(node.value, list) or not node.value:
            got = "an empty list" if node.value == [] else kind_of(node)
            place = node.at(self.source.file, path)
            self.source.note(place, "wrong-type", f"wanted a list of mappings of facts, got {got}")
            return ()
        return tuple(self.when(item, f"{path}[{index}]") for index, item in enumerate(node.value))
