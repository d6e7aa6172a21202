"""Tensors that lie where a kernel cannot read them are copied, and no others."""

from __future__ import annotations

import pytest
import torch

from backends._memory import aligned, is_aligned, readable


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_row_that_begins_between_vectors_is_copied(dtype: torch.dtype) -> None:
    """By an offset, or by a stride; the numbers stay the same."""
    base = torch.randn(2 * 9 * 4 * 64 + 1).to(dtype)
    off = base[1:].view(2, 9, 4, 64)
    wide = torch.randn(2, 9, 4, 65).to(dtype)[..., :64]
    plain = base[:-1].view(2, 9, 4, 64)

    for tensor, good in ((off, False), (wide, False), (plain, True), (plain.transpose(1, 2), True)):
        assert is_aligned(tensor) is good
        assert (aligned(tensor) is tensor) is good
        assert is_aligned(aligned(tensor))
        assert torch.equal(aligned(tensor), tensor)


def test_what_is_expanded_or_strided_is_copied_for_those_who_cannot_read_it() -> None:
    """An expanded dimension is aligned all the same."""
    x = torch.randn(2, 9, 1, 64).to(torch.bfloat16)
    expanded, strided = x.expand(2, 9, 4, 64), torch.randn(2, 9, 4, 128).to(torch.bfloat16)[..., ::2]

    assert aligned(expanded) is expanded
    for tensor in (expanded, strided):
        assert readable(tensor) is not tensor
        assert torch.equal(readable(tensor), tensor)
    assert readable(x) is x


def test_traced_code_looks_at_the_strides() -> None:
    """Where no address is known."""
    wide = torch.randn(2, 9, 4, 65).to(torch.bfloat16)

    def run(wide: torch.Tensor) -> torch.Tensor:
        return aligned(wide[..., :64]) + 1

    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager")(wide), run(wide))
