"""Skip-Softmax through `TRTLLM_ATTN`: which factor the kernel is given, at which timestep, and what it computes."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import pytest
import torch

from backends import masks, skip_softmax
from backends.calibration import Calibration, ComponentCurve, Curve
from backends.denoise import denoise_step
from backends.reference import attention
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes import flashinfer_trtllm as fake
from tests.backends.fakes.flashinfer_binding import bind_trtllm, trtllm_backend

SIZES = Sizes(head_dim=128, dtype=torch.bfloat16)
SPARSE = replace(SIZES, batch=1, heads=2, kv_heads=2, seq_q=256, seq_kv=640)
CALIBRATION = Calibration((ComponentCurve("transformer", Curve(2.0, 1.0), ("blocks.0.*",)),))


def spec(layer: str | None = None, **fields: float) -> dict[str, object]:
    """The block, and the calibration where there is a layer."""
    calibrated = {} if layer is None else {"calibration": CALIBRATION, "layer": layer}
    return {"skip_softmax": fields, **calibrated}


@pytest.mark.parametrize(
    ("given", "factor"),
    [
        (spec(), None),
        (spec(disabled_until_timestep=0.0), None),
        (spec(threshold=0.0), None),
        (spec(threshold=0.01), 0.13),
        (spec("transformer.blocks.1.attn1", threshold=0.01), 0.13),
        (spec("transformer.blocks.1.attn1", target_sparsity=0.5), 2 * math.exp(0.5)),
        (spec("transformer.blocks.1.attn1", target_sparsity=0.0), 2.0),
        (spec("transformer.blocks.0.attn1", target_sparsity=0.5), None),
        (spec("transformer_2.blocks.1.attn1", target_sparsity=0.5), None),
    ],
)
def test_the_factor(given: dict[str, object], factor: float | None) -> None:
    """A threshold times the keys, or a point of the layer's curve; none for a layer that stays dense."""
    bind_trtllm(SIZES, given)(*SIZES.qkv())

    assert list(fake.FACTORS) == [None if factor is None else pytest.approx(factor)]


@pytest.mark.parametrize("seq_kv", [64, 640])
@pytest.mark.parametrize("lengths", [None, [40, 20]])
def test_a_threshold_holds_for_any_length(seq_kv: int, lengths: list[int] | None) -> None:
    """The kernel divides by the longest sequence of the call, so the factor grows with it."""
    sizes = replace(SIZES, seq_kv=seq_kv)
    mask = None if lengths is None else masks.key_lengths(lengths, seq_kv)

    bind_trtllm(sizes, spec(threshold=0.05))(*sizes.qkv(), mask=mask)

    longest = seq_kv if lengths is None else 40
    assert fake.FACTORS[0] is not None
    assert fake.FACTORS[0] / longest == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("until", "t", "sparse"),
    [(0.6, 0.9, False), (0.6, 0.6, True), (0.6, 0.3, True), (1.0, 1.0, True), (0.0, 0.9, True), (0.0, None, True)],
)
def test_the_gate(until: float, t: float | None, sparse: bool) -> None:
    """Dense above the timestep, sparse from it on; a gate of 0 looks at no timestep."""
    kernel = bind_trtllm(SIZES, spec(threshold=0.01, disabled_until_timestep=until))
    q, k, v = SIZES.qkv()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if t is None:
            kernel(q, k, v)
        else:
            with denoise_step(t):
                kernel(q, k, v)

    assert [factor is not None for factor in fake.FACTORS] == [sparse]


def test_a_timestep_that_nobody_said() -> None:
    """Keeps the calls dense, with one warning for all layers; once it is said they are sparse."""
    backend = trtllm_backend()
    kernels = [bind_trtllm(SIZES, spec(threshold=0.01, disabled_until_timestep=0.6), backend) for _ in range(2)]
    q, k, v = SIZES.qkv()
    message = (
        "`TRTLLM_ATTN`: `disabled_until_timestep` is 0.6 and nobody has said which timestep it is "
        r"\(see `backends.denoise.denoise_step`\): calls stay dense"
    )

    with pytest.warns(RuntimeWarning, match=f"^{message}$") as said:
        _ = [kernel(q, k, v) for kernel in kernels * 2]
    with denoise_step(0.5):
        kernels[0](q, k, v)

    assert len(said) == 1
    assert list(fake.FACTORS) == [None, None, None, None, pytest.approx(0.13)]


def test_binding_asks_for_no_timestep() -> None:
    """A trial of the kernel is neither dense nor a reason to warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bind_trtllm(SIZES, spec(threshold=0.01, disabled_until_timestep=0.6))


def test_compiled_code_follows_the_timestep() -> None:
    """The gate is read when the kernel runs, without tracing anew."""
    torch.compiler.reset()
    kernel = bind_trtllm(SIZES, spec(threshold=0.01, disabled_until_timestep=0.5))
    compiled, (q, k, v) = torch.compile(kernel, fullgraph=True, backend="aot_eager"), SIZES.qkv()

    for t in (0.9, 0.7, 0.5, 0.2):
        with denoise_step(t):
            compiled(q, k, v)

    assert [factor is not None for factor in fake.FACTORS] == [False, False, True, True]


@pytest.mark.parametrize("threshold", [1e-9, 0.05, 0.4])
def test_the_kernel_agrees_with_the_reference(threshold: float) -> None:
    """Two implementations of the same rule, of which the fake's knows nothing of streaming."""
    q, k, v = SPARSE.qkv()
    k[:, 128:384] *= 0.05
    q = q * 3

    out = bind_trtllm(SPARSE, spec(threshold=threshold))(q, k, v)

    expected = skip_softmax.attention(q, k, v, factor=threshold * 640)
    torch.testing.assert_close(out.double(), expected.out, rtol=0, atol=5e-2)
    assert (expected.skipped > 0) == (threshold > 0.01)


def test_a_threshold_of_two_is_not_dense() -> None:
    """And finite: the first tile is always read."""
    q, k, v = SPARSE.qkv()

    out = bind_trtllm(SPARSE, spec(threshold=2.0))(q, k, v)

    assert bool(out.isfinite().all())
    assert (out.double() - attention(q, k, v)).norm() > 0.02 * attention(q, k, v).norm()


@pytest.mark.parametrize("kind", ["nothing", "suffix", "block diagonal"])
def test_quantised_and_skipped(kind: str) -> None:
    """Both at once: one makes a tile cheaper, the other makes them fewer."""
    sizes = replace(SIZES, seq_q=40, seq_kv=99)
    kernel = bind_trtllm(sizes, {"quant": {"dtype_qk": "int8"}, **spec(threshold=1e-6)})
    (q, k, v), mask = sizes.qkv(), MASKS[kind](sizes)

    out = kernel(q, k, v, mask=mask)

    assert set(fake.QUANTISED) == {torch.int8}
    assert None not in fake.FACTORS
    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=0.08)
