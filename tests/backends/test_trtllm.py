"""`TRTLLM_ATTN` over a fake of its kernel, against the float64 oracle: dense and quantised."""

from __future__ import annotations

import warnings
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks, trtllm
from backends.interface import CallRefused, Causal
from backends.reference import attention
from backends.trtllm import TrtllmAttention
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.backends.fakes import flashinfer_trtllm as fake
from tests.backends.fakes.flashinfer_binding import TRTLLM, bind_trtllm, trtllm_backend
from tests.backends.fakes.flashinfer_numbers import alone

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SIZES = Sizes(head_dim=128, dtype=torch.bfloat16)
LONG = replace(SIZES, seq_q=40, seq_kv=99)
LENGTHS = {"square": (9, 9), "more keys": (9, 13), "more queries": (13, 9)}
TAKEN = ("nothing", "none", "all_keep", "suffix", "suffix, uniform", "block diagonal")
UNMASKED = ("nothing", "none", "all_keep")
SAGE: dict[str, dict[str, object]] = {
    "int8": {"dtype_qk": "int8"},
    "fp8_e4m3": {"dtype_qk": "fp8_e4m3"},
    "int8, 4 × 4": {"dtype_qk": "int8", "q_block_size": 4, "k_block_size": 4},
    "int8, 16 × 1": {"dtype_qk": "int8", "q_block_size": 16, "k_block_size": 1},
}
SAGE_TOLERANCE = {"int8": 0.08, "fp8_e4m3": 0.15}
"""For averages of few standard normal values, eight bits each."""


@pytest.mark.parametrize("causal", ALIGNMENTS)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("kind", MASKS)
def test_every_cell_agrees_or_is_refused(kind: str, kv_heads: int, lengths: str, causal: Causal | None) -> None:
    """Lengths and documents run, every other mask is refused; causal runs alone, aligned bottom right."""
    seq_q, seq_kv = LENGTHS[lengths]
    sizes = replace(SIZES, kv_heads=kv_heads, seq_q=seq_q, seq_kv=seq_kv)
    kernel, (q, k, v), mask = bind_trtllm(sizes), sizes.qkv(), MASKS[kind](sizes)
    misaligned = causal == "top_left" and seq_q != seq_kv
    if kind not in TAKEN or (causal is not None and kind not in UNMASKED) or misaligned:
        with pytest.raises(CallRefused):
            kernel(q, k, v, mask=mask, causal=causal)
        return

    out = kernel(q, k, v, mask=mask, causal=causal, scale=0.1)

    expected = attention(q, k, v, mask=mask, causal=causal, scale=0.1)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=5e-2)
    assert bool((out[expected == 0] == 0).all())
    assert fake.WAITS == []


@pytest.mark.parametrize("scale", [None, -0.1, 0.0, 1e-5, 0.3])
@pytest.mark.parametrize("kind", ["nothing", "suffix"])
def test_every_scale(kind: str, scale: float | None) -> None:
    """It is handed over as the scale of the first product."""
    (q, k, v), mask = SIZES.qkv(), MASKS[kind](SIZES)

    out = bind_trtllm(SIZES)(q, k, v, mask=mask, scale=scale)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask, scale=scale), rtol=0, atol=5e-2)


EMPTY = {
    "no batch": (replace(SIZES, batch=0), None),
    "no queries": (replace(SIZES, seq_q=0), None),
    "no keys": (replace(SIZES, seq_kv=0), None),
    "lengths of zero": (SIZES, masks.key_lengths(0, 13)),
    "one length of zero": (SIZES, masks.key_lengths([0, 5], 13)),
    "empty documents": (SIZES, masks.block_diagonal([0, 4, 5, 0], [3, 0, 10, 0])),
}


@pytest.mark.parametrize("quant", [{}, {"quant": {"dtype_qk": "int8", "k_block_size": 1}}], ids=["dense", "sage"])
@pytest.mark.parametrize("case", EMPTY)
def test_what_sees_nothing_is_zero(case: str, quant: dict[str, object]) -> None:
    """The kernel, told that no sequence is empty, is given none."""
    sizes, mask = EMPTY[case]
    q, k, v = sizes.qkv()

    out = bind_trtllm(sizes, quant)(q, k, v, mask=mask)

    expected = attention(q, k, v, mask=mask)
    torch.testing.assert_close(out.double(), expected, rtol=0, atol=0.1)
    assert bool((out[expected == 0] == 0).all())


@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
@pytest.mark.parametrize("quant", SAGE)
def test_quantised(quant: str, kind: str, kv_heads: int) -> None:
    """Close, and not exact: the kernel had eight bits. Scales are those of the sequences, laid end to end."""
    sizes = replace(LONG, kv_heads=kv_heads)
    kernel = bind_trtllm(sizes, {"quant": SAGE[quant]})
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = kernel(q, k, v, mask=mask)

    error = (out.double() - attention(q, k, v, mask=mask)).abs().max()
    assert 5e-3 < error < SAGE_TOLERANCE[quant.split(",", maxsplit=1)[0]]
    assert set(fake.QUANTISED) == {torch.int8 if quant.startswith("int8") else torch.float8_e4m3fn}


def test_a_mean_of_the_keys_does_not_matter() -> None:
    """Keys far from zero would lose their digits; they are centred first, in a copy."""
    q, k, v = LONG.qkv()
    k, before = k + 40, (k + 40).clone()

    out = bind_trtllm(LONG, {"quant": {"dtype_qk": "int8"}})(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=0, atol=0.1)
    assert torch.equal(k, before)


@pytest.mark.parametrize("block", [{"q_block_size": 4}, {}, {"dtype_qk": None}])
def test_a_block_without_a_type_quantises_nothing(block: dict[str, object]) -> None:
    """Sizes alone are no wish for eight bits."""
    q, k, v = LONG.qkv()

    bind_trtllm(LONG, {"quant": block})(q, k, v)

    assert list(fake.QUANTISED) == [torch.bfloat16]


def test_a_sequence_shorter_than_a_block_is_not_quantised() -> None:
    """It would not be finite: the call runs dense, and one warning for all layers says so."""
    backend = trtllm_backend()
    kernels = [bind_trtllm(LONG, {"quant": {"dtype_qk": "int8"}}, backend) for _ in range(2)]
    (q, k, v), mask = LONG.qkv(), masks.key_lengths([99, 15], 99)
    message = "a sequence of 15 keys is shorter than `k_block_size`, 16: such calls are not quantised"

    with pytest.warns(RuntimeWarning, match=f"^`TRTLLM_ATTN`: {message}$") as said:
        outs = [kernel(q, k, v, mask=mask) for kernel in kernels * 2]

    assert len(said) == 1
    for out in outs:
        torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)
    assert set(fake.QUANTISED) == {torch.bfloat16}


def test_a_sequence_of_one_block_is_quantised() -> None:
    """As many keys as a block has are enough."""
    sizes = replace(SIZES, seq_kv=16)

    bind_trtllm(sizes, {"quant": {"dtype_qk": "int8"}})(*sizes.qkv())

    assert list(fake.QUANTISED) == [torch.int8]


def oldest(*, return_lse: bool, **options: object) -> Tensor:
    """A version without options for empty sequences, scales of blocks and skipping."""
    return alone(fake.trtllm_ragged_attention_deepseek(return_lse=return_lse, **options))  # type: ignore[arg-type]


def mirrored(
    *, q_seq_lens_cpu: Tensor | None = None, kv_seq_lens_cpu: Tensor | None = None, **options: object
) -> Tensor:
    """A version that is told the lengths on the host, and checks them."""
    assert q_seq_lens_cpu is not None
    assert kv_seq_lens_cpu is not None
    assert int(q_seq_lens_cpu.sum()) == options["query"].shape[0]  # type: ignore[attr-defined]
    assert int(kv_seq_lens_cpu.sum()) == options["key"].shape[0]  # type: ignore[attr-defined]
    return alone(
        fake.trtllm_ragged_attention_deepseek(
            q_seq_lens_cpu=q_seq_lens_cpu,
            kv_seq_lens_cpu=kv_seq_lens_cpu,
            **options,  # type: ignore[arg-type]
        )
    )


def unsmoothed(query: Tensor, key: Tensor, value: Tensor, **options: object) -> tuple[Tensor, ...]:
    """A version that has no `smooth_k` and gives six results."""
    return fake.trtllm_sage_attention_quantize(query, key, value, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(("attend", "waits"), [(oldest, 1), (mirrored, 0)])
def test_older_versions(attend: Callable[..., Tensor], waits: int) -> None:
    """What a version does not know it is not told; with one that is told lengths, nothing waits."""
    module = SimpleNamespace(trtllm_ragged_attention_deepseek=attend)
    kernel, (q, k, v), mask = bind_trtllm(SIZES, backend=trtllm_backend(module)), SIZES.qkv(), MASKS["suffix"](SIZES)

    out = kernel(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)
    assert len(fake.WAITS) == waits


def test_a_quantiser_that_does_not_centre_keys() -> None:
    """Six results are as good as seven."""
    module = SimpleNamespace(**{**vars(TRTLLM), "trtllm_sage_attention_quantize": unsmoothed})
    q, k, v = LONG.qkv()

    out = bind_trtllm(LONG, {"quant": {"dtype_qk": "int8"}}, trtllm_backend(module))(q, k, v)

    torch.testing.assert_close(out.double(), attention(q, k, v), rtol=0, atol=0.08)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2],
    "fused heads": lambda x: torch.stack([x + 1, x, x + 2], dim=2)[:, :, 1],
    "sliced from a longer sequence": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("batch", [1, 2])
def test_any_memory_layout(layout: str, kind: str, batch: int) -> None:
    """The kernel reads the query as if it were dense, so it is."""
    sizes = replace(SIZES, batch=batch)
    q, k, v = (LAYOUTS[layout](x) for x in sizes.qkv())
    mask = MASKS[kind](sizes)

    out = bind_trtllm(sizes)(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=5e-2)


@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
@pytest.mark.parametrize("quant", [{}, {"quant": {"dtype_qk": "int8", "k_block_size": 4}}], ids=["dense", "sage"])
def test_traces_whole(kind: str, quant: dict[str, object]) -> None:
    """Under `fullgraph=True`, with the eager result."""
    torch.compiler.reset()
    kernel, mask, (q, k, v) = bind_trtllm(SIZES, quant), MASKS[kind](SIZES), SIZES.qkv()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        out = torch.compile(kernel, fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

        torch.testing.assert_close(out, kernel(q, k, v, mask=mask), rtol=0, atol=1e-6)


def test_layers_share_one_workspace() -> None:
    """Of zeros, and left so."""
    backend = trtllm_backend()
    for _ in range(3):
        bind_trtllm(SIZES, backend=backend)(*SIZES.qkv())

    assert backend.workspaces.held() == {("cpu", "trtllm"): 256}
    assert not backend.workspaces.get(torch.device("cpu"), "trtllm", 256).any()


def test_the_shipped_backend_imports_the_real_package() -> None:
    """Nothing else is put in its place."""
    shipped = trtllm.BACKEND
    assert isinstance(shipped, TrtllmAttention)
    assert (shipped.name, shipped.device_type, shipped.workspace_bytes) == ("TRTLLM_ATTN", "cuda", 394 * 2**20)
