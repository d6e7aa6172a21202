"""What the fakes of FlashAttention compute: attention as its kernels do it, habits included, in float32 on the CPU.

An output starts as NaN and only what a kernel writes is written: not the queries of a sequence without keys, nor those
past `max_seqlen_q`. A causal mask is aligned bottom right, and a row that it hides is zero. In a packed call the values
that follow a sequence are multiplied by weights of zero, which a value that is not finite survives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

HALVES = (torch.float16, torch.bfloat16)
TILE = 64
"""How many keys a kernel loads at once."""
BYTES = 16


def dense(q: Tensor, k: Tensor, v: Tensor, scale: float | None, *, causal: bool) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of each query's weights: float32 `[batch, heads, seq_q]`."""
    checked(q, k, v, rank=4)
    batch, seq_q, heads, head_dim = q.shape
    if batch == 0:
        raise RuntimeError("batch size must be positive")
    if k.shape != (batch, k.shape[1], k.shape[2], head_dim) or v.shape != k.shape:
        raise RuntimeError(f"k must have shape [{batch}, seqlen_k, num_heads_k, {head_dim}]")
    out, lse = torch.zeros(q.shape), torch.full((batch, heads, seq_q), float("-inf"))
    for i in range(batch):
        out[i], lse[i] = one(q[i], k[i], v[i], scale, causal=causal)
    return out.to(q.dtype), lse


def varlen(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    offsets: tuple[Tensor, Tensor],
    longest: tuple[int, int],
    scale: float | None,
    *,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """The same for packed sequences: `[tokens, heads, head_dim]`, and `[heads, tokens]`."""
    checked(q, k, v, rank=3)
    starts_q, starts_k = (bounds(x, tokens.shape[0]) for x, tokens in zip(offsets, (q, k), strict=True))
    if len(starts_q) != len(starts_k):
        raise RuntimeError("cu_seqlens_k must have shape (batch_size + 1,)")
    out, lse = torch.full(q.shape, float("nan")), torch.full((q.shape[1], q.shape[0]), float("nan"))
    for i in range(len(starts_q) - 1):
        rows = slice(starts_q[i], min(starts_q[i + 1], starts_q[i] + longest[0]))
        keys = slice(starts_k[i], starts_k[i + 1])
        if keys.stop - keys.start > longest[1]:
            raise RuntimeError(f"max_seqlen_k is {longest[1]}, a sequence has {keys.stop - keys.start} keys")
        if keys.start == keys.stop or rows.start == rows.stop:
            continue
        seen, lse[:, rows] = one(q[rows], k[keys], v[keys], scale, causal=causal)
        out[rows] = seen + spilled(v[keys.stop : keys.stop + TILE], q.shape[1])
    return out.to(q.dtype), lse


def one(q: Tensor, k: Tensor, v: Tensor, scale: float | None, *, causal: bool) -> tuple[Tensor, Tensor]:
    """One sequence: the output `[seq_q, heads, head_dim]` and the logarithms `[heads, seq_q]`, in float32."""
    group = q.shape[1] // k.shape[1]
    keys, values = (x.float().repeat_interleave(group, dim=1).transpose(0, 1) for x in (k, v))
    scores = q.float().transpose(0, 1) @ keys.transpose(1, 2) * (q.shape[2] ** -0.5 if scale is None else scale)
    if causal:
        hidden = torch.ones(q.shape[0], k.shape[0], dtype=torch.bool).triu(k.shape[0] - q.shape[0] + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    lse = scores.logsumexp(dim=-1)
    weights = torch.where(lse.isneginf()[..., None], 0.0, (scores - lse[..., None]).exp())
    return (weights @ values).transpose(0, 1), lse


def spilled(values: Tensor, heads: int) -> Tensor:
    """What values behind a sequence add to it: zero, or NaN."""
    return (values.float() * 0.0).sum(dim=0).repeat_interleave(heads // values.shape[1], dim=0)


def checked(q: Tensor, k: Tensor, v: Tensor, *, rank: int) -> None:
    """What the libraries check of any call, and the alignment that they do not check and crash without."""
    if {q.dim(), k.dim(), v.dim()} != {rank}:
        raise RuntimeError(f"q, k and v must have {rank} dimensions")
    if q.shape[-2] % k.shape[-2]:
        raise RuntimeError("Number of heads in key/value must divide number of heads in query")
    if q.shape[-1] > 256:
        raise RuntimeError("FlashAttention forward only supports head dimension at most 256")
    for tensor in (q, k, v):
        if tensor.dtype not in HALVES or tensor.dtype != q.dtype:
            raise RuntimeError("FlashAttention only support fp16 and bf16 data type")
        if tensor.stride(-1) != 1:
            raise RuntimeError("Input tensor must have contiguous last dimension")
        rows = [stride * tensor.element_size() for stride in tensor.stride()[:-1]]
        if tensor.data_ptr() % BYTES or any(row % BYTES for row in rows):
            raise RuntimeError("CUDA error: misaligned address")


def bounds(offsets: Tensor, tokens: int) -> Sequence[int]:
    """The offsets as numbers, checked as the libraries do, and for what makes them read past the end."""
    if offsets.dtype != torch.int32:
        raise RuntimeError("cu_seqlens must have dtype int32")
    if not offsets.is_contiguous() or offsets.dim() != 1:
        raise RuntimeError("cu_seqlens must be contiguous")
    numbers: list[int] = offsets.tolist()
    if numbers[0] != 0 or numbers != sorted(numbers) or numbers[-1] > tokens:
        raise RuntimeError(f"CUDA error: an illegal memory access ({numbers} of {tokens} tokens)")
    return numbers
