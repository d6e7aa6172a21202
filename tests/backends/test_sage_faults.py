"""The faults that callers of the Sage packages are known for: visible on their input, and absent.

A fault is what a faulty caller would get, told by the oracle itself. Where rounding to four bits could hide one, the
input is made so that it cannot.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch.nn.functional import pad

from backends import masks
from backends.reference import attention
from tests.backends.fakes.sage_bound import FAKES, HALF, Fake

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask
    from tests.backends.cases import Sizes

VISIBLE = 0.1
"""The smallest error that a fault must show in one element, twice what is allowed to a half-precision kernel."""


@dataclass(frozen=True)
class Input:
    """One call."""

    sizes: Sizes
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Mask | None = None
    causal: Causal | None = None
    scale: float | None = None

    def truth(self) -> Tensor:
        """What the oracle says."""
        return attention(self.q, self.k, self.v, mask=self.mask, causal=self.causal, scale=self.scale)


def dense(sizes: Sizes = HALF) -> Input:
    """No mask."""
    sizes = replace(sizes)  # with a generator of its own
    return Input(sizes, *sizes.qkv())


def amplified(sizes: Sizes, tail: int) -> Input:
    """The values of the last keys are sixteen times as large, so that they count."""
    call = dense(sizes)
    v = call.v.clone()
    v[:, -tail:] *= 16.0
    return replace(call, v=v)


def lengths() -> Input:
    """A length for each batch, far apart."""
    return replace(dense(), mask=masks.key_lengths([3, 11], 13))


def with_lengths(call: Input, *seen: int) -> Tensor:
    """The truth of other lengths."""
    return replace(call, mask=masks.key_lengths(seen, call.sizes.seq_kv)).truth()


def other(call: Input, change: Callable[[Tensor], Tensor]) -> Tensor:
    """The truth of other keys and values."""
    return replace(call, k=change(call.k), v=change(call.v)).truth()


def swapped(tensor: Tensor) -> Tensor:
    """Sequence and heads read in each other's place, sizes unchanged."""
    return tensor.transpose(1, 2).reshape(tensor.shape)


def all_swapped(call: Input) -> Tensor:
    """The truth where all three tensors are read so, and the output written so."""
    return swapped(replace(call, q=swapped(call.q), k=swapped(call.k), v=swapped(call.v)).truth())


def zeros_behind(call: Input, block: int) -> Tensor:
    """Keys filled up with zeros that are not hidden."""
    return other(call, lambda x: pad(x, (0, 0, 0, 0, 0, -x.shape[1] % block)))


def keys_as_values() -> Input:
    """One tensor for both, far from zero."""
    call = dense()
    k = call.k + 2.0
    return replace(call, k=k, v=k)


def centred(x: Tensor) -> Tensor:
    """What a package that changes its keys in place leaves of them."""
    return x - x.mean(dim=1, keepdim=True)


NINE = replace(HALF, heads=9, kv_heads=9, seq_kv=9)
GROUPS = replace(HALF, heads=8, kv_heads=2)
FAULTS: dict[str, tuple[Callable[[], Input], Callable[[Input], Tensor]]] = {
    "lengths dropped": (lengths, lambda c: with_lengths(c, 13, 13)),
    "the first batch's length for all": (lengths, lambda c: with_lengths(c, 3, 3)),
    "the longest length for all": (lengths, lambda c: with_lengths(c, 11, 11)),
    "the other keys kept": (
        lengths,
        lambda c: replace(c, mask=masks.key_padding(torch.arange(13) >= torch.tensor([[3], [11]]))).truth(),
    ),
    "one key too few": (lengths, lambda c: with_lengths(c, 2, 10)),
    "scale dropped": (lambda: replace(dense(), scale=0.03), lambda c: replace(c, scale=None).truth()),
    "scale applied twice": (dense, lambda c: replace(c, scale=1 / 64).truth()),
    "sign of the scale dropped": (
        lambda: replace(dense(), scale=-0.125),
        lambda c: replace(c, scale=0.125).truth(),
    ),
    "scale of a filled up head_dim": (
        lambda: replace(dense(replace(HALF, head_dim=72)), scale=None),
        lambda c: replace(c, scale=128**-0.5).truth(),
    ),
    "causal dropped": (
        lambda: replace(dense(replace(HALF, seq_q=13)), causal="top_left"),
        lambda c: replace(c, causal=None).truth(),
    ),
    "causal by the filled up lengths": (
        lambda: replace(dense(replace(HALF, seq_q=13)), causal="bottom_right"),
        lambda c: attention(c.q, c.k[:, 2:], c.v[:, 2:], causal="bottom_right"),
    ),
    "key heads tiled": (lambda: dense(GROUPS), lambda c: other(c, lambda x: x.repeat(1, 1, 4, 1))),
    "the first key head for all": (lambda: dense(GROUPS), lambda c: other(c, lambda x: x[:, :, :1])),
    "heads read as sequence": (lambda: dense(NINE), all_swapped),
    "output left transposed": (lambda: dense(NINE), lambda c: swapped(c.truth())),
    "last keys dropped": (
        lambda: amplified(replace(HALF, seq_kv=130), 2),
        lambda c: attention(c.q, c.k[:, :-2], c.v[:, :-2]),
    ),
    "keys filled up to a block of 64": (dense, lambda c: zeros_behind(c, 64)),
    "keys filled up to a block of 128": (dense, lambda c: zeros_behind(c, 128)),
    "keys changed in place are the values": (keys_as_values, lambda c: replace(c, v=centred(c.v)).truth()),
}


def runs(fake: Fake, sizes: Sizes) -> bool:
    """Whether the package takes such a layer."""
    return sizes.head_dim in fake.head_dims and (sizes.heads == sizes.kv_heads or len(fake.key_heads) > 1)


@pytest.mark.parametrize(
    ("fake", "fault"),
    [
        pytest.param(fake, fault, id=f"{name}-{fault}")
        for fault, (make, _) in FAULTS.items()
        for name, fake in FAKES.items()
        if runs(fake, make().sizes)
    ],
)
def test_fault_is_absent(fake: Fake, fault: str) -> None:
    """The input shows the fault to this class of rounding, and the backend does not have it."""
    make, faulty = FAULTS[fault]
    call = make()

    out = fake.bind(call.sizes)(call.q, call.k, call.v, mask=call.mask, causal=call.causal, scale=call.scale)

    wrong = faulty(call)
    assert (wrong - call.truth()).abs().max() > VISIBLE
    assert fake.off(wrong, call.truth()) > 2
    assert fake.off(out, call.truth()) <= 1


@pytest.mark.parametrize("keys", [13, 64, 128])
@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
def test_nothing_is_mutated(fake: Fake, keys: int) -> None:
    """Whatever the layout: a view of keys that is dense heads first would be changed through it."""
    for heads in (4, 1):
        sizes = replace(HALF, heads=heads, kv_heads=heads, seq_kv=keys)
        for order in ((0, 1, 2, 3), (0, 2, 1, 3)):
            tensors = [x.permute(order).contiguous().permute(order) for x in sizes.qkv()]
            before = [x.clone() for x in tensors]

            fake.bind(sizes)(*tensors)

            assert all(torch.equal(x, y) for x, y in zip(tensors, before, strict=True))


def test_a_value_beyond_float16() -> None:
    """One of 90,000 in bfloat16: infinite where the package makes it float16, unless it is scaled down before."""
    for name, fake in FAKES.items():
        call = dense()
        v = call.v.clone()
        v[0, 3, 1, 5] = 9e4

        out = fake.bind(call.sizes)(call.q, call.k, v)

        assert fake.off(out / 9e4, replace(call, v=v).truth() / 9e4) <= 1, name
        assert not v.half().isfinite().all()
