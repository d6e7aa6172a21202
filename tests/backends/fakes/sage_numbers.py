"""The arithmetic that the fakes of the Sage packages share: what their kernels round, in float32 on any device.

Tensors are `[batch, heads, seq, head_dim]`. Source: the packages' own kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

if TYPE_CHECKING:
    from torch import Tensor

LOG2_E = 1.44269504
E4M3_MOST = 448.0
E2M1_LEVELS = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
E2M1_BOUNDS = (E2M1_LEVELS[1:] + E2M1_LEVELS[:-1]) / 2


def int8_blocks(x: Tensor, block: int) -> Tensor:
    """Rounded to 255 steps between the extremes of each block of the sequence; a block of zeros stays zeros."""
    batch, heads, seq, head_dim = x.shape
    blocks = pad(x.float(), (0, 0, 0, -seq % block)).reshape(batch, heads, -1, block, head_dim)
    scale = blocks.abs().amax(dim=(3, 4), keepdim=True) / 127.0
    steps = (blocks / scale).nan_to_num(nan=0.0)
    rounded = torch.trunc(steps + torch.where(steps >= 0, 0.5, -0.5))
    return (rounded * scale).flatten(2, 3)[:, :, :seq]


def e4m3(x: Tensor) -> Tensor:
    """Rounded to eight bits, saturated."""
    return x.clamp(-E4M3_MOST, E4M3_MOST).to(torch.float8_e4m3fn).float()


def e2m1_blocks(x: Tensor) -> Tensor:
    """Rounded to four bits, times an eight-bit scale for every 16 elements of the last dimension, which divides."""
    blocks = x.float().reshape(*x.shape[:-1], -1, 16)
    scale = e4m3(blocks.abs().amax(dim=-1, keepdim=True) / 6.0)
    steps = torch.where(scale == 0, 0.0, blocks / scale)
    levels = E2M1_LEVELS.to(x.device)[torch.bucketize(steps.abs().contiguous(), E2M1_BOUNDS.to(x.device))]
    return (levels * steps.sign() * scale).flatten(-2)


def grouped(x: Tensor, heads: int) -> Tensor:
    """Each key head for its group of query heads."""
    return x.repeat_interleave(heads // x.shape[1], dim=1)


def top_left(scores: Tensor) -> Tensor:
    """The scores of keys behind the query's own place hidden, counted from the first query and key."""
    later = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
    return scores.masked_fill(later, -1.0e6)


def sum_fp16(p: Tensor, v: Tensor, block: int) -> Tensor:
    """`p @ v` in half precision block by block of the keys, and the blocks added in float32: large values overflow."""
    p, v = p.half().float(), v.half().float()
    parts = [p[..., i : i + block] @ v[:, :, i : i + block] for i in range(0, p.shape[-1], block)]
    return torch.stack([part.half().float() for part in parts]).sum(dim=0)


def heads_first(x: Tensor, layout: str) -> Tensor:
    """Either layout as `[batch, heads, seq, head_dim]`, a view."""
    if layout not in {"HND", "NHD"}:
        raise ValueError(f"Unknown tensor layout: {layout}")
    return x if layout == "HND" else x.transpose(1, 2)
