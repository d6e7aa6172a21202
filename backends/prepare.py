"""Looks at a mask once, outside the loop, and gives the cheapest description that means the same.

The values of a mask are read here and nowhere else: a synchronisation for each call of `prepare_mask`, none in any
layer or step that uses its result.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from backends.masks import (
    Additive,
    AllKeep,
    BlockDiagonal,
    BooleanPerQuery,
    KeyAndQueryPadding,
    KeyLengths,
    KeyPadding,
    Mask,
    NoMask,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch import Tensor

    from backends.masks import Kind


@dataclass(frozen=True, slots=True)
class MaskPlan:
    """What a mask came to: `mask`, for every kernel, layer and step, and a sentence that says what was seen.

    The tensors that it was made from must not be written to afterwards.
    """

    mask: Mask
    because: str

    @property
    def kind(self) -> Kind:
        """The kind of `mask`."""
        return self.mask.kind

    def __str__(self) -> str:
        return f"mask `{self.kind}`: {self.because}"


def prepare_mask(mask: Mask | None, *, batch: int | None = None) -> MaskPlan:
    """The cheapest mask that lets every query see what `mask` does, packed already where it has to be.

    One that hides nothing is `all_keep`. Padding behind the last key becomes lengths, known on the host: of keys, or
    of both sides of a `key_and_query_padding`, which keeps its kind. What pads elsewhere keeps its tensors, and the
    packing of its tokens with them. A boolean or additive mask that says no more than a padding, or than documents in
    a row, becomes that; where it is one mask `[1, ...]` for any batch, only if `batch` tells how many there will be.
    Memory: of the size of the mask's own tensors, never of `seq_q * seq_kv` for paddings.
    """
    return MaskPlan(NoMask(), "none was given") if mask is None else _look(mask, batch)


class _Side(NamedTuple):
    """What was read of a padding mask `[batch, seq]`."""

    counts: tuple[int, ...]
    seq_len: int
    has_gaps: bool

    @property
    def is_full(self) -> bool:
        return all(count == self.seq_len for count in self.counts)

    def __str__(self) -> str:
        return f"{sum(self.counts)} of {len(self.counts) * self.seq_len}"


def _read(*keeps: Tensor) -> list[_Side]:
    """Counts and gaps of bool masks `[batch, seq]`, in one transfer."""
    import torch

    parts = [(keep.sum(dim=1), (keep[:, 1:] & ~keep[:, :-1]).sum()[None]) for keep in keeps]
    numbers = iter(torch.cat([part for pair in parts for part in pair]).tolist())
    return [
        _Side(tuple(next(numbers) for _ in range(keep.shape[0])), keep.shape[1], has_gaps=next(numbers) > 0)
        for keep in keeps
    ]


def _all_kept() -> MaskPlan:
    return MaskPlan(AllKeep(), "it hides nothing")


@singledispatch
def _look(mask: Mask, batch: int | None) -> MaskPlan:  # noqa: ARG001 - one signature for every kind
    return MaskPlan(mask, "there is nothing to look at")


@_look.register
def _(mask: KeyLengths, batch: int | None) -> MaskPlan:  # noqa: ARG001
    if min((mask.seq_len_kv, *mask.per_batch(1))) == mask.seq_len_kv:
        return _all_kept()
    return MaskPlan(mask, "its lengths are known on the host")


@_look.register
def _(mask: BlockDiagonal, batch: int | None) -> MaskPlan:  # noqa: ARG001
    asking = [i for i, length in enumerate(mask.lengths_q) if length > 0]
    if len(asking) == 1 and sum(mask.lengths_k[: asking[0]]) == 0:
        keys = mask.lengths_k[asking[0]]
        plan = _look(KeyLengths(keys, sum(mask.lengths_k)), None)
        return MaskPlan(plan.mask, f"one document has all the queries, and sees the first {keys} keys")
    return MaskPlan(mask, f"its {len(mask.lengths_q)} documents are known on the host")


@_look.register
def _(mask: KeyPadding, batch: int | None) -> MaskPlan:  # noqa: ARG001
    (keys,) = _read(mask.keep)
    return _of_keys(mask, keys)


def _of_keys(mask: KeyPadding, keys: _Side) -> MaskPlan:
    from backends.packing import exact_rows_of

    if keys.is_full:
        return _all_kept()
    if not keys.has_gaps:
        return MaskPlan(KeyLengths(keys.counts, keys.seq_len), f"its hidden keys come last: {keys} keys are seen")
    mask.packings["keys"] = exact_rows_of(mask.keep, keys.counts)
    return MaskPlan(mask, f"it hides keys before others: {keys} keys are seen, and packed")


@_look.register
def _(mask: KeyAndQueryPadding, batch: int | None) -> MaskPlan:  # noqa: ARG001
    queries, keys = _read(mask.keep_q, mask.keep_k)
    if queries.is_full:
        plan = _of_keys(KeyPadding(mask.keep_k), keys)
        return MaskPlan(plan.mask, f"it hides no query; {plan.because}")
    return _of_both(mask, queries, keys)


def _of_both(mask: KeyAndQueryPadding, queries: _Side, keys: _Side) -> MaskPlan:
    from backends.packing import exact_rows_of

    seen = f"{queries} queries and {keys} keys are left"
    if not queries.has_gaps and not keys.has_gaps:
        made = KeyAndQueryPadding(mask.keep_q, mask.keep_k, lengths=(queries.counts, keys.counts))
        return MaskPlan(made, f"its padding comes last on both sides: {seen}")
    mask.packings["queries"] = exact_rows_of(mask.keep_q, queries.counts)
    mask.packings["keys"] = exact_rows_of(mask.keep_k, keys.counts)
    return MaskPlan(mask, f"it pads before tokens: {seen}, and packed")


@_look.register
def _(mask: Additive, batch: int | None) -> MaskPlan:
    import torch

    bias = mask.bias
    hidden = bias.isneginf()
    is_zero, is_boolean = torch.stack([(bias == 0).all(), ((bias == 0) | hidden).all()]).tolist()
    if is_zero:
        return _all_kept()
    if not is_boolean:
        return MaskPlan(mask, "it adds numbers other than 0 and -inf")
    if bias.shape[2] > 1:
        return _look(BooleanPerQuery(~hidden), batch)
    return _of_every_query(mask, ~hidden[:, :, 0], batch)


def _of_every_query(mask: Additive, keep: Tensor, batch: int | None) -> MaskPlan:
    """Of a mask `[batch or 1, heads or 1, seq_kv]` that holds for every query."""
    if keep.shape[1] > 1 and not bool((keep == keep[:, :1]).all()):
        return MaskPlan(mask, "it hides other keys from each head")
    return _padding_of(mask, None, keep[:, 0], batch)


@_look.register
def _(mask: BooleanPerQuery, batch: int | None) -> MaskPlan:
    import torch

    keep = mask.keep
    queries, keys = keep.any(dim=3), keep.any(dim=2)
    same = (queries == queries[:, :1]).all() & (keys == keys[:, :1]).all()
    is_padding = same & (keep == (queries[..., None] & keys[:, :, None])).all()
    is_full, is_padding_too = torch.stack([keep.all(), is_padding]).tolist()
    if is_full:
        return _all_kept()
    if is_padding_too:
        return _padding_of(mask, queries[:, 0], keys[:, 0], batch)
    documents = _documents(keep[0, 0]) if keep.shape[:2] == (1, 1) else None
    if documents is None:
        return MaskPlan(mask, "its queries see different keys")
    return MaskPlan(documents, f"it is {len(documents.lengths_q)} documents in a row")


def _padding_of(mask: Mask, keep_q: Tensor | None, keep_k: Tensor, batch: int | None) -> MaskPlan:
    """The plan of what turned out to be padding, `[batch or 1, seq]`."""
    if keep_k.shape[0] == 1 and batch is None:
        return _of_any_batch(mask, keep_q, keep_k)
    if keep_k.shape[0] == 1 and batch is not None:
        keep_k = keep_k.expand(batch, -1)
        keep_q = None if keep_q is None else keep_q.expand(batch, -1)
    return _look(KeyPadding(keep_k) if keep_q is None else KeyAndQueryPadding(keep_q, keep_k), None)


def _of_any_batch(mask: Mask, keep_q: Tensor | None, keep_k: Tensor) -> MaskPlan:
    queries, keys = _read(keep_k if keep_q is None else keep_q, keep_k)
    if keys.has_gaps or not (keep_q is None or queries.is_full):
        return MaskPlan(mask, "it is padding, and one mask for any batch: `batch` is not given")
    return MaskPlan(KeyLengths(keys.counts[0], keys.seq_len), f"its hidden keys come last: {keys} keys are seen")


def _documents(keep: Tensor) -> BlockDiagonal | None:
    """The documents of a mask `[seq_q, seq_kv]`, or None where queries see anything but one document after another."""
    import torch

    counts = keep.sum(dim=1)
    firsts = keep.to(torch.uint8).argmax(dim=1)
    keys = torch.arange(keep.shape[1], device=keep.device)
    in_a_row = (keep == ((keys >= firsts[:, None]) & (keys < (firsts + counts)[:, None]))).all()
    *numbers, holds = torch.cat([firsts, counts, in_a_row[None]]).tolist()
    runs = zip(numbers[: len(numbers) // 2], numbers[len(numbers) // 2 :], strict=True)
    return _row_of([(*run, len(list(queries))) for run, queries in groupby(runs)], keep.shape[1]) if holds else None


def _row_of(runs: Sequence[tuple[int, int, int]], seq_len_kv: int) -> BlockDiagonal | None:
    """Documents from runs of queries that see `count` keys from `first` on; keys between them belong to nobody."""
    pairs, end = [], 0
    for first, count, queries in runs:
        if count and first < end:
            return None
        if count and first > end:
            pairs.append((0, first - end))
        pairs.append((queries, count))
        end = first + count if count else end
    if end < seq_len_kv:
        pairs.append((0, seq_len_kv - end))
    return BlockDiagonal(tuple(q for q, _ in pairs), tuple(k for _, k in pairs))
