from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from selector.probe.process import KEPT_BYTES, Finished, run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="process groups and signals are POSIX's")


def python(source: str) -> tuple[str, ...]:
    """The command that runs this source."""
    return (sys.executable, "-c", source)


def test_a_command_gives_its_status_and_what_it_printed() -> None:
    """Both streams come back, and the command reads an empty input."""
    finished = run(
        python("import sys; print(sys.stdin.read() + 'out'); print('err', file=sys.stderr); sys.exit(3)"), 20
    )

    assert finished == Finished(3, b"out\n", b"err\n")


def test_a_crash_is_minus_the_signal() -> None:
    """The signal's number tells a crash from an exit."""
    assert run(python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"), 20).status == -signal.SIGSEGV


def test_only_the_end_of_a_long_output_is_kept() -> None:
    """A package that prints without end fills neither memory nor disk."""
    finished = run(python("print('x' * 1_000_000 + 'end')"), 20)

    assert len(finished.out) == KEPT_BYTES
    assert finished.out.endswith(b"end\n")


def test_at_the_limit_the_command_and_its_children_are_killed(tmp_path: Path) -> None:
    """What the command started ends with it, and what was printed before is kept."""
    child = tmp_path / "child"
    source = f"""
import pathlib, subprocess, sys, time
process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
pathlib.Path({str(child)!r}).write_text(str(process.pid))
print("started", flush=True)
time.sleep(60)
"""
    started = time.monotonic()

    finished = run(python(source), 3.0)

    assert finished == Finished(None, b"started\n")
    assert time.monotonic() - started < 10
    assert is_gone(int(child.read_text()))


def is_gone(pid: int) -> bool:
    """Whether the process ends within five seconds; a zombie that nobody reaps has ended."""
    for _ in range(100):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_a_child_that_keeps_the_pipes_open_does_not_hold_up_the_answer() -> None:
    """The command's own end counts, not that of what it left behind."""
    started = time.monotonic()

    finished = run(python("import subprocess; subprocess.Popen(['sleep', '30']); print('done')"), 20)

    assert finished == Finished(0, b"done\n")
    assert time.monotonic() - started < 10


def test_a_caller_can_stop_a_command() -> None:
    """`stopped` is asked while the command runs."""
    started = time.monotonic()

    finished = run(python("import time; time.sleep(60)"), 60, lambda: time.monotonic() - started > 0.2)

    assert finished.status is None
    assert time.monotonic() - started < 10


def test_a_command_that_cannot_be_started_is_an_os_error(tmp_path: Path) -> None:
    """The operating system's own error says why."""
    with pytest.raises(FileNotFoundError):
        run((str(tmp_path / "missing"),), 1)
