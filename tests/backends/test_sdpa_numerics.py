"""Both backends over torch's function against the oracle, cell by cell.

cuDNN's own kernel needs a GPU; what its backend prepares for that kernel is run here through torch's CPU code.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends.masks import Additive
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, BINDERS, MASKS, Sizes, bind_dispatcher

if TYPE_CHECKING:
    from backends.interface import Causal

LENGTHS = {"square": (9, 9), "more keys": (9, 13), "more queries": (13, 9)}


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("binder", BINDERS)
def test_every_cell_agrees_with_the_oracle(
    binder: str, kind: str, kv_heads: int, lengths: str, causal: Causal | None
) -> None:
    """In float64, so that nothing hides in rounding; masks hold queries that see nothing."""
    seq_q, seq_kv = LENGTHS[lengths]
    sizes = Sizes(kv_heads=kv_heads, seq_q=seq_q, seq_kv=seq_kv)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = BINDERS[binder](sizes)(q, k, v, mask=mask, causal=causal, scale=0.3)

    expected = attention(q, k, v, mask=mask, causal=causal, scale=0.3)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    assert torch.equal(out == 0, expected == 0)


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float16, 5e-3), (torch.bfloat16, 5e-2)], ids=str
)
def test_every_dtype_is_kept(dtype: torch.dtype, tolerance: float, kind: str, causal: Causal | None) -> None:
    """The output has the query's dtype and layout, and the accuracy of that dtype."""
    sizes = Sizes(dtype=dtype, kv_heads=2)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = bind_dispatcher(sizes)(q, k, v, mask=mask, causal=causal)

    assert (out.dtype, out.shape) == (q.dtype, q.shape)
    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask, causal=causal), rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("bias_dtype", "dtype"),
    [
        (torch.float32, torch.bfloat16),
        (torch.float32, torch.float16),
        (torch.float16, torch.bfloat16),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float64),
    ],
    ids=str,
)
@pytest.mark.parametrize("causal", ALIGNMENTS)
def test_a_bias_of_another_dtype_loses_nothing(
    bias_dtype: torch.dtype, dtype: torch.dtype, causal: Causal | None
) -> None:
    """A wider or another half bias beside the query, where torch can hold every number of it."""
    sizes = Sizes(dtype=dtype)
    (q, k, v), made = sizes.qkv(), MASKS["additive"](replace(sizes, dtype=bias_dtype))
    assert isinstance(made, Additive)

    out = bind_dispatcher(sizes)(q, k, v, mask=made, causal=causal)

    expected = attention(q, k, v, mask=made, causal=causal)
    assert out.dtype == dtype
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=5e-2)


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("scale", [None, 0.3, 1.0, 0.0])
@pytest.mark.parametrize("head_dim", [8, 72])
def test_scale(binder: str, scale: float | None, head_dim: int) -> None:
    """A scale is used as it is; without one it is that of the head_dim, padded by nobody."""
    sizes = Sizes(head_dim=head_dim)
    q, k, v = sizes.qkv()

    out = BINDERS[binder](sizes)(q, k, v, scale=scale)

    torch.testing.assert_close(out, attention(q, k, v, scale=scale), rtol=0, atol=1e-12)
