"""Where in the denoising a call stands: the pipeline says it once a step, kernels with a timestep gate read it.

    for t, sigma in zip(timesteps, sigmas):
        with denoise_step(float(sigma)):
            noise = transformer(...)

The timestep is normalised: 1 at the start, pure noise, and 0 at the end. It is a scheduler's timestep divided by the
number of training timesteps or, under rectified flow, sigma. Each thread has its own.
"""

from __future__ import annotations

import math
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Steps(threading.local):
    """The steps that this thread is in, the innermost last."""

    entered: tuple[float, ...] = ()
    recorded: float | None = None


_STEPS = _Steps()


@contextmanager
def denoise_step(t: float) -> Iterator[None]:
    """Calls inside the block are at timestep `t`; afterwards the thread is where it was, whatever was raised.

    Raises `ValueError` unless `t` is a number from 0 to 1. To be entered around compiled code, not inside it: a kernel
    reads the step when it runs.
    """
    _refuse_traced("denoise_step")
    before = _STEPS.entered
    _STEPS.entered = (*before, _checked(t))
    try:
        yield
    finally:
        _STEPS.entered = before


def record_denoise_step(t: float | None) -> None:
    """For a loop that cannot be wrapped in a block: calls of this thread are at `t` from now on; None forgets it.

    A `denoise_step` block goes before what is recorded. Raises as that does.
    """
    _refuse_traced("record_denoise_step")
    _STEPS.recorded = None if t is None else _checked(t)


def current_timestep() -> float | None:
    """The timestep of this thread, or None where nobody has said it."""
    return _STEPS.entered[-1] if _STEPS.entered else _STEPS.recorded


def _checked(t: object) -> float:
    if isinstance(t, bool) or not isinstance(t, (int, float)) or not (math.isfinite(t) and 0 <= t <= 1):
        raise ValueError(f"`t`: wanted a number from 0 to 1, got {t!r}")
    return float(t)


def _refuse_traced(name: str) -> None:
    if torch.compiler.is_compiling():
        raise RuntimeError(f"`{name}`: wanted a call around compiled code, got one inside it")
