from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from selector.probe import read_machine
from selector.probe.deep import Trial, import_all
from selector.probe.process import Finished, never
from tests.selector.probe.machines import NO_TORCH, Entry, Machine, with_modules

ROOT = Path(__file__).parents[3]
SECONDS = 30.0
SOURCES = {
    "fine": "kernel = 1",
    "asserting": "raise AssertionError('Torch not compiled with CUDA enabled')",
    "unlinked": "raise OSError('libcudart.so.13: cannot open shared object file\\n  see the manual')",
    "leaving": "import sys; sys.exit('bye')",
    "exiting": "import os, sys; print('about to go', file=sys.stderr, flush=True); os._exit(3)",
    "crashing": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "printing": "import os\nprint('{\"not\": \"yours\"}')\nos.write(1, b'\\xff\\xfe\\n')\nkernel = 1",
    "without": "other = 1",
    "wild": "raise RuntimeError('\\x1b[31m' + 'x' * 1000)",
    "threaded": "import threading, time; threading.Thread(target=time.sleep, args=(60,)).start(); kernel = 1",
}
REASONS = {
    "asserting": "AssertionError: Torch not compiled with CUDA enabled",
    "unlinked": "OSError: libcudart.so.13: cannot open shared object file see the manual",
    "leaving": "SystemExit: bye",
    "exiting": "ended the process with exit status 3 (last line: about to go)",
    "crashing": "crashed with SIGSEGV",
    "without": "AttributeError: module 'without' has no attribute 'kernel'",
    "wild": "RuntimeError: [31m" + "x" * 281 + "…",
}


def entry(name: str, *symbols: str) -> Entry:
    """A package of one distribution and one module, all of this name."""
    return Entry(name, (name,), (name,), symbols or (f"{name}:kernel",))


def test_each_package_is_really_imported_and_says_why_it_is_of_no_use(tmp_path: Path) -> None:
    """A failing package is absent for the rules, its reason names the version, and the others are not harmed."""
    system = with_modules(tmp_path, SOURCES)
    (tmp_path / "torch.py").write_text(NO_TORCH)

    facts = read_machine([entry(name) for name in SOURCES], deep=True, timeout=SECONDS, system=system)

    assert facts["unusable"] == {
        name: f"1.0 is installed and cannot be used: {name}:kernel: {reason}" for name, reason in REASONS.items()
    }
    assert facts["packages"] == {name: None if name in REASONS else "1.0" for name in SOURCES}
    order = ["platform", "driver", "torch", "cudnn", "packages", "devices", "unusable", "notes"]
    assert list(facts) == [name for name in order if name in facts]
    assert {"platform", "torch", "packages", "devices"} <= set(facts)


def test_a_package_that_closes_the_way_to_answer_is_of_no_use(tmp_path: Path) -> None:
    """No answer is never taken for a good one; which exit status the interpreter then gives is its own matter."""
    system = with_modules(tmp_path, {"closing": "import os; os.closerange(0, 64); kernel = 1"})

    trial = import_all(system, {"closing": ("closing:kernel",)}, SECONDS).trials["closing"]

    assert trial.failure is not None
    assert trial.failure.startswith("closing:kernel: ended the process with exit status ")


def test_a_package_that_hangs_is_ended_with_everything_it_started(tmp_path: Path) -> None:
    """The limit holds for the whole process group, and the others still answer."""
    beat = tmp_path / "beat"
    started = (
        f"import pathlib, time\nwhile True: pathlib.Path({str(beat)!r}).write_text(str(time.time())); time.sleep(0.1)"
    )
    hanging = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {started!r}]); time.sleep(60)"
    system = with_modules(tmp_path, {"hanging": hanging, "fine": "kernel = 1"})
    (tmp_path / "torch.py").write_text(NO_TORCH)
    begun = time.monotonic()

    facts = read_machine([entry("hanging"), entry("fine")], deep=True, timeout=3.0, system=system)

    assert facts["unusable"] == {"hanging": "1.0 is installed and cannot be used: hanging:kernel: no answer within 3 s"}
    assert facts["packages"] == {"hanging": None, "fine": "1.0"}
    assert time.monotonic() - begun < 15
    last = beat.read_text()
    time.sleep(0.4)
    assert beat.read_text() == last


def test_the_first_symbol_that_works_counts_even_after_one_that_ends_the_process(tmp_path: Path) -> None:
    """The symbols after a crash are tried in a new process."""
    system = with_modules(tmp_path, SOURCES)
    symbols = ("absent_module:kernel", "crashing:kernel", "without:kernel", "fine:kernel", "exiting:kernel")

    report = import_all(system, {"some": symbols, "none": symbols[:3], "nothing": ()}, SECONDS)

    assert report.trials == {
        "some": Trial(),
        "none": Trial(
            failure="absent_module:kernel: ModuleNotFoundError: No module named 'absent_module'; "
            "crashing:kernel: crashed with SIGSEGV; "
            "without:kernel: AttributeError: module 'without' has no attribute 'kernel'"
        ),
        "nothing": Trial(),
    }


def test_an_entry_without_symbols_has_its_modules_imported(tmp_path: Path) -> None:
    """A module that imports is enough then."""
    system = with_modules(tmp_path, {"fine": "", "asserting": "raise AssertionError"})
    entries = [Entry("a", ("fine",), ("fine",)), Entry("b", ("asserting",), ("asserting",)), Entry("c", ("fine",))]

    facts = read_machine(entries, deep=True, timeout=SECONDS, system=system)

    assert facts["packages"] == {"a": "1.0", "b": None, "c": "1.0"}


def test_packages_that_are_absent_are_not_imported(tmp_path: Path) -> None:
    """A module of the name alone does not make a package present."""
    marker = tmp_path / "imported"
    system = with_modules(tmp_path, {"loose": f"open({str(marker)!r}, 'w').close(); kernel = 1"})

    facts = read_machine([entry("loose")], deep=True, system=replace(system, version=lambda _: None))

    assert facts["packages"] == {"loose": None}
    assert "unusable" not in facts
    assert not marker.exists()


def test_where_no_subprocess_can_be_started_nothing_is_called_unusable(tmp_path: Path) -> None:
    """What could not be tried keeps the version that its metadata says."""
    system = with_modules(tmp_path, {"fine": "kernel = 1"})

    facts = read_machine([entry("fine")], deep=True, system=replace(system, python=lambda: str(tmp_path / "missing")))

    assert facts["packages"] == {"fine": "1.0"}
    assert "unusable" not in facts
    notes = facts["notes"]
    assert isinstance(notes, list)
    assert notes[0] == "package fine was not imported: the subprocess cannot be started: No such file or directory"
    assert notes[-1] == "torch was not imported: the subprocess cannot be started: No such file or directory"


class Counting:
    """Runs nothing, and counts how many commands there are at once."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.now = self.most = 0

    def run(self, _command: Sequence[str], _timeout: float, _stopped: Callable[[], bool] = never, /) -> Finished:
        """Stand in for the real one: a moment's work that ends by a signal without a name."""
        with self.lock:
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(0.05)
        with self.lock:
            self.now -= 1
        return Finished(-200)


def test_no_more_than_two_subprocesses_run_at_once() -> None:
    """And one that ends by a signal without a name is told by its number."""
    counting = Counting()
    symbols = {str(number): ("a:b",) for number in range(6)}

    report = import_all(replace(Machine().system(), run=counting.run), symbols, SECONDS)

    assert counting.most == 2
    assert report.trials == {key: Trial(failure="a:b: crashed with signal 200") for key in symbols}
    assert report.torch == {"failure": "crashed with signal 200"}


def test_an_answer_that_is_cut_off_is_none() -> None:
    """Whatever else stands on the child's channel ends what is believed of it."""
    cut = Finished(1, b"null-and-void\nnull\n", b"")

    report = import_all(replace(Machine().system(), run=lambda *_: cut), {"some": ("a:b",)}, SECONDS)

    assert report.trials == {"some": Trial(failure="a:b: ended the process with exit status 1")}
    assert report.torch == {"failure": "ended the process with exit status 1"}


def test_an_error_of_the_probe_itself_stops_what_runs() -> None:
    """Nothing is left running behind an error that is raised."""
    stopped_by_error = threading.Event()

    def run(command: Sequence[str], _timeout: float, stopped: Callable[[], bool] = never, /) -> Finished:
        if "torch" in command[-1]:
            raise RuntimeError("a fault")
        while not stopped():
            time.sleep(0.01)
        stopped_by_error.set()
        return Finished(None)

    with pytest.raises(RuntimeError, match="a fault"):
        import_all(replace(Machine().system(), run=run), {"some": ("a:b",), "other": ("a:b",)}, SECONDS)

    assert stopped_by_error.is_set()


def test_an_interrupt_ends_the_subprocesses_and_is_raised(tmp_path: Path) -> None:
    """Ctrl-C does not wait for the limit."""
    source = f"""
import signal
import sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs in the background is told to ignore it
sys.path.insert(0, {str(ROOT)!r})
from dataclasses import replace
from selector.probe import THIS_SYSTEM, read_machine
class Entry:
    key, distributions, modules, symbols = "hanging", ("hanging",), (), ("hanging:kernel",)
system = replace(THIS_SYSTEM, version=lambda name: "1.0", search_path=lambda: ({str(tmp_path)!r}, *sys.path))
read_machine([Entry()], deep=True, timeout=60, system=system)
"""
    begun = tmp_path / "begun"
    (tmp_path / "hanging.py").write_text(f"open({str(begun)!r}, 'w').close()\nimport time; time.sleep(60)")
    (tmp_path / "torch.py").write_text("import time; time.sleep(60)")
    process = subprocess.Popen((sys.executable, "-c", source), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    started = time.monotonic()
    while not begun.exists() and time.monotonic() - started < 20:
        time.sleep(0.05)

    os.kill(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=10)

    assert err.splitlines()[-1] == b"KeyboardInterrupt"
