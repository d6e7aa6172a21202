"""SageAttention 2.2 in numbers, without CUDA: its signature, its dispatch by architecture, its rounding and its habits.

Habits: sizes of head are filled up to 64 or 128, and more is a `ValueError`, as is an architecture without a kernel;
unknown keywords vanish; the current device is set and left so; a causal call is aligned top left whatever the lengths;
the logarithm of the weights is natural. At the last block of keys, if it is not full: values read past the end of
`sm80`'s tile are whatever was there, here NaN; `sm86`'s kernel counts the missing keys with the score zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

from tests.backends.fakes.sage_numbers import (
    E4M3_MOST,
    LOG2_E,
    e4m3,
    grouped,
    heads_first,
    int8_blocks,
    sum_fp16,
    top_left,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

BLOCK_Q = 32
BLOCKS_K = {"sm80": 64, "sm86": 64, "sm89": 64, "sm90": 128, "sm120": 64, "sm121": 64}
HALF_VALUES = {"sm80", "sm86"}


@dataclass(frozen=True)
class Sage2:
    """The package on one architecture; `set_device` makes a device the current one.

    Releases that do not `correct` it give the logarithm of the weights of keys without their mean.
    """

    arch: str = "sm90"
    set_device: Callable[[torch.device], object] = repr
    corrects: bool = True

    def sageattn(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        tensor_layout: str = "HND",
        is_causal: bool = False,  # noqa: FBT002 - as above
        sm_scale: float | None = None,
        return_lse: bool = False,  # noqa: FBT002 - as above
        **kwargs: object,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """The package's entry: chooses a kernel for the architecture."""
        if self.arch not in BLOCKS_K:
            raise ValueError(f"Unsupported CUDA architecture: {self.arch}")
        assert q.dtype in {torch.float16, torch.bfloat16}, "Input tensors must be half."
        assert q.dtype == k.dtype == v.dtype
        self.set_device(v.device)
        head_dim = q.size(-1)
        if head_dim > 128:
            raise ValueError(f"Unsupported head_dim: {head_dim}")
        q, k, v = (pad(x, (0, (64 if head_dim <= 64 else 128) - head_dim)) for x in (q, k, v))
        assert q.stride(-1) == 1, "Last dim of qkv must be contiguous."
        assert k.stride(-1) == 1, "Last dim of qkv must be contiguous."
        assert v.stride(-1) == 1, "Last dim of qkv must be contiguous."
        scale = head_dim**-0.5 if sm_scale is None else sm_scale
        q, k, v = (heads_first(x, tensor_layout) for x in (q, k, v))
        out, lse = self._forward(q, k, v, scale, is_causal=is_causal)
        out = heads_first(out.to(q.dtype), tensor_layout)[..., :head_dim]
        return (out, lse) if return_lse else out

    def sageattn_qk_int8_pv_fp8_cuda(self, *args: object, **kwargs: object) -> Tensor:
        """Exported, and called by nothing."""
        raise NotImplementedError

    sageattn_qk_int8_pv_fp16_cuda = sageattn_qk_int8_pv_fp16_triton = sageattn_varlen = sageattn_qk_int8_pv_fp8_cuda

    def _forward(self, q: Tensor, k: Tensor, v: Tensor, scale: float, *, is_causal: bool) -> tuple[Tensor, Tensor]:
        block, heads, missing = BLOCKS_K[self.arch], q.shape[1], -k.shape[2] % BLOCKS_K[self.arch]
        mean = k.mean(dim=2, keepdim=True)
        tail = (0, 0, 0, missing)
        keys = pad(grouped(int8_blocks(k - mean, block), heads), tail)
        scores = int8_blocks(q, BLOCK_Q) @ keys.transpose(2, 3) * (scale * LOG2_E)
        if missing and self.arch != "sm86":
            scores[..., -missing:] = -5.0e6
        if is_causal:
            scores = top_left(scores)
        top = scores.amax(dim=-1, keepdim=True)
        p = torch.exp2(scores - top)
        total = p.sum(dim=-1, keepdim=True)
        values = pad(grouped(v, heads), tail, value=float("nan") if self.arch == "sm80" else 0.0)
        out = self._weighted(p, values, block) / total
        lse = (torch.log2(total) + top).squeeze(-1) / LOG2_E
        if not self.corrects:
            return out, lse
        return out, lse + (q.float() @ grouped(mean, heads).float().transpose(2, 3)).squeeze(-1) * scale

    def _weighted(self, p: Tensor, v: Tensor, block: int) -> Tensor:
        if self.arch in HALF_VALUES:
            return sum_fp16(p, v, block)
        scale = v.float().abs().amax(dim=2, keepdim=True).clamp(min=1e-12) / E4M3_MOST
        return e4m3(p * E4M3_MOST) @ e4m3(v.float() / scale) * scale / E4M3_MOST
