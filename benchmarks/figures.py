"""What a benchmark measured: medians, their spread, ratios to others of the same run, and comparison with a baseline.

Every benchmark that holds a promise gives `main` here a function that measures. Its command then prints a table, writes
it with ``--json FILE`` or ``--markdown FILE``, and with ``--compare [FILE]`` fails where a ratio has grown by more than
a third over the baseline (``benchmarks/baselines/NAME.json``), or is over the most that is promised. Times alone never
fail: they are the machine's.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.environment import describe, heading

BASELINES = Path(__file__).parent / "baselines"
GROWTH = 4 / 3
"""How much larger than its baseline a ratio may be: on two cores with other work the same code varies by a quarter."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement.

    `median`, `low` and `high` (the quartiles) are in `unit`. `ratio` is the median over that of the figure `to` of the
    same run, and `most` what is promised: of the ratio where there is one, else of the median.
    """

    name: str
    unit: str
    median: float
    low: float
    high: float
    to: str | None = None
    ratio: float | None = None
    most: float | None = None
    note: str = ""

    @property
    def kept(self) -> bool:
        """Whether what is promised holds."""
        return self.most is None or (self.median if self.ratio is None else self.ratio) <= self.most


def figure(
    name: str,
    samples: Sequence[float],
    unit: str,
    *,
    to: Figure | None = None,
    most: float | None = None,
    note: str = "",
) -> Figure:
    """Make a figure of samples in `unit`."""
    low, median, high = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
    ratio = None if to is None else median / to.median
    return Figure(name, unit, median, low, high, to.name if to else None, ratio, most, note)


def main(name: str, title: str, measure: Callable[[bool], Iterable[Figure]], argv: Sequence[str] | None = None) -> int:
    """Run a benchmark's command; `measure` is told whether it is to be quick. Gives the exit status."""
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=title)
    parser.add_argument("--quick", action="store_true", help="fewer repeats, for a first look")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON")
    parser.add_argument("--markdown", metavar="FILE", help="write the figures as a page")
    parser.add_argument(
        "--compare", metavar="FILE", nargs="?", const=str(BASELINES / f"{name}.json"), help="fail on larger ratios"
    )
    options = parser.parse_args(argv)
    load = os.getloadavg()[0]
    found = list(measure(options.quick))
    print(table(found))
    if options.json:
        text = json.dumps({"machine": describe(), "figures": [asdict(one) for one in found]}, indent=2)
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    if options.markdown:
        cores = f"- cores: {len(os.sched_getaffinity(0))}, of which other work kept {load:.1f} busy before\n"
        Path(options.markdown).write_text(f"{heading(title)}{cores}\n{table(found)}", encoding="utf-8")
    faults = list(compared(found, Path(options.compare))) if options.compare else []
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def table(figures: Iterable[Figure]) -> str:
    """Give the figures as a Markdown table."""
    lines = ["| what | median | quartiles | ratio | to | at most |", "|---|---|---|---|---|---|"]
    for one in figures:
        ratio = "" if one.ratio is None else f"{one.ratio:.2f}"
        most = "" if one.most is None else f"{one.most:g}{'' if one.ratio is not None else f' {one.unit}'}"
        told = f"{one.name} ({one.note})" if one.note else one.name
        spread = f"{_short(one.low)}–{_short(one.high)}"
        lines.append(f"| {told} | {_short(one.median)} {one.unit} | {spread} | {ratio} | {one.to or ''} | {most} |")
    return "\n".join(lines) + "\n"


def _short(number: float) -> str:
    return f"{number:.4g}"


def compared(figures: Iterable[Figure], baseline: Path) -> Iterable[str]:
    """Say which ratios are larger than in a baseline by more than a third, or over what is promised."""
    told = {one["name"]: one["ratio"] for one in json.loads(baseline.read_text(encoding="utf-8"))["figures"]}
    for one in figures:
        if one.ratio is None:
            continue
        before = told.get(one.name)
        if not one.kept:
            yield f"{one.name}: {one.ratio:.2f} times {one.to}, at most {one.most:g} is promised"
        elif before is not None and one.ratio > before * GROWTH:
            yield f"{one.name}: {one.ratio:.2f} times {one.to}, was {before:.2f}"
