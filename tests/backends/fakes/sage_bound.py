"""The Sage backends bound to the fakes of their packages, and how far from the truth each may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from backends._sage import SageKernel
from backends._sage_trial import Errors
from backends.sage import SageAttention
from backends.sage3 import Sage3Attention
from tests.backends.cases import Sizes
from tests.backends.fakes import sage1, sage2, sage3

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends._checks import Bound
    from backends._sage import Run


def untried(_bound: Bound, _run: Run) -> Errors:
    """A trial that finds nothing, for tests of something else."""
    return Errors(0.0, 0.0)


def installed(module: object) -> Callable[[str], Any]:
    """An importer of that package alone."""
    return lambda _name: module


@dataclass(frozen=True)
class Fake:
    """A package to bind to: its module, and the class of its rounding.

    `relative` bounds |out - truth| / |truth| over the whole output, `absolute` each element of it.
    """

    module: object
    relative: float
    absolute: float | None = None
    key_heads: tuple[int, ...] = (4, 2, 1)
    head_dims: tuple[int, ...] = (64, 96, 128)
    backend: type[SageAttention | Sage3Attention] = SageAttention

    def bind(self, sizes: Sizes) -> SageKernel:
        """The kernel for these sizes on the CPU, untried."""
        backend = self.backend(importer=installed(self.module), device="cpu", trial=untried)
        kernel = backend.bind({}, sizes.geometry)
        assert isinstance(kernel, SageKernel)
        return kernel

    def off(self, out: Tensor, truth: Tensor) -> float:
        """How many times as far from the truth as it may be."""
        error = out.double() - truth
        relative = (error.norm() / truth.norm()).item() / self.relative
        absolute = 0.0 if self.absolute is None else error.abs().max().item() / self.absolute
        return max(relative, absolute) if bool(error.isfinite().all()) else float("inf")


HALF = Sizes(heads=4, kv_heads=4, head_dim=64, dtype=torch.bfloat16)
"""Nine queries and thirteen keys of two batches: less than a block of either."""
FILLED = (40, 64, 72, 96, 100, 128)

FAKES: dict[str, Fake] = {
    "1": Fake(sage1.MODULE, 0.03, 0.05),
    "2, sm80": Fake(sage2.Sage2("sm80"), 0.03, 0.05, head_dims=FILLED),
    "2, sm86": Fake(sage2.Sage2("sm86"), 0.03, 0.05, head_dims=FILLED),
    "2, sm90": Fake(sage2.Sage2("sm90"), 0.06, head_dims=FILLED),
    "3": Fake(
        sage3.module(sage3.Sage3(causal_works=True)), 0.25, key_heads=(4,), head_dims=(64, 128), backend=Sage3Attention
    ),
}
