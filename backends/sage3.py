"""`SAGE_ATTN_3`: SageAttention 3, with queries, keys, weights and values rounded to four bits; for inference alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import torch

from backends._sage import bind_kernel, check_limits, imported
from backends._sage_operator import on_device, operator
from backends._sage_tensors import fitted, unfitted
from backends._sage_trial import measure
from backends._sdpa import bound_geometry
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

    from torch import Tensor

    from backends._checks import Bound
    from backends._sage import Run
    from backends._sage_operator import Guard, Operator
    from backends._sage_trial import Errors
    from backends.interface import Backend, Geometry, Kernel

PACKAGE = "sageattn3"
NAMES = ("sageattn3_blackwell", "sageattn_blackwell")
"""What the function is called, and what it was called."""
HEAD_DIMS = (64, 128)
"""Of 256 and more the package makes a call to torch, without the mask and the scale."""
ERROR_MOST = 0.28
"""Rounding to four bits gives 0.19; the causal calls of released builds, which lose a block of values, 0.5."""
VALUES_MOST, POWER_LEAST = 1024.0, -20
"""Where values are put: scales of four-bit numbers have eight bits, are 0 below 0.001 and no larger than 448."""
SAME_SCALE = 1e-6
"""The relative difference up to which a scale is the kernel's own."""


@dataclass(frozen=True, slots=True)
class Package3:
    """The package's function on `[batch, heads, seq, head_dim]`. It takes the mean off its keys in place."""

    function: Callable[..., Tensor]
    gives_lse: ClassVar[bool] = False

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> list[Tensor]:
        """See `Package.__call__`. The function has no scale but its own, so that another is put into the queries.

        That rounds them once more, in half precision: nothing beside four bits.
        """
        ratio = scale * math.sqrt(q.shape[-1])
        if abs(ratio - 1.0) > SAME_SCALE:
            q = q * ratio
        keys = k.clone(memory_format=torch.contiguous_format)
        return [self.function(q, keys, v, is_causal=is_causal).contiguous()]


@dataclass(frozen=True, slots=True)
class Run3:
    """A `Run` over version 3, which fills up sequences to whole blocks and hides what it filled in."""

    kernel: Operator

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> Tensor:
        """See `Run.__call__`."""
        v, powers = fitted(v, VALUES_MOST, POWER_LEAST)
        heads_first = (x.transpose(1, 2) for x in (q, k, v))
        (out,) = self.kernel(*heads_first, is_causal=is_causal, scale=scale)
        return unfitted(out.transpose(1, 2), powers)


@dataclass(frozen=True, slots=True)
class Sage3Attention:
    """No mask, key lengths, causal calls of equal lengths, as many key heads as heads, half precision; no option.

    Released builds answer causal calls of more than 128 queries wrongly (SageAttention's issue 340): the kernel is
    measured when it is bound, and such a build's causal calls are refused. Nothing is mutated. Four bits and their
    scale end at 2688: queries and keys, once their means are off, are cut off there; values are scaled.

    `importer`, `device`, `guard` and `trial` are those of `SageAttention`.
    """

    name: str = "SAGE_ATTN_3"
    importer: Callable[[str], ModuleType] = import_module
    device: str = "cuda"
    guard: Guard = on_device
    trial: Callable[[Bound, Run], Errors] = measure

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; the kernel has been compared with the definition on this device when this returns."""
        bound = bound_geometry(self.name, spec, geometry)
        check_limits(
            self.name,
            bound,
            self.device,
            ("head_dim", " or ".join(map(str, HEAD_DIMS)), geometry.head_dim in HEAD_DIMS),
            ("num_kv_heads", f"as many as `num_heads`, {geometry.num_heads}", not bound.grouped),
        )
        module = imported(self.name, self.importer, PACKAGE)
        found = [name for name in NAMES if callable(getattr(module, name, None))]
        if not found:
            raise BindError(f"`{self.name}`: wanted {' or '.join(f'`{x}`' for x in NAMES)} in `{PACKAGE}`, got neither")
        run = Run3(operator(Package3(getattr(module, found[0])), self.guard))
        return bind_kernel(self.name, bound, run, self.trial, ERROR_MOST, precision="fp4")


BACKEND: Backend = Sage3Attention()
