"""What a decision costs when a table grows: ten to ten thousand rows, three conditions each, the last row wins.

``python -m benchmarks.grow [--json FILE] [--compare [FILE]] [--markdown FILE]``. The rows before the last one differ in
their third condition, an equality or a lower bound, so that nothing but asking tells that they do not hold. An `if`
chain generated from the same rows is timed in turn.
"""

from __future__ import annotations

import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice

from benchmarks.decide import VOCABULARY, Facts, batch, quartiles
from benchmarks.figures import Figure, main
from selector.rules.deciding import Decider
from selector.rules.vocabulary import Value
from selector.tables import bind, read_table

FACTS: dict[str, Value] = {"sm_major": 9, "cudnn": 91002, "head_dim": 128, "packages.flash-attn": "2.8.3"}
SIZES = (10, 100, 1_000, 10_000)
THREADS = 8


def rows(count: int, kind: str) -> list[dict[str, object]]:
    """Give the rows; `kind` is ``equality`` or ``range``."""
    found: list[dict[str, object]] = []
    for at in range(count - 1):
        third = {"head_dim": 1_000 + at} if kind == "equality" else {"cudnn": {"min": 200_000 + at}}
        when = {"sm_major": 9, "packages.flash-attn": "present", **third}
        found.append({"id": f"r{at}", "when": when, "use": "A", "because": "The table is to be large."})
    return [*found, {"id": "last", "when": {"sm_major": 9}, "use": "B", "because": "The last one holds."}]


def table(count: int, kind: str) -> Decider:
    """Read a table of so many rows."""
    return read_table(VOCABULARY, json.dumps({"table": kind, "requires": [*FACTS], "rows": rows(count, kind)}))


def generated(count: int, kind: str) -> Callable[[Facts], object]:
    """Make an `if` chain of the same rows."""
    lines = ["def decide(f):"]
    for at in range(count - 1):
        third = f"f['head_dim'] == {1_000 + at}" if kind == "equality" else f"f['cudnn'] >= {200_000 + at}"
        lines.append(f" if f['sm_major'] == 9 and f['packages.flash-attn'] is not None and {third}: return 'r{at}'")
    names: dict[str, Callable[[Facts], object]] = {}
    exec("\n".join([*lines, " if f['sm_major'] == 9: return 'last'"]), names)  # noqa: S102
    return names["decide"]


def measure(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - as `main` asks
    """Time every size and kind, then traces, then threads."""
    rounds = 5 if quick else 30
    for kind in ("equality", "range"):
        for count in SIZES:
            yield from sized(count, kind, rounds)
    decider = table(1_000, "range")

    def anew(facts: Facts) -> object:
        decider.forget()
        return decider.steps(facts)

    for name, ask, repeats, most in (
        ("every step of a trace, 1,000 rows", decider.steps, 5, 1_000.0),
        ("the first ten steps, 1,000 rows", lambda facts: list(islice(decider.lazily(facts), 10)), 500, 50.0),
        (
            "every step, met for the first time, 1,000 rows",
            anew,
            1,
            None,
        ),
    ):
        ask(FACTS)
        times = [batch(ask, [FACTS], repeats) for _ in range(rounds)]
        yield Figure(name, "µs", statistics.median(times), *quartiles(times), most=most)
    yield from threads(rounds)


def sized(count: int, kind: str, rounds: int) -> Iterator[Figure]:
    """Time a table of one size, in turn with the generated chain."""
    decider, by_hand = table(count, kind), generated(count, kind)
    decide = decider.bind([row.id for row in decider.table.rows])
    if not decide(FACTS) == by_hand(FACTS) == "last":
        raise ValueError("wanted the last row from both, got another")
    name, many = f"{count:,} rows, {kind}", max(1, 20_000 // count)
    mine, beside = [], []
    for _ in range(rounds):
        beside.append(batch(by_hand, [FACTS], many))
        mine.append(batch(decide, [FACTS], 2_000))
    floor = Figure(f"{name}: a generated `if` chain", "µs", statistics.median(beside), *quartiles(beside))
    ratio = statistics.median(map(float.__truediv__, mine, beside))
    yield Figure(f"{name}: the table", "µs", statistics.median(mine), *quartiles(mine), floor.name, ratio)
    yield floor
    if count == max(SIZES):
        yield Figure(f"{name}: at most", "µs", statistics.median(mine), *quartiles(mine), most=2.0)


def threads(rounds: int) -> Iterator[Figure]:
    """Let eight threads ask one table, checked and explained, and hold every answer."""
    decider = table(1_000, "equality")
    decide = bind(decider, [row.id for row in decider.table.rows])
    asked = [FACTS | {"head_dim": 990 + at} for at in range(64)]
    wanted = [decide(facts) for facts in asked]
    wrong: list[object] = []

    def ask(repeats: int) -> None:
        for _ in range(repeats):
            wrong.extend(facts for facts, row in zip(asked, wanted, strict=True) if decide(facts) != row)
            decider.steps(asked[0])

    alone, together, turns = [], [], 20  # so many that starting a thread takes as good as no time
    for _ in range(rounds):
        start = time.perf_counter()
        ask(THREADS * turns)
        alone.append((time.perf_counter() - start) * 1e6 / THREADS / turns / len(asked))
        workers = [threading.Thread(target=ask, args=(turns,)) for _ in range(THREADS)]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        together.append((time.perf_counter() - start) * 1e6 / THREADS / turns / len(asked))
    if wrong:
        raise ValueError(f"wanted the same answer from every thread, got another for {wrong[0]}")
    one = Figure("64 decisions and a trace, one thread", "µs", statistics.median(alone), *quartiles(alone))
    ratio = statistics.median(map(float.__truediv__, together, alone))
    yield one
    yield Figure(
        "the same shared by eight threads",
        "µs",
        statistics.median(together),
        *quartiles(together),
        one.name,
        ratio,
        1.5,
    )


if __name__ == "__main__":
    sys.exit(main("grow", "What a decision costs as a table grows", measure))
