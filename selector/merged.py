"""A rule set written as one YAML file, each row and entry under the file and line that it came from."""

from __future__ import annotations

from collections.abc import Iterator

from selector.overlays import SECTIONS
from selector.rule_files import FILES, TABLES
from selector.rules import yaml_writing
from selector.rules.nodes import Node, Plain
from selector.rules.problems import Place
from selector.ruleset import RuleSet

_INDENT = "  "


def as_yaml(rules: RuleSet) -> str:
    """Write a rule set as one file, which loads to the same digest."""
    return "".join(f"{line}\n" for line in _lines(rules))


def _lines(rules: RuleSet) -> Iterator[str]:
    yield f"# digest: {rules.digest}"
    for folder in rules.folders:
        yield f"# with: {folder}"
    for notice in rules.notices:
        yield f"# warning: {notice.place}: {notice.message}"
    for kind in FILES:
        yield from _of_kind(kind, rules.content[kind])
    yield "tables:"
    for name in rules.tables:
        yield from _table(name, rules.content[name])


def _of_kind(kind: str, node: Node) -> Iterator[str]:
    yield f"{kind}:"
    content = node.value if isinstance(node.value, dict) else {}
    for section in SECTIONS[kind]:
        if section in content:
            yield from _section(section, content[section], 1)


def _section(name: str, node: Node, level: int) -> Iterator[str]:
    """Write a mapping or a list whose entries each tell where they came from."""
    head = _INDENT * level
    if not node.value:
        yield f"{head}{name}: {'[]' if node.value == [] else '{}'}"
        return
    yield f"{head}{name}:"
    inner = head + _INDENT
    if isinstance(node.value, dict):
        for key, child in node.value.items():
            yield f"{inner}# {_origin(child.key_at(''), child)}"
            yield from _dumped({key: child.plain()}, inner)
    elif isinstance(node.value, list):
        for child in node.value:
            yield f"{inner}# {_origin(child.at(''), child)}"
            yield from _dumped([child.plain()], inner)


def _origin(place: Place, node: Node) -> str:
    """Tell where an entry came from, and which parts of it came from other files."""
    others = dict.fromkeys(str(part.at("")) for part in foreign_parts(node) if part.file != place.file)
    return ", with ".join([str(place), *others])


def foreign_parts(node: Node) -> Iterator[Node]:
    """Give the nodes below a node that came from another file than what holds them."""
    below = node.value.values() if isinstance(node.value, dict) else node.value
    for child in below if not isinstance(below, str | int | float | None) else ():
        if child.file != node.file:
            yield child
        else:
            yield from foreign_parts(child)


def _table(name: str, node: Node) -> Iterator[str]:
    content = node.value if isinstance(node.value, dict) else {}
    yield f"{_INDENT}{name}:"
    if name not in TABLES:
        yield f"{_INDENT * 2}new: true"
    for key, child in content.items():
        if key == "rows":
            yield from _section("rows", child, 2)
        elif key != "table":
            yield from _dumped({key: child.plain()}, _INDENT * 2)


def _dumped(value: Plain, indent: str) -> Iterator[str]:
    text = yaml_writing.as_yaml(value, yaml_writing.WIDTH - len(indent))
    yield from (indent + line if line else line for line in text.removesuffix("\n").split("\n"))
