"""`attention-selector rules`: what is loaded, in a few lines or whole, as one file with where each row came from."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from selector.command import given
from selector.merged import as_yaml, foreign_parts
from selector.rules.nodes import Node
from selector.ruleset import RuleSet


def run(options: argparse.Namespace) -> int:
    """Write the rule set."""
    rules = given.rules(options)
    sys.stdout.write(as_yaml(rules) if options.show else "".join(f"{line}\n" for line in _summary(rules)))
    return 0


def _summary(rules: RuleSet) -> Iterator[str]:
    """Tell the digest, and for each table and kind how much of it comes from where."""
    yield f"digest {rules.digest}"
    for kind, node in rules.content.items():
        counted = Counter(_folder(item, rules.folders) for item in _items(node))
        changed = Counter(
            folder for item in _items(node) for folder in {_folder(part, rules.folders) for part in foreign_parts(item)}
        )
        told = [f"{count} from {origin}" for origin, count in counted.items()]
        yield f"{kind}: {', '.join([*told, *(f'{count} changed by {origin}' for origin, count in changed.items())])}"


def _items(node: Node) -> Iterator[Node]:
    """Give the rows of a table, or the entries of a file's sections."""
    for child in node.value.values() if isinstance(node.value, dict) else ():
        if isinstance(child.value, dict):
            yield from child.value.values()
        elif isinstance(child.value, list):
            yield from (item for item in child.value if isinstance(item.value, dict))


def _folder(item: Node, folders: tuple[str, ...]) -> str:
    """Name what brought an item: one of the user's folders or files, or the shipped rules."""
    brings = (folder for folder in folders if item.file == folder or Path(folder) in Path(item.file).parents)
    return next(brings, "the shipped rules")
