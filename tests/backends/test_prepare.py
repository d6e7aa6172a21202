"""`prepare_mask`: which description each mask comes to, that it means the same, and what it costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from backends import MaskPlan, masks, prepare_mask
from backends.interface import CallRefused
from backends.reference import attention
from tests.backends.cases import MASKS, Sizes, bind_dispatcher, bind_prepared
from tests.backends.fakes.flash_packages import bind

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.masks import Mask

INF = float("inf")
SIZES = Sizes(dtype=torch.bfloat16)


def bools(*rows: list[int]) -> Tensor:
    """A boolean tensor written as rows."""
    return torch.tensor(rows, dtype=torch.bool)


def bias(*rows: list[float]) -> Mask:
    """An additive mask `[1, 1, queries or 1, keys]`."""
    return masks.additive(torch.tensor([[rows]]))


def boolean(*rows: list[int]) -> Mask:
    """A mask `[1, 1, queries, keys]`."""
    return masks.boolean_per_query(bools(*rows)[None, None])


CONCLUSIONS: list[tuple[Mask | None, int | None, str]] = [
    (None, None, "mask `none`: none was given"),
    (masks.no_mask(), None, "mask `none`: there is nothing to look at"),
    (masks.all_keep(), None, "mask `all_keep`: there is nothing to look at"),
    (masks.key_lengths(3, 3), None, "mask `all_keep`: it hides nothing"),
    (masks.key_lengths([3, 2], 3), None, "mask `suffix_key_padding`: its lengths are known on the host"),
    (masks.key_padding(bools([1, 1], [1, 1])), None, "mask `all_keep`: it hides nothing"),
    (
        masks.key_padding(bools([1, 1, 0], [1, 0, 0])),
        None,
        "mask `suffix_key_padding`: its hidden keys come last: 3 of 6 keys are seen",
    ),
    (
        masks.key_padding(bools([1, 0, 1], [1, 0, 0])),
        None,
        "mask `key_padding`: it hides keys before others: 3 of 6 keys are seen, and packed",
    ),
    (
        masks.key_and_query_padding(bools([1, 1]), bools([1, 1, 1])),
        None,
        "mask `all_keep`: it hides no query; it hides nothing",
    ),
    (
        masks.key_and_query_padding(bools([1, 1]), bools([1, 1, 0])),
        None,
        "mask `suffix_key_padding`: it hides no query; its hidden keys come last: 2 of 3 keys are seen",
    ),
    (
        masks.key_and_query_padding(bools([1, 0]), bools([1, 1, 0])),
        None,
        "mask `key_and_query_padding`: its padding comes last on both sides: 1 of 2 queries and 2 of 3 keys are left",
    ),
    (
        masks.key_and_query_padding(bools([0, 1]), bools([1, 1, 0])),
        None,
        "mask `key_and_query_padding`: it pads before tokens: 1 of 2 queries and 2 of 3 keys are left, and packed",
    ),
    (masks.block_diagonal([2, 1], [1, 2]), None, "mask `block_diagonal`: its 2 documents are known on the host"),
    (
        masks.block_diagonal([3, 0], [1, 2]),
        None,
        "mask `suffix_key_padding`: one document has all the queries, and sees the first 1 keys",
    ),
    (
        masks.block_diagonal([0, 3], [0, 2]),
        None,
        "mask `all_keep`: one document has all the queries, and sees the first 2 keys",
    ),
    (masks.block_diagonal([0, 3], [1, 2]), None, "mask `block_diagonal`: its 2 documents are known on the host"),
    (boolean([1, 1], [1, 1]), None, "mask `all_keep`: it hides nothing"),
    (boolean([1, 0], [1, 0]), None, "mask `suffix_key_padding`: its hidden keys come last: 1 of 2 keys are seen"),
    (
        boolean([0, 1], [0, 1]),
        None,
        "mask `boolean_per_query`: it is padding, and one mask for any batch: `batch` is not given",
    ),
    (
        boolean([0, 1], [0, 1]),
        2,
        "mask `key_padding`: it hides no query; it hides keys before others: 2 of 4 keys are seen, and packed",
    ),
    (
        boolean([1, 1, 0], [1, 1, 0], [0, 0, 0]),
        1,
        "mask `key_and_query_padding`: its padding comes last on both sides: 2 of 3 queries and 2 of 3 keys are left",
    ),
    (boolean([1, 0, 0], [1, 0, 0], [0, 0, 1]), None, "mask `block_diagonal`: it is 3 documents in a row"),
    (boolean([1, 0, 0], [0, 1, 0]), 5, "mask `block_diagonal`: it is 3 documents in a row"),
    (boolean([1, 1, 0], [0, 1, 1]), None, "mask `boolean_per_query`: its queries see different keys"),
    (boolean([1, 0], [1, 1]), None, "mask `boolean_per_query`: its queries see different keys"),
    (boolean([0, 1], [1, 0]), None, "mask `boolean_per_query`: its queries see different keys"),
    (bias([0.0, -0.0]), None, "mask `all_keep`: it hides nothing"),
    (bias([0.0, -INF]), None, "mask `suffix_key_padding`: its hidden keys come last: 1 of 2 keys are seen"),
    (bias([0.0, -INF], [-INF, 0.0]), None, "mask `block_diagonal`: it is 2 documents in a row"),
    (bias([0.0, -1e4]), None, "mask `additive`: it adds numbers other than 0 and -inf"),
    (
        masks.additive(torch.tensor([0.0, -INF, -INF, 0.0]).view(1, 2, 1, 2)),
        None,
        "mask `additive`: it hides other keys from each head",
    ),
]


@pytest.mark.parametrize(("mask", "batch", "said"), CONCLUSIONS, ids=[said for *_, said in CONCLUSIONS])
def test_conclusions(mask: Mask | None, batch: int | None, said: str) -> None:
    """The kind and a sentence."""
    plan = prepare_mask(mask, batch=batch)

    assert str(plan) == said
    assert plan.kind == plan.mask.kind


@settings(max_examples=300, deadline=None, derandomize=True)
@given(data=st.data(), batch=st.integers(1, 2), seq_q=st.integers(1, 4), seq_kv=st.integers(1, 4))
def test_a_plan_means_what_the_mask_means(data: st.DataObject, batch: int, seq_q: int, seq_kv: int) -> None:
    """For boolean masks of every kind with every value, whatever they come to."""

    def keep(*shape: int) -> Tensor:
        count = int(torch.tensor(shape).prod())
        return torch.tensor(data.draw(st.lists(st.booleans(), min_size=count, max_size=count))).view(shape)

    makers: dict[str, Callable[[], Mask]] = {
        "keys": lambda: masks.key_padding(keep(batch, seq_kv)),
        "both": lambda: masks.key_and_query_padding(keep(batch, seq_q), keep(batch, seq_kv)),
        "boolean": lambda: masks.boolean_per_query(keep(batch, 1, seq_q, seq_kv)),
        "for all": lambda: masks.boolean_per_query(keep(1, 1, seq_q, seq_kv)),
        "heads": lambda: masks.boolean_per_query(keep(batch, 2, seq_q, seq_kv)),
        "outer": lambda: masks.boolean_per_query(keep(batch, 1, seq_q, 1) & keep(batch, 1, 1, seq_kv)),
        "bias": lambda: masks.additive(torch.zeros(1).where(keep(batch, 2, 1, seq_kv), -INF)),
        "bias of pairs": lambda: masks.additive(torch.zeros(1).where(keep(1, 1, seq_q, seq_kv), -INF)),
    }
    mask = makers[data.draw(st.sampled_from(sorted(makers)))]()

    plan = prepare_mask(mask, batch=data.draw(st.sampled_from([None, batch])))

    assert torch.equal(seen(plan.mask, batch, seq_q, seq_kv), seen(mask, batch, seq_q, seq_kv))


def seen(mask: Mask, batch: int, seq_q: int, seq_kv: int) -> Tensor:
    """Bool `[batch, 2, seq_q, seq_kv]`."""
    shapes = (batch, seq_q, 2, 8), (batch, seq_kv, 2, 8)
    return masks.to_bias(mask, *shapes, dtype=torch.float32).isfinite().expand(batch, 2, seq_q, seq_kv)


@pytest.mark.parametrize("kind", MASKS)
def test_every_kernel_takes_a_plan(kind: str) -> None:
    """Those over torch's function and those that pack, with the oracle's numbers."""
    sizes = replace(SIZES)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
    expected = attention(q, k, v, mask=mask)
    plan = prepare_mask(mask)

    for binder in (bind_dispatcher, bind_prepared, lambda sizes: bind("fa2", sizes)):
        try:
            out = binder(sizes)(q, k, v, mask=plan.mask)
        except CallRefused:
            assert plan.kind in {"boolean_per_query", "additive"}
        else:
            torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-2)
            assert bool((out[expected == 0] == 0).all())


BOTH_SIDES = [
    (bools([1] * 6 + [0] * 3, [1] * 6 + [0] * 3), bools([1] * 9 + [0] * 4, [1] * 9 + [0] * 4)),
    (bools([1] * 6 + [0] * 3, [1] * 2 + [0] * 7), bools([1] * 9 + [0] * 4, [1] * 13)),
    (bools([1] * 9, [0] * 9), bools([1] * 9 + [0] * 4, [1] * 13)),
    (bools([1] * 9, [1] * 8 + [0]), bools([0] * 13, [1] * 13)),
    (bools([0] * 9, [1] * 8 + [0]), bools([1] * 13, [0] * 13)),
    (bools([0] + [1] * 8, [1] * 9), bools([0] * 13, [0] + [1] * 12)),
    (bools([0] + [1] * 8, [1] * 9), bools([0] * 13, [0] * 13)),
]


@pytest.mark.parametrize(("keep_q", "keep_k"), BOTH_SIDES)
def test_padding_of_both_sides(keep_q: Tensor, keep_k: Tensor) -> None:
    """Equal lengths, unequal ones, none at all, and gaps: the same numbers, and zeros where they are due."""
    (q, k, v), mask = SIZES.qkv(), masks.key_and_query_padding(keep_q, keep_k)
    expected = attention(q, k, v, mask=mask)
    plan = prepare_mask(mask)

    for kernel in (bind_dispatcher(SIZES), bind_prepared(SIZES), bind("fa2", SIZES), bind("fa4", SIZES)):
        out = kernel(q, k, v, mask=plan.mask)
        torch.testing.assert_close(out.double(), expected, rtol=0, atol=2e-2)
        assert bool((out[expected == 0] == 0).all())


def test_a_plan_is_reused() -> None:
    """Across layers and steps nothing is derived again: the packing is kept with the mask."""
    plan = prepare_mask(masks.key_padding(bools([0] + [1] * 12, [1] * 13)))
    assert isinstance(plan.mask, masks.KeyPadding)
    packing = plan.mask.packings["keys"]

    for heads in (4, 2):
        sizes = replace(SIZES, heads=heads, kv_heads=2)
        bind("fa2", sizes)(*sizes.qkv(), mask=plan.mask)

    assert plan.mask.packings == {"keys": packing}
    assert packing.exact


def test_a_plan_is_a_value() -> None:
    """Two of one mask of the host are equal."""
    assert prepare_mask(masks.key_lengths(2, 3)) == MaskPlan(
        masks.key_lengths(2, 3), "its lengths are known on the host"
    )


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """The size of the largest tensor that any operation gives."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numel = 0

    def __torch_dispatch__(
        self,
        func: Callable[..., object],
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        """As it would have been."""
        out = func(*args, **(kwargs or {}))
        for each in out if isinstance(out, (list, tuple)) else [out]:
            self.numel = max(self.numel, each.numel() if isinstance(each, torch.Tensor) else 0)
        return out


@pytest.mark.parametrize("ends", [False, True], ids=["gaps", "suffix"])
def test_paddings_of_a_video_make_nothing_of_every_pair(ends: bool) -> None:
    """16,025 tokens squared would be a quarter of a gigabyte."""
    tokens = 16_025
    keep = torch.arange(tokens)[None] < 14_100
    keep = keep if ends else keep.roll(7, dims=1)

    with Largest() as largest:
        plans = [prepare_mask(masks.key_padding(keep)), prepare_mask(masks.key_and_query_padding(keep, keep))]

    assert tokens - 1 <= largest.numel <= 2 * tokens
    assert [plan.kind for plan in plans] == [
        "suffix_key_padding" if ends else "key_padding",
        "key_and_query_padding",
    ]
