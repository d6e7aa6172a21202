"""How long a large table takes to be checked by `lint` and compared by `diff`, and how much memory.

``python -m benchmarks.tables [--rows N] [--seed N] [--markdown FILE]`` writes a table of N rows (2,000 by default) over
twelve facts of its own, three or four conditions to a row (values, ranges, versions), and lints it as the command line
does, in a process of its own. Then it edits the table (two rows swapped, one with another condition, one gone, one new)
and compares both.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from benchmarks.environment import heading
from selector import data

_SEED = 20_261
_TARGETS = ("CUDNN_ATTN", "FLASH_ATTN", "TORCH_SDPA")
_ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121")
_EDITS = 5
_HEAD = "| command | rows | KiB of rules | s | s computed | MiB at most | found | left open |"
# Starts the command and tells what it cost; a small process, as what its parent holds would count for the command.
_METER = """
import json, os, sys, time
start = time.perf_counter()
files = [(os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o600)]
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=files)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - start
told = [os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]
print(json.dumps(told))
"""


class Cost(NamedTuple):
    """A command's exit status, its seconds, those that it computed, and the most MiB that it held."""

    status: int
    seconds: float
    computed: float
    mebibytes: float


class Run(NamedTuple):
    """A command, what it cost, what it found, and how many questions it left open."""

    command: str
    cost: Cost
    found: str
    open: int


def main() -> int:
    """Write the table, lint it and print what that took; the status is 1 when the command was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=_SEED)
    parser.add_argument("--markdown", metavar="FILE")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name, "rules")
        folder.mkdir()
        dice = Random(options.seed)  # noqa: S311 - no secret
        written = write(folder, options.rows, dice)
        edited = Path(name, "edited")
        edit(folder, edited, dice)
        runs = [_lint(folder, Path(name, "found.json")), _diff(folder, edited, Path(name, "changes.json"))]
    lines = "".join(_line(run, options.rows, written) for run in runs)
    text = (
        f"{heading('A large table checked')}- cores: {len(os.sched_getaffinity(0))}, of which other work kept "
        f"{load:.1f} busy before\n\nA table of rows drawn at random (seed {options.seed}) over twelve facts, three or "
        f"four conditions to a row, and the\nshipped tables beside it: checked by `attention-selector lint --notes`, "
        f"then compared by `attention-selector diff`\nwith the same after {_EDITS} edits (two rows swapped, one with "
        f"another condition, one gone, one new).\n\n{_HEAD}\n{'|---' * _HEAD.count(' |')}|\n{lines}"
    )
    print(text)
    if options.markdown:
        Path(options.markdown).write_text(text, encoding="utf-8")
    return 0 if all(run.cost.status in (0, 1) for run in runs) else 1


def _line(run: Run, rows: int, written: int) -> str:
    cost = run.cost
    numbers = f"{cost.seconds:.1f} | {cost.computed:.1f} | {cost.mebibytes:.0f}"
    return f"| `{run.command}` | {rows:,} | {written / 1024:.0f} | {numbers} | {run.found} | {run.open} |\n"


def _lint(folder: Path, found: Path) -> Run:
    facts = data.folder("rules") / "machines" / "b200.yaml"
    cost = _measured(found, "lint", "--notes", "--format", "json", "--rules", str(folder), "--facts", str(facts))
    findings = json.loads(found.read_text(encoding="utf-8"))
    counts = Counter(finding["level"] for finding in findings)
    told = ", ".join(f"{counts[level]} {level}s" for level in ("error", "warning", "note"))
    return Run("lint", cost, told, sum(finding["code"] == "open-question" for finding in findings))


def _diff(old: Path, new: Path, found: Path) -> Run:
    cost = _measured(found, "diff", "--format", "json", str(old), str(new))
    told = json.loads(found.read_text(encoding="utf-8"))
    return Run("diff", cost, f"{len(told['changes'])} regions", len(told["open"]))


def _measured(found: Path, *command: str) -> Cost:
    """Run the command line in a process of its own, with what it writes in a file."""
    meter = [sys.executable, "-I", "-S", "-c", _METER, str(found), sys.executable, "-m", "selector", *command]
    done = subprocess.run(meter, stdout=subprocess.PIPE, check=True)
    return Cost(*json.loads(done.stdout))


# --- the table ----------------------------------------------------------------------------------------------------

Draw = Callable[[Random], object]


def _values(*values: object) -> Draw:
    return lambda dice: sorted(dice.sample(values, dice.randint(1, 3)), key=str)


def _range(least: int, most: int, step: int) -> Draw:
    def draw(dice: Random) -> object:
        start = dice.randrange(least, most, step)
        return {"min": start, "max": start + dice.randint(1, 12) * step}

    return draw


def _versions(majors: int) -> Draw:
    def draw(dice: Random) -> object:
        major, minor = dice.randint(0, majors), dice.randint(0, 9)
        end = dice.choice(["", "", ".post1", "rc1", "b2"])
        return dice.choice([f">={major}.{minor}{end}", f">={major}.{minor},<{major + 1}", f"=={major}.{minor}.*"])

    return draw


def _capabilities(dice: Random) -> object:
    return dice.choice([dice.sample(_ARCHS, 2), f">={dice.choice(_ARCHS)}", {"in": ["sm_10x", "sm_9x"]}])


def _flag(dice: Random) -> object:
    return dice.choice([True, False])


FACTS: Mapping[str, tuple[dict[str, object], Draw]] = {
    "site": ({"type": "string", "values": [f"s{at}" for at in range(12)]}, _values(*(f"s{at}" for at in range(12)))),
    "tier": ({"type": "string", "values": [*"abcd"]}, _values(*"abcd")),
    "tenant": ({"type": "string"}, _values(*(f"t{at}" for at in range(60)))),
    "chip": ({"type": "string", "order": "capability", "null": True}, _capabilities),
    "batch": ({"type": "integer", "order": "number", "minimum": 1}, _range(1, 64, 1)),
    "width": ({"type": "integer", "order": "number", "minimum": 1}, _range(64, 4096, 64)),
    "memory": ({"type": "integer", "order": "number", "minimum": 0}, _range(8, 192, 8)),
    "driver": ({"type": "version", "order": "pep440"}, _versions(6)),
    "runtime": ({"type": "version", "order": "pep440", "null": True}, _versions(3)),
    "shared": ({"type": "boolean"}, _flag),
    "traced": ({"type": "boolean"}, _flag),
    "precision": ({"type": "string", "values": ["bf16", "fp16", "fp8", "fp4"]}, _values("bf16", "fp16", "fp8", "fp4")),
}


def write(folder: Path, rows: int, dice: Random) -> int:
    """Write a vocabulary and a table of its own into a folder, and give their bytes."""
    facts = {name: {"group": "request", "about": "x", **entry} for name, (entry, _) in FACTS.items()}
    table = [_row(dice, at) for at in range(rows - 1)]
    table.append({"id": "last", "use": "TORCH_SDPA", "because": "It is always there."})
    files = {
        "own.vocabulary.json": {"facts": facts},
        "large.json": {"table": "large", "new": True, "targets": "backends", "rows": table},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return sum((folder / name).stat().st_size for name in files)


def edit(folder: Path, edited: Path, dice: Random) -> None:
    """Write the same rules into another folder, with a few edits."""
    edited.mkdir()
    for file in folder.iterdir():
        (edited / file.name).write_bytes(file.read_bytes())
    large = edited / "large.json"
    content = json.loads(large.read_text(encoding="utf-8"))
    rows = content["rows"]
    first, changed, gone = sorted(dice.sample(range(0, len(rows) - 1, 2), 3))
    rows[first], rows[first + 1] = rows[first + 1], rows[first]
    asked = next(iter(rows[changed]["when"]))
    rows[changed]["when"][asked] = FACTS[asked][1](dice)
    del rows[gone]
    rows.insert(dice.randrange(len(rows) - 1), {**_row(dice, 0), "id": "new"})
    large.write_text(json.dumps(content), encoding="utf-8")


def _row(dice: Random, at: int) -> dict[str, object]:
    asked = dice.sample(sorted(FACTS), dice.choice([3, 4]))
    when = {name: FACTS[name][1](dice) for name in asked}
    return {"id": f"r{at}", "when": when, "use": dice.choice(_TARGETS), "because": f"Measured for case {at}."}


if __name__ == "__main__":
    sys.exit(main())
