"""`CUDNN_ATTN`: torch's function pinned to cuDNN's kernel alone, so that no other can take its place in silence."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch.backends.cuda import SDPAParams, can_use_cudnn_attention
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from backends._memory import readable
from backends._sdpa import HALVES, SdpaKernel, bound_geometry
from backends._sdpa_lse import by_cudnn
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from backends._checks import Bound
    from backends.interface import Backend, Geometry, Kernel

HEAD_DIM_STEP = 8
HEAD_DIM_MOST = 256
FEWEST_KEYS = 2
TRIAL_LENGTH = 64


def try_kernel(bound: Bound) -> str | None:
    """Runs cuDNN's kernel once on zeros of this geometry; None when it ran, else why torch will not take it.

    Costs the building of one plan. Raises whatever torch raises where it takes the call and cuDNN then fails.
    """
    geometry = bound.geometry
    shape = (1, geometry.num_heads, TRIAL_LENGTH, geometry.head_dim)
    q = torch.zeros(shape, dtype=bound.dtype, device=bound.device)
    k = q[:, : geometry.num_kv_heads].contiguous()
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]), warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if not can_use_cudnn_attention(SDPAParams(q, k, k, None, 0.0, False, bound.grouped), debug=True):  # noqa: FBT003
            return "; ".join(str(warning.message) for warning in said) or "torch gives no reason"
    _launch(q, k, k, attn_mask=None, is_causal=False, scale=None, enable_gqa=bound.grouped)
    return None


@dataclass(frozen=True, slots=True)
class CudnnAttention:
    """All kinds of mask, both alignments, grouped heads, half precision, two keys or more; reads no option.

    A bias that the query's dtype cannot hold without loss is refused.

    `trial` says why the kernel will not run a geometry on this machine, or None; it may raise anything.
    """

    name: str = "CUDNN_ATTN"
    trial: Callable[[Bound], str | None] = try_kernel

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; the kernel has run once on this device when this returns."""
        bound = bound_geometry(self.name, spec, geometry)
        self._check_limits(bound)
        try:
            reason = self.trial(bound)
        except Exception as error:
            raise BindError(
                f"`{self.name}`: wanted a cuDNN kernel for {geometry}, got {type(error).__name__}: {error}"
            ) from error
        if reason is not None:
            raise BindError(f"`{self.name}`: wanted a cuDNN kernel for {geometry}, got none: {reason}")
        bound = bound._replace(differentiable=True)
        return SdpaKernel(bound, _launch, by_cudnn, fewest_keys=FEWEST_KEYS, square_causal=True, half_only=True)

    def _check_limits(self, bound: Bound) -> None:
        head_dim = bound.geometry.head_dim
        for field, wanted, fits in (
            ("device", "cuda", bound.device.type == "cuda"),
            ("dtype", "float16 or bfloat16", bound.dtype in HALVES),
            ("head_dim", f"a multiple of {HEAD_DIM_STEP}", head_dim % HEAD_DIM_STEP == 0),
            ("head_dim", f"at most {HEAD_DIM_MOST}", head_dim <= HEAD_DIM_MOST),
        ):
            if not fits:
                raise BindError(f"`{field}` of `{self.name}`: wanted {wanted}, got {getattr(bound.geometry, field)}")


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
    with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
        return scaled_dot_product_attention(
            readable(q),
            readable(k),
            readable(v),
            attn_mask=attn_mask,
            is_causal=is_causal,
            scale=scale,
            enable_gqa=enable_gqa,
        )


BACKEND: Backend = CudnnAttention()
