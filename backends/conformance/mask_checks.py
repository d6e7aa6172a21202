"""Checks of masks: each kind that there is, in the shapes and patterns in which it has been misread."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from backends import masks
from backends.conformance.checking import Check
from backends.conformance.geometries import several_heads

if TYPE_CHECKING:
    from backends.conformance.calls import Call, Draw

GAPS = ("..x.xx..x.xxx", "...xx.x.xxx.x")
"""Thirteen keys of two batches: gaps, hidden first keys, others in each batch, of each some visible."""
SQUARE = (9, 9)


def _all_keep(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.all_keep())


def _lengths(draw: Draw, lengths: int | tuple[int, ...]) -> Call:
    return replace(draw.call(), mask=masks.key_lengths(lengths, 13))


def _padding(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.key_padding(draw.flags(*GAPS)))


def _padding_alone(draw: Draw) -> Call:
    return replace(draw.call(SQUARE), mask=masks.key_padding(draw.flags("xx.xx..x.", ".xxx.xx..")))


def _as_many_batches(draw: Draw) -> Call:
    """Keys hidden by a pattern that is not its own mirror image along the diagonal."""
    keep = draw.coins(9, 9)
    keep[:, 0], keep[0] = True, True
    keep[0, 1:] = False
    return replace(draw.call(SQUARE, batch=9), mask=masks.key_padding(keep))


def _batch_hidden(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.key_padding(draw.flags("." * 13, GAPS[1])))


def _queries_too(draw: Draw) -> Call:
    keep_q, keep_k = draw.flags("xx.xxxx..", "xxxxx...."), draw.flags(*GAPS)
    return replace(draw.call(), mask=masks.key_and_query_padding(keep_q, keep_k))


def _documents(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.block_diagonal([4, 5], [6, 7]))


def _empty_document(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.block_diagonal([4, 2, 3], [6, 0, 7]))


def _per_query(draw: Draw) -> Call:
    return replace(draw.call(SQUARE), mask=masks.boolean_per_query(_spread(draw, 2, 1, 9, 9)))


def _per_head(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.boolean_per_query(_spread(draw, 2, draw.geometry.num_heads, 9, 13)))


def _row_hidden(draw: Draw) -> Call:
    keep = _spread(draw, 2, 1, 9, 13)
    keep[1, :, 4] = False
    return replace(draw.call(), mask=masks.boolean_per_query(keep))


def _spread(draw: Draw, *shape: int) -> torch.Tensor:
    """Booleans of which no row is all False."""
    keep = draw.coins(*shape)
    keep[..., 0] |= ~keep.any(dim=-1)
    return keep


def _mask_strided(draw: Draw) -> Call:
    """A mask for all heads and batches, of which each second element counts."""
    keep = _spread(draw, 9, 13)
    mixed = torch.stack([keep, ~keep], dim=-1).flatten(1)[:, ::2]
    return replace(draw.call(), mask=masks.boolean_per_query(mixed.expand(2, 1, 9, 13)))


def _bias(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.additive(draw.normal(2, draw.geometry.num_heads, 9, 13)))


def _bias_hides(draw: Draw) -> Call:
    """A bias of one row for all queries and heads, 1 or -inf."""
    hidden = ~draw.flags(*GAPS)[:, None, None]
    bias = torch.ones(hidden.shape, dtype=draw.dtype, device=hidden.device).masked_fill(hidden, float("-inf"))
    return replace(draw.call(), mask=masks.additive(bias))


def _bias_wide(draw: Draw) -> Call:
    """In float32; in half precision there would be nothing left of the differences."""
    bias = draw.normal(2, draw.geometry.num_heads, 9, 13).float()
    return replace(draw.call(), mask=masks.additive(bias + 512))


MASK_CHECKS = (
    Check("all-keep", "a mask that hides nothing is read as one that hides something", _all_keep),
    Check(
        "key-lengths",
        "lengths are dropped, inverted, or those of batch 0 are taken for all",
        lambda draw: _lengths(draw, (7, 12)),
    ),
    Check("key-lengths-shared", "one length for every batch is dropped or misread", lambda draw: _lengths(draw, 8)),
    Check(
        "key-length-zero",
        "rows of a batch without keys are not written, or hold an average",
        lambda draw: _lengths(draw, (0, 12)),
    ),
    Check(
        "key-padding",
        "a mask with gaps is dropped, inverted, packed as a prefix, added as 0 and 1, or batch 0's is taken for all",
        _padding,
    ),
    Check("key-padding-alone", "hidden keys make rows of zeros of the queries in the same places", _padding_alone),
    Check(
        "key-padding-square",
        "[batch, keys] is read as [queries, keys] where both have the same shape",
        _as_many_batches,
    ),
    Check("key-padding-batch", "a batch without keys gives NaN or an average of all values", _batch_hidden),
    Check("query-padding", "padded queries are answered", _queries_too),
    Check("documents", "packed documents see each other", _documents),
    Check(
        "document-without-keys",
        "queries of a document without keys see the next one's, or are not written",
        _empty_document,
    ),
    Check("mask-per-query", "a mask per query is reduced to keys, or another batch's is taken", _per_query),
    Check("mask-per-head", "head 0's mask is taken for all heads", _per_head, several_heads),
    Check("mask-row", "a query without keys gives NaN or an average of all values", _row_hidden),
    Check("mask-strided", "the strides of a mask are ignored", _mask_strided),
    Check("bias", "a bias is dropped, read as boolean, or head 0's is taken for all", _bias, several_heads),
    Check("bias-hides", "-inf in a bias hides nothing, or a bias is read as boolean", _bias_hides),
    Check(
        "bias-wide",
        "a bias of another dtype than the queries is rounded to theirs, or read as if it had it",
        _bias_wide,
    ),
)
