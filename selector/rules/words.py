"""How the vocabulary is read from YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import get_args

from selector.rules.fields import Source, kind_of
from selector.rules.nodes import Node
from selector.rules.orders import ORDERS
from selector.rules.problems import nearest
from selector.rules.vocabulary import Derived, Fact, Group, Package, Pattern, Value, Vocabulary, package_fact

_FACT_KEYS = (
    "type", "group", "about", "values", "special", "minimum", "unit", "order", "null", "null_word", "pattern", "on",
)  # fmt: skip
_TYPES = ("string", "integer", "boolean", "version")
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*\Z")
RESERVED = ("all", "any", "not", "unknown")


def read_vocabulary(node: Node, source: Source) -> Vocabulary:
    """Read the facts, sets and packages; what is wrong is noted in `source`."""
    keys = source.mapping(node, "", ("facts", "derived", "sets", "packages"), required=("facts",))
    facts: dict[str, Fact] = {}
    for name, child in source.mapping(keys.get("facts"), "facts", None).items():
        fact = _fact(name, child, source)
        if fact is not None:
            facts[name] = fact
    packages = {}
    for key, child in source.mapping(keys.get("packages"), "packages", None).items():
        packages[key] = _package(key, child, source)
    facts |= {fact.name: fact for fact in map(package_fact, packages.values())}
    derived = [
        _derived(name, child, source, facts)
        for name, child in source.mapping(keys.get("derived"), "derived", None).items()
    ]
    relations = tuple(relation for relation in derived if relation is not None)
    sets = {}
    for name, child in source.mapping(keys.get("sets"), "sets", None).items():
        found = _set(name, child, source, facts)
        if found is not None:
            sets[name] = found
    return Vocabulary(facts, sets, packages, relations)


def _fact(name: str, node: Node, source: Source) -> Fact | None:
    path = f"facts.{name}"
    _check_name(name, node, source, path)
    keys = source.mapping(node, path, _FACT_KEYS, required=("type", "group", "about"))
    kind = source.choice(keys.get("type"), f"{path}.type", _TYPES)
    group = source.choice(keys.get("group"), f"{path}.group", get_args(Group))
    if kind is None or group is None:
        return None
    return Fact(
        name,
        kind,  # type: ignore[arg-type]
        group,  # type: ignore[arg-type]
        source.string(keys.get("about"), f"{path}.about") or "",
        values=tuple(source.strings(keys.get("values"), f"{path}.values")),
        special=tuple(source.strings(keys.get("special"), f"{path}.special")),
        minimum=source.integer(keys.get("minimum"), f"{path}.minimum"),
        unit=source.string(keys.get("unit"), f"{path}.unit"),
        order=source.choice(keys.get("order"), f"{path}.order", ORDERS),
        null=bool(source.boolean(keys.get("null"), f"{path}.null")),
        null_word=source.string(keys.get("null_word"), f"{path}.null_word") or "none",
        pattern=_pattern(keys.get("pattern"), source, f"{path}.pattern"),
        on=_pattern(keys.get("on"), source, f"{path}.on", ("fact", "value")),
    )


def _pattern(node: Node | None, source: Source, path: str, more: tuple[str, ...] = ()) -> Pattern | None:
    if node is None:
        return None
    keys = source.mapping(node, path, ("regex", "example", *more), required=("regex", "example", *more))
    text = {name: source.string(child, f"{path}.{name}") or "" for name, child in keys.items()}
    try:
        regex = re.compile(text.get("regex", ""))
    except re.error as error:
        source.note(keys["regex"].at(source.file, path), "bad-value", f"`regex`: not a regular expression: {error}")
        return None
    return Pattern(regex, text.get("example", ""), text.get("fact"), text.get("value"))


def _check_name(name: str, node: Node, source: Source, path: str) -> None:
    if not _NAME.match(name) or name in RESERVED:
        wanted = "small letters, digits, `_`, `-` and dots, and none of the reserved words"
        message = f"`{name}` is no name for a fact: wanted {wanted}"
        source.note(node.key_at(source.file, path), "bad-name", message)


def _package(key: str, node: Node, source: Source) -> Package:
    path = f"packages.{key}"
    _check_name(key, node, source, path)
    keys = source.mapping(node, path, ("distributions", "modules", "symbols", "about"), required=("distributions",))
    distributions, modules, symbols = (
        tuple(source.strings(keys.get(name), f"{path}.{name}")) for name in ("distributions", "modules", "symbols")
    )
    return Package(key, distributions, modules, symbols, source.string(keys.get("about"), f"{path}.about") or "")


def _derived(name: str, node: Node, source: Source, facts: dict[str, Fact]) -> Derived | None:
    path = f"derived.{name}"
    keys = source.mapping(node, path, ("relation", "of", "about"), required=("relation", "of"))
    relation = source.choice(keys.get("relation"), f"{path}.relation", ("equal", "divisible"))
    of = source.strings(keys.get("of"), f"{path}.of", facts)
    if relation is None or len(of) != 2:  # noqa: PLR2004 - a relation has two sides
        source.note(node.at(source.file, path), "bad-value", f"`{name}`: wanted a relation of two facts")
        return None
    about = source.string(keys.get("about"), f"{path}.about") or ""
    facts[name] = Fact(name, "boolean", "derived", about)
    return Derived(name, relation, of[0], of[1])  # type: ignore[arg-type]


def _set(name: str, node: Node, source: Source, facts: Mapping[str, Fact]) -> tuple[str, tuple[Value, ...]] | None:
    path = f"sets.{name}"
    keys = source.mapping(node, path, ("fact", "values", "about"), required=("fact", "values"))
    owner = source.string(keys.get("fact"), f"{path}.fact")
    if owner is None:
        return None
    if owner not in facts:
        source.note(keys["fact"].at(source.file, path), "unknown-fact", f"no fact `{owner}`", nearest(owner, facts))
        return None
    values: list[Value] = []
    for index, item in enumerate(source.items(keys.get("values"), f"{path}.values")):
        place = item.at(source.file, f"{path}.values[{index}]")
        if isinstance(item.value, dict | list) or item.value is None or isinstance(item.value, float):
            source.note(place, "bad-value", f"wanted a value of `{owner}`, got {kind_of(item)}")
            continue
        misfit = None if _is_pattern(facts[owner], item.value) else facts[owner].misfit(item.value)
        if misfit is not None:
            source.note(place, "bad-value", misfit.message, misfit.hint)
        values.append(item.value)
    return owner, tuple(values)


def _is_pattern(fact: Fact, value: object) -> bool:
    return isinstance(value, str) and fact.matches_pattern(value) is not None
