"""Masks as data: what each constructor accepts and what each kind lets a query see."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks

if TYPE_CHECKING:
    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask

T, F = True, False
INF = float("inf")
Q_SHAPE, K_SHAPE = (2, 2, 4, 8), (2, 3, 4, 8)


def bools(*rows: object) -> Tensor:
    """A boolean tensor written as nested rows."""
    return torch.tensor(rows, dtype=torch.bool)


def zeros(*shape: int, dtype: torch.dtype = torch.bool) -> Tensor:
    """Zeros, or False."""
    return torch.zeros(shape, dtype=dtype)


SEEN = [
    (masks.no_mask(), [[[T, T, T], [T, T, T]]] * 2),
    (masks.all_keep(), [[[T, T, T], [T, T, T]]] * 2),
    (masks.key_lengths(2, 3), [[[T, T, F], [T, T, F]]] * 2),
    (masks.key_lengths(3, 3), [[[T, T, T], [T, T, T]]] * 2),
    (masks.key_lengths([1, 3], 3), [[[T, F, F], [T, F, F]], [[T, T, T], [T, T, T]]]),
    (masks.key_lengths(torch.tensor([0, 2]), 3), [[[F, F, F], [F, F, F]], [[T, T, F], [T, T, F]]]),
    (masks.key_lengths_of(bools([T, F, F], [T, T, F])), [[[T, F, F], [T, F, F]], [[T, T, F], [T, T, F]]]),
    (masks.key_padding(bools([F, T, T], [T, F, T])), [[[F, T, T], [F, T, T]], [[T, F, T], [T, F, T]]]),
    (
        masks.key_and_query_padding(bools([T, F], [T, T]), bools([F, T, T], [T, F, T])),
        [[[F, T, T], [F, F, F]], [[T, F, T], [T, F, T]]],
    ),
    (masks.block_diagonal([1, 1], [2, 1]), [[[T, T, F], [F, F, T]]] * 2),
    (masks.block_diagonal(torch.tensor([2, 0]), torch.tensor([1, 2])), [[[T, F, F], [T, F, F]]] * 2),
    (masks.boolean_per_query(bools([[[T, F, T], [F, F, T]]])), [[[T, F, T], [F, F, T]]] * 2),
]


@pytest.mark.parametrize(("mask", "expected"), SEEN, ids=[mask.kind for mask, _ in SEEN])
def test_what_a_query_sees(mask: Mask, expected: list[list[list[bool]]]) -> None:
    """Written out for two batches of two queries and three keys; as a bias the same is 0 or -inf."""
    whole = bools(*expected)[:, None].expand(2, 4, 2, 3)

    keep = masks.to_keep(mask, Q_SHAPE, K_SHAPE)
    bias = masks.to_bias(mask, Q_SHAPE, K_SHAPE, dtype=torch.float16)

    assert keep.dtype == torch.bool
    assert torch.equal(keep.expand(2, 4, 2, 3), whole)
    assert bias.dtype == torch.float16
    assert torch.equal(bias.expand(2, 4, 2, 3), torch.where(whole, 0.0, -INF).half())


def test_an_empty_batch_has_a_mask_too() -> None:
    """Lengths for no batch at all hide nothing."""
    keep = masks.to_keep(masks.key_lengths([], 3), (0, 2, 4, 8), (0, 3, 4, 8))

    assert keep.expand(0, 4, 2, 3).shape == (0, 4, 2, 3)


def test_a_bias_stays_what_it_is() -> None:
    """In the dtype asked for, where that holds it without loss."""
    bias = torch.tensor([0.5, -INF, 2.0], dtype=torch.float16).reshape(1, 1, 1, 3)

    made = masks.to_bias(masks.additive(bias), Q_SHAPE, K_SHAPE, dtype=torch.float32)

    assert made.dtype == torch.float32
    assert made.flatten().tolist() == [0.5, -INF, 2.0]


@pytest.mark.parametrize(
    ("causal", "keys", "expected"),
    [
        ("top_left", None, [[T, F, F], [T, T, F]]),
        ("bottom_right", None, [[T, T, F], [T, T, T]]),
        ("top_left", 2, [[T, F], [T, T]]),
        ("bottom_right", 2, [[T, T], [T, T]]),
    ],
)
def test_causal_keep(causal: Causal, keys: int | None, expected: list[list[bool]]) -> None:
    """Two queries and three keys; fewer keys do not move the diagonal."""
    assert masks.causal_keep(2, 3, causal, keys=keys).tolist() == expected


def test_the_first_queries_may_see_nothing() -> None:
    """More queries than keys, aligned at the end."""
    assert masks.causal_keep(3, 2, "bottom_right").tolist() == [[F, F], [T, F], [T, T]]
    assert masks.causal_offset(3, 2, "bottom_right") == -1


@pytest.mark.parametrize(
    ("mask", "kind", "per_head"),
    [
        (masks.no_mask(), "none", False),
        (masks.all_keep(), "all_keep", False),
        (masks.key_lengths(1, 3), "suffix_key_padding", False),
        (masks.key_padding(zeros(2, 3)), "key_padding", False),
        (masks.key_and_query_padding(zeros(2, 2), zeros(2, 3)), "key_and_query_padding", False),
        (masks.block_diagonal([2]), "block_diagonal", False),
        (masks.boolean_per_query(zeros(2, 1, 2, 3)), "boolean_per_query", False),
        (masks.boolean_per_query(zeros(2, 4, 2, 3)), "boolean_per_query", True),
        (masks.additive(zeros(1, 1, 1, 3, dtype=torch.float32)), "additive", False),
        (masks.additive(zeros(1, 4, 1, 3, dtype=torch.float32)), "additive", True),
    ],
)
def test_kind_and_per_head(mask: Mask, kind: str, *, per_head: bool) -> None:
    """The kind is the constructor's; only four-dimensional masks can differ by head."""
    assert (mask.kind, mask.per_head) == (kind, per_head)


def test_block_diagonal_offsets() -> None:
    """Offsets for kernels that take them: where each document starts, and the end."""
    mask = masks.block_diagonal([2, 0, 3])

    assert mask.cu_seqlens_q == mask.cu_seqlens_k == (0, 2, 2, 5)


@pytest.mark.parametrize(
    ("lengths", "uniform"), [(2, 2), ([2], 2), ([2, 2], 2), ([1, 2], None), ([], None), (torch.tensor([2, 2]), 2)]
)
def test_uniform_length(lengths: int | list[int] | Tensor, uniform: int | None) -> None:
    """One length for all batches can be sliced."""
    assert masks.key_lengths(lengths, 3).uniform == uniform


def test_importing_backends_does_not_import_torch() -> None:
    """Nor do the descriptions of masks, until one of a tensor is made."""
    code = """if True:
        import sys
        import backends, backends.masks, backends.registry
        backends.masks.key_lengths(2, 3)
        assert "torch" not in sys.modules
    """

    subprocess.run([sys.executable, "-c", code], check=True)
