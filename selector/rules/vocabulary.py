"""The words that rules may use: facts with their types, named sets of values, packages."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from packaging.version import InvalidVersion, Version

from selector.rules.orders import ORDERS, Order, capability_pattern
from selector.rules.problems import listing, nearest, shown

Value = str | int | bool | None
Group = Literal["machine", "request", "call", "config", "derived"]
PACKAGE_PREFIX = "packages."


class Misfit(NamedTuple):
    """Why a value does not belong to a fact: the sentence, and a hint."""

    message: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the text of a value must look like, everywhere or (`fact` and `value`) where another fact has a value."""

    regex: re.Pattern[str]
    example: str
    fact: str | None = None
    value: str | None = None


@dataclass(frozen=True, slots=True)
class Fact:
    """One fact: its type, the values it may take, and how they compare.

    `null` says whether null is a value of it (there is none of it); otherwise null means unknown. `special` holds
    words that stand for a value that is not known as a number (a symbolic size): tests of its number are undetermined.
    `null_word` is what a log line says for null. `pattern` is what a value in a rule looks like, so that a misspelt one
    is found; `on` what a value of the fact looks like where another fact has a value. `fixed` tells that nobody changes
    it on a machine as it is.
    """

    name: str
    type: Literal["string", "integer", "boolean", "version"]
    group: Group
    about: str
    values: tuple[str, ...] = ()
    special: tuple[str, ...] = ()
    minimum: int | None = None
    unit: str | None = None
    order: str | None = None
    null: bool = False
    null_word: str = "none"
    fixed: bool = False
    pattern: Pattern | None = None
    on: Pattern | None = None

    def misfit(self, value: object) -> Misfit | None:
        """Say why a value that is not null does not belong to this fact, or give None when it does."""
        return _CHECKS[self.type](self, value)

    def misfit_in_rule(self, value: object) -> Misfit | None:
        """Say why a value that stands in a rule does not belong to this fact; a rule is held to the pattern too."""
        written = self.pattern
        if written is None or not isinstance(value, str) or self.misfit(value) or written.regex.fullmatch(value):
            return self.misfit(value)
        return Misfit(f"`{self.name}`: wanted a value such as `{written.example}`, got `{shown(value)}`")

    def ordering(self) -> Order | None:
        """Give the order in which values of this fact compare, None when they do not."""
        return ORDERS[self.order] if self.order else None

    def matches_pattern(self, text: str) -> Callable[[object], bool] | None:
        """Compile a pattern that stands for several values (``sm_10x``), None when the text is none."""
        return capability_pattern(text) if self.order == "capability" else None


def _check_boolean(fact: Fact, value: object) -> Misfit | None:
    if isinstance(value, bool):
        return None
    return Misfit(f"`{fact.name}`: wanted true or false, got {_typed(value)}")


def _check_integer(fact: Fact, value: object) -> Misfit | None:
    if isinstance(value, bool) or not isinstance(value, int):
        if isinstance(value, str) and value in fact.special:
            return None
        wanted = f"an integer{_or_words(fact)}"
        return Misfit(f"`{fact.name}`: wanted {wanted}, got {_typed(value)}", nearest(value, fact.special))
    if fact.minimum is None or value >= fact.minimum:
        return None
    wanted = f"an integer of at least {fact.minimum}{_or_words(fact)}"
    return Misfit(f"`{fact.name}`: wanted {wanted}, got {shown(value)}")


def _or_words(fact: Fact) -> str:
    return "".join(f" or `{word}`" for word in fact.special)


def _check_string(fact: Fact, value: object) -> Misfit | None:
    if not isinstance(value, str):
        return Misfit(f"`{fact.name}`: wanted a string, got {_typed(value)}")
    if fact.values and value not in fact.values:
        return Misfit(f"`{fact.name}`: wanted {one_of(fact.values)}, got `{shown(value)}`", nearest(value, fact.values))
    if not value:
        return Misfit(f"`{fact.name}`: wanted a string, got an empty one")
    return None


def _check_version(fact: Fact, value: object) -> Misfit | None:
    if not isinstance(value, str):
        return Misfit(f"`{fact.name}`: wanted a version as a string, got {_typed(value)}", "quote it")
    if is_version(value):
        return None
    return Misfit(f"`{fact.name}`: wanted a version as PEP 440 writes it, got `{shown(value)}`")


@functools.lru_cache(maxsize=4096)
def is_version(text: str) -> bool:
    """Whether PEP 440 writes a version so."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


_CHECKS: Mapping[str, Callable[[Fact, object], Misfit | None]] = {
    "boolean": _check_boolean, "integer": _check_integer, "string": _check_string, "version": _check_version,
}  # fmt: skip


def _typed(value: object) -> str:
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None or isinstance(value, bool):
        return shown(value)
    return f"the string `{shown(value)}`" if isinstance(value, str) else f"the number {shown(value)}"


def one_of(values: tuple[str, ...]) -> str:
    """Write a choice of names for a sentence."""
    return f"one of {listing(values)}" if len(values) > 1 else listing(values)


@dataclass(frozen=True, slots=True)
class Package:
    """A package that rules ask about: the distributions that bring it, and what a deep probe imports of it."""

    key: str
    distributions: tuple[str, ...]
    modules: tuple[str, ...]
    symbols: tuple[str, ...]
    about: str


@dataclass(frozen=True, slots=True)
class Derived:
    """A fact computed from two others: whether they are equal, or whether the second divides the first.

    `special` are words that stand for a number that is not known, which is equal to nothing for certain.
    """

    name: str
    relation: Literal["equal", "divisible"]
    first: str
    second: str
    special: frozenset[str] = frozenset()

    def value(self, facts: Mapping[str, Value]) -> bool | None:
        """Give the relation of the two facts, None while one is unknown; null is equal to whatever it meets."""
        if self.first not in facts or self.second not in facts:
            return None
        first, second = facts[self.first], facts[self.second]
        if self.relation == "equal":
            if first is None or second is None:
                return True
            if first in self.special or second in self.special:
                return None
            return first == second if type(first) is type(second) else None
        if not isinstance(first, int) or not isinstance(second, int) or second == 0:
            return None
        return first % second == 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Every fact, named set and package by name; `broken` are names whose declaration is wrong, told once already.

    `group` has the facts by who gives them; `own` are a machine's that are no packages, `asked` those of a request,
    `packaged` the packages, each with its fact, `shaped` the `own` facts whose form another one settles.
    """

    facts: Mapping[str, Fact]
    sets: Mapping[str, tuple[str, tuple[Value, ...]]]
    packages: Mapping[str, Package]
    derived: tuple[Derived, ...] = ()
    broken: frozenset[str] = frozenset()
    group: Mapping[str, tuple[Fact, ...]] = field(init=False)
    own: Mapping[str, Fact] = field(init=False, repr=False, compare=False)
    asked: Mapping[str, Fact] = field(init=False, repr=False, compare=False)
    packaged: tuple[tuple[str, Fact], ...] = field(init=False, repr=False, compare=False)
    shaped: tuple[tuple[Fact, Pattern], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Sort the facts by who gives them."""
        groups: dict[str, list[Fact]] = {}
        for fact in self.facts.values():
            groups.setdefault(fact.group, []).append(fact)
        object.__setattr__(self, "group", {name: tuple(facts) for name, facts in groups.items()})
        own = {fact.name: fact for fact in groups.get("machine", ()) if not fact.name.startswith(PACKAGE_PREFIX)}
        packaged = [(key, self.facts.get(PACKAGE_PREFIX + key)) for key in self.packages]
        object.__setattr__(self, "packaged", tuple((key, fact) for key, fact in packaged if fact is not None))
        object.__setattr__(self, "own", own)
        shaped = tuple((fact, fact.on) for fact in own.values() if fact.on is not None and fact.on.fact is not None)
        object.__setattr__(self, "shaped", shaped)
        object.__setattr__(self, "asked", {fact.name: fact for fact in groups.get("request", ())})

    def package_key(self, name: str) -> str | None:
        """Find the package that a distribution's name belongs to, for a hint."""
        return next((key for key, package in self.packages.items() if name in package.distributions), None)


def package_fact(package: Package) -> Fact:
    """Give the fact that a package stands for: its version, null when it is absent."""
    name = PACKAGE_PREFIX + package.key
    return Fact(name, "version", "machine", package.about, order="pep440", null=True)
