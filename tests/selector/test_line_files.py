"""Rotation of logs of JSON lines: no line is lost, doubled or torn, whoever writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from selector.decision_log import DecisionLog
from selector.line_files import LineFile
from selector.log_query import Query, asked
from selector.logged import LineError, read_line
from tests.selector.command.runs import ask, environment
from tests.selector.conftest import CPU, decide
from tests.selector.logged_lines import decisions, logged, read, write

WRITING = """
import json, os, sys
from selector.decision_log import DecisionLog
from selector.log_lines import LogLine
write = lambda **line: log.write_lines([LogLine('', json.dumps(line), ())])
path, who, count, most, kept = sys.argv[1:]
log = DecisionLog(path, most_bytes=int(most), kept=int(kept))
for number in range(int(count)):
    write(line=f'{who}-{number}', x='x' * 80)
sys.exit(log.dropped)
"""


def run(
    path: Path, who: str, count: int, most: int = 4096, kept: int = 1000, code: str = WRITING
) -> subprocess.Popen[bytes]:
    """Start a process that writes lines of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", code, str(path), who, str(count), str(most), str(kept)], env=environment()
    )


def parts(path: Path) -> list[Path]:
    """Give the files of a log, the oldest first."""
    older = sorted(path.parent.glob(f"{path.name}.*"), key=lambda one: int(one.suffix[1:]), reverse=True)
    return [*older, path]


def names(path: Path) -> list[str]:
    """Give who wrote each line, and its number, through all files."""
    return [json.loads(line)["line"] for part in parts(path) for line in part.read_text("utf-8").splitlines()]


def filled(path: Path, count: int, **bounds: int) -> DecisionLog:
    """Give a log to which numbered lines were written."""
    with DecisionLog(path, **bounds) as log:
        for number in range(count):
            log.write_lines(logged({"line": str(number)}))
    return log


# --- by one ---


def test_a_file_is_put_aside_before_it_grows_too_large(tmp_path: Path) -> None:
    """The newest lines are in the file itself, older ones in the files with higher numbers."""
    path = tmp_path / "log"
    size = len('{"line": "0"}\n')

    log = filled(path, 8, most_bytes=3 * size)

    assert (log.dropped, log.last_error) == (0, None)
    assert [part.name for part in parts(path)] == ["log.2", "log.1", "log"]
    assert [part.read_text("utf-8").count("\n") for part in parts(path)] == [3, 3, 2]
    assert names(path) == list("01234567")


def test_so_many_files_are_kept(tmp_path: Path) -> None:
    """The oldest goes."""
    filled(tmp_path / "log", 10, most_bytes=1, kept=2)

    assert [part.name for part in parts(tmp_path / "log")] == ["log.2", "log.1", "log"]
    assert names(tmp_path / "log") == ["7", "8", "9"]


def test_nothing_is_put_aside_unless_it_is_asked_for(tmp_path: Path) -> None:
    """However large the file is."""
    filled(tmp_path / "log", 10_000)

    assert [part.name for part in parts(tmp_path / "log")] == ["log"]


def test_a_line_that_is_larger_than_a_file_may_be_has_one_to_itself(tmp_path: Path) -> None:
    """It is written whole."""
    made = decide(CPU)
    with DecisionLog(tmp_path / "log", most_bytes=10, kept=3) as log:
        log.write(made)
        log.write(made)

    assert log.dropped == 0
    assert [read_line(read(part)[0], "log").digest for part in parts(tmp_path / "log")] == [made.digest] * 2


def test_a_log_that_is_larger_already_is_put_aside_first(tmp_path: Path) -> None:
    """As where it was not bounded before."""
    path = write(tmp_path / "log", decisions(1, 20))
    before = path.read_bytes()

    filled(path, 1, most_bytes=1000)

    assert (tmp_path / "log.1").read_bytes() == before
    assert path.read_text("utf-8") == '{"line": "0"}\n'


def test_a_number_that_is_free_is_filled(tmp_path: Path) -> None:
    """As after a process that was killed between two steps; no file goes that need not."""
    for name in ("log.1", "log.3"):
        (tmp_path / name).write_text(f'{{"line": "{name}"}}\n', "utf-8")

    filled(tmp_path / "log", 2, most_bytes=1, kept=3)

    assert names(tmp_path / "log") == ["log.3", "log.1", "0", "1"]


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """Whoever left it, and whenever."""
    path = tmp_path / "log"
    with DecisionLog(path, most_bytes=10_000) as log:
        log.write_lines(logged({"line": "0"}))
        with path.open("ab") as other:
            other.write(b'{"li')
        log.write_lines(logged({"line": "1"}))

    assert path.read_text("utf-8") == '{"line": "0"}\n{"li\n{"line": "1"}\n'


def test_a_file_that_is_gone_is_made_again(tmp_path: Path) -> None:
    """Somebody else put it aside, or threw it away."""
    path = tmp_path / "log"
    with DecisionLog(path, most_bytes=1000) as log:
        log.write_lines(logged({"line": "0"}))
        path.rename(tmp_path / "log.1")
        log.write_lines(logged({"line": "1"}))

    assert names(path) == ["0", "1"]


def test_a_file_that_cannot_be_put_aside_is_written_on(tmp_path: Path) -> None:
    """No line is lost, and the reason is kept."""
    path = tmp_path / "log"
    (tmp_path / "log.1").mkdir()

    log = filled(path, 3, most_bytes=1, kept=1)

    assert log.dropped == 0
    assert isinstance(log.last_error, IsADirectoryError)
    assert path.read_text("utf-8").count("\n") == 3


def test_a_disk_that_is_full_breaks_nothing(tmp_path: Path) -> None:
    """What is lost is counted; a line is whole or is on a line of its own."""
    # Only when all is imported: Python would leave cached modules cut off at the limit, too.
    code = WRITING.replace(
        "for number", "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\nfor number"
    )
    path = tmp_path / "log"

    lost = run(path, "a", 30, most=100_000, code=code).wait(60)

    good = [line for line in path.read_bytes().splitlines() if line.endswith(b"}")]
    assert lost == 30 - len(good)
    assert len(good) == 9
    assert filled(path, 1, most_bytes=100_000).dropped == 0
    assert path.read_bytes().splitlines()[-1] == b'{"line": "0"}'


@pytest.mark.parametrize("cut", range(61))
def test_lines_that_are_cut_off_are_counted_and_cost_no_other_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cut: int
) -> None:
    """Those that are whole are there, and the next ones begin anew, wherever the file system stopped."""
    path = tmp_path / "log"
    path.write_bytes(b'{"torn')
    write = os.write
    with DecisionLog(path) as log:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", lambda file, data: write(file, data[:cut]))
            log.write_lines(logged(*({"line": str(number)} for number in range(4))))
        log.write_lines(logged({"line": "4"}, {"line": "5"}))

    found = path.read_text("utf-8").splitlines()
    whole = min(cut // len('{"line": "0"}\n'), 4)  # after the end of the torn one
    assert [line for line in found if line.endswith("}")] == [
        f'{{"line": "{number}"}}' for number in [*range(whole), 4, 5]
    ]
    assert log.dropped == 4 - whole
    assert str(log.last_error) == (f"[Errno 5] wrote {cut} of 57 bytes" if cut < 57 else "None")


def test_a_closed_log_drops(tmp_path: Path) -> None:
    """Of either kind; closing twice is no error."""
    log = filled(tmp_path / "log", 1, most_bytes=100)
    log.close()
    log.write_lines(logged({}))

    file = LineFile(tmp_path / "other")
    file.close()

    with pytest.raises(OSError, match="the log is closed"):
        file.append(b"")
    assert (log.dropped, str(log.last_error)) == (1, "[Errno 9] the log is closed")


@pytest.mark.parametrize(("name", "got"), [("most_bytes", 0), ("kept", -1)])
def test_bounds_that_leave_nothing(tmp_path: Path, name: str, got: int) -> None:
    """Told by their name."""
    with pytest.raises(ValueError, match=f"`{name}`: wanted an integer of at least 1, got {got}"):
        filled(tmp_path / "log", 1, **{name: got})


# --- by several ---


def test_processes_lose_double_and_tear_no_line(tmp_path: Path) -> None:
    """Four of them, hundreds of rotations: every line is there once, each process's in its order, no file too large."""
    path = tmp_path / "log"

    running = [run(path, str(who), 2000, most=16_384, kept=1000) for who in range(4)]

    assert [process.wait(120) for process in running] == [0] * 4
    found = names(path)
    assert len(parts(path)) > 40
    assert max(part.stat().st_size for part in parts(path)) <= 16_384
    for who in "0123":
        assert [name for name in found if name.startswith(who)] == [f"{who}-{number}" for number in range(2000)]


def test_parent_and_child_rotate_the_same_file(tmp_path: Path) -> None:
    """A lock that both inherited would hold neither of them back."""
    code = WRITING.replace("for number", "write(line='first')\nchild = os.fork()\nfor number").replace(
        "{who}-", "{child > 0}-"
    )
    code = code.replace("sys.exit(log.dropped)", "if not child: os._exit(log.dropped)\n") + (
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or log.dropped)\n"
    )

    assert run(tmp_path / "log", "", 3000, code=code).wait(60) == 0

    counted = Counter(names(tmp_path / "log"))
    assert len(counted) == 6001
    assert set(counted.values()) == {1}


def test_processes_that_are_killed_hold_nobody_up(tmp_path: Path) -> None:
    """Their lock goes with them, and what they wrote is whole."""
    path = tmp_path / "log"
    killed = [run(path, f"k{who}", 10_000_000, most=2000, kept=1000) for who in range(2)]
    while len(parts(path)) < 5 and [process.poll() for process in killed] == [None, None]:
        time.sleep(0.01)
    for process in killed:
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL

    assert run(path, "after", 200, most=2000, kept=1000).wait(60) == 0

    found = names(path)
    assert [name for name in found if name.startswith("after")] == [f"after-{number}" for number in range(200)]
    for who in ("k0", "k1"):
        numbers = [int(name.split("-")[1]) for name in found if name.startswith(who)]
        assert numbers == list(range(len(numbers)))


# --- read ---


def test_a_question_is_answered_from_all_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The oldest first, whatever number is free; damage is told with the name of its file."""
    made = decide(CPU)
    path = tmp_path / "log"
    with DecisionLog(path, most_bytes=2000, kept=20) as log:
        for _ in range(25):
            log.write(made)
    (tmp_path / "log.3").unlink()
    (tmp_path / "log.4").write_bytes(b"{}\n")
    (tmp_path / "log.old").write_bytes(b"something else")

    ran = ask(capsys, "log", str(path), "--format", "jsonl")

    times = [json.loads(line)["at"] for line in ran.out.splitlines()]
    assert times == sorted(times)
    assert len(times) == 25 - 4
    assert ran.status == 2
    assert all(line.startswith(f"{path}.4:1:1: missing-key") for line in ran.err.splitlines())


def test_who_reads_while_files_are_put_aside_misses_and_doubles_no_line(tmp_path: Path) -> None:
    """Each reading is of some first lines, all of them."""
    path = tmp_path / "log"
    code = WRITING.replace("x='x' * 80", "x='x' * 80, request={}, decision={}, facts={}")
    running = run(path, "a", 3000, most=16_000, kept=1000, code=code)

    def refuse(error: LineError) -> None:
        raise error

    begun = False
    while running.poll() is None:
        if begun := begun or path.exists():
            with asked(str(path), refuse) as log:
                found = [json.loads(text)["line"] for text in log.found(Query(), None)]
            assert found == [f"a-{number}" for number in range(len(found))]

    assert running.returncode == 0
    assert len(names(path)) == 3000
    assert os.path.getsize(path) <= 16_000  # noqa: PTH202 - in one word
