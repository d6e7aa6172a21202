"""`flash_attn` 2.6 in signature and habit: dropout is the fourth argument, and one tensor comes back.

The logarithms of a packed call are not packed: `[sequences, heads, longest]`, and 0 behind the end of a sequence.
"""
# ruff: noqa: FBT002 - the signatures are the package's

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import torch

from tests.backends.fakes import flash_numeric
from tests.backends.fakes.flash2 import answer, flash_attn_func

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["flash_attn_func", "flash_attn_varlen_func"]
__version__ = "2.6.3"


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
    padded = torch.zeros(len(cu_seqlens_q) - 1, q.shape[1], max_seqlen_q)
    for i, (start, end) in enumerate(pairwise(cu_seqlens_q.tolist())):
        padded[i, :, : end - start] = lse[:, start:end]
    return answer(out, padded, dropout_p, return_attn_probs)
