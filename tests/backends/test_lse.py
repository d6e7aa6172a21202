"""The log-sum-exp of every kernel over the fake of its package, against the definition in float64."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, cast

import pytest
import torch

from backends import _sdpa_lse, masks
from backends._flash_operators import Functions, number_of
from backends._sage import SageKernel
from backends._sdpa import SdpaKernel, bound_geometry
from backends.interface import CallRefused, Geometry
from backends.reference import log_sum_exp
from backends.sage import SageAttention
from tests.backends.cases import ALIGNMENTS, BINDERS, MASKS, Sizes
from tests.backends.fakes import flash_packages, sage2
from tests.backends.fakes.flashinfer_binding import PROVIDERS, bind_flashinfer, bind_trtllm
from tests.backends.fakes.sage_bound import FAKES, installed, untried

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal, Kernel, LseKernel
    from backends.masks import Mask

HALF = Sizes(dtype=torch.bfloat16)
INF = float("inf")
LENGTHS = [(9, 13), (13, 9), (9, 9)]


@dataclass(frozen=True)
class Case:
    """How a kernel is bound, sizes that it takes, and how far its log-sum-exp may be from the definition's."""

    bind: Callable[[Sizes], Kernel]
    sizes: Sizes = HALF
    most: float = 1e-4
    kv_heads: tuple[int, ...] = (4, 2, 1)
    lengths: tuple[tuple[int, int], ...] = tuple(LENGTHS)


def of_flash(fake: str) -> Case:
    """One build of FlashAttention."""
    return Case(lambda sizes: flash_packages.bind(fake, sizes))


def of_flashinfer(provider: str) -> Case:
    """One build of FlashInfer."""
    return Case(lambda sizes: bind_flashinfer(sizes, provider))


SAGE2 = [name for name in FAKES if name.startswith("2")]
CASES: dict[str, Case] = {
    **{name: Case(bind, Sizes()) for name, bind in BINDERS.items()},
    **{name: of_flash(name) for name in flash_packages.ALL},
    **{name: of_flashinfer(name) for name in PROVIDERS},
    "trtllm": Case(bind_trtllm, replace(HALF, head_dim=128)),
    **{
        f"sage {name}": Case(
            FAKES[name].bind, replace(HALF, head_dim=64), 0.15, lengths=(*LENGTHS, (9, 128), (130, 130), (128, 128))
        )
        for name in SAGE2
    },
}
every = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def with_lse(kernel: Kernel) -> Callable[..., tuple[Tensor, Tensor]]:
    """The kernel's way to give its log-sum-exp."""
    return cast("LseKernel", kernel).with_lse


def is_right(lse: Tensor, truth: Tensor, most: float) -> bool:
    """-inf where the definition has it and there alone, float32, in one piece of memory, and near it elsewhere."""
    same = torch.equal(lse == -INF, truth == -INF) and (lse.dtype, lse.shape) == (torch.float32, truth.shape)
    error = (lse.double() - truth).masked_fill(truth == -INF, 0.0).abs().max().item()
    return same and lse.is_contiguous() and error <= most


@every
def test_every_cell_agrees_with_the_definition(case: Case) -> None:
    """Every call that a kernel takes it takes with the log-sum-exp too, with the same output; others it refuses."""
    wrong = []
    kernels = {kv_heads: case.bind(replace(case.sizes, kv_heads=kv_heads)) for kv_heads in case.kv_heads}

    for kind, causal, kv_heads, (seq_q, seq_kv) in product(MASKS, ALIGNMENTS, case.kv_heads, case.lengths):
        sizes = replace(case.sizes, kv_heads=kv_heads, seq_q=seq_q, seq_kv=seq_kv)
        (q, k, v), mask, kernel = sizes.qkv(), MASKS[kind](sizes), kernels[kv_heads]
        k = k + 1
        try:
            expected = kernel(q, k, v, mask=mask, causal=causal)
        except CallRefused as refusal:
            with pytest.raises(CallRefused) as caught:
                with_lse(kernel)(q, k, v, mask=mask, causal=causal)
            agrees = str(caught.value) == str(refusal)
        else:
            out, lse = with_lse(kernel)(q, k, v, mask=mask, causal=causal)
            near = torch.allclose(out.double(), expected.double(), rtol=0, atol=0.02)
            agrees = near and is_right(lse, log_sum_exp(q, k, mask=mask, causal=causal), case.most)
        if not agrees:
            wrong.append((kind, causal, kv_heads, seq_q, seq_kv))

    assert not wrong


@every
@pytest.mark.parametrize("scale", [0.5, -0.25, 0.0, 2.0**-12])
def test_of_scaled_scores(case: Case, scale: float) -> None:
    """Whatever the sign of the scale, and however small it is."""
    (q, k, v), kernel = case.sizes.qkv(), case.bind(case.sizes)

    _, lse = with_lse(kernel)(q, k, v, scale=scale)

    assert is_right(lse, log_sum_exp(q, k, scale=scale), case.most)


@every
@pytest.mark.parametrize(("batch", "seq_q", "seq_kv"), [(0, 9, 13), (2, 0, 13), (2, 9, 0)])
def test_empty_sizes(case: Case, batch: int, seq_q: int, seq_kv: int) -> None:
    """Without a key it is -inf, and the output zero."""
    sizes = replace(case.sizes, batch=batch, seq_q=seq_q, seq_kv=seq_kv)
    q, k, v = sizes.qkv()

    out, lse = with_lse(case.bind(sizes))(q, k, v)

    assert torch.equal(out, torch.zeros_like(q))
    assert torch.equal(lse, torch.full((batch, 4, seq_q), -INF))


@every
def test_a_batch_without_keys(case: Case) -> None:
    """Beside one that has some."""
    (q, k, v), mask = case.sizes.qkv(), masks.key_lengths([0, 7], 13)

    out, lse = with_lse(case.bind(case.sizes))(q, k, v, mask=mask)

    assert is_right(lse, log_sum_exp(q, k, mask=mask), case.most)
    assert not out[0].any()


@every
@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding", "block diagonal"])
def test_traces_whole(case: Case, kind: str) -> None:
    """Under `fullgraph=True`, with the eager result."""
    torch.compiler.reset()
    (q, k, v), mask, kernel = case.sizes.qkv(), MASKS[kind](case.sizes), case.bind(case.sizes)
    try:
        expected = with_lse(kernel)(q, k, v, mask=mask)
    except CallRefused as refusal:
        pytest.skip(str(refusal))

    got = torch.compile(with_lse(kernel), fullgraph=True, backend="aot_eager")(q, k, v, mask=mask)

    torch.testing.assert_close(got, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("case", [CASES[name] for name in ("fa3", "flashinfer-fa2", "sage 2, sm90")])
def test_the_graph_of_a_call_without_it_has_no_trace_of_it(case: Case) -> None:
    """And that of a call with it holds one operator that gives both."""
    torch.compiler.reset()
    graphs: list[str] = []

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> object:
        graphs.append(graph.code)
        return graph.forward

    sizes = replace(case.sizes, seq_q=128, seq_kv=128, batch=1)
    kernel = case.bind(sizes)
    torch.compile(kernel, fullgraph=True, backend=backend)(*sizes.qkv())
    torch.compile(with_lse(kernel), fullgraph=True, backend=backend)(*sizes.qkv())

    assert [code.count("attention_selector") for code in graphs] == [1, 1]
    assert "_lse" not in graphs[0]


@every
def test_gradients_are_refused(case: Case) -> None:
    """What would flow back through it would be lost."""
    q, k, v = (x.requires_grad_() for x in case.sizes.qkv())
    kernel = case.bind(case.sizes)

    with pytest.raises(CallRefused, match=r"^`return_lse`: wanted tensors without gradients"):
        with_lse(kernel)(q, k, v)
    with torch.no_grad():
        assert with_lse(kernel)(q, k, v)[1].isfinite().all()


def test_the_parts_of_a_sequence_are_merged() -> None:
    """What it is for: outputs over two parts of the keys give the output over all of them."""
    case = CASES["TORCH_SDPA"]
    (q, k, v), kernel = case.sizes.qkv(), case.bind(case.sizes)
    parts = [with_lse(kernel)(q, k[:, keys], v[:, keys]) for keys in (slice(0, 5), slice(5, 13))]

    weights = torch.softmax(torch.stack([lse for _, lse in parts]), dim=0).transpose(2, 3)[..., None]

    merged = (torch.stack([out for out, _ in parts]) * weights).sum(dim=0)
    torch.testing.assert_close(merged, kernel(q, k, v), rtol=0, atol=1e-6)


# --- what gives none ---

FAULTY_SAGE = {
    "1": "`return_lse` of `SageAttention`: wanted a kernel that gives the log-sum-exp, got one whose package gives the "
    "output alone",
    "3": "`return_lse` of `SageAttention`: wanted a kernel that gives the log-sum-exp, got one whose package gives the "
    "output alone",
}


@pytest.mark.parametrize("name", FAULTY_SAGE)
def test_a_package_without_one_is_refused(name: str) -> None:
    """And the call without it runs."""
    sizes = replace(HALF, head_dim=64)
    kernel = FAKES[name].bind(sizes)

    with pytest.raises(CallRefused) as caught:
        with_lse(kernel)(*sizes.qkv())

    assert str(caught.value) == FAULTY_SAGE[name]
    assert kernel(*sizes.qkv()).isfinite().all()


@pytest.mark.parametrize("corrects", [True, False])
def test_a_release_that_forgets_the_mean_of_the_keys_is_found_when_bound(corrects: bool) -> None:
    """It is off by each query's score of that mean; its output is right, and still runs."""
    sizes = replace(HALF, head_dim=64)
    backend = SageAttention(importer=installed(sage2.Sage2("sm90", corrects=corrects)), device="cpu")
    kernel = backend.bind({}, sizes.geometry)
    assert isinstance(kernel, SageKernel)

    if corrects:
        assert kernel.with_lse(*sizes.qkv())[1].isfinite().all()
    else:
        with pytest.raises(CallRefused, match=r"got one whose log-sum-exp was off by \d.* when bound, wanted at most"):
            kernel.with_lse(*sizes.qkv())
    assert kernel(*sizes.qkv()).isfinite().all()


@pytest.mark.parametrize(
    ("spec", "got"),
    [
        ({"quant": {"dtype_qk": "int8"}}, "one with `quant`, which takes the mean off the keys and shifts it"),
        ({"skip_softmax": {"threshold": 0.1}}, "one with `skip_softmax`, which leaves tiles out of it"),
    ],
)
def test_trtllm_refuses_what_moves_it(spec: dict[str, object], got: str) -> None:
    """Dense it gives it."""
    sizes = replace(HALF, head_dim=128, seq_kv=16)

    with pytest.raises(CallRefused) as caught:
        bind_trtllm(sizes, spec).with_lse(*sizes.qkv())

    assert str(caught.value) == f"`return_lse` of `TRTLLM_ATTN`: wanted a kernel that gives the log-sum-exp, got {got}"


def test_a_build_that_cannot_be_asked_is_refused() -> None:
    """One that returns a tensor and has no keyword for more."""
    kernel = flash_packages.bind("fa2", HALF)

    def alone(q: Tensor, k: Tensor, v: Tensor, **_: object) -> Tensor:
        return q.clone()

    number = number_of(Functions(alone, alone))
    kernel = replace(kernel, build=replace(kernel.build, number=number))

    for mask in (None, masks.key_lengths([5, 7], 13)):
        with pytest.raises(CallRefused, match="got a build that gives the output alone and takes none of `return_lse`"):
            kernel.with_lse(*HALF.qkv(), mask=mask)


def test_a_launch_without_one_is_refused() -> None:
    """As of a kernel that another package makes over torch's function."""
    kernel = SdpaKernel(bound_geometry("ANY", {}, HALF.geometry), lambda q, *_, **__: q)

    with pytest.raises(CallRefused, match="got a launch that gives the output alone"):
        kernel.with_lse(*HALF.qkv())


# --- torch's operators ---


def test_other_devices_are_refused() -> None:
    """Where torch has no operator that gives it."""
    q = torch.empty(2, 4, 9, 16, device="meta")

    with pytest.raises(CallRefused, match="got float32 on `meta`, for which torch has no operator that gives it"):
        _sdpa_lse.by_device(q, q, q, attn_mask=None, is_causal=False, scale=None)


@pytest.mark.parametrize("launch", [_sdpa_lse.by_cudnn, _sdpa_lse._efficient])
@pytest.mark.parametrize("head_dim", [64, 72, 100])
def test_the_operators_for_gpus_are_called_as_they_are_declared(launch: _sdpa_lse.LseLaunch, head_dim: int) -> None:
    """Shapes alone, which torch knows without a GPU: with grouped heads, masks of every width, and a filled-up size."""
    q = torch.empty(2, 8, 9, head_dim, device="meta", dtype=torch.bfloat16)
    k = torch.empty(2, 8 if launch is _sdpa_lse.by_cudnn else 2, 13, head_dim, device="meta", dtype=torch.bfloat16)
    keeps = [torch.empty(shape, dtype=torch.bool, device="meta") for shape in ((2, 1, 1, 13), (1, 8, 9, 13), (9, 13))]

    for mask in (None, *keeps, torch.empty(1, 1, 9, 13, dtype=torch.bfloat16, device="meta")):
        out, lse = launch(q, k, k, attn_mask=mask, is_causal=False, scale=None)
        assert (out.shape, lse.shape, lse.dtype) == (q.shape, q.shape[:3], torch.float32)


def test_double_precision_is_given_in_single() -> None:
    """As every log-sum-exp is; the output keeps its precision."""
    sizes = Sizes()
    q, k, v = sizes.qkv()

    out, lse = with_lse(BINDERS["TORCH_SDPA"](sizes))(q, k, v)

    assert (out.dtype, lse.dtype) == (torch.float64, torch.float32)


def wide(mask: Mask | None, causal: Causal | None, sizes: Sizes) -> float:
    """The error of a half-precision call that is computed in float32."""
    q, k, v = sizes.qkv()
    _, lse = with_lse(BINDERS["TORCH_SDPA"](sizes))(q, k, v, mask=mask, causal=causal)
    return (lse.double() - log_sum_exp(q, k, mask=mask, causal=causal)).abs().max().item()


def test_a_bias_that_half_precision_does_not_hold() -> None:
    """Is added in float32."""
    bias = torch.randn(2, 4, 9, 13, generator=torch.Generator().manual_seed(0)) * 100

    assert wide(masks.additive(bias), None, HALF) < 1e-4


def test_the_trial_is_left_out_for_what_is_untried() -> None:
    """A kernel over a run that gives it has it, whatever the trial."""
    geometry = Geometry(64, 4, 4, "bfloat16", "cpu")
    kernel = SageAttention(importer=installed(sage2.Sage2()), device="cpu", trial=untried).bind({}, geometry)

    assert isinstance(kernel, SageKernel)
    assert kernel.lse_run == kernel.run
