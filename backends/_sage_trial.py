"""How far a Sage kernel is from the definition on this machine, measured when it is bound.

Builds of these packages are known that run and answer wrongly: on one architecture, for the last block of keys, for
causal calls alone. Their error shows on a small input; the rounding to eight or four bits stays well below it.
"""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

import torch

from backends._sage import LseRun
from backends.reference import attention, log_sum_exp

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends._checks import Bound
    from backends._sage import Run
    from backends.interface import Causal

DENSE = ((130, 66), (3, 5))
"""Queries and keys that leave the last block of each nearly full, or nearly empty."""
CAUSAL = (257, 257)
"""More than two blocks of either size."""
WHOLE = (66, 128)
"""A whole block of keys, of either size."""


class Errors(NamedTuple):
    """The mean over queries of |output - definition| / |definition|; infinite where an output is not finite."""

    dense: float
    causal: float
    lse: float = 0.0
    """The largest difference of a log-sum-exp from the definition's; 0 where a run gives none."""


def measure(bound: Bound, run: Run) -> Errors:
    """The errors on normal numbers of this geometry; measured once a process, and waited for.

    Raises whatever the package raises.
    """
    return _measured(bound, run)


@cache
def _measured(bound: Bound, run: Run) -> Errors:
    dense = max(_error(bound, run, lengths, None) for lengths in DENSE)
    lse = _lse_error(bound, run.with_lse) if isinstance(run, LseRun) else 0.0
    return Errors(dense, _error(bound, run, CAUSAL, "top_left"), lse)


def _error(bound: Bound, run: Run, lengths: tuple[int, int], causal: Causal | None) -> float:
    geometry = bound.geometry
    q, k, v = _normals(bound, lengths)
    out = run(q, k, v, is_causal=causal is not None, scale=geometry.head_dim**-0.5)
    truth = attention(q, k, v, causal=causal)
    error = ((out.double() - truth).norm(dim=-1) / truth.norm(dim=-1)).mean().item()
    return error if math.isfinite(error) else math.inf


def _lse_error(bound: Bound, with_lse: Callable[..., tuple[Tensor, Tensor]]) -> float:
    """Of whole blocks of keys with a mean, which a package takes off by itself."""
    q, k, v = _normals(bound, WHOLE)
    k = k + 1
    _, lse = with_lse(q, k, v, is_causal=False, scale=bound.geometry.head_dim**-0.5)
    error = (lse.double() - log_sum_exp(q, k)).abs().max().item()
    return error if math.isfinite(error) else math.inf


def _normals(bound: Bound, lengths: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value of one batch, the same each time."""
    geometry = bound.geometry
    generator = torch.Generator().manual_seed(0)

    def normal(length: int, heads: int) -> Tensor:
        made = torch.randn(1, length, heads, geometry.head_dim, generator=generator)
        return made.to(bound.device, bound.dtype)

    queries, keys = lengths
    q = normal(queries, geometry.num_heads)
    return q, normal(keys, geometry.num_kv_heads), normal(keys, geometry.num_kv_heads)
