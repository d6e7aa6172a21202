"""Inputs that several test files share: tensors from a seed, and one mask of every kind for any call."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch

from backends import masks, torch_sdpa
from backends._sdpa import SdpaKernel
from backends.cudnn import CudnnAttention
from backends.interface import Causal, Geometry

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.masks import Mask

ALIGNMENTS: tuple[Causal | None, ...] = (None, "top_left", "bottom_right")


@dataclass(frozen=True)
class Sizes:
    """The sizes of a call and where its tensors are made."""

    batch: int = 2
    heads: int = 4
    kv_heads: int = 4
    seq_q: int = 9
    seq_kv: int = 13
    head_dim: int = 16
    dtype: torch.dtype = torch.float64
    device: str = "cpu"
    seed: int = 0
    generator: torch.Generator = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "generator", torch.Generator().manual_seed(self.seed))

    @property
    def geometry(self) -> Geometry:
        """What a kernel for these sizes is bound to."""
        return Geometry(
            self.head_dim, self.heads, self.kv_heads, str(self.dtype).removeprefix("torch."), device=self.device
        )

    def qkv(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value from the seed: standard normal numbers."""
        keys = (self.batch, self.seq_kv, self.kv_heads, self.head_dim)
        q = self.normal(self.batch, self.seq_q, self.heads, self.head_dim)
        return q, self.normal(*keys), self.normal(*keys)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers of the case's dtype."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.device, self.dtype)

    def coins(self, *shape: int) -> Tensor:
        """Booleans, two in three of them True."""
        return (torch.rand(shape, generator=self.generator) < 2 / 3).to(self.device)


def _suffix(sizes: Sizes) -> Mask:
    return masks.key_lengths([sizes.seq_kv - 1 - i for i in range(sizes.batch)], sizes.seq_kv)


def _uniform_suffix(sizes: Sizes) -> Mask:
    return masks.key_lengths(sizes.seq_kv - 2, sizes.seq_kv)


def _key_padding(sizes: Sizes) -> Mask:
    """Gaps, and a hidden first key in batch 0."""
    keep = sizes.coins(sizes.batch, sizes.seq_kv)
    keep[0, 0] = False
    keep[0, -1] = True
    return masks.key_padding(keep)


def _key_and_query_padding(sizes: Sizes) -> Mask:
    keep_q = sizes.coins(sizes.batch, sizes.seq_q)
    return masks.key_and_query_padding(keep_q, sizes.coins(sizes.batch, sizes.seq_kv))


def _block_diagonal(sizes: Sizes) -> Mask:
    """Three documents; the last has queries and no keys."""
    first_q, first_k = sizes.seq_q // 2, sizes.seq_kv // 3
    return masks.block_diagonal(
        [first_q, sizes.seq_q - first_q - 1, 1],
        [first_k, sizes.seq_kv - first_k, 0],
    )


def _boolean(sizes: Sizes) -> Mask:
    """A mask for each batch, shared by the heads, with one query that sees nothing."""
    keep = sizes.coins(sizes.batch, 1, sizes.seq_q, sizes.seq_kv)
    keep[0, :, 0] = False
    return masks.boolean_per_query(keep)


def _boolean_per_head(sizes: Sizes) -> Mask:
    return masks.boolean_per_query(sizes.coins(1, sizes.heads, sizes.seq_q, sizes.seq_kv))


def _additive(sizes: Sizes) -> Mask:
    """A bias for each head, with one query whose row is all -inf."""
    bias = sizes.normal(sizes.batch, sizes.heads, sizes.seq_q, sizes.seq_kv)
    bias[0, 0, 0] = float("-inf")
    return masks.additive(bias)


def _additive_per_key(sizes: Sizes) -> Mask:
    bias = torch.where(sizes.coins(sizes.batch, 1, 1, sizes.seq_kv), 0.0, float("-inf"))
    return masks.additive(bias.to(sizes.dtype))


MASKS: dict[str, Callable[[Sizes], Mask | None]] = {
    "nothing": lambda _: None,
    "none": lambda _: masks.no_mask(),
    "all_keep": lambda _: masks.all_keep(),
    "suffix": _suffix,
    "suffix, uniform": _uniform_suffix,
    "key padding": _key_padding,
    "key and query padding": _key_and_query_padding,
    "block diagonal": _block_diagonal,
    "boolean": _boolean,
    "boolean per head": _boolean_per_head,
    "additive": _additive,
    "additive per key": _additive_per_key,
}


def bind_dispatcher(sizes: Sizes) -> SdpaKernel:
    """The kernel of `TORCH_SDPA`."""
    kernel = torch_sdpa.BACKEND.bind({}, sizes.geometry)
    assert isinstance(kernel, SdpaKernel)
    return kernel


def bind_prepared(sizes: Sizes) -> SdpaKernel:
    """The kernel of `CUDNN_ATTN` with torch's CPU code in the place of cuDNN's."""
    kernel = CudnnAttention(trial=lambda _: None).bind({}, replace(sizes.geometry, dtype="bfloat16", device="cuda"))
    assert isinstance(kernel, SdpaKernel)
    dispatcher = bind_dispatcher(sizes)
    return replace(kernel, bound=dispatcher.bound, launch=dispatcher.launch, lse_launch=dispatcher.lse_launch)


BINDERS: dict[str, Callable[[Sizes], SdpaKernel]] = {
    "TORCH_SDPA": bind_dispatcher,
    "CUDNN_ATTN, prepared": bind_prepared,
}
