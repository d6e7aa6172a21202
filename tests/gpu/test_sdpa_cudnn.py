"""`TORCH_SDPA` and `CUDNN_ATTN` on a real GPU against the float64 oracle."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
import torch

from backends import cudnn, masks, torch_sdpa
from backends.interface import Backend, BindError, CallRefused, Causal
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.gpu.conftest import cuda_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from backends.interface import Kernel

REASON = cuda_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

BACKENDS = {backend.name: backend for backend in (torch_sdpa.BACKEND, cudnn.BACKEND)}
TOLERANCE = {torch.bfloat16: 5e-2, torch.float16: 1e-2}
LENGTHS = [(72, 72), (40, 99), (99, 40)]
NARROWEST_LIMIT = 128
"""The head_dim that every build of cuDNN's kernel takes; beyond it a build may refuse to bind."""
SIZES = Sizes(seq_q=40, seq_kv=99, head_dim=64, dtype=torch.bfloat16, device="cuda:0")

both = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS)


def bind(backend: Backend, sizes: Sizes) -> Kernel:
    """The kernel, or a skip where this build is narrower than the backend may be."""
    try:
        return backend.bind({}, sizes.geometry)
    except BindError as error:
        if sizes.head_dim <= NARROWEST_LIMIT:
            raise
        pytest.skip(str(error))


@both
@pytest.mark.parametrize("head_dim", [64, 72, 128, 256])
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_every_cell_agrees_with_the_oracle(backend: Backend, dtype: torch.dtype, kv_heads: int, head_dim: int) -> None:
    """Every kind of mask, alignment and pair of lengths; rows that see nothing are exactly zero."""
    base = replace(SIZES, dtype=dtype, kv_heads=kv_heads, head_dim=head_dim)
    kernel, wrong = bind(backend, base), []

    for (seq_q, seq_kv), kind, causal in product(LENGTHS, MASKS, ALIGNMENTS):
        sizes = replace(base, seq_q=seq_q, seq_kv=seq_kv)
        (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
        out = kernel(q, k, v, mask=mask, causal=causal)
        expected = attention(q, k, v, mask=mask, causal=causal)
        error = (out.double() - expected).abs().max().item()
        hidden_rows_are_zero = bool((out[expected == 0] == 0).all())
        if out.dtype != dtype or not error <= TOLERANCE[dtype] or not hidden_rows_are_zero:
            wrong.append((kind, causal, seq_q, seq_kv, error, hidden_rows_are_zero))

    assert not wrong


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2],
    "sliced from fused rows": lambda x: torch.cat([x + 1, x, x + 2], dim=3)[..., x.shape[3] : 2 * x.shape[3]],
    "fused heads": lambda x: torch.stack([x + 1, x, x + 2], dim=2)[:, :, 1],
    "sliced from a longer sequence": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}


@both
@pytest.mark.parametrize("kind", ["nothing", "suffix, uniform", "key padding"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(backend: Backend, layout: str, kind: str) -> None:
    """Strides do not matter to the result."""
    q, k, v = (LAYOUTS[layout](x) for x in SIZES.qkv())
    mask = MASKS[kind](SIZES)

    out = bind(backend, SIZES)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("bias_dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", ["additive", "additive per key"])
def test_a_bias_of_any_dtype_keeps_its_values(
    kind: str, causal: Causal | None, bias_dtype: torch.dtype, dtype: torch.dtype
) -> None:
    """A kernel that reads a bias in another type than it has gives noise, not an error: torch 2.11 does, left alone."""
    sizes = replace(SIZES, dtype=dtype)
    mask = MASKS[kind](replace(SIZES, dtype=bias_dtype))
    q, k, v = sizes.qkv()

    out = torch_sdpa.BACKEND.bind({}, sizes.geometry)(q, k, v, mask=mask, causal=causal)

    expected = attention(q, k, v, mask=mask, causal=causal)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=5e-2)


@contextmanager
def no_synchronisation() -> Iterator[None]:
    """Any wait of the host for the device is an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@both
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", MASKS)
def test_a_call_waits_for_nothing(backend: Backend, kind: str, causal: Causal | None) -> None:
    """What has to be read of a mask was read when it was made."""
    kernel, mask, (q, k, v) = bind(backend, SIZES), MASKS[kind](SIZES), SIZES.qkv()

    with no_synchronisation():
        kernel(q, k, v, mask=mask, causal=causal)


@both
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding", "additive"])
def test_a_captured_call_replays(backend: Backend, kind: str, causal: Causal | None) -> None:
    """A CUDA graph of the call gives the eager result."""
    kernel, mask, (q, k, v) = bind(backend, SIZES), MASKS[kind](SIZES), SIZES.qkv()
    eager = kernel(q, k, v, mask=mask, causal=causal)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    with torch.cuda.graph(graph):
        captured = kernel(q, k, v, mask=mask, causal=causal)
    graph.replay()

    torch.testing.assert_close(captured, eager, rtol=0, atol=1e-2)


@both
@pytest.mark.parametrize("kind", ["nothing", "suffix, uniform", "key padding", "additive"])
def test_traces_whole(backend: Backend, kind: str) -> None:
    """Under `fullgraph=True`, with the eager result."""
    torch.compiler.reset()
    kernel, mask, (q, k, v) = bind(backend, SIZES), MASKS[kind](SIZES), SIZES.qkv()

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

    torch.testing.assert_close(out, kernel(q, k, v, mask=mask), rtol=0, atol=1e-2)


@both
@pytest.mark.parametrize("kind", ["nothing", "key padding", "boolean", "additive"])
def test_gradients_are_those_of_the_oracle(backend: Backend, kind: str) -> None:
    """Hidden rows put no NaN into them."""
    inputs, mask = [x.requires_grad_() for x in SIZES.qkv()], MASKS[kind](SIZES)

    got = torch.autograd.grad(bind(backend, SIZES)(*inputs, mask=mask).float().sum(), inputs)

    opened = [x.detach().double().requires_grad_() for x in inputs]
    wanted = torch.autograd.grad(open_rows_sum(opened, mask), opened)
    for one, other in zip(got, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=5e-2, atol=0.2)


def open_rows_sum(inputs: list[Tensor], mask: masks.Mask | None) -> Tensor:
    """The oracle's sum with hidden rows opened and then dropped."""
    q, k, v = inputs
    if mask is None:
        return attention(q, k, v).sum()
    bias = masks.to_bias(mask, q.shape, k.shape, dtype=torch.float64).expand(2, 4, 40, 99)
    dead = bias.isneginf().all(dim=-1, keepdim=True)
    opened = masks.additive(bias.masked_fill(dead, 0.0))
    return attention(q, k, v, mask=opened).masked_fill(dead.transpose(1, 2), 0.0).sum()


@both
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding"])
def test_a_long_sequence(backend: Backend, kind: str) -> None:
    """As long as an image's: 4,352 tokens, 8 heads of 128."""
    sizes = replace(SIZES, batch=1, heads=8, kv_heads=8, seq_q=4352, seq_kv=4352, head_dim=128)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = bind(backend, sizes)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-3)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_dispatcher_takes_full_precision(dtype: torch.dtype, causal: Causal | None, kind: str) -> None:
    """Which cuDNN's kernel does not."""
    sizes = replace(SIZES, dtype=dtype)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = torch_sdpa.BACKEND.bind({}, sizes.geometry)(q, k, v, mask=mask, causal=causal)

    expected = attention(q, k, v, mask=mask, causal=causal)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=1e-5)


def test_one_key_is_refused_and_one_visible_key_is_not() -> None:
    """CuDNN's kernel needs two keys; a second, hidden one will do."""
    kernel = bind(cudnn.BACKEND, SIZES)
    q, k, v = SIZES.qkv()

    with pytest.raises(CallRefused, match=r"^`seq_len_kv`: wanted 2 or more, got 1$"):
        kernel(q, k[:, :1], v[:, :1])
    torch.testing.assert_close(kernel(q, k, v, mask=masks.key_lengths(1, 99)), v[:, :1].expand_as(q))


def test_the_pin_holds_where_a_process_has_turned_cudnn_off() -> None:
    """As servers do: the pinned call still runs, and the setting is as it was afterwards."""
    kernel, (q, k, v) = bind(cudnn.BACKEND, SIZES), SIZES.qkv()
    expected = kernel(q, k, v)

    before = torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    torch.backends.cuda.enable_cudnn_sdp(False)
    try:
        out = kernel(q, k, v)
        assert not torch.backends.cuda.cudnn_sdp_enabled()  # type: ignore[no-untyped-call]
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)

    torch.testing.assert_close(out, expected)
