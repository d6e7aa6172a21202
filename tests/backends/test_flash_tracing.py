"""How `FLASH_ATTN` traces, and what autograd sees of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from backends import masks, prepare_mask
from backends.interface import CallRefused
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.backends.fakes.flash_packages import bind

if TYPE_CHECKING:
    from torch import Tensor

    from backends.interface import Causal

SIZES = Sizes(dtype=torch.bfloat16)
PADDINGS = ["key padding", "key and query padding"]
COMPUTED = ["nothing", "none", "all_keep", "suffix", "suffix, uniform", "block diagonal", *PADDINGS]

both_returns = pytest.mark.parametrize("fake", ["fa2", "fa4"])


@both_returns
@pytest.mark.parametrize("kind", COMPUTED)
@pytest.mark.parametrize("state", ["fresh", "used", "prepared"])
def test_traces_whole(fake: str, kind: str, state: str) -> None:
    """Under `fullgraph=True`, with the eager result; a mask that was not used before is left as it was."""
    torch.compiler.reset()
    sizes, twin = replace(SIZES), replace(SIZES)
    kernel, (q, k, v), mask = bind(fake, sizes), sizes.qkv(), MASKS[kind](sizes)
    expected = kernel(*twin.qkv(), mask=MASKS[kind](twin))
    if state == "used":
        kernel(q, k, v, mask=mask)
    if state == "prepared":
        mask = prepare_mask(mask).mask

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

    assert torch.equal(out, expected)
    assert bool(getattr(mask, "packings", {})) == (state != "fresh" and kind in PADDINGS)


@pytest.mark.parametrize("causal", ALIGNMENTS)
def test_causal_traces_whole(causal: Causal | None) -> None:
    """In both alignments."""
    torch.compiler.reset()
    square = replace(SIZES, seq_kv=9)
    kernel, (q, k, v) = bind("fa4", square), square.qkv()

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, causal=causal)

    assert torch.equal(out, kernel(q, k, v, causal=causal))


@pytest.mark.parametrize("kind", ["nothing", "suffix", "suffix, uniform", *PADDINGS])
def test_traces_whole_with_changing_lengths(kind: str) -> None:
    """Dynamic sizes give one graph for many lengths."""
    torch.compiler.reset()
    kernel, graphs = bind("fa3", SIZES), CompileCounter()
    compiled = torch.compile(kernel, fullgraph=True, backend=graphs, dynamic=True)

    for seq in (7, 9, 12):
        sizes = replace(SIZES, seq_q=seq, seq_kv=seq + 3)
        (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
        assert torch.equal(compiled(q, k, v, mask=mask), kernel(q, k, v, mask=mask))

    assert graphs.frame_count == 1


def test_the_operators_are_called_after_the_build() -> None:
    """A traced graph and a profile name them."""
    torch.compiler.reset()
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> object:
        graphs.append(graph.code)
        return graph.forward

    torch.compile(bind("fa3", SIZES), fullgraph=True, backend=backend)(*SIZES.qkv())

    assert "attention_selector.fa3_dense" in graphs[0]


@both_returns
def test_the_operators_are_sound(fake: str) -> None:
    """Torch's own check: schema, shapes without values, no aliasing."""
    build = bind(fake, SIZES).build
    (q, k, v), offsets = SIZES.qkv(), torch.tensor([0, 9], dtype=torch.int32)
    tests = ("test_schema", "test_faketensor")

    dense, varlen = (getattr(torch.ops.attention_selector, f"{fake}_{form}").default for form in ("dense", "varlen"))
    torch.library.opcheck(dense, (q, k, v, None, False, build.number), test_utils=tests)
    torch.library.opcheck(varlen, (q[0], k[0], v[0], offsets, offsets, 9, 9, 0.5, build.number), test_utils=tests)


def test_gradients_are_the_packages_own() -> None:
    """Eagerly there is nothing between a call and its function but what torch differentiates."""
    q, k, v = (x.requires_grad_() for x in SIZES.qkv())

    got = torch.autograd.grad(bind("fa2", SIZES)(q, k, v, mask=masks.key_lengths([10, 5], 13)).float().sum(), [q, k, v])

    assert bool((got[1][0, 10:] == 0).all())
    assert bool((got[2][1, 5:] == 0).all())
    assert bool(got[2][0, :10].any())


def test_what_inference_mode_made_serves_training() -> None:
    """Offsets and rows that are kept are ordinary tensors."""
    kernel, mask = bind("fa2", SIZES), MASKS["key padding"](SIZES)
    with torch.inference_mode():
        kernel(*SIZES.qkv(), mask=mask)

    q, k, v = (x.requires_grad_() for x in SIZES.qkv())
    (gradient,) = torch.autograd.grad(kernel(q, k, v, mask=mask).float().square().sum(), [q])

    assert bool(gradient.any())


def test_a_build_without_backward_refuses_gradients() -> None:
    """At the call, and not a step later."""
    q, k, v = (x.requires_grad_() for x in SIZES.qkv())
    kernel = bind("fa3, forward alone", SIZES)

    with pytest.raises(CallRefused, match="does not support backward"):
        kernel(q, k, v)
    with torch.no_grad():
        assert bool(kernel(q, k, v).any())


def test_a_traced_call_refuses_gradients() -> None:
    """The operator in the graph has no backward pass."""
    torch.compiler.reset()
    q, k, v = (x.requires_grad_() for x in SIZES.qkv())

    with pytest.raises(Exception, match="a traced call of this kernel has no backward pass"):
        torch.compile(bind("fa2", SIZES), fullgraph=True, backend="aot_eager")(q, k, v)
