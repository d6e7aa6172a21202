"""`attention-selector replay`, and `decide --log`, which writes what it reads."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from selector.command.replay import Summary
from selector.replaying import Change, Damage, Replayed
from selector.sqlite_log import SqliteLog
from tests.selector.command.runs import ask, assert_bad_input, environment, process, read_a_line_of
from tests.selector.conftest import CPU, FA2, cuda, decide, overlay
from tests.selector.logged_lines import ROW, decisions, logged, value, write

MEBIBYTE = 1 << 20
CHANGE = (
    "CUDNN_ATTN (platform_default/blackwell-cudnn) → TORCH_SDPA (platform_default/torch-sdpa)"
    "; differs: backend, rule, log"
)
ALLOWED = "refused (explicit/refuse) → TORCH_SDPA (explicit/able); differs: backend, rule, log, error"
NOT_ACCEPTED = "TORCH_SDPA (platform_default/torch-sdpa) → invalid; differs: backend, source, origin, rule, log, error"
GROUP = "platform_default/blackwell-cudnn → platform_default/torch-sdpa"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Give a log of four decisions, two of which the edited rules change."""
    made = [
        decide(cuda("sm_120"), {"head_dim": 128}),
        decide(cuda("sm_90", FA2), {"head_dim": 128}),
        decide(CPU, backend="SAGE_ATTN"),
        decide(cuda("sm_100"), {"role": "cross", "head_dim": 64, "model": "WanPipeline"}),
    ]
    return write(tmp_path / "log.jsonl", made)


@pytest.fixture
def edited(tmp_path: Path) -> str:
    """Give a folder with rules under which no default is CUDNN_ATTN."""
    return str(overlay(tmp_path / "rules", {"platform_default.yaml": [ROW]}))


class Standard:
    """Standard input that holds some bytes."""

    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


# --- what is told ---


def test_the_same_rules_change_nothing(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, and the counts."""
    ran = ask(capsys, "replay", str(log))

    assert ran == (0, "4 lines: 4 unchanged, 0 changed, 0 damaged\n", "")


def test_each_change_is_told_with_its_line_and_both_rows(
    log: Path, edited: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 1; at the end the counts, by rows."""
    ran = ask(capsys, "replay", str(log), "--rules", edited)

    assert (ran.status, ran.err) == (1, "")
    assert ran.out.splitlines() == [
        f"{log}:1: role self: {CHANGE}",
        f"{log}:4: role cross, model WanPipeline: {CHANGE}",
        "4 lines: 2 unchanged, 2 changed, 0 damaged",
        f"  2 × {GROUP}",
    ]


def test_each_change_is_an_object_for_programs(log: Path, edited: str, capsys: pytest.CaptureFixture[str]) -> None:
    """With both answers whole, and the counts as the last object."""
    ran = ask(capsys, "replay", str(log), "--rules", edited, "--format", "json")

    first, second, last = map(json.loads, ran.out.splitlines())
    assert ran.status == 1
    assert first == {
        "line": 1, "role": "self", "model": None, "before": value(log)["decision"],
        "after": {
            "backend": "TORCH_SDPA", "source": "platform", "origin": "platform", "rule": "platform_default/torch-sdpa",
            "log": "Defaulting to diffusion attention backend SDPA", "warnings": [], "error": None, "provider": None,
            "transform": None, "row": "platform_default/torch-sdpa",
        },
        "differs": ["backend", "rule", "log"],
    }  # fmt: skip
    assert (second["line"], second["role"], second["model"]) == (4, "cross", "WanPipeline")
    assert last == {
        "summary": {
            "read": 4, "unchanged": 2, "changed": 2, "damaged": 0,
            "rows": [
                {"before": "platform_default/blackwell-cudnn", "after": "platform_default/torch-sdpa", "count": 2}
            ],
        }
    }  # fmt: skip


def test_a_refusal_is_told_by_its_code_and_row(tmp_path: Path, edited: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where a decision was refused, or would be; and inputs that are not accepted have no row."""
    path = write(tmp_path / "log", [decide(CPU, backend="SAGE_ATTN"), decide(CPU, {"head_dim": 1})])
    lines = path.read_text("utf-8").replace('"SAGE_ATTN"', '"TORCH_SDPA"').replace('"head_dim": 1', '"head_dim": "x"')
    path.write_text(lines, "utf-8")

    ran = ask(capsys, "replay", str(path))

    assert ran.out.splitlines()[:2] == [
        f"{path}:1: role self: {ALLOWED}",
        f"{path}:2: role self: {NOT_ACCEPTED}",
    ]
    assert ran.out.splitlines()[3:] == [
        "  1 × explicit/refuse → explicit/able",
        "  1 × platform_default/torch-sdpa → invalid",
    ]


def test_an_empty_log_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """So is one of blank lines."""
    (tmp_path / "log").write_text("\n  \n", "utf-8")

    assert ask(capsys, "replay", str(tmp_path / "log")) == (
        0, "0 lines: 0 unchanged, 0 changed, 0 damaged\n", "",
    )  # fmt: skip


def test_standard_input_is_read(
    log: Path, edited: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And named where a line of it is told."""
    monkeypatch.setattr("sys.stdin", Standard(log.read_bytes()))

    ran = ask(capsys, "replay", "-", "--rules", edited)

    assert ran.status == 1
    assert ran.out.startswith("standard input:1: role self: ")


def test_many_lines_are_replayed_by_processes(tmp_path: Path, edited: str) -> None:
    """With the same output as by one."""
    path = write(tmp_path / "log", decisions(9, 4000))

    one, two = (process("replay", str(path), "--rules", edited, "--processes", count) for count in ("1", "2"))

    assert one.out == two.out
    assert (one.status, one.err) == (two.status, two.err) == (1, "")
    assert len(one.out.splitlines()) > 10


@pytest.mark.parametrize("count", ["1", "2"])
def test_an_sqlite_log_is_replayed_as_the_same_lines(tmp_path: Path, edited: str, count: str) -> None:
    """In the same order, with the number of its row for the line's, by one process and by several."""
    made = list(decisions(9, 2500))
    text = write(tmp_path / "log", made)
    with SqliteLog(tmp_path / "log.sqlite") as log:
        for one in made:
            log.write(one)

    first, other = (process("replay", str(path), "--rules", edited, "--processes", count) for path in (text, log.path))

    assert first.out.replace(f"{text}:", f"{log.path}:") == other.out
    assert (first.status, first.err) == (other.status, other.err) == (1, "")


def test_rows_of_an_sqlite_log_that_are_damaged(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Told by their number, and the rest is replayed."""
    with SqliteLog(tmp_path / "log.sqlite") as made:
        made.write_lines(logged(*map(json.loads, log.read_bytes().splitlines())))
    with contextlib.closing(sqlite3.connect(made.path)) as connection, connection:
        connection.execute("UPDATE decisions SET line = '{}}' WHERE id = 2")
        connection.execute("DELETE FROM decisions WHERE id = 1")

    ran = ask(capsys, "replay", str(made.path))

    assert (ran.status, ran.out) == (2, "3 lines: 2 unchanged, 0 changed, 1 damaged\n")
    assert ran.err == f"{made.path}:2:3: json-syntax: wanted the end of the text after the value\n"


def test_an_sqlite_file_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2; whatever its name is."""
    with contextlib.closing(sqlite3.connect(tmp_path / "users")) as connection:
        connection.execute("CREATE TABLE users (name)")

    assert ask(capsys, "replay", str(tmp_path / "users")) == (
        2, "", f"{tmp_path}/users: not-a-log: wanted a decision log, got an SQLite file of something else\n",
    )  # fmt: skip


# --- what is wrong ---


def test_a_damaged_line_is_told_and_the_rest_is_replayed(
    log: Path, edited: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Status 2, whatever changes."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b"\n", lines[1][:40] + b"\n", b'{"at": 1\xff}\n', lines[3]]))

    ran = ask(capsys, "replay", str(log), "--rules", edited)

    assert ran.status == 2
    assert ran.err.splitlines() == [
        f"{log}:3:39: json-syntax: the string has no end",
        f"{log}:4:9: not-utf-8: wanted UTF-8, got byte 0xff",
    ]
    assert ran.out.splitlines() == [
        f"{log}:1: role self: {CHANGE}",
        f"{log}:5: role cross, model WanPipeline: {CHANGE}",
        "4 lines: 0 unchanged, 2 changed, 2 damaged",
        f"  2 × {GROUP}",
    ]


def test_a_line_of_more_than_a_mebibyte_is_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is not kept, and the next one is read."""
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([lines[0], b"x" * (3 * MEBIBYTE) + b"\n", *lines[1:]]))

    ran = ask(capsys, "replay", str(log))

    assert ran.status == 2
    assert ran.err == f"{log}:2:1: too-large: the line is too long: wanted at most 1048576 bytes\n"
    assert ran.out == "5 lines: 4 unchanged, 0 changed, 1 damaged\n"


def test_a_log_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, by its name."""
    ran = ask(capsys, "replay", "nowhere.jsonl")

    assert ran == (2, "", "nowhere.jsonl: unreadable: cannot read the file: no such file or directory\n")


def test_a_log_that_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same."""
    assert ask(capsys, "replay", str(tmp_path)).err == (
        f"{tmp_path}: unreadable: cannot read the file: is a directory\n"
    )


def test_a_log_that_fails_on_the_way(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Told as a log that cannot be read, and not as an output that cannot be written."""

    class Broken(io.RawIOBase):
        def readline(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    standard = Standard(b"")
    standard.buffer = Broken()  # type: ignore[assignment]
    monkeypatch.setattr("sys.stdin", standard)

    assert ask(capsys, "replay", "-").err == ("standard input: unreadable: cannot read the file: input/output error\n")


def test_standard_input_that_is_closed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2."""
    monkeypatch.setattr("sys.stdin", None)

    assert ask(capsys, "replay", "-") == (2, "", "standard input: unreadable: it is closed\n")


def test_rules_that_do_not_load(log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, and nothing is replayed."""
    folder = overlay(tmp_path / "bad", {"call.yaml": [("use:", "uze:")]})

    ran = ask(capsys, "replay", str(log), "--rules", str(folder))

    assert (ran.status, ran.out) == (2, "")
    assert str(folder / "call.yaml") in ran.err


@pytest.mark.parametrize("count", ["0", "-2"])
def test_no_processes_at_all(log: Path, count: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A command line that is not understood."""
    ran = ask(capsys, "replay", str(log), "--processes", count)

    assert ran.status == 2
    assert ran.err.startswith(f"usage: `--processes`: wanted an integer of at least 1, got {count}\n")


def test_bad_input_needs_little(tmp_path: Path) -> None:
    """A log that is no log is told within a second and 150 MB."""
    (tmp_path / "log").write_bytes(b"x" * 20_000_000)

    assert_bad_input(process("replay", str(tmp_path / "log")))


@pytest.mark.parametrize("count", ["1", "2"])
def test_a_reader_that_closes_the_pipe_ends_it_quietly(tmp_path: Path, edited: str, count: str) -> None:
    """No traceback, and no process that stays."""
    made = [decide(cuda("sm_120"), {"head_dim": 64 + size}) for size in range(500)]
    path = write(tmp_path / "log", made * 10)
    command = [sys.executable, "-m", "selector", "replay", str(path), "--rules", edited, "--processes", count]

    assert read_a_line_of(command) == (0, b"")


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_the_command(tmp_path: Path, end: signal.Signals) -> None:
    """However it ends: killed, or interrupted."""
    path = write(tmp_path / "log", decisions(9, 3000))
    command = [sys.executable, "-m", "selector", "replay", "-", "--processes", "2"]
    running = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert running.stdin is not None
    running.stdin.write(path.read_bytes())
    running.stdin.flush()
    wait_for(lambda: len(children(running.pid)) >= 2)
    workers = children(running.pid)

    running.send_signal(end)
    _, told = running.communicate(timeout=60)

    wait_for(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))
    assert b"Traceback" not in told


def children(parent: int) -> list[int]:
    """Give the processes that one started."""
    text = Path(f"/proc/{parent}/task/{parent}/children")
    return [int(child) for child in text.read_text("utf-8").split()] if text.exists() else []


def wait_for(condition: object) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + 30
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


# --- what it comes to ---


def change(rows: tuple[str | None, str | None], code: str | None = None) -> Change:
    """Give a change from one row to another."""
    error = None if code is None else {"code": code, "message": "", "path": None}
    return Change(1, "self", None, {"error": None}, {"error": error}, rows, ("backend",))


def test_a_summary_counts_by_rows() -> None:
    """Or by the error, where no row decides."""
    summary = Summary()
    found = [change(("a/b", "c/d"))] * 2 + [change(("a/b", None), "invalid"), change((None, "x/y"))]

    summary.add(Replayed(10, (*found, Damage(3, ()))))

    assert (summary.read, summary.changed, summary.damaged, summary.unchanged) == (10, 4, 1, 5)
    assert summary.groups == {("a/b", "c/d"): 2, ("a/b", "invalid"): 1, ("no row", "x/y"): 1}


def test_a_summary_stays_small() -> None:
    """A log that somebody made up cannot make it grow."""
    summary = Summary()

    summary.add(Replayed(3000, tuple(change((f"a/{at}" * 100, "c/d")) for at in range(3000))))

    assert len(summary.groups) == 1001
    assert summary.groups["other rows", "other rows"] == 2000
    assert max(len(name) for group in summary.groups for name in group) <= 120


# --- decide --log ---


def test_decide_writes_what_replay_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A line for each decision that was made; a line that was not valid has none."""
    asked = [{"facts": CPU, "request": {"head_dim": 128}}, {"facts": 5}, {"facts": CPU, "backend": "SAGE_ATTN"}]
    (tmp_path / "in").write_text("".join(f"{json.dumps(line)}\n" for line in asked), "utf-8")
    log = tmp_path / "log"

    for _ in range(2):
        ran = ask(capsys, "decide", str(tmp_path / "in"), "--log", str(log))
        assert (ran.status, len(ran.out.splitlines())) == (0, 3)

    assert [value(log, number)["decision"]["row"] for number in (1, 2)] == [
        "platform_default/torch-sdpa", "explicit/refuse",
    ]  # fmt: skip
    assert ask(capsys, "replay", str(log)).out == "4 lines: 4 unchanged, 0 changed, 0 damaged\n"


def test_decide_with_a_log_that_cannot_be_opened(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2, before anything is decided."""
    ran = ask(capsys, "decide", os.devnull, "--log", str(tmp_path))

    assert ran == (2, "", f"{tmp_path}: unwritable: cannot write the log: is a directory\n")


def test_decide_with_a_log_that_is_full(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every line is answered, and what is missing in the log is told at the end."""
    (tmp_path / "in").write_text(f"{json.dumps({'facts': CPU})}\n" * 3, "utf-8")

    ran = ask(capsys, "decide", str(tmp_path / "in"), "--log", "/dev/full")

    assert (ran.status, len(ran.out.splitlines())) == (2, 3)
    assert ran.err == ("/dev/full: unwritable: 3 decisions could not be written to the log: no space left on device\n")
