"""Edges of the backends over torch's function: empty sizes, rows of zeros, memory, gradients, compilation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from backends import masks
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, BINDERS, MASKS, Sizes, bind_dispatcher

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask

SIZES = Sizes()
INF = float("inf")


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize(("batch", "seq_q", "seq_kv"), [(0, 9, 13), (2, 0, 13), (2, 9, 0), (2, 0, 0), (0, 0, 0)])
def test_empty_sizes_give_zeros(binder: str, batch: int, seq_q: int, seq_kv: int, causal: Causal | None) -> None:
    """No batch and no query give an empty output, no key gives zeros."""
    sizes = Sizes(batch=batch, seq_q=seq_q, seq_kv=seq_kv)
    q, k, v = sizes.qkv()
    lengths = masks.key_lengths([0] * batch, seq_kv)

    for mask in (None, lengths, masks.key_padding(sizes.coins(batch, seq_kv))):
        out = BINDERS[binder](sizes)(q, k, v, mask=mask, causal=causal)

        assert torch.equal(out, torch.zeros_like(q))


HIDE_ALL: dict[str, Callable[[], Mask]] = {
    "suffix": lambda: masks.key_lengths(0, 13),
    "suffix in one batch": lambda: masks.key_lengths([0, 13], 13),
    "key padding": lambda: masks.key_padding(torch.zeros(2, 13, dtype=torch.bool)),
    "keys padded": lambda: masks.key_and_query_padding(
        torch.ones(2, 9, dtype=torch.bool), torch.zeros(2, 13, dtype=torch.bool)
    ),
    "queries padded": lambda: masks.key_and_query_padding(
        torch.zeros(2, 9, dtype=torch.bool), torch.ones(2, 13, dtype=torch.bool)
    ),
    "documents": lambda: masks.block_diagonal([9, 0], [0, 13]),
    "boolean": lambda: masks.boolean_per_query(torch.zeros(1, 1, 9, 13, dtype=torch.bool)),
    "additive": lambda: masks.additive(torch.full((1, 1, 1, 13), -INF, dtype=torch.float64)),
}


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", HIDE_ALL)
def test_hidden_rows_are_exactly_zero(binder: str, kind: str, causal: Causal | None) -> None:
    """Of every kind, even where the values are not finite."""
    q, k, v = SIZES.qkv()
    v = torch.full_like(v, INF)

    out = BINDERS[binder](SIZES)(q, k, v, mask=HIDE_ALL[kind](), causal=causal)

    assert torch.equal(out[:1], torch.zeros_like(q[:1]))


def strided(x: Tensor) -> Tensor:
    """Every second element of a tensor twice as wide."""
    return torch.stack([x, x], dim=-1).flatten(3)[..., ::2]


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": strided,
    "sliced from fused rows": lambda x: torch.cat([x, x, x], dim=3)[..., 16:32],
}


@pytest.mark.parametrize("binder", BINDERS)
@pytest.mark.parametrize("kind", ["nothing", "suffix, uniform", "key padding"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(binder: str, layout: str, kind: str) -> None:
    """Strides do not matter to the result."""
    q, k, v = (LAYOUTS[layout](x) for x in SIZES.qkv())
    mask = MASKS[kind](SIZES)

    out = BINDERS[binder](SIZES)(q, k, v, mask=mask)

    torch.testing.assert_close(out, attention(q, k, v, mask=mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", MASKS)
def test_gradients(kind: str, causal: Causal | None) -> None:
    """They are finite and those of the oracle, hidden rows included."""
    inputs = [x.requires_grad_() for x in Sizes(kv_heads=2).qkv()]
    sizes = Sizes(kv_heads=2)
    mask = MASKS[kind](sizes)

    got = torch.autograd.grad(bind_dispatcher(sizes)(*inputs, mask=mask, causal=causal).square().sum(), inputs)

    wanted = torch.autograd.grad(safe_square(inputs, mask, causal), inputs)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=1e-10)


def safe_square(inputs: list[Tensor], mask: Mask | None, causal: Causal | None) -> Tensor:
    """The oracle's sum of squares, with hidden rows opened and then dropped, so that no NaN enters its gradient."""
    q, k, v = inputs
    keep = torch.ones(1, 1, 1, 1, dtype=torch.bool)
    bias = torch.zeros(1, 1, 1, 1, dtype=torch.float64)
    if isinstance(mask, masks.Additive):
        bias, keep = mask.bias.nan_to_num(neginf=0.0), mask.bias != -INF
    elif mask is not None:
        keep = masks.to_keep(mask, q.shape, k.shape)
    if causal is not None:
        keep = keep & masks.causal_keep(q.shape[1], k.shape[1], causal)
    dead = ~keep.any(dim=-1, keepdim=True)
    opened = bias.expand(2, 4, 9, 13).masked_fill(~(keep | dead), -INF)
    return attention(q, k, v, mask=masks.additive(opened)).masked_fill(dead.transpose(1, 2), 0.0).square().sum()


def test_no_key_still_has_a_gradient() -> None:
    """Zeros that depend on the query, so that a training step does not stop there."""
    q, k, v = (x.requires_grad_() for x in Sizes(seq_kv=0).qkv())

    (gradient,) = torch.autograd.grad(bind_dispatcher(SIZES)(q, k, v).sum(), [q])

    assert torch.equal(gradient, torch.zeros_like(q))


def test_autocast_does_not_change_the_dtype() -> None:
    """Torch computes in half precision there; the output is still the query's."""
    sizes = Sizes(dtype=torch.float32)
    q, k, v = sizes.qkv()

    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = bind_dispatcher(sizes)(q, k, v)

    assert out.dtype == torch.float32


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", MASKS)
def test_traces_whole(kind: str, causal: Causal | None) -> None:
    """Under `fullgraph=True` nothing breaks the graph, and the result is the eager one."""
    torch.compiler.reset()
    kernel, mask = bind_dispatcher(SIZES), MASKS[kind](SIZES)
    q, k, v = SIZES.qkv()

    compiled = torch.compile(kernel, fullgraph=True, backend="aot_eager")

    torch.testing.assert_close(
        compiled(q, k, v, mask=mask, causal=causal), kernel(q, k, v, mask=mask, causal=causal), rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("kind", "causal"),
    [("nothing", None), ("nothing", "bottom_right"), ("key padding", "top_left"), ("key and query padding", None)],
)
def test_traces_whole_with_changing_lengths(kind: str, causal: Causal | None) -> None:
    """Dynamic sizes give one graph for many lengths."""
    torch.compiler.reset()
    kernel, graphs = bind_dispatcher(SIZES), CompileCounter()
    compiled = torch.compile(kernel, fullgraph=True, backend=graphs, dynamic=True)

    for seq in (7, 9, 12):
        sizes = replace(SIZES, seq_q=seq, seq_kv=seq + 3)
        (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
        expected = kernel(q, k, v, mask=mask, causal=causal)
        torch.testing.assert_close(compiled(q, k, v, mask=mask, causal=causal), expected, rtol=0, atol=1e-12)
    assert graphs.frame_count == 1
