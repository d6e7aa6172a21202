"""`FLASHINFER_ATTN` on a real GPU against the float64 oracle.

The first use of a kernel compiles it: one for a type and a head_dim, and another for several sequences. Run a part with
`-k bfloat16-128`, `-k float16-64`, `-k bfloat16-256`, and with `-k fa2` or `-k fa3`.
"""

from __future__ import annotations

import importlib
import inspect
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
import torch

from backends import flashinfer, masks
from backends.interface import BindError, CallRefused, Causal
from backends.reference import attention
from backends.workspace import SHARED
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.backends.fakes import flashinfer_prefill, flashinfer_trtllm
from tests.backends.fakes.flashinfer_binding import refuses
from tests.gpu.conftest import cuda_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from backends.interface import Kernel

MODULE = "flashinfer.prefill"


def flashinfer_reason() -> str | None:
    """Why FlashInfer cannot run here, or None where it can."""
    reason = cuda_reason()
    if reason is None:
        try:
            importlib.import_module(MODULE)
        except Exception as error:  # noqa: BLE001 - a broken wheel raises anything
            reason = f"{MODULE} does not import: {type(error).__name__}: {error}"
    return reason


REASON = flashinfer_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

BASE = Sizes(seq_q=40, seq_kv=99, head_dim=128, dtype=torch.bfloat16, device="cuda:0")
SETS = {
    "bfloat16-128": BASE,
    "float16-64": replace(BASE, batch=1, head_dim=64, dtype=torch.float16),
    "bfloat16-256": replace(BASE, batch=1, head_dim=256),
}
"""The second and third have one batch, and so leave out the kernel for several sequences."""
LENGTHS = [(72, 72), (40, 99), (99, 40)]
TOLERANCE = {torch.bfloat16: 5e-2, torch.float16: 1e-2}

providers = pytest.mark.parametrize("provider", ["flashinfer-fa2", "flashinfer-fa3"])


def bind(provider: str, sizes: Sizes = BASE, **quant: str) -> Kernel:
    """The real kernel, or a skip where the GPU is not the provider's."""
    if provider == "flashinfer-fa3" and torch.cuda.get_device_capability()[0] != 9:
        pytest.skip("the FlashAttention 3 template is Hopper's")
    return flashinfer.BACKEND.bind({"quant": quant} if quant else {}, replace(sizes.geometry, provider=provider))


def error_of(kernel: Kernel, sizes: Sizes, mask: masks.Mask | None, causal: Causal | None = None) -> float:
    """The largest error; infinite for another type, or a row that sees nothing and is not zero."""
    q, k, v = sizes.qkv()
    out = kernel(q, k, v, mask=mask, causal=causal)
    expected = attention(q, k, v, mask=mask, causal=causal)
    zeros = bool((out[expected == 0] == 0).all())
    return (out.double() - expected).abs().max().item() if zeros and out.dtype == q.dtype else float("inf")


@providers
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_every_cell_agrees_or_is_refused(provider: str, name: str, kv_heads: int) -> None:
    """Every kind of mask, alignment and pair of lengths."""
    base = replace(SETS[name], kv_heads=kv_heads)
    kernel, wrong = bind(provider, base), []

    for (seq_q, seq_kv), kind, causal in product(LENGTHS, MASKS, ALIGNMENTS):
        sizes = replace(base, seq_q=seq_q, seq_kv=seq_kv)
        if refuses(provider, kind, causal, sizes):
            with pytest.raises(CallRefused):
                kernel(*sizes.qkv(), mask=MASKS[kind](sizes), causal=causal)
            continue
        error = error_of(kernel, sizes, MASKS[kind](sizes), causal)
        if not error <= TOLERANCE[base.dtype]:
            wrong.append((kind, causal, seq_q, seq_kv, error))

    assert not wrong


@providers
@pytest.mark.parametrize("scale", [-0.3, 0.0, 1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding"])
def test_every_scale(provider: str, kind: str, scale: float) -> None:
    """The template hides keys with -50,000 before it scales."""
    if refuses(provider, kind, None, BASE):
        pytest.skip("no masks")
    (q, k, v), mask = BASE.qkv(), MASKS[kind](BASE)

    out = bind(provider)(q, k, v, mask=mask, scale=scale)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask, scale=scale), rtol=0, atol=5e-2)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2],
    "off by one element": lambda x: torch.cat([x.new_zeros(1), x.flatten()])[1:].view_as(x),
    "fused heads": lambda x: torch.stack([x + 1, x, x + 2], dim=2)[:, :, 1],
    "sliced from a longer sequence": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal", "key padding"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 2])
def test_any_memory_layout(provider: str, layout: str, kind: str, batch: int) -> None:
    """Strides do not matter to the result."""
    sizes = replace(BASE, batch=batch)
    if refuses(provider, kind, None, sizes):
        pytest.skip("no masks")
    q, k, v = (LAYOUTS[layout](x) for x in sizes.qkv())
    mask = MASKS[kind](sizes)

    out = bind(provider)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


@providers
@pytest.mark.parametrize("seq_kv", [1, 15, 130, 257])
def test_the_last_keys_count(provider: str, seq_kv: int) -> None:
    """Larger than the others, so that a lost one shows; one key alone is enough."""
    q, k, v = replace(BASE, seq_kv=seq_kv).qkv()
    k[:, -2:] *= 4

    out = bind(provider)(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=0, atol=5e-2)


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix, uniform", "key padding"])
def test_a_long_sequence(provider: str, kind: str) -> None:
    """As long as an image's: 4,352 tokens, 8 heads of 128."""
    sizes = replace(BASE, batch=1, heads=8, kv_heads=8, seq_q=4352, seq_kv=4352)
    if refuses(provider, kind, None, sizes):
        pytest.skip("no masks")

    assert error_of(bind(provider, sizes), sizes, MASKS[kind](sizes)) < 5e-3


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


@providers
@pytest.mark.parametrize(
    "kind", ["nothing", "suffix", "block diagonal", "key padding", "key and query padding", "boolean"]
)
def test_a_second_call_waits_for_nothing(provider: str, kind: str) -> None:
    """New lengths are planned once; masks are packed on the device."""
    if refuses(provider, kind, None, BASE):
        pytest.skip("no masks")
    kernel, mask, (q, k, v) = bind(provider), MASKS[kind](BASE), BASE.qkv()
    kernel(q, k, v, mask=mask)

    with no_synchronisation():
        kernel(q, k, v, mask=mask)


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding"])
def test_a_captured_call_replays(provider: str, kind: str) -> None:
    """A CUDA graph of the call gives the eager result."""
    if refuses(provider, kind, None, BASE):
        pytest.skip("no masks")
    kernel, mask, (q, k, v) = bind(provider), MASKS[kind](BASE), BASE.qkv()
    eager = kernel(q, k, v, mask=mask)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    with torch.cuda.graph(graph):
        captured = kernel(q, k, v, mask=mask)
    graph.replay()

    torch.testing.assert_close(captured, eager, rtol=0, atol=1e-2)


@providers
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding"])
def test_traces_whole(provider: str, kind: str) -> None:
    """Under `fullgraph=True`, with the eager result."""
    if refuses(provider, kind, None, BASE):
        pytest.skip("no masks")
    torch.compiler.reset()
    kernel, mask, (q, k, v) = bind(provider), MASKS[kind](BASE), BASE.qkv()

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

    torch.testing.assert_close(out, kernel(q, k, v, mask=mask), rtol=0, atol=1e-2)


@providers
def test_types_of_the_kernel(provider: str) -> None:
    """A bfloat16 layer computed in float16, with a value that float16 does not hold."""
    sizes = replace(SETS["float16-64"], dtype=torch.bfloat16)
    q, k, v = sizes.qkv()
    v[0, 3, 0, 0] = 9e4

    out = bind(provider, sizes, dtype_qk="float16", dtype_vo="float16")(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=2e-2, atol=5e-2)


@providers
def test_values_in_eight_bits_are_refused_where_keys_have_sixteen(provider: str) -> None:
    """The templates have one type for both, and would read the memory of the values as that of keys."""
    with pytest.raises(BindError, match="wanted one type, for provider"):
        bind(provider, dtype_vo="fp8_e4m3")


def test_layers_share_one_workspace() -> None:
    """128 MiB for all that were bound above."""
    bind("flashinfer-fa2")(*BASE.qkv())

    assert SHARED.held().get(("cuda:0", "flashinfer")) == 2**27


@pytest.mark.parametrize(
    ("fake", "path"),
    [
        (flashinfer_prefill.single_prefill_with_kv_cache, "single_prefill_with_kv_cache"),
        (flashinfer_prefill.BatchPrefillWithRaggedKVCacheWrapper, "BatchPrefillWithRaggedKVCacheWrapper"),
        (flashinfer_prefill.BatchPrefillWithRaggedKVCacheWrapper.plan, "BatchPrefillWithRaggedKVCacheWrapper.plan"),
        (flashinfer_prefill.BatchPrefillWithRaggedKVCacheWrapper.run, "BatchPrefillWithRaggedKVCacheWrapper.run"),
        (flashinfer_trtllm.trtllm_ragged_attention_deepseek, "trtllm_ragged_attention_deepseek"),
        (flashinfer_trtllm.trtllm_sage_attention_quantize, "trtllm_sage_attention_quantize"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_fakes_have_the_real_signatures(fake: Callable[..., object], path: str) -> None:
    """Their parameters are the real ones, in their order; a newer version may have more."""
    real: object = importlib.import_module(MODULE)
    for name in path.split("."):
        real = getattr(real, name)
    assert callable(real)
    names, known = list(inspect.signature(real).parameters), list(inspect.signature(fake).parameters)

    assert [name for name in names if name in known] == known
