"""`TORCH_SDPA`: torch's own dispatcher, unpinned, on every device and every floating dtype that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.nn.functional import scaled_dot_product_attention

from backends._memory import aligned
from backends._sdpa import SdpaKernel, bound_geometry
from backends._sdpa_lse import by_device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends.interface import Backend, Geometry, Kernel


FULL_BYTES = 4
"""Of a number in float32, which no kernel reads in vectors of half precision."""


@dataclass(frozen=True, slots=True)
class TorchSdpa:
    """All kinds of mask, both alignments, grouped heads; reads no option. Differentiable, and traces whole.

    A half-precision call with a bias that half precision cannot hold is computed in float32. With the log-sum-exp
    torch's CPU kernel runs or, on CUDA, its memory-efficient one; float64 on CUDA, and other devices, are refused it.
    """

    name: str = "TORCH_SDPA"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; a device that is absent shows in the tensors of the call."""
        bound = bound_geometry(self.name, spec, geometry)._replace(differentiable=True)
        return SdpaKernel(bound, _launch, by_device)


def _launch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    attn_mask: Tensor | None,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    if q.is_cuda and q.element_size() < FULL_BYTES:  # torch may hand them to cuDNN, which does not look
        q, k, v = aligned(q), aligned(k), aligned(v)
    return scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )


BACKEND: Backend = TorchSdpa()
