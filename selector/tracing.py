"""The trace of a decision: every table that was walked, every row, every test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selector.rules.conditions import Result
from selector.rules.vocabulary import Value
from selector.rules.walk import Step, code


@dataclass(frozen=True, slots=True)
class Walk:
    """One table walked for one subject (a backend that was named, a role, or nothing)."""

    table: str
    subject: str | None
    facts: Mapping[str, Value]
    steps: tuple[Step, ...]

    @property
    def chosen(self) -> Step | None:
        """The step that won."""
        return next((step for step in self.steps if step.outcome == "chosen"), None)

    def missing(self) -> list[str]:
        """Name the facts that were not known and could have changed this walk."""
        names = []
        for step in self.steps:
            if step.outcome == "undetermined":
                names += [result.fact for result in step.blamed if not result.known or _open(result)]
            elif step.outcome == "chosen":
                names += [result.fact for result in step.results if not result.known]
        return names

    def to_dict(self) -> dict[str, object]:
        """Give the walk as plain data."""
        return {"table": self.table, "subject": self.subject, "rows": [_row(step) for step in self.steps]}


def _open(result: Result) -> bool:
    """Whether a known value still leaves its test undetermined (a symbolic size)."""
    return result.held is None


def _row(step: Step) -> dict[str, object]:
    row = step.row
    blamed = {id(result.place): result for result in step.blamed}
    told: dict[str, object] = {
        "row": row.id, "outcome": step.outcome, "action": row.action, "target": row.target, "file": row.place.file,
        "line": row.place.line, "conditions": [_condition(step, result) for result in step.results],
    }  # fmt: skip
    if blamed:
        told["blamed"] = [code(row, result) for result in step.blamed]
    return told


def _condition(step: Step, result: Result) -> dict[str, object]:
    return {
        "fact": result.fact, "value": result.got, "known": result.known, "wanted": result.wanted, "held": result.held,
        "negated": result.negated, "in": f"{result.origin}{'.' + result.group.rstrip('.') if result.group else ''}",
        "code": code(step.row, result), "file": result.place.file, "line": result.place.line,
    }  # fmt: skip


@dataclass(slots=True)
class Trace:
    """Every walk in the order in which it was made."""

    walks: list[Walk] = field(default_factory=list)

    def missing(self) -> list[str]:
        """Name the facts that were not known and could change the decision, once each."""
        return list(dict.fromkeys(name for walk in self.walks for name in walk.missing()))

    def to_dict(self) -> list[dict[str, object]]:
        """Give the trace as plain data."""
        return [walk.to_dict() for walk in self.walks]
