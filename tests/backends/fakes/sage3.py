"""SageAttention 3 in numbers, without CUDA: its signature, its rounding to four bits and its habits.

Habits: heads come first, always; K is changed in place; a mask is accepted and ignored, other keywords vanish; there is
no scale but `head_dim ** -0.5`; missing key heads are read from other memory; 256 and more of head_dim are printed
about and given to torch; in a causal call the released kernel drops, from the second block of 128 queries on, the
values of the block of keys before the diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad, scaled_dot_product_attention

from tests.backends.fakes.sage_numbers import LOG2_E, e2m1_blocks, top_left

if TYPE_CHECKING:
    from torch import Tensor

BLOCK = 128


@dataclass(frozen=True)
class Sage3:
    """The package; `causal_works` is how its causal kernel is meant."""

    causal_works: bool = False

    def sageattn3_blackwell(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,  # noqa: FBT002 - as above
        per_block_mean: bool = True,  # noqa: FBT002 - as above
        **kwargs: object,
    ) -> Tensor:
        """The package's entry."""
        if q.size(-1) >= 256:
            print(f"Unsupported Headdim {q.size(-1)}")  # noqa: T201 - as the package does
            return scaled_dot_product_attention(q, k, v, is_causal=is_causal)
        queries, keys = q.size(2), k.size(2)
        k -= k.mean(dim=-2, keepdim=True)
        heads = torch.arange(q.shape[1]).clamp(max=k.shape[1] - 1)
        q, k, v = (pad(x, (0, 0, 0, -x.shape[2] % BLOCK)) for x in (q, k[:, heads], v[:, heads]))
        mean = self._mean(q, per_block=per_block_mean)
        scores = e2m1_blocks(q - mean) @ e2m1_blocks(k).transpose(2, 3) + (mean @ k.transpose(2, 3)).float()
        scores = scores * (q.size(-1) ** -0.5 * LOG2_E)
        if is_causal:
            scores = top_left(scores)
        else:
            scores[..., keys:] = float("-inf")
        return self._weighted(scores, v, drops=is_causal and not self.causal_works)[:, :, :queries].to(q.dtype)

    @staticmethod
    def _mean(q: Tensor, *, per_block: bool) -> Tensor:
        if not per_block:
            return q.mean(dim=-2, keepdim=True)
        blocks = q.reshape(*q.shape[:2], -1, BLOCK, q.shape[3])
        return blocks.mean(dim=3, keepdim=True).expand_as(blocks).flatten(2, 3)

    @staticmethod
    def _weighted(scores: Tensor, v: Tensor, *, drops: bool) -> Tensor:
        p = torch.exp2(scores - scores.amax(dim=-1, keepdim=True))
        total = p.sum(dim=-1, keepdim=True)
        if drops:
            rows, columns = (torch.arange(n) // BLOCK for n in scores.shape[-2:])
            p = p.masked_fill(columns == rows[:, None] - 1, 0.0)
        room = 448.0 * 6.0
        values = e2m1_blocks(v.transpose(2, 3).contiguous()).transpose(2, 3)
        return (e2m1_blocks(p * room) @ values) / (room * total)


def module(package: Sage3, name: str = "sageattn3_blackwell") -> SimpleNamespace:
    """What is imported: the function under its name, or the one that older forks give it."""
    return SimpleNamespace(**{name: package.sageattn3_blackwell})
