"""What the service answers in a second, and how long one answer takes.

``python -m benchmarks.serve [--quick] [--json FILE] [--compare [FILE]] [--markdown FILE]``. The service runs as a
process with one worker and its log of decisions, callers in this process, on the same machine: sixteen connections kept
alive, each of which asks again once it is answered. In turn with it they ask a FastAPI application that has one route,
reads a JSON body and writes a JSON answer. The lines are those of the conformance cases with facts drawn at random, no
two alike; a batch has 10,000 of their requests with sizes drawn at random, all of them different.
"""

from __future__ import annotations

import asyncio
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


def measure(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - as `figures.main` calls it
    """Measure all of it."""
    rounds, seconds = (3, 2.0) if quick else (9, 5.0)
    raw = [load.request("/v1/decide", json.dumps(line).encode()) for line in load.lines(LINES)]
    batches = [json.dumps(load.batch(REQUESTS, seed)).encode() for seed in range(3)]
    with tempfile.TemporaryDirectory() as folder:
        flags = ("--no-watch", "--log", str(Path(folder) / "log.jsonl"))
        with load.serving(*flags) as (port, process), load.bare() as (other, _):
            asyncio.run(_round(port, raw, 1))  # so that caches are filled
            asyncio.run(_round(other, raw, 1))
            single, bare, many, plain, lost = [], [], [], [], _Lost(port)
            for at in range(rounds):
                bare.append(asyncio.run(_round(other, raw, seconds)))
                single.append(asyncio.run(_round(port, raw, seconds)))
                lost.of_singles(single[-1].answered)
                body = batches[at % len(batches)]
                plain.append(_only_json(body))
                many.append(asyncio.run(_batches(port, body, _BATCHES)))
                lost.of_batches(_BATCHES * REQUESTS)
            held = load.memory(process)
    yield from _singles(single, bare)
    yield from _batched(many, plain)
    yield figure("memory of the service", [held], "MiB")
    yield figure("decisions that the log could not take", lost.singles, "%", most=0)
    yield figure(
        "decisions of batches that the log could not take", lost.batches, "%", note="it holds 20,000 that wait"
    )


class _Lost:
    """How many in a hundred decisions the log could not take."""

    def __init__(self, port: int) -> None:
        """Begin to count."""
        self.port = port
        self.before = load.dropped(port)
        self.singles: list[float] = []
        self.batches: list[float] = []

    def of_singles(self, count: int) -> None:
        """Take down what was lost of so many, one by one."""
        self.singles.append(self._since(count))

    def of_batches(self, count: int) -> None:
        """Take down what was lost of so many in batches."""
        self.batches.append(self._since(count))

    def _since(self, count: int) -> float:
        """Wait until all that the log took is written, so that it is no burden on what is measured next."""
        while load.metric(self.port, "log_queued"):
            time.sleep(0.1)
        before, self.before = self.before, load.dropped(self.port)
        return 100 * (self.before - before) / count


def _singles(single: Sequence[Round], bare: Sequence[Round]) -> Iterator[Figure]:
    base = figure("a bare route", [one.each for one in bare], "ms", note=_rate(one.each for one in bare))
    slow = figure("a bare route, 99 in 100", [one.most for one in bare], "ms")
    yield base
    yield slow
    each = [one.each for one in single]
    yield figure("a decision", each, "ms", most=MOST_SINGLE, note=_rate(each))
    yield figure("a decision, against the bare route", each, "ms", to=base, most=3.5)
    yield figure("a decision, half of them", [one.half for one in single], "ms")
    yield figure("a decision, 99 in 100", [one.most for one in single], "ms", most=MOST_P99)
    yield figure("a decision, 99 in 100, against the bare route", [one.most for one in single], "ms", to=slow)


def _batched(many: Sequence[float], plain: Sequence[float]) -> Iterator[Figure]:
    base = figure("a request as JSON", plain, "µs", note="read and written, in this process")
    yield base
    yield figure("a decision of a batch", many, "µs", to=base, note=_rate(one / 1000 for one in many))


def _rate(milliseconds: Iterator[float] | Sequence[float]) -> str:
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
