"""Both Sage backends over the fakes of their packages against the oracle: every call that they take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from backends import masks
from backends.reference import attention
from tests.backends.fakes.sage_bound import FAKES, HALF, Fake

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask
    from tests.backends.cases import Sizes

every = pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
SMALL = replace(HALF, seq_q=9, seq_kv=13)


def off(
    fake: Fake, sizes: Sizes, mask: Mask | None = None, causal: Causal | None = None, scale: float | None = None
) -> float:
    """How far the bound kernel is from the oracle, as a part of what is allowed."""
    q, k, v = sizes.qkv()
    out = fake.bind(sizes)(q, k, v, mask=mask, causal=causal, scale=scale)
    assert (out.dtype, out.shape) == (q.dtype, q.shape)
    return fake.off(out, attention(q, k, v, mask=mask, causal=causal, scale=scale))


@every
@pytest.mark.parametrize(
    ("queries", "keys"),
    [(1, 2), (3, 5), (9, 13), (9, 63), (40, 64), (130, 65), (9, 127), (60, 128), (9, 200)],
)
def test_every_length(fake: Fake, queries: int, keys: int) -> None:
    """Shorter than a block of queries or of keys, as long, or longer by a few."""
    assert off(fake, replace(HALF, seq_q=queries, seq_kv=keys)) <= 1


@every
@pytest.mark.parametrize(
    ("length", "causal"),
    [
        (2, "top_left"),
        (5, "bottom_right"),
        (64, "top_left"),
        (65, "bottom_right"),
        (128, "top_left"),
        (257, "top_left"),
    ],
)
def test_causal_calls_of_equal_lengths(fake: Fake, length: int, causal: Causal) -> None:
    """Both alignments are the same there."""
    assert off(fake, replace(HALF, seq_q=length, seq_kv=length), causal=causal) <= 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("fake", "head_dim"),
    [pytest.param(fake, d, id=f"{name}-{d}") for name, fake in FAKES.items() for d in fake.head_dims],
)
def test_every_head_dim(fake: Fake, head_dim: int, dtype: torch.dtype) -> None:
    """The scale is that of the layer, whatever the package fills up."""
    assert off(fake, replace(SMALL, head_dim=head_dim, dtype=dtype)) <= 1


@pytest.mark.parametrize("causal", [None, "top_left"])
@pytest.mark.parametrize(
    ("fake", "key_heads"),
    [pytest.param(fake, h, id=f"{name}-{h}") for name, fake in FAKES.items() for h in fake.key_heads],
)
def test_grouped_heads(fake: Fake, key_heads: int, causal: Causal | None) -> None:
    """Query heads share key heads as they stand side by side."""
    assert off(fake, replace(HALF, kv_heads=key_heads, seq_q=13), causal=causal) <= 1


MASKS: dict[str, Callable[[], Mask]] = {
    "none": masks.no_mask,
    "all_keep": masks.all_keep,
    "one length": lambda: masks.key_lengths(10, 13),
    "one length for each": lambda: masks.key_lengths([10, 10, 10], 13),
    "every key": lambda: masks.key_lengths([13, 13, 13], 13),
    "other lengths": lambda: masks.key_lengths([5, 13, 2], 13),
    "two of one length": lambda: masks.key_lengths([5, 5, 11], 13),
    "one key": lambda: masks.key_lengths([1, 13, 1], 13),
    "no key": lambda: masks.key_lengths([0, 13, 0], 13),
}


@every
@pytest.mark.parametrize("kind", MASKS)
def test_masks(fake: Fake, kind: str) -> None:
    """Keys are cut to their lengths, batch by batch; without a key the output is exactly zero."""
    sizes = replace(SMALL, batch=3)
    q, k, v = sizes.qkv()

    out = fake.bind(sizes)(q, k, v, mask=MASKS[kind]())

    truth = attention(q, k, v, mask=MASKS[kind]())
    assert fake.off(out, truth) <= 1
    assert torch.equal(out[truth == 0], torch.zeros_like(out[truth == 0]))


@every
@pytest.mark.parametrize(("batch", "queries", "keys"), [(0, 9, 13), (2, 0, 13), (2, 9, 0), (0, 0, 0)])
def test_empty_sizes_give_zeros(fake: Fake, batch: int, queries: int, keys: int) -> None:
    """No batch and no query give an empty output, no key gives zeros."""
    sizes = replace(HALF, batch=batch, seq_q=queries, seq_kv=keys)
    q, k, v = sizes.qkv()

    for mask in (None, masks.key_lengths([0] * batch, keys)):
        assert torch.equal(fake.bind(sizes)(q, k, v, mask=mask), torch.zeros_like(q))


@every
@pytest.mark.parametrize("causal", [None, "top_left"])
@pytest.mark.parametrize("scale", [0.25, 0.125, 0.01, 0.0, -0.2])
def test_scale(fake: Fake, scale: float, causal: Causal | None) -> None:
    """Any scale is used as it is, also one that is not positive; rounding grows with it."""
    assert off(fake, replace(SMALL, seq_q=13), causal=causal, scale=scale) <= max(1.0, (scale / 0.125) ** 2)


@every
@pytest.mark.parametrize("keys", [13, 64, 128])
def test_keys_far_from_zero(fake: Fake, keys: int) -> None:
    """What all keys share moves no weight and spoils no rounding, also where zeros fill up the last block."""
    sizes = replace(SMALL, seq_kv=keys)
    q, k, v = sizes.qkv()
    k = k + 8 * torch.randn(64, generator=sizes.generator, dtype=torch.float64).to(k.dtype)

    out = fake.bind(sizes)(q, k, v)

    assert fake.off(out, attention(q, k, v)) <= 1.5  # the keys themselves have lost digits to bfloat16


@every
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("size", [1e-3, 700.0, 6e4, 1e6])
def test_values_of_any_size(fake: Fake, size: float, dtype: torch.dtype) -> None:
    """Also those that float16, or the scales of four bits, cannot hold; large ones add up without overflow."""
    if dtype == torch.float16 and size > torch.finfo(dtype).max:
        size = 2e4
    sizes = replace(SMALL, dtype=dtype, kv_heads=4 if fake.key_heads == (4,) else 2)
    q, k, v = sizes.qkv()
    v = (v.clamp(-1, 1) * size).to(dtype)
    v[1, :, 1] = 0.0

    out = fake.bind(sizes)(q, k, v)

    truth = attention(q, k, v)
    assert fake.off(out / size, truth / size) <= 1
    assert torch.equal(out[truth == 0], torch.zeros_like(out[truth == 0]))


@pytest.mark.parametrize("fake", [fake for fake in FAKES.values() if fake.head_dims != (64, 128)])
def test_infinite_and_undefined_values_stay_with_their_head(fake: Fake) -> None:
    """They show in the output of that batch and head, and nowhere else; four bits hold neither."""
    q, k, v = SMALL.qkv()
    v[0, 3, 1] = float("inf")
    v[1, 2, 2] = float("nan")

    out = fake.bind(SMALL)(q, k, v)

    finite = out.isfinite().all(dim=3).all(dim=1)
    assert finite.tolist() == [[True, False, True, True], [True, True, False, True]]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "head_dim outermost in memory": lambda x: x.permute(3, 0, 1, 2).contiguous().permute(1, 2, 3, 0),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2],
    "sliced from fused rows": lambda x: torch.cat([x + 1, x, x + 2], dim=3)[..., 64:128],
    "one element off": lambda x: torch.cat([x[..., :1], x], dim=3)[..., 1:],
    "sliced from a longer sequence": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}


@every
@pytest.mark.parametrize("keys", [13, 128])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(fake: Fake, layout: str, keys: int) -> None:
    """Strides do not matter to the result."""
    sizes = replace(SMALL, seq_kv=keys)
    q, k, v = (LAYOUTS[layout](x) for x in sizes.qkv())

    out = fake.bind(sizes)(q, k, v)

    assert fake.off(out, attention(q, k, v)) <= 1


@every
@pytest.mark.parametrize(("lengths", "causal"), [(None, None), (None, "top_left"), ([5, 13], None)])
def test_traces_whole(fake: Fake, lengths: list[int] | None, causal: Causal | None) -> None:
    """Under `fullgraph=True` nothing breaks the graph, and the result is the eager one."""
    torch.compiler.reset()
    sizes = replace(SMALL, seq_q=13)
    kernel, (q, k, v) = fake.bind(sizes), sizes.qkv()
    mask = None if lengths is None else masks.key_lengths(lengths, 13)

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask, causal=causal)

    assert torch.equal(out, kernel(q, k, v, mask=mask, causal=causal))


@every
def test_traces_whole_with_changing_lengths(fake: Fake) -> None:
    """Dynamic sizes give one graph for many lengths."""
    torch.compiler.reset()
    graphs = CompileCounter()
    compiled = torch.compile(fake.bind(SMALL), fullgraph=True, backend=graphs, dynamic=True)

    for length in (7, 9, 12):
        q, k, v = replace(SMALL, seq_q=length, seq_kv=length + 3).qkv()
        assert torch.equal(compiled(q, k, v), fake.bind(SMALL)(q, k, v))
    assert graphs.frame_count == 1
