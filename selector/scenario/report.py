"""A run in words: each failure with wanted, got and the whole trace, then how much of the rules was shown."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass

from selector.rendering import tree
from selector.rendering.text import in_ascii, visible
from selector.rules.problems import listing
from selector.scenario.coverage import Coverage, Item, Kind, Point, Share
from selector.scenario.expecting import Difference
from selector.scenario.running import Outcome, Run, Shown

KINDS: tuple[Kind, ...] = ("row", "condition")


@dataclass(frozen=True, slots=True)
class Look:
    """How a report is drawn."""

    width: int = 80
    colour: bool = False
    ascii: bool = False


def failure(outcome: Outcome, look: Look) -> str:
    """Tell one failure: where it stands, every difference, and the decision's tree."""
    scenario = outcome.scenario
    about = f": {scenario.about}" if scenario.about else ""
    head = f"FAILED {scenario.place} {scenario.id}{about}"
    lines = [head, *(line for difference in outcome.differences for line in differs(difference))]
    drawn = tree.render_tree(outcome.decision, outcome.trace, width=look.width, colour=look.colour, ascii=look.ascii)
    return _lines(lines, look) + drawn + "\n"


def differs(difference: Difference) -> Iterator[str]:
    """Tell a difference in two lines or more: what was wanted, and below it what was got."""
    label = f"  {difference.field}: "
    wanted, got = _values(difference.wanted, difference.got), _values(difference.got, difference.wanted)
    yield f"{label}wanted {wanted[0]}"
    for text in wanted[1:]:
        yield f"{' ' * len(label)}       {text}"
    yield f"{' ' * len(label)}got    {got[0]}"
    for text in got[1:]:
        yield f"{' ' * len(label)}       {text}"


def _values(value: object, other: object) -> list[str]:
    """Write a value, a list by its items; where a number is compared with a list, its length goes first."""
    if not isinstance(value, list):
        return [value if isinstance(value, str) else json.dumps(value)]
    items = [item if isinstance(item, str) else json.dumps(item) for item in value]
    return [str(len(value)), *items] if isinstance(other, int) else items or ["none"]


def contradiction(shown: Shown) -> str:
    """Tell of something that is said to be unreachable and was shown."""
    one = shown.unreachable
    happens = f"{one.point.code} {_does(one.point.does)} in {shown.scenario}"
    return f"FAILED {one.place} unreachable: {happens}, which is said never to happen"


def summary(run: Run) -> Iterator[str]:
    """Count scenarios and what they showed."""
    failed, unreachable = len(run.failed), len(run.coverage.unreachable)
    yield f"{_count(len(run.outcomes), 'scenario')}: {len(run.outcomes) - failed} passed, {failed} failed"
    told = ", ".join(f"{kind}s {_share(run.coverage.share(kind))}" for kind in KINDS)
    yield f"coverage: {told}" + (f"; {unreachable} said to be unreachable" if unreachable else "")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _share(share: Share) -> str:
    return f"{share.shown} of {share.total} ({percent(share)} %)"


def percent(share: Share) -> str:
    """Write a share in percent, never rounded up, so that 100 means all."""
    return f"{math.floor(share.percent * 10) / 10:g}"


def missing(coverage: Coverage) -> Iterator[str]:
    """Name everything that was not shown, with its place."""
    for point in coverage.missing():
        yield f"  never {_does(point.does)}: {point.code} ({_place(coverage.items[point.code])})"


def every(coverage: Coverage) -> Iterator[str]:
    """Tell of every row, and below it of every condition, what it did and how often."""
    for subject in coverage.subjects():
        yield f"{subject}{_counts(coverage.items[subject], coverage)}" if subject in coverage.items else subject
        for item in coverage.conditions(subject):
            yield f"  {item.code.removeprefix(subject + ':')}{_counts(item, coverage)}"


def _counts(item: Item, coverage: Coverage) -> str:
    told = [_told(item, does, coverage) for does in item.wanted]
    told += [f"{does} {item.counts[does]}" for does in ("open",) if item.counts[does]]
    return f": {', '.join(told)}"


def _told(item: Item, does: str, coverage: Coverage) -> str:
    if item.counts[does]:
        return f"{_does(does)} {item.counts[does]}"
    return f"never {_does(does)}{' (unreachable)' if Point(item.code, does) in coverage.unreachable else ''}"


def _does(does: str) -> str:
    return "is blamed" if does == "blamed" else does


def _place(item: Item) -> str:
    return f"{item.place.file}:{item.place.line}"


def too_little(coverage: Coverage, least: float) -> str | None:
    """Say what was shown less than is wanted, or nothing."""
    below = [f"{percent(share)} % of {kind}s" for kind in KINDS if (share := coverage.share(kind)).below(least)]
    return f"FAILED coverage: wanted at least {least:g} %, got {listing(below)}" if below else None


def _lines(lines: list[str], look: Look) -> str:
    told = (visible(line) for line in lines)
    return "".join(f"{in_ascii(line) if look.ascii else line}\n" for line in told)


# --- as plain data ------------------------------------------------------------------------------------------------


def as_data(run: Run, least: float | None) -> dict[str, object]:
    """Give a run as plain data that JSON can hold."""
    coverage = run.coverage
    shares = {f"{kind}s": _share_data(coverage.share(kind)) for kind in KINDS}
    return {
        "scenarios": [_outcome_data(outcome) for outcome in run.outcomes],
        "unreachable_shown": [{**_point(one.unreachable.point), "scenario": one.scenario} for one in run.shown],
        "passed": run.passed,
        "coverage": {
            **shares,
            "wanted": least,
            "enough": least is None or too_little(coverage, least) is None,
            "missing": [_point(point) for point in coverage.missing()],
            "unreachable": [_point(point) for point in sorted(coverage.unreachable)],
        },
    }


def items_data(coverage: Coverage) -> list[dict[str, object]]:
    """Give every row and condition with its counts."""
    return [
        {
            "code": item.code, "kind": item.kind, "file": item.place.file, "line": item.place.line,
            "counts": {does: item.counts[does] for does in (*item.wanted, *(["open"] if item.kind != "row" else []))},
        }
        for item in coverage.items.values()
    ]  # fmt: skip


def _outcome_data(outcome: Outcome) -> dict[str, object]:
    scenario = outcome.scenario
    told: dict[str, object] = {
        "id": scenario.id, "about": scenario.about, "file": scenario.place.file, "line": scenario.place.line,
        "passed": outcome.passed,
    }  # fmt: skip
    if not outcome.passed:
        told["differs"] = [difference.to_dict() for difference in outcome.differences]
        told |= {"answer": outcome.decision.answer(), "trace": outcome.trace.to_dict()}
    return told


def _share_data(share: Share) -> dict[str, object]:
    return {"shown": share.shown, "total": share.total, "percent": math.floor(share.percent * 100) / 100}


def _point(point: Point) -> dict[str, object]:
    return {"code": point.code, "never": point.does}
