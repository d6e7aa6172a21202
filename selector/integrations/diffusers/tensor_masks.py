"""Masks that come as tensors, as diffusers' backends take them, named by what their shape alone can mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends import masks
from backends.interface import CallRefused

if TYPE_CHECKING:
    from torch import Tensor

    from backends.masks import Mask


def mask_of(tensor: Tensor, query: Tensor, key: Tensor) -> Mask:
    """Describe a mask tensor for query `[batch, seq_q, heads, head_dim]` and key `[batch, seq_kv, heads, head_dim]`.

    Bool (True: attend) or numbers to add: `[batch, seq_kv]` and `[batch or 1, 1, 1, seq_kv]` hide keys of all,
    `[batch or 1, heads or 1, seq_q, seq_kv]` are masks of every pair, and `[seq_q, seq_kv]` is one of those for all.
    No value is looked at. Raises `CallRefused` for other shapes, and for one that could mean two things.
    """
    whole = _four_dimensions(tensor, query, key)
    if not str(whole.dtype).startswith("torch.bool"):
        return masks.additive(whole)
    batch, seq_q, seq_kv = query.shape[0], query.shape[1], key.shape[1]
    if whole.shape[1] == 1 and whole.shape[2] == 1:
        return masks.key_padding(whole[:, 0, 0].expand(batch, seq_kv))
    return masks.boolean_per_query(whole.expand(-1, -1, seq_q, seq_kv))


def _four_dimensions(tensor: Tensor, query: Tensor, key: Tensor) -> Tensor:
    batch, seq_q, seq_kv = query.shape[0], query.shape[1], key.shape[1]
    if tensor.dim() == 4:  # noqa: PLR2004 - batch, heads, queries, keys
        return tensor
    shape = tuple(tensor.shape)
    is_padding, is_pairs = shape == (batch, seq_kv), shape == (seq_q, seq_kv)
    if is_padding and is_pairs:
        raise CallRefused(
            f"`attn_mask`: wanted a shape with one meaning, got {list(shape)} with as many queries as batches;"
            " `mask[:, None, None]` is padding of keys, `mask[None, None]` one mask of pairs for all"
        )
    if is_padding:
        return tensor[:, None, None]
    if is_pairs:
        return tensor[None, None]
    wanted = f"[{batch}, {seq_kv}], [{seq_q}, {seq_kv}] or four dimensions"
    raise CallRefused(f"`attn_mask`: wanted {wanted}, got {list(shape)}")
