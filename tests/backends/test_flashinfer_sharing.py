"""What the kernels of `FLASHINFER_ATTN` share, and how compiled code sees them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes.flashinfer_binding import MASKED, PROVIDERS, bind_flashinfer, flashinfer_backend

if TYPE_CHECKING:
    from torch import Tensor

HALF = Sizes(dtype=torch.float16)

providers = pytest.mark.parametrize("provider", PROVIDERS)


def test_plans_are_shared_by_layers_and_made_once() -> None:
    """Two kernels of one backend, several calls, three signatures."""
    backend = flashinfer_backend()
    kernels = [bind_flashinfer(HALF, backend=backend) for _ in range(2)]
    q, k, v = HALF.qkv()

    for kernel in kernels * 3:
        kernel(q, k, v)
        kernel(q, k, v, mask=masks.key_lengths([5, 7], 13))
        kernel(q, k, v, mask=masks.key_lengths([7, 5], 13))

    assert [key.job.lengths_k for key in backend.plans._plans] == [(13, 13), (5, 7), (7, 5)]
    assert {wrapper.plans for wrapper in backend.plans._plans.values()} == {1}  # type: ignore[attr-defined]
    assert backend.workspaces.held() == {("cpu", "flashinfer"): 256}


def test_the_plan_that_was_not_used_for_longest_goes() -> None:
    """So that ever new lengths take no ever more memory."""
    backend = flashinfer_backend()
    backend = replace(backend, plans=replace(backend.plans, kept=2))
    kernel, (q, k, v) = bind_flashinfer(HALF, backend=backend), HALF.qkv()

    for lengths in ([1, 2], [3, 4], [1, 2], [5, 6]):
        kernel(q, k, v, mask=masks.key_lengths(lengths, 13))

    assert [key.job.lengths_k for key in backend.plans._plans] == [(1, 2), (5, 6)]


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal", "key padding", "key and query padding"])
def test_traces_whole(provider: str, kind: str) -> None:
    """Under `fullgraph=True`, with the eager result: the kernel is one operator."""
    torch.compiler.reset()
    kernel, mask, (q, k, v) = bind_flashinfer(HALF, provider), MASKS[kind](HALF), HALF.qkv()
    mask = masks.no_mask() if kind in MASKED and provider != "flashinfer-fa2" else mask

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

    torch.testing.assert_close(out, kernel(q, k, v, mask=mask), rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch", [1, 2])
def test_traces_for_any_length(batch: int) -> None:
    """With lengths that are symbols to the compiler, traced once."""
    torch.compiler.reset()
    kernel, traces = bind_flashinfer(HALF), []

    def count(module: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        traces.append(module)
        return module

    compiled = torch.compile(kernel, fullgraph=True, dynamic=True, backend=count)
    for seq_kv in (13, 17, 21):
        q, k, v = replace(HALF, batch=batch, seq_kv=seq_kv).qkv()
        torch.testing.assert_close(compiled(q, k, v), kernel(q, k, v), rtol=0, atol=1e-6)

    assert len(traces) == 1


def test_layers_that_are_alike_are_traced_once() -> None:
    """Each has a kernel of its own, over one launch."""
    torch.compiler.reset()
    backend, traces = flashinfer_backend(), []
    kernels = [bind_flashinfer(HALF, backend=backend) for _ in range(4)]
    q, k, v = HALF.qkv()

    def count(module: torch.fx.GraphModule, _: list[Tensor]) -> torch.fx.GraphModule:
        traces.append(module)
        return module

    compiled = torch.compile(lambda kernel: kernel(q, k, v), fullgraph=True, backend=count)
    outs = [compiled(kernel) for kernel in kernels]

    assert len(traces) == 1
    assert all(torch.equal(out, outs[0]) for out in outs)


def test_the_operator_is_well_formed() -> None:
    """Torch's own checks of an operator: its schema, its fake, its tracing."""
    kernel = bind_flashinfer(HALF)
    q, k, v = (x[0] for x in HALF.qkv())

    torch.library.opcheck(
        torch.ops.attention_selector.flashinfer.default,
        (kernel.launch.handle, q, k, v, None, [9], [13], False, 0.25),  # type: ignore[attr-defined]
        test_utils=("test_schema", "test_faketensor"),
    )
