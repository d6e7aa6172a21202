"""What every decision log can do, and which kind of log a path means."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from selector.decision import Decision
from selector.decision_log import DecisionLog
from selector.log_lines import LogLine

SQLITE_SUFFIXES = (".sqlite", ".sqlite3", ".db")


class Log(Protocol):
    """Takes decisions and writes a line for each. Nothing is raised once it is made.

    `dropped` counts the lines that could not be written, and `last_error` says why the last of them was not.
    """

    @property
    def dropped(self) -> int:
        """How many lines could not be written."""

    @property
    def last_error(self) -> Exception | None:
        """Why the last one of them was not."""

    def write(self, decision: Decision) -> None:
        """Write one line, unless the decision has no inputs (what was asked was not valid): it cannot be made again."""

    def write_lines(self, lines: Iterable[LogLine]) -> None:
        """Write lines that were made already, as a `LineWriter` makes them."""

    def close(self) -> object:
        """Write what is still to be written; what comes later is dropped."""

    def __enter__(self) -> Self:
        """Give the log itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""


def means_sqlite(path: str | Path) -> bool:
    """Whether a file of this name is an SQLite log: ``.sqlite``, ``.sqlite3`` and ``.db`` are."""
    return Path(path).suffix.lower() in SQLITE_SUFFIXES


def log_at(path: str | Path) -> Log:
    """Open the log that a path means, or make it: by its suffix an SQLite file, else JSON lines.

    Raises `OSError` when the file cannot be opened, and `ProblemsError` when it is something else than a log.
    """
    if means_sqlite(path):
        from selector.sqlite_log import SqliteLog  # SQLite only for who wants it

        return SqliteLog(path)
    return DecisionLog(path)
