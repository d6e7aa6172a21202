"""The faults that dispatchers are known for, in `FLASHINFER_ATTN` and `TRTLLM_ATTN`: absent, or the call is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends.interface import CallRefused
from backends.reference import attention
from tests.backends.cases import Sizes
from tests.backends.fakes.flashinfer_binding import PROVIDERS, bind_flashinfer, bind_trtllm
from tests.backends.test_faults import FAULTS, VISIBLE, Input

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Kernel

TOLERANCE = {torch.float16: 1e-2, torch.bfloat16: 5e-2}
HALF = Sizes(dtype=torch.float16)
NARROW = Sizes(head_dim=128, dtype=torch.bfloat16)
MASKED = {"key_padding", "key_and_query_padding", "boolean_per_query"}


def in_half(call: Input, dtype: torch.dtype, head_dim: int | None = None) -> Input:
    """The same call with rounded tensors, so that only what the kernel does is compared."""
    sizes = replace(call.sizes, dtype=dtype, head_dim=head_dim or call.sizes.head_dim)
    scale = call.scale
    q, k, v = (widened(x, sizes.head_dim).to(dtype) for x in (call.q, call.k, call.v))
    if head_dim and scale is None:
        scale = call.sizes.head_dim**-0.5
    return replace(call, sizes=sizes, q=q, k=k, v=v, scale=scale)


def widened(tensor: Tensor, head_dim: int) -> Tensor:
    """Zeros after the last element of each head: the same scores."""
    return torch.nn.functional.pad(tensor, (0, head_dim - tensor.shape[-1]))


def is_refused(call: Input, *, takes_masks: bool) -> bool:
    """Biases, masks of each head, causal beside a mask, and masks where there are none."""
    kind = "none" if call.mask is None else call.mask.kind
    per_head = call.mask is not None and call.mask.per_head
    return (
        kind == "additive"
        or per_head
        or (kind in MASKED and not takes_masks)
        or (call.causal is not None and kind != "none")
        or (call.causal == "top_left" and call.q.shape[1] != call.k.shape[1])
    )


def check(kernel: Kernel, call: Input, *, takes_masks: bool) -> None:
    """Right, or refused where it should be."""

    def run() -> Tensor:
        return kernel(call.q, call.k, call.v, mask=call.mask, causal=call.causal, scale=call.scale)

    if is_refused(call, takes_masks=takes_masks):
        with pytest.raises(CallRefused):
            run()
    else:
        torch.testing.assert_close(run().double(), call.truth(), rtol=0, atol=TOLERANCE[call.q.dtype])


faults = pytest.mark.parametrize(("make", "faulty"), [case[1:] for case in FAULTS], ids=[case[0] for case in FAULTS])


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("provider", PROVIDERS)
@faults
def test_flashinfer_has_no_fault(
    make: Callable[[], Input], faulty: Callable[[Input], Tensor], provider: str, dtype: torch.dtype
) -> None:
    """The input shows the fault, and the kernel does not."""
    assert (faulty(make()) - make().truth()).abs().max() > VISIBLE
    call = in_half(make(), dtype)

    check(bind_flashinfer(call.sizes, provider), call, takes_masks=provider == "flashinfer-fa2")


@faults
def test_trtllm_has_no_fault(make: Callable[[], Input], faulty: Callable[[Input], Tensor]) -> None:
    """The same for trtllm-gen, which takes lengths and documents alone."""
    assert (faulty(make()) - make().truth()).abs().max() > VISIBLE
    call = in_half(make(), torch.bfloat16, head_dim=128)

    check(bind_trtllm(call.sizes), call, takes_masks=False)


BINDERS: dict[str, Callable[[Sizes], Kernel]] = {
    **{provider: lambda sizes, provider=provider: bind_flashinfer(sizes, provider) for provider in PROVIDERS},  # type: ignore[misc]
    "trtllm": bind_trtllm,
}


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("lengths", [None, [12, 7]])
def test_nothing_is_mutated(binder: str, lengths: list[int] | None) -> None:
    """Not even where key and value are one tensor."""
    q, k, _ = NARROW.qkv()
    before, mask = [q.clone(), k.clone()], None if lengths is None else masks.key_lengths(lengths, 13)

    out = BINDERS[binder](NARROW)(q, k, k, mask=mask)

    assert torch.equal(q, before[0])
    assert torch.equal(k, before[1])
    torch.testing.assert_close(out.double(), attention(q, k, k, mask=mask), rtol=0, atol=5e-2)


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("seq_kv", [130, 15, 1])
def test_the_last_keys_count(binder: str, seq_kv: int) -> None:
    """The tail of a tile, where it is the only part of one and where it is all there is."""
    sizes = replace(NARROW, seq_kv=seq_kv)
    q, k, v = sizes.qkv()
    k[:, -2:] *= 4

    out = BINDERS[binder](sizes)(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=0, atol=5e-2)


def test_a_large_value_survives_bfloat16() -> None:
    """90,000 is more than float16 holds."""
    sizes = replace(NARROW, batch=1)
    q, k, v = sizes.qkv()
    v[0, 3, 0, 0] = 9e4

    out = bind_flashinfer(sizes)(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=2e-2, atol=5e-2)
