"""Faults: what is wrong with a value, by the path of keys that leads to it; a text gives them their line and column."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from selector.rules.nodes import Node, follow
from selector.rules.problems import Place, Problem, listing, nearest, shown

Path = tuple[str | int, ...]
MOST_TOLD = 100


class Fault(NamedTuple):
    """One thing that is wrong at a path; `on_key` says that it is the key and not the value."""

    path: Path
    code: str
    message: str
    hint: str | None = None
    on_key: bool = False


def dotted(path: Path) -> str:
    """Write a path as ``config.per_role.cross`` and ``devices[0]``."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return shown(text, 200)


def place(faults: Iterable[Fault], file: str, node: Node | None = None) -> list[Problem]:
    """Turn faults into problems, with line and column where the text's node is at hand."""
    return [Problem(_place(fault, file, node), fault.code, fault.message, fault.hint) for fault in faults]


def _place(fault: Fault, file: str, node: Node | None) -> Place:
    path = dotted(fault.path)
    if node is None:
        return Place(file, path=path)
    at = follow(node, fault.path)
    return at.key_at(file, path) if fault.on_key else at.at(file, path)


def unknown_key(path: Path, name: object, known: Iterable[str]) -> Fault:
    """Say that a key is not known, with the nearest one that is."""
    known = list(known)
    hint = nearest(name, known) or f"known here: {listing(known)}"
    return Fault((*path, str(name)), "unknown-key", f"no key `{shown(name)}` here", hint, on_key=True)


def unknown_keys(path: Path, keys: Iterable[object], known: Iterable[str]) -> list[Fault]:
    """Say of each key that is not known; past a hundred the rest is counted, so that no input is answered with more."""
    names = dict.fromkeys(known)
    unknown = [key for key in keys if key not in names]
    told = [unknown_key(path, key, names) for key in unknown[:MOST_TOLD]]
    rest = len(unknown) - len(told)
    return [*told, Fault(path, "too-many", f"and {rest} more keys that are not known here")] if rest else told


def wrong_type(path: Path, wanted: str, value: object) -> Fault:
    """Say that a value has another type than is wanted."""
    subject = f"`{path[-1]}`: " if path and isinstance(path[-1], str) else ""
    return Fault(path, "wrong-type", f"{subject}wanted {wanted}, got {typed(value)}")


def typed(value: object) -> str:
    """Name a value with its type, for a sentence."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None or isinstance(value, bool):
        return shown(value)
    return f"the string `{shown(value)}`" if isinstance(value, str) else f"the number {shown(value)}"
