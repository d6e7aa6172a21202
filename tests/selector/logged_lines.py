"""Decision logs to be read: realistic ones, as the product writes them."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from selector.decision import Decision
from selector.decision_log import DecisionLog
from selector.decision_logs import Log
from selector.json_lines import Line
from selector.lines import Lines
from selector.log_columns import columns_of
from selector.log_lines import LineWriter, LogLine
from selector.ruleset import RuleSet, shipped
from tests.oracle.situations import situations

CONFORMANCE = Path(__file__).parents[1] / "conformance"
ROW = ('      cudnn: ">=9.5"\n    use: CUDNN_ATTN', '      cudnn: ">=99.0"\n    use: CUDNN_ATTN')  # never cuDNN


def decisions(seed: int, count: int, rules: RuleSet | None = None) -> Iterator[Decision]:
    """Give the decisions of as many lines of a seed, without those whose line was not valid."""
    lines = Lines(rules or shipped())
    return (one for one in map(lines.decide, situations(seed, count)) if one.inputs is not None)


def conformance(name: str) -> Iterator[Decision]:
    """Give the decisions of every conformance line, without those whose line is not valid."""
    lines = Lines(shipped())
    texts = (CONFORMANCE / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return (one for one in map(lines.decide, map(json.loads, texts)) if one.inputs is not None)


def write(path: Path, made: Iterable[Decision]) -> Path:
    """Log decisions."""
    with DecisionLog(path) as log:
        for decision in made:
            log.write(decision)
        assert not log.dropped
    return path


def read(path: Path) -> list[Line]:
    """Give the lines of a log."""
    return [Line(number, raw + b"\n") for number, raw in enumerate(path.read_bytes().splitlines(), 1)]


def value(path: Path, number: int = 1) -> dict[str, Any]:
    """Give one line of a log as plain data."""
    line: dict[str, Any] = json.loads(path.read_bytes().splitlines()[number - 1])
    return line


def write_in_threads(log: Log, made: Sequence[Decision], count: int) -> None:
    """Let that many threads write all of these to one log at the same time."""

    def work() -> None:
        for one in made:
            log.write(one)

    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def line_of(decision: Decision, at: dt.datetime) -> dict[str, Any]:
    """Give the line of a decision as plain data."""
    found: dict[str, Any] = json.loads(LineWriter().line(decision, at).text)
    return found


def logged(*lines: Mapping[str, object]) -> list[LogLine]:
    """Give lines to be written that say what is wanted of them."""
    return [LogLine(str(line.get("at", "")), json.dumps(line), columns_of(line)) for line in lines]
