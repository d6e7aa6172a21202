"""How a `when` is read from YAML: every matcher is checked against the fact that it asks about."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from selector.rules.conditions import ALWAYS, Both, Condition, Either, Not, Test, Truth
from selector.rules.fields import Source, kind_of
from selector.rules.nodes import Node
from selector.rules.problems import Place, listing, nearest, shown
from selector.rules.vocabulary import Fact, Vocabulary

Check = Callable[[object], bool]
GROUPS = ("all", "any", "not")
UNKNOWN: Mapping[str, bool] = {"match": True, "fail": False}
_SIGNS = ("<", ">", "=", "!")


class _Skip(Exception):  # noqa: N818 - not an error: the problem is already noted
    """The matcher could not be read; a problem says why."""


@dataclass(slots=True)
class Reader:
    """Reads conditions of one file; what is wrong is noted in `source`, and reading goes on."""

    vocabulary: Vocabulary
    source: Source

    @property
    def file(self) -> str:
        """The name of the file being read."""
        return self.source.file

    def when(self, node: Node, path: str) -> Condition:
        """Read a mapping of facts and groups, all of which must hold."""
        if not isinstance(node.value, dict):
            self.note(node.at(self.file, path), "wrong-type", f"wanted a mapping of facts, got {kind_of(node)}")
            return ALWAYS
        if not node.value:
            self.note(node.at(self.file, path), "empty-when", "wanted at least one fact", "leave the key out")
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
        if fact is None:
            hint = nearest(name, [*self.vocabulary.facts, *GROUPS])
            self.note(node.key_at(self.file, path), "unknown-fact", f"no fact `{shown(name)}`", hint)
            return ALWAYS
        try:
            return _Matcher(self, fact, node, path).read()
        except _Skip:
            return ALWAYS

    def alternatives(self, node: Node, path: str) -> tuple[Condition, ...]:
        """Read the list below `any` or `all`."""
        if not isinstance(node.value, list) or not node.value:
            got = kind_of(node) if not isinstance(node.value, list) else "an empty list"
            self.note(node.at(self.file, path), "wrong-type", f"wanted a list of mappings of facts, got {got}")
            return ()
        return tuple(self.when(item, f"{path}[{index}]") for index, item in enumerate(node.value))

    def note(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        """Add a problem."""
        self.source.note(place, code, message, hint)


@dataclass(slots=True)
class _Matcher:
    """The matcher of one fact."""

    reader: Reader
    fact: Fact
    node: Node
    path: str

    def read(self) -> Condition:
        value = self.node.value
        if isinstance(value, dict):
            return self.keyed(value)
        if isinstance(value, list):
            return self.test("in", *self.choice(self.node), None)
        if isinstance(value, str) and value in ("present", "absent"):
            return self.operator(value, Node(value=True, line=self.node.line, column=self.node.column), None)
        if isinstance(value, str) and value.lstrip().startswith(_SIGNS):
            return self.operator("compare", self.node, None)
        return self.operator("equals", self.node, None)

    def keyed(self, value: Mapping[str, Node]) -> Condition:
        unknown = self.unknown(value["unknown"]) if "unknown" in value else None
        names = [name for name in value if name != "unknown"]
        for name in names:
            if name not in OPERATORS:
                hint = nearest(name, [*OPERATORS, "unknown"])
                place = value[name].key_at(self.reader.file, self.path)
                self.fail(
                    "unknown-matcher",
                    f"no matcher `{shown(name)}`",
                    hint or f"one of {listing(list(OPERATORS))}",
                    place,
                )
        if not names:
            self.fail("empty-matcher", f"`{self.fact.name}`: wanted a matcher, got none")
        parts = tuple(self.operator(name, value[name], unknown) for name in names)
        return parts[0] if len(parts) == 1 else Both(parts)

    def unknown(self, node: Node) -> bool:
        if not isinstance(node.value, str) or node.value not in UNKNOWN:
            message = f"`unknown`: wanted {' or '.join(UNKNOWN)}, got {kind_of(node)}"
            self.fail("bad-value", message, place=node.at(self.reader.file, self.path))
        return UNKNOWN[str(node.value)]

    def operator(self, name: str, node: Node, unknown: Truth) -> Test:
        wanted, check = OPERATORS[name](self, node)
        return self.test(name, wanted, check, unknown)

    def test(self, op: str, wanted: str, check: Check, unknown: Truth) -> Test:
        special = frozenset(self.fact.special) if wanted not in self.fact.special else frozenset[str]()
        place = self.node.key_at(self.reader.file, self.path)
        return Test(self.fact.name, op, wanted, check, op == "absent", unknown, special, place)

    def fail(self, code: str, message: str, hint: str | None = None, place: Place | None = None) -> None:
        self.reader.note(place or self.node.at(self.reader.file, self.path), code, message, hint)
        raise _Skip

    def literal(self, node: Node) -> Check:
        """Compile one value of the fact: a pattern, a version, or the value itself, of the same type."""
        value = node.value
        place = node.at(self.reader.file, self.path)
        if value is None:
            self.fail("bad-value", f"`{self.fact.name}`: null is no value to compare with", "write `absent`", place)
        pattern = self.fact.matches_pattern(value) if isinstance(value, str) else None
        if pattern is not None:
            return pattern
        misfit = self.fact.misfit(value)
        if misfit is not None:
            self.fail("bad-value", misfit.message, misfit.hint, place)
        order = self.fact.ordering()
        if self.fact.type == "version" and order is not None:
            return order.comparison(f"=={value}")
        kind = type(value)
        return lambda got: type(got) is kind and got == value

    def choice(self, node: Node) -> tuple[str, Check]:
        """Compile a list of values."""
        if not isinstance(node.value, list) or not node.value:
            self.fail("bad-value", f"`{self.fact.name}`: wanted a list of values, got an empty one")
        items: Sequence[Node] = node.value if isinstance(node.value, list) else ()
        checks = [self.literal(item) for item in items]
        wanted = f"one of {', '.join(shown(item.value) for item in items)}"
        return wanted, lambda got: any(check(got) for check in checks)


def _equals(matcher: _Matcher, node: Node) -> tuple[str, Check]:
    check = matcher.literal(node)
    return shown(node.value), check


def _in(matcher: _Matcher, node: Node) -> tuple[str, Check]:
    if not isinstance(node.value, str):
        return matcher.choice(node)
    fact, vocabulary = matcher.fact, matcher.reader.vocabulary
    of_fact = [name for name, (owner, _) in vocabulary.sets.items() if owner == fact.name]
    place = node.at(matcher.reader.file, matcher.path)
    if node.value not in vocabulary.sets:
        matcher.fail("unknown-set", f"no set `{shown(node.value)}`", nearest(node.value, of_fact), place)
    owner, values = vocabulary.sets[node.value]
    if owner != fact.name:
        message = f"set `{node.value}` holds values of `{owner}`, not of `{fact.name}`"
        matcher.fail("wrong-set", message, f"sets of `{fact.name}`: {listing(of_fact) or 'none'}", place)
    _, check = matcher.choice(Node([Node(value, node.line, node.column) for value in values], node.line, node.column))
    return f"{node.value} ({', '.join(shown(value) for value in values)})", check


def _compare(matcher: _Matcher, node: Node) -> tuple[str, Check]:
    order = matcher.fact.ordering()
    place = node.at(matcher.reader.file, matcher.path)
    if order is None:
        matcher.fail(
            "not-ordered",
            f"values of `{matcher.fact.name}` have no order: wanted a value, got {kind_of(node)}",
            None,
            place,
        )
    text = node.value
    if order is None or not isinstance(text, str):
        matcher.fail(
            "bad-value",
            f"`{matcher.fact.name}`: wanted a comparison as a string, got {kind_of(node)}",
            "quote it",
            place,
        )
    try:
        check = order.comparison(str(text))  # type: ignore[union-attr]
    except ValueError:
        example = order.example if order else ""
        message = f"`{matcher.fact.name}`: wanted a comparison such as `{example}`, got `{shown(text)}`"
        matcher.fail("bad-value", message, None, place)
    return str(text), check


def _multiple_of(matcher: _Matcher, node: Node) -> tuple[str, Check]:
    divisor = _integer(matcher, node, "multiple_of")
    if divisor < 1:
        matcher.fail("bad-value", f"`multiple_of`: wanted an integer of at least 1, got {divisor}")
    return f"a multiple of {divisor}", lambda got: isinstance(got, int) and got % divisor == 0


def _min(matcher: _Matcher, node: Node) -> tuple[str, Check]:
    if isinstance(node.value, str):
        return _bound(matcher, node, ">=")
    least = _integer(matcher, node, "min")
    return f"at least {least}", lambda got: isinstance(got, int) and got >= least


def _max(matcher: _Matcher, node: Node) -> tuple[str, Check]:
    if isinstance(node.value, str):
        return _bound(matcher, node, "<=")
    most = _integer(matcher, node, "max")
    return f"at most {most}", lambda got: isinstance(got, int) and got <= most


def _bound(matcher: _Matcher, node: Node, sign: str) -> tuple[str, Check]:
    return _compare(matcher, Node(f"{sign}{node.value}", node.line, node.column))


def _integer(matcher: _Matcher, node: Node, name: str) -> int:
    value = node.value
    place = node.at(matcher.reader.file, matcher.path)
    if matcher.fact.type != "integer":
        matcher.fail(
            "not-a-number",
            f"`{name}` asks for an integer, but `{matcher.fact.name}` is a {matcher.fact.type}",
            None,
            place,
        )
    if isinstance(value, bool) or not isinstance(value, int):
        matcher.fail("bad-value", f"`{name}`: wanted an integer, got {kind_of(node)}", None, place)
    return value  # type: ignore[return-value]


def _nullness(name: str) -> Callable[[_Matcher, Node], tuple[str, Check]]:
    def read(matcher: _Matcher, node: Node) -> tuple[str, Check]:
        if node.value is not True:
            place = node.at(matcher.reader.file, matcher.path)
            matcher.fail("bad-value", f"`{name}`: wanted true, got {kind_of(node)}", None, place)
        if not matcher.fact.null:
            matcher.fail("never-null", f"`{matcher.fact.name}` is never null, so it is never {name}")
        return name, lambda _: name == "present"

    return read


OPERATORS: Mapping[str, Callable[[_Matcher, Node], tuple[str, Check]]] = {
    "equals": _equals,
    "in": _in,
    "compare": _compare,
    "multiple_of": _multiple_of,
    "min": _min,
    "max": _max,
    "present": _nullness("present"),
    "absent": _nullness("absent"),
}
