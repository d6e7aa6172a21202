from __future__ import annotations

import datetime as dt
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from selector.json_lines import Line
from selector.log_columns import COLUMNS, columns_of
from selector.logged import read_line
from selector.rules.problems import ProblemsError
from selector.sqlite_log import SqliteLog
from tests.selector.command.runs import environment
from tests.selector.conftest import CPU, FI, cuda, decide
from tests.selector.logged_lines import decisions, line_of, logged, write_in_threads

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
TRTLLM = {"per_role": {"cross": {"backend": "TRTLLM_ATTN", "skip_softmax": {"target_sparsity": 0.5}}}}
WRITING = """
import sys, time
from selector import Selector
from selector.sqlite_log import SqliteLog
made = Selector(facts={'platform': 'cpu'}).decide('self', head_dim=128)
log = SqliteLog(sys.argv[1])
for number in range(int(sys.argv[2])):
    log.write(made)
    if number % 50 == 49 and len(sys.argv) > 3:
        print(number + 1, time.time(), flush=True)
        time.sleep(0.01)
log.close()
sys.exit(log.dropped > 0)
"""


def rows(path: Path, what: str = "*") -> list[dict[str, Any]]:
    """Give the rows of a log, by the names of their columns."""
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(f"SELECT {what} FROM decisions ORDER BY id")]  # noqa: S608 - ours


def asked(path: Path, question: str) -> Any:  # noqa: ANN401 - whatever SQLite answers
    """Give the first value that a file answers."""
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(question).fetchone()[0]


def run(*arguments: object) -> subprocess.Popen[str]:
    """Start a process that writes to a log."""
    command = [sys.executable, "-c", WRITING, *map(str, arguments)]
    return subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True)


# --- what is in it ---


def test_a_row_holds_the_whole_line_and_its_columns(tmp_path: Path) -> None:
    """The line is what a log of JSON lines holds; the columns are values of it."""
    made = decide(cuda(packages=FI), {"role": "cross", "head_dim": 128, "model": "WanPipeline"}, config=TRTLLM)

    with SqliteLog(tmp_path / "log.sqlite") as log:
        log.write(made)

    (row,) = rows(log.path)
    line = json.loads(row["line"])
    assert read_line(Line(1, row["line"].encode()), "log").inputs == made.inputs
    assert row["at"] == line["at"]
    assert {name: row[name] for name in COLUMNS} == {
        "role": "cross", "category": None, "model": "WanPipeline", "backend": "TRTLLM_ATTN", "provider": None,
        "source": "role", "origin": "config", "rule": "explicit/able", "error": None, "policy": "fallback",
        "digest": made.digest, "arch": "sm_100", "platform": "cuda",
    }  # fmt: skip


def test_a_refusal_has_its_code_and_the_row_that_refused(tmp_path: Path) -> None:
    """And no backend."""
    with SqliteLog(tmp_path / "log.sqlite") as log:
        log.write(decide(CPU, backend="SAGE_ATTN"))

    (row,) = rows(log.path)
    assert (row["backend"], row["error"], row["rule"]) == (None, "refused", "explicit/refuse")


def test_columns_are_values_of_a_line_or_nothing() -> None:
    """Whatever a line holds in their place."""
    line = {"policy": "strict", "request": 5, "decision": {"backend": 3}}

    assert columns_of(line, ("policy", "role", "backend")) == ("strict", None, None)


def test_lines_come_in_their_order_and_all_of_them(tmp_path: Path) -> None:
    """More than one batch, over the whole space of decisions."""
    made = list(decisions(3, 1200))

    with SqliteLog(tmp_path / "log.sqlite") as log:
        for one in made:
            log.write(one)

    found = [json.loads(row["line"])["decision"]["log"] for row in rows(log.path)]
    assert (log.dropped, log.last_error) == (0, None)
    assert found == [one.log for one in made]


def test_rows_of_one_statement_are_no_more_than_sqlite_takes(tmp_path: Path) -> None:
    """Older ones take 999 values."""
    made = [line_of(one, NOON) for one in decisions(3, 700)]
    lines = logged(*({**line, "digest": f"{number:064}"} for number, line in enumerate(made)))
    log = SqliteLog(tmp_path / "log.sqlite")
    assert log._connection is not None
    log._connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 999)

    log.write_lines(lines)
    log.close()

    assert (log.dropped, log.last_error) == (0, None)
    assert [row["digest"] for row in rows(log.path)] == [f"{number:064}" for number in range(len(made))]


def test_a_decision_without_inputs_has_no_row(tmp_path: Path) -> None:
    """There is nothing that could be decided again."""
    with SqliteLog(tmp_path / "log.sqlite") as log:
        log.write(decide(CPU, {"head_dim": "x"}))

    assert rows(log.path) == []


def test_the_file_says_what_it_is(tmp_path: Path) -> None:
    """By its version, and it is written ahead, so that readers and writers do not wait for each other."""
    SqliteLog(tmp_path / "log.sqlite").close()

    assert asked(tmp_path / "log.sqlite", "PRAGMA user_version") == 1
    assert asked(tmp_path / "log.sqlite", "PRAGMA journal_mode") == "wal"


@pytest.mark.parametrize("name", ["at", "role", "model", "backend", "rule", "error", "digest", "arch"])
def test_what_is_asked_for_is_found_by_an_index(tmp_path: Path, name: str) -> None:
    """And not by looking at every row."""
    SqliteLog(tmp_path / "log.sqlite").close()

    with closing(sqlite3.connect(tmp_path / "log.sqlite")) as connection:
        question = f"EXPLAIN QUERY PLAN SELECT line FROM decisions WHERE {name} = 'x'"  # noqa: S608 - ours
        plan = connection.execute(question).fetchall()
    assert f"USING INDEX decisions_{name}" in plan[0][3]


# --- when it is written ---


def test_a_line_waits_half_a_second_at_most(tmp_path: Path) -> None:
    """Without another line, and without being closed."""
    log = SqliteLog(tmp_path / "log.sqlite")
    log.write(decide(CPU))

    end = time.monotonic() + 5
    while not (found := rows(log.path)) and time.monotonic() < end:
        time.sleep(0.05)

    log.close()
    assert len(found) == 1


def test_flush_writes_what_was_taken(tmp_path: Path) -> None:
    """At once."""
    log = SqliteLog(tmp_path / "log.sqlite")
    log.write(decide(CPU))

    log.flush()

    assert len(rows(log.path)) == 1
    log.close()


def test_a_process_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    """As a selector that was given a path does."""
    code = WRITING.replace("log.close()\n", "")
    command = [sys.executable, "-c", code, str(tmp_path / "log.sqlite"), "7"]

    subprocess.run(command, env=environment(), check=True, timeout=60)

    assert len(rows(tmp_path / "log.sqlite")) == 7


@pytest.mark.parametrize("after", [0.7, 1.1])
def test_a_process_that_is_killed_loses_the_last_second_alone(tmp_path: Path, after: float) -> None:
    """The file is whole, every line in it is, and the next process goes on."""
    path = tmp_path / "log.sqlite"
    running = run(path, 1_000_000, "tell")
    assert running.stdout is not None
    running.stdout.readline()
    time.sleep(after)

    running.send_signal(signal.SIGKILL)
    killed = time.time()

    told = [line.split() for line in running.stdout.read().splitlines()]
    running.wait(60)
    running.stdout.close()
    due = max((int(number) for number, at in told if float(at) < killed - 1), default=50)
    found = rows(path, "line")
    assert asked(path, "PRAGMA integrity_check") == "ok"
    assert len(found) >= due
    assert all(read_line(Line(1, row["line"].encode()), "log") for row in found)
    with SqliteLog(path) as log:
        log.write(decide(CPU))
    assert len(rows(path)) == len(found) + 1


# --- several who write ---


def test_processes_share_a_file(tmp_path: Path) -> None:
    """Four that make it together: no line is lost, none is doubled."""
    path = tmp_path / "log.sqlite"

    running = [run(path, 3000) for _ in range(4)]

    for process in running:
        process.communicate(timeout=120)
    assert [process.returncode for process in running] == [0] * 4
    assert asked(path, "PRAGMA integrity_check") == "ok"
    assert asked(path, "SELECT count(*) FROM decisions") == 12_000


def test_threads_share_a_log(tmp_path: Path) -> None:
    """Eight threads."""
    made = list(decisions(1, 200))
    log = SqliteLog(tmp_path / "log.sqlite")

    write_in_threads(log, made, 8)
    log.close()

    assert log.dropped == 0
    assert len(rows(log.path)) == 8 * len(made)


def test_parent_and_child_write_their_own_lines(tmp_path: Path) -> None:
    """What the parent took before it forked is written once; the connection is not shared."""
    code = (
        "import os, sys; from selector import Selector; from selector.sqlite_log import SqliteLog\n"
        "ask = Selector(facts={'platform': 'cpu'}).decide; log = SqliteLog(sys.argv[1])\n"
        "for _ in range(700): log.write(ask('self', head_dim=128))\n"
        "child = os.fork()\n"
        "for _ in range(600): log.write(ask('cross' if child else 'temporal', head_dim=64))\n"
        "log.close()\n"
        "if not child: os._exit(log.dropped)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or log.dropped)\n"
    )
    path = tmp_path / "log.sqlite"

    subprocess.run([sys.executable, "-c", code, path], env=environment(), check=True, timeout=60)

    roles = [row["role"] for row in rows(path, "role")]
    assert {role: roles.count(role) for role in set(roles)} == {"self": 700, "cross": 600, "temporal": 600}
    assert asked(path, "PRAGMA integrity_check") == "ok"


def test_a_file_that_is_read_is_written_all_the_same(tmp_path: Path) -> None:
    """A reader that takes its time holds nobody up."""
    log = SqliteLog(tmp_path / "log.sqlite")
    log.write(decide(CPU))
    log.flush()

    with closing(sqlite3.connect(log.path)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM decisions").fetchone()
        log.write(decide(CPU))
        log.flush()

    assert (log.dropped, len(rows(log.path))) == (0, 2)
    log.close()


# --- how much is kept ---


def test_the_oldest_rows_go_where_there_are_more_than_wanted(tmp_path: Path) -> None:
    """By their number; ids are not used again."""
    made = decide(CPU)
    with SqliteLog(tmp_path / "log.sqlite", most_rows=100) as log:
        for _ in range(3):
            for _ in range(250):
                log.write(made)
            log.flush()

    assert [row["id"] for row in rows(log.path, "id")] == list(range(651, 751))


def test_rows_go_that_are_older_than_wanted(tmp_path: Path) -> None:
    """By their time."""
    made = decide(CPU)
    old = line_of(made, dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    with SqliteLog(tmp_path / "log.sqlite") as log:
        log.write_lines(logged(*[old] * 3))
        log.write(made)

    with SqliteLog(tmp_path / "log.sqlite", most_days=1.5) as log:
        log.write(made)

    assert [row["id"] for row in rows(log.path, "id")] == [4, 5]


def test_a_file_of_bounded_rows_stays_small(tmp_path: Path) -> None:
    """Pages of rows that are gone are used again."""
    made = decide(CPU)
    path = tmp_path / "log.sqlite"
    sizes = []
    with SqliteLog(path, most_rows=1000) as log:
        for _ in range(6):
            for _ in range(2000):
                log.write(made)
            sizes.append(sum(file.stat().st_size for file in tmp_path.iterdir()))

    assert sizes[-1] < sizes[0] * 2


@pytest.mark.parametrize("bounds", [{"most_rows": 0}, {"most_days": -1}])
def test_bounds_that_leave_nothing(tmp_path: Path, bounds: dict[str, Any]) -> None:
    """Told by their name."""
    ((name, got),) = bounds.items()

    with pytest.raises(ValueError, match=f"`{name}`: wanted more than 0, got {got}"):
        SqliteLog(tmp_path / "log.sqlite", **bounds)


# --- what is wrong ---


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    """It is not touched."""
    path = tmp_path / "log.sqlite"
    path.write_text("once upon a time\n" * 100, "utf-8")

    with pytest.raises(ProblemsError) as caught:
        SqliteLog(path)

    assert str(caught.value) == f"{path}: not-a-log: wanted a decision log, got a file that is no SQLite file"
    assert path.read_text("utf-8").startswith("once upon")


def test_a_database_of_something_else(tmp_path: Path) -> None:
    """It is not touched either."""
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE users (name)")

    with pytest.raises(ProblemsError, match="wanted a decision log, got an SQLite file of something else"):
        SqliteLog(path)

    assert asked(path, "SELECT count(*) FROM sqlite_schema") == 1


def test_a_log_of_a_later_version(tmp_path: Path) -> None:
    """It says so; nothing is written to it."""
    path = tmp_path / "log.sqlite"
    SqliteLog(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")

    with pytest.raises(ProblemsError) as caught:
        SqliteLog(path)

    assert str(caught.value) == (
        f"{path}: newer-log: wanted a decision log of the version 1 at most, got one of the version 2\n"
        "  hint: a later attention-selector wrote it, and can read it"
    )


def test_a_log_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    """With the system's reason."""
    with pytest.raises(IsADirectoryError):
        SqliteLog(tmp_path)
    with pytest.raises(FileNotFoundError):
        SqliteLog(tmp_path / "none" / "log.sqlite")


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    """A user who may not write there is told why, before any decision is made."""
    folder = tmp_path / "folder"
    folder.mkdir(mode=0o555)
    code = (
        "import os, sys\n"
        "from selector.sqlite_log import SqliteLog\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "try: SqliteLog(sys.argv[1])\n"
        "except PermissionError as error: print(error.strerror)\n"
    )
    for parent in list(folder.parents)[:4]:
        if os.geteuid() == 0 and parent != Path("/tmp"):  # noqa: S108 - left as it is
            parent.chmod(parent.stat().st_mode | 0o055)

    command = [sys.executable, "-c", code, str(folder / "log.sqlite")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=60)

    assert done.stdout == "Permission denied\n"


def test_a_disk_that_is_full_breaks_no_decision(tmp_path: Path) -> None:
    """What could not be written is counted, the reason is kept, and the file stays whole."""
    code = (
        "import resource, sys; from selector import Selector; from selector.sqlite_log import SqliteLog\n"
        "made = Selector(facts={'platform': 'cpu'}).decide('self', head_dim=128); log = SqliteLog(sys.argv[1])\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, 3 << 20))\n"
        "for _ in range(10_000): log.write(made)\n"
        "log.close(); print(log.dropped, type(log.last_error).__name__)\n"
    )
    path = tmp_path / "log.sqlite"

    command = [sys.executable, "-c", code, str(path)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True, timeout=60)

    dropped, error = done.stdout.split()
    assert 0 < int(dropped) < 10_000
    assert error == "OperationalError"
    assert asked(path, "PRAGMA integrity_check") == "ok"
    assert len(rows(path)) == 10_000 - int(dropped)


def filled(path: Path) -> Path:
    """Give a log of many pages."""
    with SqliteLog(path) as log:
        for one in decisions(2, 500):
            log.write(one)
    return path


def test_a_file_that_was_cut_off(tmp_path: Path) -> None:
    """It is told at once."""
    path = filled(tmp_path / "log.sqlite")
    path.write_bytes(path.read_bytes()[: 4096 * 20])

    with pytest.raises(ProblemsError) as caught:
        SqliteLog(path)

    assert str(caught.value) == f"{path}: unreadable: cannot read the file: database disk image is malformed"


def test_a_file_that_is_damaged_within_breaks_no_decision(tmp_path: Path) -> None:
    """What cannot be written is counted."""
    path = filled(tmp_path / "log.sqlite")
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)

    with SqliteLog(path) as log:
        log.write(decide(CPU))

    assert log.dropped == 1
    assert isinstance(log.last_error, sqlite3.DatabaseError)


def test_one_who_holds_the_file_too_long_costs_lines_and_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are counted, and the next ones are written."""
    monkeypatch.setattr("selector.sqlite_files._WAIT", 0.1)
    log = SqliteLog(tmp_path / "log.sqlite")

    with closing(sqlite3.connect(log.path, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        log.write(decide(CPU))
        log.flush()
    log.write(decide(CPU))
    log.close()

    assert (log.dropped, str(log.last_error)) == (1, "database is locked")
    assert len(rows(log.path)) == 1


def test_a_log_that_is_closed_drops_what_comes_later(tmp_path: Path) -> None:
    """It is no error to close it twice."""
    log = SqliteLog(tmp_path / "log.sqlite")
    log.close()
    log.close()

    log.write(decide(CPU))

    assert log.dropped == 1
    assert str(log.last_error) == "[Errno 9] the log is closed"
