"""The definitions that come from the vocabulary: values of facts, matchers, conditions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from selector.rules.problems import listing
from selector.rules.vocabulary import PACKAGE_PREFIX, Fact, Vocabulary, one_of
from selector.rules.when import GROUPS, OPERATORS, UNKNOWN
from selector.schemas.annotations import NOT_BLANK, Json, fault, ref, wanted

SCALARS = ["string", "integer", "boolean"]
_FAMILY = "sm_10x"
_FAMILY_PATTERN = "^sm_[1-9][0-9]?x$"


def value_name(fact: Fact) -> str:
    """Name the definition of a fact's values."""
    return f"fact.{fact.name}"


def definitions(vocabulary: Vocabulary) -> Json:
    """Give every definition that the vocabulary makes, by name."""
    values = {value_name(fact): value(fact) for fact in vocabulary.facts.values()}
    return {
        **values,
        "when": _when(vocabulary),
        "matcher": _any_matcher(),
        "fact-values": {
            "type": "object",
            "properties": {name: ref(value_name(fact)) for name, fact in vocabulary.facts.items()},
            "additionalProperties": {"type": SCALARS},
        },
        "packages": _packages(vocabulary),
        "causal": _causal(vocabulary, [True, False], "true, false"),
        "call-causal": _causal(vocabulary, [], "null"),
    }


# --- values -------------------------------------------------------------------------------------------------------


def value(fact: Fact) -> Json:
    """Say what a value of the fact is; null, which often means unknown, is left to those who allow it."""
    return {"description": _told(fact), **_VALUES[fact.type](fact), "x-fact": fact.name}


def _boolean(_fact: Fact) -> Json:
    return {"type": "boolean", **wanted("true or false")}


def _integer(fact: Fact) -> Json:
    least = "" if fact.minimum is None else f" of at least {fact.minimum}"
    words = "".join(f" or `{word}`" for word in fact.special)
    number: Json = {"type": "integer"} | ({} if fact.minimum is None else {"minimum": fact.minimum})
    said = wanted(f"an integer{least}{words}")
    return {"anyOf": [number, {"enum": list(fact.special)}], **said} if fact.special else {**number, **said}


def _string(fact: Fact) -> Json:
    text = {"type": "string", "minLength": 1}
    if fact.name == "backend":  # an overlay may bring backends
        return {"anyOf": [text, {"enum": list(fact.values)}], **wanted("a backend name")}
    if fact.values:
        return {"enum": list(fact.values), **wanted(one_of(fact.values))}
    if fact.pattern is None:
        return {**text, **wanted("a string")}
    pattern = f"^(?:{fact.pattern.regex.pattern})$"
    example = fact.pattern.example
    return {**text, "pattern": pattern, "examples": [example], **wanted(f"a value such as `{example}`")}


def _version(_fact: Fact) -> Json:
    return {"type": "string", **wanted("a version as a string, as PEP 440 writes it")}


_VALUES: Mapping[str, Callable[[Fact], Json]] = {
    "boolean": _boolean, "integer": _integer, "string": _string, "version": _version,
}  # fmt: skip


def property_of(fact: Fact) -> Json:
    """Say what may be given for a fact: a value, or null for unknown, or for none where that is a value."""
    return {"description": _told(fact), "anyOf": [ref(value_name(fact)), {"type": "null"}], "x-fact": fact.name}


def forms(vocabulary: Vocabulary) -> Iterator[Json]:
    """Ask for the form that a value has where another fact has a certain value (an architecture on CUDA)."""
    for fact in vocabulary.group["machine"]:
        if fact.on is None or fact.on.fact is None:
            continue
        said = f"wanted a value such as `{fact.on.example}` on {fact.on.value}"
        form = {
            "pattern": f"^(?:{fact.on.regex.pattern})$",
            **fault("bad-value", f"`{{key}}`: {said}, got `{{got}}`", told=said),
        }
        where: Json = {"required": [fact.on.fact], "properties": {fact.on.fact: {"const": fact.on.value}}}
        yield {"if": where, "then": {"properties": {fact.name: form}}}


def _told(fact: Fact) -> str:
    return f"{fact.about} Unit: {fact.unit}." if fact.unit else fact.about


def _packages(vocabulary: Vocabulary) -> Json:
    keys = {name: fact for name, fact in vocabulary.facts.items() if name.startswith(PACKAGE_PREFIX)}
    names = [name.removeprefix(PACKAGE_PREFIX) for name in keys]
    unknown = fault("unknown-key", "no package `{key}` in the vocabulary", near=names, told="wanted a version or null")
    return {
        "type": ["object", "null"],
        **wanted("a mapping of package names to versions"),
        "properties": {name.removeprefix(PACKAGE_PREFIX): property_of(fact) for name, fact in keys.items()},
        "additionalProperties": {"anyOf": [{"type": ["string", "null"]}], **unknown},
    }


def _causal(vocabulary: Vocabulary, flags: list[bool], words: str) -> Json:
    """Say how causal a layer or a call is: an alignment, or for a layer a flag, as the alignment may be unknown."""
    corners = vocabulary.facts["causal_alignment"].values
    said = f"wanted one of {words}, {listing(corners)}"
    return {
        "enum": [*flags, *corners, None],
        **fault("bad-value", f"`{{key}}`: {said}, got {{typed}}", told=said),
    }


# --- conditions ---------------------------------------------------------------------------------------------------


def _when(vocabulary: Vocabulary) -> Json:
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
    return {"description": fact.about, "anyOf": [*_short_forms(fact), _named_matchers(fact, sets)]}


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


def _any_matcher() -> Json:
    """What may be asked of a fact that an overlay declares."""
    scalar: Json = {"type": SCALARS}
    return {
        "description": "A matcher of a fact that other rules declare.",
        "anyOf": [
            scalar,
            {"type": "array", "items": scalar, "minItems": 1},
            _mapping_of({name: {"description": f"The matcher `{name}`."} for name in OPERATORS}),
        ],
    }
