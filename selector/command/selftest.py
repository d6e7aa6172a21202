"""`attention-selector selftest`: what the backends that may run on this machine compute, check by check."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from selector.command import given
from selector.dispatch.selftest import Asked, Checked, Selftest, selftest
from selector.rendering.text import columns, visible

PASSED, FAILED, REFUSED = 0, 1, 3
_NONE = "–"
_HEADINGS = (
    "backend", "provider", "build", "dtype", "head_dim", "heads", "check", "outcome", "wanted", "got", "tolerance",
    "reason",
)  # fmt: skip


def run(options: argparse.Namespace) -> int:
    """Write what became of each check.

    The status is 1 when one failed or a backend could not be bound at all, 3 when what is named cannot run here.
    """
    asked = Asked(options.backend, options.provider, options.head_dim, options.dtype, options.check, options.device)
    found = selftest(given.rules(options), asked)
    sys.stdout.write(_FORMATS[options.format](found))
    if not found.good:
        return FAILED
    named = options.backend is not None or options.provider is not None
    return REFUSED if named and not found.tested else PASSED


class _Key(NamedTuple):
    """What the geometries that share a line of the table have in common."""

    build: str
    dtype: str
    check: str
    outcome: str
    wanted: str
    tolerance: str
    reason: str


class _Spread(NamedTuple):
    """The geometries on a line, and their errors."""

    head_dims: dict[int, None]
    heads: dict[str, None]
    errors: list[float]


def _rows(tested: Checked) -> Iterator[Sequence[str]]:
    """Give the lines of the table: one for all geometries that came to the same, with the largest error of them."""
    lines: dict[_Key, _Spread] = {}
    for result in tested.results:
        geometry, error = result.geometry, result.error
        reason = "" if result.outcome == "passed" or error is not None else f"got {result.got}"
        tolerance = _NONE if error is None else f"{result.tolerance:g}"
        wanted = result.wanted
        if result.outcome in ("refused", "cannot bind"):
            reason, wanted = result.got, _NONE
        key = _Key(result.build or _NONE, geometry.dtype, result.check, result.outcome, wanted, tolerance, reason)
        spread = lines.setdefault(key, _Spread({}, {}, []))
        spread.head_dims[geometry.head_dim] = None
        spread.heads[f"{geometry.num_heads}/{geometry.num_kv_heads}"] = None
        spread.errors.extend([] if error is None else [error])
    for key, spread in lines.items():
        yield (
            tested.backend, tested.provider or _NONE, key.build, key.dtype, ", ".join(map(str, spread.head_dims)),
            ", ".join(spread.heads), key.check, key.outcome, key.wanted, _largest(spread.errors), key.tolerance,
            key.reason,
        )  # fmt: skip


def _largest(errors: Sequence[float]) -> str:
    """Write the largest error; what is no number is larger than any."""
    if not errors:
        return _NONE
    return f"{max(errors, key=lambda error: math.inf if math.isnan(error) else error):.3g}"


def _table(found: Selftest) -> list[Sequence[str]]:
    """Give all lines, in which nothing steers a terminal."""
    return [[visible(cell) for cell in row] for tested in found.tested for row in _rows(tested)]


def _summary(found: Selftest) -> Iterator[str]:
    """Tell the counts of each backend, and why the others do not run."""
    for one in found.tested:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in one.counts.items())
        yield f"{_name(one.backend, one.provider)} on {found.device}: {counts}"
    for other in found.unusable:
        yield f"{_name(other.backend, other.provider)} is not usable: {visible(other.reason)}"


def _name(backend: str, provider: str | None) -> str:
    return backend if provider is None else f"{backend} ({provider})"


def _text(found: Selftest) -> str:
    rows = [_HEADINGS, *_table(found)] if found.tested else []
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell + " " * (width - columns(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    return "".join(f"{line}\n" for line in (*lines, *_summary(found)))


def _markdown(found: Selftest) -> str:
    rows = [_HEADINGS, ["---"] * len(_HEADINGS), *_table(found)] if found.tested else []
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    return "".join(
        f"{line}\n" for line in (*lines, *([""] if rows else []), *(f"- {line}" for line in _summary(found)))
    )


def _json(found: Selftest) -> str:
    results = [
        {
            "backend": tested.backend, "provider": tested.provider, "build": result.build,
            "dtype": result.geometry.dtype, "head_dim": result.geometry.head_dim,
            "num_heads": result.geometry.num_heads, "num_kv_heads": result.geometry.num_kv_heads,
            "check": result.check, "outcome": result.outcome, "wanted": result.wanted, "got": result.got,
            "error": result.error if result.error is not None and math.isfinite(result.error) else None,
            "tolerance": result.tolerance,
        }
        for tested in found.tested
        for result in tested.results
    ]  # fmt: skip
    summary = [
        {"backend": one.backend, "provider": one.provider, "good": one.good, **one.counts} for one in found.tested
    ]
    unusable = [{"backend": one.backend, "provider": one.provider, "reason": one.reason} for one in found.unusable]
    told = {"device": found.device, "results": results, "summary": summary, "not_usable": unusable}
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


_FORMATS = {"text": _text, "json": _json, "markdown": _markdown}
