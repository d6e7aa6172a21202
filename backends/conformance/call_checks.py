"""Checks of calls without a mask, or with a mask beside causal: scale, diagonal, heads, blocks, sizes, log-sum-exp."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from backends import masks
from backends.conformance.checking import Check, judge_lse
from backends.conformance.geometries import filled_up, grouped, several_heads

if TYPE_CHECKING:
    from backends.conformance.calls import Call, Draw
    from backends.interface import Causal

SQUARE, MORE_QUERIES = (9, 9), (13, 9)
BLOCKS = (130, 257)
"""More than a block of queries, and more than two of keys; kernels have blocks of 64 and of 128."""
BLOCK = 64
LONG, TAIL_KEYS = (9, 130), 2
QUERY_LEAN, STRONG, FAIR = 1.5, 8.0, 4.7
"""How far queries lean in a direction, and keys, times the root of head_dim: a strong key has a score of 12, a fair one
of 7, beside scores around 0."""
APART = 6.0
"""How far below 0 all scores lie where a key of zeros would outweigh the others."""
HUGE = 9e4
"""More than float16 holds."""


def _plain(draw: Draw) -> Call:
    return draw.call()


def _scaled(draw: Draw, factor: float) -> Call:
    return replace(draw.call(), scale=factor * draw.geometry.head_dim**-0.5)


def _causal(draw: Draw, lengths: tuple[int, int], causal: Causal) -> Call:
    return replace(draw.call(lengths), causal=causal)


def _causal_padded(draw: Draw) -> Call:
    keep = draw.flags("x.xx.xxx.", ".xxxx.x.x")
    return replace(draw.call(SQUARE), mask=masks.key_padding(keep), causal="top_left")


def _causal_cut(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.key_lengths(10, 13), causal="bottom_right")


def _heads_as_sequence(draw: Draw) -> Call:
    return draw.call((draw.geometry.num_heads, draw.geometry.num_heads))


def _tail(draw: Draw) -> Call:
    """The last keys outweigh all others, by so much that no rounding hides whether they count."""
    call = draw.call(LONG)
    k = call.k.clone()
    k[:, -TAIL_KEYS:] = STRONG / draw.geometry.head_dim**0.5
    return replace(call, q=call.q + QUERY_LEAN, k=k)


def _one_fair_key(draw: Draw) -> Call:
    """One key that has half of the weight where the scale is a quarter too small, and else nearly all of it."""
    call = draw.call(LONG)
    k = call.k.clone()
    k[:, 0] = FAIR / draw.geometry.head_dim**0.5
    return replace(call, q=call.q + QUERY_LEAN, k=k)


def _marked(draw: Draw, lengths: tuple[int, int], causal: Causal | None = None) -> Call:
    """Each block has a first key that outweighs all others for the queries that lean its way.

    Queries lean to the blocks in turn or, where the call is causal, to their own and to the next, which they must not
    see.
    """
    call = draw.call(lengths)
    count = -(-lengths[1] // BLOCK)
    ways = draw.coins(count + 1, draw.geometry.head_dim).to(draw.dtype) * 2 - 1
    places = torch.arange(lengths[0], device=ways.device)
    lean = ways[places % count] if causal is None else ways[places // BLOCK] + ways[places // BLOCK + 1]
    k = call.k.clone()
    k[:, ::BLOCK] = (ways[:count] * (STRONG / draw.geometry.head_dim**0.5))[:, None]
    return replace(call, q=call.q + QUERY_LEAN * lean[:, None], k=k, causal=causal)


def _filled_up(draw: Draw) -> Call:
    """Queries and keys lean in opposite directions, so that every score is far below that of a key of zeros."""
    lean = (APART / draw.geometry.head_dim**0.5) ** 0.5
    call = draw.call()
    return replace(call, q=call.q + lean, k=call.k - lean)


def _value_is_key(draw: Draw) -> Call:
    """Keys with a mean that is not zero, which some kernels take off in place."""
    call = draw.call()
    k = call.k + 1
    return replace(call, k=k, v=k)


def _huge(draw: Draw) -> Call:
    """One value that float16 does not hold, or the largest of its size that the dtype does."""
    call = draw.call()
    v = call.v.clone()
    v[1, 3, 0, 5] = 6e4 if draw.geometry.dtype == "float16" else HUGE
    return replace(call, v=v)


def _lse_lengths(draw: Draw) -> Call:
    return replace(draw.call(), mask=masks.key_lengths((0, 9), 13))


def _lse_padding(draw: Draw) -> Call:
    keep_q, keep_k = draw.flags("x.xxxxx..", "xxxxxxxxx"), draw.flags("xx.x.xxx.xxxx", "xxxxxxxxx.xx.")
    return replace(draw.call(), mask=masks.key_and_query_padding(keep_q, keep_k))


def _lse_square(draw: Draw) -> Call:
    return draw.call((draw.geometry.num_heads, 13))


CALL_CHECKS = (
    Check("dense", "the default scale is applied twice, or not at all", _plain),
    Check("scale", "a given scale is dropped", lambda draw: _scaled(draw, 0.25)),
    Check("scale-negative", "the sign of a scale is dropped", lambda draw: _scaled(draw, -1.0)),
    Check(
        "scale-of-head-dim",
        "the default scale is that of the head_dim as the kernel fills it up",
        _one_fair_key,
        filled_up,
    ),
    Check("causal-square", "causal is dropped", lambda draw: _causal(draw, SQUARE, "top_left")),
    Check(
        "causal-top-left", "the diagonal runs through the other corner", lambda draw: _causal(draw, (9, 13), "top_left")
    ),
    Check(
        "causal-bottom-right",
        "the diagonal runs through the other corner",
        lambda draw: _causal(draw, (9, 13), "bottom_right"),
    ),
    Check(
        "causal-more-queries",
        "queries before the first key are answered",
        lambda draw: _causal(draw, MORE_QUERIES, "bottom_right"),
    ),
    Check(
        "causal-blocks",
        "the diagonal is wrong behind the first block of queries",
        lambda draw: _marked(draw, (257, 257), "bottom_right"),
    ),
    Check(
        "causal-beside-mask",
        "causal is dropped where there is a mask, or the mask where the call is causal",
        _causal_padded,
    ),
    Check(
        "causal-beside-lengths", "the diagonal is aligned by the keys that are left and not by all of them", _causal_cut
    ),
    Check("grouped-heads", "KV heads are tiled and not grouped, or the first serves all heads", _plain, grouped),
    Check(
        "heads-as-sequence",
        "[batch, seq, heads, …] is read as [batch, heads, seq, …], or the output left transposed",
        _heads_as_sequence,
        several_heads,
    ),
    Check("blocks", "blocks behind the first are lost, or merged wrongly", lambda draw: _marked(draw, BLOCKS)),
    Check("tail-of-keys", "keys behind the last whole block are lost", _tail),
    Check("tail-filled-up", "keys that fill up the last block count in the denominator", _filled_up),
    Check("value-is-key", "keys are changed in place, which shows where they are the values too", _value_is_key),
    Check("huge-value", "values are put into float16", _huge, relative=True),
    Check("one-key", "a single key is not taken", lambda draw: draw.call((9, 1))),
    Check("one-query", "a single query is not taken", lambda draw: draw.call((1, 13))),
    Check("no-batch", "an empty batch is not taken", lambda draw: draw.call(batch=0)),
    Check("no-queries", "an empty sequence of queries is not taken", lambda draw: draw.call((0, 13))),
    Check("no-keys", "an output without keys is not written", lambda draw: draw.call((9, 0))),
    Check("lse", "the log-sum-exp is to base 2, of unscaled scores, or no float32", _plain, judge=judge_lse),
    Check("lse-layout", "the log-sum-exp is [batch, seq_q, heads]", _lse_square, several_heads, judge=judge_lse),
    Check(
        "lse-lengths",
        "hidden keys count in the log-sum-exp, or it is not -inf without keys",
        _lse_lengths,
        judge=judge_lse,
    ),
    Check(
        "lse-padding",
        "padded queries have a log-sum-exp that is not -inf",
        _lse_padding,
        judge=judge_lse,
    ),
    Check(
        "lse-causal",
        "keys behind the diagonal count in the log-sum-exp, or it is not -inf before the first key",
        lambda draw: _causal(draw, MORE_QUERIES, "bottom_right"),
        judge=judge_lse,
    ),
)
