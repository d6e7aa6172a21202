"""Rules that are not in any folder yet: texts laid over a rule set, as their files would be."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from selector.linking import link
from selector.overlays import Layers
from selector.rule_files import Finder, RuleText, RuleTexts
from selector.rules.nodes import OF_RULES
from selector.rules.problems import ProblemsError, TableError
from selector.rules.text import parsed
from selector.ruleset import RuleSet

UNNAMED = "proposed.yaml"


def overlaid(rules: RuleSet, texts: Mapping[str, bytes]) -> RuleSet:
    """Give the rules with some files laid over them, by name, as a folder of them would be.

    The file `UNNAMED` may also be a whole rule set. Raises `TableError` with the place of every problem.
    """
    finder = Finder([], set(rules.tables))
    layers = Layers({kind: (node.file, node) for kind, node in rules.content.items()}, notices=[*rules.notices])
    for name, data in sorted(texts.items()):
        read = RuleTexts((RuleText(Path(name), name, data),), name == UNNAMED and _is_rule_set(data), shipped=False)
        for file in finder.files(read):
            layers.lay(file, shipped=False)
    if finder.problems:
        raise TableError(finder.problems)
    return link(layers, rules.folders)


def _is_rule_set(data: bytes) -> bool:
    """Whether a text is no table: what is neither is told as a rule set that is wrong."""
    try:
        value = parsed(data, ".yaml", UNNAMED, OF_RULES).value
    except ProblemsError:
        return False  # read again, which tells what is wrong
    return not (isinstance(value, dict) and "table" in value)
