"""`attention-selector log`: which decisions a log holds, and how many of each kind."""

from __future__ import annotations

import argparse
import datetime as dt
import itertools
import json
import os
import re
import string
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from selector.command.log_options import LOG_VARIABLE
from selector.command.usage import UsageError
from selector.configuring import Origin
from selector.decision import Code, Source
from selector.json_lines import STANDARD_INPUT
from selector.log_columns import COLUMNS, columns_of
from selector.log_query import Asked, Count, Query, asked, is_rotated
from selector.logged import LineError
from selector.rules.problems import Place, Problem, ProblemsError, listing, nearest, shown

DONE, DAMAGED = 0, 2
_CLOSED: Mapping[str, tuple[str, ...]] = {
    "source": get_args(Source), "origin": get_args(Origin), "error": get_args(Code), "policy": ("fallback", "strict"),
}  # fmt: skip
_AGE = re.compile(r"([0-9]{1,9})([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DIGEST_LETTERS, _SHORT_DIGEST = 64, 12
_MOST_LETTERS, _MOST_MESSAGE = 4096, 200


def run(options: argparse.Namespace) -> int:
    """Tell the decisions that fit, or count them; the status is 2 when a line is damaged."""
    query = _query(options, dt.datetime.now(tz=dt.UTC))
    if options.limit is not None and options.limit < 1:
        raise UsageError(f"`--limit`: wanted an integer of at least 1, got {options.limit}")
    name = options.file or os.environ.get(LOG_VARIABLE)
    if not name:
        raise UsageError(f"`log`: wanted a FILE, got none, and {LOG_VARIABLE} names none")
    _see_that_it_is_there(name)
    damaged: list[LineError] = []

    def complain(error: LineError) -> None:
        damaged.append(error)
        sys.stdout.flush()  # so that what is wrong stands after what was found before it
        sys.stderr.write(f"{error}\n")

    with asked(name, complain) as log:
        if options.count_by is None:
            found = log.found(query, options.limit)
            first = next(found, None)
            sys.stdout.writelines(_LINES[options.format](itertools.chain(() if first is None else (first,), found)))
        else:
            counts = log.counts(query, options.count_by)[: options.limit]
            first = str(counts[0]) if counts else None
            sys.stdout.writelines(_COUNTS[options.format](counts, options.count_by))
        if first is None:
            sys.stdout.flush()
            sys.stderr.writelines(f"{problem}\n" for problem in _unknown(name, query, log))
    return DAMAGED if damaged else DONE


def _see_that_it_is_there(name: str) -> None:
    """Where there is no such file, name the nearest beside it; anything else is told by who opens it."""
    path = Path(name)
    try:
        if name == STANDARD_INPUT or path.exists() or is_rotated(name):
            return
        beside = [one.name for one in path.parent.iterdir()]
    except (OSError, ValueError):
        return
    message = "cannot read the file: no such file or directory"
    place = Place(shown(name, _MOST_LETTERS))
    raise ProblemsError([Problem(place, "unreadable", message, nearest(path.name, beside))])


def _unknown(name: str, query: Query, log: Asked) -> Iterator[Problem]:
    """Where nothing was found, say which of the values that were asked for the log has nowhere."""
    place = Place("standard input" if name == STANDARD_INPUT else shown(name, _MOST_LETTERS))
    for column, value in query.equal.items():
        known = sorted(log.values(column))
        if value not in known:
            hint = nearest(value, known) or (f"there are: {listing([shown(one) for one in known])}" if known else None)
            yield Problem(place, "not-there", f"no decision has the {column} `{shown(value)}`", hint)


# --- the question -------------------------------------------------------------------------------------------------


def _query(options: argparse.Namespace, now: dt.datetime) -> Query:
    given = {name: value for name in COLUMNS if (value := getattr(options, name)) is not None}
    for name, values in _CLOSED.items():
        if given.get(name, values[0]) not in values:
            raise UsageError(_wanted(name, listing(values), given[name], nearest(given[name], values)))
    digest = str(given.pop("digest", "")).lower()
    if len(digest) > _DIGEST_LETTERS or not set(digest) <= {*string.hexdigits}:
        raise UsageError(_wanted("digest", f"the first of {_DIGEST_LETTERS} hexadecimal digits", digest))
    return Query(given, digest, _time("since", options.since, now), _time("until", options.until, now))


def _time(name: str, given: str | None, now: dt.datetime) -> str | None:
    """Give a time as a line of a log has it; an age is so long before now."""
    if given is None:
        return None
    at = _moment(given, now)
    if at is None:
        wanted = "a time with its zone such as 2026-11-30T10:00Z, or an age such as 90s, 30m, 1h or 2d"
        raise UsageError(_wanted(name, wanted, given))
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _moment(given: str, now: dt.datetime) -> dt.datetime | None:
    age = _AGE.fullmatch(given)
    try:
        if age:
            return now - dt.timedelta(seconds=int(age[1]) * _SECONDS[age[2]])
        at = dt.datetime.fromisoformat(f"{given}T00:00Z" if _DAY.fullmatch(given) else given)
        return None if at.tzinfo is None else at.astimezone(dt.UTC)
    except (ValueError, OverflowError):
        return None


def _wanted(flag: str, wanted: str, got: str, hint: str | None = None) -> str:
    return f"`--{flag}`: wanted {wanted}, got `{shown(got)}`" + (f"; {hint}" if hint else "")


# --- the answer ---------------------------------------------------------------------------------------------------


def _as_text(lines: Iterable[str]) -> Iterator[str]:
    count = 0
    for text in lines:
        count += 1
        yield _sentence(json.loads(text))
    yield f"{count} decision{'' if count == 1 else 's'}\n"


def _sentence(line: Mapping[str, Any]) -> str:
    """Tell a decision as `replay` does, with when, where and by which rules; a line is told whatever it holds."""
    get = dict(zip(COLUMNS, columns_of(line), strict=True))
    row, error, model = get["rule"], get["error"], get["model"]
    what = shown(error or get["backend"]) + (f" ({shown(row, 120)})" if row else "")
    where = " ".join(shown(value) for value in (get["platform"], get["arch"]) if value)
    message = f": {shown(line['decision']['error'].get('message'), _MOST_MESSAGE)}" if error else ""
    return (
        f"{shown(line.get('at'))} role {shown(get['role'])}{f', model {shown(model)}' if model else ''}: {what}"
        f"{f', {where}' if where else ''}, rules {shown((get['digest'] or '')[:_SHORT_DIGEST])}{message}\n"
    )


def _as_json(lines: Iterable[str]) -> Iterator[str]:
    yield "["
    for place, text in enumerate(lines):
        yield f"{',' if place else ''}\n{text}"
    yield "\n]\n"


def _as_lines(lines: Iterable[str]) -> Iterator[str]:
    return (f"{text}\n" for text in lines)


def _counts_as_text(counts: list[Count], column: str) -> Iterator[str]:  # noqa: ARG001 - as JSON has it
    width = len(str(max((count for _, count in counts), default=0)))
    return (f"{count:{width}} × {'none' if value is None else shown(value, 120)}\n" for value, count in counts)


def _counts_as_json(counts: list[Count], column: str) -> Iterator[str]:
    return _as_json(_objects(counts, column))


def _counts_as_lines(counts: list[Count], column: str) -> Iterator[str]:
    return _as_lines(_objects(counts, column))


def _objects(counts: list[Count], column: str) -> Iterator[str]:
    return (json.dumps({column: value, "count": count}) for value, count in counts)


_LINES = {"text": _as_text, "json": _as_json, "jsonl": _as_lines}
_COUNTS = {"text": _counts_as_text, "json": _counts_as_json, "jsonl": _counts_as_lines}
