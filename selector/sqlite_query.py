"""Questions to a decision log that is an SQLite file, answered by its indexes."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from selector.log_columns import COLUMNS
from selector.log_files import rows_of
from selector.log_query import Count, Query
from selector.sqlite_files import opened_to_read, unreadable

_AFTER_HEX = "g"  # the letter after the last hexadecimal digit


@contextlib.contextmanager
def opened_to_ask(name: str) -> Iterator[SqliteAsked]:
    """Open a log to ask it. Raises `ProblemsError` when it cannot be read, or is no log."""
    with closing(opened_to_read(name)) as connection:
        try:
            yield SqliteAsked(connection, Path(name))
        except sqlite3.Error as error:
            raise unreadable(Path(name), error) from error


class SqliteAsked:
    """An SQLite log that answers questions; see `Asked`."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        """Hold an open log."""
        self._connection = connection
        self._path = path

    def found(self, query: Query, most: int | None) -> Iterator[str]:
        """Give the lines that fit, in their order; of more than `most` the last ones."""
        where, values = self.condition(query)
        if most is not None:
            last = f"SELECT id FROM decisions WHERE 1 {where} ORDER BY id DESC LIMIT ?"  # noqa: S608 - values are bound
            question = f"SELECT min(id) FROM ({last})"  # noqa: S608 - the same
            (first,) = self._connection.execute(question, (*values, most)).fetchone()
            where, values = f"{where} AND id >= ?", [*values, first]
        return ((line.raw or b"").decode() for line in rows_of(self._connection, self._path, where, values))

    def counts(self, query: Query, column: str) -> list[Count]:
        """Count the lines that fit by a column, the most frequent value first."""
        where, values = self.condition(query)
        name = _column(column)
        question = f"SELECT {name}, count(*) FROM decisions WHERE 1 {where} GROUP BY 1 ORDER BY 2 DESC, 1"  # noqa: S608 - ours
        return [(value, count) for value, count in self._connection.execute(question, values)]

    def values(self, column: str) -> set[str]:
        """Give the values that the log has in a column."""
        name = _column(column)
        question = f"SELECT DISTINCT {name} FROM decisions WHERE {name} IS NOT NULL"  # noqa: S608 - one of our names
        return {value for (value,) in self._connection.execute(question)}

    def condition(self, query: Query) -> tuple[str, list[object]]:
        """Write a query as what follows the conditions that stand there, with its values.

        Times become bounds of the rows' numbers first, so that another index is free for the rest.
        """
        terms: list[str] = [f"AND {_column(name)} = ?" for name in query.equal]
        values: list[object] = [*query.equal.values()]
        if query.digest:
            terms.append("AND digest >= ? AND digest < ?")
            values += [query.digest, query.digest + _AFTER_HEX]
        if query.since is not None:
            terms.append("AND +at >= ? AND id >= ?")
            values += [query.since, self._number("SELECT min(id) FROM decisions WHERE at >= ?", query.since)]
        if query.until is not None:
            terms.append("AND +at < ? AND id <= ?")
            values += [query.until, self._number("SELECT max(id) FROM decisions WHERE at < ?", query.until)]
        return " ".join(terms), values

    def _number(self, question: str, time: str) -> int | None:
        """Give the number of a row; None, which no number is beside, where there is none."""
        (number,) = self._connection.execute(question, (time,)).fetchone()
        return None if number is None else int(number)


def _column(name: str) -> str:
    if name not in COLUMNS:  # it becomes a part of the question
        raise ValueError(f"wanted a column of the log, got {name!r}")
    return name
