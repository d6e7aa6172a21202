"""What jsonschema found, in our words: every error becomes a fault with its path, what was wanted and what was got."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from selector.faults import Fault, Path, typed, unknown_key
from selector.rules.problems import listing, nearest, shown
from selector.schemas.annotations import NOT_BLANK


class Error(Protocol):
    """What is read of a jsonschema `ValidationError`."""

    validator: Any
    validator_value: Any
    instance: Any
    schema: Any
    context: Any

    @property
    def absolute_path(self) -> Iterable[str | int]:
        """The keys that lead to the value."""

    @property
    def relative_path(self) -> Sequence[str | int]:
        """The keys that lead to it from the value of the error around this one."""

    @property
    def relative_schema_path(self) -> Sequence[str | int]:
        """The keys that lead to the keyword from there."""


_TYPES: Mapping[str, str] = {
    "object": "a mapping", "array": "a list", "string": "a string", "integer": "an integer", "number": "a number",
    "boolean": "true or false", "null": "null",
}  # fmt: skip


def faults_of(error: Error) -> Iterator[Fault]:
    """Give the faults that one error stands for."""
    words = error.schema.get("x-fault")
    if "x-fact" in error.schema and not (isinstance(error.instance, dict | list) and _fitting(error)):
        yield _misfit(error)
    elif words is not None and error.validator != "type" and (error.validator != "anyOf" or not _fitting(error)):
        yield _told(error, words)
    else:
        yield from _KEYWORDS.get(str(error.validator), _other)(error)


def _path(error: Error) -> Path:
    return tuple(error.absolute_path)


def _said(path: Path, code: str, message: str, hint: str | None = None) -> Fault:
    """Begin the sentence with the key, where there is one."""
    subject = f"`{shown(path[-1])}`: " if path and isinstance(path[-1], str) else ""
    return Fault(path, code, f"{subject}{message}", hint)


def _told(error: Error, words: Mapping[str, Any]) -> Fault:
    """Say it in the words that the schema brings."""
    path, value = _path(error), error.instance
    of_name = "propertyNames" in error.relative_schema_path
    if of_name:
        path = (*path, str(value))
    role = ".".join(map(str, path[path.index("per_role") + 1 :])) if "per_role" in path else ""
    said = {
        "{key}": shown(path[-1]) if path else "",
        "{typed}": typed(value),
        "{got}": shown(value),
        "{role}": shown(role),
    }
    message = re.sub("|".join(said), lambda match: said[match[0]], words["message"])
    known = words.get("near") or (error.validator_value if error.validator == "enum" else ())
    subject = value if error.validator == "enum" else path[-1] if path else None
    hint = words.get("hint") or nearest(subject, [name for name in known if isinstance(name, str)])
    if hint is None and "near" in words:
        hint = f"known here: {listing(words['near'])}"
    return Fault(path, words["code"], message, hint, on_key=of_name or words["code"] == "unknown-key")


def _misfit(error: Error) -> Fault:
    """Say why a value does not belong to its fact, as the vocabulary says it."""
    from selector.ruleset import shipped  # only where something is wrong

    fact = shipped().vocabulary.facts[error.schema["x-fact"]]
    misfit = fact.misfit(error.instance)
    if misfit is None:
        return next(_wrong_type(error))
    return Fault(_path(error), "bad-value", misfit.message, misfit.hint)


# --- alternatives -------------------------------------------------------------------------------------------------


def _fitting(error: Error) -> list[list[Error]]:
    """Give the errors of each alternative that is of the value's type."""
    groups: dict[object, list[Error]] = {}
    for inner in error.context or ():
        groups.setdefault(inner.relative_schema_path[0], []).append(inner)
    return [group for group in groups.values() if not any(map(_of_other_type, group))]


def _of_other_type(error: Error) -> bool:
    if error.relative_path:
        return False
    if error.validator in ("enum", "const"):
        options = error.validator_value if error.validator == "enum" else [error.validator_value]
        return all(type(option) is not type(error.instance) for option in options)
    if error.validator in ("anyOf", "oneOf"):
        return not _fitting(error)
    return str(error.validator) == "type"


def _alternatives(error: Error) -> Iterator[Fault]:
    """Descend into the first alternative of the value's type, or name them all."""
    fitting = _fitting(error)
    if fitting:
        for inner in fitting[0]:
            yield from faults_of(inner)
    else:
        yield from _wrong_type(error)


# --- keywords -----------------------------------------------------------------------------------------------------


def _wrong_type(error: Error) -> Iterator[Fault]:
    wanted = _wanted(error)
    if wanted == "a number" and isinstance(error.instance, float):
        wanted = "a finite number"
    yield _said(_path(error), "wrong-type", f"wanted {wanted}, got {typed(error.instance)}")


def _wanted(error: Error) -> str:
    """Say what was wanted: in the schema's own words, or by its types (null, which stands for nothing, aside)."""
    if "errorMessage" in error.schema:
        return str(error.schema["errorMessage"]).removeprefix("wanted ")
    if error.context:
        parts = [part for part in error.context if part.validator_value != "null"]
        return " or ".join(dict.fromkeys(map(_wanted, parts)))
    if error.validator != "type":
        return f"one of {_options(error.validator_value)}"
    types = [error.validator_value] if isinstance(error.validator_value, str) else error.validator_value
    return " or ".join(_TYPES[name] for name in types if name != "null")


def _options(values: list[object]) -> str:
    return listing([shown(value) for value in values if value is not None])


def _unknown_keys(error: Error) -> Iterator[Fault]:
    known = list(error.schema.get("properties", {}))
    path = _path(error)
    for key, value in error.instance.items():
        if key in known:
            continue
        if "per_role" in path and isinstance(value, dict | str) and "backend" in known and not nearest(key, known):
            message = f"`{shown(path[-1])}` mixes the key of an entry with the nested role `{shown(key)}`"
            yield Fault((*path, key), "mixed-roles", message, f"an entry holds {listing(known)}", on_key=True)
        else:
            yield unknown_key(path, key, known)


def _missing_keys(error: Error) -> Iterator[Fault]:
    for name in error.validator_value:
        if name not in error.instance:
            yield Fault(_path(error), "missing-key", f"wanted the key `{name}`, which is not there")


def _bad_value(error: Error) -> Iterator[Fault]:
    options = error.validator_value if error.validator == "enum" else [error.validator_value]
    wanted = f"wanted one of {_options(options)}" if len(options) > 1 else f"wanted {_options(options)}"
    hint = nearest(error.instance, [option for option in options if isinstance(option, str)])
    got = f"`{shown(error.instance)}`" if isinstance(error.instance, str) else typed(error.instance)
    yield _said(_path(error), "bad-value", f"{wanted}, got {got}", hint)


def _out_of_range(error: Error, word: str) -> Iterator[Fault]:
    kind = "an integer" if error.schema.get("type") == "integer" else "a number"
    bound = f"{error.validator_value:g}"
    yield _said(_path(error), "out-of-range", f"wanted {kind} of {word} {bound}, got {typed(error.instance)}")


def _bad_text(error: Error) -> Iterator[Fault]:
    wanted = str(error.schema.get("errorMessage", "a string of another form")).removeprefix("wanted ")
    if error.validator_value == NOT_BLANK or not error.instance:
        got = typed(error.instance) if error.instance else "an empty string"
        yield _said(_path(error), "wrong-type", f"wanted {wanted}, got {got}")
    else:
        yield _said(_path(error), "bad-value", f"wanted {wanted}, got {typed(error.instance)}")


def _bad_size(error: Error) -> Iterator[Fault]:
    word = "at least" if str(error.validator).startswith("min") else "at most"
    number, got = error.validator_value, len(error.instance)
    yield _said(_path(error), "bad-size", f"wanted {word} {number} {'entry' if number == 1 else 'entries'}, got {got}")


def _other(error: Error) -> Iterator[Fault]:
    yield _said(_path(error), "bad-value", f"wanted another value, got {typed(error.instance)}")


_KEYWORDS: Mapping[str, Callable[[Error], Iterator[Fault]]] = {
    "type": _wrong_type, "anyOf": _alternatives, "oneOf": _alternatives, "additionalProperties": _unknown_keys,
    "required": _missing_keys, "enum": _bad_value, "const": _bad_value, "pattern": _bad_text, "minLength": _bad_text,
    "minimum": functools.partial(_out_of_range, word="at least"),
    "maximum": functools.partial(_out_of_range, word="at most"),
    "minItems": _bad_size, "maxItems": _bad_size, "minProperties": _bad_size, "maxProperties": _bad_size,
}  # fmt: skip
