"""How the vocabulary is read from YAML."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import get_args

from selector.rules.fields import Source, kind_of
from selector.rules.nodes import Node, follow
from selector.rules.orders import ORDERS
from selector.rules.problems import nearest, shown
from selector.rules.vocabulary import Derived, Fact, Group, Package, Pattern, Value, Vocabulary, package_fact

_FACT_KEYS = (
    "type", "group", "about", "values", "special", "minimum", "unit", "order", "null", "null_word", "fixed", "pattern",
    "on",
)  # fmt: skip
_TYPES = ("string", "integer", "boolean", "version")
_NAME = re.compile(r"[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*\Z")
RESERVED = ("all", "any", "not", "unknown")


def read_vocabulary(node: Node, source: Source) -> Vocabulary:
    """Read the facts, sets and packages; what is wrong is noted in `source`."""
    return _Words(source).read(node)


@dataclass(slots=True)
class _Words:
    """The vocabulary as far as it is read. A name whose declaration is wrong is `broken`: its uses are not told."""

    source: Source
    facts: dict[str, Fact] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)

    def read(self, node: Node) -> Vocabulary:
        source = self.source
        keys = source.mapping(node, "", ("facts", "derived", "sets", "packages"), required=("facts",))
        declared = source.mapping(keys.get("facts"), "facts", None)
        for name, child in declared.items():
            self.add(name, child, f"facts.{name}", self.fact(name, child))
        packages = {}
        for key, child in source.mapping(keys.get("packages"), "packages", None).items():
            packages[key] = self.package(key, child)
            fact = package_fact(packages[key])
            self.add(fact.name, child, f"packages.{key}", fact)
        relations = []
        for name, child in source.mapping(keys.get("derived"), "derived", None).items():
            relation, made = self.derived(name, child)
            self.add(name, child, f"derived.{name}", made)
            relations += [relation] if relation is not None else []
        sets = {}
        for name, child in source.mapping(keys.get("sets"), "sets", None).items():
            found = self.set(name, child)
            if found is None:
                self.broken.add(name)
            else:
                sets[name] = found
        for name, child in declared.items():
            self.check_on(name, child)
        return Vocabulary(self.facts, sets, packages, tuple(relations), frozenset(self.broken))

    def add(self, name: str, node: Node, path: str, fact: Fact | None) -> None:
        """Take a fact in, unless its name is no name or is taken."""
        place = node.key_at(self.source.file, path)
        if not _NAME.match(name) or name in RESERVED:
            wanted = "small letters, digits, `_`, `-` and dots, and none of the reserved words"
            self.source.note(place, "bad-name", f"`{shown(name)}` is no name for a fact: wanted {wanted}")
        elif name in self.facts:
            self.source.note(place, "declared-twice", f"the fact `{name}` is declared already")
        if fact is None:
            self.broken.add(name)
        else:
            self.facts.setdefault(name, fact)

    def fact(self, name: str, node: Node) -> Fact | None:
        """Read one fact; None when its type, group or order is wrong."""
        path, source = f"facts.{name}", self.source
        keys = source.mapping(node, path, _FACT_KEYS, required=("type", "group", "about"))
        kind = source.choice(keys.get("type"), f"{path}.type", _TYPES)
        group = source.choice(keys.get("group"), f"{path}.group", get_args(Group))
        order = source.choice(keys.get("order"), f"{path}.order", ORDERS)
        about = source.string(keys.get("about"), f"{path}.about") or ""
        if order is not None and kind is not None and ORDERS[order].type != kind:
            message = f"`order`: `{order}` orders facts of the type {ORDERS[order].type}, not {kind}"
            source.note(keys["order"].at(source.file, f"{path}.order"), "wrong-order", message)
            return None
        if kind is None or group is None or ("order" in keys and order is None):
            return None
        return Fact(
            name,
            kind,  # type: ignore[arg-type]
            group,  # type: ignore[arg-type]
            about,
            values=tuple(source.strings(keys.get("values"), f"{path}.values")),
            special=tuple(source.strings(keys.get("special"), f"{path}.special")),
            minimum=source.integer(keys.get("minimum"), f"{path}.minimum"),
            unit=source.string(keys.get("unit"), f"{path}.unit"),
            order=order,
            null=bool(source.boolean(keys.get("null"), f"{path}.null")),
            null_word=source.string(keys.get("null_word"), f"{path}.null_word") or "none",
            fixed=bool(source.boolean(keys.get("fixed"), f"{path}.fixed")),
            pattern=self.pattern(keys.get("pattern"), f"{path}.pattern"),
            on=self.pattern(keys.get("on"), f"{path}.on", ("fact", "value")),
        )

    def pattern(self, node: Node | None, path: str, more: tuple[str, ...] = ()) -> Pattern | None:
        """Read a pattern for the text of a value."""
        if node is None:
            return None
        wanted = ("regex", "example", *more)
        keys = self.source.mapping(node, path, wanted, required=wanted)
        text = {name: self.source.string(child, f"{path}.{name}") or "" for name, child in keys.items()}
        try:
            regex = re.compile(text.get("regex", ""))
        except re.error as error:
            place = keys["regex"].at(self.source.file, path)
            self.source.note(place, "bad-value", f"`regex`: not a regular expression: {error}")
            return None
        return Pattern(regex, text.get("example", ""), text.get("fact"), text.get("value"))

    def check_on(self, name: str, node: Node) -> None:
        """Check that a pattern depends on a fact that there is."""
        fact = self.facts.get(name)
        other = fact.on.fact if fact is not None and fact.on is not None else None
        if other and other not in self.facts and other not in self.broken:
            self.unknown_fact(follow(node, ("on", "fact")), f"facts.{name}.on", other)

    def unknown_fact(self, node: Node, path: str, name: str) -> None:
        """Note a fact that nobody declares."""
        place = node.at(self.source.file, path)
        self.source.note(place, "unknown-fact", f"no fact `{shown(name)}`", nearest(name, self.facts))

    def package(self, key: str, node: Node) -> Package:
        """Read one package."""
        path, source = f"packages.{key}", self.source
        known = ("distributions", "modules", "symbols", "about")
        keys = source.mapping(node, path, known, required=("distributions",))
        distributions, modules, symbols = (
            tuple(source.strings(keys.get(name), f"{path}.{name}")) for name in known[:3]
        )
        about = source.string(keys.get("about"), f"{path}.about") or ""
        return Package(key, distributions, modules, symbols, about)

    def derived(self, name: str, node: Node) -> tuple[Derived | None, Fact | None]:
        """Read one relation of two facts, and the fact that it makes."""
        path, source = f"derived.{name}", self.source
        keys = source.mapping(node, path, ("relation", "of", "about"), required=("relation", "of"))
        relation = source.choice(keys.get("relation"), f"{path}.relation", ("equal", "divisible"))
        known = {**self.facts, **dict.fromkeys(self.broken)}
        items = source.items(keys.get("of"), f"{path}.of")
        of = source.strings(keys.get("of"), f"{path}.of", known)
        about = source.string(keys.get("about"), f"{path}.about") or ""
        if relation is None or len(of) < len(items) or "of" not in keys or not set(of) <= self.facts.keys():
            return None, None
        place = keys["of"].at(source.file, f"{path}.of")
        if len(of) != 2:  # noqa: PLR2004 - a relation has two sides
            source.note(place, "bad-value", f"`{name}`: wanted two facts, got {len(of)}")
            return None, None
        numbers = all(self.facts[fact].type == "integer" for fact in of)
        if relation == "divisible" and not numbers:
            source.note(place, "not-a-number", f"`{name}`: `divisible` asks for two integers")
            return None, None
        made = Fact(name, "boolean", "derived", about)
        special = frozenset(word for fact in of for word in self.facts[fact].special)
        return Derived(name, relation, of[0], of[1], special), made  # type: ignore[arg-type]

    def set(self, name: str, node: Node) -> tuple[str, tuple[Value, ...]] | None:
        """Read one named set of values."""
        path, source = f"sets.{name}", self.source
        keys = source.mapping(node, path, ("fact", "values", "about"), required=("fact", "values"))
        owner = source.string(keys.get("fact"), f"{path}.fact")
        if owner is None or owner not in self.facts:
            if owner is not None and owner not in self.broken:
                self.unknown_fact(keys["fact"], path, owner)
            return None
        values: list[Value] = []
        items = source.items(keys.get("values"), f"{path}.values")
        if not items and "values" in keys and isinstance(keys["values"].value, list):
            source.note(
                keys["values"].at(source.file, path), "bad-value", "`values`: wanted at least one value, got none"
            )
        for index, item in enumerate(items):
            values += self.value(self.facts[owner], item, f"{path}.values[{index}]")
        return (owner, tuple(values)) if values and len(values) == len(items) else None

    def value(self, fact: Fact, item: Node, path: str) -> list[Value]:
        """Read one value of a set, noting one that does not belong to the fact."""
        place = item.at(self.source.file, path)
        if isinstance(item.value, dict | list | float) or item.value is None:
            self.source.note(place, "bad-value", f"wanted a value of `{fact.name}`, got {kind_of(item)}")
            return []
        if isinstance(item.value, str) and fact.matches_pattern(item.value) is not None:
            return [item.value]
        misfit = fact.misfit_in_rule(item.value)
        if misfit is not None:
            self.source.note(place, "bad-value", misfit.message, misfit.hint)
            return []
        return [item.value]
