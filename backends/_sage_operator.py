"""One operator behind which the Sage packages run, so that a compiled graph holds their call as a whole.

Eager calls go past it: there the operator only costs time.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import torch

from backends._sage_tensors import readable

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from torch import Tensor

    Guard = Callable[[torch.device], AbstractContextManager[object]]


class Package(Protocol):
    """A package's function in our words; equal ones run the same code."""

    @property
    def gives_lse(self) -> bool:
        """Whether a second tensor comes back: the natural logarithm of each query's weights, `[batch, heads, seq]`.

        Only where sequences are the second dimension.
        """
        ...

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> list[Tensor]:
        """The output, contiguous and shaped like `q`, in new memory; no argument is mutated."""
        ...


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """That device as the current one: Triton launches there, and what a package sets is undone on leaving."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


@dataclass(frozen=True, slots=True)
class Operator:
    """A package's function on the device of its query, with memory that the package can read; made by `operator`."""

    package: Package
    guard: Guard
    number: int

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> list[Tensor]:
        """See `Package.__call__`; any strides."""
        if torch.compiler.is_compiling():
            outs: list[Tensor] = _run_numbered(q, k, v, self.number, is_causal, scale)
            return outs
        return _run(self, q, k, v, is_causal=is_causal, scale=scale)


_operators: list[Operator] = []


def operator(package: Package, guard: Guard = on_device) -> Operator:
    """The operator of `package`; the same one for equal arguments, and kept for good, so that graphs may name it."""
    for made in _operators:
        if made.package == package and made.guard == guard:
            return made
    _operators.append(Operator(package, guard, len(_operators)))
    return _operators[-1]


def _run(operator: Operator, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> list[Tensor]:
    with operator.guard(q.device):
        return operator.package(readable(q), readable(k), readable(v), is_causal=is_causal, scale=scale)


@torch.library.custom_op(
    "attention_selector::sage",
    mutates_args=(),
    schema="(Tensor q, Tensor k, Tensor v, int number, bool is_causal, float scale) -> Tensor[]",
)
def _run_numbered(q: Tensor, k: Tensor, v: Tensor, number: int, is_causal: bool, scale: float) -> list[Tensor]:  # noqa: FBT001, PLR0917 - a schema's order
    return _run(_operators[number], q, k, v, is_causal=is_causal, scale=scale)


@_run_numbered.register_fake
def _shapes(q: Tensor, k: Tensor, v: Tensor, number: int, is_causal: bool, scale: float) -> list[Tensor]:  # noqa: ARG001, FBT001, PLR0917 - as above
    out = q.new_empty(q.shape)
    if not _operators[number].package.gives_lse:
        return [out]
    return [out, q.new_empty((q.shape[0], q.shape[2], q.shape[1]), dtype=torch.float32)]
