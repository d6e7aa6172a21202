"""`attention-selector replay`: which logged decisions would change with other rules, and by which row."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from selector.command.usage import UsageError
from selector.json_lines import STANDARD_INPUT
from selector.log_files import lines_in
from selector.replaying import Change, Damage, Replayed, Work, replayed
from selector.rules.problems import ProblemsError, shown
from selector.selecting import rules_from

NOTHING_CHANGES, SOMETHING_CHANGES, DAMAGED = 0, 1, 2
_MOST_GROUPS = 1000
_OTHERS = ("other rows", "other rows")


def run(options: argparse.Namespace) -> int:
    """Replay the log; the status is 1 when something would change, and 2 when a line is damaged."""
    processes = _cores() if options.processes is None else options.processes
    if processes < 1:
        raise UsageError(f"`--processes`: wanted an integer of at least 1, got {processes}")
    rules = rules_from(options.rules, os.environ)
    name = "standard input" if options.log == STANDARD_INPUT else shown(options.log, 4096)
    source = None if options.rules is None else tuple(options.rules)
    write, close = _FORMATS[options.format]
    summary = Summary()
    with lines_in(options.log, name) as lines:
        for some in replayed(lines, Work(name, source, rules.digest), rules, processes):
            summary.add(some)
            for one in some.told:
                _complain(one) if isinstance(one, Damage) else sys.stdout.write(write(one, name))
    sys.stdout.write(close(summary))
    if summary.damaged:
        return DAMAGED
    return SOMETHING_CHANGES if summary.changed else NOTHING_CHANGES


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _complain(damage: Damage) -> None:
    sys.stdout.flush()  # so that what is wrong stands after what was found before it
    sys.stderr.write(f"{ProblemsError(damage.problems)}\n")


# --- what it comes to ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Summary:
    """Counts over a whole log; changes are counted by the rows, or the error, that they lead from and to."""

    read: int = 0
    changed: int = 0
    damaged: int = 0
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def unchanged(self) -> int:
        """Lines whose decision stays."""
        return self.read - self.changed - self.damaged

    def add(self, replayed: Replayed) -> None:
        """Count some lines."""
        self.read += replayed.read
        for one in replayed.told:
            if isinstance(one, Damage):
                self.damaged += 1
                continue
            self.changed += 1
            group = (decider(one.before, one.rows[0]), decider(one.after, one.rows[1]))
            full = len(self.groups) >= _MOST_GROUPS and group not in self.groups
            self.groups[_OTHERS if full else group] += 1


def decider(answer: Mapping[str, object], row: str | None) -> str:
    """Name what decided: the row, or what the error is where no row did; cut to a length that a table has room for."""
    error = answer["error"]
    return shown(row or (str(error["code"]) if isinstance(error, Mapping) else "no row"), 120)


# --- as text ------------------------------------------------------------------------------------------------------


def _text(change: Change, name: str) -> str:
    before, after = (
        _outcome(answer, row) for answer, row in zip((change.before, change.after), change.rows, strict=True)
    )
    model = "" if change.model is None else f", model {shown(change.model)}"
    return (
        f"{name}:{change.line}: role {shown(change.role)}{model}: {before} → {after}"
        f"; differs: {', '.join(change.fields)}\n"
    )


def _outcome(answer: Mapping[str, object], row: str | None) -> str:
    error = answer["error"]
    told = str(error["code"]) if isinstance(error, Mapping) else str(answer["backend"])
    return f"{shown(told)} ({shown(row, 120)})" if row else shown(told)


def _counts(summary: Summary) -> str:
    told = (
        f"{summary.read} lines: {summary.unchanged} unchanged, {summary.changed} changed, {summary.damaged} damaged\n"
    )
    width = len(str(max(summary.groups.values(), default=0)))
    for (before, after), count in summary.groups.most_common():
        told += f"  {count:{width}} × {before} → {after}\n"
    return told


# --- as JSON lines ------------------------------------------------------------------------------------------------


def _json(change: Change, name: str) -> str:  # noqa: ARG001 - as the text has it
    rows = change.rows
    return _line({
        "line": change.line, "role": change.role, "model": change.model, "before": {**change.before, "row": rows[0]},
        "after": {**change.after, "row": rows[1]}, "differs": list(change.fields),
    })  # fmt: skip


def _json_counts(summary: Summary) -> str:
    groups = [
        {"before": before, "after": after, "count": count} for (before, after), count in summary.groups.most_common()
    ]
    counts = {name: getattr(summary, name) for name in ("read", "unchanged", "changed", "damaged")}
    return _line({"summary": {**counts, "rows": groups}})


def _line(value: Mapping[str, object]) -> str:
    return json.dumps(value, allow_nan=False) + "\n"


_FORMATS = {"text": (_text, _counts), "json": (_json, _json_counts)}
