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


def mask(kind: str, lengths: tuple[int, int], heads: int) -> Mask | None:
    """A mask of the kind that hides a quarter of the keys (and of the queries, where the kind hides those)."""
    return _MAKERS[kind](lengths, heads)


def _keep(length: int) -> Tensor:
    import torch

    return (torch.arange(length) < max(1, length * 3 // 4))[None]


def _bias(lengths: tuple[int, int]) -> Tensor:
    import torch

    keep = _keep(lengths[1])
    return torch.zeros(1, 1, 1, lengths[1]).masked_fill(~keep, float("-inf"))


_MAKERS: Mapping[str, Callable[[tuple[int, int], int], Mask | None]] = {
    "none": lambda _lengths, _heads: None,
    "all_keep": lambda _lengths, _heads: masks.all_keep(),
    "suffix_key_padding": lambda lengths, _heads: masks.key_lengths(max(1, lengths[1] * 3 // 4), lengths[1]),
    "key_padding": lambda lengths, _heads: masks.key_padding(_keep(lengths[1]).flip(1)),
    "key_and_query_padding": lambda lengths, _heads: masks.key_and_query_padding(_keep(lengths[0]), _keep(lengths[1])),
    "block_diagonal": lambda lengths, _heads: masks.block_diagonal(
        [lengths[0] // 2, lengths[0] - lengths[0] // 2], [lengths[1] // 2, lengths[1] - lengths[1] // 2]
    ),
    "boolean_per_query": lambda lengths, heads: masks.boolean_per_query(_keep(lengths[1]).expand(1, heads, *lengths)),
    "additive": lambda lengths, _heads: masks.additive(_bias(lengths)),
}
