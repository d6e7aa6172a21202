"""What the Sage backends do to tensors before and after their kernels: pure functions, nothing here launches one.

All tensors are `[batch, seq, heads, head_dim]`; nothing is changed in place.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

if TYPE_CHECKING:
    from torch import Tensor

ELEMENTS_MOST = 2**31
"""The packages compute offsets in 32 bits: an element at or past this one would be another."""
EACH_BLOCK = 128
"""A multiple of every block, of queries and of keys, and the most that head_dim is filled up to."""
VECTOR = 8
"""Half-precision elements in the 16 bytes that the packages read at once."""


def smoothed(k: Tensor) -> Tensor:
    """The keys less their mean over the sequence, which moves every score of a query alike and so no weight.

    What the packages do before they quantise, in the keys' dtype and in new memory. Source: Zhang et al.,
    "SageAttention" (2024), section 4.2.
    """
    return k - k.mean(dim=1, keepdim=True)


def taken_off(q: Tensor, k: Tensor, scale: float) -> Tensor:
    """How much larger each query's scaled scores are of `k` than of `smoothed(k)`: float32 `[batch, heads, seq_q]`."""
    mean = k.mean(dim=1, keepdim=True).repeat_interleave(q.shape[2] // k.shape[2], dim=2)
    return (q.float() * mean.float()).sum(dim=-1).transpose(1, 2) * scale


def padded(x: Tensor, block: int) -> Tensor:
    """Zeros behind the sequence, up to a multiple of `block`; the tensor itself where it is one."""
    missing = -x.shape[1] % block
    return x if missing == 0 else pad(x, (0, 0, 0, 0, 0, missing))


def filled(x: Tensor) -> int:
    """How many elements the tensor has at most, once its sequence and its head_dim are filled up."""
    batch, seq, heads, head_dim = x.shape
    return batch * (seq + -seq % EACH_BLOCK) * heads * (head_dim + -head_dim % (EACH_BLOCK // 2))


def fitted(v: Tensor, most: float, lowest: int = 0) -> tuple[Tensor, Tensor]:
    """`v` divided by a power of two of each batch and head, and the powers, `[batch, 1, heads, 1]`.

    No finite value is then larger than `most`. No power is smaller than `2**lowest`: 0 leaves alone what is small
    enough. Multiplying the output of attention by the powers undoes it. No value is waited for.
    """
    peak = torch.linalg.vector_norm(v, ord=math.inf, dim=(1, 3), keepdim=True)
    highest = math.ceil(math.log2(torch.finfo(v.dtype).max / most))
    power = torch.log2(peak.float() / most).ceil().clamp(lowest, highest)
    powers = torch.exp2(power).to(v.dtype)
    return v / powers, powers


def unfitted(out: Tensor, powers: Tensor) -> Tensor:
    """The output times the powers of its values, those of a key head for each query head of its group."""
    group = out.shape[2] // powers.shape[2]
    return out * (powers if group == 1 else powers.repeat_interleave(group, dim=2))


def positive(scale: float, q: Tensor) -> tuple[float, Tensor]:
    """The scale with its sign in the query: kernels multiply hidden scores by it, and 0 or less would show them."""
    if scale > 0:
        return scale, q
    return (-scale, -q) if scale < 0 else (1.0, q * 0.0)


def readable(x: Tensor) -> Tensor:
    """The tensor, copied where the packages cannot read its memory: another last stride, no alignment, too far apart.

    Any layout of the four dimensions.
    """
    strides = x.stride()
    aligned = x.storage_offset() % VECTOR == 0 and all(stride % VECTOR == 0 for stride in strides[:-1])
    last = sum((size - 1) * stride for size, stride in zip(x.shape, strides, strict=True))
    return x if strides[-1] == 1 and aligned and last < ELEMENTS_MOST else x.contiguous()
