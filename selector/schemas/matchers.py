"""Conditions: what a `when` may ask of each fact, from the operators of the rule language."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from selector.rules.vocabulary import Fact, Vocabulary
from selector.rules.when import GROUPS, OPERATORS, UNKNOWN
from selector.schemas.annotations import NOT_BLANK, SCALARS, Json, fault, ref, value_name, wanted

_FAMILY = "sm_10x"
_FAMILY_PATTERN = "^sm_[1-9][0-9]?x$"


def when(vocabulary: Vocabulary) -> Json:
    """Say what a condition may be: facts with their matchers, and groups."""
    sets: dict[str, list[str]] = {}
    for name, (owner, _) in vocabulary.sets.items():
        sets.setdefault(owner, []).append(name)
    matchers = {name: matcher(fact, sets.get(name, [])) for name, fact in vocabulary.facts.items()}
    return {
        "description": "Facts with what is asked of them, all of which must hold; `any`, `all` and `not` nest.",
        "type": "object",
        "minProperties": 1,
        **wanted("a mapping of facts"),
        "properties": {**{name: _group(name) for name in GROUPS}, **matchers},
        "additionalProperties": ref("matcher"),
    }


_GROUP_WORDS = {
    "all": "Every one of these conditions holds.",
    "any": "One of these conditions holds, or several.",
    "not": "This condition does not hold.",
}


def _group(name: str) -> Json:
    told = {"description": _GROUP_WORDS[name]}
    if name == "not":
        return {**told, **ref("when")}
    return {**told, "type": "array", "items": ref("when"), "minItems": 1, **wanted("a list of mappings of facts")}


def matcher(fact: Fact, sets: list[str]) -> Json:
    """Say what may be asked of a fact: a value, a list, a comparison, `present`, `absent`, or named matchers."""
    return {"description": fact.about, "anyOf": [*_short_forms(fact), _named_matchers(fact, sets)], "x-fact": fact.name}


def _short_forms(fact: Fact) -> Iterator[Json]:
    yield _literal(fact)
    yield {"type": "array", "items": _literal(fact), "minItems": 1}
    order = fact.ordering()
    if order is not None:
        yield {"type": "string", "pattern": r"^\s*[<>=!]", "examples": [order.example]}
    if fact.null:
        yield {"enum": ["present", "absent"]}


def _literal(fact: Fact) -> Json:
    """One value to compare with; architectures may be written as a family."""
    if fact.matches_pattern(_FAMILY) is not None:
        return {"anyOf": [ref(value_name(fact)), {"type": "string", "pattern": _FAMILY_PATTERN, "examples": [_FAMILY]}]}
    return ref(value_name(fact))


def _named_matchers(fact: Fact, sets: list[str]) -> Json:
    operands = {name: _OPERANDS[name](fact, sets) for name in OPERATORS}
    possible = {name: operand for name, operand in operands.items() if operand is not None}
    return _mapping_of(possible)


def _mapping_of(operands: Json) -> Json:
    unknown = {"description": "What the test says while the fact is unknown.", "enum": list(UNKNOWN)}
    return {
        "title": "matchers",  # editors name the type of a mapping by it
        "type": "object",
        "properties": {**operands, "unknown": unknown},
        "additionalProperties": False,
        "allOf": [
            {
                "not": _ONLY_UNKNOWN,
                **fault("empty-matcher", "`{key}`: wanted a matcher, got none", told="wanted a matcher"),
            }
        ],
    }


_ONLY_UNKNOWN: Json = {"type": "object", "properties": {"unknown": True}, "additionalProperties": False}


def _equals(fact: Fact, _sets: list[str]) -> Json:
    return {**_literal(fact), "description": "Equal to this value."}


def _in(fact: Fact, sets: list[str]) -> Json:
    values = {"type": "array", "items": _literal(fact), "minItems": 1}
    names: list[Json] = [{"enum": sets}] if sets else []
    text: Json = {"type": "string", "pattern": NOT_BLANK, "description": "A named set of the vocabulary."}
    return {"description": "One of these values, or of a named set.", "anyOf": [values, text, *names]}


def _compare(fact: Fact, _sets: list[str]) -> Json | None:
    order = fact.ordering()
    if order is None:
        return None
    told = "Within these bounds, joined with commas."
    return {"description": told, "type": "string", "examples": [order.example], **wanted("a comparison as a string")}


def _multiple_of(fact: Fact, _sets: list[str]) -> Json | None:
    if fact.type != "integer":
        return None
    return {"description": "A multiple of this number.", "type": "integer", "minimum": 1}


def _bound(told: str) -> Callable[[Fact, list[str]], Json | None]:
    def operand(fact: Fact, _sets: list[str]) -> Json | None:
        types = ["integer"] * (fact.type == "integer") + ["string"] * (fact.order is not None)
        return {"description": told, "type": types} if types else None

    return operand


def _nullness(told: str) -> Callable[[Fact, list[str]], Json | None]:
    def operand(fact: Fact, _sets: list[str]) -> Json | None:
        return {"description": told, "const": True} if fact.null else None

    return operand


_OPERANDS: Mapping[str, Callable[[Fact, list[str]], Json | None]] = {
    "equals": _equals,
    "in": _in,
    "compare": _compare,
    "multiple_of": _multiple_of,
    "min": _bound("At least this."),
    "max": _bound("At most this."),
    "present": _nullness("It is there: known, and not null."),
    "absent": _nullness("It is known to be null."),
}


def any_matcher() -> Json:
    """Say what may be asked of a fact that an overlay declares."""
    scalar: Json = {"type": SCALARS}
    return {
        "description": "A matcher of a fact that other rules declare.",
        "anyOf": [
            scalar,
            {"type": "array", "items": scalar, "minItems": 1},
            _mapping_of({name: {"description": f"The matcher `{name}`."} for name in OPERATORS}),
        ],
    }
