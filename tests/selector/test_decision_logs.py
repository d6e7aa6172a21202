from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from selector import Selector
from selector.decision_log import DecisionLog
from selector.decision_logs import Log, log_at
from selector.queued_log import QueuedLog
from selector.rules.problems import FactsError
from selector.sqlite_log import SqliteLog
from tests.selector.command.runs import ask, environment
from tests.selector.conftest import CPU, decide
from tests.selector.logged_lines import value
from tests.selector.test_sqlite_log import rows


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("log.sqlite", SqliteLog),
        ("log.sqlite3", SqliteLog),
        ("log.DB", SqliteLog),
        ("log.jsonl", DecisionLog),
        ("log", DecisionLog),
        ("log.sqlite.txt", DecisionLog),
    ],
)
def test_a_suffix_says_which_kind_of_log_a_path_means(tmp_path: Path, name: str, kind: type[object]) -> None:
    """Whatever its case; everything else is JSON lines."""
    with log_at(tmp_path / name) as log:
        log.write(decide(CPU))

    assert type(log) is kind
    assert log.dropped == 0
    assert (tmp_path / name).read_bytes().startswith(b"SQLite format 3" if kind is SqliteLog else b'{"at"')


@pytest.mark.parametrize("make", [DecisionLog, SqliteLog, lambda path: QueuedLog(DecisionLog(path))])
def test_every_log_can_do_the_same(tmp_path: Path, make: type[DecisionLog]) -> None:
    """Whoever has one need not know which."""
    log: Log = make(tmp_path / "log")

    with log as same:
        assert same is log
        log.write(decide(CPU))
        log.write_lines([])

    log.close()
    assert (log.dropped, log.last_error) == (0, None)


@pytest.mark.parametrize("name", ["log.jsonl", "log.db"])
def test_a_selector_takes_the_path_of_a_log(tmp_path: Path, name: str) -> None:
    """In a process that ends without closing it, every line is there."""
    code = (
        "import sys; from selector import Selector; chosen = Selector(facts={'platform': 'cpu'}, log=sys.argv[1])\n"
        "for _ in range(20): chosen.decide('self', head_dim=128)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / name)]

    subprocess.run(command, env=environment(), check=True, timeout=60)

    path = tmp_path / name
    assert len(rows(path) if name.endswith("db") else path.read_bytes().splitlines()) == 20


def test_a_selector_that_is_refused_makes_no_log(tmp_path: Path) -> None:
    """Its facts are read first."""
    with pytest.raises(FactsError):
        Selector(facts={"platfrom": "cpu"}, log=tmp_path / "log")

    assert list(tmp_path.iterdir()) == []


def test_decide_writes_either_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the same lines."""
    (tmp_path / "in").write_text(f"{json.dumps({'facts': CPU})}\n" * 700, "utf-8")

    for name in ("log.jsonl", "log.sqlite"):
        assert ask(capsys, "decide", str(tmp_path / "in"), "--log", str(tmp_path / name)).status == 0

    found = [json.loads(row["line"]) for row in rows(tmp_path / "log.sqlite")]
    assert len(found) == 700
    assert found[0] | {"at": ""} == value(tmp_path / "log.jsonl") | {"at": ""}


def test_decide_with_a_log_that_is_no_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, before anything is decided."""
    path = tmp_path / "log.db"
    path.write_text("no log\n" * 100, "utf-8")

    ran = ask(capsys, "decide", os.devnull, "--log", str(path))

    assert ran == (2, "", f"{path}: not-a-log: wanted a decision log, got a file that is no SQLite file\n")


def test_decide_with_a_log_that_breaks_on_the_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every line is answered, and what is missing in the log is told at the end, when all of it was tried."""
    (tmp_path / "in").write_text(f"{json.dumps({'facts': CPU})}\n" * 3, "utf-8")
    path = tmp_path / "log.db"
    monkeypatch.setattr("selector.sqlite_log._INSERT", "INSERT INTO elsewhere VALUES (1)")

    ran = ask(capsys, "decide", str(tmp_path / "in"), "--log", str(path))

    assert (ran.status, len(ran.out.splitlines())) == (2, 3)
    assert ran.err.startswith(f"{path}: unwritable: 3 decisions could not be written to the log: ")
