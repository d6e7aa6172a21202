from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from selector import Selector
from selector.alike import Decided
from selector.closing import Closing
from selector.decision import Decision
from selector.decision_log import DecisionLog
from selector.lines import Lines
from selector.log_lines import LogLine
from selector.logged import read_line
from selector.queued_log import QueuedLog
from selector.ruleset import shipped
from selector.sqlite_log import SqliteLog
from tests.selector.command.runs import environment
from tests.selector.conftest import CPU, decide
from tests.selector.logged_lines import decisions, logged, read, value
from tests.selector.test_sqlite_log import rows


class Slow(Closing):
    """A log that writes when it is let."""

    def __init__(self) -> None:
        self.let = threading.Event()
        self.begun = threading.Event()
        self.closed = threading.Event()
        self.lines: list[LogLine] = []
        self.dropped = 0
        self.last_error: Exception | None = None

    def write(self, decision: Decision) -> None:
        """Take nothing this way."""
        raise AssertionError

    def write_lines(self, lines: Iterable[LogLine]) -> None:
        """Wait, then take them."""
        self.begun.set()
        self.let.wait(30)
        self.lines += lines

    def close(self) -> None:
        """Say so."""
        self.closed.set()


class Broken(Slow):
    """A log that breaks its word and raises."""

    def write_lines(self, lines: Iterable[LogLine]) -> None:
        """Raise."""
        list(lines)
        raise RuntimeError("broken")

    def close(self) -> None:
        """Raise again."""
        raise RuntimeError("broken too")


def wait_for(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds."""
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- what is written ---


@pytest.mark.parametrize("kind", [SqliteLog, DecisionLog])
def test_what_is_handed_over_is_written_in_its_order(tmp_path: Path, kind: type[SqliteLog | DecisionLog]) -> None:
    """All of it, by the time that the log is closed."""
    made = list(decisions(5, 1500))
    path = tmp_path / "log"

    with QueuedLog(kind(path)) as log:
        for one in made:
            log.write(one)

    lines = [row["line"] for row in rows(path)] if kind is SqliteLog else path.read_text("utf-8").splitlines()
    assert (log.dropped, log.queued, log.last_error) == (0, 0, None)
    assert [json.loads(line)["decision"]["backend"] for line in lines] == [one.backend for one in made]


def test_a_line_is_written_within_a_second(tmp_path: Path) -> None:
    """While nothing else comes, and with the time at which it was decided."""
    log = QueuedLog(DecisionLog(tmp_path / "log"))
    log.write(decide(CPU))
    handed = time.time()

    wait_for(lambda: bool(read(tmp_path / "log")))

    assert time.time() - handed < 2
    assert log.queued == 0
    log.close()


def test_many_threads_hand_over_and_none_is_lost(tmp_path: Path) -> None:
    """Eight threads, each slow enough for the queue."""
    made = decide(CPU)
    log = QueuedLog(DecisionLog(tmp_path / "log"), most=100_000)

    def work() -> None:
        for _ in range(500):
            log.write(made)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (log.close(), log.dropped) == (0, 0)
    assert len(read(tmp_path / "log")) == 4000


def test_decisions_of_one_time_are_handed_over_together(tmp_path: Path) -> None:
    """Those that can be made again, in their order, as far as there is room."""
    made = [decide(CPU, {"head_dim": size}) for size in range(1, 9)]
    log = QueuedLog(DecisionLog(tmp_path / "log"), 5)

    log.write_all([])
    assert log._thread is None
    log.write_all([Decided(one) for one in (made[0], decide(CPU, {"head_dim": "x"}), *made[1:3])])
    log.write_all(map(Decided, made[3:]))

    assert (log.dropped, log.close(), log.dropped) == (3, 0, 3)
    found = [json.loads(line.raw or b"") for line in read(tmp_path / "log")]
    assert [line["request"]["facts"]["head_dim"] for line in found] == [1, 2, 3, 4, 5]
    assert len({line["at"] for line in found}) == 2
    log.write_all(map(Decided, made))
    assert log.dropped == 11


def test_a_decision_without_inputs_has_no_line(tmp_path: Path) -> None:
    """And no thread is begun for it."""
    log = QueuedLog(DecisionLog(tmp_path / "log"))

    log.write(decide(CPU, {"head_dim": "x"}))

    assert (log.queued, log.close(), log.dropped) == (0, 0, 0)
    assert read(tmp_path / "log") == []


def test_a_selector_writes_through_it(tmp_path: Path) -> None:
    """As to any other log."""
    with QueuedLog(SqliteLog(tmp_path / "log.sqlite")) as log:
        Selector(facts=CPU, log=log).decide("self", head_dim=128)

    assert [row["backend"] for row in rows(tmp_path / "log.sqlite")] == ["TORCH_SDPA"]


def test_lines_that_were_made_already_are_written_at_once(tmp_path: Path) -> None:
    """By who brings them."""
    log = QueuedLog(DecisionLog(tmp_path / "log"))

    log.write_lines(logged({"at": "now"}))

    assert value(tmp_path / "log") == {"at": "now"}
    log.close()


# --- no facts beyond those declared ---

PRIVATE = "a-word-of-ours"


@pytest.mark.parametrize(
    ("facts", "request_facts"),
    [
        ({**CPU, "notes": PRIVATE}, {"head_dim": 128}),
        ({"notes": PRIVATE, "devices": [{"name": PRIVATE, **CPU}]}, {"head_dim": 128}),
        ({"platform": "cuda", "devices": [{"name": PRIVATE, "arch": "sm_90", "memory": PRIVATE}]}, {"head_dim": 128}),
        ({**CPU, "hostname": PRIVATE}, {"head_dim": 128}),
        ({**CPU, "packages": {PRIVATE: "1.0"}}, {"head_dim": 128}),
        (CPU, {"head_dim": 128, "prompt": PRIVATE}),
        (CPU, {"head_dim": 128, "call": {"mask": "none", "prompt": PRIVATE}}),
    ],
)
def test_lines_hold_facts_that_are_declared_and_nothing_else(
    tmp_path: Path, facts: Mapping[str, Any], request_facts: Mapping[str, Any]
) -> None:
    """Notes, names of devices and what nobody declared are not written, whether they are accepted or refused."""
    with QueuedLog(DecisionLog(tmp_path / "log")) as log:
        log.write(Lines(shipped()).decide({"facts": facts, "request": request_facts}))

    text = (tmp_path / "log").read_text("utf-8")
    assert PRIVATE not in text
    for line in text.splitlines():
        told = json.loads(line)
        named = {*told["facts"], *told["request"]["facts"], *(told["request"]["call"] or {})}
        assert named <= {*shipped().vocabulary.facts}


# --- what is lost ---


def test_a_full_queue_drops_and_waits_for_nobody() -> None:
    """What found it full is counted; the caller goes on at once."""
    slow = Slow()
    log = QueuedLog(slow, most=10)
    made = decide(CPU)
    log.write(made)
    slow.begun.wait(20)

    before = time.monotonic()
    for _ in range(25):
        log.write(made)
    took = time.monotonic() - before

    assert took < 0.5
    assert (log.dropped, log.queued) == (15, 11)
    slow.let.set()
    assert log.close() == 0
    assert len(slow.lines) == 11


def test_closing_says_what_is_left() -> None:
    """Within its time; a log that answers later has what the thread held, and is closed."""
    slow = Slow()
    log = QueuedLog(slow)
    made = decide(CPU)
    log.write(made)
    slow.begun.wait(20)
    for _ in range(4):
        log.write(made)

    left = log.close(timeout=0.1)

    assert (left, log.dropped) == (5, 4)
    assert not slow.closed.is_set()
    slow.let.set()
    assert slow.closed.wait(20)
    wait_for(lambda: log.queued == 0)
    assert len(slow.lines) == 1


def test_what_comes_after_closing_is_dropped(tmp_path: Path) -> None:
    """It is no error to close it twice."""
    log = QueuedLog(DecisionLog(tmp_path / "log"))
    log.write(decide(CPU))
    assert (log.close(), log.close()) == (0, 0)

    log.write(decide(CPU))

    assert (log.dropped, len(read(tmp_path / "log"))) == (1, 1)


def test_what_the_log_cannot_write_is_counted() -> None:
    """A disk that is full."""
    with QueuedLog(DecisionLog("/dev/full")) as log:
        log.write(decide(CPU))

    assert log.dropped == 1
    assert "No space left" in str(log.last_error)


def test_a_log_that_raises_breaks_nothing() -> None:
    """Its lines are counted, and the thread goes on."""
    log = QueuedLog(Broken(), flush=0.01)
    for _ in range(3):
        log.write(decide(CPU))
        wait_for(lambda: log.queued == 0)

    assert (log.close(), log.dropped) == (0, 3)
    assert str(log.last_error) == "broken too"


def test_a_decision_that_cannot_be_a_line_costs_no_other_its_own(tmp_path: Path) -> None:
    """It is counted, and the reason is kept."""

    class Odd:
        inputs = 5

    with QueuedLog(DecisionLog(tmp_path / "log")) as log:
        log.write(Odd())  # type: ignore[arg-type]
        log.write(decide(CPU))

    assert log.dropped == 1
    assert isinstance(log.last_error, AttributeError)
    assert [read_line(line, "log").digest for line in read(tmp_path / "log")] == [shipped().digest]


def test_a_queue_that_holds_nothing() -> None:
    """Told by its name."""
    with pytest.raises(ValueError, match="`most`: wanted an integer of at least 1, got 0"):
        QueuedLog(Slow(), most=0)


# --- processes ---


def test_a_process_that_ends_without_closing_loses_nothing(tmp_path: Path) -> None:
    """The thread is waited for."""
    code = (
        "import sys; from selector import Selector; from selector.sqlite_log import SqliteLog\n"
        "from selector.queued_log import QueuedLog\n"
        "log = QueuedLog(SqliteLog(sys.argv[1])); ask = Selector(facts={'platform': 'cpu'}).decide\n"
        "for _ in range(50): log.write(ask('self', head_dim=128))\n"
    )

    subprocess.run([sys.executable, "-c", code, tmp_path / "log"], env=environment(), check=True, timeout=60)

    assert len(rows(tmp_path / "log")) == 50


@pytest.mark.parametrize("kind", ["sqlite_log.SqliteLog", "decision_log.DecisionLog"])
def test_a_child_writes_its_own_and_the_parent_its_own(tmp_path: Path, kind: str) -> None:
    """What is queued when a process forks is written once."""
    module, name = kind.split(".")
    code = (
        f"import os, sys; from selector import Selector; from selector.{module} import {name}\n"
        "from selector.queued_log import QueuedLog\n"
        f"log = QueuedLog({name}(sys.argv[1])); ask = Selector(facts={{'platform': 'cpu'}}).decide\n"
        "for _ in range(700): log.write(ask('self', head_dim=128))\n"
        "child = os.fork()\n"
        "for _ in range(60): log.write(ask('cross' if child else 'temporal', head_dim=64))\n"
        "left = log.close()\n"
        "if not child: os._exit(left + log.dropped)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or left + log.dropped)\n"
    )
    path = tmp_path / "log"

    subprocess.run([sys.executable, "-c", code, path], env=environment(), check=True, timeout=60)

    lines = [row["line"] for row in rows(path)] if "sqlite" in kind else path.read_text("utf-8").splitlines()
    roles = [json.loads(line)["request"]["role"] for line in lines]
    assert {role: roles.count(role) for role in set(roles)} == {"self": 700, "cross": 60, "temporal": 60}
