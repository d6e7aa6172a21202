"""How every kernel begins a call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends._checks import check_causal, check_mask, check_tensors
from backends._mask_kinds import NoMask

if TYPE_CHECKING:
    from torch import Tensor

    from backends._checks import Bound, CallShape
    from backends.interface import Causal
    from backends.masks import Mask

_NO_MASK = NoMask()


def begin(
    bound: Bound, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask | None, causal: Causal | None
) -> tuple[CallShape, Mask]:
    """The shape of a call and its mask, each argument checked against what the kernel is bound to.

    Raises `CallRefused` for tensors, a mask or a word for `causal` that fit no call of this kernel.
    """
    call = check_tensors(bound, q, k, v)
    mask = _NO_MASK if mask is None else mask
    check_mask(mask, call, q.device)
    check_causal(causal)
    return call, mask
