"""The dispatch inside compiled code on a GPU: whole graphs, symbolic lengths, CUDA graphs, for every backend here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from selector import Attention, Selector
from tests.gpu.conftest import cuda_reason

REASON = cuda_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
BACKENDS = ("TORCH_SDPA", "CUDNN_ATTN", "FLASH_ATTN", "FLASHINFER_ATTN", "SAGE_ATTN", "FLASH_ATTN_3_HUB")
PLANNED = ("FLASHINFER_ATTN", "SAGE_ATTN")
"""Whose kernels are told the lengths as plain numbers."""
LENGTHS = ((256, 384), (320, 384), (512, 640), (300, 300), (640, 640))


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Compile anew in each test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def layer(backend: str, head_dim: int = 128) -> Attention:
    """Give a layer with the backend, or skip with the selector's own reason."""
    asked: dict[str, Any] = {"head_dim": head_dim, "num_heads": 8, "num_kv_heads": 8, "dtype": "bfloat16"}
    found = Selector(backend=backend, policy="strict").decide("self", **asked)
    if found.backend != backend:
        pytest.skip(found.error.message if found.error else str(found.backend))
    return Attention("self", selector=Selector(backend=backend), **asked)


def tensors(queries: int, keys: int, head_dim: int = 128) -> list[torch.Tensor]:
    """Give q, k and v."""
    lengths = (queries, keys, keys)
    return [torch.randn(2, length, 8, head_dim, device="cuda", dtype=torch.bfloat16) for length in lengths]


@pytest.mark.parametrize("backend", BACKENDS)
def test_symbolic_lengths(backend: str) -> None:
    """Once for different lengths and once for equal ones, unless a kernel plans by the lengths; equal to eager."""
    attend, counter = layer(backend), CompileCounterWithBackend("aot_eager")
    whole = torch.compile(attend, fullgraph=True, dynamic=True, backend=counter)

    with torch.no_grad():
        for queries, keys in LENGTHS:
            call = tensors(queries, keys)
            torch.testing.assert_close(whole(*call), attend(*call), atol=2e-2, rtol=2e-2)

    assert counter.frame_count <= (len(LENGTHS) if backend in PLANNED else 2)
    assert {ran.backend for ran in attend.report()} == {backend}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("head_dim", [64, 128])
def test_inductor_and_a_cuda_graph(backend: str, head_dim: int) -> None:
    """The compiled call is captured and replays to the same result."""
    attend, call = layer(backend, head_dim), tensors(512, 512, head_dim)
    whole = torch.compile(attend, fullgraph=True)
    with torch.no_grad():
        wanted = attend(*call)
        torch.testing.assert_close(whole(*call), wanted, atol=2e-2, rtol=2e-2)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            got = whole(*call)
        graph.replay()
        torch.cuda.synchronize()

    torch.testing.assert_close(got, wanted, atol=2e-2, rtol=2e-2)
