"""What a check is, and how an answer is judged: shape, dtype, device, hidden rows, error, arguments left alone."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import torch

from backends._checks import dtype_name
from backends.conformance.calls import Call, Draw
from backends.interface import CallRefused, Geometry
from backends.reference import log_sum_exp

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends.interface import Backend, Kernel, Precision

TOLERANCES: Mapping[Precision, float] = {"exact": 0.05, "int8": 0.08, "fp8": 0.25, "fp4": 0.8}
"""The largest absolute error of each class in half precision; docs/conformance.md says where the numbers come from."""
FULL: Mapping[str, float] = {"float32": 1e-4, "float64": 1e-10}
"""The same for exact kernels in full precision, where only the order of additions is left to differ."""
LSE_TOLERANCE = 1e-5
"""The least that is allowed of a log-sum-exp, which is float32 whatever the inputs are."""
_POISONED = 8


class Verdict(NamedTuple):
    """What was wanted of an answer and what it was; `error` is the largest absolute one, where there is one."""

    wanted: str
    got: str
    error: float | None = None
    good: bool = False


Judge: TypeAlias = "Callable[[Kernel, Call, float, bool], Verdict]"
"""Makes the call and judges the answer by a tolerance; the flag is `Check.relative`."""


def _as_it_is(geometry: Geometry) -> Geometry:
    return geometry


def _answer(kernel: Kernel, call: Call, tolerance: float, relative: bool) -> Verdict:  # noqa: FBT001 - a `Judge`
    return judged(call.of(kernel), call, tolerance, relative=relative)


@dataclass(frozen=True, slots=True)
class Check:
    """One small call. `reason` says what a kernel does that fails it.

    `at` is the geometry that the check needs, near the one that is asked about. `relative` says that numbers are so
    large that an error counts as a part of the largest one of its batch, head and channel.
    """

    name: str
    reason: str
    make: Callable[[Draw], Call]
    at: Callable[[Geometry], Geometry] = _as_it_is
    relative: bool = False
    judge: Judge = _answer

    def on(self, kernel: Kernel, geometry: Geometry, tolerance: float) -> Verdict:
        """Makes the call and judges the answer. Raises what the kernel raises, `CallRefused` among it."""
        call = self.make(Draw(geometry))
        before = [tensor.clone() for _, tensor in call.tensors()]
        with torch.no_grad(), poisoned(call.q):
            verdict = self.judge(kernel, call, tolerance, self.relative)
        for (name, tensor), kept in zip(call.tensors(), before, strict=True):
            if verdict.good and not torch.equal(tensor, kept):
                return Verdict(f"`{name}` left as it was", "other numbers in it", verdict.error)
        return verdict


def tolerance_of(precision: Precision, dtype: str) -> float:
    """The largest absolute error that is allowed."""
    return FULL.get(dtype, TOLERANCES["exact"]) if precision == "exact" else TOLERANCES[precision]


def precision_of(backend: Backend, kernel: Kernel) -> Precision:
    """The class that the kernel, or else its backend, says it is of. Raises `ValueError` for a word that is none."""
    said: object = getattr(kernel, "precision", getattr(backend, "precision", "exact"))
    for precision in TOLERANCES:
        if said == precision:
            return precision
    raise ValueError(f"`precision` of `{backend.name}`: wanted {', '.join(TOLERANCES)}, got {said}")


@contextmanager
def poisoned(like: Tensor) -> Iterator[None]:
    """Leaves NaN in the memory that an output will be given, so that rows which are not written are seen.

    On a CPU torch fills all new memory so. Elsewhere blocks of the output's size are given back full of NaN, and torch
    hands out one of them next.
    """
    if like.device.type != "cpu":
        blocks = [torch.full_like(like, math.nan, memory_format=torch.contiguous_format) for _ in range(_POISONED)]
        del blocks
        yield
        return
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*deterministic")
            yield
    finally:
        torch.use_deterministic_algorithms(mode=before[0], warn_only=before[1])


def judged(out: object, call: Call, tolerance: float, *, relative: bool = False) -> Verdict:
    """An output against the definition."""
    if not isinstance(out, torch.Tensor):
        return Verdict("a tensor", type(out).__name__)
    wanted, got = described(call.q), described(out)
    if wanted != got:
        return Verdict(wanted, got)
    truth = call.truth()
    blind = (truth == 0).all(dim=-1)
    if bool((out[blind] != 0).any()):
        number = largest(out[blind].double())
        return Verdict("zeros in rows that see no key", f"up to {number:.3g}", number)
    difference = out.double() - truth
    if relative and truth.numel():
        difference = difference / truth.abs().amax(dim=1, keepdim=True).clamp(min=1)
    return within(difference, tolerance)


def within(difference: Tensor, tolerance: float) -> Verdict:
    """Whether nothing is further from 0 than the tolerance."""
    error = largest(difference)
    return Verdict(f"an error of at most {tolerance:g}", f"{error:.3g}", error, good=error <= tolerance)


def largest(tensor: Tensor) -> float:
    """The largest absolute number, NaN where there is one; 0 of nothing."""
    return tensor.abs().max().item() if tensor.numel() else 0.0


def described(tensor: Tensor) -> str:
    """Dtype, shape and device."""
    return f"{dtype_name(tensor.dtype)} {list(tensor.shape)} on {tensor.device}"


def judge_lse(kernel: Kernel, call: Call, tolerance: float, relative: bool) -> Verdict:  # noqa: FBT001 - a `Judge`
    """The output, and the log-sum-exp beside it; a kernel that has none is not asked for one."""
    with_lse = getattr(kernel, "with_lse", None)
    if with_lse is None:
        raise CallRefused("`with_lse`: wanted a kernel that has it, got one that gives no log-sum-exp")
    out, lse = with_lse(call.q, call.k, call.v, mask=call.mask, causal=call.causal, scale=call.scale)
    verdict = judged(out, call, tolerance, relative=relative)
    if not verdict.good:
        return verdict
    truth = lse_of(call)
    wanted = described(truth.float())
    if described(lse) != wanted:
        return Verdict(f"a log-sum-exp {wanted}", described(lse))
    if not torch.equal(lse == -math.inf, truth == -math.inf):
        return Verdict("-inf where no key is seen, and there alone", "-inf elsewhere, or none")
    difference = (lse.double() - truth).masked_fill(truth == -math.inf, 0.0)
    return within(difference, max(tolerance, LSE_TOLERANCE))


def lse_of(call: Call) -> Tensor:
    """The log-sum-exp of the scores in float64, `[batch, heads, seq_q]`, by the definition."""
    return log_sum_exp(call.q, call.k, mask=call.mask, causal=call.causal, scale=call.scale)
