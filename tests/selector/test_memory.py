"""What the product holds: little for many layers, one workspace for all, nothing of the size of the scores."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import backends
import selector
from backends import masks
from backends.interface import Kernel
from backends.prepare import prepare_mask
from selector import Attention, Selector, attention
from tests.backends.cases import Sizes
from tests.backends.fakes.flashinfer_binding import (
    BYTES,
    bind_flashinfer,
    bind_trtllm,
    flashinfer_backend,
    trtllm_backend,
)
from tests.selector.conftest import CPU

LAYERS = 60
MEGABYTE = 2**20
OURS = [str(Path(str(module.__file__)).parent / "*") for module in (selector, backends)]


def test_sixty_layers_hold_less_than_a_megabyte() -> None:
    """Called with several shapes each, through the layer and the function; objects of ours, not of torch."""
    here = Selector(facts=CPU, environment={})
    calls = [[torch.randn(1, length, 2, 8) for _ in range(3)] for length in (2, 3, 4)]
    Attention("self", selector=here)(*calls[0])
    gc.collect()
    tracemalloc.start(1)

    layers = [Attention("self", selector=here, head_dim=8, num_heads=2) for _ in range(LAYERS)]
    for layer in layers:
        for call in calls * 2:
            layer(*call)
            attention(*call, selector=here, role="cross")
    gc.collect()
    held = tracemalloc.take_snapshot()
    tracemalloc.stop()

    ours = held.filter_traces([tracemalloc.Filter(True, pattern) for pattern in OURS])
    assert 0 < sum(trace.size for trace in ours.traces) < MEGABYTE
    assert all(sum(ran.calls for ran in layer.report()) == 6 for layer in layers)


# --- workspaces ---------------------------------------------------------------------------------------------------

HALF = Sizes(dtype=torch.bfloat16, head_dim=128)


def test_sixty_layers_share_one_workspace_of_flashinfer() -> None:
    """And one plan for each signature."""
    backend = flashinfer_backend()
    kernels = [bind_flashinfer(HALF, backend=backend) for _ in range(LAYERS)]
    q, k, v = HALF.qkv()

    for kernel in kernels:
        kernel(q, k, v)
        kernel(q, k, v, mask=masks.key_lengths([5, 7], 13))

    assert backend.workspaces.held() == {("cpu", "flashinfer"): BYTES}
    assert len(backend.plans._plans) == 2


def test_sixty_layers_share_one_workspace_of_trtllm() -> None:
    """Whatever the lengths are."""
    backend = trtllm_backend()
    kernels: list[Kernel] = [bind_trtllm(HALF, backend=backend) for _ in range(LAYERS)]
    q, k, v = HALF.qkv()

    for kernel in kernels:
        kernel(q, k, v)
        kernel(q, k, v, mask=masks.key_lengths([5, 7], 13))

    held = backend.workspaces.held()
    assert len(held) == 1
    assert set(held.values()) == {BYTES}


def test_backends_have_a_workspace_each() -> None:
    """In the memory that they share, on one device."""
    flashinfer = flashinfer_backend()
    trtllm = replace(trtllm_backend(), workspaces=flashinfer.workspaces)
    q, k, v = HALF.qkv()

    bind_flashinfer(HALF, backend=flashinfer)(q, k, v)
    bind_trtllm(HALF, backend=trtllm)(q, k, v)

    assert sorted(device for device, _ in flashinfer.workspaces.held()) == ["cpu", "cpu"]


# --- masks --------------------------------------------------------------------------------------------------------

TOKENS = 16_025
BYTES_A_TOKEN = 16
"""What is made of a mask on the way, at most: two numbers of eight bytes for each token."""


class Largest(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the largest storage that any operator gives."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.bytes = 0

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self,
        func,  # noqa: ANN001
        types,  # noqa: ANN001
        args=(),  # noqa: ANN001
        kwargs=None,  # noqa: ANN001
    ) -> object:
        """Run the operator, and look at what it gave."""
        out = func(*args, **(kwargs or {}))
        sizes = [leaf.untyped_storage().nbytes() for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        self.bytes = max([self.bytes, *sizes])
        return out


def padding(*hidden: int) -> Tensor:
    """Give a padding mask of two batches, with keys hidden in the second."""
    keep = torch.ones(2, TOKENS, dtype=torch.bool)
    keep[1, list(hidden)] = False
    return keep


FULL, SUFFIX, GAPS = padding(), padding(*range(9_000, TOKENS)), padding(0, 5, 700)
ALIKE = SUFFIX[1:].expand(2, -1)


def added(keep: Tensor) -> masks.Mask:
    """Give a padding as a bias."""
    return masks.additive(torch.zeros(2, 1, 1, TOKENS).masked_fill(~keep[:, None, None], float("-inf")))


@pytest.mark.parametrize(
    ("mask", "kind"),
    [
        (lambda: masks.key_padding(FULL), "all_keep"),
        (lambda: masks.key_padding(SUFFIX), "suffix_key_padding"),
        (lambda: masks.key_padding(ALIKE), "suffix_key_padding"),
        (lambda: masks.key_padding(GAPS), "key_padding"),
        (lambda: masks.key_and_query_padding(FULL, FULL), "all_keep"),
        (lambda: masks.key_and_query_padding(FULL, SUFFIX), "suffix_key_padding"),
        (lambda: masks.key_and_query_padding(FULL, GAPS), "key_padding"),
        (lambda: masks.key_and_query_padding(SUFFIX, SUFFIX), "key_and_query_padding"),
        (lambda: masks.key_and_query_padding(GAPS, GAPS), "key_and_query_padding"),
        (lambda: added(FULL), "all_keep"),
        (lambda: added(SUFFIX), "suffix_key_padding"),
        (lambda: added(GAPS), "key_padding"),
        (lambda: masks.key_lengths([TOKENS, 9_000], TOKENS), "suffix_key_padding"),
        (lambda: masks.block_diagonal([9_000, TOKENS - 9_000]), "block_diagonal"),
    ],
)
def test_a_padding_is_prepared_without_the_size_of_the_scores(mask: Callable[[], masks.Mask], kind: str) -> None:
    """Whatever it comes to; a mask of every pair would be 257 million values."""
    described = mask()

    with Largest() as seen:
        plan = prepare_mask(described)

    assert plan.kind == kind
    assert seen.bytes <= BYTES_A_TOKEN * 2 * TOKENS
