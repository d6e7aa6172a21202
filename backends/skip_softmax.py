"""Skip-Softmax: which factor a kernel is given at a call, and what it then computes, in plain torch and tile by tile.

Sources. The streaming softmax: Dao et al., "FlashAttention" (2022), algorithm 1. Skipping: Yuan et al., "BLASST:
Dynamic BLocked Attention Sparsity via Softmax Thresholding" (2025, arXiv 2512.12087), and the documentation of
FlashInfer's `skip_softmax_threshold_scale_factor`.

Keys are read a tile at a time, and each query keeps its largest score m, the sum l of exp(score - m) and the sum O of
exp(score - m) · value. With t the largest score that a query has in the next tile, exp(t - m) bounds the weight of
every key in it. The tile is skipped, which leaves l and O as they are, where exp(t - m) < λ for each query of a tile of
queries. Scores are always computed, so at most about half of the work goes.

A kernel takes a factor F, and λ = F / (number of keys). `threshold` gives F = threshold · keys, so that λ is the
threshold at any length; `target_sparsity` gives F = a · exp(b · target_sparsity) with calibrated a and b.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

from backends.calibration import Curve
from backends.masks import causal_keep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from torch import Tensor

    from backends.interface import Causal

TILE = 128
"""Keys, and here queries too, in a tile: the kernel's for a head_dim of 128."""


@dataclass(frozen=True, slots=True)
class SkipSoftmax:
    """When tiles are skipped: from a threshold, or from a target sparsity with its curve, and from which timestep on.

    Without either of them, or with a target sparsity and no curve, nothing is skipped.
    """

    threshold: float | None = None
    target_sparsity: float | None = None
    curve: Curve | None = None
    disabled_until_timestep: float = 0.0

    @property
    def enabled(self) -> bool:
        """Whether any tile may be skipped at any time."""
        return self.scale_factor(1) is not None

    @property
    def gated(self) -> bool:
        """Whether the timestep decides; 0 does not mean that it must be 0, but that nobody looks at it."""
        return self.enabled and self.disabled_until_timestep > 0

    def open_at(self, t: float | None) -> bool:
        """Whether the gate lets tiles be skipped at timestep `t`: from `disabled_until_timestep` downwards."""
        return not self.gated or (t is not None and t <= self.disabled_until_timestep)

    def scale_factor(self, max_seq_len_kv: int) -> float | None:
        """The kernel's factor for sequences of at most so many keys, gate apart; None for a dense call."""
        if self.threshold is not None:
            return self.threshold * max_seq_len_kv if self.threshold > 0 else None
        if self.target_sparsity is None or self.curve is None:
            return None
        return self.curve.scale_factor(self.target_sparsity) or None


def dense_steps(timesteps: Iterable[float], disabled_until_timestep: float) -> int:
    """How many of the steps of a schedule a gate keeps dense."""
    skip = SkipSoftmax(threshold=1.0, disabled_until_timestep=disabled_until_timestep)
    return sum(not skip.open_at(t) for t in timesteps)


class Skipped(NamedTuple):
    """An output with what was skipped for it."""

    out: Tensor
    """Float64, `[batch, seq_q, heads, head_dim]`."""
    tiles: int
    """Tiles that were looked at: of queries × of keys × heads × batches."""
    skipped: int

    @property
    def sparsity(self) -> float:
        """The achieved sparsity: the share of the tiles that were skipped."""
        return self.skipped / self.tiles if self.tiles else 0.0


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    factor: float | None,
    causal: Causal | None = None,
    scale: float | None = None,
    tile: int = TILE,
) -> Skipped:
    """What a kernel computes that is given `factor` (None and 0 skip nothing); the tensors are `Kernel`'s.

    In float64, on the device of the tensors. Tiles that a causal diagonal hides whole are not looked at.
    """
    group = q.shape[2] // k.shape[2]
    keys, values = (x.double().transpose(1, 2).repeat_interleave(group, dim=1)[:, :, None] for x in (k, v))
    queries = q.double().transpose(1, 2) * (q.shape[3] ** -0.5 if scale is None else scale)
    stream = _Stream.over(
        _in_tiles(queries, 2, tile), _in_tiles(torch.ones(q.shape[1], 1, device=q.device), 0, tile) > 0
    )
    keep = None if causal is None else _in_tiles(causal_keep(q.shape[1], k.shape[1], causal, device=q.device), 0, tile)
    threshold = (factor or 0.0) / max(1, k.shape[1])
    for first in range(0, k.shape[1], tile):
        columns = slice(first, first + tile)
        seen = None if keep is None else keep[..., columns]
        stream.read(keys[..., columns, :], values[..., columns, :], seen, threshold)
    out = stream.output().flatten(2, 3)[:, :, : q.shape[1]]
    return Skipped(out.transpose(1, 2), stream.tiles, stream.skipped)


def _in_tiles(tensor: Tensor, dim: int, tile: int) -> Tensor:
    """The dimension as tiles of rows, the last one filled up with zeros."""
    filled = torch.nn.functional.pad(tensor, [0, 0] * (tensor.dim() - dim - 1) + [0, -tensor.shape[dim] % tile])
    return filled.reshape(*filled.shape[:dim], filled.shape[dim] // tile, tile, *filled.shape[dim + 1 :])


@dataclass(slots=True)
class _Stream:
    """Tiles of queries, `[batch, heads, tiles, rows, head_dim]`, scaled, and what each gathered of the keys so far."""

    queries: Tensor
    real: Tensor
    """Bool `[tiles, rows, 1]`: rows that are queries, and do not merely fill up the last tile."""
    largest: Tensor
    total: Tensor
    weighted: Tensor
    tiles: int = 0
    skipped: int = 0

    @classmethod
    def over(cls, queries: Tensor, real: Tensor) -> _Stream:
        """Nothing gathered yet."""
        nothing = queries.new_zeros((*queries.shape[:4], 1))
        return cls(queries, real, torch.full_like(nothing, float("-inf")), nothing, torch.zeros_like(queries))

    def read(self, keys: Tensor, values: Tensor, seen: Tensor | None, threshold: float) -> None:
        """Takes in one tile of keys where it is not skipped; `seen` is bool `[tiles, rows, keys]`."""
        scores = self.queries @ keys.transpose(3, 4)
        scores = scores if seen is None else scores.masked_fill(~seen, float("-inf"))
        tile_largest = scores.amax(dim=-1, keepdim=True)
        skip = self._skips(tile_largest, threshold)
        largest = torch.where(skip, self.largest, torch.maximum(self.largest, tile_largest))
        shift = torch.where(largest.isneginf(), 0.0, largest)
        weights = torch.where(skip, 0.0, (scores - shift).exp())
        kept = (self.largest - shift).exp()
        self.total = self.total * kept + weights.sum(dim=-1, keepdim=True)
        self.weighted = self.weighted * kept + weights @ values
        self.largest = largest
        looked_at = torch.ones_like(skip) if seen is None else seen.any(dim=(-2, -1), keepdim=True).expand_as(skip)
        self.tiles += int(looked_at.sum())
        self.skipped += int((skip & looked_at).sum())

    def _skips(self, tile_largest: Tensor, threshold: float) -> Tensor:
        """Bool `[batch, heads, tiles, 1, 1]`: every query of a tile has only negligible weights for these keys."""
        negligible = (tile_largest - self.largest).exp() < threshold
        negligible |= tile_largest.isneginf() & (threshold > 0)
        return (negligible | ~self.real).all(dim=3, keepdim=True)

    def output(self) -> Tensor:
        """The attention of these queries; zeros for one that has seen no key."""
        return torch.where(self.total > 0, self.weighted / self.total, 0.0)
