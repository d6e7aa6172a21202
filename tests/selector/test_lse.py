"""`return_lse`: what a call that asks for the log-sum-exp gets, and who may run it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from backends import masks, prepare_mask
from backends.interface import CallRefused
from backends.reference import attention as definition
from backends.reference import log_sum_exp
from backends.torch_sdpa import BACKEND as SDPA
from selector import Attention, SelectionRefusedError, Selector, attention
from selector.dispatch import plan_for
from tests.backends.broken import Plain
from tests.selector.conftest import CPU, FA2, FI, SAGE1, SAGE2, SAGE3, cuda, decide


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Compile anew in each test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def cpu() -> Selector:
    """Give a selector of a machine without a GPU."""
    return Selector(facts=CPU, environment={})


def tensors(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Give q, k and v, with two heads for each KV head."""
    generator = torch.Generator().manual_seed(0)
    sizes = ((9, 4), (13, 2), (13, 2))
    q, k, v = (torch.randn(2, length, heads, 64, generator=generator).to(dtype) for length, heads in sizes)
    return q, k, v


def check(pair: tuple[Tensor, Tensor], call: tuple[Tensor, Tensor, Tensor], **more: Any) -> None:  # noqa: ANN401
    """Compare an output and a log-sum-exp with the definition."""
    out, lse = pair
    q, k, v = call
    torch.testing.assert_close(out.double(), definition(q, k, v, **more), atol=1e-5, rtol=1e-5)
    assert (lse.dtype, lse.shape) == (torch.float32, (2, 4, 9))
    torch.testing.assert_close(lse.double(), log_sum_exp(q, k, **more), atol=1e-5, rtol=1e-5)


KEEP = torch.rand(2, 13, generator=torch.Generator().manual_seed(1)) < 0.7
MASKS: dict[str, Callable[[], masks.Mask | None]] = {
    "none": lambda: None,
    "lengths": lambda: masks.key_lengths([0, 12], 13),
    "padding": lambda: masks.key_and_query_padding(KEEP[:, :9], KEEP),
    "bias": lambda: masks.additive(torch.randn(2, 4, 9, 13, generator=torch.Generator().manual_seed(2))),
}


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("causal", [None, "bottom_right"])
def test_eager_compiled_and_by_a_layer(cpu: Selector, kind: str, causal: Any) -> None:  # noqa: ANN401
    """The pair is the definition's, with a scale of the caller's, in all three ways."""
    call, mask = tensors(), MASKS[kind]()
    layer = Attention("self", selector=cpu, scale=0.3)
    whole = torch.compile(layer, fullgraph=True, backend="aot_eager")

    for pair in (
        attention(*call, mask=mask, causal=causal, scale=0.3, selector=cpu, return_lse=True),
        layer(*call, mask=mask, causal=causal, return_lse=True),
        whole(*call, mask=mask, causal=causal, return_lse=True),
    ):
        check(pair, call, mask=mask, causal=causal, scale=0.3)


def test_a_prepared_mask(cpu: Selector) -> None:
    """Is the mask that it came to."""
    call, mask = tensors(), masks.key_padding(KEEP)

    check(attention(*call, mask=prepare_mask(mask), selector=cpu, return_lse=True), call, mask=mask)


def test_calls_with_and_without_have_plans_and_graphs_of_their_own(cpu: Selector) -> None:
    """Over one kernel; the graph of a call without it stays as it was."""
    call, counter = tensors(), CompileCounterWithBackend("aot_eager")
    plain, more = (plan_for(*call, selector=cpu, return_lse=wanted) for wanted in (False, True))
    whole = torch.compile(Attention("self", selector=cpu), fullgraph=True, backend=counter)

    for wanted in (False, True, False, True):
        whole(*call, return_lse=wanted)

    assert plain is not more
    assert plain.kernel is more.kernel
    assert "lse" not in plain.decision.facts
    assert (more.decision.facts["lse"], more.decision.origins["lse"]) == (True, "request")
    assert counter.frame_count == 2
    assert "logsumexp" not in str(counter.graphs[0].graph)


def test_gradients_are_refused(cpu: Selector) -> None:
    """In the same words eagerly and while code is compiled; without the log-sum-exp they flow."""
    q, k, v = (x.requires_grad_() for x in tensors())
    message = "`return_lse`: wanted tensors without gradients"

    with pytest.raises(CallRefused, match=message):
        attention(q, k, v, selector=cpu, return_lse=True)
    with pytest.raises(Exception, match=message):
        torch.compile(lambda: attention(q, k, v, selector=cpu, return_lse=True), fullgraph=True)()
    assert attention(q, k, v, selector=cpu).requires_grad


# --- who may run it ---


REFUSED = [
    (SAGE1, "sm_90", "SAGE_ATTN", {}, "SAGE_ATTN gives the output alone, and this call asks for the log-sum-exp"),
    (SAGE3, "sm_120", "SAGE_ATTN_3", {}, "SAGE_ATTN_3 gives the output alone, and this call asks for the log-sum-exp"),
    (FI, "sm_100", "TRTLLM_ATTN", {"quant": {"dtype_qk": "int8"}}, "TRTLLM_ATTN has no log-sum-exp to give with"),
    (FI, "sm_100", "TRTLLM_ATTN", {"skip_softmax": {"threshold": 0.1}}, "TRTLLM_ATTN has no log-sum-exp to give with"),
]


@pytest.mark.parametrize(("packages", "arch", "backend", "blocks", "message"), REFUSED)
def test_the_rules_refuse_it_where_a_backend_has_none(
    packages: dict[str, str], arch: str, backend: str, blocks: dict[str, Any], message: str
) -> None:
    """Before any kernel is bound; the same call without it is decided as ever."""
    config = {"default": {"backend": backend, **blocks}}
    selector = Selector(facts=cuda(arch, packages), config=config, environment={})
    q, k, v = (torch.randn(1, 16, 4, 128).bfloat16() for _ in range(3))

    with pytest.raises(SelectionRefusedError, match=message):
        attention(q, k, v, selector=selector, return_lse=True)
    assert selector.decide("self", head_dim=128, call={"mask": "none", "dtype": "bfloat16"}).backend == backend


@pytest.mark.parametrize(
    ("facts", "backend"), [(cuda("sm_90", SAGE2), "SAGE_ATTN"), (cuda("sm_90", FA2), "FLASH_ATTN"), (CPU, "TORCH_SDPA")]
)
def test_the_rules_let_the_others_run(facts: Mapping[str, object], backend: str) -> None:
    """With no warning."""
    call = {"mask": "none", "dtype": "bfloat16", "lse": True}

    decision = decide(facts, {"head_dim": 128, "call": call}, backend=backend)

    assert (decision.backend, decision.rule, decision.warnings) == (backend, "explicit/able", ())


@pytest.fixture
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"FLASH_ATTN": Plain("FLASH_ATTN"), "TORCH_SDPA": SDPA}
    monkeypatch.setattr("backends.registry.load", lambda name: known[name])
    monkeypatch.setattr("backends.registry.available", lambda: dict.fromkeys(known, "attention-selector"))


WANTED = "`return_lse`: wanted a kernel that gives the log-sum-exp, got one that gives none"


@pytest.mark.usefixtures("_plain")
def test_a_default_whose_kernel_gives_none_is_decided_again() -> None:
    """With a warning that says so; calls without it keep the kernel."""
    selector, call = Selector(facts=cuda("sm_89", FA2), environment={}), tensors(torch.bfloat16)

    plain, more = (plan_for(*call, selector=selector, return_lse=wanted) for wanted in (False, True))
    out, lse = attention(*call, selector=selector, return_lse=True)

    assert (plain.decision.backend, plain.decision.warnings) == ("FLASH_ATTN", ())
    assert more.decision.backend == "TORCH_SDPA"
    assert more.decision.warnings == (f"FLASH_ATTN was chosen by default, but its kernel does not bind: {WANTED}",)
    assert (out.shape, lse.shape) == ((2, 9, 4, 64), (2, 4, 9))


@pytest.mark.usefixtures("_plain")
def test_a_configured_kernel_that_gives_none_is_refused() -> None:
    """And not replaced."""
    selector = Selector(facts=cuda("sm_89", FA2), backend="FLASH_ATTN", environment={})
    call = tensors(torch.bfloat16)

    with pytest.raises(SelectionRefusedError, match=f"FLASH_ATTN does not bind: {WANTED}"):
        attention(*call, selector=selector, return_lse=True)
    assert attention(*call, selector=selector).shape == call[0].shape
