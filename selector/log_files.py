"""Decision logs of either kind opened to be read, as the lines that they hold, in their order."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from selector.decision_logs import means_sqlite
from selector.json_lines import STANDARD_INPUT, Line, lines_of, opened
from selector.rules.nodes import MOST_BYTES

_HEAD = b"SQLite format 3\0"
_PAGE = 1_000  # rows that are read at once: who writes is never held up for longer


def is_sqlite(name: str) -> bool:
    """Whether a log is read as an SQLite file: its name or its first bytes say so."""
    path = Path(name)
    try:
        if name == STANDARD_INPUT or not path.is_file():
            return False
        with path.open("rb") as stream:
            return means_sqlite(path) or stream.read(len(_HEAD)) == _HEAD
    except (OSError, ValueError):  # told where it is opened to be read
        return False


@contextlib.contextmanager
def lines_in(name: str, told: str) -> Iterator[Iterator[Line]]:
    """Open a log, or standard input for ``-``, and give its lines; `told` is its name in what is told of it.

    A line of an SQLite file has the number of its row. Raises `ProblemsError` when the log cannot be read, and while
    its lines are taken when reading fails on the way.
    """
    if not is_sqlite(name):
        with opened(name) as stream:
            yield lines_of(stream, told)
        return
    from selector.sqlite_files import opened_to_read  # SQLite only for who has such a log

    with closing(opened_to_read(name)) as connection:
        yield rows_of(connection, Path(name))


def rows_of(
    connection: sqlite3.Connection, path: Path, where: str = "", values: Sequence[object] = ()
) -> Iterator[Line]:
    """Give the lines of the rows that are there now and fit a condition, in their order, a page at a time.

    Raises `ProblemsError` when reading fails.
    """
    from selector.sqlite_files import unreadable

    numbers = f"id > ? AND id <= ? {where} ORDER BY id LIMIT {_PAGE}"
    page = f"SELECT id, CAST(line AS BLOB) FROM decisions WHERE {numbers}"  # noqa: S608 - the values are bound
    after = 0
    try:
        (last,) = connection.execute("SELECT ifnull(max(id), 0) FROM decisions").fetchone()
        while rows := connection.execute(page, (after, last, *values)).fetchall():
            yield from (Line(number, line if len(line) <= MOST_BYTES else None) for number, line in rows)
            after = rows[-1][0]
    except sqlite3.Error as error:
        raise unreadable(path, error) from error
