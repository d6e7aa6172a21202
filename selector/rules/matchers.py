"""The matchers: what may be asked of one fact, each checked against the fact before any rule uses it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from selector.rules.checks import Check, Comparison, any_of, at_least, at_most, constant, equal, multiple
from selector.rules.conditions import ALWAYS, Both, Condition, Test, Truth
from selector.rules.fields import Source, kind_of
from selector.rules.nodes import Node
from selector.rules.orders import Order
from selector.rules.problems import Place, listing, nearest, shown
from selector.rules.vocabulary import Fact, Value, Vocabulary

Asked = tuple[str, Check, tuple[Value, ...]]
"""What is asked, in words and as a function, and the values that are mentioned."""
UNKNOWN: Mapping[str, bool] = {"match": True, "fail": False}
_SIGNS = ("<", ">", "=", "!", "~")


class Skip(Exception):  # noqa: N818 - not an error: the problem is already noted
    """The matcher could not be read; a problem says why."""


@dataclass(slots=True)
class Matcher:
    """Reads the matcher of one fact; `asked` collects the special words that it asks for by name."""

    fact: Fact
    vocabulary: Vocabulary
    source: Source
    path: str
    asked: set[str] = field(default_factory=set)

    def read(self, node: Node) -> Condition:
        """Give the condition; one that could not be read is noted and holds always."""
        value = node.value
        if isinstance(value, dict):
            return self.keyed(node, value)
        name, operand = "equals", node
        if isinstance(value, list):
            name = "in"
        elif isinstance(value, str) and value in ("present", "absent"):
            name, operand = value, replace(node, value=True)
        elif isinstance(value, str) and value.lstrip().startswith(_SIGNS):
            name = "compare"
        return _together(self.each({name: operand}, None, node))

    def keyed(self, node: Node, value: Mapping[str, Node]) -> Condition:
        """Read a mapping of matchers, all of which must hold."""
        unknown = self.unknown(value["unknown"]) if "unknown" in value else None
        known = {name: child for name, child in value.items() if name in OPERATORS}
        for name, child in value.items():
            if name not in OPERATORS and name != "unknown":
                hint = nearest(name, [*OPERATORS, "unknown"]) or f"one of {listing(list(OPERATORS))}"
                self.note("unknown-matcher", f"no matcher `{shown(name)}`", hint, self.key(child))
        if not value.keys() - {"unknown"}:
            self.note("empty-matcher", f"`{self.fact.name}`: wanted a matcher, got none", None, self.at(node))
        return _together(self.each(known, unknown, node))

    def each(self, operands: Mapping[str, Node], unknown: Truth, node: Node) -> Iterable[Test]:
        """Read every operator, noting what is wrong with each."""
        for name, operand in operands.items():
            self.asked = set()
            try:
                wanted, check, mentions = OPERATORS[name](self, operand)
            except Skip:
                continue
            special = _others(self.fact.special, frozenset(self.asked))
            place = self.key(node)
            yield Test(self.fact.name, name, wanted, check, name == "absent", unknown, special, place, mentions)

    def unknown(self, node: Node) -> Truth:
        """Read what an unknown fact gives."""
        if isinstance(node.value, str) and node.value in UNKNOWN:
            return UNKNOWN[node.value]
        self.note("bad-value", f"`unknown`: wanted {' or '.join(UNKNOWN)}, got {kind_of(node)}", None, self.at(node))
        return None

    def at(self, node: Node) -> Place:
        """Give the place of a value."""
        return node.at(self.source.file, self.path)

    def key(self, node: Node) -> Place:
        """Give the place of the key that leads to a value."""
        return node.key_at(self.source.file, self.path)

    def note(self, code: str, message: str, hint: str | None, place: Place) -> None:
        """Add a problem."""
        self.source.note(place, code, message, hint)

    def skip(self, code: str, message: str, hint: str | None, node: Node) -> Skip:
        """Note a problem with an operand, and give what ends its reading."""
        self.note(code, message, hint, self.at(node))
        return Skip()

    def literal(self, node: Node) -> Check:
        """Compile one value of the fact: a pattern, a version, or the value itself, of the same type."""
        value = node.value
        if value is None:
            message = f"`{self.fact.name}`: null is no value to compare with"
            raise self.skip("bad-value", message, "write `absent`", node)
        pattern = self.fact.matches_pattern(value) if isinstance(value, str) else None
        if pattern is not None:
            return pattern
        misfit = self.fact.misfit_in_rule(value)
        if misfit is not None:
            raise self.skip("bad-value", misfit.message, misfit.hint, node)
        if value in self.fact.special:
            self.asked.add(str(value))
        order = self.fact.ordering()
        if self.fact.type == "version" and order is not None:
            return _comparison(order, f"=={value}")
        return _equal_to(_value(node))

    def choice(self, node: Node) -> Asked:
        """Compile a list of values; every one that is wrong is noted."""
        if not isinstance(node.value, list) or not node.value:
            got = "an empty list" if node.value == [] else kind_of(node)
            raise self.skip("bad-value", f"`{self.fact.name}`: wanted a list of values, got {got}", None, node)
        checks = []
        for item in node.value:
            try:
                checks.append(self.literal(item))
            except Skip:
                continue
        if len(checks) < len(node.value):
            raise Skip
        wanted = f"one of {', '.join(shown(item.value) for item in node.value)}"
        mentions = tuple(_value(item) for item in node.value)
        return wanted, functools.partial(any_of, tuple(checks)), mentions


@functools.lru_cache(maxsize=1024)
def _others(words: tuple[str, ...], asked: frozenset[str]) -> frozenset[str]:
    """Leave out the words that are asked for; many tests share what is left."""
    return frozenset(words) - asked


@functools.lru_cache(maxsize=4096, typed=True)
def _equal_to(value: Value) -> Check:
    """Make the check for a value, which tests share."""
    return functools.partial(equal, value)


def _together(parts: Iterable[Test]) -> Condition:
    found = tuple(parts)
    if not found:
        return ALWAYS
    return found[0] if len(found) == 1 else Both(found)


def _comparison(order: Order, text: str) -> Check:
    """Compile a comparison; raises `ValueError` when it is none."""
    return Comparison(order.name, text, order.comparison(text))


def _value(node: Node) -> Value:
    return node.value if isinstance(node.value, str | int) else None


def _equals(matcher: Matcher, node: Node) -> Asked:
    check = matcher.literal(node)
    return shown(node.value), check, (_value(node),)


def _in(matcher: Matcher, node: Node) -> Asked:
    if not isinstance(node.value, str):
        return matcher.choice(node)
    name, fact, sets = node.value, matcher.fact, matcher.vocabulary.sets
    of_fact = [other for other, (owner, _) in sets.items() if owner == fact.name]
    if name not in sets:
        if name in matcher.vocabulary.broken:
            raise Skip
        raise matcher.skip("unknown-set", f"no set `{shown(name)}`", nearest(name, of_fact), node)
    owner, values = sets[name]
    if owner != fact.name:
        message = f"set `{name}` holds values of `{owner}`, not of `{fact.name}`"
        hint = f"sets of `{fact.name}`: {listing(of_fact) or 'none'}"
        raise matcher.skip("wrong-set", message, hint, node)
    items = replace(node, value=[replace(node, value=value) for value in values])
    _, check, mentions = matcher.choice(items)
    return f"{name} ({', '.join(shown(value) for value in values)})", check, mentions


def _compare(matcher: Matcher, node: Node, sign: str = "") -> Asked:
    order, fact = matcher.fact.ordering(), matcher.fact
    if order is None:
        message = f"values of `{fact.name}` have no order: wanted a value, got {kind_of(node)}"
        raise matcher.skip("not-ordered", message, None, node)
    if not isinstance(node.value, str):
        message = f"`{fact.name}`: wanted a comparison as a string, got {kind_of(node)}"
        raise matcher.skip("bad-value", message, "quote it", node)
    text = f"{sign}{node.value}"
    try:
        return text, _comparison(order, text), (text,)
    except ValueError:
        wanted = (
            f"a bound such as `{order.example.removeprefix('>=')}`"
            if sign
            else f"a comparison such as `{order.example}`"
        )
        message = f"`{fact.name}`: wanted {wanted}, got {kind_of(node)}"
    raise matcher.skip("bad-value", message, None, node)


def _multiple_of(matcher: Matcher, node: Node) -> Asked:
    divisor = _integer(matcher, node, "multiple_of")
    if divisor < 1:
        raise matcher.skip("bad-value", f"`multiple_of`: wanted an integer of at least 1, got {divisor}", None, node)
    return f"a multiple of {divisor}", functools.partial(multiple, divisor), (divisor,)


def _min(matcher: Matcher, node: Node) -> Asked:
    if isinstance(node.value, str):
        return _compare(matcher, node, ">=")
    least = _integer(matcher, node, "min")
    return f"at least {least}", functools.partial(at_least, least), (f">={least}",)


def _max(matcher: Matcher, node: Node) -> Asked:
    if isinstance(node.value, str):
        return _compare(matcher, node, "<=")
    most = _integer(matcher, node, "max")
    return f"at most {most}", functools.partial(at_most, most), (f"<={most}",)


def _integer(matcher: Matcher, node: Node, name: str) -> int:
    value = node.value
    if matcher.fact.type != "integer":
        message = f"`{name}` asks for an integer, but `{matcher.fact.name}` is a {matcher.fact.type}"
        raise matcher.skip("not-a-number", message, None, node)
    if isinstance(value, bool) or not isinstance(value, int):
        raise matcher.skip("bad-value", f"`{name}`: wanted an integer, got {kind_of(node)}", None, node)
    return value


def _nullness(name: str) -> Callable[[Matcher, Node], Asked]:
    def read(matcher: Matcher, node: Node) -> Asked:
        if node.value is not True:
            raise matcher.skip("bad-value", f"`{name}`: wanted true, got {kind_of(node)}", None, node)
        if not matcher.fact.null:
            always = "always present" if name == "present" else "never absent"
            message = f"`{matcher.fact.name}` is never null: it is {always} where it is known"
            raise matcher.skip("never-null", message, None, node)
        return name, functools.partial(constant, name == "present"), ()

    return read


OPERATORS: Mapping[str, Callable[[Matcher, Node], Asked]] = {
    "equals": _equals,
    "in": _in,
    "compare": _compare,
    "multiple_of": _multiple_of,
    "min": _min,
    "max": _max,
    "present": _nullness("present"),
    "absent": _nullness("absent"),
}
