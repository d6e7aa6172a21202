"""Timing of calls on a GPU or the CPU: medians after warm-up."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import NamedTuple


class Timing(NamedTuple):
    """Milliseconds: the median, and the quartiles around it."""

    median: float
    low: float
    high: float


def measure(call: Callable[[], object], *, repeats: int = 20, warm_ups: int = 3) -> Timing:
    """Time a call; on a GPU by its own events."""
    import torch

    for _ in range(warm_ups):
        call()
    times = [_gpu(call) if torch.cuda.is_available() else _cpu(call) for _ in range(repeats)]
    low, median, high = statistics.quantiles(times, n=4)
    return Timing(median, low, high)


def _gpu(call: Callable[[], object]) -> float:
    import torch

    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end))


def _cpu(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1e3
