"""What files laid over others may say beside whole tables and entries: changes to rows, and entries taken out.

Editors show one message at one place: keys that may not stand are refused by their names, so that the key is marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict

from selector.rule_files import TABLES
from selector.rules.problems import listing
from selector.rules.tables import ACTIONS
from selector.schemas.annotations import Json, Says, fault, wanted

KEYS = ("new", "edits", "disable", "add")  # the keys that only overlays have
Always = Annotated[Literal[True], Says({"const": True, **wanted("true, or no such key")})]
_OF_ROWS = ("when", "log", "warn", "redecide", "transform", "until", "source")


def removable(more: Json) -> ConfigDict:
    """Let null stand for an entry, which takes the one of that name out."""
    return ConfigDict(json_schema_extra={"type": ["object", "null"], **more})


REMOVABLE = removable({})


def some_of(*keys: str) -> Json:
    """Ask for one of the keys at least."""
    return _need(keys, fault("missing-key", f"wanted at least one of {listing(keys)}, got none"))


def _has(*keys: str) -> Json:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _need(keys: Sequence[str], words: Json) -> Json:
    """Ask for one of the keys; each alternative has the words, since only one of them is told."""
    return {"anyOf": [{"required": [key], **words} for key in keys]}


def _only(keys: Sequence[str], words: Json) -> Json:
    """Let no other key stand."""
    return {"propertyNames": {"enum": list(keys), **words}}


def _none_of(keys: Sequence[str], words: Json) -> Json:
    """Let none of the keys stand."""
    return {"propertyNames": {"pattern": f"^(?!(?:{'|'.join(keys)})$)", **words}}


def _beside(key: str, code: str) -> Json:
    """Say that a key says nothing beside another one."""
    return fault(code, f"no key `{{got}}` beside `{key}`", told=f"no such key beside `{key}`")


# --- rows ---------------------------------------------------------------------------------------------------------


def _at_most_one_action() -> Iterator[Json]:
    words = fault("one-action", f"wanted exactly one of {listing(ACTIONS)}")
    for index, action in enumerate(ACTIONS[:-1]):
        yield {"if": {"required": [action]}, "then": _none_of(ACTIONS[index + 1 :], words)}


ROW: list[Json] = [
    _need(ACTIONS, fault("one-action", f"wanted exactly one of {listing(ACTIONS)}")),
    *_at_most_one_action(),
]
EDIT: list[Json] = [
    _need(
        (*ACTIONS, "disable", "before", "after"),
        fault("one-action", f"wanted a change: one of `disable`, `before`, `after` or {listing(ACTIONS)}"),
    ),
    *_at_most_one_action(),
    {
        "if": {"required": ["before"]},
        "then": _none_of(["after"], fault("one-anchor", "wanted one of `before` and `after`, got both")),
    },
    {
        "if": {"required": ["disable"]},
        "then": _only(("id", "disable", "because"), _beside("disable", "disabled-row")),
        "else": {
            "if": {"allOf": [_has("before", "after"), _has(*_OF_ROWS)]},
            "then": _need(ACTIONS, fault("one-action", "a row that is only moved has `id`, its anchor and `because`")),
        },
    },
]

# --- tables -------------------------------------------------------------------------------------------------------

_LETTERS = "wanted small letters, digits, `_` and `-`"
TABLE_NAMES: Json = {
    "pattern": r"^[a-z][a-z0-9]*([_-][a-z0-9]+)*$",
    **fault("bad-name", f"`{{got}}` is no name for a table: {_LETTERS}", told=_LETTERS),
}
_STANDS = "is there already: leave `new` out"
_BOTH = fault("rows-and-edits", "wanted `rows` (the whole table) or `edits` (changes to it), got both")
TABLE: list[Json] = [
    _need(
        ("rows", "edits"),
        fault("missing-key", "wanted `rows` (the whole table) or `edits` (changes to it), got neither"),
    ),
    {
        "if": {"required": ["edits"]},
        "then": {
            "allOf": [
                _none_of(["rows"], _BOTH),
                _only(("table", "description", "edits", "rows"), _beside("edits", "unknown-key")),
            ]
        },
    },
]
_NEW = "a table of your own says `new: true`"
NEW_TABLE: Json = {
    "allOf": [{"required": ["new"], **fault("unknown-table", "no table `{key}`", _NEW, told=f"no such table; {_NEW}")}]
}


def table_name(known: Sequence[str]) -> Json:
    """Ask for the name of a table that is there, or beside `new` for one that is not."""
    standing = fault("bad-value", f"the table `{{got}}` {_STANDS}", told=f"the table {_STANDS}")
    new = [TABLE_NAMES, {"not": {"enum": list(TABLES)}, **standing}]
    return {
        "if": {"required": ["new"]},
        "then": {"properties": {"table": {"allOf": new}}},
        "else": {"properties": {"table": {"enum": list(known)}}},
    }


# --- entries ------------------------------------------------------------------------------------------------------

SET: list[Json] = [
    {
        "if": {"required": ["add"]},
        "then": _only(("add",), _beside("add", "unknown-key")),
        "else": {"if": {"type": "object"}, "then": {"required": ["fact", "values"]}},
    }
]


def listed(name: str, *required: str) -> list[Json]:
    """Let an entry of a list hold all that is required, or only say by its name that it is to go."""
    alone = _only((name, "disable", "because"), _beside("disable", "unknown-key"))
    return [{"if": {"required": ["disable"]}, "then": {"required": [name], **alone}, "else": {"required": [*required]}}]
