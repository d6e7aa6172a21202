"""What the service answers in a second, and how long one answer takes.

``python -m benchmarks.serve [--quick] [--json FILE] [--compare [FILE]] [--markdown FILE]``. The service runs as a
process with one worker and its log of decisions, by JSON lines and by SQLite, callers in this process, on the same
machine: sixteen connections kept alive, each of which asks again once it is answered. In turn with it they ask a
FastAPI application that has one route, reads a JSON body and writes a JSON answer. The lines are those of the
conformance cases with facts drawn at random, no two alike; a batch has 10,000 of their requests with sizes drawn at
random, all of them different.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

from benchmarks import load
from benchmarks.figures import Figure, figure, main

LINES = 20_000
REQUESTS = 10_000
_BATCHES = 5
MOST_SINGLE = 0.4
"""Milliseconds a decision: 2,500 a second."""
MOST_P99 = 25.0


class Round(NamedTuple):
    """Milliseconds: for each answer of those that were given together, and what half and 99 in 100 took at most."""

    each: float
    half: float
    most: float
    answered: int


class _Logged:
    """A service with a log of one kind: what it took, and how many in a hundred decisions its log could not take."""

    def __init__(self, port: int) -> None:
        """Begin to count."""
        self.port = port
        self.dropped = load.dropped(port)
        self.single: list[Round] = []
        self.many: list[float] = []
        self.lost: list[float] = []
        self.lost_of_many: list[float] = []

    def ask(self, raw: Sequence[bytes], seconds: float, body: bytes) -> None:
        """Ask for decisions one by one for so long, then for some batches."""
        self.single.append(asyncio.run(_round(self.port, raw, seconds)))
        self.lost.append(self._lost(self.single[-1].answered))
        self.many.append(asyncio.run(_batches(self.port, body, _BATCHES)))
        self.lost_of_many.append(self._lost(_BATCHES * REQUESTS))

    def _lost(self, count: int) -> float:
        """Wait until all that the log took is written, so that it is no burden on what is measured next."""
        while load.metric(self.port, "log_queued"):
            time.sleep(0.1)
        before, self.dropped = self.dropped, load.dropped(self.port)
        return 100 * (self.dropped - before) / count


def measure(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - as `figures.main` calls it
    """Measure all of it."""
    rounds, seconds = (3, 2.0) if quick else (9, 5.0)
    raw = [load.request("/v1/decide", json.dumps(line).encode()) for line in load.lines(LINES)]
    batches = [json.dumps(load.batch(REQUESTS, seed)).encode() for seed in range(3)]
    bare, plain = [], []
    with contextlib.ExitStack() as kept:
        folder = kept.enter_context(tempfile.TemporaryDirectory())
        files = [str(Path(folder) / name) for name in ("log.jsonl", "log.sqlite")]
        (port, process), (port_of_rows, _) = (
            kept.enter_context(load.serving("--no-watch", "--log", file)) for file in files
        )
        other, _ = kept.enter_context(load.bare())
        lines, rows = _Logged(port), _Logged(port_of_rows)
        for one in (port, port_of_rows, other):
            asyncio.run(_round(one, raw, 1))  # so that caches are filled
        for at in range(rounds):
            body = batches[at % len(batches)]
            plain.append(_only_json(body))
            bare.append(asyncio.run(_round(other, raw, seconds)))
            lines.ask(raw, seconds, body)
            rows.ask(raw, seconds, body)
        held = load.memory(process)
    bases = (
        figure("a bare route", [one.each for one in bare], "ms", note=_rate([one.each for one in bare])),
        figure("a bare route, 99 in 100", [one.most for one in bare], "ms"),
        figure("a request as JSON", plain, "µs", note="read and written, in this process"),
    )
    yield from bases
    yield from _told(lines, bases, most=0)
    yield figure("memory of the service", [held], "MiB")
    yield from _told(rows, bases, ", logged by SQLite")


def _told(
    found: _Logged, bases: tuple[Figure, Figure, Figure], how: str = "", most: float | None = None
) -> Iterator[Figure]:
    base, slow, read = bases
    each, half = [one.each for one in found.single], [one.half for one in found.single]
    slowest = [one.most for one in found.single]
    rate = _rate([one / 1000 for one in found.many])
    yield figure(f"a decision{how}", each, "ms", most=MOST_SINGLE, note=_rate(each))
    yield figure(f"a decision{how}, against the bare route", each, "ms", to=base, most=3.5)
    yield figure(f"a decision{how}, half of them", half, "ms")
    yield figure(f"a decision{how}, 99 in 100", slowest, "ms", most=MOST_P99)
    yield figure(f"a decision{how}, 99 in 100, against the bare route", slowest, "ms", to=slow)
    yield figure(f"decisions that the log could not take{how}", found.lost, "%", most=0)
    yield figure(f"a decision of a batch{how}", found.many, "µs", to=read, note=rate)
    yield figure(f"decisions of batches that the log could not take{how}", found.lost_of_many, "%", most=most)


def _rate(milliseconds: Sequence[float]) -> str:
    return f"{1000 / statistics.median(milliseconds):,.0f} a second"


async def _round(port: int, raw: Sequence[bytes], seconds: float) -> Round:
    """Ask for so long over all connections."""
    taken: list[float] = []
    requests = cycle(raw)
    start = time.perf_counter()
    end = start + seconds

    async def ask() -> None:
        caller = load.Caller(port)
        while time.perf_counter() < end:
            answer = await caller.send(next(requests))
            if answer.status != 200:  # noqa: PLR2004 - OK
                raise SystemExit(f"status {answer.status}: {answer.body.decode()}")
            taken.append(answer.seconds * 1000)
        caller.close()

    await asyncio.gather(*(ask() for _ in range(load.CONNECTIONS)))
    passed = time.perf_counter() - start
    cuts = statistics.quantiles(taken, n=100)
    return Round(passed / len(taken) * 1000, cuts[49], cuts[98], len(taken))


async def _batches(port: int, body: bytes, count: int) -> float:
    """Give the microseconds of one decision of some batches, one after the other."""
    caller = load.Caller(port)
    raw = load.request("/v1/decide", body)
    start = time.perf_counter()
    for _ in range(count):
        answer = await caller.send(raw)
        if answer.status != 200:  # noqa: PLR2004 - OK
            raise SystemExit(f"status {answer.status}: {answer.body.decode()}")
    passed = time.perf_counter() - start
    caller.close()
    if len(json.loads(answer.body)["decisions"]) != REQUESTS:
        raise SystemExit("a request has no answer")
    return passed / count / REQUESTS * 1e6


def _only_json(body: bytes) -> float:
    """Give the microseconds that the standard library takes to read a request and write it again."""
    start = time.perf_counter()
    json.dumps(json.loads(body))
    return (time.perf_counter() - start) / REQUESTS * 1e6


if __name__ == "__main__":
    sys.exit(main("serve", "The service", measure))
