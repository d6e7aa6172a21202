"""Commands run in this process, and in one of their own that is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from selector.command import main

if TYPE_CHECKING:
    import pytest

ROOT = Path(__file__).parents[3]
MOST_SECONDS, MOST_MEGABYTES = 1.0, 150.0

# The peak of memory that a process is charged with includes what its parent held when it was started, so a small one
# starts it; what cannot end is ended.
_METER = """
import json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(process, 0)
with open(sys.argv[1], "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024], file)
"""


class Ran(NamedTuple):
    """What a command in this process wrote, and its exit status."""

    status: int
    out: str
    err: str


class Process(NamedTuple):
    """What a process wrote, its exit status, the seconds it computed, and its peak of memory."""

    status: int
    out: str
    err: str
    seconds: float
    megabytes: float


def ask(capsys: pytest.CaptureFixture[str], *arguments: str) -> Ran:
    """Run a command in this process."""
    capsys.readouterr()
    try:
        status = main(arguments)
    except SystemExit as end:  # help and version
        status = int(end.code or 0)
    out, err = capsys.readouterr()
    return Ran(status, out, err)


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Give the environment of a process that finds this tree, and nothing of whoever runs the tests."""
    return {"PATH": os.defpath, "PYTHONPATH": str(ROOT), "HOME": "/nowhere"} | dict(variables or {})


def process(
    *arguments: str | bytes, stdin: bytes = b"", variables: Mapping[str, str] | None = None, module: str = "selector"
) -> Process:
    """Run a command in a process of its own, and measure it."""
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "told.json")
        command = [sys.executable, "-I", "-S", "-c", _METER, told, sys.executable, "-m", module, *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, env=environment(variables), cwd=folder, timeout=120, check=True
        )
        status, seconds, megabytes = json.loads(told.read_text(encoding="utf-8"))
    return Process(status, done.stdout.decode(), done.stderr.decode(errors="backslashreplace"), seconds, megabytes)


def assert_bad_input(ran: Process) -> None:
    """Hold that the input was refused: status 2, a sentence, no traceback, in bounds of time and memory."""
    assert ran.status == 2, ran.err
    assert "Traceback" not in ran.err
    assert ran.err.strip()
    assert_in_bounds(ran)


def assert_in_bounds(ran: Process) -> None:
    """Hold that the process needed a second and 150 MB at most."""
    assert ran.seconds <= MOST_SECONDS
    assert ran.megabytes <= MOST_MEGABYTES


def read_a_line_of(command: Sequence[str]) -> tuple[int, bytes]:
    """Run a command, close its output after one line, and give its status and what it says on standard error."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.readline()
    running.stdout.close()
    told = running.stderr.read()
    running.stderr.close()
    return running.wait(60), told
