"""Rows that see no key, under kernels that give them numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from backends._sdpa import SdpaKernel, bound_geometry
from backends.interface import Causal, Geometry
from backends.masks import Mask, block_diagonal, key_lengths, key_padding
from backends.reference import attention as definition

SEVEN = 7.0


def careless(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    attn_mask: Tensor | None = None,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """Attention as cuDNN computes it: a row without a key gets some number."""
    out = scaled_dot_product_attention(
        q, k, v, attn_mask=attn_mask, is_causal=is_causal, scale=scale, enable_gqa=enable_gqa
    )
    if attn_mask is None:
        return out
    hidden = (
        ~attn_mask.any(dim=-1, keepdim=True) if attn_mask.dtype == torch.bool else torch.isinf(attn_mask).all(-1, True)
    )
    return out.masked_fill(hidden, SEVEN)


@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
@pytest.mark.parametrize(
    "mask",
    [
        block_diagonal([8, 8], [14, 12]),
        block_diagonal([10, 6], [4, 22]),
        key_lengths([0, 26], 26),
        key_padding(torch.arange(26)[None].expand(2, 26) > 20),
    ],
    ids=["long documents", "short documents", "no key at all", "keys at the end"],
)
def test_rows_without_a_key_are_zero_whatever_the_kernel_makes_of_them(mask: Mask, causal: Causal | None) -> None:
    """No such row reaches the kernel as one: it is opened before, and zero after."""
    geometry = Geometry(head_dim=8, num_heads=2, num_kv_heads=2, dtype="float32", device="cpu")
    kernel = SdpaKernel(bound_geometry("ANY", {}, geometry), careless)
    q, k, v = torch.randn(2, 16, 2, 8), torch.randn(2, 26, 2, 8), torch.randn(2, 26, 2, 8)

    out = kernel(q, k, v, mask=mask, causal=causal)

    assert (out.double() - definition(q, k, v, mask=mask, causal=causal)).abs().max() < 1e-5
