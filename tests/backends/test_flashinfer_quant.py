"""The types that `FLASHINFER_ATTN` hands its kernels, and what comes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from backends._flashinfer_quant import narrowed
from backends.reference import attention
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes.flashinfer_binding import PROVIDERS, bind_flashinfer

SIZES = Sizes(dtype=torch.bfloat16)
CUTE_DSL = "flashinfer-cute-dsl"
EIGHT_BITS = 0.15
"""Largest error for values of three bits behind the point, averages of a dozen standard normal numbers."""


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_both_types_named(provider: str, kind: str, dtype: str) -> None:
    """The kernel computes in the type that is named, and the output has the layer's."""
    spec = {"quant": {"dtype_qk": dtype, "dtype_vo": dtype}}
    (q, k, v), mask = SIZES.qkv(), MASKS[kind](SIZES)

    out = bind_flashinfer(SIZES, provider, spec)(q, k, v, mask=mask)

    assert out.dtype == torch.bfloat16
    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


def test_the_kernel_gets_the_named_types() -> None:
    """Float16 is finer than the layer's bfloat16, so the two differ."""
    spec = {"quant": {"dtype_qk": "float16", "dtype_vo": "float16", "flashinfer_backend": "fa2"}}
    kernel = bind_flashinfer(SIZES, "flashinfer-fa2", spec)

    assert kernel.launch.launch.types == (torch.float16, torch.float16)  # type: ignore[attr-defined]


@pytest.mark.parametrize("quant", [{}, {"dtype_qk": None}, {"flashinfer_backend": "auto"}, None])
def test_nothing_named_is_the_layer_s_type(quant: dict[str, object] | None) -> None:
    """A block without types changes nothing."""
    kernel = bind_flashinfer(SIZES, "flashinfer-fa3", {"quant": quant})

    assert kernel.launch.launch.types == (torch.bfloat16, torch.bfloat16)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
@pytest.mark.parametrize("dtype_qk", ["bfloat16", "float16"])
def test_values_in_eight_bits(dtype_qk: str, kind: str, kv_heads: int) -> None:
    """A build with values of their own type: close, and not exact, so they were narrowed."""
    sizes = replace(SIZES, kv_heads=kv_heads)
    spec = {"quant": {"dtype_qk": dtype_qk, "dtype_vo": "fp8_e4m3"}}
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = bind_flashinfer(sizes, CUTE_DSL, spec)(q, k, v, mask=mask)

    error = (out.double() - attention(q, k, v, mask=mask)).abs().max()
    assert 1e-2 < error < EIGHT_BITS


@pytest.mark.parametrize("size", [1e-30, 1e-3, 1.0, 300.0, 1e30])
def test_eight_bits_are_used_whatever_the_values_are(size: float) -> None:
    """One scale for the tensor, so that its largest value is the largest of the type."""
    values, scale = narrowed((torch.tensor([[0.5, -1.0, 0.25]]) * size).bfloat16(), torch.float8_e4m3fn)

    assert scale is not None
    assert values.float().abs().max() == (448 if size > 1e-9 else values.float().abs().max())
    expected = torch.tensor([[0.5, -1.0, 0.25]]) * size
    torch.testing.assert_close(values.float() * scale, expected, rtol=0.1, atol=1e-14)


def test_values_of_zero() -> None:
    """Have no largest value to divide by."""
    values, scale = narrowed(torch.zeros(2, 3, dtype=torch.bfloat16), torch.float8_e4m3fn)

    assert scale is not None
    assert bool((values.float() * scale == 0).all())


def test_sixteen_bits_are_scaled_only_where_they_would_overflow() -> None:
    """90,000 is more than float16 holds."""
    fits, one = narrowed(torch.tensor([3.0, 65280.0]).bfloat16(), torch.float16)
    large, scale = narrowed(torch.tensor([3.0, 9e4]).bfloat16(), torch.float16)

    assert torch.equal(fits, torch.tensor([3.0, 65280.0]).half())
    assert one == 1
    assert scale is not None
    assert bool(large.isfinite().all())
    torch.testing.assert_close(large.float() * scale, torch.tensor([3.0, 9e4]).bfloat16().float(), rtol=1e-3, atol=0)


def test_a_large_value_survives_float16() -> None:
    """Where the kernel is to compute in it."""
    sizes = replace(SIZES, batch=1)
    q, k, v = sizes.qkv()
    v[0, 3, 0, 0] = 9e4

    spec = {"quant": {"dtype_qk": "float16", "dtype_vo": "float16"}}
    out = bind_flashinfer(sizes, "flashinfer-fa2", spec)(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=2e-2, atol=5e-2)
