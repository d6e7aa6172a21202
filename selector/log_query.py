"""Questions to a decision log: which decisions fit, and how many there are of each kind."""

from __future__ import annotations

import collections
import contextlib
import fcntl
import glob
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NamedTuple, Protocol

from selector.json_lines import STANDARD_INPUT, Line, lines_of, opened, strict_value, text_of
from selector.log_columns import columns_of
from selector.log_files import is_sqlite
from selector.logged import LineError, read_line
from selector.rules.nodes import TextError
from selector.rules.problems import Place, Problem, ProblemsError, shown

Count = tuple[str | None, int]
_MOST_LETTERS = 4096
_MOST_VALUES = 10_000
_WAIT, _MOMENT = 1.0, 0.001  # seconds
_FIRST = 20  # lines: a file none of whose first ones is one of a log is no log


@dataclass(frozen=True, slots=True)
class Query:
    """What a decision must be: values by the names of columns, the beginning of the digest, and a span of time.

    `since` and `until` are times in UTC as a line has them; a decision of just then is in the span that it begins.
    """

    equal: Mapping[str, str] = field(default_factory=dict)
    digest: str = ""
    since: str | None = None
    until: str | None = None

    def fits(self, line: Mapping[str, object]) -> bool:
        """Whether the decision of a line is one of those."""
        at = str(line.get("at"))
        if (self.since is not None and at < self.since) or (self.until is not None and at >= self.until):
            return False
        if not str(line.get("digest")).startswith(self.digest):
            return False
        return columns_of(line, self.equal) == tuple(self.equal.values())


class Asked(Protocol):
    """A log that answers questions, each once."""

    def found(self, query: Query, most: int | None) -> Iterator[str]:
        """Give the lines that fit, in their order; of more than `most` the last ones."""

    def counts(self, query: Query, column: str) -> list[Count]:
        """Count the lines that fit by a column, the most frequent value first."""

    def values(self, column: str) -> set[str]:
        """Give the values that the log has in a column by which it was asked before."""


def asked(name: str, tell: Callable[[LineError], None]) -> AbstractContextManager[Asked]:
    """Open a log of either kind, or standard input for ``-``; `tell` hears of lines that are damaged.

    Raises `ProblemsError` when it cannot be read, and while it answers when reading fails on the way.
    """
    if is_sqlite(name):
        from selector.sqlite_query import opened_to_ask  # SQLite only for who has such a log

        return opened_to_ask(name)
    return _opened(name, tell)


@contextlib.contextmanager
def _opened(name: str, tell: Callable[[LineError], None]) -> Iterator[Asked]:
    with contextlib.ExitStack() as files:
        yield _Lines([*_parts(name, files)], tell)


class _Part(NamedTuple):
    stream: BinaryIO
    name: str


def _parts(name: str, files: contextlib.ExitStack) -> Iterator[_Part]:
    """Open a log and what was rotated out of it, the oldest first, while nobody rotates it."""
    newest = _newest(name, files)
    if newest is None:
        yield _Part(files.enter_context(opened(name)), "standard input" if name == STANDARD_INPUT else _told(name))
        return
    older = [_Part(files.enter_context(opened(one)), _told(one)) for one in _older(name)]
    fcntl.flock(newest, fcntl.LOCK_UN)
    yield from older
    yield _Part(newest, _told(name))


def _newest(name: str, files: contextlib.ExitStack) -> BinaryIO | None:
    """Open and lock the file of that name; None for what is no file, or is not there.

    For a moment there is none while it is rotated, or another than the one that was opened.
    """
    end = time.monotonic() + _WAIT
    while time.monotonic() < end:
        try:
            if not stat.S_ISREG(Path(name).stat().st_mode):
                return None
            stream = files.enter_context(Path(name).open("rb"))  # noqa: SIM115 - closed with all of them
            fcntl.flock(stream, fcntl.LOCK_SH)
            if os.path.samestat(os.fstat(stream.fileno()), Path(name).stat()):
                return stream
        except FileNotFoundError:
            if not is_rotated(name):
                return None
            time.sleep(_MOMENT)
        except (OSError, ValueError):
            return None
    return None


def is_rotated(name: str) -> bool:
    """Whether there is a file that was rotated out of a log of that name."""
    return name != STANDARD_INPUT and os.path.isfile(f"{name}.1")  # noqa: PTH113 - any name may be asked about


def _told(name: str) -> str:
    return shown(name, _MOST_LETTERS)


def _older(name: str) -> list[str]:
    """Name the files that were rotated out of a log, the oldest first; a number may be free."""
    path = Path(name)
    numbers = (one.name.removeprefix(f"{path.name}.") for one in path.parent.glob(f"{glob.escape(path.name)}.*"))
    return [f"{name}.{number}" for number in sorted(filter(str.isdecimal, numbers), key=int, reverse=True)]


class _Lines:
    """JSON lines, which are read for each question: there is one to each."""

    def __init__(self, parts: list[_Part], tell: Callable[[LineError], None]) -> None:
        self._parts = parts
        self._tell = tell
        self._seen: dict[str, set[str]] = {}

    def found(self, query: Query, most: int | None) -> Iterator[str]:
        texts = (text for text, _ in self._fitting(query))
        return texts if most is None else iter(collections.deque(texts, most))

    def counts(self, query: Query, column: str) -> list[Count]:
        counter = collections.Counter(columns_of(line, [column])[0] for _, line in self._fitting(query))
        return sorted(counter.items(), key=lambda item: (-item[1], item[0] or ""))

    def values(self, column: str) -> set[str]:
        return self._seen.get(column, set())

    def _fitting(self, query: Query) -> Iterator[tuple[str, Mapping[str, object]]]:
        self._seen = {name: set() for name in query.equal}
        for part in self._parts:
            good = damaged = 0
            for line in lines_of(part.stream, part.name):
                try:
                    text, value = _read(line, part.name)
                except LineError as error:
                    self._tell(error)
                    damaged += 1
                    if damaged >= _FIRST and not good:
                        raise _no_log(part.name) from error
                    continue
                good += 1
                self._see(value)
                if query.fits(value):
                    yield text, value

    def _see(self, line: Mapping[str, object]) -> None:
        for seen, value in zip(self._seen.values(), columns_of(line, self._seen), strict=True):
            if value is not None and len(seen) < _MOST_VALUES:
                seen.add(value)


def _read(line: Line, name: str) -> tuple[str, Mapping[str, object]]:
    """Read a line as far as questions ask about it; what is no line of a log is read to its end, for what is wrong."""
    try:
        text = text_of(line.raw or b"")
        value = strict_value(text, name)
    except (UnicodeDecodeError, TextError):
        value = None
    if isinstance(value, dict) and all(isinstance(value.get(key), dict) for key in ("request", "decision", "facts")):
        return text.strip(), value
    read_line(line, name)
    raise AssertionError  # a line that has what a log's line has was read above


def _no_log(name: str) -> ProblemsError:
    message = f"wanted a decision log, got a file whose first {_FIRST} lines are none of one"
    return ProblemsError([Problem(Place(name), "not-a-log", message)])
