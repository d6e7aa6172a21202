"""How far a Sage kernel is from the definition on this machine, measured when it is bound.

Builds of these packages are known that run and answer wrongly: on one architecture, for the last block of keys, for
causal calls alone. Their error shows on a small input; the rounding to eight or four bits stays well below it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch

from backends.reference import attention

if TYPE_CHECKING:
    from torch import Tensor

    from backends._checks import Bound
    from backends._sage import Run
    from backends.interface import Causal

DENSE = ((130, 66), (3, 5))
"""Queries and keys that leave the last block of each nearly full, or nearly empty."""
CAUSAL = (257, 257)
"""More than two blocks of either size."""


class Errors(NamedTuple):
    """The mean over queries of |output - definition| / |definition|; infinite where an output is not finite."""

    dense: float
    causal: float


def measure(bound: Bound, run: Run) -> Errors:
    """The errors on normal numbers of this geometry; measured once a process, and waited for.

    Raises whatever the package raises.
    """
    return _measured(bound, run)


@cache
def _measured(bound: Bound, run: Run) -> Errors:
    dense = max(_error(bound, run, lengths, None) for lengths in DENSE)
    return Errors(dense, _error(bound, run, CAUSAL, "top_left"))


def _error(bound: Bound, run: Run, lengths: tuple[int, int], causal: Causal | None) -> float:
    geometry = bound.geometry
    generator = torch.Generator().manual_seed(0)

    def normal(length: int, heads: int) -> Tensor:
        made = torch.randn(1, length, heads, geometry.head_dim, generator=generator)
        return made.to(bound.device, bound.dtype)

    queries, keys = lengths
    q, k, v = (normal(*shape) for shape in ((queries, geometry.num_heads), *((keys, geometry.num_kv_heads),) * 2))
    out = run(q, k, v, is_causal=causal is not None, scale=geometry.head_dim**-0.5)
    truth = attention(q, k, v, causal=causal)
    error = ((out.double() - truth).norm(dim=-1) / truth.norm(dim=-1)).mean().item()
    return error if math.isfinite(error) else math.inf
