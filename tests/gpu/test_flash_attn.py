"""`FLASH_ATTN` with each build that is installed here, on a real GPU against the float64 oracle."""

from __future__ import annotations

import inspect
import warnings
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
import torch

from backends import flash_attn, masks, prepare_mask
from backends._flash_providers import PROVIDERS, WANTED, Packages
from backends.interface import BindError, CallRefused
from backends.reference import attention
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.backends.fakes import flash3_forward, flash4
from tests.backends.fakes.flash_expected import LAYOUTS, is_refused
from tests.gpu.conftest import cuda_reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from backends.interface import Causal, Kernel

REASON = cuda_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

TOLERANCE = {torch.bfloat16: 5e-2, torch.float16: 1e-2}
LENGTHS = [(72, 72), (40, 99), (99, 40)]
SIZES = Sizes(seq_q=40, seq_kv=99, head_dim=64, dtype=torch.bfloat16, device="cuda:0")
PADDINGS = ["key padding", "key and query padding"]
COMPUTED = ["nothing", "suffix", "suffix, uniform", "block diagonal", *PADDINGS]
EVERY_CELL = list(product(TOLERANCE, (4, 2, 1), (64, 72, 128, 256)))
# Each combination of dtype, grouping and head_dim is compiled, three times, some ten seconds each.
CELLS_COMPILED = [(torch.bfloat16, 4, 64), (torch.bfloat16, 2, 72), (torch.float16, 1, 128), (torch.bfloat16, 2, 256)]
CELLS = {"fa4": CELLS_COMPILED}

every_provider = pytest.mark.parametrize("provider", PROVIDERS)


def bind(provider: str, sizes: Sizes) -> Kernel:
    """The kernel, or a skip where the package is absent or was built without this."""
    try:
        return flash_attn.BACKEND.bind({}, replace(sizes.geometry, provider=provider))
    except BindError as error:
        is_absent = isinstance(error.__cause__, ModuleNotFoundError) or "version unknown" in str(error)
        if not is_absent and sizes.dtype == torch.bfloat16:
            raise
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("provider", "dtype", "kv_heads", "head_dim"),
    [(provider, *cell) for provider in PROVIDERS for cell in CELLS.get(provider, EVERY_CELL)],
    ids=str,
)
def test_every_cell_agrees_with_the_oracle(provider: str, dtype: torch.dtype, kv_heads: int, head_dim: int) -> None:
    """Every kind, alignment and pair of lengths: hidden rows exactly zero, and refused where the call table says so."""
    base = replace(SIZES, dtype=dtype, kv_heads=kv_heads, head_dim=head_dim)
    kernel, wrong = bind(provider, base), []

    for (seq_q, seq_kv), kind, causal in product(LENGTHS, MASKS, ALIGNMENTS):
        sizes = replace(base, seq_q=seq_q, seq_kv=seq_kv)
        if not agrees(kernel, sizes, kind, causal):
            wrong.append((kind, causal, seq_q, seq_kv))

    assert not wrong


def agrees(kernel: Kernel, sizes: Sizes, kind: str, causal: Causal | None) -> bool:
    """With the oracle, as the mask is and prepared, or with the call table."""
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)
    if is_refused(mask, causal, sizes):
        with pytest.raises(CallRefused):
            kernel(q, k, v, mask=mask, causal=causal)
        return True
    expected = attention(q, k, v, mask=mask, causal=causal)
    outs = [kernel(q, k, v, mask=mask, causal=causal), kernel(q, k, v, mask=prepare_mask(mask).mask, causal=causal)]
    return all(
        (out.double() - expected).abs().max().item() <= TOLERANCE[sizes.dtype] and bool((out[expected == 0] == 0).all())
        for out in outs
    )


@every_provider
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding", "block diagonal"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(provider: str, layout: str, kind: str) -> None:
    """Strides and alignment do not matter to the result."""
    q, k, v = (LAYOUTS[layout](x) for x in SIZES.qkv())
    mask = MASKS[kind](SIZES)

    out = bind(provider, SIZES)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


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


@every_provider
@pytest.mark.parametrize("kind", COMPUTED)
def test_a_call_waits_for_nothing(provider: str, kind: str) -> None:
    """Not even the first with a mask; nor do calls with a prepared one."""
    kernel, (q, k, v) = bind(provider, SIZES), SIZES.qkv()
    kernel(q, k, v, mask=MASKS[kind](SIZES))  # compiles, where a build compiles
    mask = MASKS[kind](SIZES)
    plan = prepare_mask(MASKS[kind](SIZES))

    with no_synchronisation():
        for _ in range(2):
            kernel(q, k, v, mask=mask)
            kernel(q, k, v, mask=plan.mask)


@every_provider
@pytest.mark.parametrize("kind", COMPUTED)
@pytest.mark.parametrize("is_used", [False, True], ids=["fresh mask", "used mask"])
def test_a_captured_call_replays(provider: str, kind: str, *, is_used: bool) -> None:
    """A CUDA graph of the call gives the eager result, and leaves nothing behind that only a replay would fill."""
    sizes, twin = replace(SIZES), replace(SIZES)
    kernel, (q, k, v), mask = bind(provider, sizes), sizes.qkv(), MASKS[kind](sizes)
    eager = kernel(*twin.qkv(), mask=MASKS[kind](twin))
    if is_used:
        kernel(q, k, v, mask=mask)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    with torch.cuda.graph(graph):
        captured = kernel(q, k, v, mask=mask)
    after = kernel(q, k, v, mask=mask)
    graph.replay()

    torch.testing.assert_close(captured, eager, rtol=0, atol=1e-2)
    torch.testing.assert_close(after, eager, rtol=0, atol=1e-2)


@every_provider
@pytest.mark.parametrize("kind", COMPUTED)
def test_traces_whole(provider: str, kind: str) -> None:
    """Under `fullgraph=True`, with the eager result."""
    torch.compiler.reset()
    kernel, mask, (q, k, v) = bind(provider, SIZES), MASKS[kind](SIZES), SIZES.qkv()

    out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

    torch.testing.assert_close(out, kernel(q, k, v, mask=mask), rtol=0, atol=1e-2)


@every_provider
@pytest.mark.parametrize("kind", ["suffix", "suffix, uniform", *PADDINGS])
def test_hidden_keys_may_hold_anything(provider: str, kind: str) -> None:
    """No number comes of values that are not finite where a mask hides them."""
    (q, k, v), mask = SIZES.qkv(), MASKS[kind](SIZES)
    assert mask is not None
    seen = masks.to_keep(mask, q.shape, k.shape).any(dim=2).expand(2, 1, 99)[:, 0].to(v.device)
    garbage = v.masked_fill(~seen[:, :, None, None], float("nan"))

    out = bind(provider, SIZES)(q, k, garbage, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


@every_provider
def test_sequences_without_keys(provider: str) -> None:
    """Where only the device knows of them: their rows are zeros, the others right."""
    (q, k, v), keep = SIZES.qkv(), torch.ones(2, 99, dtype=torch.bool, device="cuda:0")
    keep[0] = False
    keep[1, 0] = False
    mask = masks.key_padding(keep)

    out = bind(provider, SIZES)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)
    assert not out[0].any()


@every_provider
@pytest.mark.parametrize("kind", ["nothing", "suffix", "suffix, uniform", "key padding"])
def test_a_long_sequence(provider: str, kind: str) -> None:
    """As long as an image's: 4,352 tokens, 8 heads of 128."""
    sizes = replace(SIZES, heads=8, kv_heads=8, seq_q=4352, seq_kv=4352, head_dim=128)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = bind(provider, sizes)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-3)


@every_provider
def test_a_prepared_mask_of_a_video_makes_nothing_of_every_pair(provider: str) -> None:
    """16,025 tokens of which 14,100 are seen: far less memory than a byte for each pair."""
    sizes = replace(SIZES, batch=1, heads=2, kv_heads=2, seq_q=16_025, seq_kv=16_025)
    kernel, (q, k, v) = bind(provider, sizes), sizes.qkv()
    keep = torch.arange(16_025, device="cuda:0")[None] < 14_100
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()

    plan = prepare_mask(masks.key_and_query_padding(keep, keep))
    out = kernel(q, k, v, mask=plan.mask)

    assert torch.cuda.max_memory_allocated() - before < 16_025**2 // 4
    assert not out[:, 14_100:].any()
    torch.testing.assert_close(out[:, :14_100], kernel(*(x[:, :14_100].contiguous() for x in (q, k, v))))


@every_provider
def test_another_gpu_than_the_current_one(provider: str) -> None:
    """The kernel runs where its tensors are."""
    if torch.cuda.device_count() == 1:
        pytest.skip("there is one GPU here")
    sizes = replace(SIZES, device="cuda:1")
    (q, k, v), mask = sizes.qkv(), MASKS["suffix"](sizes)

    out = bind(provider, sizes)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


@pytest.mark.parametrize(
    ("provider", "module", "version", "fake"),
    [("fa3", "fa3_fwd_interface", "0.0.3", flash3_forward), ("fa4", "flash_attn.cute", "4.0.0b36", flash4)],
)
@pytest.mark.parametrize("function", WANTED)
def test_the_fakes_have_the_signatures_of_the_packages(
    provider: str, module: str, version: str, fake: object, function: str
) -> None:
    """Of the versions that they were written after."""
    origin = getattr(bind(provider, SIZES), "origin", None)
    if (getattr(origin, "source", ""), getattr(origin, "version", "")) != (module, version):
        pytest.skip(f"wanted {module} {version}, got {origin}")

    real, ours = (getattr(home, function) for home in (Packages().importer(module), fake))

    assert list(inspect.signature(ours).parameters) == list(inspect.signature(real).parameters)
