"""JSON lines: one at a time, within bounds, and each as strictly as any other text."""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from selector.rules.json_text import read_json
from selector.rules.nodes import MOST_BYTES, MOST_LEVELS, OF_TEXTS, Bounds
from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown

STANDARD_INPUT = "-"
_SPACE = " \t\n\r"


class Line(NamedTuple):
    """A line that is not blank, with its 1-based number; one of more than 1 MiB is None, and was not kept."""

    number: int
    raw: bytes | None


def opened(name: str) -> AbstractContextManager[BinaryIO]:
    """Open a file of lines, or standard input for ``-``, and see that it can be read. Raises `ProblemsError`."""
    if name == STANDARD_INPUT:
        if sys.stdin is None:
            raise ProblemsError([Problem(Place("standard input"), "unreadable", "it is closed")])
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        stream = Path(name).open("rb")  # noqa: SIM115 - the caller closes it
        stream.peek(1)
    except (OSError, ValueError) as error:
        raise _unreadable(name, error) from error
    return stream


def _unreadable(name: str, error: Exception) -> ProblemsError:
    return ProblemsError([Problem(Place(shown(name, 4096)), "unreadable", f"cannot read the file: {reason_of(error)}")])


def lines_of(stream: BinaryIO, name: str) -> Iterator[Line]:
    """Give the lines that are not blank. Raises `ProblemsError` when reading fails on the way."""
    number = 0
    try:
        while line := stream.readline(MOST_BYTES + 2):
            number += 1
            if len(line) > MOST_BYTES and len(line.rstrip(b"\r\n")) > MOST_BYTES:
                while line and not line.endswith(b"\n"):
                    line = stream.readline(MOST_BYTES)
                yield Line(number, None)
            elif line.strip():
                yield Line(number, line)
    except OSError as error:
        raise _unreadable(name, error) from error


def text_of(raw: bytes) -> str:
    """Decode one line, without its end; raises `UnicodeDecodeError`."""
    return raw.removeprefix(codecs.BOM_UTF8).decode().strip("\r\n")


def strict_value(text: str, name: str, most: Bounds = OF_TEXTS) -> object:
    """Read a JSON value (RFC 8259: no NaN, no key twice, 64 levels at most). Raises `TextError` with the column.

    The standard library's parser goes first; ours says where it failed, and what is too deep or has too many values.
    """
    inner = text.strip(_SPACE)
    try:
        value, end = _scan(inner, 0)
    except (ValueError, StopIteration, RecursionError):
        pass  # read again below, which fails with the place
    else:
        few = inner.count("{") + inner.count("[") <= MOST_LEVELS and len(inner) <= most.nodes
        if end == len(inner) and len(inner) <= most.bytes and (few or _is_bounded(value, most.nodes)):
            return value
    return read_json(text, name, most).plain()


def _is_bounded(value: object, most: int) -> bool:
    """Whether a value has at most 64 levels, and so many values in all."""
    here, levels, count = [value], 0, 0
    while here:
        levels, count = levels + 1, count + len(here)
        if levels > MOST_LEVELS or count > most:
            return False
        here = [
            inner
            for one in here
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
    return True


class _DuplicateError(ValueError):
    """An object that has a key twice."""


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateError
    return found


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number


_decoder: Any = json.JSONDecoder(object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)
_scan: Callable[[str, int], tuple[object, int]] = _decoder.scan_once


def writer() -> Callable[[object], str]:
    """Give what writes a value as `json.dumps` does, NaN refused, with an encoder that is made once and not each time.

    The value must not hold itself.
    """
    plain = json.JSONEncoder(check_circular=False, allow_nan=False)
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return plain.encode
    text, sort, skip, nan = json.encoder.encode_basestring_ascii, False, False, False
    chunks = make(None, plain.default, text, None, plain.key_separator, plain.item_separator, sort, skip, nan)
    return lambda value: "".join(chunks(value, 0))
