"""Small inputs of every kind, for demonstrations and checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends import masks

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from backends.masks import Mask


def tensors(
    lengths: tuple[int, int], heads: tuple[int, int], head_dim: int, dtype: str = "bfloat16", *, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Normal q, k and v `[1, seq, heads, head_dim]` on the CPU; `lengths` and `heads` are those of queries and keys."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    shapes = [(1, lengths[0], heads[0], head_dim), *[(1, lengths[1], heads[1], head_dim)] * 2]
    q, k, v = (torch.randn(shape, generator=generator).to(getattr(torch, dtype)) for shape in shapes)
    return q, k, v


def mask(kind: str, lengths: tuple[int, int], heads: int, device: str = "cpu") -> Mask | None:
    """A mask of the kind that hides a quarter of the keys (and of the queries, where the kind hides those)."""
    return _MAKERS[kind](lengths, heads, device)


def _keep(length: int, device: str) -> Tensor:
    import torch

    return (torch.arange(length, device=device) < max(1, length * 3 // 4))[None]


def _bias(length: int, device: str) -> Tensor:
    import torch

    keep = _keep(length, device)
    return torch.zeros(1, 1, 1, length, dtype=torch.bfloat16, device=device).masked_fill(~keep, float("-inf"))


def _halves(length: int) -> list[int]:
    return [length // 2, length - length // 2]


def _padding(lengths: tuple[int, int], device: str) -> Mask:
    return masks.key_and_query_padding(_keep(lengths[0], device), _keep(lengths[1], device))


def _per_query(lengths: tuple[int, int], device: str) -> Mask:
    return masks.boolean_per_query(_keep(lengths[1], device).expand(1, 1, *lengths))


_MAKERS: Mapping[str, Callable[[tuple[int, int], int, str], Mask | None]] = {
    "none": lambda _lengths, _heads, _device: None,
    "all_keep": lambda _lengths, _heads, _device: masks.all_keep(),
    "suffix_key_padding": lambda lengths, _heads, _device: masks.key_lengths(max(1, lengths[1] * 3 // 4), lengths[1]),
    "key_padding": lambda lengths, _heads, device: masks.key_padding(_keep(lengths[1], device).flip(1)),
    "key_and_query_padding": lambda lengths, _heads, device: _padding(lengths, device),
    "block_diagonal": lambda lengths, _heads, _device: masks.block_diagonal(_halves(lengths[0]), _halves(lengths[1])),
    "boolean_per_query": lambda lengths, _heads, device: _per_query(lengths, device),
    "additive": lambda lengths, _heads, device: masks.additive(_bias(lengths[1], device)),
}
