"""A backend of another distribution, for these tests: attention from its definition, with any mask."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from backends.reference import attention

if TYPE_CHECKING:
    from torch import Tensor

    from backends.interface import Causal, Geometry
    from backends.masks import Mask


class Kernel:
    """The definition, in the type of its query."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """See `Kernel.__call__` of `backends.interface`."""
        return attention(q, k, v, mask=mask, causal=causal, scale=scale).to(q.dtype)


class Compared:
    """Binds the kernel for every geometry."""

    name = "COMPARED_ATTN"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`."""
        return Kernel()


BACKEND = Compared()
