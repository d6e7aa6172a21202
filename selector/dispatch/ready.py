"""Calls without a mask that are like one made before: found by one look at their tensors, and run at once.

Everything that a plan, and the checks of a kernel, read of such a call is a property that its tensors share with those
of the call before, or an argument that is compared here. So whoever finds the two alike has nothing left to ask.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from backends._begin import autocasts
from selector.dispatch.plans import Plan
from selector.dispatch.signatures import Alignment

if TYPE_CHECKING:
    from torch import Tensor

    from selector.selecting import Selector
    from selector.serving import Serving

try:  # what compiled code asks before it runs; torch promises no such name, and the comparison below does without
    from torch._C._dynamo.guards import TensorGuards
except ImportError:  # pragma: no cover - every torch so far has it
    TensorGuards = None  # type: ignore[assignment,misc]

Fits: TypeAlias = "Callable[[Tensor, Tensor, Tensor], bool]"
Run: TypeAlias = "Callable[[Tensor, Tensor, Tensor], Tensor]"
MOST = 16
"""How many calls are kept that differ in their tensors alone; then they are forgotten, and met anew."""
_RANK = 4


@dataclass(slots=True)
class Met:
    """A plan that a layer has met, and how often it was called."""

    plan: Plan
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Ready:
    """What runs a call like one that a kernel has taken: whether three tensors make one, and the launch for them.

    `all` are those that were made ready with it, itself among them. It holds while `selector` serves `serving`.
    """

    fits: Fits
    run: Run
    causal: bool | Alignment | None
    met: Met
    all: list[Ready]
    selector: Selector
    serving: Serving


def keep(readies: list[Ready], ready: Ready) -> None:
    """Add one to those that are kept, which are never more than `MOST`."""
    if len(readies) >= MOST:
        readies.clear()
    readies.append(ready)


def remember(
    plan: Plan,
    said: tuple[object, ...],
    tensors: tuple[Tensor, Tensor, Tensor],
    *,
    scale: float | None,
    selector: Selector,
    serving: Serving,
) -> None:
    """Be ready for calls of `attention` like this one; `said` is all that it was told beside its tensors."""
    if len(serving.ready) >= MOST**2:
        serving.ready.clear()
    readies = serving.ready.setdefault(said, [])
    run = run_for(plan, *tensors, scale)
    keep(readies, Ready(alike(*tensors), run, None, Met(plan), readies, selector, serving))


def run_for(plan: Plan, q: Tensor, k: Tensor, v: Tensor, scale: float | None) -> Run:
    """Give the launch for calls like this one, which the plan's kernel has just taken without a mask.

    That is the kernel's own, or else the kernel itself, which checks each of them.
    """
    repeated: Callable[..., Run | None] | None = getattr(plan.kernel, "repeated", None)
    launch = None if repeated is None else repeated(q, k, v, causal=plan.causal, scale=scale)
    return launch or partial(plan.kernel, mask=None, causal=plan.causal, scale=scale)


def alike(q: Tensor, k: Tensor, v: Tensor) -> Fits:
    """Give a test whether tensors are of the types, shapes, dtypes and devices of these, and require gradients or not.

    Autocast has to be the same, the grad mode not. It may find a difference where there is none: the call then goes the
    way of one that was never met.
    """
    plain = all(type(tensor) is torch.Tensor for tensor in (q, k, v))
    if TensorGuards is None or not plain or q is k or k is v or v is q:  # it takes no tensor twice
        return _compared(q, k, v)
    tensors: Any = (q, k, v)
    sizes: Any = [list(tensor.shape) for tensor in tensors]
    strides: Any = [[None] * len(size) for size in sizes]
    return TensorGuards(*tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides).check


def _compared(q: Tensor, k: Tensor, v: Tensor) -> Fits:
    """Give the same test, property by property."""
    wanted = _read(q, k, v)
    return lambda q, k, v: _read(q, k, v) == wanted


def _read(q: Tensor, k: Tensor, v: Tensor) -> tuple[object, ...]:
    return (
        q.shape, k.shape, v.shape, q.dtype, k.dtype, v.dtype, q.device, k.device, v.device, type(q), type(k), type(v),
        q.requires_grad, k.requires_grad, v.requires_grad, autocasts(q.device.type),
    )  # fmt: skip
