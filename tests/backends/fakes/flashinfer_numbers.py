"""Arithmetic of the kernels that the fakes of FlashInfer stand for, on the CPU in float32, with its faults."""

from __future__ import annotations

import math

import torch
from torch import Tensor

HIDDEN_SCORE = -5e4
"""FlashInfer's stand-in for -inf, compared with scores before they are scaled."""
KEY_TILE = 16


def weights_to_output(scores: Tensor, values: Tensor, scale: float, hidden_score: float) -> tuple[Tensor, Tensor]:
    """Output `[heads, queries, head_dim]` and log-sum-exp of base 2; keys are padded to a tile, as a kernel does it.

    A row that is hidden whole is answered with an average of the values, and a scale that is negative or minute shows
    what is hidden.
    """
    missing = -scores.shape[-1] % KEY_TILE
    scores = torch.nn.functional.pad(scores, (0, missing), value=hidden_score)
    values = torch.nn.functional.pad(values, (0, 0, 0, missing))
    largest = scores.amax(dim=-1, keepdim=True)
    weights = torch.exp2((scores - largest) * (scale * math.log2(math.e)))
    total = weights.sum(dim=-1, keepdim=True)
    lse = largest * scale * math.log2(math.e) + total.log2()
    return weights @ values / total, lse[..., 0]


def alone(answer: Tensor | tuple[Tensor, Tensor]) -> Tensor:
    """The output of a call that asks for nothing else."""
    assert isinstance(answer, Tensor)
    return answer


def by_head(tokens: Tensor, heads: int) -> Tensor:
    """Tokens `[tokens, kv_heads, head_dim]` as `[heads, tokens, head_dim]` in float32, each KV head for its group."""
    return tokens.float().transpose(0, 1).repeat_interleave(heads // tokens.shape[1], dim=0)


def causal_hidden(queries: int, keys: int) -> Tensor:
    """True where the diagonal, aligned bottom right, hides a key."""
    return torch.arange(keys) > torch.arange(queries)[:, None] + keys - queries


def read_as(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The memory of a tensor read as another type, as a kernel does that asks for none; past its end it starts anew."""
    if tensor.dtype == dtype:
        return tensor
    raw = tensor.contiguous().view(torch.uint8).reshape(-1)
    size = tensor.numel() * dtype.itemsize
    return raw.repeat(-(-size // raw.numel()))[:size].view(dtype).reshape(tensor.shape)


def integers(tensor: Tensor) -> list[int]:
    """Numbers read as int32 whatever they are: the low halves of int64 come with the high ones between."""
    return tensor.contiguous().view(torch.int32)[: tensor.numel()].tolist()
