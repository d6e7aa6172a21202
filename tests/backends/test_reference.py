"""The oracle, compared with arithmetic written out by hand."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends.masks import Mask
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes

if TYPE_CHECKING:
    from backends.interface import Causal

Q = torch.tensor([1.0, 2.0]).reshape(1, 2, 1, 1)
K = torch.tensor([0.0, 1.0, -1.0]).reshape(1, 3, 1, 1)
V = torch.tensor([1.0, 10.0, 100.0]).reshape(1, 3, 1, 1)


def weighted(query: float, keys: dict[float, float]) -> float:
    """The average of the values of `keys` (value by key) under exp(query * key)."""
    weights = [math.exp(query * key) for key in keys]
    return sum(weight * value for weight, value in zip(weights, keys.values(), strict=True)) / sum(weights)


ALL = {0.0: 1.0, 1.0: 10.0, -1.0: 100.0}
TWO = {0.0: 1.0, 1.0: 10.0}


@pytest.mark.parametrize(
    ("mask", "causal", "expected"),
    [
        (None, None, [weighted(1, ALL), weighted(2, ALL)]),
        (masks.no_mask(), None, [weighted(1, ALL), weighted(2, ALL)]),
        (None, "top_left", [1.0, weighted(2, TWO)]),
        (None, "bottom_right", [weighted(1, TWO), weighted(2, ALL)]),
        (masks.key_lengths(2, 3), None, [weighted(1, TWO), weighted(2, TWO)]),
        (masks.key_lengths([2], 3), "bottom_right", [weighted(1, TWO), weighted(2, TWO)]),
        (masks.key_padding(torch.tensor([[True, True, False]])), None, [weighted(1, TWO), weighted(2, TWO)]),
        (masks.key_padding(torch.zeros(1, 3, dtype=torch.bool)), None, [0.0, 0.0]),
        (
            masks.key_and_query_padding(torch.tensor([[False, True]]), torch.tensor([[True, True, False]])),
            None,
            [0.0, weighted(2, TWO)],
        ),
        (masks.block_diagonal([1, 1], [2, 1]), None, [weighted(1, TWO), 100.0]),
        (masks.block_diagonal([1, 1], [0, 3]), None, [0.0, weighted(2, ALL)]),
        (
            masks.boolean_per_query(torch.tensor([[True, True, False], [False, False, True]])[None, None]),
            None,
            [weighted(1, TWO), 100.0],
        ),
        (
            masks.additive(torch.tensor([0.0, 0.0, -math.inf]).reshape(1, 1, 1, 3)),
            None,
            [weighted(1, TWO), weighted(2, TWO)],
        ),
        (masks.additive(torch.full((1, 1, 2, 3), -math.inf)), None, [0.0, 0.0]),
    ],
)
def test_agrees_with_hand_arithmetic(mask: Mask | None, causal: Causal | None, expected: list[float]) -> None:
    """Two queries, three keys, head_dim 1, every kind of mask."""
    out = attention(Q, K, V, mask=mask, causal=causal)

    assert out.dtype == torch.float64
    assert out.flatten().tolist() == pytest.approx(expected, abs=1e-12)


def test_scale_multiplies_the_scores() -> None:
    """A scale of 3 is the same as queries three times as long."""
    assert attention(Q, K, V, scale=3.0).flatten().tolist() == pytest.approx([weighted(3, ALL), weighted(6, ALL)])


def test_default_scale_is_of_the_head_dim() -> None:
    """With head_dim 4 scores are halved."""
    wide = [torch.cat([x, torch.zeros(1, x.shape[1], 1, 3)], dim=3) for x in (Q, K, V)]

    assert attention(*wide)[..., 0].flatten().tolist() == pytest.approx([weighted(0.5, ALL), weighted(1, ALL)])


def test_heads_are_grouped() -> None:
    """Query heads 0 and 1 read key head 0, heads 2 and 3 key head 1."""
    q = torch.zeros(1, 1, 4, 1)
    k = torch.zeros(1, 1, 2, 1)
    v = torch.tensor([5.0, 7.0]).reshape(1, 1, 2, 1)

    assert attention(q, k, v).flatten().tolist() == [5.0, 5.0, 7.0, 7.0]


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", MASKS)
def test_chunks_change_nothing(kind: str, causal: Causal | None) -> None:
    """One query at a time gives what all queries at once give."""
    sizes = Sizes(kv_heads=2)
    q, k, v = sizes.qkv()
    mask = MASKS[kind](sizes)

    whole = attention(q, k, v, mask=mask, causal=causal)
    chunked = attention(q, k, v, mask=mask, causal=causal, scores_at_once=1)

    torch.testing.assert_close(chunked, whole)


@pytest.mark.parametrize(("seq_q", "seq_kv"), [(0, 3), (3, 0), (0, 0)])
def test_empty_sequences_give_zeros(seq_q: int, seq_kv: int) -> None:
    """No query gives an empty output, no key a zero one."""
    out = attention(*Sizes(seq_q=seq_q, seq_kv=seq_kv).qkv())

    assert torch.equal(out, torch.zeros(2, seq_q, 4, 16, dtype=torch.float64))


def test_an_unknown_mask_is_an_error() -> None:
    """A mask of a kind that the oracle does not know is never taken for none."""

    class Strange(Mask):
        kind = "none"

        def __repr__(self) -> str:
            return "Strange()"

    with pytest.raises(TypeError) as raised:
        attention(Q, K, V, mask=Strange())

    assert str(raised.value) == "`mask`: wanted one of the kinds of `backends.masks`, got Strange()"
