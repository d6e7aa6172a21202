"""Torch's operators that give the log-sum-exp beside the output, which its public function does not.

Tensors are `[batch, heads, seq, head_dim]`, with fewer KV heads where several query heads share one. Neither operator
is asked for gradients.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Protocol

import torch
from torch.nn.functional import pad

from backends._lse import without_lse
from backends._memory import readable

if TYPE_CHECKING:
    from torch import Tensor

ATEN = torch.ops.aten
HEAD_DIM_STEP = 8
"""A multiple of which the memory-efficient kernel wants its head_dim to be; zeros fill it up."""
BIAS_STEP = 16
"""The same of the rows of a bias in memory."""
EFFICIENT = (torch.float32, torch.float16, torch.bfloat16)


class LseLaunch(Protocol):
    """One of torch's operators."""

    def __call__(
        self, q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, is_causal: bool, scale: float | None
    ) -> tuple[Tensor, Tensor]:
        """The output, and the log-sum-exp to base e, `[batch, heads, seq_q]`, in float32 or float64.

        A mask, bool or a bias of the query's dtype, is `[batch or 1, heads or 1, seq_q or 1, seq_kv]` or
        `[seq_q, seq_kv]`, and never leaves a query without a key. `is_causal` aligns top left. Raises `CallRefused` for
        tensors that it cannot take.
        """
        ...


def by_device(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """See `LseLaunch`: torch's CPU kernel, or on CUDA its memory-efficient one, which takes every mask."""
    if q.device.type == "cpu":
        bias = _bias(attn_mask, q.dtype)
        out, lse = ATEN._scaled_dot_product_flash_attention_for_cpu(  # noqa: SLF001 - torch's only one
            q, k, v, 0.0, is_causal, attn_mask=bias, scale=scale
        )
        return out, lse
    if q.device.type != "cuda" or q.dtype not in EFFICIENT:
        dtype = str(q.dtype).removeprefix("torch.")
        raise without_lse("TORCH_SDPA", f"{dtype} on `{q.device.type}`, for which torch has no operator that gives it")
    return _efficient(q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale)


def _efficient(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    head_dim, group = q.shape[3], q.shape[1] // k.shape[1]
    scale = head_dim**-0.5 if scale is None else scale
    if group > 1:
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
    missing = -head_dim % HEAD_DIM_STEP
    q, k, v = (readable(pad(x, (0, missing)) if missing else x) for x in (q, k, v))
    bias = _bias(attn_mask, q.dtype)
    if bias is not None:
        rows = pad(bias, (0, -bias.shape[-1] % BIAS_STEP))[..., : bias.shape[-1]]
        bias = rows.expand(*q.shape[:3], k.shape[2])
    out, lse, *_ = ATEN._scaled_dot_product_efficient_attention(  # noqa: SLF001 - as above
        q, k, v, bias, compute_log_sumexp=True, dropout_p=0.0, is_causal=is_causal, scale=scale
    )
    return out[..., :head_dim], lse[..., : q.shape[2]]  # which it fills up to whole blocks of queries


def by_cudnn(
    q: Tensor, k: Tensor, v: Tensor, *, attn_mask: Tensor | None, is_causal: bool, scale: float | None
) -> tuple[Tensor, Tensor]:
    """See `LseLaunch`: cuDNN's kernel, which may give the log-sum-exp with one dimension more."""
    out, lse, *_ = ATEN._scaled_dot_product_cudnn_attention(  # noqa: SLF001 - as above
        readable(q),
        readable(k),
        readable(v),
        _bias(attn_mask, q.dtype),
        compute_log_sumexp=True,
        dropout_p=0.0,
        is_causal=is_causal,
        return_debug_mask=False,
        scale=scale,
    )
    return out, lse.reshape(q.shape[:3])


def _bias(attn_mask: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    """What is added to the scores: the operators take no booleans, and some read them as numbers."""
    if attn_mask is None or attn_mask.dtype != torch.bool:
        return attn_mask
    zeros = torch.zeros(attn_mask.shape, dtype=dtype, device=attn_mask.device)
    return zeros.masked_fill(~attn_mask, -math.inf)
