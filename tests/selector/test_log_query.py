from __future__ import annotations

import datetime as dt
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selector.decision_log import DecisionLog
from selector.log_columns import COLUMNS, columns_of
from selector.log_files import is_sqlite, lines_in
from selector.log_query import Asked, Query, asked
from selector.logged import LineError
from selector.rules.problems import ProblemsError
from selector.sqlite_files import opened_to_read
from selector.sqlite_log import SqliteLog
from selector.sqlite_query import SqliteAsked
from tests.selector.logged_lines import decisions, line_of, logged

KINDS = ("log.sqlite", "log.jsonl")
START = dt.datetime(2026, 11, 30, 10, tzinfo=dt.UTC)
DIGESTS = ("0a" * 32, "0f" * 32, "ff" * 32)


def made(count: int = 600) -> list[dict[str, Any]]:
    """Give lines of a decision a second, by three rule sets."""
    found = []
    for number, decision in enumerate(decisions(11, count)):
        line = line_of(decision, START + dt.timedelta(seconds=number))
        found.append({**line, "digest": DIGESTS[number % 3]})
    return found


LINES = made()
TIMES = tuple(str(line["at"]) for line in LINES[::50])


def refuse(error: LineError) -> None:
    """Hear of no damage."""
    raise error


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the same lines in a log of each kind."""
    folder = tmp_path_factory.mktemp("logs")
    with SqliteLog(folder / KINDS[0]) as one, DecisionLog(folder / KINDS[1]) as other:
        one.write_lines(logged(*LINES))
        other.write_lines(logged(*LINES))
    return folder


# --- both kinds answer the same ---


def values(name: str) -> st.SearchStrategy[str]:
    """Draw a value that a column has, or one that it has not."""
    there = sorted({value for line in LINES if (value := columns_of(line, [name])[0]) is not None})
    return st.sampled_from([*there, "nowhere"])


QUERIES = st.builds(
    Query,
    st.fixed_dictionaries({}, optional={name: values(name) for name in COLUMNS if name != "digest"}),
    st.sampled_from(["", "", "0", "0a", "ff", "1", DIGESTS[1]]),
    st.sampled_from([None, None, "2020", "2030", *TIMES]),
    st.sampled_from([None, None, "2020", "2030", *TIMES]),
)


@given(QUERIES, st.sampled_from([None, 1, 7, 1000]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=150)
def test_both_kinds_find_what_fits(logs: Path, query: Query, most: int | None) -> None:
    """In the order in which it was written, and of too many the last."""
    fitting = [line for line in LINES if query.fits(line)]
    wanted = fitting if most is None else fitting[-most:]

    for kind in KINDS:
        with asked(str(logs / kind), refuse) as log:
            assert [json.loads(text) for text in log.found(query, most)] == wanted


@given(QUERIES, st.sampled_from(sorted(COLUMNS)))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=100)
def test_both_kinds_count_what_fits(logs: Path, query: Query, column: str) -> None:
    """The most frequent first, and equally frequent ones by their names."""
    counts = []
    for kind in KINDS:
        with asked(str(logs / kind), refuse) as log:
            counts.append(log.counts(query, column))

    assert counts[0] == counts[1]
    assert sum(count for _, count in counts[0]) == sum(map(query.fits, LINES))


@pytest.mark.parametrize("kind", KINDS)
def test_the_values_that_a_log_has_are_known(logs: Path, kind: str) -> None:
    """Of the columns that it was asked by."""
    with asked(str(logs / kind), refuse) as log:
        assert list(log.found(Query({"platform": "nowhere"}), None)) == []
        assert log.values("platform") == {value for line in LINES if (value := columns_of(line, ["platform"])[0])}


def test_a_decision_of_just_then_is_in_the_span_that_it_begins() -> None:
    """So that spans that follow each other share none."""
    at = str(LINES[5]["at"])

    assert Query(since=at).fits(LINES[5])
    assert not Query(until=at).fits(LINES[5])


# --- how SQLite finds it ---


def plan(log: SqliteAsked, connection: sqlite3.Connection, query: Query) -> str:
    """Give how SQLite would look for a query's rows."""
    where, bound = log.condition(query)
    question = f"EXPLAIN QUERY PLAN SELECT id, line FROM decisions WHERE id > ? AND id <= ? {where} ORDER BY id"  # noqa: S608 - ours
    return str([row[3] for row in connection.execute(question, (0, 1000, *bound))])


@pytest.fixture
def ours(logs: Path) -> Iterator[sqlite3.Connection]:
    """Give a connection to the log."""
    with closing(opened_to_read(str(logs / KINDS[0]))) as connection:
        yield connection


def test_a_filter_is_answered_by_its_index(ours: sqlite3.Connection, logs: Path) -> None:
    """Without sorting what it finds."""
    log = SqliteAsked(ours, logs / KINDS[0])

    assert "USING INDEX decisions_backend (backend=? AND rowid>? AND rowid<?)" in plan(
        log, ours, Query({"backend": "X"})
    )
    assert "TEMP B-TREE" not in plan(log, ours, Query({"role": "self", "error": "refused"}, since=TIMES[3]))


def test_a_span_of_time_is_a_span_of_rows(ours: sqlite3.Connection, logs: Path) -> None:
    """Found by the index of times; nothing is looked at before it."""
    log = SqliteAsked(ours, logs / KINDS[0])

    assert plan(log, ours, Query(since=TIMES[3])) == (
        "['SEARCH decisions USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)']"
    )
    assert log.condition(Query(since=TIMES[3]))[1] == [TIMES[3], 151]


def test_a_column_that_there_is_not_becomes_no_question(ours: sqlite3.Connection, logs: Path) -> None:
    """Whoever asks for it."""
    with pytest.raises(ValueError, match="wanted a column of the log, got 'x; DROP'"):
        SqliteAsked(ours, logs / KINDS[0]).counts(Query(), "x; DROP")


# --- reading ---


@pytest.mark.parametrize("kind", KINDS)
def test_lines_are_read_whole_and_in_their_order(logs: Path, kind: str) -> None:
    """With their numbers."""
    with lines_in(str(logs / kind), "log") as lines:
        found = [(line.number, json.loads(line.raw or b"")) for line in lines]

    assert found == list(enumerate(LINES, 1))


def test_first_bytes_tell_a_kind_that_the_name_does_not(tmp_path: Path) -> None:
    """A log may have been renamed."""
    SqliteLog(tmp_path / "log.sqlite").close()
    (tmp_path / "log.sqlite").rename(tmp_path / "log")
    (tmp_path / "text").write_text("SQLite\n", "utf-8")

    assert is_sqlite(str(tmp_path / "log"))
    assert not is_sqlite(str(tmp_path / "text"))
    assert not is_sqlite(str(tmp_path / "none.sqlite"))
    assert not is_sqlite("\0")


def test_a_row_that_is_too_long_is_told_and_not_read(tmp_path: Path) -> None:
    """As a line that is."""
    with SqliteLog(tmp_path / "log.sqlite") as log:
        log.write_lines(logged({"at": "x" * (1 << 20)}))

    with lines_in(str(log.path), "log") as lines:
        assert [line.raw for line in lines] == [None]


def test_who_reads_slowly_holds_nobody_up(tmp_path: Path) -> None:
    """Rows are taken a page at a time; what comes later is not read, and the log is not locked."""
    with SqliteLog(tmp_path / "log.sqlite") as log:
        log.write_lines(logged(*LINES * 3))
        with lines_in(str(log.path), "log") as lines:
            first = next(lines)
            log.write_lines(logged(*LINES))
            with closing(sqlite3.connect(log.path)) as other:
                busy = other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            rest = list(lines)

    assert (first.number, len(rest), busy) == (1, len(LINES) * 3 - 1, 0)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "not-a-log: wanted a decision log, got an empty file"),
        (b"no log\n" * 500, "not-a-log: wanted a decision log, got a file that is no SQLite file"),
        (b"SQLite format 3\0" + b"\0" * 500, "not-a-log: wanted a decision log, got a file that is no SQLite file"),
    ],
)
def test_a_file_that_is_no_log(tmp_path: Path, content: bytes, told: str) -> None:
    """Told at once, and left as it is."""
    path = tmp_path / "log.sqlite"
    path.write_bytes(content)

    with pytest.raises(ProblemsError) as caught, asked(str(path), refuse):
        pass

    assert str(caught.value) == f"{path}: {told}"
    assert path.read_bytes() == content


def cut(logs: Path, folder: Path) -> Path:
    """Give a log whose rows are damaged."""
    content = bytearray((logs / KINDS[0]).read_bytes())
    content[8192:] = b"\xff" * (len(content) - 8192)
    path = folder / "log.sqlite"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("ask", [lambda log: list(log.found(Query(), None)), lambda log: log.counts(Query(), "arch")])
def test_a_log_that_is_damaged_within(logs: Path, tmp_path: Path, ask: Any) -> None:  # noqa: ANN401 - any question
    """Told as a file that cannot be read."""
    path = cut(logs, tmp_path)

    def answer(log: Asked) -> None:
        ask(log)

    with (
        pytest.raises(ProblemsError, match="unreadable: cannot read the file: database disk image is malformed"),
        asked(str(path), refuse) as log,
    ):
        answer(log)


def test_lines_that_hold_something_else_are_told_one_by_one(tmp_path: Path) -> None:
    """Whatever they hold; the others are found."""
    path = tmp_path / "log"
    good = json.dumps(LINES[0])
    odd: list[Mapping[str, object]] = [{}, {"request": {}, "decision": 5, "facts": {}}]
    path.write_text("\n".join([good, *map(json.dumps, odd), "[]", good[:50], good]), "utf-8")
    told: list[str] = []

    with asked(str(path), lambda error: told.append(str(error.problems[0].place))) as log:
        found = list(log.found(Query(), None))

    assert found == [good, good]
    assert told == [f"{path}:2:1", f"{path}:3:1", f"{path}:4:1", f"{path}:5:49"]


def test_a_file_whose_first_lines_are_none_of_a_log(tmp_path: Path) -> None:
    """It is not read to its end."""
    path = tmp_path / "log"
    path.write_text("{}\n" * 1000, "utf-8")
    told: list[LineError] = []

    with pytest.raises(ProblemsError) as caught, asked(str(path), told.append) as log:
        list(log.found(Query(), None))

    assert str(caught.value) == (
        f"{path}: not-a-log: wanted a decision log, got a file whose first 20 lines are none of one"
    )
    assert len(told) == 20
