"""Rule sets that were read before, in the user's cache folder: the same files give the same set without being parsed.

A set is found by the bytes of every file, so that an edit is always seen, and by what reads them: the product's source,
Python, the libraries that know versions. What is damaged, of another version, or not the user's own is as if it were
not there, and a folder that cannot be written costs the reading next time, and no more.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import hashlib
import io
import os
import pickle
import re
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import packaging

from selector import __version__, catalog
from selector.cache import cache_folder
from selector.rule_files import RuleTexts
from selector.rules import checks, conditions, nodes, orders, problems, tables, vocabulary
from selector.rules.nodes import Node
from selector.ruleset import RuleSet

MOST_KEPT = 16
_FOLDER = "rules"
_READERS = ("catalog", "linking", "overlays", "rule_files", "ruleset", "stored_rules")
_FRESH = 3600.0  # seconds for which a set that was used counts as new
_MOST_HEAD = 256
_NOT_OURS = stat.S_IWGRP | stat.S_IWOTH
_DAMAGED = (
    OSError, ValueError, TypeError, LookupError, AttributeError, ImportError, EOFError, RuntimeError,
    pickle.UnpicklingError,
)  # fmt: skip


def key_of(texts: Iterable[RuleTexts], folders: tuple[str, ...]) -> str:
    """Name everything that a rule set depends on."""
    told = hashlib.sha256(_readers())
    told.update(repr(folders).encode())
    for one in texts:
        files = [(text.path.name, text.name, hashlib.sha256(text.data).digest()) for text in one.texts]
        told.update(repr((one.rule_set, one.shipped, files)).encode())
    return told.hexdigest()


@functools.cache
def _readers() -> bytes:
    """Name what reads the rules: Python, the library of versions, and our own source."""
    here = Path(__file__).parent
    told = hashlib.sha256(repr((__version__, sys.version, packaging.__version__)).encode())
    for path in sorted([*here.glob("rules/*.py"), *(here / f"{name}.py" for name in _READERS)]):
        with contextlib.suppress(OSError):  # compiled alone: the version speaks for it
            told.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return told.digest()


def recall(key: str) -> RuleSet | None:
    """Give the rule set of that key, None where it is not kept or cannot be trusted."""
    try:
        body, length = _read(cache_folder() / _FOLDER, key)
        given = dict(zip(_GIVEN, _unpickled(body[:length]), strict=True))
        return RuleSet(**given, content=_Content(bytes(body[length:])))
    except _DAMAGED:
        return None


def keep(key: str, rules: RuleSet) -> None:
    """Keep a rule set, whole or not at all."""
    with contextlib.suppress(OSError, ValueError, RuntimeError, pickle.PicklingError):
        folder = _own_folder()
        given = _pickled(tuple(getattr(rules, name) for name in _GIVEN))
        body = given + _pickled(dict(rules.content))
        beside = folder / f".{key}.{os.getpid()}.{threading.get_ident()}"
        try:
            with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(_head(key, body, len(given)) + body)
            beside.replace(folder / key)
        finally:
            beside.unlink(missing_ok=True)
        _tidy(folder)


# --- files --------------------------------------------------------------------------------------------------------


def _head(key: str, body: bytes | memoryview, length: int) -> bytes:
    told = hashlib.sha256(body)
    told.update(str(length).encode())
    return f"attention-selector rules {key} {told.hexdigest()} {length}\n".encode()


def _read(folder: Path, key: str) -> tuple[memoryview, int]:
    """Read what is kept; raises an error of `_DAMAGED` where it is not whole, or not the user's own."""
    _check_own(folder.stat())
    path = folder / key
    with path.open("rb") as file:
        state = os.fstat(file.fileno())
        _check_own(state)
        head = file.readline(_MOST_HEAD)
        body = memoryview(file.read())
    length = int(head.split()[-1])
    if head != _head(key, body, length):
        raise ValueError(key)
    if time.time() - state.st_mtime > _FRESH:
        with contextlib.suppress(OSError):
            os.utime(path)
    return body, length


def _own_folder() -> Path:
    folder = cache_folder() / _FOLDER
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    _check_own(folder.stat())
    return folder


def _check_own(state: os.stat_result) -> None:
    """Raise `PermissionError` for what belongs to somebody else, or others may write."""
    if hasattr(os, "geteuid") and (state.st_uid != os.geteuid() or state.st_mode & _NOT_OURS):
        raise PermissionError


def _tidy(folder: Path) -> None:
    """Leave the newest entries alone, and take the others away."""
    kept = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True)
    for path in kept[MOST_KEPT:]:
        path.unlink(missing_ok=True)


# --- the form -----------------------------------------------------------------------------------------------------

Reduced = str | tuple[Callable[..., object], tuple[object, ...]]
_GIVEN = (
    "vocabulary", "tables", "backends", "providers", "models", "roles", "warnings", "abilities", "digest", "folders",
    "notices",
)  # fmt: skip
_DATA = (
    catalog.Backend, catalog.Caution, catalog.Model, catalog.ModelRole, catalog.Provider, catalog.Roles, catalog.Shape,
    conditions.Both, conditions.Either, conditions.Not, conditions.Test, nodes.Node, problems.Place, problems.Problem,
    tables.Row, tables.Table, vocabulary.Derived, vocabulary.Fact, vocabulary.Package, vocabulary.Pattern,
    vocabulary.Vocabulary,
)  # fmt: skip
_FUNCTIONS = (
    checks.any_of, checks.at_least, checks.at_most, checks.constant, checks.equal, checks.multiple, orders.has_major,
)  # fmt: skip
_NAMED = {
    (one.__module__, one.__qualname__): one
    for one in (*_DATA, *_FUNCTIONS, checks.Comparison, functools.partial, re.compile)
} | {(conditions.__name__, "ALWAYS"): conditions.ALWAYS}
"""All that a kept set may be made of; nothing else that a file names is looked up."""


def _taken_apart(kind: type) -> Callable[[Any], Reduced]:
    """Give how values of a dataclass are written: the class, and what it is made with."""
    names = tuple(field.name for field in fields(kind) if field.init)

    def taken(one: Any) -> Reduced:  # noqa: ANN401 - of the class
        if one is conditions.ALWAYS:
            return "ALWAYS"
        return kind, tuple([getattr(one, name) for name in names])

    return taken


class _Pickler(pickle.Pickler):
    dispatch_table: Mapping[type, Callable[[Any], Reduced]] = {
        **{kind: _taken_apart(kind) for kind in _DATA},
        checks.Comparison: lambda one: (checks.Comparison, (one.order, one.text)),
        functools.partial: lambda one: (functools.partial, (one.func, *one.args)),
        re.Pattern: lambda one: (re.compile, (one.pattern, one.flags)),
    }


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:  # noqa: ANN401 - as the base class says
        return _NAMED[module, name]


def _pickled(value: object) -> bytes:
    stream = io.BytesIO()
    _Pickler(stream, protocol=5).dump(value)
    return stream.getvalue()


def _unpickled(body: bytes | memoryview) -> Any:  # noqa: ANN401 - whatever was written
    """Read a value, all of which is kept for long: looking through it for garbage is put off."""
    collecting, frozen = gc.isenabled(), gc.get_freeze_count()
    gc.disable()
    try:
        value = _Unpickler(io.BytesIO(body)).load()
        if not frozen:
            gc.freeze()
            gc.unfreeze()  # into the oldest generation
        return value
    finally:
        if collecting:
            gc.enable()


class _Content(Mapping[str, Node]):
    """The content of a rule set, which few ask for, built when somebody does."""

    __slots__ = ("_body", "_nodes")

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._nodes: dict[str, Node] | None = None

    def _all(self) -> dict[str, Node]:
        if self._nodes is None:
            self._nodes = _unpickled(self._body)
        return self._nodes

    def __reduce__(self) -> tuple[Any, ...]:
        return _Content, (self._body,)

    def __getitem__(self, kind: str) -> Node:
        return self._all()[kind]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())
