"""What a decision by table costs, against an `if` chain that is written by hand, in one process.

``python -m benchmarks.decide [--json FILE] [--compare [FILE]] [--markdown FILE]``. One ordered table of nine rows (the
defaults of CUDA machines) is asked about 64 situations, by the chain, by the bound table, by the bound table with its
facts checked, by the walker that defines what the table says, and with every step of the trace made. All give the same
answers before anything is timed. Each is timed in turn with the chain, and its ratio is the median of the paired ones.
``benchmarks/peers.py`` has the same table function as a plug-in for a benchmark of other engines.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

from benchmarks.figures import Figure, main
from selector.rules.walk import first
from selector.tables import bind, read_table

Facts = Mapping[str, Any]
Decide = Callable[[Facts], object]
SITUATIONS = 64
PACKAGES = ("flashinfer", "flash-attn", "flash-attn-4")
VOCABULARY = json.dumps({
    "facts": {
        **{
            name: {"type": "integer", "group": "machine", "about": "A number of the machine."}
            for name in ("sm_major", "sm_minor", "cudnn", "head_dim")
        },
        "mask_free": {"type": "boolean", "group": "request", "about": "Whether there is no mask."},
    },
    "packages": {name: {"distributions": [name], "about": "A package of kernels."} for name in PACKAGES},
})  # fmt: skip
TABLE = """
table: defaults
requires:
  [sm_major, sm_minor, cudnn, head_dim, mask_free, packages.flashinfer, packages.flash-attn, packages.flash-attn-4]
rows:
  - id: blackwell-trtllm
    when: {sm_major: 10, sm_minor: [0, 3], packages.flashinfer: present, head_dim: 128, mask_free: true}
    use: TRTLLM_ATTN
    because: It is the fastest where there is no mask.
  - {id: blackwell-cudnn, when: {sm_major: [10, 12], cudnn: {min: 90500}}, use: CUDNN_ATTN, because: It takes masks.}
  - id: blackwell-flashinfer
    when: {sm_major: [10, 12], packages.flashinfer: present, cudnn: {max: 90499}}
    use: FLASHINFER_ATTN
    because: Such a cuDNN is too old.
  - id: blackwell-flash
    when: {sm_major: [10, 12], packages.flash-attn-4: present}
    use: FLASH_ATTN
    because: Neither is there.
  - {id: blackwell-torch, when: {sm_major: [10, 12]}, use: TORCH_SDPA, because: Nothing else is there.}
  - id: hopper-flash
    when: {sm_major: 9, packages.flash-attn: present}
    use: FLASH_ATTN
    because: It is made for Hopper.
  - id: ada-flash
    when: {sm_major: 8, sm_minor: [0, 6, 9], packages.flash-attn: present}
    use: FLASH_ATTN
    because: It is built for these.
  - {id: older-torch, when: {sm_major: [8, 9]}, use: TORCH_SDPA, because: Nothing else is there.}
  - {id: last, use: TORCH_SDPA, because: It runs everywhere.}
"""


def chain(f: Facts) -> str:  # noqa: PLR0911 - as is this
    """Decide by hand, as one would write it."""
    major = f["sm_major"]
    if (
        major == 10  # noqa: PLR2004 - what hand-written code looks like
        and f["sm_minor"] in (0, 3)
        and f["packages.flashinfer"] is not None
        and f["head_dim"] == 128  # noqa: PLR2004
        and f["mask_free"]
    ):
        return "blackwell-trtllm"
    if major == 10 or major == 12:  # noqa: PLR1714, PLR2004
        cudnn = f["cudnn"]
        if cudnn >= 90500:  # noqa: PLR2004
            return "blackwell-cudnn"
        if f["packages.flashinfer"] is not None:
            return "blackwell-flashinfer"
        if f["packages.flash-attn-4"] is not None:
            return "blackwell-flash"
        return "blackwell-torch"
    if major == 9 and f["packages.flash-attn"] is not None:  # noqa: PLR2004
        return "hopper-flash"
    if major == 8 and f["sm_minor"] in (0, 6, 9) and f["packages.flash-attn"] is not None:  # noqa: PLR2004
        return "ada-flash"
    if major == 8 or major == 9:  # noqa: PLR1714, PLR2004
        return "older-torch"
    return "last"


def situations(seed: int = 64) -> list[dict[str, Any]]:
    """Draw different facts, so that every row is the answer for four of them at least."""
    dice = Random(seed)  # noqa: S311 - no secret
    found: dict[tuple[object, ...], dict[str, Any]] = {}
    hits: dict[str, int] = {}
    while len(found) < SITUATIONS or min(hits.values()) < 4 or len(hits) < 9:  # noqa: PLR2004
        major, minor = dice.choice([(10, 0), (10, 3), (12, 0), (12, 1), (9, 0), (8, 9), (8, 6), (8, 0), (8, 7), (7, 5)])
        facts = {
            "sm_major": major, "sm_minor": minor, "cudnn": dice.choice([0, 80902, 90400, 90500, 91002]),
            "head_dim": dice.choice([64, 96, 128]), "mask_free": dice.random() < 0.5,  # noqa: PLR2004
            **{f"packages.{name}": dice.choice(["1.0", None]) for name in PACKAGES},
        }  # fmt: skip
        row = chain(facts)
        if tuple(facts.values()) not in found and (hits.get(row, 0) < 4 or (len(hits) == 9 and min(hits.values()) > 3)):  # noqa: PLR2004
            found[tuple(facts.values())] = facts
            hits[row] = hits.get(row, 0) + 1
    return list(found.values())


def measure(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - as `main` asks
    """Time everything in turn with the chain."""
    rounds = 10 if quick else 60
    asked = situations()
    decider = read_table(VOCABULARY, TABLE)
    names = [row.id for row in decider.table.rows]
    bound, checked, steps = decider.bind(names), bind(decider, names), decider.steps

    def forgetful(facts: Facts) -> object:
        decider.forget()
        return steps(facts)

    def walked(facts: Facts) -> object:
        row = first(decider.table, facts, {})
        return row and row.id

    def traced(facts: Facts) -> object:
        return next(step.row.id for step in steps(facts) if step.outcome == "chosen")

    rows: list[tuple[str, Decide, float | None]] = [
        ("the table, bound", bound, 1.0),
        ("the table, bound, its facts checked", checked, 3.0),
        ("the table, walked", walked, None),
    ]
    for _, decide, _ in [*rows, ("", traced, None)]:
        wrong = [facts for facts in asked if decide(facts) != chain(facts)]
        if wrong:
            raise ValueError(f"wanted the answers of the chain, got others for {wrong[0]}")
    floors = []
    for name, decide, most in rows:
        mine, own = paired(chain, decide, asked, rounds)
        floors += own
        yield Figure(
            name, "µs", statistics.median(mine), *quartiles(mine), "an `if` chain by hand",
            statistics.median(map(float.__truediv__, mine, own)), most,
        )  # fmt: skip
    yield Figure("an `if` chain by hand", "µs", statistics.median(floors), *quartiles(floors))
    times = [batch(traced, asked, 20) for _ in range(rounds)]
    yield Figure("every step of the trace, wanted and got", "µs", statistics.median(times), *quartiles(times), most=4.0)
    times = [batch(forgetful, asked, 1) for _ in range(rounds)]
    yield Figure("the same, met for the first time", "µs", statistics.median(times), *quartiles(times))


def paired(one: Decide, other: Decide, asked: Sequence[Facts], rounds: int) -> tuple[list[float], list[float]]:
    """Time the second in turn with the first; gives the times of the second, and those of the first beside them."""
    once = max(batch(other, asked, 1), 0.01)
    repeats = max(1, min(300, int(2_000 / once / len(asked))))
    times, beside = [], []
    for _ in range(rounds):
        before = batch(one, asked, 100)
        times.append(batch(other, asked, repeats))
        beside.append((before + batch(one, asked, 100)) / 2)
    return times, beside


def batch(decide: Decide, asked: Sequence[Facts], repeats: int) -> float:
    """Give the microseconds of one decision."""
    start = time.perf_counter()
    for _ in range(repeats):
        for facts in asked:
            decide(facts)
    return (time.perf_counter() - start) * 1e6 / repeats / len(asked)


def quartiles(times: Sequence[float]) -> tuple[float, float]:
    """Give the lower and the upper one."""
    low, _, high = statistics.quantiles(times, n=4)
    return low, high


if __name__ == "__main__":
    sys.exit(main("decide", "What a decision costs", measure))
