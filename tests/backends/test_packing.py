"""Packing of sequences and back, by lengths of the host and by masks of the device."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import masks
from backends._checks import CallShape
from backends.packing import Rows, Span, Spans, cu_seqlens, exact_rows_of, ragged, rows_of, rows_once, spanned, whole
from tests.backends.cases import MASKS, Sizes

if TYPE_CHECKING:
    from torch import Tensor

CPU = torch.device("cpu")
CALL = CallShape(2, 4, 9, 13)


def bools(*rows: list[int]) -> Tensor:
    """A boolean tensor written as rows."""
    return torch.tensor(rows, dtype=torch.bool)


def numbered(batch: int, seq: int) -> Tensor:
    """`[batch, seq, 1, 1]` with every token's number, from 1."""
    return torch.arange(1, batch * seq + 1).view(batch, seq, 1, 1)


@pytest.mark.parametrize(
    ("lengths", "offsets"),
    [((), [0]), ((3,), [0, 3]), ((2, 2, 2), [0, 2, 4, 6]), ((3, 0, 5), [0, 3, 3, 8]), ((0, 0), [0, 0, 0])],
)
def test_offsets(lengths: tuple[int, ...], offsets: list[int]) -> None:
    """The sums, with 0 in front, in the one type that kernels read."""
    made = cu_seqlens(lengths, CPU)

    assert (made.tolist(), made.dtype, made.device) == (offsets, torch.int32, CPU)


def test_offsets_are_kept() -> None:
    """Equal lengths on one device have one tensor, another device has its own."""
    assert cu_seqlens((4, 7), CPU) is cu_seqlens((4, 7), CPU)
    assert cu_seqlens((4, 7), torch.device("meta")).device.type == "meta"


def test_offsets_made_for_inference_are_ordinary_tensors() -> None:
    """Autograd may save them later."""
    with torch.inference_mode():
        made = cu_seqlens((11, 12, 13), CPU)

    assert not made.is_inference()


SPANS: list[tuple[str, Spans, list[int], list[int]]] = [
    ("whole", whole(2, 3), [1, 2, 3, 4, 5, 6], [3, 3]),
    ("suffix padding", spanned([Span(0, 0, 2), Span(1, 0, 1)], 2, 3), [1, 2, 4], [2, 1]),
    ("one batch of two", spanned([Span(1, 0, 3)], 2, 3), [4, 5, 6], [3]),
    (
        "documents",
        spanned([Span(0, 0, 1), Span(0, 1, 2), Span(1, 0, 1), Span(1, 1, 2)], 2, 3),
        [*range(1, 7)],
        [1, 2] * 2,
    ),
    ("a hole", spanned([Span(0, 1, 1), Span(1, 2, 1)], 2, 3), [2, 6], [1, 1]),
]


@pytest.mark.parametrize(
    ("packing", "tokens", "lengths"), [case[1:] for case in SPANS], ids=[case[0] for case in SPANS]
)
def test_spans(packing: Spans, tokens: list[int], lengths: list[int]) -> None:
    """Which tokens, in which order, and back to where they were, with zeros elsewhere."""
    there = packing.pack(numbered(2, 3))
    back = packing.unpack(there)

    assert there.flatten().tolist() == tokens
    assert list(packing.lengths) == lengths
    assert packing.longest == max(lengths)
    assert back.flatten().tolist() == [i if i in tokens else 0 for i in range(1, 7)]


def test_packing_everything_is_a_view() -> None:
    """Of tensors whose batches follow each other in memory."""
    tensor = numbered(2, 3)

    assert whole(2, 3).pack(tensor).data_ptr() == tensor.data_ptr()


@settings(max_examples=100, deadline=None, derandomize=True)
@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=4))
def test_rows_of_any_mask(rows: list[list[bool]]) -> None:
    """Exact or not, the True tokens come first and in order; only exact rows go back."""
    keep = torch.tensor(rows)
    tensor, counts = numbered(len(rows), 5), keep.sum(dim=1).tolist()
    exact, rough = exact_rows_of(keep, counts), rows_of(keep)
    wanted = tensor[keep].flatten().tolist()

    assert exact.pack(tensor).flatten().tolist() == wanted
    assert rough.pack(tensor).flatten().tolist()[: len(wanted)] == wanted
    assert exact.cu_seqlens(CPU).tolist() == rough.cu_seqlens(CPU).tolist() == [0, *torch.tensor(counts).cumsum(0)]
    assert exact.cu_seqlens(CPU).dtype == rough.cu_seqlens(CPU).dtype == torch.int32
    assert torch.equal(exact.unpack(exact.pack(tensor)), tensor.where(keep[:, :, None, None], 0))
    with pytest.raises(ValueError, match=r"^`rows`: wanted as many as there are tokens, got all "):
        rough.unpack(rough.pack(tensor))


def test_what_follows_the_last_sequence_was_not_hidden() -> None:
    """Where rows are not exact, a kernel that reads past the end reads a token again and not what padding holds."""
    keep = bools([0, 1, 0, 1], [1, 0, 0, 0])

    assert rows_of(keep).pack(numbered(2, 4)).flatten().tolist() == [2, 4, 5, 5, 5, 5, 5, 5]


@pytest.mark.parametrize(
    ("keep", "exact", "rough"),
    [(bools([1, 0], [0, 1]), None, [False, False]), (bools([0, 0], [0, 1]), [True, False], [True, False])],
)
def test_batches_without_a_token(keep: Tensor, exact: list[bool] | None, rough: list[bool]) -> None:
    """Are told, unless the host knows that there is none."""
    known = exact_rows_of(keep, keep.sum(dim=1).tolist()).empty

    assert (None if known is None else known.tolist()) == exact
    unknown = rows_of(keep).empty
    assert unknown is not None
    assert unknown.tolist() == rough


def test_nothing_is_read_from_a_device() -> None:
    """Tensors without values will do, except where the caller has read the counts."""
    keep = torch.ones(2, 13, dtype=torch.bool, device="meta")

    packed = rows_of(keep).pack(torch.ones(2, 13, 4, 8, device="meta"))

    assert packed.shape == (26, 4, 8)
    assert exact_rows_of(keep, [4, 5]).pack(torch.ones(2, 13, 4, 8, device="meta")).shape == (9, 4, 8)


def test_rows_are_made_once() -> None:
    """And found where they are kept."""
    kept: dict[str, Rows] = {}
    first = rows_once(kept, "keys", bools([1, 0]))

    assert rows_once(kept, "keys", bools([1, 0])) is first
    assert kept == {"keys": first}


@pytest.mark.parametrize("kind", ["suffix", "block diagonal"])
def test_lengths_of_the_host_are_laid_out_once(kind: str) -> None:
    """For equal masks of equal calls."""
    assert ragged(MASKS[kind](Sizes()) or masks.no_mask(), CALL) is ragged(
        MASKS[kind](Sizes()) or masks.no_mask(), CALL
    )


def test_sequences_that_are_empty_on_either_side_are_left_out() -> None:
    """Builds differ in what they write for them."""
    sides = ragged(masks.block_diagonal([4, 0, 5], [0, 6, 7]), CALL)

    assert isinstance(sides.q, Spans)
    assert isinstance(sides.k, Spans)
    assert sides.q.spans == (Span(0, 4, 5), Span(1, 4, 5))
    assert sides.k.spans == (Span(0, 6, 7), Span(1, 6, 7))
    assert sides.dead is None
