"""The decision log as an SQLite file: the same lines, and columns that are indexed, so that it can be asked."""

from __future__ import annotations

import atexit
import collections
import datetime as dt
import errno
import sqlite3
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from selector.closing import Closing
from selector.decision import Decision
from selector.forks import hold_still
from selector.log_columns import COLUMNS
from selector.log_lines import LineWriter, LogLine
from selector.sqlite_files import opened_to_write

_BATCH = 500  # lines of one transaction
_INTERVAL = 0.5  # seconds that a line waits at most
_MOST_DELETED = 2_000  # old rows for each transaction, so that nobody waits long
_NAMES = ("at", "line", *COLUMNS)
_TOGETHER = 500  # rows of one statement, during which SQLite works beside the interpreter
_VALUES = f"({', '.join('?' * len(_NAMES))})"
_INSERT = f"INSERT INTO decisions ({', '.join(_NAMES)}) VALUES {_VALUES}"  # noqa: S608 - ours
_Row = tuple[str | None, ...]


class SqliteLog(Closing):
    """Writes decisions to an SQLite file; threads may share it, and processes the file.

    Lines are written in batches, each within half a second: a process that is killed loses no line that is older, and
    the file stays whole. Of more than `most_rows` rows, and of rows that are older than `most_days`, the oldest are
    deleted as others are written; without them nothing is.

    Making it raises `OSError` when the file cannot be opened, and `ProblemsError` when it is something else than a log,
    or one of a later version. Afterwards nothing is raised: lines that cannot be written are counted in `dropped`, and
    `last_error` says why.
    """

    def __init__(self, path: str | Path, *, most_rows: int | None = None, most_days: float | None = None) -> None:
        """Open the file, or make it. Raises `ValueError` for bounds that leave nothing."""
        for name, bound in (("most_rows", most_rows), ("most_days", most_days)):
            if bound is not None and bound <= 0:
                raise ValueError(f"`{name}`: wanted more than 0, got {bound}")
        self.path = Path(path)
        self.most_rows = most_rows
        self.most_days = most_days
        self.dropped = 0
        self.last_error: Exception | None = None
        self._pending: collections.deque[tuple[Decision, dt.datetime]] = collections.deque()
        self._lock = threading.Lock()
        self._writer = LineWriter()
        self._closing = threading.Event()
        self._ended = False
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = opened_to_write(self.path)
        hold_still(self)

    def write(self, decision: Decision) -> None:
        """Take one line, unless the decision has no inputs (what was asked was not valid): it cannot be made again."""
        if decision.inputs is None:
            return
        self._pending.append((decision, dt.datetime.now(tz=dt.UTC)))
        if len(self._pending) >= _BATCH or self._closing.is_set():
            self.flush()
        elif self._thread is None:
            self._begin()

    def write_lines(self, lines: Iterable[LogLine]) -> None:
        """Write lines that were made already, in one transaction, after what was taken before."""
        with self._lock:
            self._write([*self._taken(), *lines])

    def flush(self) -> None:
        """Write what was taken."""
        with self._lock:
            self._write(self._taken())

    def close(self) -> None:
        """Write what was taken and close the file; what is written later is dropped."""
        self._closing.set()
        atexit.unregister(self.close)
        with self._lock:
            self._write(self._taken())
            self._disconnect()
            self._ended = True

    # --- a transaction ---

    def _taken(self) -> list[LogLine]:
        pending = [self._pending.popleft() for _ in range(len(self._pending))]
        return [self._writer.line(decision, at) for decision, at in pending]

    def _write(self, lines: list[LogLine]) -> None:
        if not lines:
            return
        try:
            self._commit([(at, text, *columns) for at, text, columns in lines])
        except (sqlite3.Error, OSError, ValueError) as error:
            self.dropped += len(lines)
            self.last_error = error

    def _commit(self, rows: list[_Row]) -> None:
        if self._ended:
            raise OSError(errno.EBADF, "the log is closed")
        if self._connection is None:
            self._connection = opened_to_write(self.path)
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            _insert(connection, rows)
            self._delete(connection)
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.rollback()
            raise

    def _delete(self, connection: sqlite3.Connection) -> None:
        if self.most_rows is not None:
            old = "id <= (SELECT max(id) FROM decisions) - ?"
            connection.execute(_deleting(old, "id"), (self.most_rows, _MOST_DELETED))
        if self.most_days is not None:
            since = dt.datetime.now(tz=dt.UTC) - dt.timedelta(days=self.most_days)
            connection.execute(_deleting("at < ?", "at"), (since.isoformat(), _MOST_DELETED))

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            try:
                connection.close()
            except sqlite3.Error as error:
                self.last_error = error

    # --- the thread that sees that no line waits long, and forks ---

    def _begin(self) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="decision log", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def _run(self) -> None:
        while not self._closing.wait(_INTERVAL):
            if self._pending:
                self.flush()

    def before_fork(self) -> None:
        """Leave no connection open: SQLite's must not be taken over by a child."""
        self._lock.acquire()
        self._disconnect()

    def after_fork(self, *, child: bool) -> None:
        """Go on; the lines that the parent took are the parent's to write."""
        if child:
            self._pending.clear()
            self._thread = None
        self._lock.release()


def _insert(connection: sqlite3.Connection, rows: Sequence[_Row]) -> None:
    """Add rows: many by one statement, for whose time others have the interpreter, which each statement waits for."""
    together = min(_TOGETHER, connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(_NAMES))
    whole = len(rows) - len(rows) % together
    for at in range(0, whole, together):
        many = f"{_INSERT}{f', {_VALUES}' * (together - 1)}"
        connection.execute(many, [value for row in rows[at : at + together] for value in row])
    connection.executemany(_INSERT, rows[whole:])


def _deleting(old: str, order: str) -> str:
    chosen = f"SELECT id FROM decisions WHERE {old} ORDER BY {order} LIMIT ?"  # noqa: S608 - our words
    return f"DELETE FROM decisions WHERE id IN ({chosen})"  # noqa: S608 - the same
