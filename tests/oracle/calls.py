"""What happens when a backend meets real tensors: paragraph 7 of the contract."""

from __future__ import annotations

from enum import IntEnum

from tests.oracle.layers import Call, Request, grouped


class Verdict(IntEnum):
    """Paragraph 7's letters, in their order: several cells at once are decided by the highest."""

    NATIVE = 0
    LOSSLESS = 1
    SUBSTITUTED = 2
    REFUSED = 3


FLASH = ("FLASH_ATTN", "FLASH_ATTN_HUB", "FLASH_ATTN_3_HUB")
SAGE = ("SAGE_ATTN", "SAGE_ATTN_3")


def verdict(backend: str, request: Request, call: Call) -> Verdict:
    """Paragraph 7: the highest of the cells that the call meets."""
    return max(
        _mask(backend, call),
        _dtype(backend, call),
        _heads(backend, request),
        _causal_lengths(backend, call),
        _causal_mask(backend, call),
        _one_key(backend, call),
    )


def mask_refused(call: Call) -> bool:
    """Paragraph 7: whether it is the mask that `TRTLLM_ATTN` cannot take, so that a mask-free declaration is wrong.

    Reading: lengths and packed documents that it takes alone but not beside `causal` are no such mask, since
    paragraph 10 says that lengths are not a mask for it.
    """
    return _mask("TRTLLM_ATTN", call) is Verdict.REFUSED


def masked(call: Call) -> bool:
    """Paragraph 7: `all_keep` masks count as none."""
    return call.mask not in {"none", "all_keep"}


def _mask(backend: str, call: Call) -> Verdict:
    """Paragraph 7, the six columns of mask kinds.

    Reading: of a `boolean_per_query` mask a line does not say its heads, so `FLASHINFER_ATTN` takes it.
    """
    if not masked(call):
        return Verdict.NATIVE
    if backend in {"TORCH_SDPA", "CUDNN_ATTN"}:
        lossless = {"key_and_query_padding", "block_diagonal"}
        if backend == "CUDNN_ATTN":
            lossless.add("suffix_key_padding")
        return Verdict.LOSSLESS if call.mask in lossless else Verdict.NATIVE
    if backend in FLASH:
        return Verdict.SUBSTITUTED if call.mask in {"boolean_per_query", "additive"} else Verdict.LOSSLESS
    if backend == "FLASHINFER_ATTN":
        return Verdict.SUBSTITUTED if call.mask == "additive" else Verdict.LOSSLESS
    lossless = {"suffix_key_padding", "block_diagonal"} if backend == "TRTLLM_ATTN" else {"suffix_key_padding"}
    return Verdict.LOSSLESS if call.mask in lossless else Verdict.REFUSED


def _dtype(backend: str, call: Call) -> Verdict:
    """Paragraph 7, the column fp32, and the abilities of paragraph 4 checked again.

    Reading: float64, which the contract does not name, is full precision as float32 is.
    """
    if call.dtype is None or backend == "TORCH_SDPA":
        return Verdict.NATIVE
    if backend == "TRTLLM_ATTN":
        return Verdict.NATIVE if call.dtype == "bfloat16" else Verdict.REFUSED
    return Verdict.NATIVE if call.dtype in {"float16", "bfloat16"} else Verdict.SUBSTITUTED


def _heads(backend: str, request: Request) -> Verdict:
    """Paragraph 7, the column GQA: only `SAGE_ATTN_3` minds."""
    if backend == "SAGE_ATTN_3" and grouped(request):
        return Verdict.SUBSTITUTED
    return Verdict.NATIVE


def _causal_lengths(backend: str, call: Call) -> Verdict:
    """Paragraph 7, the column causal with Sq other than Sk."""
    unequal = None not in {call.seq_len_q, call.seq_len_kv} and call.seq_len_q != call.seq_len_kv
    if call.causal is None or not unequal:
        return Verdict.NATIVE
    if backend in {"TORCH_SDPA", "CUDNN_ATTN"}:
        return Verdict.LOSSLESS
    if backend in SAGE:
        return Verdict.REFUSED
    if call.causal == "bottom_right":
        return Verdict.NATIVE
    return Verdict.REFUSED if backend == "TRTLLM_ATTN" else Verdict.SUBSTITUTED


def _causal_mask(backend: str, call: Call) -> Verdict:
    """Paragraph 7: causal with any mask but none or all-keep."""
    if call.causal is None or not masked(call):
        return Verdict.NATIVE
    if backend in {"TORCH_SDPA", "CUDNN_ATTN"}:
        return Verdict.LOSSLESS
    if backend in FLASH or backend == "FLASHINFER_ATTN":
        return Verdict.SUBSTITUTED
    return Verdict.REFUSED


def _one_key(backend: str, call: Call) -> Verdict:
    """Paragraph 7, the column Sk = 1."""
    if call.seq_len_kv == 1 and (backend == "CUDNN_ATTN" or backend in SAGE):
        return Verdict.SUBSTITUTED
    return Verdict.NATIVE
