"""A fake of `flashinfer.prefill`, 0.6.18: its signatures and habits, its numbers computed on the CPU.

Habits: no batch dimension; a custom mask is for all heads, its shape is never compared, and causal is ignored beside
it; a plan without a mask keeps the mask of an earlier one; scales of eight-bit values are dropped; memory is read as
the type that was planned; the log-sum-exp has base 2; float32 is a `KeyError`.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor

from tests.backends.fakes.flashinfer_numbers import (
    HIDDEN_SCORE,
    by_head,
    causal_hidden,
    integers,
    read_as,
    weights_to_output,
)

FILE_NAMES = {torch.float16: "f16", torch.bfloat16: "bf16", torch.float8_e4m3fn: "e4m3"}
SINGLE_KERNELS = ("fa2", "fa3")
RAGGED_KERNELS = ("fa2", "fa3", "cute-dsl")


def _attend(
    q: Tensor, k: Tensor, v: Tensor, *, bits: Tensor | None, causal: bool, sm_scale: float | None, backend: str
) -> tuple[Tensor, Tensor]:
    if bits is not None and backend != "fa2":
        raise RuntimeError("SinglePrefillWithKVCache kernel launch failed, error: operation not supported")
    heads, scale = q.shape[1], q.shape[2] ** -0.5 if sm_scale is None else sm_scale
    scores = by_head(q, heads) @ by_head(k, heads).transpose(1, 2)
    hidden = causal_hidden(q.shape[0], k.shape[0]) if causal and bits is None else None
    hidden = hidden if bits is None else ~_unpacked(bits, q.shape[0], k.shape[0])
    stand_in = HIDDEN_SCORE if backend == "fa2" else float("-inf")
    if hidden is not None:
        scores = scores.masked_fill(hidden, stand_in)
    out, lse = weights_to_output(scores, by_head(v, heads), scale, stand_in)
    return out.transpose(0, 1).to(q.dtype), lse.transpose(0, 1)


def _unpacked(bits: Tensor, queries: int, keys: int) -> Tensor:
    flat = (bits[:, None] >> torch.arange(8, dtype=torch.uint8) & 1).reshape(-1).bool()
    return flat[torch.arange(queries * keys) % flat.numel()].reshape(queries, keys)


def packbits(mask: Tensor) -> Tensor:
    """`flashinfer.quantization.packbits` with its lowest bit first."""
    flat = torch.nn.functional.pad(mask.reshape(-1).int(), (0, -mask.numel() % 8)).view(-1, 8)
    return (flat * 2 ** torch.arange(8)).sum(dim=1).to(torch.uint8)


def single_prefill_with_kv_cache(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale_q: Tensor | None = None,
    scale_k: Tensor | None = None,
    scale_v: Tensor | None = None,
    o_dtype: torch.dtype | None = None,
    custom_mask: Tensor | None = None,
    packed_custom_mask: Tensor | None = None,
    causal: bool = False,  # noqa: FBT002 - as the real one
    kv_layout: str = "NHD",
    pos_encoding_mode: str = "NONE",
    use_fp16_qk_reduction: bool = False,  # noqa: FBT002
    sm_scale: float | None = None,
    window_left: int = -1,
    logits_soft_cap: float | None = None,
    rope_scale: float | None = None,
    rope_theta: float | None = None,
    backend: str = "auto",
    return_lse: bool = False,  # noqa: FBT002
    kv_cache_sf: tuple[Tensor, Tensor] | None = None,
    k_scale: float | None = None,
    v_scale: float | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """One request: `[queries, heads, head_dim]` and `[keys, kv_heads, head_dim]`, or heads first for `HND`."""
    _names = FILE_NAMES[q.dtype], FILE_NAMES[k.dtype]
    if backend not in SINGLE_KERNELS:
        raise KeyError(backend)
    if q.dim() != 3:
        raise RuntimeError(f"q must be a 3D tensor, got {q.dim()}D")
    if kv_layout == "HND":
        k, v = k.transpose(0, 1), v.transpose(0, 1)
    if custom_mask is not None and packed_custom_mask is None:
        packed_custom_mask = packbits(custom_mask)
    out, lse = _attend(
        q, k, read_as(v, k.dtype), bits=packed_custom_mask, causal=causal, sm_scale=sm_scale, backend=backend
    )
    out = out if v_scale is None else out * v_scale
    return (out, lse) if return_lse else out


class BatchPrefillWithRaggedKVCacheWrapper:
    """Several requests laid end to end; planned once, run as often as wanted."""

    def __init__(
        self,
        float_workspace_buffer: Tensor,
        kv_layout: str = "NHD",
        use_cuda_graph: bool = False,  # noqa: FBT002
        qo_indptr_buf: Tensor | None = None,
        kv_indptr_buf: Tensor | None = None,
        custom_mask_buf: Tensor | None = None,
        mask_indptr_buf: Tensor | None = None,
        backend: str = "auto",
        jit_args: list[object] | None = None,
        jit_kwargs: dict[str, object] | None = None,
    ) -> None:
        if backend not in RAGGED_KERNELS:
            raise KeyError(backend)
        self.workspace = float_workspace_buffer
        self.backend = backend
        self.mask: Tensor | None = None
        self.plans = 0

    def plan(
        self, qo_indptr: Tensor, kv_indptr: Tensor, num_qo_heads: int, num_kv_heads: int, head_dim_qk: int,
        head_dim_vo: int | None = None, custom_mask: Tensor | None = None, packed_custom_mask: Tensor | None = None,
        causal: bool = False, pos_encoding_mode: str = "NONE", use_fp16_qk_reduction: bool = False,  # noqa: FBT002
        window_left: int = -1, logits_soft_cap: float | None = None, sm_scale: float | None = None,
        rope_scale: float | None = None, rope_theta: float | None = None, q_data_type: torch.dtype = torch.float16,
        kv_data_type: torch.dtype | None = None, o_data_type: torch.dtype | None = None,
        non_blocking: bool = True, prefix_len_ptr: Tensor | None = None,  # noqa: FBT002
        token_pos_in_items_ptr: Tensor | None = None, token_pos_in_items_len: int = 0,
        max_item_len_ptr: Tensor | None = None, fixed_split_size: int | None = None,
        disable_split_kv: bool = False, seq_lens: Tensor | None = None, seq_lens_q: Tensor | None = None,  # noqa: FBT002
        max_token_per_sequence: int | None = None, max_sequence_kv: int | None = None,
        v_indptr: Tensor | None = None, o_indptr: Tensor | None = None,
    ) -> None:  # fmt: skip
        """Offsets, sizes, types and mask of the requests; without a type the query's is float16."""
        if len(qo_indptr) != len(kv_indptr):
            raise ValueError("The kv_indptr length should be equal to mask_indptr length.")
        self.starts_q, self.starts_k = integers(qo_indptr), integers(kv_indptr)
        self.types = (q_data_type, kv_data_type or q_data_type)
        self.causal, self.sm_scale = causal, sm_scale
        self.mask = self.mask if custom_mask is None else custom_mask
        self.plans += 1
        if self.backend == "cute-dsl" and self.mask is not None:
            raise NotImplementedError("cute-dsl backend does not support custom_mask")
        if self.backend == "cute-dsl" and min(y - x for x, y in self._requests(self.starts_k)) <= 0:
            raise ValueError("cute-dsl prefill requires kv_len >= 1 for every batch item")

    def run(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *args: object,
        q_scale: float | None = None,
        k_scale: float | None = None,
        v_scale: float | None = None,
        o_scale: float | None = None,
        out: Tensor | None = None,
        lse: Tensor | None = None,
        return_lse: bool = False,
        enable_pdl: bool | None = None,
        kv_cache_sf: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Attention of the planned requests."""
        if (q.dtype, k.dtype) != self.types:
            raise ValueError(f"The dtype of q {q.dtype} does not match the q_data_type specified in plan function.")
        if q.shape[0] != self.starts_q[-1]:
            raise ValueError(f"q.shape[0] ({q.shape[0]}) does not match qo_indptr[-1] ({self.starts_q[-1]}).")
        _names = FILE_NAMES[q.dtype], FILE_NAMES[k.dtype]
        if self.backend == "cute-dsl" and v_scale is not None:
            raise NotImplementedError("cute-dsl backend does not support FP8 scale parameters")
        values = v if self.backend == "cute-dsl" else read_as(v, k.dtype)
        result = torch.full_like(q, float("nan"))
        logs = torch.full(q.shape[:2], float("nan"))
        requests = zip(self._requests(self.starts_q), self._requests(self.starts_k), strict=True)
        flat = 0
        for (q0, q1), (k0, k1) in requests:
            if q1 > q0 and k1 > k0:
                bits = None if self.mask is None else packbits(self.mask.reshape(-1)[flat:])
                result[q0:q1], logs[q0:q1] = self._one(q[q0:q1], k[k0:k1], values[k0:k1], bits)
            flat += (q1 - q0) * (k1 - k0)
        return (result, logs) if return_lse else result

    def _one(self, q: Tensor, k: Tensor, v: Tensor, bits: Tensor | None) -> tuple[Tensor, Tensor]:
        return _attend(q, k, v, bits=bits, causal=self.causal, sm_scale=self.sm_scale, backend=self.backend)

    @staticmethod
    def _requests(starts: list[int]) -> list[tuple[int, int]]:
        return list(pairwise(starts))
