"""`TRTLLM_ATTN`, and the CuTe DSL kernels of `FLASHINFER_ATTN`, on a datacenter Blackwell against the oracle."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
import torch

from backends import skip_softmax, trtllm
from backends.interface import Kernel
from tests.backends.cases import ALIGNMENTS, MASKS
from tests.backends.fakes.flashinfer_binding import refuses
from tests.gpu.test_flashinfer import BASE, REASON, SETS, TOLERANCE, bind, error_of

DATACENTER_BLACKWELL = 10
"""The major compute capability that these kernels are made for."""
OTHER = "the device is no datacenter Blackwell"
OFF = REASON is None and torch.cuda.get_device_capability()[0] != DATACENTER_BLACKWELL
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None or OFF, reason=REASON or OTHER)]
EIGHT_BITS = 0.15
"""For values of three bits behind the point, averages of some dozen standard normal numbers."""


@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
def test_values_in_eight_bits(kind: str) -> None:
    """The CuTe DSL kernel takes them beside keys of sixteen; close, and not exact."""
    kernel = bind("flashinfer-cute-dsl", dtype_vo="fp8_e4m3")

    assert 1e-2 < error_of(kernel, BASE, MASKS[kind](BASE)) < EIGHT_BITS


@pytest.mark.parametrize("name", ["bfloat16-128", "float16-64"])
def test_the_cute_dsl_kernels(name: str) -> None:
    """Every cell that they take."""
    kernel, wrong = bind("flashinfer-cute-dsl", SETS[name]), []

    for kind, causal in product(MASKS, ALIGNMENTS):
        if not refuses("flashinfer-cute-dsl", kind, causal, SETS[name]):
            error = error_of(kernel, SETS[name], MASKS[kind](SETS[name]), causal)
            wrong += [(kind, causal, error)] * (not error <= TOLERANCE[SETS[name].dtype])

    assert not wrong


def bind_trtllm(**spec: object) -> Kernel:
    """The real kernel of trtllm-gen."""
    return trtllm.BACKEND.bind(spec, BASE.geometry)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
def test_trtllm(kv_heads: int) -> None:
    """Lengths, documents and causal calls."""
    sizes, wrong = replace(BASE, kv_heads=kv_heads), []
    kernel = trtllm.BACKEND.bind({}, sizes.geometry)

    for kind, causal in [("nothing", None), ("suffix", None), ("block diagonal", None), ("nothing", "bottom_right")]:
        error = error_of(kernel, sizes, MASKS[kind](sizes), "bottom_right" if causal else None)
        wrong += [(kind, causal, error)] * (not error <= 5e-2)

    assert not wrong


@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
def test_trtllm_quantised(kind: str) -> None:
    """Close, and not exact."""
    kernel = bind_trtllm(quant={"dtype_qk": "fp8_e4m3"})

    assert 5e-3 < error_of(kernel, BASE, MASKS[kind](BASE)) < EIGHT_BITS


@pytest.mark.parametrize(("threshold", "least", "most"), [(1e-9, 0.0, 1e-2), (2.0, 2e-2, 10.0)])
def test_trtllm_skips(threshold: float, least: float, most: float) -> None:
    """Nothing to speak of at 1e-9; at 2 the output is another, and finite."""
    sizes = replace(BASE, batch=1, seq_q=1024, seq_kv=4096)
    q, k, v = sizes.qkv()

    out = bind_trtllm(skip_softmax={"threshold": threshold})(q, k, v).double()

    expected = skip_softmax.attention(q, k, v, factor=None).out
    assert least <= (out - expected).norm() / expected.norm() < most
