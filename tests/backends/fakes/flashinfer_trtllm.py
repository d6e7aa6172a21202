"""A fake of trtllm-gen in `flashinfer.prefill`, 0.6.18: its signatures and habits, its numbers computed on the CPU.

Habits: lengths are read as int32 without a look at their type; the query's strides are ignored; a workspace that is not
zero spoils the output; a sequence without keys is never written where the caller has said that there is none; a
sequence shorter than a block of keys is not finite once quantised; the log-sum-exp has base 2, `[tokens, heads]`.
"""

from __future__ import annotations

import math
from itertools import pairwise

import torch
from torch import Tensor

from tests.backends.fakes.flashinfer_numbers import by_head, causal_hidden, integers

TILE = 128
LIMITS = {torch.int8: 126.9, torch.float8_e4m3fn: 448.0}
WAITS: list[str] = []
"""Grows where the real function would wait for the device."""
FACTORS: list[float | None] = []
"""The factors that were passed, and None for a dense call."""
QUANTISED: list[torch.dtype] = []
"""The type of the query of each call."""

Scales = tuple[Tensor | None, Tensor | None, Tensor | None, Tensor | None]


def trtllm_ragged_attention_deepseek(
    query: Tensor, key: Tensor, value: Tensor, workspace_buffer: Tensor, seq_lens: Tensor, max_q_len: int,
    max_kv_len: int, bmm1_scale: float | Tensor, bmm2_scale: float | Tensor, o_sf_scale: float, batch_size: int,
    window_left: int, cum_seq_lens_q: Tensor, cum_seq_lens_kv: Tensor, enable_pdl: bool | None, is_causal: bool,
    return_lse: bool, attention_sinks: Tensor | None = None, skip_softmax_threshold_scale_factor: float | None = None,
    out: Tensor | None = None, lse: Tensor | None = None, sage_attn_sfs: Scales = (None, None, None, None),
    num_elts_per_sage_attn_blk: tuple[int, int, int, int] = (0, 0, 0, 0), backend: str = "trtllm-gen",
    q_seq_lens_cpu: Tensor | None = None, kv_seq_lens_cpu: Tensor | None = None, use_fp16_softmax: bool | None = None,
    uses_spcompress: bool | None = None, skip_all_rows_active_check: bool = False,  # noqa: FBT002 - as the real one
) -> Tensor | tuple[Tensor, Tensor]:  # fmt: skip
    """Requests laid end to end, `[tokens, heads, head_dim]`."""
    dims = (query.shape[2], key.shape[2], value.shape[2])
    assert dims in {(192, 192, 128), (128, 128, 128), (256, 256, 256)}, f"Unsupported head dimensions: {dims}"
    assert isinstance(bmm1_scale, float)
    assert isinstance(bmm2_scale, float)
    FACTORS.append(skip_softmax_threshold_scale_factor)
    QUANTISED.append(query.dtype)
    mirrors = q_seq_lens_cpu is not None and kv_seq_lens_cpu is not None
    if skip_all_rows_active_check and mirrors:
        raise ValueError("skip_all_rows_active_check cannot be combined with CPU length mirrors")
    if not skip_all_rows_active_check and not mirrors:
        WAITS.append("all_rows_active")
    query = query.as_strided(query.shape, (query.shape[1] * query.shape[2], query.shape[2], 1))
    starts_q, starts_k, lengths = (integers(x) for x in (cum_seq_lens_q, cum_seq_lens_kv, seq_lens))
    q, k, v = _real_numbers((query, key, value), (starts_q, starts_k), sage_attn_sfs, num_elts_per_sage_attn_blk)
    result, logs = torch.full(query.shape, float("nan")), torch.full(query.shape[:2], float("nan"))
    threshold = (skip_softmax_threshold_scale_factor or 0.0) / max_kv_len
    for i in range(batch_size):
        own_q, own_k = slice(starts_q[i], starts_q[i + 1]), slice(starts_k[i], starts_k[i] + lengths[i])
        if not skip_all_rows_active_check and lengths[i] == 0:
            result[own_q] = 0.0
        elif lengths[i] >= num_elts_per_sage_attn_blk[1]:
            one, logs[own_q] = _one(
                q[own_q], k[own_k], v[own_k], causal=is_causal, scale=bmm1_scale, threshold=threshold
            )
            result[own_q] = one * bmm2_scale
    result = (result + float(workspace_buffer.any())).to(torch.bfloat16)
    return (result, logs) if return_lse else result


def _one(q: Tensor, k: Tensor, v: Tensor, *, causal: bool, scale: float, threshold: float) -> tuple[Tensor, Tensor]:
    """One request: the softmax over the keys that are left once tiles are dropped, which is what streaming gives.

    And the logarithm of each query's weights, to base 2.
    """
    heads = q.shape[1]
    scores = by_head(q, heads) @ by_head(k, heads).transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(causal_hidden(q.shape[0], k.shape[0]), float("-inf"))
    if threshold > 0:
        scores = torch.stack([_dropped(head, threshold) for head in scores])
    logs = scores.logsumexp(dim=-1).T / math.log(2)
    return (scores.softmax(dim=-1) @ by_head(v, heads)).transpose(0, 1), logs


def _dropped(scores: Tensor, threshold: float) -> Tensor:
    """Scores `[queries, keys]` with -inf in the tiles whose every row lies far enough below what was kept before."""
    tiles = []
    for rows in torch.split(scores, TILE):
        kept = torch.full((rows.shape[0],), float("-inf"))
        parts = list(torch.split(rows, TILE, dim=1))
        for j, part in enumerate(parts):
            top = part.max(dim=1).values
            ratio = torch.where(top.isneginf(), 0.0, (top - kept).exp())
            if bool((ratio < threshold).all()):
                parts[j] = torch.full_like(part, float("-inf"))
            else:
                kept = torch.maximum(kept, top)
        tiles.append(torch.cat(parts, dim=1))
    return torch.cat(tiles)


def _real_numbers(
    inputs: tuple[Tensor, Tensor, Tensor],
    starts: tuple[list[int], list[int]],
    scales: Scales,
    sizes: tuple[int, int, int, int],
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x.float() for x in inputs)
    q_scales, k_scales, _, v_scales = scales
    if q_scales is None or k_scales is None or v_scales is None:
        return q, k, v
    q = q * q_scales[:, _places(starts[0], sizes[0])].T[..., None]
    k = k * k_scales[:, _places(starts[1], sizes[1])].T[..., None]
    return q, k, v * v_scales


def _places(starts: list[int], size: int) -> list[int]:
    """Where the scale of each token stands: no block holds tokens of two sequences."""
    requests = enumerate(pairwise(starts))
    return [start // size + i + t // size for i, (start, end) in requests for t in range(end - start)]


def trtllm_sage_attention_quantize(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    q_block_size: int = 1,
    k_block_size: int = 16,
    qk_quant_dtype: torch.dtype = torch.int8,
    cum_seq_lens_q: Tensor | None = None,
    cum_seq_lens_kv: Tensor | None = None,
    smooth_k: bool = False,  # noqa: FBT002
) -> tuple[Tensor, ...]:
    """Query, key and value in eight bits, their scales and, smoothed, the mean of the keys."""
    if query.dtype not in (torch.float16, torch.bfloat16):
        raise ValueError(f"query must be float16 or bfloat16, got {query.dtype}")
    if cum_seq_lens_q is None:
        cum_seq_lens_q = torch.tensor([0, query.shape[0]], dtype=torch.int32)
        cum_seq_lens_kv = torch.tensor([0, key.shape[0]], dtype=torch.int32)
    cum_seq_lens_kv = cum_seq_lens_q if cum_seq_lens_kv is None else cum_seq_lens_kv
    assert cum_seq_lens_q.dtype == cum_seq_lens_kv.dtype == torch.int32, "cum_seq_lens_q must be int32"
    mean = key.float().mean(dim=0)
    keys = key.float() - mean if smooth_k else key.float()
    q, q_scales = _quantised(query.float(), integers(cum_seq_lens_q), q_block_size, qk_quant_dtype)
    k, k_scales = _quantised(keys, integers(cum_seq_lens_kv), k_block_size, qk_quant_dtype)
    v_scales = value.float().abs().amax(dim=0).clamp(min=1e-3) / 448
    v = (value.float() / v_scales).to(torch.float8_e4m3fn)
    return (q, k, v, q_scales, k_scales, v_scales, *([mean] if smooth_k else []))


def _quantised(tokens: Tensor, starts: list[int], size: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    heads, sequences = tokens.shape[1], len(starts) - 1
    scales = torch.full((heads, -(-tokens.shape[0] // size) + sequences - 1), float("nan"))
    places = torch.tensor(_places(starts, size))
    for place in set(places.tolist()):
        block = tokens[places == place]
        scales[:, place] = block.abs().amax(dim=(0, 2)).clamp(min=1e-3) / LIMITS[dtype]
    scaled = tokens / scales[:, places].T[..., None]
    return (scaled.round() if dtype == torch.int8 else scaled).to(dtype), scales
