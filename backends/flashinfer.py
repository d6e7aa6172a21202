"""`FLASHINFER_ATTN`: FlashInfer's dense prefill kernels, one build of them for each provider."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from backends._begin import begin
from backends._flashinfer_bits import packed
from backends._flashinfer_calls import is_lengths, nothing, run_sequences
from backends._flashinfer_checks import (
    LENGTHS,
    check_alignment,
    check_fields,
    check_kind,
    imported,
)
from backends._flashinfer_launch import Job, Opaque, folded, try_launch
from backends._flashinfer_plans import Plans, PrefillLaunch
from backends._flashinfer_quant import read_quant
from backends._lse import heads_first
from backends._sdpa import HALVES, bound_geometry
from backends.interface import BindError, CallRefused
from backends.workspace import SHARED, Workspaces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from backends._checks import Bound, CallShape
    from backends._flashinfer_launch import Launch
    from backends._flashinfer_plans import Wrapper
    from backends._flashinfer_quant import Types
    from backends.interface import Backend, Causal, Geometry, Kernel, Precision
    from backends.masks import Kind, Mask

MODULE = "flashinfer.prefill"
HEAD_DIMS = (64, 128, 256)
MASKED: tuple[Kind, ...] = ("key_padding", "key_and_query_padding", "boolean_per_query")
"""The kinds that become a custom mask."""


class Build(NamedTuple):
    """One of FlashInfer's families of prefill kernels."""

    kernel: str
    """FlashInfer's name of it."""
    alone: bool
    """Whether `single_prefill_with_kv_cache` knows it."""
    takes: tuple[Kind, ...]
    own_values: bool
    """Whether values may have another type than keys."""


BUILDS = {
    "flashinfer-fa2": Build("fa2", alone=True, takes=(*LENGTHS, *MASKED), own_values=False),
    "flashinfer-fa3": Build("fa3", alone=True, takes=LENGTHS, own_values=False),
    "flashinfer-cute-dsl": Build("cute-dsl", alone=False, takes=LENGTHS, own_values=True),
}
"""The builds by `Geometry.provider`."""


@dataclass(frozen=True, slots=True)
class FlashInferKernel:
    """A `Kernel` over one of FlashInfer's builds. It has no backward pass, and synchronises for new lengths alone.

    One sequence goes to the single kernel, several to the ragged one. A custom mask holds one sequence, so a masked
    call starts a kernel for each batch. A prepared padding whose lengths the host knows needs no mask.
    """

    bound: Bound
    launch: Launch
    takes: tuple[Kind, ...]
    """The kinds of mask that this build takes."""
    precision: Precision = "exact"

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
        (out,) = self._attended((q, k, v), mask, causal, scale)
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
        """See `LseKernel.with_lse`."""
        out, lse = self._attended((q, k, v), mask, causal, scale, lse=True)
        return out, lse

    def _attended(
        self,
        inputs: tuple[Tensor, Tensor, Tensor],
        mask: Mask | None,
        causal: Causal | None,
        scale: float | None,
        *,
        lse: bool = False,
    ) -> list[Tensor]:
        """The output and, where `lse`, the log-sum-exp."""
        q, k, v = inputs
        call, mask = begin(self.bound, q, k, v, mask=mask, causal=causal, lse=lse)
        if not is_lengths(mask):
            check_kind(mask, self.takes, f"provider `{self.bound.geometry.provider}`")
        check_alignment(mask, call, causal)
        factor, q = folded(scale, q)
        if is_lengths(mask):
            return run_sequences(self.launch, (q, k, v), mask, call, causal=causal is not None, scale=factor, lse=lse)
        return self._masked((q, k, v), mask, call, factor, lse=lse)

    def _masked(
        self, inputs: tuple[Tensor, Tensor, Tensor], mask: Mask, call: CallShape, scale: float, *, lse: bool
    ) -> list[Tensor]:
        q, k, v = inputs
        keep = mask.visible(call, q.device)
        if mask.per_head:
            raise CallRefused(
                f"mask `{mask.kind}`: wanted one mask for all heads, got one for each of {call.num_heads}"
            )
        if keep is None or 0 in (call.batch, call.seq_len_q, call.seq_len_kv):
            return nothing(q, lse=lse)
        bits = [packed(one[0], call.seq_len_q) for one in keep]
        job = Job((call.seq_len_q,), (call.seq_len_kv,), causal=False, scale=scale)
        dead = ~keep.any(dim=-1, keepdim=True).transpose(1, 2)
        live = mask.live_queries()
        dead = dead if live is None else dead | ~live.transpose(1, 2)
        sequences = [(q[i], k[i], v[i], bits[i % len(bits)], job) for i in range(call.batch)]
        if not lse:
            return [torch.stack([self.launch(*one) for one in sequences]).masked_fill(dead, 0.0)]
        outs, seen = zip(*[self.launch.with_lse(*one) for one in sequences], strict=True)
        return [torch.stack(outs).masked_fill(dead, 0.0), heads_first(torch.stack(seen), dead)]


@dataclass(frozen=True, slots=True)
class FlashInferAttention:
    """Lengths and documents with every provider, boolean masks for all heads alike where the build takes them.

    Causal calls align bottom right and have no mask. Reads `quant`: `dtype_qk` and `dtype_vo`, the types that queries
    and keys, and values, are given to the kernel in (the layer's where not named; only a build with values of their own
    type takes two), and `flashinfer_backend`, which must not contradict the provider.

    `importer` imports a module by its name. `device_type` is where the kernels run.
    """

    name: str = "FLASHINFER_ATTN"
    importer: Callable[[str], object] = importlib.import_module
    device_type: str = "cuda"
    workspaces: Workspaces = SHARED
    workspace_bytes: int = 128 * 2**20
    plans: Plans = field(default_factory=Plans)

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; the kernel for one sequence has run once on this device when this returns.

        The first binding of a head_dim and a dtype compiles it, which takes a minute or two; the kernel for several
        sequences is compiled when it is first needed.
        """
        check_fields(f"`spec` of `{self.name}`", spec, ("quant",))
        build = self._build(geometry)
        bound = bound_geometry(self.name, {}, replace(geometry, provider=None))._replace(geometry=geometry)
        self._check_limits(bound)
        types = read_quant(self.name, spec, bound.dtype, build.kernel)
        self._check_types(types, build, geometry)
        launch = self._launch(build, types)
        try:
            try_launch(launch, bound)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise BindError(f"`{self.name}`: wanted a kernel of FlashInfer for {geometry}, got {reason}") from error
        rounds = torch.float8_e4m3fn in types
        return FlashInferKernel(bound, Opaque(launch), build.takes, "fp8" if rounds else "exact")

    def _build(self, geometry: Geometry) -> Build:
        build = BUILDS.get(geometry.provider or "")
        if build is None:
            got = geometry.provider or "none"
            raise BindError(f"`provider` of `{self.name}`: wanted {', '.join(BUILDS)}, got {got}")
        return build

    def _check_limits(self, bound: Bound) -> None:
        for key, wanted, fits in (
            ("device", self.device_type, bound.device.type == self.device_type),
            ("dtype", "float16 or bfloat16", bound.dtype in HALVES),
            ("head_dim", ", ".join(map(str, HEAD_DIMS)), bound.geometry.head_dim in HEAD_DIMS),
        ):
            if not fits:
                raise BindError(f"`{key}` of `{self.name}`: wanted {wanted}, got {getattr(bound.geometry, key)}")

    def _check_types(self, types: Types, build: Build, geometry: Geometry) -> None:
        if types.qk != types.vo and not build.own_values:
            got = f"`dtype_qk` {types.qk} and `dtype_vo` {types.vo}".replace("torch.", "")
            wanted = f"one type, for provider `{geometry.provider}` reads values as it reads keys"
            raise BindError(f"`quant` of `{self.name}`: wanted {wanted}, got {got}")

    def _launch(self, build: Build, types: Types) -> PrefillLaunch:
        single = self._symbol("single_prefill_with_kv_cache") if build.alone else None
        wrapper = cast("Callable[..., Wrapper]", self._symbol("BatchPrefillWithRaggedKVCacheWrapper"))
        return PrefillLaunch(build.kernel, single, wrapper, types, self.plans, self.workspaces, self.workspace_bytes)

    def _symbol(self, name: str) -> Callable[..., Tensor]:
        return cast("Callable[..., Tensor]", imported(self.name, self.importer, MODULE, name))


BACKEND: Backend = FlashInferAttention()
