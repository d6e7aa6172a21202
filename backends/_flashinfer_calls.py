"""A call of `Kernel` run as sequences of tokens, laid end to end where there are several.

Lengths are known on the host, so that nothing here waits for a device. A sequence without queries or without keys is
left out: kernels differ in what they write for it, and its rows are zeros.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from backends._flashinfer_checks import LENGTHS, UNMASKED
from backends._flashinfer_launch import Job
from backends._lse import heads_first, unseen
from backends.masks import KeyAndQueryPadding
from backends.packing import Span, Spans, eager_cache, ragged, spanned, whole

if TYPE_CHECKING:
    from torch import Tensor

    from backends._checks import CallShape
    from backends._flashinfer_launch import Launch
    from backends.masks import Mask


def is_lengths(mask: Mask) -> bool:
    """Whether the mask is no more than lengths that the host knows; a padding may be, once it has been prepared."""
    return mask.kind in LENGTHS or (isinstance(mask, KeyAndQueryPadding) and mask.lengths is not None)


def run_sequences(
    launch: Launch,
    inputs: tuple[Tensor, Tensor, Tensor],
    mask: Mask,
    call: CallShape,
    *,
    causal: bool,
    scale: float,
    lse: bool = False,
) -> list[Tensor]:
    """The output `[batch, seq_q, heads, head_dim]` for a mask of lengths; rows that see nothing are zeros.

    With `lse` the log-sum-exp too, as `LseKernel.with_lse` gives it. Keys that nobody sees are cut away before the
    kernel, and its output is not copied unless rows are missing from it.
    """
    q, k, v = inputs
    if 0 in (call.batch, call.seq_len_q, call.seq_len_kv):
        return nothing(q, lse=lse)
    queries, keys = _sequences(mask, call, causal=causal)
    if not queries.spans:
        return nothing(q, lse=lse)
    job = Job(queries.lengths, keys.lengths, causal, scale)
    tokens = _packed(queries, q), _packed(keys, k), _packed(keys, v)
    if not lse:
        return [queries.unpack(launch(*tokens, None, job))]
    out, seen = launch.with_lse(*tokens, None, job)
    return [queries.unpack(out), heads_first(queries.unpack(seen, -math.inf))]


def _sequences(mask: Mask, call: CallShape, *, causal: bool) -> tuple[Spans, Spans]:
    """Of queries and of keys; under a diagonal aligned bottom right, queries before the first key see nothing."""
    if mask.kind in UNMASKED:
        blind = max(0, call.seq_len_q - call.seq_len_kv) if causal else 0
        queries = (Span(i, blind, call.seq_len_q - blind) for i in range(call.batch))
        return spanned(queries, call.batch, call.seq_len_q), whole(call.batch, call.seq_len_kv)
    found = ragged(mask, call)
    if not isinstance(found.q, Spans) or not isinstance(found.k, Spans):
        raise TypeError(f"`mask`: wanted one of lengths, got {mask!r}")
    return found.q, found.k


def _packed(spans: Spans, tensor: Tensor) -> Tensor:
    """The tokens `[tokens, heads, head_dim]`; a view of a single sequence, and of all tokens where it can be one."""
    if len(spans.spans) == 1:
        batch, start, length = spans.spans[0]
        return tensor[batch, start : start + length]
    return spans.pack(tensor)


@eager_cache
def counts(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """The lengths as int32 `[sequences]` on `device`, filled in there: kernels do not ask for the type."""
    return torch.stack([torch.full((), length, dtype=torch.int32, device=device) for length in lengths])


def nothing(q: Tensor, *, lse: bool) -> list[Tensor]:
    """The output of a call in which no query sees a key and, with `lse`, its log-sum-exp."""
    zeros = torch.zeros_like(q, memory_format=torch.contiguous_format)
    return [zeros, unseen(q)] if lse else [zeros]
