"""`FLASH_ATTN` over the fakes of every build, against the oracle: what it computes, and what it refuses to."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import masks
from backends.interface import CallRefused
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.backends.fakes.flash_expected import LAYOUTS, is_refused
from tests.backends.fakes.flash_packages import ALL, bind, dtypes
from tests.backends.test_faults import FAULTS, VISIBLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask
    from tests.backends.test_faults import Input

SIZES = Sizes(dtype=torch.bfloat16)
TOLERANCE = {torch.bfloat16: 2e-2, torch.float16: 3e-3}
INF = float("inf")

every_fake = pytest.mark.parametrize("fake", ALL)


@pytest.mark.parametrize(("seq_q", "seq_kv"), [(9, 13), (13, 9), (9, 9)])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@every_fake
def test_every_cell_agrees_with_the_oracle(fake: str, kv_heads: int, seq_q: int, seq_kv: int) -> None:
    """Every kind and alignment is computed, with hidden rows exactly zero, or refused where the call table says so."""
    wrong = []

    for dtype, kind, causal in product(dtypes(fake), MASKS, ALIGNMENTS):
        sizes = replace(SIZES, dtype=dtype, kv_heads=kv_heads, seq_q=seq_q, seq_kv=seq_kv)
        (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
        try:
            out = bind(fake, sizes)(q, k, v, mask=mask, causal=causal)
        except CallRefused:
            agrees = is_refused(mask, causal, sizes)
        else:
            agrees = not is_refused(mask, causal, sizes) and is_near(out, attention(q, k, v, mask=mask, causal=causal))
        if not agrees:
            wrong.append((dtype, kind, causal))

    assert not wrong


def is_near(out: Tensor, expected: Tensor) -> bool:
    """Within the noise of the dtype, and zero where that is exact."""
    error = (out.double() - expected).abs().max().item()
    return error <= TOLERANCE[out.dtype] and bool((out[expected == 0] == 0).all())


SOME = st.builds(
    lambda batch, kv_heads, group, seq_q, seq_kv, head_dim, seed: Sizes(
        batch, kv_heads * group, kv_heads, seq_q, seq_kv, head_dim, torch.bfloat16, seed=seed
    ),
    batch=st.integers(1, 3),
    kv_heads=st.integers(1, 3),
    group=st.integers(1, 3),
    seq_q=st.integers(3, 24),
    seq_kv=st.integers(4, 24),
    head_dim=st.sampled_from([8, 16, 40]),
    seed=st.integers(0, 2**16),
)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(
    sizes=SOME,
    kind=st.sampled_from(sorted(MASKS)),
    causal=st.sampled_from(ALIGNMENTS),
    fake=st.sampled_from(sorted(ALL)),
    scale=st.none() | st.floats(-1, 1),
)
def test_any_sizes_and_scale(sizes: Sizes, kind: str, causal: Causal | None, fake: str, scale: float | None) -> None:
    """Of what is not refused; a scale may be zero or negative."""
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
    if is_refused(mask, causal, sizes):
        return

    out = bind(fake, sizes)(q, k, v, mask=mask, causal=causal, scale=scale)

    expected = attention(q, k, v, mask=mask, causal=causal, scale=scale)
    torch.testing.assert_close(out.double(), expected, rtol=1e-2, atol=3e-2)
    assert bool((out[expected == 0] == 0).all())


@every_fake
@pytest.mark.parametrize(("make", "faulty"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])
def test_fault_is_absent(fake: str, make: Callable[[], Input], faulty: Callable[[Input], Tensor]) -> None:
    """The input shows the fault; the kernel gives the truth, or refuses the call."""
    call = make()
    call = replace(call, q=call.q.bfloat16(), k=call.k.bfloat16(), v=call.v.bfloat16())
    kernel = bind(fake, replace(call.sizes, dtype=torch.bfloat16))

    assert (faulty(call) - call.truth()).abs().max() > VISIBLE
    if is_refused(call.mask, call.causal, call.sizes):
        with pytest.raises(CallRefused):
            kernel(call.q, call.k, call.v, mask=call.mask, causal=call.causal, scale=call.scale)
    else:
        out = kernel(call.q, call.k, call.v, mask=call.mask, causal=call.causal, scale=call.scale)
        torch.testing.assert_close(out.double(), call.truth(), rtol=0, atol=VISIBLE / 3)


@every_fake
@pytest.mark.parametrize(("batch", "seq_q", "seq_kv"), [(0, 9, 13), (2, 0, 13), (2, 9, 0), (2, 0, 0), (0, 0, 0)])
def test_empty_sizes_give_zeros(fake: str, batch: int, seq_q: int, seq_kv: int) -> None:
    """No batch and no query give an empty output, no key gives zeros."""
    sizes = Sizes(batch=batch, seq_q=seq_q, seq_kv=seq_kv, dtype=torch.bfloat16)
    q, k, v = sizes.qkv()

    for mask in (None, masks.key_lengths([0] * batch, seq_kv), masks.key_padding(sizes.coins(batch, seq_kv))):
        assert torch.equal(bind(fake, sizes)(q, k, v, mask=mask), torch.zeros_like(q))


HIDE_FIRST: dict[str, Callable[[], Mask]] = {
    "suffix": lambda: masks.key_lengths(0, 13),
    "suffix in one batch": lambda: masks.key_lengths([0, 13], 13),
    "key padding": lambda: masks.key_padding(torch.zeros(2, 13, dtype=torch.bool)),
    "key padding in one batch": lambda: masks.key_padding(torch.tensor([[False], [True]]).expand(2, 13)),
    "keys padded": lambda: masks.key_and_query_padding(
        torch.ones(2, 9, dtype=torch.bool), torch.zeros(2, 13, dtype=torch.bool)
    ),
    "queries padded": lambda: masks.key_and_query_padding(
        torch.zeros(2, 9, dtype=torch.bool), torch.ones(2, 13, dtype=torch.bool)
    ),
    "documents": lambda: masks.block_diagonal([9, 0], [0, 13]),
}


@every_fake
@pytest.mark.parametrize("kind", HIDE_FIRST)
def test_hidden_rows_are_exactly_zero(fake: str, kind: str) -> None:
    """Though builds write nothing for a sequence without keys, or what is not a number."""
    q, k, v = SIZES.qkv()
    v = torch.full_like(v, INF)

    out = bind(fake, SIZES)(q, k, v, mask=HIDE_FIRST[kind]())

    assert torch.equal(out[:1], torch.zeros_like(q[:1]))


@every_fake
@pytest.mark.parametrize("kind", ["suffix", "suffix, uniform", "key padding", "key and query padding"])
def test_hidden_keys_may_hold_anything(fake: str, kind: str) -> None:
    """No number comes of them, though a packed kernel reads a little past the end of each sequence."""
    (q, k, v), mask = SIZES.qkv(), MASKS[kind](SIZES)
    assert mask is not None
    seen = masks.to_keep(mask, q.shape, k.shape).any(dim=2).expand(2, 1, 13)[:, 0]
    garbage = v.masked_fill(~seen[:, :, None, None], float("nan"))

    out = bind(fake, SIZES)(q, k, garbage, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=2e-2)


@every_fake
@pytest.mark.parametrize("kind", ["nothing", "suffix", "suffix, uniform", "key padding", "block diagonal"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(fake: str, layout: str, kind: str) -> None:
    """What a build cannot read is copied; the fakes refuse it, and the packages read something else or crash."""
    q, k, v = (LAYOUTS[layout](x) for x in SIZES.qkv())
    mask = MASKS[kind](SIZES)

    out = bind(fake, SIZES)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=2e-2)


@every_fake
def test_nothing_is_mutated(fake: str) -> None:
    """Where key and value are one tensor, a change to one would show."""
    (q, k, _), mask = SIZES.qkv(), MASKS["key and query padding"](SIZES)
    assert isinstance(mask, masks.KeyAndQueryPadding)
    before = [x.clone() for x in (q, k, mask.keep_q, mask.keep_k)]

    bind(fake, SIZES)(q, k, k, mask=mask)

    assert all(torch.equal(x, y) for x, y in zip((q, k, mask.keep_q, mask.keep_k), before, strict=True))
