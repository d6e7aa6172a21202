"""Tokens of several sequences packed one after another, `[tokens, heads, head_dim]`, and back into `[batch, seq, ...]`.

A packed kernel is told where each sequence starts by int32 offsets, `cu_seqlens`. Where the host knows the lengths
(`Spans`), or where only the device does (`rows_of`), nothing here waits for a device. `exact_rows_of` is told the
lengths by a caller who has read them once, and then packs no token in vain.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, wraps
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

import torch
from torch.nn.functional import pad

from backends.masks import BlockDiagonal, KeyAndQueryPadding, KeyLengths, KeyPadding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from torch import Tensor

    from backends._checks import CallShape
    from backends.masks import Mask

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
KEPT = 256
"""How many results of one function stay: the tensors among them are offsets, of a few hundred bytes each."""


def is_passing() -> bool:
    """Whether this code is being traced or captured: a tensor that it makes now means nothing afterwards."""
    if torch.compiler.is_compiling():
        return True
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


def eager_cache(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Keeps results by their arguments, except while code is traced or captured; makes no inference tensors."""

    @lru_cache(maxsize=KEPT)
    def keep(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with torch.inference_mode(mode=False):
            return make(*args, **kwargs)

    @wraps(make)
    def get(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if is_passing():
            return make(*args, **kwargs)
        return keep(*args, **kwargs)  # type: ignore[arg-type]  # hashable, as the callers see to

    return get


@eager_cache
def cu_seqlens(lengths: tuple[int, ...], device: torch.device) -> Tensor:
    """0 and the sums of the first 1, 2, … lengths: int32 `[sequences + 1]` on `device`.

    Filled in there, so that nothing is copied to the device; kept for the next call with the same lengths.
    """
    if lengths and min(lengths) == max(lengths) > 0:
        return torch.arange(0, sum(lengths) + 1, lengths[0], dtype=torch.int32, device=device)
    sums = accumulate(lengths, initial=0)
    return torch.stack([torch.full((), total, dtype=torch.int32, device=device) for total in sums])


class Span(NamedTuple):
    """One sequence of `[batch, seq]`: tokens `start` to `start + length` of one batch."""

    batch: int
    start: int
    length: int


@dataclass(frozen=True, slots=True)
class Spans:
    """Sequences that the host knows, in order and without overlap, and their lengths."""

    spans: tuple[Span, ...]
    lengths: tuple[int, ...]
    batch: int
    seq_len: int

    @property
    def longest(self) -> int:
        """No packed sequence is longer."""
        return max((0, *self.lengths))

    @property
    def whole(self) -> bool:
        """Whether every token is packed, so that packing changes the shape alone."""
        return sum(self.lengths) == self.batch * self.seq_len

    def cu_seqlens(self, device: torch.device) -> Tensor:
        """Where each sequence starts among the packed tokens, and where the last one ends: int32, on `device`."""
        return cu_seqlens(self.lengths, device)

    def pack(self, tensor: Tensor) -> Tensor:
        """`[batch, seq, ...]` to `[tokens, ...]`; a view where that is possible."""
        if self.whole:
            return tensor.flatten(0, 1)
        return torch.cat([tensor[batch, start : start + length] for batch, start, length in self.spans])

    def unpack(self, tokens: Tensor, fill: float = 0.0) -> Tensor:
        """`[tokens, ...]` back to `[batch, seq, ...]`, with `fill` where no token was packed."""
        if self.whole:
            return tokens.reshape(self.batch, self.seq_len, *tokens.shape[1:])
        out = tokens.new_full((self.batch, self.seq_len, *tokens.shape[1:]), fill)
        for (batch, start, length), part in zip(self.spans, torch.split(tokens, list(self.lengths)), strict=True):
            out[batch, start : start + length] = part
        return out


def spanned(spans: Iterable[Span], batch: int, seq_len: int) -> Spans:
    """The packing of these spans of `[batch, seq_len]`."""
    taken = tuple(spans)
    return Spans(taken, tuple(span.length for span in taken), batch, seq_len)


def whole(batch: int, seq_len: int) -> Spans:
    """Every token of `[batch, seq_len]`, a sequence for each batch."""
    return spanned((Span(i, 0, seq_len) for i in range(batch)), batch, seq_len)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The True tokens of a mask `[batch, seq]`, one sequence a batch, by their positions on the device."""

    rows: Tensor
    """int64 `[tokens]`: where in `[batch * seq]` each packed token is."""
    offsets: Tensor
    longest: int
    batch: int
    seq_len: int
    empty: Tensor | None
    """Bool `[batch]`: the batches without a token. None where the host knows that there is none."""
    exact: bool
    """Whether there are as many rows as tokens; else the last token is repeated after the end of the last sequence."""

    def cu_seqlens(self, device: torch.device) -> Tensor:  # noqa: ARG002 - they are where the mask is
        """See `Spans`."""
        return self.offsets

    def pack(self, tensor: Tensor) -> Tensor:
        """See `Spans`."""
        return tensor.flatten(0, 1).index_select(0, self.rows)

    def unpack(self, tokens: Tensor, fill: float = 0.0) -> Tensor:
        """See `Spans`; raises `ValueError` unless the rows are exact."""
        if not self.exact:
            raise ValueError(f"`rows`: wanted as many as there are tokens, got all {self.batch * self.seq_len}")
        out = tokens.new_full((self.batch * self.seq_len, *tokens.shape[1:]), fill)
        return out.index_copy_(0, self.rows, tokens).reshape(self.batch, self.seq_len, *tokens.shape[1:])


Packing = Spans | Rows
"""Which tokens of `[batch, seq]` make up the packed sequences."""


def rows_of(keep: Tensor) -> Rows:
    """The packing of a bool mask `[batch, seq]`, one token or more, by its device alone: how many is never asked.

    What is packed after the last sequence is its last token again, so that no hidden value, which may be anything,
    comes near the kernel.
    """
    batch, seq_len = keep.shape
    counts = keep.sum(dim=1)
    return Rows(_order(keep), _offsets(counts), seq_len, batch, seq_len, empty=counts == 0, exact=False)


def exact_rows_of(keep: Tensor, counts: Sequence[int]) -> Rows:
    """The same, with the number of True tokens in each batch, which the caller has read."""
    batch, seq_len = keep.shape
    device_counts = keep.sum(dim=1)
    return Rows(
        _order(keep)[: sum(counts)],
        _offsets(device_counts),
        max(counts, default=0),
        batch,
        seq_len,
        empty=device_counts == 0 if 0 in counts else None,
        exact=True,
    )


def rows_once(kept: dict[str, Rows], side: str, keep: Tensor) -> Rows:
    """What `kept`, a mask's own dictionary, holds for a side of it; made by `rows_of`, and kept, the first time."""
    found = kept.get(side)
    if found is not None:
        return found
    if is_passing():
        return rows_of(keep)
    with torch.inference_mode(mode=False):
        kept[side] = rows_of(keep)
    return kept[side]


def _order(keep: Tensor) -> Tensor:
    """The positions of the True tokens, and the last of them repeated up to `batch * seq`."""
    seen = keep.flatten().cumsum(0)
    wanted = torch.arange(1, keep.numel() + 1, device=keep.device)
    return torch.searchsorted(seen, torch.minimum(wanted, seen[-1]))


def _offsets(counts: Tensor) -> Tensor:
    return pad(counts.cumsum(0), (1, 0)).to(torch.int32)


class Ragged(NamedTuple):
    """A call as packed sequences."""

    q: Packing
    k: Packing
    dead: Tensor | None = None
    """Bool, broadcastable to `[batch, seq_q, 1, 1]`: queries whose output is to be zero, whatever was written."""


def ragged(mask: Mask, call: CallShape) -> Ragged:
    """The packed sequences of a mask that is not the same length everywhere."""
    if isinstance(mask, (KeyLengths, BlockDiagonal)):
        return _of_lengths(mask, call)
    if isinstance(mask, KeyPadding):
        keys = rows_once(mask.packings, "keys", mask.keep)
        return Ragged(whole(call.batch, call.seq_len_q), keys, _everywhere(keys.empty))
    assert isinstance(mask, KeyAndQueryPadding)  # noqa: S101 - the last of the kinds that are honoured
    if mask.lengths is not None:
        return _pairs(_leading(call.batch, *mask.lengths), call)
    keys = rows_once(mask.packings, "keys", mask.keep_k)
    empty = _everywhere(keys.empty)
    if "queries" in mask.packings:
        return Ragged(mask.packings["queries"], keys, empty)
    padded = ~mask.keep_q[:, :, None, None]
    return Ragged(whole(call.batch, call.seq_len_q), keys, padded if empty is None else padded | empty)


def _everywhere(empty: Tensor | None) -> Tensor | None:
    """`[batch, 1, 1, 1]`: a batch without keys leaves every one of its queries blind."""
    return None if empty is None else empty[:, None, None, None]


@eager_cache
def _of_lengths(mask: KeyLengths | BlockDiagonal, call: CallShape) -> Ragged:
    if isinstance(mask, KeyLengths):
        return _pairs(_leading(call.batch, [call.seq_len_q] * call.batch, mask.per_batch(call.batch)), call)
    documents = list(zip(mask.cu_seqlens_q, mask.lengths_q, mask.cu_seqlens_k, mask.lengths_k, strict=False))
    return _pairs(
        (
            (Span(batch, start_q, length_q), Span(batch, start_k, length_k))
            for batch in range(call.batch)
            for start_q, length_q, start_k, length_k in documents
        ),
        call,
    )


def _leading(batch: int, queries: Iterable[int], keys: Iterable[int]) -> Iterable[tuple[Span, Span]]:
    lengths = zip(range(batch), queries, keys, strict=True)
    return ((Span(i, 0, length_q), Span(i, 0, length_k)) for i, length_q, length_k in lengths)


def _pairs(sequences: Iterable[tuple[Span, Span]], call: CallShape) -> Ragged:
    """Only sequences with queries and keys: builds differ in what they write for an empty one."""
    full = [(q, k) for q, k in sequences if q.length and k.length]
    return Ragged(
        spanned((q for q, _ in full), call.batch, call.seq_len_q),
        spanned((k for _, k in full), call.batch, call.seq_len_kv),
    )
