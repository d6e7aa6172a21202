"""One call as data, and how its numbers are drawn."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from backends.reference import attention

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from backends.interface import Causal, Geometry, Kernel
    from backends.masks import Mask

LENGTHS = (9, 13)
"""Queries and keys of most calls: odd, unequal, and less than a block of any kernel."""
_OF_MASKS = ("keep", "keep_q", "keep_k", "bias")


@dataclass(frozen=True, slots=True)
class Call:
    """The arguments of `Kernel.__call__`."""

    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None = None
    causal: Causal | None = None
    scale: float | None = None

    def of(self, kernel: Kernel) -> Tensor:
        """What the kernel gives."""
        return kernel(self.q, self.k, self.v, mask=self.mask, causal=self.causal, scale=self.scale)

    def truth(self) -> Tensor:
        """What the definition gives, in float64."""
        return attention(self.q, self.k, self.v, mask=self.mask, causal=self.causal, scale=self.scale)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor that is handed over, by its name."""
        yield from (("q", self.q), ("k", self.k), ("v", self.v))
        for name in _OF_MASKS:
            tensor = getattr(self.mask, name, None)
            if isinstance(tensor, torch.Tensor):
                yield f"{name} of the mask", tensor


@dataclass(frozen=True, slots=True)
class Draw:
    """Numbers for a geometry: the same for the same geometry, on the CPU first so that devices agree."""

    geometry: Geometry
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    @property
    def dtype(self) -> torch.dtype:
        """The geometry's, as torch has it."""
        dtype = getattr(torch, self.geometry.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"`dtype`: wanted the name of a torch dtype, got {self.geometry.dtype}")
        return dtype

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers of the geometry's dtype."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64).to(self.geometry.device, self.dtype)

    def coins(self, *shape: int) -> Tensor:
        """Booleans, two in three of them True."""
        return (torch.rand(shape, generator=self.generator) < 2 / 3).to(self.geometry.device)

    def flags(self, *rows: str) -> Tensor:
        """Booleans as written: a row `x..x` is True, False, False, True."""
        return torch.tensor([[letter == "x" for letter in row] for row in rows], device=self.geometry.device)

    def call(self, lengths: tuple[int, int] = LENGTHS, batch: int = 2) -> Call:
        """Standard normal queries, keys and values, and no mask."""
        heads, kv_heads, dim = self.geometry.num_heads, self.geometry.num_kv_heads, self.geometry.head_dim
        keys = (batch, lengths[1], kv_heads, dim)
        return Call(self.normal(batch, lengths[0], heads, dim), self.normal(*keys), self.normal(*keys))
