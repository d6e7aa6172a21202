"""How long a decision log takes to be decided again, and how much memory.

``python -m benchmarks.replay [--lines N] [--processes N] [--markdown FILE]`` writes a log of N distinct decisions
(100,000 by default), drawn over the whole space of machines, layers, calls and configs, and replays it as the command
line does, in a process of its own: with the rules it was made with, and with one row edited.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.environment import heading
from selector import data
from selector.decision import Decision
from selector.decision_log import DecisionLog
from selector.lines import Lines
from selector.ruleset import shipped
from tests.oracle.situations import situations

_SEED = 20_260
_ROW = ('cudnn: ">=9.5"', 'cudnn: ">=99.0"')
_HEAD = "| rules | exit status | s | s computed | lines/s | MiB, command | MiB, its largest process |"
# Starts the command and looks at the memory of its processes while they run.
_METER = """
import json, os, sys, threading, time
start = time.perf_counter()
nowhere = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
process = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=nowhere)
peak = {}
def watch():
    while True:
        try:
            children = open(f"/proc/{process}/task/{process}/children").read().split()
            for one in [str(process), *children]:
                lines = open(f"/proc/{one}/status").read().splitlines()
                peak[one] = max(peak.get(one, 0), *(int(line.split()[1]) for line in lines if line.startswith("VmHWM")))
        except (OSError, TypeError, ValueError):
            pass
        time.sleep(0.05)
threading.Thread(target=watch, daemon=True).start()
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - start
parent = peak.pop(str(process), 0)
told = [parent / 1024, max(peak.values(), default=0) / 1024]
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, *told]))
"""


class Run(NamedTuple):
    """One replay: its exit status, its seconds, and the most MiB that the command and one of its processes held.

    `computed` are the seconds that all its processes computed, which other work on the machine does not lengthen much.
    """

    status: int
    seconds: float
    computed: float
    parent: float
    child: float


def main() -> int:
    """Write the log, replay it, and print the table; the status is 1 when an exit status is not the one expected."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--markdown", metavar="FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text, good = _measured(Path(folder), options.lines, options.processes)
    print(text)
    if options.markdown:
        Path(options.markdown).write_text(text, encoding="utf-8")
    return 0 if good else 1


def _measured(folder: Path, lines: int, processes: int) -> tuple[str, bool]:
    log, load = folder / "log.jsonl", os.getloadavg()[0]
    start = time.perf_counter()
    _write(log, lines)
    written = time.perf_counter() - start
    edited = _edited(folder / "rules")
    runs = {
        "the same rules": _run(log, processes),
        f"`{_ROW[0]}` made `{_ROW[1]}` in a row of `platform_default`": _run(log, processes, "--rules", str(edited)),
    }
    table = "\n".join(_row(name, run, lines) for name, run in runs.items())
    text = (
        f"{heading('A decision log replayed')}- cores: {len(os.sched_getaffinity(0))}, of which other "
        f"work kept {load:.1f} busy before\n\n"
        f"{lines:,} distinct lines, {log.stat().st_size / lines:,.0f} bytes each, replayed by {processes} processes. "
        f"To decide and log\nthem took {written:.1f} s in one process.\n\n"
        f"{_HEAD}\n{'|---' * _HEAD.count(' |')}|\n{table}\n"
    )
    return text, [run.status for run in runs.values()] == [0, 1]


def _row(name: str, run: Run, lines: int) -> str:
    numbers = (
        f"{run.seconds:.1f} | {run.computed:.1f} | {lines / run.seconds:,.0f} | {run.parent:.0f} | {run.child:.0f}"
    )
    return f"| {name} | {run.status} | {numbers} |"


def _write(log: Path, lines: int) -> None:
    with DecisionLog(log) as written:
        for decision, _ in zip(_decisions(), range(lines), strict=False):
            written.write(decision)


def _decisions() -> Iterator[Decision]:
    """Give decisions without end, none of them twice."""
    answers = Lines(shipped())
    seen: set[bytes] = set()
    for line in situations(_SEED, sys.maxsize):
        decision = answers.decide(line)
        content = hashlib.blake2b(repr(decision.inputs).encode(), digest_size=16).digest()
        if decision.inputs is not None and content not in seen:
            seen.add(content)
            yield decision


def _edited(folder: Path) -> Path:
    folder.mkdir()
    text = (data.folder("rules") / "platform_default.yaml").read_text(encoding="utf-8")
    (folder / "platform_default.yaml").write_text(text.replace(*_ROW), encoding="utf-8")
    return folder


def _run(log: Path, processes: int, *options: str) -> Run:
    command = [sys.executable, "-m", "selector", "replay", str(log), "--processes", str(processes), *options]
    done = subprocess.run([sys.executable, "-S", "-c", _METER, *command], capture_output=True, text=True, check=True)
    return Run(*json.loads(done.stdout))


if __name__ == "__main__":
    sys.exit(main())
