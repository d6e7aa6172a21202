"""The log-sum-exp on a GPU, from every backend here: eager, compiled, and in a CUDA graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch

from backends import masks
from backends.interface import CallRefused
from backends.reference import attention as definition
from backends.reference import log_sum_exp
from selector import Attention, SelectionRefusedError, Selector
from tests.gpu.conftest import cuda_reason

REASON = cuda_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]
BACKENDS = {
    "TORCH_SDPA": 1e-2,
    "CUDNN_ATTN": 1e-2,
    "FLASH_ATTN": 1e-2,
    "FLASHINFER_ATTN": 1e-2,
    "SAGE_ATTN": 0.15,
    "FLASH_ATTN_3_HUB": 1e-2,
    "TRTLLM_ATTN": 1e-2,
}
"""With how far each may be from the definition: SageAttention's scores are of eight bits."""
MASKS: Mapping[str, Callable[[], masks.Mask | None]] = {
    "none": lambda: None,
    "lengths": lambda: masks.key_lengths([257, 100], 257),
    "no keys": lambda: masks.key_lengths([257, 0], 257),
}


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Compile anew in each test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def layer(backend: str) -> Attention:
    """Give a layer with the backend, or skip with the selector's own reason."""
    asked: dict[str, Any] = {"head_dim": 128, "num_heads": 8, "num_kv_heads": 4, "dtype": "bfloat16"}
    selector = Selector(backend=backend, policy="strict")
    found = selector.decide("self", **asked)
    if found.backend != backend:
        pytest.skip(found.error.message if found.error else str(found.backend))
    return Attention("self", selector=selector, **asked)


def tensors() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Give q, k and v, with two query heads for each KV head and keys that are off centre."""
    sizes = ((300, 8), (257, 4), (257, 4))
    q, k, v = (torch.randn(2, length, heads, 128, device="cuda", dtype=torch.bfloat16) for length, heads in sizes)
    return q, k + 1, v


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_is_the_definition_eager_compiled_and_captured(backend: str, kind: str) -> None:
    """Float32 `[batch, heads, seq_q]`, to base e, -inf where there is no key, and the output beside it."""
    attend, (q, k, v), mask = layer(backend), tensors(), MASKS[kind]()
    truth, wanted = log_sum_exp(q, k, mask=mask), definition(q, k, v, mask=mask)
    whole = torch.compile(attend, fullgraph=True)

    try:
        eager = attend(q, k, v, mask=mask, return_lse=True)
    except (SelectionRefusedError, CallRefused) as refused:
        pytest.skip(str(refused))
    compiled = whole(q, k, v, mask=mask, return_lse=True)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = whole(q, k, v, mask=mask, return_lse=True)
    graph.replay()
    torch.cuda.synchronize()

    for out, lse in (eager, compiled, captured):
        assert (lse.dtype, lse.shape) == (torch.float32, (2, 8, 300))
        assert torch.equal(lse.isinf(), truth.isinf())
        torch.testing.assert_close(lse.double(), truth, atol=BACKENDS[backend], rtol=0)
        torch.testing.assert_close(out.double(), wanted, atol=5e-2, rtol=0)
