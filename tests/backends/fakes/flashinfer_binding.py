"""`FLASHINFER_ATTN` and `TRTLLM_ATTN` bound on the CPU, with the fakes in the place of FlashInfer."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from backends._sdpa import bound_geometry
from backends._trtllm_launch import Notices
from backends.flashinfer import FlashInferAttention, FlashInferKernel
from backends.trtllm import TrtllmAttention, TrtllmKernel
from backends.workspace import Workspaces
from tests.backends.fakes import flashinfer_prefill, flashinfer_trtllm

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from backends.interface import Causal
    from tests.backends.cases import Sizes

PROVIDERS = ("flashinfer-fa2", "flashinfer-fa3", "flashinfer-cute-dsl")
PREFILL = SimpleNamespace(
    single_prefill_with_kv_cache=flashinfer_prefill.single_prefill_with_kv_cache,
    BatchPrefillWithRaggedKVCacheWrapper=flashinfer_prefill.BatchPrefillWithRaggedKVCacheWrapper,
)
TRTLLM = SimpleNamespace(
    trtllm_ragged_attention_deepseek=flashinfer_trtllm.trtllm_ragged_attention_deepseek,
    trtllm_sage_attention_quantize=flashinfer_trtllm.trtllm_sage_attention_quantize,
)
BYTES = 256
UNMASKED = ("nothing", "none", "all_keep")
MASKED = ("key padding", "key and query padding", "boolean")
NEVER = ("boolean per head", "additive", "additive per key")
"""Kinds that no provider takes."""


def refuses(provider: str, kind: str, causal: Causal | None, sizes: Sizes) -> bool:
    """What `FLASHINFER_ATTN` refuses of `cases.MASKS`, said again in the fewest words."""
    return (
        kind in NEVER
        or (kind in MASKED and provider != "flashinfer-fa2")
        or (causal is not None and kind not in UNMASKED)
        or (causal == "top_left" and sizes.seq_q != sizes.seq_kv)
    )


def importing(module: object) -> Callable[[str], object]:
    """An importer that knows one module."""
    return {"flashinfer.prefill": module}.__getitem__


def flashinfer_backend(module: object = PREFILL) -> FlashInferAttention:
    """The backend over a module, with workspaces and plans of its own."""
    return FlashInferAttention(
        importer=importing(module), device_type="cpu", workspaces=Workspaces(), workspace_bytes=BYTES
    )


def bind_flashinfer(
    sizes: Sizes,
    provider: str = "flashinfer-fa2",
    spec: Mapping[str, object] | None = None,
    backend: FlashInferAttention | None = None,
) -> FlashInferKernel:
    """A kernel for the sizes, of any head_dim: the fakes know no limit."""
    backend = flashinfer_backend() if backend is None else backend
    geometry = replace(sizes.geometry, provider=provider)
    kernel = backend.bind(spec or {}, replace(geometry, head_dim=64))
    assert isinstance(kernel, FlashInferKernel)
    bound = bound_geometry("FLASHINFER_ATTN", {}, sizes.geometry)
    return replace(kernel, bound=bound._replace(geometry=geometry))


def trtllm_backend(module: object = TRTLLM) -> TrtllmAttention:
    """The backend over a module, with workspaces and notices of its own."""
    return TrtllmAttention(
        importer=importing(module),
        device_type="cpu",
        workspaces=Workspaces(),
        workspace_bytes=BYTES,
        notices=Notices(),
    )


def bind_trtllm(
    sizes: Sizes, spec: Mapping[str, object] | None = None, backend: TrtllmAttention | None = None
) -> TrtllmKernel:
    """A kernel for the sizes; the counters of the fake start anew."""
    assert sizes.dtype == torch.bfloat16
    kernel = (trtllm_backend() if backend is None else backend).bind(spec or {}, sizes.geometry)
    assert isinstance(kernel, TrtllmKernel)
    for counter in (flashinfer_trtllm.WAITS, flashinfer_trtllm.FACTORS, flashinfer_trtllm.QUANTISED):
        counter.clear()
    return kernel
