"""The trtllm-gen kernel of FlashInfer started: dense, quantised, and with tiles skipped."""

from __future__ import annotations

import inspect
import math
import threading
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import torch

from backends._flashinfer_calls import counts
from backends._flashinfer_checks import imported
from backends._flashinfer_launch import readable
from backends.denoise import current_timestep
from backends.interface import BindError
from backends.packing import cu_seqlens

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from torch import Tensor

    from backends._flashinfer_launch import Job
    from backends._trtllm_options import Sage
    from backends.skip_softmax import SkipSoftmax
    from backends.workspace import Workspaces

LN_2 = math.log(2)
MODULE = "flashinfer.prefill"
PURPOSE = "trtllm"
SCALES = "sage_attn_sfs"
FACTOR = "skip_softmax_threshold_scale_factor"
NO_CHECK = "skip_all_rows_active_check"
MIRRORS = ("q_seq_lens_cpu", "kv_seq_lens_cpu")
SMOOTH_K = "smooth_k"


@dataclass(frozen=True, slots=True, eq=False)
class Notices:
    """Warnings that are given once a process, however many layers have the same reason."""

    _said: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def once(self, reason: str, message: str) -> None:
        """Warns with `message` unless this reason has been given."""
        with self._lock:
            new = reason not in self._said
            self._said.add(reason)
        if new:
            warnings.warn(message, RuntimeWarning, stacklevel=2)


NOTICES = Notices()


@dataclass(frozen=True, slots=True)
class Functions:
    """FlashInfer's own functions, and what their version takes."""

    attend: Callable[..., object]
    """`trtllm_ragged_attention_deepseek`."""
    quantise: Callable[..., tuple[Tensor, ...]] | None
    """`trtllm_sage_attention_quantize`, where it is needed."""
    takes: frozenset[str]
    smooths_k: bool

    def activity(self, job: Job) -> Mapping[str, object]:
        """Tells the kernel that no sequence is empty, so that it does not wait for the device to find out."""
        if NO_CHECK in self.takes:
            return {NO_CHECK: True}
        if self.takes.issuperset(MIRRORS):
            lengths = (job.lengths_q, job.lengths_k)
            return dict(zip(MIRRORS, (counts(x, torch.device("cpu")) for x in lengths), strict=True))
        return {}


def functions(name: str, importer: Callable[[str], object], *, sage: bool, skips: bool) -> Functions:
    """The functions of the installed version; raises `BindError` where it lacks one that is needed, or an option."""
    attend = cast("Callable[..., object]", imported(name, importer, MODULE, "trtllm_ragged_attention_deepseek"))
    takes = frozenset(inspect.signature(attend).parameters)
    for option, needed in ((SCALES, sage), (FACTOR, skips)):
        if needed and option not in takes:
            raise BindError(f"`{name}`: wanted a FlashInfer whose kernel takes `{option}`, got one that does not")
    if not sage:
        return Functions(attend, None, takes, smooths_k=False)
    found = imported(name, importer, MODULE, "trtllm_sage_attention_quantize")
    quantise = cast("Callable[..., tuple[Tensor, ...]]", found)
    return Functions(attend, quantise, takes, SMOOTH_K in inspect.signature(quantise).parameters)


@dataclass(frozen=True, slots=True, weakref_slot=True)
class TrtllmLaunch:
    """A `Launch` of the trtllm-gen kernel. It reads the timestep when it runs."""

    name: str
    functions: Functions
    sage: Sage | None
    skip: SkipSoftmax
    workspaces: Workspaces
    workspace_bytes: int
    notices: Notices = NOTICES

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> Tensor:
        """See `Launch.__call__`; `bits` is None."""
        return cast("Tensor", self._run(q, k, v, bits, job, lse=False))

    def with_lse(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> tuple[Tensor, Tensor]:
        """See `Launch.with_lse`; `bits` is None. The kernel gives it to base 2."""
        out, lse = cast("tuple[Tensor, Tensor]", self._run(q, k, v, bits, job, lse=True))
        return out, lse * LN_2

    def _run(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job, *, lse: bool) -> object:
        if bits is not None:
            raise TypeError("`bits`: wanted none, got a mask")
        q, k, v = (readable(x.contiguous()) for x in (q, k, v))
        options = {**self.functions.activity(job), **self._skipping(max(job.lengths_k))}
        sage = self._sage_for(min(job.lengths_k))
        if sage is not None:
            q, k, v, scales = self._quantised(sage, (q, k, v), job)
            options |= {SCALES: scales, "num_elts_per_sage_attn_blk": sage.block_sizes}
        return self.functions.attend(
            query=q,
            key=k,
            value=v,
            workspace_buffer=self.workspaces.get(q.device, PURPOSE, self.workspace_bytes),
            seq_lens=counts(job.lengths_k, q.device),
            max_q_len=max(job.lengths_q),
            max_kv_len=max(job.lengths_k),
            bmm1_scale=job.scale,
            bmm2_scale=1.0,
            o_sf_scale=1.0,
            batch_size=len(job.lengths_q),
            window_left=-1,
            cum_seq_lens_q=cu_seqlens(job.lengths_q, q.device),
            cum_seq_lens_kv=cu_seqlens(job.lengths_k, q.device),
            enable_pdl=None,
            is_causal=job.causal,
            return_lse=lse,
            **options,
        )

    def _skipping(self, longest: int) -> Mapping[str, object]:
        factor = self.skip.scale_factor(longest)
        if factor is None:
            return {}
        if self.skip.gated:
            t = current_timestep()
            if t is None:
                self._notice_no_timestep()
            if not self.skip.open_at(t):
                return {}
        return {FACTOR: factor}

    def _notice_no_timestep(self) -> None:
        until = self.skip.disabled_until_timestep
        self.notices.once(
            "timestep",
            f"`{self.name}`: `disabled_until_timestep` is {until:g} and nobody has said which timestep it is (see "
            "`backends.denoise.denoise_step`): calls stay dense",
        )

    def _sage_for(self, shortest: int) -> Sage | None:
        """The quantisation of a call; none where a sequence is shorter than a block of keys: that is not finite."""
        if self.sage is None or shortest >= self.sage.k_block_size:
            return self.sage
        self.notices.once(
            "k_block_size",
            f"`{self.name}`: a sequence of {shortest} keys is shorter than `k_block_size`, {self.sage.k_block_size}: "
            "such calls are not quantised",
        )
        return None

    def _quantised(
        self, sage: Sage, inputs: tuple[Tensor, Tensor, Tensor], job: Job
    ) -> tuple[Tensor, Tensor, Tensor, tuple[Tensor | None, ...]]:
        """Query, key and value in eight bits, and the scales of query, key, weights and value."""
        quantise = self.functions.quantise
        if quantise is None:
            raise TypeError("`quantise`: wanted a function, got none")
        device = inputs[0].device
        q, k, v, q_scales, k_scales, v_scales, *_ = quantise(
            *inputs,
            q_block_size=sage.q_block_size,
            k_block_size=sage.k_block_size,
            qk_quant_dtype=sage.dtype,
            cum_seq_lens_q=cu_seqlens(job.lengths_q, device),
            cum_seq_lens_kv=cu_seqlens(job.lengths_k, device),
            **({SMOOTH_K: True} if self.functions.smooths_k else {}),
        )
        return q, k, v, (q_scales, k_scales, None, v_scales)
