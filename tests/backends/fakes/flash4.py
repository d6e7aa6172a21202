"""`flash_attn.cute` 4 in signature and habit: the scale is the sixth argument, a tuple always comes back."""
# ruff: noqa: FBT002 - the signatures are the package's

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.backends.fakes import flash_numeric

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

__version__ = "0.0.0"


def flash_attn_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qv: Tensor | None = None,
    gather_kv_indices: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
    learnable_sink: Tensor | None = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    score_mod: Callable[..., object] | None = None,
    score_mod_bwd: Callable[..., object] | None = None,
    mask_mod: Callable[..., object] | None = None,
    aux_tensors: list[Tensor] | None = None,
    aux_scalars: tuple[object, ...] | None = None,
    block_sparse_tensors: object | None = None,
    block_sparse_tensors_bwd: object | None = None,
    return_lse: bool = False,
    gather_bwd_recompute_p: bool = False,
    gather_bwd_token_chunk: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`[batch, seq, heads, head_dim]`."""
    unused(qv, gather_kv_indices)
    out, lse = flash_numeric.dense(q, k, v, softmax_scale, causal=causal)
    return out, lse if return_lse else None


def flash_attn_varlen_func(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    qv: Tensor | None = None,
    cu_seqlens_q: Tensor | None = None,
    cu_seqlens_k: Tensor | None = None,
    max_seqlen_q: int | None = None,
    max_seqlen_k: int | None = None,
    min_seqlen_k: int | None = None,
    seqused_q: Tensor | None = None,
    seqused_k: Tensor | None = None,
    gather_kv_indices: Tensor | None = None,
    page_table: Tensor | None = None,
    softmax_scale: float | None = None,
    causal: bool = False,
    window_size: tuple[int | None, int | None] = (None, None),
    learnable_sink: Tensor | None = None,
    softcap: float = 0.0,
    num_splits: int = 1,
    pack_gqa: bool | None = None,
    deterministic: bool = False,
    score_mod: Callable[..., object] | None = None,
    score_mod_bwd: Callable[..., object] | None = None,
    mask_mod: Callable[..., object] | None = None,
    block_sparse_tensors: object | None = None,
    aux_tensors: list[Tensor] | None = None,
    aux_scalars: tuple[object, ...] | None = None,
    return_lse: bool = False,
    scheduler_metadata: object | None = None,
    seqlen_k_per_split: int | None = None,
    disable_scheduler_metadata: bool = False,
    gather_bwd_recompute_p: bool = False,
    gather_bwd_token_chunk: int | None = None,
) -> tuple[Tensor, Tensor | None]:
    """`[tokens, heads, head_dim]`."""
    unused(qv, gather_kv_indices)
    assert cu_seqlens_q is not None
    assert cu_seqlens_k is not None
    longest = (max_seqlen_q or q.shape[0], max_seqlen_k or k.shape[0])
    out, lse = flash_numeric.varlen(q, k, v, (cu_seqlens_q, cu_seqlens_k), longest, softmax_scale, causal=causal)
    return out, lse if return_lse else None


def unused(*tensors: Tensor | None) -> None:
    """Tensors of other kinds of attention: a number in their place fails as it does in the package."""
    for tensor in tensors:
        if tensor is not None:
            tensor.is_contiguous()
            raise AssertionError("qv is not supported here")
