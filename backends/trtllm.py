"""`TRTLLM_ATTN`: the trtllm-gen kernels in FlashInfer; dense, quantised (SAGE), and with Skip-Softmax."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from backends._begin import begin
from backends._flashinfer_calls import run_sequences
from backends._flashinfer_checks import LENGTHS, check_alignment, check_fields, check_kind
from backends._flashinfer_launch import Opaque, folded, try_launch
from backends._lse import without_lse
from backends._sdpa import bound_geometry
from backends._trtllm_launch import NOTICES, Notices, TrtllmLaunch, functions
from backends._trtllm_options import SPEC, read_quant, read_skip_softmax
from backends.interface import BindError, CallRefused
from backends.skip_softmax import SkipSoftmax
from backends.workspace import SHARED, Workspaces

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from backends._checks import Bound
    from backends._flashinfer_launch import Launch
    from backends.interface import Backend, Causal, Geometry, Kernel, Precision
    from backends.masks import Mask

HEAD_DIM = 128
DTYPE = torch.bfloat16


@dataclass(frozen=True, slots=True)
class TrtllmKernel:
    """A `Kernel` over trtllm-gen. It has no backward pass and waits for nothing after new lengths were copied once."""

    bound: Bound
    launch: Launch
    quantised: bool
    skips: bool = False

    @property
    def lse_fault(self) -> str | None:
        """Why it has no log-sum-exp to give, or None."""
        if self.quantised:
            return "one with `quant`, which takes the mean off the keys and shifts it"
        return "one with `skip_softmax`, which leaves tiles out of it" if self.skips else None

    @property
    def precision(self) -> Precision:
        """Values are quantised to eight bits whatever queries and keys are."""
        return "fp8" if self.quantised else "exact"

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
        """See `LseKernel.with_lse`; refused where the config quantises, or skips."""
        if self.lse_fault is not None:
            raise without_lse("TRTLLM_ATTN", self.lse_fault)
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
        check_kind(mask, LENGTHS, "trtllm-gen")
        check_alignment(mask, call, causal)
        if causal is not None and self.quantised:
            raise CallRefused(f"`causal`: wanted none with `quant`, got `{causal}`")
        factor, q = folded(scale, q)
        return run_sequences(self.launch, (q, k, v), mask, call, causal=causal is not None, scale=factor, lse=lse)


@dataclass(frozen=True, slots=True)
class TrtllmAttention:
    """Lengths and documents, grouped heads, causal bottom right without a mask; bfloat16 and a head_dim of 128.

    Reads from its spec:

    - `quant`: `dtype_qk` (`int8`, `fp8_e4m3`; without it nothing is quantised), `q_block_size`, `k_block_size`. A call
      with a sequence shorter than a block of keys is not quantised, since its result would not be finite; a warning
      says so once. A quantised causal call is refused: no source shows such a kernel.
    - `skip_softmax`: `threshold` or `target_sparsity`, and `disabled_until_timestep`, which is compared with
      `backends.denoise.denoise_step` at each call; where that is not known the call is dense, and a warning says so
      once.
    - `calibration`, a `backends.calibration.Calibration`, and `layer`, the layer's name in the checkpoint
      (`transformer.blocks.0.attn1`): both for `target_sparsity` alone. A layer without a curve stays dense.

    A captured graph keeps the factor that it was captured with, so capture one for each side of the gate.
    """

    name: str = "TRTLLM_ATTN"
    importer: Callable[[str], object] = importlib.import_module
    device_type: str = "cuda"
    workspaces: Workspaces = SHARED
    workspace_bytes: int = 394 * 2**20
    notices: Notices = NOTICES

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; dense and as configured, the kernel has run on this device when this returns."""
        check_fields(f"`spec` of `{self.name}`", spec, SPEC)
        bound = bound_geometry(self.name, {}, geometry)
        self._check_limits(bound)
        sage, skip = read_quant(self.name, spec), read_skip_softmax(self.name, spec)
        found = functions(self.name, self.importer, sage=sage is not None, skips=skip.enabled)
        launch = TrtllmLaunch(self.name, found, sage, skip, self.workspaces, self.workspace_bytes, self.notices)
        try:
            try_launch(replace(launch, sage=None, skip=SkipSoftmax()), bound)
            try_launch(replace(launch, skip=replace(skip, disabled_until_timestep=0.0)), bound)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise BindError(f"`{self.name}`: wanted a kernel of trtllm-gen for {geometry}, got {reason}") from error
        return TrtllmKernel(bound, Opaque(launch), sage is not None, skip.enabled)

    def _check_limits(self, bound: Bound) -> None:
        for key, wanted, fits in (
            ("device", self.device_type, bound.device.type == self.device_type),
            ("dtype", "bfloat16", bound.dtype == DTYPE),
            ("head_dim", str(HEAD_DIM), bound.geometry.head_dim == HEAD_DIM),
        ):
            if not fits:
                raise BindError(f"`{key}` of `{self.name}`: wanted {wanted}, got {getattr(bound.geometry, key)}")


BACKEND: Backend = TrtllmAttention()
