"""SQLite files of decisions: opened to be written or to be read, and refused when they are something else."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from pathlib import Path

from selector.log_columns import COLUMNS
from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown

VERSION = 1
_OWN = 0x41_54_53_4C  # "ATSL", by which the file says whose it is
_WAIT = 10.0  # seconds for another process that writes
_MOST_LETTERS = 4096
_UNINDEXED = ("source", "origin", "policy")  # a handful of values each: an index costs more than it finds
_COLUMNS = "".join(f", {name} TEXT" for name in COLUMNS)
_SCHEMA = (
    f"CREATE TABLE decisions (id INTEGER PRIMARY KEY AUTOINCREMENT, at TEXT NOT NULL, line TEXT NOT NULL{_COLUMNS})",
    "CREATE INDEX decisions_at ON decisions (at)",
    *(f"CREATE INDEX decisions_{name} ON decisions ({name})" for name in COLUMNS if name not in _UNINDEXED),
    f"PRAGMA application_id = {_OWN}",
    f"PRAGMA user_version = {VERSION}",
)


def opened_to_write(path: Path) -> sqlite3.Connection:
    """Open a log, or make it; its connection may be used by any thread, one at a time.

    Raises `OSError` when the file cannot be opened, `ProblemsError` when it is something else, or of a later version.
    """
    # The system says why it cannot be opened, where SQLite says only that it cannot.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666))
    connection = sqlite3.connect(path, timeout=_WAIT, isolation_level=None, check_same_thread=False)
    try:
        _patiently(connection, path)
    except sqlite3.Error as error:
        connection.close()
        raise _refused(path, error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _patiently(connection: sqlite3.Connection, path: Path) -> None:
    """Prepare the file; while others prepare it too SQLite may say that it is locked without waiting."""
    end = time.monotonic() + _WAIT
    while True:
        try:
            return _prepare(connection, path)
        except sqlite3.OperationalError as error:
            if connection.in_transaction:
                connection.rollback()
            if "locked" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.01)


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    if _is_log(connection, path, new=True):
        connection.execute("PRAGMA synchronous = NORMAL")
        return
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("BEGIN IMMEDIATE")
    if not _is_log(connection, path, new=True):
        for statement in _SCHEMA:
            connection.execute(statement)
    connection.execute("COMMIT")


def opened_to_read(name: str) -> sqlite3.Connection:
    """Open a log that is there, to be read alone. Raises `ProblemsError` when it cannot be, or is no log."""
    path = Path(name)
    try:
        path.open("rb").close()
    except (OSError, ValueError) as error:
        raise _problem(path, "unreadable", f"cannot read the file: {reason_of(error)}") from error
    # Beside a log in a folder that nobody may write no memory can be shared, and then nobody is writing.
    for mode in ("mode=ro", "immutable=1"):
        address = f"{path.absolute().as_uri()}?{mode}"
        connection = sqlite3.connect(address, uri=True, timeout=_WAIT, isolation_level=None)
        try:
            _is_log(connection, path, new=False)
        except sqlite3.Error as error:
            connection.close()
            alone = any(word in str(error) for word in ("unable to open", "readonly")) and not _newer_beside(path)
            if mode == "immutable=1" or not alone:
                raise unreadable(path, error) from error
        except ProblemsError:
            connection.close()
            raise
        else:
            return connection
    raise AssertionError  # one of both was tried last


def _newer_beside(path: Path) -> bool:
    """Whether lines stand in the file beside the log that are not in it yet."""
    beside = path.with_name(f"{path.name}-wal")
    return beside.exists() and beside.stat().st_size > 0


def _is_log(connection: sqlite3.Connection, path: Path, *, new: bool) -> bool:
    """Whether the file is a log that this version understands; an empty file is none yet, where it may be made one."""
    own, version, tables = _marks(connection)
    if own == _OWN:
        if version <= VERSION:
            return True
        message = f"wanted a decision log of the version {VERSION} at most, got one of the version {version}"
        raise _problem(path, "newer-log", message, "a later attention-selector wrote it, and can read it")
    if new and not (own or tables):
        return False
    got = "an SQLite file of something else" if own or tables else "an empty file"
    raise _problem(path, "not-a-log", f"wanted a decision log, got {got}")


def _marks(connection: sqlite3.Connection) -> tuple[int, int, int]:
    """Read whose the file is, its version, and how much it holds, at one moment: others may be making it."""
    questions = ("PRAGMA application_id", "PRAGMA user_version", "SELECT count(*) FROM sqlite_schema")
    within = connection.in_transaction
    if not within:
        connection.execute("BEGIN")
    own, version, tables = (connection.execute(question).fetchone()[0] for question in questions)
    if not within:
        connection.execute("COMMIT")
    return own, version, tables


def _refused(path: Path, error: sqlite3.Error) -> Exception:
    """Say why a file was not opened: as something else than a log, or as the system's error."""
    if isinstance(error, sqlite3.OperationalError):
        return OSError(errno.EIO, str(error), str(path))
    return unreadable(path, error)


def unreadable(path: Path, error: sqlite3.Error) -> ProblemsError:
    """Say what SQLite found, as a problem of the file."""
    if "not a database" in str(error):
        return _problem(path, "not-a-log", "wanted a decision log, got a file that is no SQLite file")
    return _problem(path, "unreadable", f"cannot read the file: {str(error).lower()}")


def _problem(path: Path, code: str, message: str, hint: str | None = None) -> ProblemsError:
    return ProblemsError([Problem(Place(shown(str(path), _MOST_LETTERS)), code, message, hint)])
