"""What starting costs: importing, short commands, loading rules, and a hundred thousand lines.

``python -m benchmarks.start [--quick] [--json FILE] [--compare [FILE]] [--markdown FILE]``. Processes run in turn, with
a cache of their own that holds the shipped rules, and are measured by the processor time that they take: it says the
same beside other work. 10,000 rows (three conditions to a row, in two files) are loaded in processes of their own. The
lines are those of the conformance cases with architectures, cuDNN and package versions drawn at random; no two ask the
same.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.figures import Figure, figure, main

ROOT = Path(__file__).parent.parent
ROWS = 10_000
LINES = 100_000
_SEED = 20_262
_MACHINE = ROOT / "rules" / "machines" / "b200.yaml"
_VALUES: Mapping[str, tuple[object, ...]] = {
    "arch": ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_120", "sm_121"),
    "cudnn": (8907, 90100, 90500, 91002, 91900, None),
}
_VERSIONS = ("0.5.0", "0.6.16rc1", "0.6.18", "1.0.6", "2.2.0", "2.8.3", "4.0.0b17", "4.0.0b18", None, "unknown")
_LOAD = """
import sys, time
from selector import load_rules
start = time.process_time()
rules = load_rules(sys.argv[1:])
print(len(rules.table("platform_default").rows), time.process_time() - start)
"""
# Starts a command and tells what it cost; a small process, as what its parent holds would count for the command.
_METER = """
import json, os, sys, time
start = time.perf_counter()
files = [(os.POSIX_SPAWN_OPEN, 1, sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
process = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=files)
_, status, usage = os.wait4(process, 0)
seconds = time.perf_counter() - start
print(json.dumps([os.waitstatus_to_exitcode(status), seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024]))
"""


class Cost(NamedTuple):
    """What a process cost: seconds that passed, seconds that it computed, the most MiB that it held; its output."""

    seconds: float
    computed: float
    mebibytes: float
    output: str


def measure(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - as `figures.main` calls it
    """Measure all of it, with a cache in a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        yield from processes(folder, 5 if quick else 25)
        yield from rows(folder, ROWS, 1 if quick else 5)
        yield from lines(folder, LINES, 1 if quick else 3)


def run(folder: Path, *command: str) -> Cost:
    """Run a command, the first word of which is a module or ``-c``, with the cache of the folder."""
    python = [sys.executable, *(("-m",) if command[0] != "-c" else ()), *command]
    meter = [sys.executable, "-I", "-S", "-c", _METER, str(folder / "output"), *python]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("ATTENTION_SELECTOR")}
    variables["ATTENTION_SELECTOR_CACHE"] = str(folder / "cache")
    done = subprocess.run(meter, stdout=subprocess.PIPE, check=True, cwd=ROOT, env=variables)
    status, seconds, computed, mebibytes = json.loads(done.stdout)
    if status != 0:
        raise SystemExit(f"{' '.join(command)}: exit status {status}")
    return Cost(seconds, computed, mebibytes, (folder / "output").read_text(encoding="utf-8"))


# --- processes ----------------------------------------------------------------------------------------------------


def processes(folder: Path, repeats: int) -> Iterator[Figure]:
    """Start short commands in turn, each with the rules in the cache."""
    line = folder / "line.jsonl"
    facts = {"platform": "cuda", "arch": "sm_90", "cudnn": 91002, "packages": {"flash-attn": "2.8.3"}}
    line.write_text(json.dumps({"id": 1, "facts": facts, "request": {"head_dim": 128}}) + "\n", encoding="utf-8")
    commands = {
        "python -c pass": ("-c", "pass"),
        "import pydantic": ("-c", "import pydantic"),
        "import selector": ("-c", "import selector"),
        "decide, one line": ("selector", "decide", str(line)),
        "explain": ("selector", "explain", "--facts", str(_MACHINE), "--model", "WanPipeline", "--role", "cross"),
    }
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for round_ in range(repeats + 1):
        for name, command in commands.items():
            cost = run(folder, *command)
            if round_:  # the first fills caches
                costs[name].append(cost)
    base = _computed("import pydantic", costs)
    yield _computed("python -c pass", costs)
    yield base
    yield _computed("import selector", costs, to=base, most=0.6)
    yield _computed("decide, one line", costs, to=base, most=2.8)
    yield _computed("explain", costs, to=base, most=4.0)


def _computed(
    name: str, costs: Mapping[str, Sequence[Cost]], *, to: Figure | None = None, most: float | None = None
) -> Figure:
    some = costs[name]
    passed = statistics.median(cost.seconds for cost in some) * 1000
    return figure(
        name, [cost.computed * 1000 for cost in some], "ms computed", to=to, most=most, note=f"{passed:.0f} ms passed"
    )


# --- rows ---------------------------------------------------------------------------------------------------------


def rows(folder: Path, count: int, repeats: int) -> Iterator[Figure]:
    """Load a table of so many rows, cold and from the cache, each time in a process of its own."""
    rules = folder / "rules"
    write_rules(rules, count)
    cold, cached = [], []
    for _ in range(repeats):
        for kept in (folder / "cache" / "rules").glob("*"):
            kept.unlink()
        cold.append(run(folder, "-c", _LOAD, str(rules)))
        cached += [run(folder, "-c", _LOAD, str(rules)) for _ in range(3)]
    name = f"{count:,} rows"
    read = figure(f"{name} read", [_loading(cost, count) for cost in cold], "s computed", most=8)
    yield read
    yield figure(f"{name} from the cache", [_loading(cost, count) for cost in cached], "s computed", to=read, most=0.06)
    yield figure(f"memory of {name} read", [cost.mebibytes for cost in cold], "MiB", most=300)
    yield figure(f"memory of {name} from the cache", [cost.mebibytes for cost in cached], "MiB", most=300)


def _loading(cost: Cost, count: int) -> float:
    """Give the seconds of loading alone, as the process told them."""
    found, seconds = cost.output.split()
    if int(found) != count + 1:
        raise SystemExit(f"wanted {count + 1} rows, got {found}")
    return float(seconds)


def write_rules(folder: Path, count: int) -> None:
    """Write a table of so many rows in two files (one may hold a mebibyte), and a last row."""
    folder.mkdir()
    dice = Random(_SEED)  # noqa: S311 - no secret
    half = count // 2
    last = "- {id: last, use: TORCH_SDPA, because: It runs everywhere.}\n"
    head = "table: platform_default\n"
    first = "".join(_row(dice, at) for at in range(half))
    more = "".join(_row(dice, at, "before: last, ") for at in range(half, count))
    whole = f"{head}targets: backends\nactions: [use]\nrequires: [platform]\nrows:\n{first}{last}"
    (folder / "1.yaml").write_text(whole, encoding="utf-8")
    (folder / "2.yaml").write_text(f"{head}edits:\n{more}", encoding="utf-8")


def _row(dice: Random, at: int, anchor: str = "") -> str:
    when = f"{{platform: cuda, num_heads: {at + 1}, head_dim: {{max: {dice.randrange(8, 512)}}}}}"
    return f"- {{id: row-{at}, {anchor}when: {when}, use: TORCH_SDPA, because: Measured on layer {at}.}}\n"


# --- lines --------------------------------------------------------------------------------------------------------


def lines(folder: Path, count: int, repeats: int) -> Iterator[Figure]:
    """Answer so many lines, and a tenth of them, of which no two ask the same."""
    many, few = folder / "many.jsonl", folder / "few.jsonl"
    written = [json.dumps(line) for line in different_lines(count)]
    many.write_text("\n".join(written) + "\n", encoding="utf-8")
    few.write_text("\n".join(written[: count // 10]) + "\n", encoding="utf-8")
    plain, all_of_them, some_of_them = [], [], []
    for _ in range(repeats):
        plain.append(_only_json(written))
        all_of_them.append(run(folder, "selector", "decide", str(many)))
        some_of_them.append(run(folder, "selector", "decide", str(few)))
    if all_of_them[0].output.count("\n") != count:
        raise SystemExit("a line has no answer")
    base = figure(f"{count:,} lines as JSON", plain, "s computed", note="read and written, in this process")
    passed = statistics.median(cost.seconds for cost in all_of_them)
    yield base
    yield figure(
        f"{count:,} lines decided", [cost.computed for cost in all_of_them], "s computed", to=base, most=7,
        note=f"{passed:.1f} s passed",
    )  # fmt: skip
    least = figure(f"memory of {count // 10:,} lines", [cost.mebibytes for cost in some_of_them], "MiB")
    yield least
    yield figure(f"memory of {count:,} lines", [cost.mebibytes for cost in all_of_them], "MiB", to=least, most=1.15)


def _only_json(written: Sequence[str]) -> float:
    """Give the seconds that the standard library takes to read the lines and write them again."""
    start = time.process_time()
    for line in written:
        json.dumps(json.loads(line))
    return time.process_time() - start


def different_lines(count: int) -> Iterator[dict[str, Any]]:
    """Give lines of the conformance cases whose facts are drawn at random, no two of which ask the same."""
    dice = Random(_SEED)  # noqa: S311 - no secret
    texts = [(ROOT / "tests" / "conformance" / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
             for name in ("selection", "call")]  # fmt: skip
    cases = [case for text in texts for case in map(json.loads, text) if isinstance(case.get("facts"), dict)]
    seen: set[str] = set()
    while len(seen) < count:
        line = dice.choice(cases)
        asked = {key: value for key, value in line.items() if key not in ("id", "expect")}
        asked["facts"] = _drawn(dice, asked["facts"])
        text = json.dumps(asked)
        if text not in seen:
            seen.add(text)
            yield {"id": len(seen), **asked}


def _drawn(dice: Random, facts: Mapping[str, Any]) -> dict[str, object]:
    found = {name: dice.choice(_VALUES[name]) if name in _VALUES else value for name, value in facts.items()}
    if isinstance(facts.get("packages"), dict):
        found["packages"] = {name: dice.choice(_VERSIONS) for name in facts["packages"]}
    return found


if __name__ == "__main__":
    sys.exit(main("start", "What starting costs", measure))
