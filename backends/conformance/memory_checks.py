"""Checks of memory layouts: tensors that are not contiguous, not aligned, or whose elements share memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from backends.conformance.checking import Check

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.conformance.calls import Call, Draw


def _laid(layout: Callable[[Tensor], Tensor]) -> Callable[[Draw], Call]:
    def make(draw: Draw) -> Call:
        call = draw.call()
        return replace(call, q=layout(call.q), k=layout(call.k), v=layout(call.v))

    return make


def _heads_first(x: Tensor) -> Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def _every_second(x: Tensor) -> Tensor:
    return torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2]


def _fused(x: Tensor) -> Tensor:
    """As a view of one projection that gives queries, keys and values."""
    return torch.cat([x + 1, x, x + 2], dim=3)[..., x.shape[3] : 2 * x.shape[3]]


def _shifted(x: Tensor) -> Tensor:
    """Begins one element behind an address that is a multiple of 16."""
    return torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape)


MEMORY_CHECKS = (
    Check("strided-heads", "strides are ignored where heads come first in memory", _laid(_heads_first)),
    Check("strided-elements", "the stride of the last dimension is ignored", _laid(_every_second)),
    Check("fused-rows", "strides are ignored in a view of fused projections", _laid(_fused)),
    Check(
        "cut-sequence",
        "the stride of the batch is ignored in a part of a longer sequence",
        _laid(lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]]),
    ),
    Check(
        "expanded-heads", "a stride of 0 is ignored where heads are expanded", _laid(lambda x: x[:, :, :1].expand_as(x))
    ),
    Check(
        "expanded-batch", "a stride of 0 is ignored where the batch is expanded", _laid(lambda x: x[:1].expand_as(x))
    ),
    Check(
        "unaligned", "memory is read 16 bytes at a time where it does not begin at a multiple of 16", _laid(_shifted)
    ),
)
