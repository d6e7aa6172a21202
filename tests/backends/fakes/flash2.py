"""`flash_attn` 2.8 in signature and habit: dropout is the fourth argument, and one tensor comes back.

The logarithm of a query's weights is inf, and not -inf, where it sees no key.
"""
# ruff: noqa: FBT002 - the signatures are the package's

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from tests.backends.fakes import flash_numeric

if TYPE_CHECKING:
    from torch import Tensor

__version__ = "2.8.3"


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """`[batch, seq, heads, head_dim]`."""
    out, lse = flash_numeric.dense(q, k, v, softmax_scale, causal=causal)
    return answer(out, lse, dropout_p, return_attn_probs)


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    dropout_p: float = 0.0,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int, int] = (-1, -1),
    softcap: float = 0.0,
    alibi_slopes: Tensor | None = None,
    deterministic: bool = False,
    return_attn_probs: bool = False,
    block_table: Tensor | None = None,
) -> Tensor | tuple[Tensor, Tensor, None]:
    """`[tokens, heads, head_dim]`."""
    offsets, longest = (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k)
    out, lse = flash_numeric.varlen(q, k, v, offsets, longest, softmax_scale, causal=causal)
    return answer(out, lse, dropout_p, return_attn_probs)


def answer(out: Tensor, lse: Tensor, dropout_p: float, probabilities: bool) -> Tensor | tuple[Tensor, Tensor, None]:
    """With dropout something else, as visibly as can be."""
    out = torch.nn.functional.dropout(out, dropout_p) if dropout_p else out
    return (out, lse.masked_fill(lse.isneginf(), float("inf")), None) if probabilities else out
