"""The faults that dispatchers are known for: each changes the answer visibly on its input, and no backend has it.

A fault is written as what a faulty dispatcher would compute, by the oracle itself. Its distance from the truth shows
that the input tells the two apart; the backend must lie with the truth.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends.reference import attention
from tests.backends.cases import BINDERS, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask

SIZES = Sizes()
SQUARE = Sizes(seq_kv=9)
VISIBLE = 0.1
"""The smallest error that a fault must show, twice what is allowed to a half-precision kernel."""


@dataclass(frozen=True)
class Input:
    """One call."""

    sizes: Sizes
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None = None
    causal: Causal | None = None
    scale: float | None = None
    keep: Tensor = field(default_factory=lambda: torch.ones(0, dtype=torch.bool))
    """The tensor that the mask was made from."""

    def truth(self) -> Tensor:
        """What the oracle says."""
        return attention(self.q, self.k, self.v, mask=self.mask, causal=self.causal, scale=self.scale)


def dense(sizes: Sizes = SIZES) -> Input:
    """No mask."""
    sizes = replace(sizes)  # with a generator of its own
    return Input(sizes, *sizes.qkv())


def padded(sizes: Sizes = SIZES) -> Input:
    """Key padding with gaps and a hidden prefix, other keys in each batch."""
    plain = dense(sizes)
    keep = plain.sizes.coins(plain.sizes.batch, plain.sizes.seq_kv)
    keep[:, :2] = False
    keep[0, 2:4] = torch.tensor([True, False])
    keep[1, 2:4] = torch.tensor([False, True])
    return replace(plain, mask=masks.key_padding(keep), keep=keep)


def boolean(heads: int = 1, sizes: Sizes = SIZES) -> Input:
    """A mask for each query, batch and, if wanted, head."""
    plain = dense(sizes)
    keep = plain.sizes.coins(plain.sizes.batch, heads, plain.sizes.seq_q, plain.sizes.seq_kv)
    return replace(plain, mask=masks.boolean_per_query(keep), keep=keep)


def queries_padded() -> Input:
    """Self-attention with padded queries and keys."""
    plain = dense(SQUARE)
    keep = torch.arange(9) < torch.tensor([[5], [7]])
    return replace(plain, mask=masks.key_and_query_padding(keep, keep), keep=keep)


def biased() -> Input:
    """A random bias."""
    plain = dense()
    bias = plain.sizes.normal(2, 4, 9, 13)
    return replace(plain, mask=masks.additive(bias), keep=bias)


def packed_prefix(call: Input) -> Mask:
    """As many keys as are visible, taken from the front."""
    return masks.key_lengths(call.keep.sum(dim=1), call.sizes.seq_kv)


def added(keep: Tensor) -> Mask:
    """A boolean mask added to the scores as 0 and 1."""
    return masks.additive(keep.double().expand(-1, -1, 9, 13))


def with_mask(call: Input, mask: Mask | None) -> Tensor:
    """The truth of another mask."""
    return replace(call, mask=mask).truth()


def swapped(tensor: Tensor) -> Tensor:
    """Sequence and heads read in each other's place, sizes unchanged."""
    return tensor.transpose(1, 2).reshape(tensor.shape)


def other_keys(call: Input, k: Tensor, v: Tensor) -> Tensor:
    """The truth of other keys and values."""
    return replace(call, k=k, v=v).truth()


def mean_of_values(call: Input) -> Tensor:
    """Rows that see nothing answered with the mean of all values."""
    truth = call.truth()
    return torch.where(truth == 0, call.v.mean(dim=1, keepdim=True), truth)


def tiled(tensor: Tensor, heads: int) -> Tensor:
    """Key heads repeated as 0 1 0 1 and not as 0 0 1 1."""
    return tensor.repeat(1, 1, heads // tensor.shape[2], 1)


def first_head(tensor: Tensor) -> Tensor:
    """The first key head for all."""
    return tensor[:, :, :1].expand_as(tensor)


FAULTS: list[tuple[str, Callable[[], Input], Callable[[Input], Tensor]]] = [
    ("mask dropped", padded, lambda c: with_mask(c, None)),
    ("gaps packed as a prefix", padded, lambda c: with_mask(c, packed_prefix(c))),
    ("the first batch's mask for all", padded, lambda c: with_mask(c, masks.key_padding(c.keep[:1].expand(2, -1)))),
    ("mask inverted", padded, lambda c: with_mask(c, masks.key_padding(~c.keep))),
    ("boolean added as 0 and 1", padded, lambda c: with_mask(c, added(c.keep[:, None, None]))),
    (
        "a mask per query reduced to keys",
        lambda: boolean(sizes=SQUARE),
        lambda c: with_mask(c, masks.key_padding(c.keep.any(dim=2)[:, 0])),
    ),
    (
        "the first head's mask for all",
        lambda: boolean(heads=4),
        lambda c: with_mask(c, masks.boolean_per_query(c.keep[:, :1])),
    ),
    (
        "padding of [batch, keys] read as [queries, keys]",
        lambda: padded(Sizes(batch=9, seq_kv=9)),
        lambda c: with_mask(c, masks.boolean_per_query(c.keep[None, None])),
    ),
    (
        "a key mask that also hides queries",
        lambda: padded(SQUARE),
        lambda c: with_mask(c, masks.key_and_query_padding(c.keep, c.keep)),
    ),
    ("padded queries answered", queries_padded, lambda c: with_mask(c, masks.key_padding(c.keep))),
    ("rows without keys answered with a mean", queries_padded, mean_of_values),
    ("a bias read as boolean", biased, lambda c: with_mask(c, masks.boolean_per_query(c.keep != 0))),
    ("a bias dropped", biased, lambda c: with_mask(c, None)),
    ("scale dropped", lambda: replace(dense(), scale=1.0), lambda c: replace(c, scale=None).truth()),
    ("scale applied twice", dense, lambda c: replace(c, scale=1 / 16).truth()),
    ("scale of a padded head_dim", lambda: dense(Sizes(head_dim=72)), lambda c: replace(c, scale=128**-0.5).truth()),
    (
        "top-left read as bottom-right",
        lambda: replace(dense(), causal="top_left"),
        lambda c: replace(c, causal="bottom_right").truth(),
    ),
    (
        "bottom-right read as top-left",
        lambda: replace(dense(), causal="bottom_right"),
        lambda c: replace(c, causal="top_left").truth(),
    ),
    (
        "causal dropped beside a mask",
        lambda: replace(padded(SQUARE), causal="top_left"),
        lambda c: replace(c, causal=None).truth(),
    ),
    (
        "causal aligned by what is left of the keys",
        lambda: replace(dense(), causal="bottom_right", mask=masks.key_lengths(10, 13)),
        lambda c: replace(c, k=c.k[:, :10], v=c.v[:, :10], mask=None).truth(),
    ),
    (
        "key heads tiled",
        lambda: dense(Sizes(heads=8, kv_heads=2)),
        lambda c: other_keys(c, tiled(c.k, 8), tiled(c.v, 8)),
    ),
    (
        "the first key head for all",
        lambda: dense(Sizes(heads=8, kv_heads=2)),
        lambda c: other_keys(c, first_head(c.k), first_head(c.v)),
    ),
    (
        "heads read as sequence",
        lambda: dense(Sizes(heads=9, kv_heads=9, seq_kv=9)),
        lambda c: replace(c, q=swapped(c.q), k=swapped(c.k), v=swapped(c.v)).truth(),
    ),
    ("output left transposed", lambda: dense(Sizes(heads=9, kv_heads=9)), lambda c: swapped(c.truth())),
    (
        "tail of the keys dropped",
        lambda: dense(Sizes(seq_kv=21)),
        lambda c: with_mask(c, masks.key_lengths(19, 21)),
    ),
    (
        "tail padded with zeros and not hidden",
        dense,
        lambda c: other_keys(c, *(torch.nn.functional.pad(x, (0, 0, 0, 0, 0, 3)) for x in (c.k, c.v))),
    ),
    (
        "documents merged",
        lambda: replace(dense(), mask=masks.block_diagonal([4, 5], [6, 7])),
        lambda c: with_mask(c, None),
    ),
]


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize(("make", "faulty"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_fault_is_absent(binder: str, make: Callable[[], Input], faulty: Callable[[Input], Tensor]) -> None:
    """The input shows the fault, and the backend does not."""
    call = make()

    out = BINDERS[binder](call.sizes)(call.q, call.k, call.v, mask=call.mask, causal=call.causal, scale=call.scale)

    assert (faulty(call) - call.truth()).abs().max() > VISIBLE
    torch.testing.assert_close(out, call.truth(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("binder", BINDERS)
def test_nothing_is_mutated(binder: str) -> None:
    """Not even where key and value are one tensor: a key shifted in place would show in the output."""
    call = padded()
    before = [x.clone() for x in (call.q, call.k, call.keep)]

    out = BINDERS[binder](call.sizes)(call.q, call.k, call.k, mask=call.mask, causal="bottom_right")

    assert all(torch.equal(x, y) for x, y in zip((call.q, call.k, call.keep), before, strict=True))
    expected = attention(call.q, call.k, call.k, mask=call.mask, causal="bottom_right")
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
