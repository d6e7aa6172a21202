"""The definitions of the attention config: those of its models, with the names and blocks that the rules know."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args, get_type_hints

from selector.catalog import Backend
from selector.config import AUTO, BLOCKS, SPEC_KEYS, AttentionConfig, AttentionSpec, SkipSoftmaxSpec
from selector.rules.problems import listing
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet
from selector.schemas.annotations import NOT_BLANK, RULES_MARK, Json, fault, ref, wanted

if TYPE_CHECKING:
    from pydantic import BaseModel

_DEFAULT = (
    "The entry for every role that nothing more exact speaks for; blocks alone join a backend that is named elsewhere."
)
_PER_ROLE = "An entry for each role or category; a mapping without the keys of an entry holds nested roles."


def definitions(rules: RuleSet, models: Mapping[str, Json]) -> Json:
    """Give the definitions; `models` has the schema of each model of the config by its name."""
    spec = models[AttentionSpec.__name__]
    told = {name: {"description": first_paragraph(model)} for name, model in block_models().items()}
    properties = {name: {**schema, **told.get(name, {})} for name, schema in spec["properties"].items()}
    backend = {**properties["backend"], "anyOf": [ref("backend-name"), {"type": "null"}]}
    names = [AUTO, *rules.backends]  # what editors offer before there is a value whose type could be asked for
    beside = [_beside_auto(), *(_blocks_of(backend, rules) for backend in rules.backends.values())]
    return {
        "backend-name": backend_name(rules),
        AttentionSpec.__name__: {**spec, "properties": properties},
        SkipSoftmaxSpec.__name__: {**models[SkipSoftmaxSpec.__name__], "allOf": [_one_of_two()]},
        "spec": {**spec, "properties": {**properties, "backend": backend}, "allOf": beside},
        "default-entry": {**_entry(ref("spec"), null=True), "examples": names},
        "role-entry": {**_entry(_role_spec(), ref("nested-roles")), "examples": names},
        "nested-roles": {"propertyNames": {"not": _NAMELESS, **_BAD_ROLE}, "additionalProperties": ref("role-entry")},
        "config": _config(models[AttentionConfig.__name__]),
    }


def _config(model: Json) -> Json:
    roles = {"description": _PER_ROLE, "type": "object", **wanted("a mapping of roles"), **ref("nested-roles")}
    return {
        **model,
        "title": "Attention config",
        **wanted("a mapping with `default` and `per_role`"),
        "properties": {"default": {"description": _DEFAULT, **ref("default-entry")}, "per_role": roles},
    }


def _one_of_two() -> Json:
    two = ("target_sparsity", "threshold")
    both = {"type": "object", "required": list(two), "properties": {name: {"type": "number"} for name in two}}
    return {"not": both, **fault("bad-value", "wanted one of `target_sparsity` and `threshold`, got both")}


_NAMELESS: Json = {"pattern": r"(^|\.)\s*(\.|$)"}  # a part between dots that holds nothing
_BAD_ROLE = fault(
    "bad-role", "`{role}` is no name for a role: wanted names joined with dots", told="wanted names joined with dots"
)


def backend_name(rules: RuleSet) -> Json:
    """Offer the known names; others pass, as they may be those of an overlay, and so do other cases of letters."""
    known = f"known: {listing(list(rules.backends))}"
    unknown = fault("unknown-backend", "no backend `{got}`", known, told="wanted a backend name")
    text = {"type": "string", "pattern": NOT_BLANK, **unknown}
    return {"anyOf": [text, {"enum": [AUTO, *rules.backends]}], **wanted("a string")}


def block_models() -> dict[str, type[BaseModel]]:
    """Give the model of each block of an entry."""
    hints = get_type_hints(AttentionSpec)
    return {name: get_args(hints[name])[0] for name in BLOCKS}


def first_paragraph(model: type) -> str:
    """Give the first paragraph of a docstring on one line."""
    return " ".join(inspect.cleandoc(model.__doc__ or "").split("\n\n")[0].split())


def _entry(spec: Json, otherwise: Json | None = None, *, null: bool = False) -> Json:
    """Descend by the value's type: a name, the keys of an entry, or what `otherwise` says of a mapping."""
    keys: Json = {"type": "object", "anyOf": [{"maxProperties": 0}, *({"required": [key]} for key in SPEC_KEYS)]}
    of_mapping = (
        {"if": {"type": "object"}, "then": spec} if otherwise is None else {"if": keys, "then": spec, "else": otherwise}
    )
    return {
        "type": ["string", "object", *(["null"] if null else [])],
        **wanted("a backend name or a mapping"),
        "if": {"type": "string"},
        "then": ref("backend-name"),
        "else": of_mapping,
    }


def _role_spec() -> Json:
    """An entry of a role names its backend, since nothing else would."""
    nameless: Json = {"required": ["backend"], "properties": {"backend": {"type": "null"}}}
    message = "the entry for `{key}` names no `backend`: nothing would read it"
    return {
        **ref("spec"),
        "required": ["backend"],
        "not": nameless,
        **fault("no-backend", message, told="names no `backend`: nothing would read it"),
    }


# --- which backend reads which block ------------------------------------------------------------------------------


def _beside_auto() -> Json:
    """A block beside `auto` would be dropped."""
    blocks = {name: {"enum": [None], **fault("dropped-block", _DROPPED.format(name))} for name in BLOCKS}
    return {"if": _named(AUTO), "then": {"properties": blocks}}


_DROPPED = "`{}` stands beside `auto`, so nothing would read it"


def _blocks_of(backend: Backend, rules: RuleSet) -> Json:
    """What the backend does not read is refused beside its name. The rules may be others, so the models decide."""
    blocks = {name: _block_of(backend, name, rules) for name in BLOCKS}
    return {"if": _named(backend.name), "then": {"properties": blocks}, RULES_MARK: True}


def _block_of(backend: Backend, block: str, rules: RuleSet) -> Json:
    if block not in backend.reads:
        others = [name for name, other in rules.backends.items() if block in other.reads]
        hint = f"{listing(others)} does" if others else None
        return {"enum": [None], **fault("unread-block", f"{backend.name} does not read `{block}`", hint)}
    fields = block_models()[block].model_fields
    said = {field: _field_of(backend, block, field) for field in fields}
    return {"properties": {field: schema for field, schema in said.items() if schema}}


def _field_of(backend: Backend, block: str, field: str) -> Json:
    reads = backend.reads[block]
    if field not in reads:
        message = f"{backend.name} does not read `{block}.{field}`"
        return {"enum": [None], **fault("unread-field", message, f"it reads {listing(list(reads))}")}
    return _one_of(reads[field], backend.name) if reads[field] else {}


def _one_of(values: tuple[Value, ...], backend: str) -> Json:
    wanted = f"wanted one of {listing([str(value) for value in values])} for {backend}"
    return {"enum": [*values, None], **fault("bad-value", f"`{{key}}`: {wanted}, got {{typed}}", told=wanted)}


def _named(backend: str) -> Json:
    """Ask whether an entry names this backend, in any case of letters."""
    either = [f"[{letter.upper()}{letter.lower()}]" if letter.isalpha() else re.escape(letter) for letter in backend]
    name = "".join(either) if backend.isascii() else re.escape(backend)
    return {"required": ["backend"], "properties": {"backend": {"type": "string", "pattern": f"^{name}$"}}}
