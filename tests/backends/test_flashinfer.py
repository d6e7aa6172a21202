"""`FLASHINFER_ATTN` over fakes of its kernels, against the float64 oracle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends import flashinfer, masks
from backends.flashinfer import BUILDS, FlashInferAttention
from backends.interface import CallRefused, Causal
from backends.prepare import prepare_mask
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.backends.fakes.flashinfer_binding import PROVIDERS, bind_flashinfer, refuses

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.masks import Mask

HALF = Sizes(dtype=torch.float16)
TOLERANCE = {torch.float16: 5e-3, torch.bfloat16: 5e-2}
LENGTHS = {"square": (9, 9), "more keys": (9, 13), "more queries": (13, 9)}
providers = pytest.mark.parametrize("provider", PROVIDERS)


def check(provider: str, sizes: Sizes, kind: str, causal: Causal | None, scale: float | None) -> None:
    """The call gives what the oracle gives, zeros in the same places, or is refused where it should be."""
    kernel, (q, k, v), mask = bind_flashinfer(sizes, provider), sizes.qkv(), MASKS[kind](sizes)
    if refuses(provider, kind, causal, sizes):
        with pytest.raises(CallRefused):
            kernel(q, k, v, mask=mask, causal=causal, scale=scale)
        return

    out = kernel(q, k, v, mask=mask, causal=causal, scale=scale)

    expected = attention(q, k, v, mask=mask, causal=causal, scale=scale)
    assert (out.dtype, out.shape) == (q.dtype, q.shape)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=TOLERANCE[sizes.dtype])
    assert bool((out[expected == 0] == 0).all())


@providers
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("kind", MASKS)
def test_every_cell_agrees_or_is_refused(
    provider: str, kind: str, kv_heads: int, lengths: str, causal: Causal | None
) -> None:
    """Each kind of mask beside each alignment, lengths and grouping."""
    seq_q, seq_kv = LENGTHS[lengths]

    check(provider, replace(HALF, kv_heads=kv_heads, seq_q=seq_q, seq_kv=seq_kv), kind, causal, 0.3)


@providers
@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_every_dtype_and_batch(provider: str, dtype: torch.dtype, kind: str, batch: int) -> None:
    """One batch takes the single kernel where there is one, several the ragged one."""
    check(provider, replace(HALF, dtype=dtype, batch=batch), kind, None, None)


@pytest.mark.parametrize("head_dim", [64, 128, 256])
@providers
def test_every_head_dim(provider: str, head_dim: int) -> None:
    """The default scale is that of the head_dim; one KV head serves all."""
    check(provider, replace(HALF, head_dim=head_dim, kv_heads=1), "nothing", None, None)


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding", "boolean", "block diagonal"])
@pytest.mark.parametrize("scale", [-0.3, -1e-5, 0.0, 1e-5, 1e-3, 1.0])
def test_every_scale(provider: str, kind: str, scale: float) -> None:
    """The kernels hide keys with a score of -50,000 before they scale it: alone, that would not hide them."""
    check(provider, HALF, kind, None, scale)


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    sizes=st.builds(
        lambda batch, kv_heads, group, seq_q, seq_kv, seed: Sizes(
            batch, kv_heads * group, kv_heads, seq_q, seq_kv, 16, torch.float16, seed=seed
        ),
        batch=st.integers(1, 3),
        kv_heads=st.integers(1, 3),
        group=st.integers(1, 3),
        seq_q=st.integers(3, 24),
        seq_kv=st.integers(4, 24),
        seed=st.integers(0, 2**16),
    ),
    provider=st.sampled_from(PROVIDERS),
    kind=st.sampled_from(sorted(set(MASKS) - {"boolean per head"})),
    causal=st.sampled_from(ALIGNMENTS),
    scale=st.none() | st.floats(-2, 2),
)
def test_agrees_for_any_sizes(
    sizes: Sizes, provider: str, kind: str, causal: Causal | None, scale: float | None
) -> None:
    """The same for sizes that nobody chose."""
    check(provider, sizes, kind, causal, scale)


EMPTY: dict[str, tuple[Sizes, Callable[[Sizes], Mask | None]]] = {
    "no batch": (replace(HALF, batch=0), lambda _: None),
    "no batch, masked": (replace(HALF, batch=0), MASKS["boolean"]),
    "no queries": (replace(HALF, seq_q=0), lambda _: None),
    "no queries, masked": (
        replace(HALF, seq_q=0),
        lambda s: masks.boolean_per_query(torch.ones(s.batch, 1, 0, s.seq_kv, dtype=torch.bool)),
    ),
    "no keys": (replace(HALF, seq_kv=0), lambda _: None),
    "no keys, masked": (
        replace(HALF, seq_kv=0),
        lambda s: masks.key_padding(torch.ones(s.batch, 0, dtype=torch.bool)),
    ),
    "lengths of zero": (HALF, lambda _: masks.key_lengths(0, 13)),
    "one length of zero": (HALF, lambda _: masks.key_lengths([0, 5], 13)),
    "empty documents": (HALF, lambda _: masks.block_diagonal([0, 4, 5, 0], [3, 0, 10, 0])),
    "no document with both": (HALF, lambda _: masks.block_diagonal([9, 0], [0, 13])),
    "every key hidden": (HALF, lambda _: masks.key_padding(torch.zeros(2, 13, dtype=torch.bool))),
}


@pytest.mark.parametrize("case", [case for case in EMPTY if not case.startswith("no batch, m")])
def test_what_sees_nothing_is_zero(case: str) -> None:
    """Whatever is empty, an answer comes, with zeros where no key is seen."""
    sizes, make = EMPTY[case]
    (q, k, v), mask = sizes.qkv(), make(sizes)

    out = bind_flashinfer(sizes)(q, k, v, mask=mask)

    expected = attention(q, k, v, mask=mask)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=5e-3)
    assert bool((out[expected == 0] == 0).all())


def test_queries_before_the_first_key_are_zero() -> None:
    """Under a diagonal aligned bottom right, the kernel is not asked about them."""
    sizes = replace(HALF, seq_q=13, seq_kv=5)
    q, k, v = sizes.qkv()

    out = bind_flashinfer(sizes)(q, k, v, causal="bottom_right")

    assert bool((out[:, :8] == 0).all())
    assert bool((out[:, 8:] != 0).all())


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "off by one element": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view_as(x),
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2],
    "fused heads": lambda x: torch.stack([x + 1, x, x + 2], dim=2)[:, :, 1],
    "sliced from a longer sequence": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(provider: str, layout: str, kind: str) -> None:
    """Strides do not matter to the result, and nothing is mutated."""
    q, k, v = (LAYOUTS[layout](x) for x in HALF.qkv())
    before, mask = [x.clone() for x in (q, k, v)], MASKS[kind](HALF)

    out = bind_flashinfer(HALF, provider)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-3)
    assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))


def test_a_mask_is_shared_by_batches_that_have_one() -> None:
    """A boolean mask `[1, 1, queries, keys]` holds for every batch."""
    q, k, v = HALF.qkv()
    mask = masks.boolean_per_query(HALF.coins(1, 1, 9, 13))

    out = bind_flashinfer(HALF)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-3)


def test_a_mask_for_each_head_is_one_mask_where_there_is_one_head() -> None:
    """Then there is nothing to refuse."""
    sizes = replace(HALF, heads=1, kv_heads=1)

    check("flashinfer-fa2", replace(sizes), "boolean", None, None)


@providers
def test_a_prepared_padding_needs_no_mask(provider: str) -> None:
    """Where all padding comes last, its lengths are enough, with every build; beside causal it is still refused."""
    keep_q, keep_k = torch.arange(9) < torch.tensor([[5], [7]]), torch.arange(13) < torch.tensor([[13], [6]])
    mask = prepare_mask(masks.key_and_query_padding(keep_q, keep_k)).mask
    kernel, (q, k, v) = bind_flashinfer(HALF, provider), HALF.qkv()

    out = kernel(q, k, v, mask=mask)

    assert mask.kind == "key_and_query_padding"
    expected = attention(q, k, v, mask=mask)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=5e-3)
    assert torch.equal(out == 0, expected == 0)
    with pytest.raises(CallRefused, match="wanted none beside a mask `key_and_query_padding`"):
        kernel(q, k, v, mask=mask, causal="bottom_right")


def test_the_shipped_backend_imports_the_real_package() -> None:
    """Nothing else is put in its place, and every provider has a build."""
    shipped = flashinfer.BACKEND
    assert isinstance(shipped, FlashInferAttention)
    assert (shipped.name, shipped.device_type, shipped.workspace_bytes) == ("FLASHINFER_ATTN", "cuda", 2**27)
    assert tuple(BUILDS) == PROVIDERS
