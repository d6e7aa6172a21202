"""Whether a build of FlashAttention gives gradients: forward-only builds take such calls and fail a step later."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import torch

from backends._begin import without_backward

if TYPE_CHECKING:
    from backends._checks import Bound
    from backends._flash_providers import Build

TRIAL_LENGTH = 64


def check_backward(build: Build, bound: Bound) -> None:
    """Raises `CallRefused` unless the build's backward pass runs this geometry here; tried once, then remembered.

    Traced code is refused, for the operator that it would hold has no backward pass.
    """
    reason = (
        "a traced call of this kernel has no backward pass" if torch.compiler.is_compiling() else _fault(build, bound)
    )
    if reason is not None:
        raise without_backward(reason)


@cache
def _fault(build: Build, bound: Bound) -> str | None:
    geometry = bound.geometry
    with torch.inference_mode(mode=False), torch.enable_grad():
        shape = (1, TRIAL_LENGTH, geometry.num_heads, geometry.head_dim)
        q = torch.zeros(shape, dtype=bound.dtype, device=bound.device, requires_grad=True)
        k = q.new_zeros(1, TRIAL_LENGTH, geometry.num_kv_heads, geometry.head_dim).requires_grad_()
        out = build.dense(q, k, k, scale=None, causal=False)
        if not out.requires_grad:
            return f"{build.origin} gives an output without gradients"
        try:
            torch.autograd.grad(out.sum(), [q, k])
        except Exception as error:  # noqa: BLE001 - whatever a build's own backward pass raises
            return f"the backward pass of {build.origin} raised {type(error).__name__}: {error}"
    return None
