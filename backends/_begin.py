"""How every kernel begins a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from backends._checks import check_causal, check_mask, check_tensors
from backends._lse import without_gradients
from backends._mask_kinds import NoMask
from backends.interface import CallRefused

if TYPE_CHECKING:
    from torch import Tensor

    from backends._checks import Bound, CallShape
    from backends.interface import Causal
    from backends.masks import Mask

_NO_MASK = NoMask()


def begin(
    bound: Bound, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask | None, causal: Causal | None, lse: bool = False
) -> tuple[CallShape, Mask]:
    """The shape of a call and its mask, each argument checked against what the kernel is bound to.

    Raises `CallRefused` for tensors, a mask or a word for `causal` that fit no call of this kernel, and for tensors
    that require gradients where the kernel has none to give, or where its log-sum-exp is asked for.
    """
    call = check_tensors(bound, q, k, v)
    if (lse or not bound.differentiable) and wants_gradients(q, k, v):
        raise without_gradients() if lse else without_backward("this kernel has no backward pass")
    mask = _NO_MASK if mask is None else mask
    check_mask(mask, call, q.device)
    check_causal(causal)
    return call, mask


def wants_gradients(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether autograd would record this call."""
    return torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad)


def autocasts(device: str) -> bool:
    """Whether autocast is on for a type of device."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def without_backward(reason: str) -> CallRefused:
    """The refusal of a call that autograd would record, where gradients would be lost or fail long after it."""
    return CallRefused(
        f"`q`, `k`, `v`: wanted tensors without gradients, for {reason}, got one that requires them; call it under "
        "`torch.no_grad()`, or name TORCH_SDPA"
    )
