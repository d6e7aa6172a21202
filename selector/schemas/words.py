"""The definitions that come from the vocabulary: values of facts, and mappings of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from selector.rules.problems import listing
from selector.rules.vocabulary import PACKAGE_PREFIX, Fact, Vocabulary, one_of
from selector.schemas import matchers
from selector.schemas.annotations import SCALARS, Json, fault, ref, value_name, wanted


def definitions(vocabulary: Vocabulary) -> Json:
    """Give every definition that the vocabulary makes, by name."""
    values = {value_name(fact): value(fact) for fact in vocabulary.facts.values()}
    return {
        **values,
        "when": matchers.when(vocabulary),
        "matcher": matchers.any_matcher(),
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
    examples = {} if fact.pattern is None else {"examples": [fact.pattern.example]}
    return {**text, **examples, **wanted("a string")}


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
