"""The fakes of FlashInfer show a wrong call: each mistake gives a visibly wrong number, or the real one's error."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends._flashinfer_bits import packed
from backends.reference import attention
from tests.backends.cases import Sizes
from tests.backends.fakes.flashinfer_numbers import alone
from tests.backends.fakes.flashinfer_prefill import (
    BatchPrefillWithRaggedKVCacheWrapper,
    packbits,
    single_prefill_with_kv_cache,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.masks import Mask

SIZES = Sizes(batch=1, dtype=torch.float16)
VISIBLE = 0.1


def single(q: Tensor, k: Tensor, v: Tensor, **options: object) -> Tensor:
    """One request of the fake."""
    out = single_prefill_with_kv_cache(q[0], k[0], v[0], backend="fa2", **options)  # type: ignore[arg-type]
    assert isinstance(out, torch.Tensor)
    return out[None]


def ragged(q: Tensor, k: Tensor, v: Tensor, lengths: tuple[list[int], list[int]], **options: object) -> Tensor:
    """Requests of the fake, with offsets as int32 unless `dtype` says another."""
    dtype = options.pop("dtype", torch.int32)
    assert isinstance(dtype, torch.dtype)
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(torch.zeros(8, dtype=torch.uint8), backend="fa2")
    starts_q, starts_k = (torch.tensor([0, *torch.tensor(x).cumsum(0).tolist()], dtype=dtype) for x in lengths)
    options = {"q_data_type": torch.float16, "sm_scale": 0.25} | options
    wrapper.plan(starts_q, starts_k, q.shape[2], k.shape[2], q.shape[3], **options)  # type: ignore[arg-type]
    return alone(wrapper.run(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1))).view(q.shape)


def distance(out: Tensor, expected: Tensor) -> float:
    """The largest error; a number that is none counts as one."""
    return (out.double() - expected).abs().nan_to_num(nan=1.0).max().item()


KEEP = torch.rand(9, 13, generator=torch.Generator().manual_seed(1)) < 0.6
MASKED = masks.boolean_per_query(KEEP[None, None])


def test_right_calls_are_right() -> None:
    """Otherwise nothing below would mean anything."""
    q, k, v = SIZES.qkv()

    for out, mask, causal in (
        (single(q, k, v), None, None),
        (single(q, k, v, causal=True), None, "bottom_right"),
        (single(q, k, v, custom_mask=KEEP), MASKED, None),
        (single(q, k, v, packed_custom_mask=packed(KEEP, 9)), MASKED, None),
        (single(q, k.transpose(1, 2), v.transpose(1, 2), kv_layout="HND"), None, None),
        (ragged(q, k, v, ([4, 5], [6, 7])), masks.block_diagonal([4, 5], [6, 7]), None),
        (ragged(q, k, v, ([9], [13]), custom_mask=KEEP), MASKED, None),
    ):
        assert distance(out, attention(q, k, v, mask=mask, causal=causal)) < 5e-3  # type: ignore[arg-type]


WRONG: dict[str, tuple[Callable[[Tensor, Tensor, Tensor], Tensor], Mask | None]] = {
    "no mask": (single, MASKED),
    "a mask inverted": (lambda q, k, v: single(q, k, v, custom_mask=~KEEP), MASKED),
    "a mask transposed": (lambda q, k, v: single(q, k, v, custom_mask=KEEP.T), MASKED),
    "a mask for one query": (lambda q, k, v: single(q, k, v, custom_mask=KEEP[0]), MASKED),
    "bits from the highest down": (
        lambda q, k, v: single(q, k, v, packed_custom_mask=packbits(KEEP.flip(1))),
        MASKED,
    ),
    "heads first taken for tokens first": (
        lambda q, k, v: single(q, k[:, :4], v[:, :4], kv_layout="HND"),
        masks.key_lengths(4, 13),
    ),
    "scale forgotten": (lambda q, k, v: single(q, k, v, sm_scale=1.0), None),
    "documents forgotten": (lambda q, k, v: ragged(q, k, v, ([9], [13])), masks.block_diagonal([4, 5], [6, 7])),
    "offsets in 64 bits": (lambda q, k, v: ragged(q, k, v, ([9], [13]), dtype=torch.int64), None),
    "values of another type": (lambda q, k, v: single(q, k, v.to(torch.float8_e4m3fn)), None),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_mistake_shows(mistake: str) -> None:
    """In the numbers, or the fake raises what the real one would."""
    call, mask = WRONG[mistake]
    q, k, v = SIZES.qkv()

    try:
        out = call(q, k, v)
    except ValueError as error:
        assert "does not match qo_indptr" in str(error)  # noqa: PT017 - either is a mistake shown
    else:
        assert distance(out, attention(q, k, v, mask=mask)) > VISIBLE


def test_causal_beside_a_mask_is_ignored() -> None:
    """As the real kernel does it."""
    q, k, v = SIZES.qkv()

    out = single(q, k, v, custom_mask=KEEP, causal=True)

    assert torch.equal(out, single(q, k, v, custom_mask=KEEP))
    assert distance(out, attention(q, k, v, mask=MASKED, causal="bottom_right")) > VISIBLE


def test_a_row_without_keys_is_an_average() -> None:
    """Nobody but the caller makes zeros of it."""
    q, k, v = SIZES.qkv()
    keep = KEEP.clone()
    keep[0] = False

    out = single(q, k, v, custom_mask=keep)

    assert distance(out[:, 0], torch.zeros_like(out[:, 0])) > VISIBLE


@pytest.mark.parametrize("scale", [-0.3, 1e-5])
def test_a_scale_that_the_kernel_cannot_take_shows(scale: float) -> None:
    """Hidden keys are seen."""
    q, k, v = SIZES.qkv()

    out = single(q, k, v, custom_mask=KEEP, sm_scale=scale)

    assert distance(out, attention(q, k, v, mask=MASKED, scale=scale)) > VISIBLE


def test_a_plan_keeps_the_mask_of_an_earlier_one() -> None:
    """Which is why no wrapper is planned twice."""
    q, k, v = (x[0] for x in SIZES.qkv())
    offsets = (torch.tensor([0, 9], dtype=torch.int32), torch.tensor([0, 13], dtype=torch.int32))
    wrapper = BatchPrefillWithRaggedKVCacheWrapper(torch.zeros(8, dtype=torch.uint8), backend="fa2")
    wrapper.plan(*offsets, 4, 4, 16, custom_mask=KEEP)
    masked = alone(wrapper.run(q, k, v))

    wrapper.plan(*offsets, 4, 4, 16)

    assert torch.equal(alone(wrapper.run(q, k, v)), masked)


def test_the_log_sum_exp_has_base_two() -> None:
    """Which matters to whoever merges two parts."""
    q, k, v = (x[0] for x in SIZES.qkv())

    _, lse = single_prefill_with_kv_cache(q, k, v, backend="fa2", return_lse=True)

    scores = torch.einsum("qhd,khd->qhk", q.float(), k.float()) / 4
    torch.testing.assert_close(lse, scores.logsumexp(dim=-1) / torch.tensor(2.0).log(), rtol=1e-4, atol=1e-4)


def test_errors_are_the_real_ones() -> None:
    """Types that are not compiled, a batch, a mask for a kernel without, another type than planned."""
    q, k, v = SIZES.qkv()

    with pytest.raises(KeyError):
        single(q.float(), k.float(), v.float())
    with pytest.raises(RuntimeError, match="3D"):
        single_prefill_with_kv_cache(q, k, v, backend="fa2")
    with pytest.raises(RuntimeError, match="not supported"):
        single_prefill_with_kv_cache(q[0], k[0], v[0], custom_mask=KEEP, backend="fa3")
    with pytest.raises(ValueError, match="does not match the q_data_type"):
        ragged(q, k, v, ([9], [13]), q_data_type=torch.bfloat16)


@pytest.mark.parametrize("queries", [1, 3, 8, 9, 20])
@pytest.mark.parametrize("keys", [1, 7, 8, 13, 16])
def test_packed_bits_are_those_of_the_package(queries: int, keys: int) -> None:
    """For a mask of every pair and for one row that holds for all queries; the last byte may be filled up otherwise."""
    generator = torch.Generator().manual_seed(queries * 31 + keys)
    whole, row = torch.rand(queries, keys, generator=generator) < 0.5, torch.rand(1, keys, generator=generator) < 0.5

    for keep in (whole, row):
        expected = packbits(keep.expand(queries, keys))
        got = packed(keep, queries)
        used = queries * keys
        bits = [(x[:, None] >> torch.arange(8) & 1).reshape(-1)[:used] for x in (got, expected)]
        assert got.dtype == torch.uint8
        assert got.shape == expected.shape
        assert torch.equal(*bits)
