"""SageAttention 1.0.6 in numbers, without Triton: its signature, its layouts, its rounding and its habits.

Habits: K is changed in place; unknown keywords vanish; the default layout is heads first; three sizes of head; a causal
call wants equal lengths; keys that fill up the last block of 64 have the score zero and count in the denominator.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

from tests.backends.fakes.sage_numbers import LOG2_E, grouped, heads_first, int8_blocks, sum_fp16, top_left

if TYPE_CHECKING:
    from torch import Tensor

BLOCK_Q, BLOCK_K = 128, 64


def sageattn(  # noqa: D103 - the package's own name and order
    q: Tensor,
    k: Tensor,
    v: Tensor,
    tensor_layout: str = "HND",
    is_causal: bool = False,  # noqa: FBT002 - as above
    sm_scale: float | None = None,
    smooth_k: bool = True,  # noqa: FBT002 - as above
    **kwargs: object,
) -> Tensor:
    assert q.dtype in {torch.float16, torch.bfloat16, torch.float32}
    assert q.device == k.device == v.device
    assert q.dtype == k.dtype == v.dtype
    assert q.size(-1) in {64, 96, 128}, "headdim should be in [64, 96, 128]."
    assert q.stride(-1) == 1, "Last dim of qkv must be contiguous."
    assert k.stride(-1) == 1, "Last dim of qkv must be contiguous."
    assert v.stride(-1) == 1, "Last dim of qkv must be contiguous."
    if smooth_k:
        k -= k.mean(dim=1 if tensor_layout == "NHD" else 2, keepdim=True)
    sm_scale = q.size(-1) ** -0.5 if sm_scale is None else sm_scale
    q, k, v = (heads_first(x, tensor_layout) for x in (q, k, v))
    out = _forward(q, k, v.half(), sm_scale, is_causal=is_causal).to(q.dtype)
    return heads_first(out, tensor_layout).contiguous()


def _forward(q: Tensor, k: Tensor, v: Tensor, sm_scale: float, *, is_causal: bool) -> Tensor:
    assert q.shape[2] == k.shape[2] or not is_causal, "qo_len and kv_len must be equal for causal attention"
    tail = (0, 0, 0, -k.shape[2] % BLOCK_K)
    keys = pad(grouped(int8_blocks(k, BLOCK_K), q.shape[1]), tail)
    values = pad(grouped(v, q.shape[1]), tail)
    scores = int8_blocks(q.float() * sm_scale * LOG2_E, BLOCK_Q) @ keys.transpose(2, 3)
    if is_causal:
        scores = top_left(scores)
    p = torch.exp2(scores - scores.amax(dim=-1, keepdim=True))
    return sum_fp16(p, values, BLOCK_K) / p.sum(dim=-1, keepdim=True)


def sageattn_varlen(*args: object, **kwargs: object) -> Tensor:
    """Exported, and called by nothing."""
    raise NotImplementedError


MODULE = SimpleNamespace(sageattn=sageattn, sageattn_varlen=sageattn_varlen)
