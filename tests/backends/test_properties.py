"""For any sizes, kind of mask and alignment the backends give what the oracle gives."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from backends.interface import Causal
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, BINDERS, MASKS, Sizes

SIZES = st.builds(
    lambda batch, kv_heads, group, seq_q, seq_kv, head_dim, seed: Sizes(
        batch, kv_heads * group, kv_heads, seq_q, seq_kv, head_dim, seed=seed
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
    sizes=SIZES,
    kind=st.sampled_from(sorted(MASKS)),
    causal=st.sampled_from(ALIGNMENTS),
    binder=st.sampled_from(sorted(BINDERS)),
    scale=st.none() | st.floats(-2, 2),
)
def test_agrees_with_the_oracle(
    sizes: Sizes, kind: str, causal: Causal | None, binder: str, scale: float | None
) -> None:
    """In float64, and with zeros in the same places."""
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = BINDERS[binder](sizes)(q, k, v, mask=mask, causal=causal, scale=scale)

    expected = attention(q, k, v, mask=mask, causal=causal, scale=scale)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    assert torch.equal(out == 0, expected == 0)
