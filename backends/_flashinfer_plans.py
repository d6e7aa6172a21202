"""FlashInfer's prefill kernels started: the single one for one sequence, the ragged one, planned once, for several."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

import torch

from backends._flashinfer_launch import readable
from backends._flashinfer_quant import Types, narrowed

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends._flashinfer_launch import Job
    from backends.workspace import Workspaces

PURPOSE = "flashinfer"
LN_2 = math.log(2)
PLANS_KEPT = 16
"""Each holds 8 MiB on the device, and as much pinned on the host."""


class Wrapper(Protocol):
    """FlashInfer's `BatchPrefillWithRaggedKVCacheWrapper`, as far as it is used."""

    def plan(self, qo_indptr: Tensor, kv_indptr: Tensor, **options: object) -> None:
        """Prepares for sequences of these offsets."""
        ...

    def run(self, q: Tensor, k: Tensor, v: Tensor, *, return_lse: bool) -> object:
        """Attention of the tokens of the planned sequences, and their log-sum-exp where `return_lse`."""
        ...


class Key(NamedTuple):
    """What a plan is made for: it serves every layer and step that is alike."""

    make: Callable[..., Wrapper]
    kernel: str
    job: Job
    heads: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device


@dataclass(frozen=True, slots=True, eq=False)
class Plans:
    """The plans that were used last. Safe to ask from several threads.

    A captured graph needs its plan as long as it is replayed: capture no more than `kept` signatures.
    """

    kept: int = PLANS_KEPT
    _plans: OrderedDict[Key, Wrapper] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Key, workspace: Callable[[], Tensor]) -> Wrapper:
        """The wrapper that is planned for `key`: made, with a wait for the device, where there is none."""
        with self._lock:
            wrapper = self._plans.pop(key, None) or _planned(key, workspace())
            self._plans[key] = wrapper
            if len(self._plans) > self.kept:
                self._plans.popitem(last=False)
            return wrapper


def _planned(key: Key, workspace: Tensor) -> Wrapper:
    """A new wrapper, never one that had a mask: it would keep it."""
    wrapper = key.make(workspace, kv_layout="NHD", backend=key.kernel)
    wrapper.plan(
        *(torch.tensor([0, *accumulate(x)], dtype=torch.int32) for x in (key.job.lengths_q, key.job.lengths_k)),
        num_qo_heads=key.heads,
        num_kv_heads=key.kv_heads,
        head_dim_qk=key.head_dim,
        causal=key.job.causal,
        sm_scale=key.job.scale,
        q_data_type=key.dtype,
        kv_data_type=key.dtype,
    )
    return wrapper


@dataclass(frozen=True, slots=True, weakref_slot=True)
class PrefillLaunch:
    """A `Launch` of one of FlashInfer's prefill kernels."""

    kernel: str
    """FlashInfer's name of it."""
    single: Callable[..., object] | None
    """`single_prefill_with_kv_cache`, where it knows this kernel."""
    wrapper: Callable[..., Wrapper]
    types: Types
    plans: Plans
    workspaces: Workspaces
    workspace_bytes: int

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> Tensor:
        """See `Launch.__call__`."""
        values, scale = narrowed(v, self.types.vo)
        out = cast("Tensor", self._run((q, k, values), bits, job, lse=False))
        return (out if scale is None else out * scale).to(q.dtype)

    def with_lse(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None, job: Job) -> tuple[Tensor, Tensor]:
        """See `Launch.with_lse`; the kernels give it to base 2."""
        values, scale = narrowed(v, self.types.vo)
        out, lse = cast("tuple[Tensor, Tensor]", self._run((q, k, values), bits, job, lse=True))
        return (out if scale is None else out * scale).to(q.dtype), lse * LN_2

    def _run(self, tensors: tuple[Tensor, Tensor, Tensor], bits: Tensor | None, job: Job, *, lse: bool) -> object:
        q, k, values = tensors
        inputs = [readable(x) for x in (q.to(self.types.qk), k.to(self.types.qk), values)]
        if self.single is None or len(job.lengths_q) > 1:
            return self._planned(inputs, job).run(*inputs, return_lse=lse)
        return self.single(
            *inputs,
            packed_custom_mask=bits,
            causal=job.causal,
            kv_layout="NHD",
            sm_scale=job.scale,
            backend=self.kernel,
            return_lse=lse,
        )

    def _planned(self, inputs: list[Tensor], job: Job) -> Wrapper:
        q, k, _ = inputs
        _, kv_heads, head_dim = k.shape
        key = Key(self.wrapper, self.kernel, job, q.shape[1], kv_heads, head_dim, q.dtype, q.device)
        return self.plans.get(key, lambda: self.workspaces.get(q.device, PURPOSE, self.workspace_bytes))
