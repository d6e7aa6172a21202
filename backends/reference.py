"""Attention in float64, straight from its definition: what every kernel is compared with.

Source: Vaswani et al., "Attention Is All You Need" (2017), equation 1: softmax(Q Kᵀ / sqrt(d_k)) V. A mask hides scores
before the softmax; a query that may see no key yields zeros. It shares no mask arithmetic with any kernel.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from backends.masks import (
    Additive,
    AllKeep,
    BlockDiagonal,
    BooleanPerQuery,
    KeyAndQueryPadding,
    KeyLengths,
    KeyPadding,
    NoMask,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask

SCORES_AT_ONCE = 2**25
"""How many scores are held at a time: 256 MiB of float64."""


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None = None,
    causal: Causal | None = None,
    scale: float | None = None,
    scores_at_once: int = SCORES_AT_ONCE,
) -> Tensor:
    """The output in float64, `[batch, seq_q, heads, head_dim]`, for `Kernel`'s arguments of any dtype, on their device.

    Queries are taken a chunk at a time, `scores_at_once` scores or one query, so that long sequences fit. The arguments
    are trusted to fit each other.
    """
    values = _each_head(v, q.shape[2] // k.shape[2])
    out = torch.empty(q.shape, dtype=torch.float64, device=q.device)
    for rows, scores in _scores(q, k, Sight(mask, causal, scale), scores_at_once):
        out[:, rows] = (_softmax(scores) @ values).transpose(1, 2)
    return out


def log_sum_exp(
    q: Tensor,
    k: Tensor,
    *,
    mask: Mask | None = None,
    causal: Causal | None = None,
    scale: float | None = None,
    scores_at_once: int = SCORES_AT_ONCE,
) -> Tensor:
    """The log-sum-exp of `LseKernel.with_lse` in float64, `[batch, heads, seq_q]`; the arguments as in `attention`."""
    lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), -math.inf, dtype=torch.float64, device=q.device)
    for rows, scores in _scores(q, k, Sight(mask, causal, scale), scores_at_once):
        lse[:, :, rows] = torch.logsumexp(scores, dim=-1)
    return lse


class Sight(NamedTuple):
    """What a query sees of the keys, and how their products are scaled."""

    mask: Mask | None
    causal: Causal | None
    scale: float | None


def _each_head(tensor: Tensor, group: int) -> Tensor:
    """`[batch, heads, seq, head_dim]` in float64, each KV head for its group of query heads."""
    return tensor.double().transpose(1, 2).repeat_interleave(group, dim=1)


def _scores(q: Tensor, k: Tensor, sight: Sight, at_once: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Some queries at a time, and their scores `[batch, heads, queries, keys]`: hidden ones are -inf."""
    keys = _each_head(k, q.shape[2] // k.shape[2])
    factor = q.shape[3] ** -0.5 if sight.scale is None else sight.scale
    chunk = max(1, at_once // max(1, q.shape[0] * q.shape[2] * k.shape[1]))
    for start in range(0, q.shape[1], chunk):
        rows = torch.arange(start, min(start + chunk, q.shape[1]), device=q.device)
        scores = q[:, rows].double().transpose(1, 2) @ keys.transpose(2, 3) * factor
        scores = _masked(scores, rows, sight.mask)
        if sight.causal is not None:
            reach = rows if sight.causal == "top_left" else rows + k.shape[1] - q.shape[1]
            above = torch.arange(k.shape[1], device=q.device) > reach[:, None]
            scores = torch.where(above, -math.inf, scores)
        yield rows, scores


def _softmax(scores: Tensor) -> Tensor:
    """Over the last dimension, with zeros where every score is -inf."""
    weights = torch.softmax(scores, dim=-1)
    return torch.where(scores.isneginf().all(dim=-1, keepdim=True), 0.0, weights)


def _masked(scores: Tensor, rows: Tensor, mask: Mask | None) -> Tensor:
    """`scores` `[batch, heads, rows, keys]` of the queries `rows`: hidden ones at -inf, or with the bias added."""
    match mask:
        case None | NoMask() | AllKeep():
            return scores
        case Additive():
            bias = mask.bias if mask.bias.shape[2] == 1 else mask.bias[:, :, rows]
            return scores + bias.double()
        case KeyLengths() | BlockDiagonal():
            hidden = _hidden_by_lengths(scores, rows, mask)
        case KeyPadding():
            hidden = torch.logical_not(mask.keep)[:, None, None, :]
        case KeyAndQueryPadding():
            hidden = torch.logical_not(mask.keep_k[:, None, :] * mask.keep_q[:, rows, None])[:, None]
        case BooleanPerQuery():
            hidden = torch.logical_not(mask.keep[:, :, rows])
        case _:
            raise TypeError(f"`mask`: wanted one of the kinds of `backends.masks`, got {mask!r}")
    return torch.where(hidden, float("-inf"), scores)


def _hidden_by_lengths(scores: Tensor, rows: Tensor, mask: KeyLengths | BlockDiagonal) -> Tensor:
    """Bool like `scores`, filled batch by batch or document by document."""
    hidden = torch.ones_like(scores, dtype=torch.bool)
    if isinstance(mask, KeyLengths):
        for i in range(scores.shape[0]):
            length = mask.lengths if isinstance(mask.lengths, int) else mask.lengths[i]
            hidden[i, :, :, :length] = False
        return hidden
    start_q = start_k = 0
    for length_q, length_k in zip(mask.lengths_q, mask.lengths_k, strict=True):
        own = (rows >= start_q) & (rows < start_q + length_q)
        hidden[:, :, own, start_k : start_k + length_k] = False
        start_q, start_k = start_q + length_q, start_k + length_k
    return hidden
