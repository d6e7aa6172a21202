"""`attention-selector log`: which decisions a log holds."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from selector.decision_logs import log_at
from tests.selector.command.runs import ask, assert_bad_input, environment, process, read_a_line_of
from tests.selector.conftest import CPU, FA2, cuda, decide
from tests.selector.logged_lines import decisions, line_of, logged

KINDS = ("log.sqlite", "log.jsonl")
HINT = "  hint: attention-selector --help\n"
ZONE = "a time with its zone such as 2026-11-30T10:00Z, or an age such as 90s, 30m, 1h or 2d"
RULES = decide(CPU).digest[:12]
MADE = (
    decide(cuda("sm_120"), {"head_dim": 128}),
    decide(cuda("sm_90", FA2), {"role": "cross", "head_dim": 128}),
    decide(CPU, backend="SAGE_ATTN"),
    decide(cuda("sm_100"), {"role": "cross", "head_dim": 64, "model": "WanPipeline"}),
)


def lines() -> list[dict[str, Any]]:
    """Give a decision of each hour from ten on, and one of just now."""
    start = dt.datetime(2026, 1, 31, 10, tzinfo=dt.UTC)
    hours = [line_of(made, start + dt.timedelta(hours=number)) for number, made in enumerate(MADE)]
    return [*hours, line_of(MADE[0], dt.datetime.now(tz=dt.UTC) + dt.timedelta(seconds=5))]


@pytest.fixture(params=KINDS)
def log(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Give a log of five decisions, of each kind."""
    path = tmp_path / str(request.param)
    with log_at(path) as made:
        made.write_lines(logged(*lines()))
    return str(path)


SAID = (
    "self: CUDNN_ATTN (platform_default/blackwell-cudnn), cuda sm_120",
    "cross: FLASH_ATTN (platform_default/hopper-flash-attn), cuda sm_90",
    "self: refused (explicit/refuse), cpu",
    "cross, model WanPipeline: CUDNN_ATTN (platform_default/blackwell-cudnn), cuda sm_100",
)
TEXTS = [f"2026-01-31T1{hour}:00:00.000000Z role {said}, rules {RULES}" for hour, said in enumerate(SAID)]
TEXTS[2] += f": {MADE[2].error.message}" if MADE[2].error else ""


# --- which decisions ---


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--until", "2026-01-31T14:00Z"], [0, 1, 2, 3]),
        (["--until", "2026-01-31T14:00Z", "--limit", "2"], [2, 3]),
        (["--role", "cross"], [1, 3]),
        (["--role", "cross", "--backend", "CUDNN_ATTN"], [3]),
        (["--model", "WanPipeline"], [3]),
        (["--rule", "explicit/refuse"], [2]),
        (["--error", "refused"], [2]),
        (["--arch", "sm_90"], [1]),
        (["--platform", "cpu"], [2]),
        (["--since", "2026-01-31T11:00Z", "--until", "2026-01-31T13:00Z"], [1, 2]),
        (["--since", "2026-01-31T13:00+02:00", "--until", "2026-01-31T12:00:00.000001Z"], [1, 2]),
        (["--since", "2026-01-31", "--until", "2026-01-31T10:30Z"], [0]),
        (["--digest", RULES[:7].upper(), "--role", "cross"], [1, 3]),
        (["--source", "default", "--origin", "flag", "--policy", "fallback"], [2]),
    ],
)
def test_decisions_that_fit_are_told(
    log: str, flags: list[str], found: list[int], capsys: pytest.CaptureFixture[str]
) -> None:
    """One a line, in their order; at the end how many they are."""
    ran = ask(capsys, "log", log, *flags)

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        *(TEXTS[number] for number in found),
        f"{len(found)} decision{'' if len(found) == 1 else 's'}",
    ]


@pytest.mark.parametrize("age", ["90s", "30m", "1h"])
def test_an_age_is_so_long_before_now(log: str, age: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Of the last hour at most, here the last decision alone."""
    ran = ask(capsys, "log", log, "--since", age, "--role", "self", "--limit", "1", "--format", "jsonl")

    assert json.loads(ran.out)["at"] > "2026-01-31T10:00:00.000000Z"


def test_lines_come_as_they_were_written(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON lines, which `replay` reads, and as one array."""
    as_lines = ask(capsys, "log", log, "--format", "jsonl", "--role", "cross").out
    as_json = ask(capsys, "log", log, "--format", "json", "--role", "cross").out
    none = ask(capsys, "log", log, "--format", "json", "--role", "cross", "--error", "refused").out

    assert [json.loads(line) for line in as_lines.splitlines()] == [lines()[1], lines()[3]]
    assert json.loads(as_json) == [lines()[1], lines()[3]]
    assert json.loads(none) == []


def test_what_was_found_is_replayed(log: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A part of a log is a log."""
    (tmp_path / "part").write_text(ask(capsys, "log", log, "--format", "jsonl", "--backend", "CUDNN_ATTN").out, "utf-8")

    assert ask(capsys, "replay", str(tmp_path / "part")).out == "3 lines: 3 unchanged, 0 changed, 0 damaged\n"


# --- how many ---


@pytest.mark.parametrize(
    ("flags", "text", "objects"),
    [
        (["backend"], "3 × CUDNN_ATTN\n1 × none\n1 × FLASH_ATTN\n", {"CUDNN_ATTN": 3, None: 1, "FLASH_ATTN": 1}),
        (["backend", "--limit", "1"], "3 × CUDNN_ATTN\n", {"CUDNN_ATTN": 3}),
        (["error", "--platform", "cpu"], "1 × refused\n", {"refused": 1}),
        (["model", "--role", "cross"], "1 × none\n1 × WanPipeline\n", {None: 1, "WanPipeline": 1}),
    ],
)
def test_decisions_are_counted(
    log: str,
    flags: list[str],
    text: str,
    objects: Mapping[str | None, int],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By any column, the most frequent first, in each of the formats."""
    wanted = [{flags[0]: value, "count": count} for value, count in objects.items()]

    assert ask(capsys, "log", log, "--count-by", *flags) == (0, text, "")
    assert json.loads(ask(capsys, "log", log, "--format", "json", "--count-by", *flags).out) == wanted
    told = ask(capsys, "log", log, "--format", "jsonl", "--count-by", *flags).out
    assert [json.loads(line) for line in told.splitlines()] == wanted


# --- which log ---


def test_the_environment_names_a_log(
    log: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where no file is."""
    monkeypatch.setenv("ATTENTION_SELECTOR_LOG", log)

    assert ask(capsys, "log", "--error", "refused").out.splitlines() == [TEXTS[2], "1 decision"]


def test_no_log_at_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Both ways to name one are told."""
    monkeypatch.delenv("ATTENTION_SELECTOR_LOG", raising=False)

    assert ask(capsys, "log") == (
        2, "", f"usage: `log`: wanted a FILE, got none, and ATTENTION_SELECTOR_LOG names none\n{HINT}",
    )  # fmt: skip


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """And named where something is told of it."""

    class Standard:
        buffer = io.BytesIO(b"".join(json.dumps(line).encode() + b"\n" for line in lines()) + b"{}\n")

    monkeypatch.setattr("sys.stdin", Standard())

    ran = ask(capsys, "log", "-", "--count-by", "role")

    assert (ran.status, ran.out) == (2, "3 × self\n2 × cross\n")
    assert ran.err.startswith("standard input:6:1: missing-key: ")


# --- what is wrong ---


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--since", "tomorrow"], f"`--since`: wanted {ZONE}, got `tomorrow`"),
        (["--until", "2026-01-31T10:00"], f"`--until`: wanted {ZONE}, got `2026-01-31T10:00`"),
        (["--since", "2026-13-01"], f"`--since`: wanted {ZONE}, got `2026-13-01`"),
        (["--since", "1y"], f"`--since`: wanted {ZONE}, got `1y`"),
        (["--since", "999999999w"], f"`--since`: wanted {ZONE}, got `999999999w`"),
        (["--until", "0001-01-01T00:00+14:00"], f"`--until`: wanted {ZONE}, got `0001-01-01T00:00+14:00`"),
        (["--since", ""], f"`--since`: wanted {ZONE}, got ``"),
        (["--limit", "0"], "`--limit`: wanted an integer of at least 1, got 0"),
        (["--error", "refusd"],
         "`--error`: wanted refused, invalid, mutually_exclusive, got `refusd`; did you mean `refused`?"),
        (["--policy", "mild"], "`--policy`: wanted fallback, strict, got `mild`"),
        (["--source", "plattform"],
         "`--source`: wanted role, category, default, platform, got `plattform`; did you mean `platform`?"),
        (["--digest", "xyz"], "`--digest`: wanted the first of 64 hexadecimal digits, got `xyz`"),
        (["--digest", "a" * 65], f"`--digest`: wanted the first of 64 hexadecimal digits, got `{'a' * 59}…`"),
        (["--bakend", "X"], "unrecognized argument `--bakend`; did you mean `--backend`?"),
    ],
)  # fmt: skip
def test_a_question_that_is_not_understood(
    log: str, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was wrong, what was expected, and the nearest name; nothing is told of the log."""
    assert ask(capsys, "log", log, *flags) == (2, "", f"usage: {message}\n{HINT}")


def test_a_value_that_the_log_has_nowhere(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is found, which is no failure; the nearest one that it has is told, or all of them."""
    near = ask(capsys, "log", log, "--backend", "CUDNN_ATN")
    far = ask(capsys, "log", log, "--platform", "zzz", "--count-by", "role")
    both = ask(capsys, "log", log, "--platform", "cpu", "--role", "cross")

    assert near[:2] == (0, "0 decisions\n")
    assert (
        near.err == f"{log}: not-there: no decision has the backend `CUDNN_ATN`\n  hint: did you mean `CUDNN_ATTN`?\n"
    )
    assert far == (0, "", f"{log}: not-there: no decision has the platform `zzz`\n  hint: there are: cpu, cuda\n")
    assert both == (0, "0 decisions\n", "")


def test_a_log_that_is_not_there(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The nearest file beside it is told."""
    near, far = log[:-1], f"{log}/../zzz"

    hint = f"  hint: did you mean `{Path(log).name}`?\n"

    assert ask(capsys, "log", near).err == (
        f"{near}: unreadable: cannot read the file: no such file or directory\n{hint}"
    )
    assert ask(capsys, "log", "/nowhere/log") == (
        2, "", "/nowhere/log: unreadable: cannot read the file: no such file or directory\n",
    )  # fmt: skip
    assert ask(capsys, "log", far).status == 2


def test_a_log_that_is_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Told as such."""
    assert ask(capsys, "log", str(tmp_path)) == (
        2, "", f"{tmp_path}: unreadable: cannot read the file: is a directory\n",
    )  # fmt: skip


def test_a_file_of_something_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of either kind."""
    (tmp_path / "log.db").write_text("no log\n" * 100, "utf-8")
    (tmp_path / "log").write_text("no log\n" * 100, "utf-8")

    sqlite, text = (ask(capsys, "log", str(tmp_path / name)) for name in ("log.db", "log"))

    assert sqlite.err == f"{tmp_path}/log.db: not-a-log: wanted a decision log, got a file that is no SQLite file\n"
    assert text.err.endswith(
        f"{tmp_path}/log: not-a-log: wanted a decision log, got a file whose first 20 lines are none of one\n"
    )
    assert sqlite.status == text.status == 2


def test_a_damaged_line_is_told_and_the_rest_is_answered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 2."""
    texts = [json.dumps(line) for line in lines()]
    (tmp_path / "log").write_text("\n".join([texts[0], texts[1][:40], texts[2]]), "utf-8")

    ran = ask(capsys, "log", str(tmp_path / "log"))

    assert (ran.status, ran.out.splitlines()) == (2, [TEXTS[0], TEXTS[2], "2 decisions"])
    assert ran.err == f"{tmp_path}/log:2:39: json-syntax: the string has no end\n"


def test_what_a_line_holds_does_not_reach_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A log that somebody made up."""
    line = lines()[0]
    line["request"] = {**line["request"], "role": "\x1b[2J", "model": "x\ny"}
    (tmp_path / "log").write_text(json.dumps(line) + "\n", "utf-8")

    told = ask(capsys, "log", str(tmp_path / "log")).out
    counted = ask(capsys, "log", str(tmp_path / "log"), "--count-by", "role").out

    assert "role \\x1b[2J, model x\\ny: " in told
    assert counted == "1 × \\x1b[2J\n"


def test_bad_input_needs_little(tmp_path: Path) -> None:
    """A file that is no log is told within a second and 150 MB."""
    (tmp_path / "log").write_bytes(b"x" * 20_000_000)

    assert_bad_input(process("log", str(tmp_path / "log")))


def test_a_log_in_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    """By a user who may only read it, after who wrote it has closed it."""
    folder = tmp_path / "folder"
    folder.mkdir()
    with log_at(folder / "log.sqlite") as made:
        made.write_lines(logged(*lines()))
    (folder / "log.sqlite").chmod(0o444)
    folder.chmod(0o555)
    for parent in list(folder.parents)[:4]:
        if os.geteuid() == 0 and parent != Path("/tmp"):  # noqa: S108 - left as it is
            parent.chmod(parent.stat().st_mode | 0o055)
    code = (
        "import locale, os, sys; from selector.command import log, main, options; from selector import sqlite_query\n"
        "if os.geteuid() == 0: os.setuid(65534)\n"
        "sys.exit(main(['log', sys.argv[1], '--count-by', 'role']))\n"
    )

    command = [sys.executable, "-c", code, str(folder / "log.sqlite")]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout, done.stderr) == (0, "3 × self\n2 × cross\n", "")


def test_a_reader_that_closes_the_pipe_ends_it_quietly(tmp_path: Path) -> None:
    """No traceback."""
    with log_at(tmp_path / "log.db") as log:
        for one in decisions(2, 3000):
            log.write(one)
    command = [sys.executable, "-m", "selector", "log", str(tmp_path / "log.db"), "--format", "jsonl"]

    assert read_a_line_of(command) == (0, b"")
