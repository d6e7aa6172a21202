"""What the schemas do not say, and the models do: the one list of where the two may differ.

A document that the models accept is accepted by its schema. The other way round, a schema may accept what the models
refuse with one of these faults. The list stands in the `$comment` of each schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Unsaid(NamedTuple):
    """A fault that only the models find: its code, where it may stand (a regular expression on the path), and why."""

    code: str
    where: str
    why: str


_OVERLAY = "an overlay may declare more"
_BLOCKS = "whether a block that is written without a backend fits the one that flag or environment supply"


def _config(base: str = "") -> tuple[Unsaid, ...]:
    return (
        Unsaid(
            "unknown-backend", rf"{base}.+", f"whether a backend is known: {_OVERLAY}, and letter case does not count"
        ),
        Unsaid("duplicate-role", rf"{base}per_role\..+", "whether a role stands twice, once nested and once with dots"),
    )


def _facts(base: str = "") -> tuple[Unsaid, ...]:
    return (
        Unsaid("unknown-key", rf"{base}.*", f"whether a fact is known: {_OVERLAY}"),
        Unsaid("unknown-key", rf"{base}packages\..*", f"whether a package is known: {_OVERLAY}"),
        Unsaid("bad-value", rf"{base}packages\..*", "whether a version is one as PEP 440 writes it"),
        Unsaid(
            "bad-value",
            rf"{base}(devices\[[0-9]+\]\.)?arch",
            "whether a listed device's architecture has the form of its platform",
        ),
        Unsaid("no-device", rf"{base}devices", "whether the device that is asked about is listed"),
    )


_LINE = (
    *_config(r"config\."),
    *_facts(r"facts\."),
    Unsaid("unknown-backend", "backend", f"whether a backend is known: {_OVERLAY}, and letter case does not count"),
    Unsaid("unknown-key", r"request\..*", f"whether a fact of the request is known: {_OVERLAY}"),
    Unsaid("mutually_exclusive", "backend", "whether flag and config both name the default backend"),
    Unsaid("dropped-block", r"config\.default", "whether anything names the backend of a default that has only blocks"),
    Unsaid("unread-block", r"config\.default\..+", _BLOCKS),
    Unsaid("unread-field", r"config\.default\..+", _BLOCKS),
    Unsaid("bad-value", r"config\.default\..+", _BLOCKS),
    Unsaid("unknown-backend", r"env\..+", "whether a variable that is read has a value that it may have"),
    Unsaid("wrong-type", r"env\..+", "whether a variable that is read is a string"),
    Unsaid("bad-value", r"env\..+", "whether a variable that is read has a value that it may have"),
)
_RULES = (
    Unsaid("unknown-fact", ".*", f"whether a fact is known: {_OVERLAY}"),
    Unsaid("unknown-set", ".*", f"whether a named set is known: {_OVERLAY}"),
    Unsaid("bad-value", ".*", "whether a comparison or a version is well formed"),
)
_TABLE = (
    *_RULES,
    Unsaid("unknown-backend", ".*", f"whether a target is known: {_OVERLAY}"),
    Unsaid("duplicate-row", ".*", "whether two rows have one id"),
    Unsaid("wrong-action", ".*", "whether the table allows the row's action"),
    Unsaid("unreachable", ".*", "whether a row can fire, and whether the last one always does"),
    Unsaid("unknown-row", r"edits\[.*", "whether the rows that an edit names are there, and what stands beside them"),
    Unsaid("duplicate-row", r"edits\[.*", "whether a row that is put in has a new id, and each row one edit"),
    Unsaid("bad-anchor", r"edits\[.*", "whether a row would stand before or after itself"),
)
_ENTRIES = (
    Unsaid("unknown-entry", ".*", "whether an entry that is taken out, or a set that grows, is there"),
    Unsaid("missing-key", ".*", "whether a file that replaces all of its kind holds all of it"),
)
UNSAID: Mapping[str, tuple[Unsaid, ...]] = {
    "config": _config(),
    "facts": _facts(),
    "decide-line": _LINE,
    "scenarios": _LINE,
    "rule-table": _TABLE,
    "vocabulary": (
        *_ENTRIES,
        Unsaid("unknown-fact", ".*", "whether a set or a derived fact names a fact that stands here"),
        Unsaid("bad-value", ".*", "whether a value of a set belongs to its fact, and whether a pattern is well formed"),
    ),
    "backends": (*_RULES, *_ENTRIES, Unsaid("unknown-name", ".*", "whether backends and providers name each other")),
    "roles": _ENTRIES[:1],
    "models": (
        *_ENTRIES[:1],
        Unsaid("duplicate-model", ".*", "whether a name stands twice"),
        Unsaid("unknown-name", ".*", "whether `same_as` names a role of the model"),
    ),
    "warnings": (*_RULES, *_ENTRIES[:1]),
    "rule-set": (
        *_TABLE,
        *_ENTRIES,
        Unsaid("unknown-name", ".*", "whether the parts name each other"),
        Unsaid("bad-value", r"tables\..*\.new", "whether a table that says that it is new is"),
    ),
    "decision": (Unsaid("digest", ".*", "whether the rules with this digest decide so"),),
}


def comment(name: str) -> str | None:
    """Say what the schema of that name does not say."""
    reasons = dict.fromkeys(unsaid.why for unsaid in UNSAID.get(name, ()))
    return f"Not said here, but checked when the file is read: {'; '.join(reasons)}." if reasons else None
