"""What the Sage backends share: which calls they take, keys cut to their lengths, and the limits of a geometry."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import torch

from backends._begin import begin
from backends._lse import unseen, without_lse
from backends._sage_tensors import ELEMENTS_MOST, filled, positive
from backends._sdpa import HALVES
from backends.interface import BindError, CallRefused
from backends.masks import AllKeep, KeyLengths, NoMask

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import Tensor

    from backends._checks import Bound, CallShape
    from backends._sage_trial import Errors
    from backends.interface import Causal, Precision
    from backends.masks import Mask

FEWEST_KEYS = 2
LSE_MOST = 0.25
"""Rounding to eight bits moves a log-sum-exp by 0.02; builds that forget the mean of the keys are off by 2 and more."""


class Run(Protocol):
    """A package's kernel on `[batch, seq, heads, head_dim]`, exact for every length and for every finite value.

    Equal ones run the same code.
    """

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> Tensor:
        """Every query sees every key or, for equal lengths, none behind its own place; `scale` is positive."""
        ...

    def __hash__(self) -> int: ...


@runtime_checkable
class LseRun(Run, Protocol):
    """A `Run` that gives the log-sum-exp too."""

    def with_lse(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> tuple[Tensor, Tensor]:
        """The same, and the log-sum-exp to base e, float32 `[batch, heads, seq_q]`."""
        ...


class Part(NamedTuple):
    """Batches `start` up to `stop`, which all see their first `keys` keys."""

    start: int
    stop: int
    keys: int


@dataclass(frozen=True, slots=True)
class SageKernel:
    """A `Kernel` over one way to run a Sage package, for inference alone.

    Suffix padding is cut off the keys, and the kernel runs for each run of batches of one length; any other mask that
    hides something is refused. A `causal_fault` says why no causal call is taken, and an `lse_fault` what kernel it is
    that gives no log-sum-exp.
    """

    bound: Bound
    run: Run
    causal_fault: str | None = None
    precision: Precision = "int8"
    lse_fault: str = "one whose package gives the output alone"
    lse_run: LseRun | None = None
    """`run`, where it gives the log-sum-exp as it should."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """See `Kernel.__call__`."""
        call, mask = self._begun(q, k, v, mask, causal, lse=False)
        if 0 in (call.batch, call.seq_len_q, mask.leading_keys(call)):
            return q.new_zeros(q.shape)
        scale, q = positive(self.bound.geometry.head_dim**-0.5 if scale is None else scale, q)
        outs = [
            self._run(*_cut(part, q, k, v), is_causal=causal is not None, scale=scale) for part in _parts(mask, call)
        ]
        return outs[0] if len(outs) == 1 else torch.cat(outs)

    def with_lse(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `LseKernel.with_lse`; of scores as the kernel rounds them."""
        call, mask = self._begun(q, k, v, mask, causal, lse=True)
        if self.lse_run is None:
            raise without_lse("SageAttention", self.lse_fault)
        if 0 in (call.batch, call.seq_len_q, mask.leading_keys(call)):
            return q.new_zeros(q.shape), unseen(q)
        scale, q = positive(self.bound.geometry.head_dim**-0.5 if scale is None else scale, q)
        outs, seen = [], []
        for part in _parts(mask, call):
            own_q, own_k, own_v = _cut(part, q, k, v)
            if part.keys == 0:
                out, lse = own_q.new_zeros(own_q.shape), unseen(own_q)
            else:
                out, lse = self.lse_run.with_lse(own_q, own_k, own_v, is_causal=causal is not None, scale=scale)
            outs.append(out)
            seen.append(lse)
        return torch.cat(outs), torch.cat(seen).contiguous()

    def _begun(
        self, q: Tensor, k: Tensor, v: Tensor, mask: Mask | None, causal: Causal | None, *, lse: bool
    ) -> tuple[CallShape, Mask]:
        """The call, if it is one that this kernel takes."""
        call, mask = begin(self.bound, q, k, v, mask=mask, causal=causal, lse=lse)
        _check_mask_kind(mask)
        _check_tensors(q, k, v)
        if causal is not None:
            self._check_causal(causal, mask, call)
        return call, mask

    def _run(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> Tensor:
        return q.new_zeros(q.shape) if k.shape[1] == 0 else self.run(q, k, v, is_causal=is_causal, scale=scale)

    def _check_causal(self, causal: Causal, mask: Mask, call: CallShape) -> None:
        if isinstance(mask, KeyLengths):
            raise CallRefused(f"`causal`: wanted none beside a mask `{mask.kind}`, got `{causal}`")
        if call.seq_len_q != call.seq_len_kv:
            lengths = f"{call.seq_len_q} queries and {call.seq_len_kv} keys"
            raise CallRefused(f"`causal`: wanted as many queries as keys, got {lengths}")
        if self.causal_fault is not None:
            raise CallRefused(f"`causal`: wanted none, got `{causal}`; {self.causal_fault}")


def _parts(mask: Mask, call: CallShape) -> list[Part]:
    """The batches, those of one length that stand side by side together."""
    if not isinstance(mask, KeyLengths):
        return [Part(0, call.batch, call.seq_len_kv)]
    parts: list[Part] = []
    for batch, keys in enumerate(mask.per_batch(call.batch)):
        if parts and parts[-1].keys == keys:
            parts[-1] = parts[-1]._replace(stop=batch + 1)
        else:
            parts.append(Part(batch, batch + 1, keys))
    return parts


def _cut(part: Part, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    if part.stop - part.start != q.shape[0]:
        q, k, v = q[part.start : part.stop], k[part.start : part.stop], v[part.start : part.stop]
    return (q, k, v) if part.keys == k.shape[1] else (q, k[:, : part.keys], v[:, : part.keys])


def _check_mask_kind(mask: Mask) -> None:
    if not isinstance(mask, (NoMask, AllKeep, KeyLengths)):
        raise CallRefused(f"mask: wanted `none`, `all_keep` or `suffix_key_padding`, got `{mask.kind}`")


def _check_tensors(q: Tensor, k: Tensor, v: Tensor) -> None:
    if 0 < k.shape[1] < FEWEST_KEYS:
        raise CallRefused(f"`seq_len_kv`: wanted {FEWEST_KEYS} or more, got {k.shape[1]}")
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if filled(tensor) >= ELEMENTS_MOST:
            wanted = f"fewer than {ELEMENTS_MOST} elements, filled up to whole blocks"
            raise CallRefused(f"`{name}`: wanted {wanted}, got {filled(tensor)}")


def check_limits(name: str, bound: Bound, device: str, *more: tuple[str, str, bool]) -> None:
    """Raises `BindError` unless the geometry is in half precision on that type of device, and keeps to `more`.

    Each of those is a field, what is wanted of it and whether it is so.
    """
    for field, wanted, fits in (
        ("device", device, bound.device.type == device),
        ("dtype", "float16 or bfloat16", bound.dtype in HALVES),
        *more,
    ):
        if not fits:
            raise BindError(f"`{field}` of `{name}`: wanted {wanted}, got {getattr(bound.geometry, field)}")


def imported(name: str, importer: Callable[[str], ModuleType], package: str) -> ModuleType:
    """The package; raises `BindError` for whatever a broken installation of it raises."""
    try:
        return importer(package)
    except Exception as error:
        raise BindError(f"`{name}`: wanted the package `{package}`, got {type(error).__name__}: {error}") from error


def bind_kernel(
    name: str,
    bound: Bound,
    run: Run,
    trial: Callable[[Bound, Run], Errors],
    most: float,
    *,
    precision: Precision,
) -> SageKernel:
    """The kernel over `run`, if `trial` finds no larger error than `most`; `BindError` if it does, or raises.

    Where only causal calls, or the log-sum-exp, are off, those alone are refused.
    """
    try:
        errors = trial(bound, run)
    except Exception as error:
        raise BindError(
            f"`{name}`: wanted a kernel for {bound.geometry}, got {type(error).__name__}: {error}"
        ) from error
    if not errors.dense <= most:
        raise BindError(f"`{name}`: wanted an error of at most {most} for {bound.geometry}, got {errors.dense:.2g}")
    kernel = SageKernel(bound, run, precision=precision)
    if not errors.causal <= most:
        fault = f"when bound, the kernel was off by {errors.causal:.2g}, wanted at most {most}"
        kernel = replace(kernel, causal_fault=fault)
    if not errors.lse <= LSE_MOST:
        fault = f"one whose log-sum-exp was off by {errors.lse:.2g} when bound, wanted at most {LSE_MOST}"
        return replace(kernel, lse_fault=fault)
    return replace(kernel, lse_run=run) if isinstance(run, LseRun) else kernel
