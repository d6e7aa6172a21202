"""`TORCH_SDPA`: torch's own dispatcher, unpinned, on every device and every floating dtype that it takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch.nn.functional import scaled_dot_product_attention

from backends._memory import aligned
from backends._sdpa import HALVES, SdpaKernel, bound_geometry
from backends._sdpa_lse import by_device

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends.interface import Backend, Geometry, Kernel


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
        may_be_cudnn = bound.device.type == "cuda" and bound.dtype in HALVES
        return SdpaKernel(bound, _launch if may_be_cudnn else scaled_dot_product_attention, by_device)


def _launch(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Half precision on CUDA: torch may hand it to cuDNN, which does not look how tensors lie."""
    return scaled_dot_product_attention(
        aligned(q), aligned(k), aligned(v), attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )


BACKEND: Backend = TorchSdpa()
