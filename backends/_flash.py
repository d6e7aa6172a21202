"""What every backend over FlashAttention's functions shares: limits, the trial, masks as lengths or packing."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import torch
from torch.nn.functional import pad

from backends._begin import begin, wants_gradients
from backends._checks import CallShape
from backends._flash_backward import check_backward
from backends._flash_providers import Build
from backends._lse import heads_first, unseen
from backends._sdpa import HALVES, _positive, bound_geometry
from backends.interface import BindError, CallRefused
from backends.masks import KeyAndQueryPadding, KeyLengths
from backends.packing import ragged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends._checks import Bound
    from backends._flash_providers import Origin
    from backends.interface import Causal, Geometry, Repeated
    from backends.masks import Kind, Mask
    from backends.packing import Ragged

HEAD_DIM_STEP = 8
HEAD_DIM_MOST = 256
TRIAL_LENGTH = 64
UNMASKED: tuple[Kind, ...] = ("none", "all_keep")
HONOURED: tuple[Kind, ...] = (
    *UNMASKED,
    "suffix_key_padding",
    "key_padding",
    "key_and_query_padding",
    "block_diagonal",
)

Trial = Callable[[Build, "Bound"], str | None]
"""Says why a build will not run a geometry on this machine, or None; it may raise anything."""


def try_build(build: Build, bound: Bound) -> str | None:
    """Runs the dense function once on zeros of this geometry; None when the output is one, else what it is instead.

    Builds that leave out a dtype, a head_dim or a GPU say so nowhere else, and compiled ones compile here.
    """
    geometry = bound.geometry
    q = torch.zeros(1, TRIAL_LENGTH, geometry.num_heads, geometry.head_dim, dtype=bound.dtype, device=bound.device)
    k = q.new_zeros(1, TRIAL_LENGTH, geometry.num_kv_heads, geometry.head_dim)
    with torch.no_grad():
        out = build.dense(q, k, k, scale=None, causal=False)
    if out.shape != q.shape or out.dtype != q.dtype:
        return f"{out.dtype} {list(out.shape)} for a query of {q.dtype} {list(q.shape)}"
    return None if not out.any() else "numbers that are not zero for values that are"


@dataclass(frozen=True, slots=True)
class Family:
    """A backend's name, the type of device that it runs on, and how a build is tried out."""

    name: str
    device: str = "cuda"
    trial: Trial = try_build

    def bind(self, spec: Mapping[str, object], geometry: Geometry, find: Callable[[], Build]) -> FlashKernel:
        """A kernel over the build that `find` gives, which has run once on this device when this returns."""
        bound = self.limited(spec, geometry)
        build = find()
        try:
            reason = self.trial(build, bound)
        except Exception as error:
            raise BindError(
                f"`{self.name}`: wanted {build.origin} to run {geometry}, got {type(error).__name__}: {error}"
            ) from error
        if reason is not None:
            raise BindError(f"`{self.name}`: wanted {build.origin} to run {geometry}, got {reason}")
        return FlashKernel(self.name, bound, build)

    def limited(self, spec: Mapping[str, object], geometry: Geometry) -> Bound:
        """The geometry in torch's types; raises `BindError` for what no build can run."""
        bound = bound_geometry(self.name, spec, replace(geometry, provider=None))
        bound = bound._replace(geometry=geometry, differentiable=True)
        for field, wanted, fits in (
            ("device", self.device, bound.device.type == self.device),
            ("dtype", "float16 or bfloat16", bound.dtype in HALVES),
            ("head_dim", f"a multiple of {HEAD_DIM_STEP}", geometry.head_dim % HEAD_DIM_STEP == 0),
            ("head_dim", f"at most {HEAD_DIM_MOST}", geometry.head_dim <= HEAD_DIM_MOST),
        ):
            if not fits:
                raise BindError(f"`{field}` of `{self.name}`: wanted {wanted}, got {getattr(geometry, field)}")
        return bound


@dataclass(frozen=True, slots=True)
class FlashKernel:
    """A `Kernel` over one build.

    Lengths that all batches share slice keys and queries; other lengths and paddings pack them. What a mask is packed
    by is made on its first call, without waiting for the device, and kept with it.
    """

    name: str
    bound: Bound
    build: Build

    @property
    def origin(self) -> Origin:
        """Where the code came from."""
        return self.build.origin

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
        call, mask = begin(self.bound, q, k, v, mask=mask, causal=causal)
        if wants_gradients(q, k, v):
            check_backward(self.build, self.bound)
        (out,) = self._attended((q, k, v), mask, call, causal, scale)
        return out

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
        """See `LseKernel.with_lse`; refuses tensors that want gradients, and a build that does not give it."""
        call, mask = begin(self.bound, q, k, v, mask=mask, causal=causal, lse=True)
        out, lse = self._attended((q, k, v), mask, call, causal, scale, lse=True)
        return out, lse

    def repeated(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        causal: Causal | None,
        scale: float | None,
    ) -> Repeated | None:
        """See `RepeatedKernel.repeated`: the dense function alone, where it is given all queries and keys."""
        call = CallShape(q.shape[0], q.shape[2], q.shape[1], k.shape[1])
        blind = causal is not None and call.seq_len_q > call.seq_len_kv
        trained = q.requires_grad or k.requires_grad or v.requires_grad  # then each call asks whether it is recorded
        if 0 in call or blind or trained or not (scale is None or scale > 0):
            return None
        return partial(self.build.dense, scale=scale, causal=causal is not None)

    def _attended(
        self,
        inputs: tuple[Tensor, Tensor, Tensor],
        mask: Mask,
        call: CallShape,
        causal: Causal | None,
        scale: float | None,
        *,
        lse: bool = False,
    ) -> list[Tensor]:
        """The output and, where `lse`, the log-sum-exp."""
        q, k, v = inputs
        self._check_honoured(mask, causal, call)
        if 0 in (call.batch, call.seq_len_q, mask.leading_keys(call)):
            return _nothing(q, lse=lse)
        scale, q = _positive(scale, q)
        shared = _shared_lengths(mask, call)
        if shared is not None:
            return self._sliced(shared, q, k, v, is_causal=causal is not None, scale=scale, lse=lse)
        return self._packed(ragged(mask, call), q, k, v, scale, lse=lse)

    def _check_honoured(self, mask: Mask, causal: Causal | None, call: CallShape) -> None:
        if mask.kind not in HONOURED:
            wanted = ", ".join(f"`{kind}`" for kind in HONOURED)
            raise CallRefused(f"`mask` of `{self.name}`: wanted one of {wanted}, got `{mask.kind}`")
        if causal is not None and mask.kind not in UNMASKED:
            raise CallRefused(f"`mask` of `{self.name}` beside causal: wanted `none` or `all_keep`, got `{mask.kind}`")
        if causal == "top_left" and call.seq_len_q != call.seq_len_kv:
            lengths = f"{call.seq_len_q} queries and {call.seq_len_kv} keys"
            raise CallRefused(f"`causal` of `{self.name}`: wanted `bottom_right` for {lengths}, got `{causal}`")

    def _sliced(
        self,
        lengths: tuple[int, int],
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        is_causal: bool,
        scale: float | None,
        lse: bool,
    ) -> list[Tensor]:
        """The first so many queries over the first so many keys; the other rows, and blind ones, see nothing."""
        queries, keys = lengths
        first = max(0, queries - keys) if is_causal else 0
        if 0 in (queries, keys):
            return _nothing(q, lse=lse)
        parts = _part(q, first, queries), _part(k, 0, keys), _part(v, 0, keys)
        sides = (first, q.shape[1] - queries)
        if not lse:
            return [_filled(self.build.dense(*parts, scale=scale, causal=is_causal), sides)]
        out, seen = self.build.dense_lse(*parts, scale=scale, causal=is_causal)
        return [_filled(out, sides), seen if sides == (0, 0) else pad(seen, sides, value=-math.inf)]

    def _packed(
        self, sides: Ragged, q: Tensor, k: Tensor, v: Tensor, scale: float | None, *, lse: bool
    ) -> list[Tensor]:
        if 0 in (sides.q.longest, sides.k.longest):
            return _nothing(q, lse=lse)
        parts = sides.q.pack(q), sides.k.pack(k), sides.k.pack(v)
        offsets = sides.q.cu_seqlens(q.device), sides.k.cu_seqlens(q.device)
        longest = sides.q.longest, sides.k.longest
        if not lse:
            return [_unpacked(sides, self.build.varlen(*parts, offsets=offsets, longest=longest, scale=scale))]
        out, tokens = self.build.varlen_lse(*parts, offsets=offsets, longest=longest, scale=scale)
        return [_unpacked(sides, out), heads_first(sides.q.unpack(tokens, -math.inf), sides.dead)]


def _nothing(q: Tensor, *, lse: bool) -> list[Tensor]:
    """What a call gives in which no query sees a key."""
    return [_zeros(q), unseen(q)] if lse else [_zeros(q)]


def _filled(out: Tensor, sides: tuple[int, int]) -> Tensor:
    """The output with so many rows of zeros before it and behind it."""
    return out if sides == (0, 0) else pad(out, (0, 0, 0, 0, *sides))


def _unpacked(sides: Ragged, tokens: Tensor) -> Tensor:
    out = sides.q.unpack(tokens)
    return out if sides.dead is None else out.masked_fill(sides.dead, 0.0)


def _zeros(q: Tensor) -> Tensor:
    """Zeros that depend on the query, so that a training step does not stop there."""
    return q.masked_fill(q.new_ones((), dtype=torch.bool), 0.0)


def _part(tensor: Tensor, start: int, stop: int) -> Tensor:
    return tensor if (start, stop) == (0, tensor.shape[1]) else tensor[:, start:stop]


def _shared_lengths(mask: Mask, call: CallShape) -> tuple[int, int] | None:
    """How many leading queries and keys are left, where the host knows that and every batch has as many."""
    if mask.kind in UNMASKED:
        return call.seq_len_q, call.seq_len_kv
    if isinstance(mask, KeyLengths) and mask.uniform is not None:
        return call.seq_len_q, mask.uniform
    if isinstance(mask, KeyAndQueryPadding) and mask.lengths is not None:
        queries, keys = mask.lengths
        if min(queries) == max(queries) and min(keys) == max(keys):
            return queries[0], keys[0]
    return None
