"""Dispatch: a call gets the kernel that was decided for it, on the CPU against the definition in float64."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import structlog
import torch

import selector
from backends import masks, samples
from backends.interface import BindError, CallRefused
from backends.prepare import prepare_mask
from backends.reference import attention as definition
from selector import Attention, InvalidSelectionError, SelectionRefusedError, Selector, attention, load_rules, logs
from selector.decision_log import DecisionLog
from selector.dispatch import Alignment, Plan, plan_for, this_machine
from selector.dispatch.compare import compare_with_reference
from selector.facts import Request
from selector.ruleset import shipped
from tests.selector.conftest import CPU, FA2, FA3, FA4, FI, cuda, overlay

if TYPE_CHECKING:
    from torch import Tensor

KINDS = shipped().vocabulary.facts["mask"].values
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _nothing_announced() -> Iterator[None]:
    """Forget what other tests logged."""
    logs.forget()
    yield
    logs.forget()


@pytest.fixture
def cpu() -> Selector:
    """Give a selector for a CPU."""
    return Selector(facts=CPU, environment={})


def on(facts: Mapping[str, object], **given: Any) -> Selector:  # noqa: ANN401
    """Give a selector for another machine; the tensors are on the CPU all the same."""
    return Selector(facts=facts, environment={}, **given)


def inputs(
    lengths: tuple[int, int] = (12, 12), heads: tuple[int, int] = (4, 4), dtype: str = "float32", head_dim: int = 16
) -> tuple[Tensor, Tensor, Tensor]:
    """Give random q, k and v."""
    return samples.tensors(lengths, heads, head_dim, dtype)


# --- the result ---


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
@pytest.mark.parametrize("lengths", [(12, 12), (8, 12)])
def test_the_result_is_that_of_the_definition(
    cpu: Selector, kind: str, causal: Alignment | None, lengths: tuple[int, int]
) -> None:
    """For every kind of mask, both alignments, and fewer KV heads than heads."""
    q, k, v = inputs(lengths, (4, 2))
    mask = samples.mask(kind, lengths, 4)

    got = attention(q, k, v, mask=mask, causal=causal, selector=cpu)

    assert (got.shape, got.dtype) == (q.shape, q.dtype)
    torch.testing.assert_close(got.double(), definition(q, k, v, mask=mask, causal=causal), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "float64"])
def test_the_type_is_kept(cpu: Selector, dtype: str) -> None:
    """And the error is that of the type."""
    q, k, v = inputs(dtype=dtype)

    got = attention(q, k, v, selector=cpu)

    assert got.dtype == q.dtype
    assert float((got.double() - definition(q, k, v)).abs().max()) < 8 * torch.finfo(q.dtype).eps


def test_the_scale_is_used(cpu: Selector) -> None:
    """It is no part of the plan."""
    q, k, v = inputs()

    got = attention(q, k, v, scale=0.7, selector=cpu)

    torch.testing.assert_close(got.double(), definition(q, k, v, scale=0.7), atol=1e-5, rtol=1e-5)
    assert len(cpu.serving.plans) == 1


def test_without_a_selector_it_is_this_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made once, on first use."""
    q, k, v = inputs()

    got = attention(q, k, v)

    torch.testing.assert_close(got.double(), definition(q, k, v), atol=1e-5, rtol=1e-5)
    assert this_machine() is this_machine()
    assert plan_for(q, k, v) is plan_for(q, k, v)


def test_a_prepared_mask_is_the_mask_that_it_came_to(cpu: Selector) -> None:
    """A padding behind the last key is a length, which is another kind for the rules, with the same result."""
    q, k, v = inputs()
    padding = masks.key_padding(torch.arange(12)[None] < 7)
    prepared = prepare_mask(padding)

    got = attention(q, k, v, mask=prepared, selector=cpu)

    torch.testing.assert_close(got.double(), definition(q, k, v, mask=padding), atol=1e-5, rtol=1e-5)
    (plan,) = cpu.serving.plans.values()
    assert isinstance(plan, Plan)
    assert plan.decision.facts["mask"] == prepared.kind == "suffix_key_padding"


@pytest.mark.parametrize("kind", KINDS)
def test_one_call_against_the_definition(cpu: Selector, kind: str) -> None:
    """As the demonstration does it: half precision, and so a small error."""
    found = compare_with_reference(
        cpu, Request(role="cross", model="WanPipeline"), lengths=(16, 24), heads=(4, 2), head_dim=32, mask=kind
    )

    assert found.backend == "TORCH_SDPA"
    assert 0 < found.error < 0.03


# --- the plan ---


def test_a_plan_is_made_once_for_a_signature(cpu: Selector) -> None:
    """Batch, values, scale and the content of a mask are no part of it."""
    q, k, v = inputs()
    plan = plan_for(q, k, v, selector=cpu, mask=masks.key_lengths(3, 12))

    assert plan_for(q + 1, k, v, selector=cpu, mask=masks.key_lengths(5, 12)) is plan
    assert plan_for(*(x.expand(3, -1, -1, -1) for x in (q, k, v)), selector=cpu, mask=masks.key_lengths(3, 12)) is plan
    assert len(cpu.serving.plans) == 1


def test_whatever_the_decision_reads_is_part_of_the_signature(cpu: Selector) -> None:
    """Each of these has a plan of its own."""
    q, k, v = inputs()
    bias = torch.zeros(1, 1, 1, 12)
    plans = [
        plan_for(q, k, v, selector=cpu),
        plan_for(q, k, v, selector=cpu, role="cross"),
        plan_for(q, k, v, selector=cpu, model="WanPipeline"),
        plan_for(q, k, v, selector=cpu, mask_free=True),
        plan_for(q, k, v, selector=cpu, mask_free=False),
        plan_for(q, k, v, selector=cpu, causal=True),
        plan_for(q, k, v, selector=cpu, causal="bottom_right"),
        plan_for(q, k, v, selector=cpu, mask=masks.all_keep()),
        plan_for(q, k, v, selector=cpu, mask=masks.additive(bias)),
        plan_for(q, k, v, selector=cpu, mask=masks.additive(bias.double())),
        plan_for(q, k, v, selector=cpu, mask=masks.boolean_per_query(torch.ones(1, 1, 12, 12, dtype=torch.bool))),
        plan_for(q, k, v, selector=cpu, mask=masks.boolean_per_query(torch.ones(1, 4, 12, 12, dtype=torch.bool))),
        plan_for(*inputs(dtype="bfloat16"), selector=cpu),
        plan_for(*inputs((6, 12)), selector=cpu),
        plan_for(*inputs((12, 6)), selector=cpu),
        plan_for(*inputs(heads=(4, 2)), selector=cpu),
        plan_for(*inputs(heads=(2, 2)), selector=cpu),
        plan_for(*inputs(head_dim=8), selector=cpu),
        plan_for(*(x.to("meta") for x in (q, k, v)), selector=cpu),
    ]

    assert len({id(plan) for plan in plans}) == len(cpu.serving.plans) == len(plans)


def test_false_and_none_are_the_same_call(cpu: Selector) -> None:
    """Neither is causal."""
    q, k, v = inputs()

    assert plan_for(q, k, v, selector=cpu, causal=False).causal is None
    assert plan_for(q, k, v, selector=cpu).causal is None


def test_the_decision_of_a_plan_knows_the_call(cpu: Selector) -> None:
    """All that can be read off the tensors, and what the layer says."""
    q, k, v = inputs((8, 12), (4, 2), "bfloat16")
    mask = masks.boolean_per_query(torch.ones(1, 4, 8, 12, dtype=torch.bool))

    facts = plan_for(
        q, k, v, mask=mask, causal="bottom_right", selector=cpu, role="x", role_category="cross", compile=True
    ).decision.facts

    assert {name: facts[name] for name in facts if facts[name] is not None}.items() >= {
        "platform": "cpu", "role": "x", "role_category": "cross", "compile": True, "head_dim": 16, "num_heads": 4,
        "num_kv_heads": 2, "dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 12, "mask": "boolean_per_query",
        "mask_per_head": True, "mask_matches_dtype": True, "causal": True, "causal_alignment": "bottom_right",
    }.items()  # fmt: skip


def test_a_kernel_is_bound_once_for_a_geometry(cpu: Selector) -> None:
    """Signatures of one geometry share it."""
    q, k, v = inputs()
    one = plan_for(q, k, v, selector=cpu)

    assert plan_for(q, k, v, selector=cpu, mask=masks.all_keep(), role="cross").kernel is one.kernel
    assert plan_for(*inputs((6, 12)), selector=cpu).kernel is one.kernel
    assert plan_for(*inputs(head_dim=8), selector=cpu).kernel is not one.kernel
    assert cpu.on(cpu.machine).serving.kernels == {}


def test_options_are_part_of_the_signature(cpu: Selector) -> None:
    """Words by their value and objects by what they are; they live as long as the plan."""
    q, k, v = inputs()
    curve = object()
    plan = plan_for(q, k, v, selector=cpu, options={"layer": "a", "calibration": curve})

    assert plan_for(q, k, v, selector=cpu, options={"layer": "a", "calibration": curve}) is plan
    assert plan_for(q, k, v, selector=cpu, options={"layer": "b", "calibration": curve}) is not plan
    assert plan_for(q, k, v, selector=cpu, options={"layer": "a", "calibration": object()}) is not plan
    assert plan.options == {"layer": "a", "calibration": curve}
    assert plan_for(q, k, v, selector=cpu).options is None


def test_a_kernel_is_told_the_options_that_it_takes(tmp_path: Path, cpu: Selector) -> None:
    """The rules say which; TORCH_SDPA takes none, and refuses one that it is told."""
    edits = {"backends.yaml": [("    default_name: SDPA\n", "    default_name: SDPA\n    takes: [layer]\n")]}
    rules = load_rules([overlay(tmp_path / "o", edits)])
    q, k, v = inputs()

    assert plan_for(q, k, v, selector=cpu, options={"layer": "a"}).decision.backend == "TORCH_SDPA"
    with pytest.raises(SelectionRefusedError, match=r"TORCH_SDPA does not bind: .*layer"):
        attention(q, k, v, selector=on(CPU, rules=rules), options={"layer": "a"})


def test_an_option_that_nobody_takes_is_refused(cpu: Selector) -> None:
    """It is a slip."""
    with pytest.raises(ValueError, match="calibratoin"):
        attention(*inputs(), selector=cpu, options={"calibratoin": object()})


def test_the_line_is_logged_once(cpu: Selector) -> None:
    """Not once per call, nor per signature of one decision."""
    with structlog.testing.capture_logs() as lines:
        for lengths in ((12, 12), (12, 12), (8, 12)):
            attention(*inputs(lengths), selector=cpu)

    assert [line["event"] for line in lines] == ["Defaulting to diffusion attention backend SDPA"]


def logged(path: Path) -> list[dict[str, Any]]:
    """Give the lines of a decision log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_plan_is_written_to_the_log(tmp_path: Path) -> None:
    """Once for each signature, with the call; calls after it write nothing."""
    with DecisionLog(tmp_path / "log") as log:
        here = on(CPU, log=log)
        for lengths in ((12, 12), (12, 12), (8, 12)):
            attention(*inputs(lengths), selector=here)

    lines = logged(tmp_path / "log")
    assert [line["request"]["call"]["seq_len_q"] for line in lines] == [12, 8]
    assert {line["decision"]["rule"] for line in lines} == {"platform_default/torch-sdpa"}


def test_what_did_not_bind_is_in_the_log(tmp_path: Path) -> None:
    """A line for each decision on the way, with what was taken as absent."""
    with DecisionLog(tmp_path / "log") as log:
        plan_for(*inputs(dtype="bfloat16"), selector=on(cuda("sm_120"), log=log))

    assert [(line["decision"]["backend"], line["absent"]) for line in logged(tmp_path / "log")] == [
        ("CUDNN_ATTN", []), ("TORCH_SDPA", ["cudnn"]),
    ]  # fmt: skip


def test_a_refusal_is_in_the_log(tmp_path: Path) -> None:
    """It was decided too."""
    with DecisionLog(tmp_path / "log") as log, pytest.raises(SelectionRefusedError):
        attention(*inputs(), selector=on(CPU, backend="SAGE_ATTN", log=log))

    (line,) = logged(tmp_path / "log")
    assert line["decision"]["error"]["code"] == "refused"


# --- arguments ---


@pytest.mark.parametrize("name", ["q", "k", "v"])
def test_a_tensor_of_another_rank_is_refused(cpu: Selector, name: str) -> None:
    """It is told by its name and shape."""
    q, k, v = (x[0] if given == name else x for given, x in zip("qkv", inputs(), strict=True))

    with pytest.raises(
        ValueError, match=rf"`{name}`: wanted a tensor \[batch, seq, heads, head_dim\], got \[12, 4, 16\]"
    ):
        attention(q, k, v, selector=cpu)


def test_causal_alone_is_for_equal_lengths(cpu: Selector) -> None:
    """For others the alignment has to be named; where they are equal it is all the same."""
    q, k, v = inputs()
    expected = definition(q, k, v, causal="bottom_right")

    torch.testing.assert_close(attention(q, k, v, causal=True, selector=cpu).double(), expected, atol=1e-5, rtol=1e-5)
    message = "`causal`: wanted `top_left` or `bottom_right` for 8 queries and 12 keys, got true"
    with pytest.raises(ValueError, match=message):
        attention(*inputs((8, 12)), causal=True, selector=cpu)


@pytest.mark.parametrize("causal", ["left", "", 1, "TOP_LEFT"])
def test_another_alignment_is_refused(cpu: Selector, causal: Any) -> None:  # noqa: ANN401
    """There are two."""
    with pytest.raises(ValueError, match="`causal`: wanted true, false, `top_left` or `bottom_right`, got "):
        attention(*inputs(), causal=causal, selector=cpu)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"head_dims": 5}, "no fact `head_dims` for the layer"),
        ({"mask_free": "yes"}, "`mask_free`: wanted true or false, got the string `yes`"),
        ({"compile": 1}, "`compile`: wanted true or false, got the number 1"),
    ],
)
def test_a_fact_of_the_layer_is_checked(cpu: Selector, layer: dict[str, Any], message: str) -> None:
    """Its name and its value."""
    with pytest.raises(ValueError, match=message):
        attention(*inputs(), selector=cpu, **layer)


def test_a_fact_of_the_layer_may_be_unknown(cpu: Selector) -> None:
    """None says so."""
    facts = plan_for(*inputs(), selector=cpu, compile=None, model=None, role_category=None).decision.facts

    assert "compile" not in facts
    assert "model" not in facts


@pytest.mark.parametrize(
    "layer",
    [
        {"backend": "CUDNN_ATTN"},
        {"policy": "strict"},
        {"platform": "rocm"},
        {"seq_len_q": 99},
        {"dtype": "float64"},
        {"mask": "additive"},
        {"head_dim": 5},
    ],
    ids=str,
)
def test_what_is_no_fact_of_the_layer_is_refused(cpu: Selector, layer: dict[str, Any]) -> None:
    """Another word is not dropped in silence: a backend is not named this way, and tensors speak for themselves."""
    with pytest.raises(ValueError, match=next(iter(layer))):
        attention(*inputs(), selector=cpu, **layer)


@pytest.mark.parametrize(
    "layer", [{"role": 5}, {"role": ""}, {"role_category": 5}, {"model": 5}, {"model": ["x"]}], ids=str
)
def test_names_of_the_layer_are_checked(cpu: Selector, layer: dict[str, Any]) -> None:
    """As `Selector.select` does."""
    with pytest.raises(ValueError, match=r"wanted (a string|plain values)"):
        attention(*inputs(), selector=cpu, **layer)


@pytest.mark.parametrize("dtype", [torch.int64, torch.complex64, torch.bool])
def test_a_type_that_no_kernel_takes_is_refused(cpu: Selector, dtype: torch.dtype) -> None:
    """It is no type of the vocabulary."""
    with pytest.raises(ValueError, match="`dtype`: wanted one of bfloat16, float16, float32, float64, got "):
        attention(*(x.to(dtype) for x in inputs()), selector=cpu)


def test_tensors_that_do_not_fit_each_other_are_refused_by_the_kernel(cpu: Selector) -> None:
    """Whatever the plan does not look at."""
    q, k, v = inputs()

    for wrong in ((q, k, v[:, :5]), (q, k.double(), v), (q, k, v[..., :8])):
        with pytest.raises(CallRefused):
            attention(*wrong, selector=cpu)
    with pytest.raises(CallRefused, match="mask `suffix_key_padding`"):
        attention(q, k, v, mask=masks.key_lengths(3, 7), selector=cpu)


def test_heads_that_do_not_divide_are_refused_by_the_rules(cpu: Selector) -> None:
    """With the decision."""
    with pytest.raises(SelectionRefusedError, match="4 query heads cannot share 3 KV heads evenly") as caught:
        attention(*inputs(heads=(4, 3)), selector=cpu)

    assert caught.value.decision.error is not None


# --- tables and kernels ---


def test_the_call_table_is_walked() -> None:
    """A default that takes half precision alone leaves the call to TORCH_SDPA, and the plan says so."""
    q, k, v = inputs()

    plan = plan_for(q, k, v, selector=on(cuda("sm_120")))

    assert (plan.decision.backend, plan.decision.rule) == ("TORCH_SDPA", "call/full-precision")
    assert plan.decision.log == "Defaulting to diffusion attention backend SDPA"
    assert "TORCH_SDPA takes the call" in plan.decision.warnings[0]
    torch.testing.assert_close(plan.kernel(q, k, v).double(), definition(q, k, v), atol=1e-5, rtol=1e-5)


def test_a_bias_of_another_type_is_told_to_the_table() -> None:
    """The kernel that is pinned would read it as other numbers."""
    q, k, v = inputs(dtype="bfloat16")
    mask = masks.additive(torch.zeros(1, 1, 1, 12))

    plan = plan_for(q, k, v, mask=mask, selector=on(cuda("sm_120")))

    assert (plan.decision.backend, plan.decision.rule) == ("TORCH_SDPA", "call/cudnn-bias-of-another-dtype")
    assert plan.decision.facts["mask_matches_dtype"] is False


def test_a_configured_backend_is_substituted_with_a_warning() -> None:
    """Or refused under the strict policy."""
    facts = cuda("sm_90", FA2)
    mask = masks.boolean_per_query(torch.ones(1, 1, 12, 12, dtype=torch.bool))
    q, k, v = inputs(dtype="bfloat16")

    plan = plan_for(q, k, v, mask=mask, selector=on(facts, backend="FLASH_ATTN"))

    assert (plan.decision.backend, plan.decision.rule) == ("TORCH_SDPA", "call/flash-per-query-mask")
    with pytest.raises(SelectionRefusedError, match="the policy is strict"):
        attention(q, k, v, mask=mask, selector=on(facts, backend="FLASH_ATTN", policy="strict"))


def test_a_refusal_of_the_rules_has_no_cause(cpu: Selector) -> None:
    """Nothing was tried."""
    with pytest.raises(SelectionRefusedError, match=r"SAGE_ATTN cannot run here \(") as caught:
        attention(*inputs(), selector=on(CPU, backend="SAGE_ATTN"))

    assert caught.value.__cause__ is None


def test_a_fact_that_must_be_known_is_asked_for() -> None:
    """As for any request."""
    with pytest.raises(InvalidSelectionError, match="`platform` is not known"):
        attention(*inputs(), selector=on({"arch": "sm_90"}))


def test_a_configured_kernel_that_does_not_bind_is_refused() -> None:
    """With the kernel's own error as the cause; the tensors are not on that machine."""
    chosen = on(cuda("sm_90"), backend="CUDNN_ATTN")

    with pytest.raises(SelectionRefusedError, match="CUDNN_ATTN does not bind: ") as caught:
        attention(*inputs(dtype="bfloat16"), selector=chosen)

    assert isinstance(caught.value.__cause__, BindError)
    decision = caught.value.decision
    assert (decision.backend, decision.rule, decision.log) == (None, None, None)
    assert (decision.source, decision.origin) == ("default", "flag")
    assert chosen.serving.plans == {}


@pytest.mark.parametrize(
    ("packages", "tried"),
    [(FA2, ["FLASH_ATTN"]), (FA2 | FA3, ["FLASH_ATTN"] * 2), (FA2 | FA3 | FA4, ["FLASH_ATTN"] * 3)],
    ids=["one build", "two", "three"],
)
def test_a_default_kernel_that_does_not_bind_is_decided_again(packages: dict[str, str], tried: list[str]) -> None:
    """One build after another is taken as absent, each with a warning, until a kernel binds."""
    q, k, v = inputs(dtype="bfloat16")

    with structlog.testing.capture_logs() as lines:
        plan = plan_for(q, k, v, selector=on(cuda("sm_90", packages)))

    decision = plan.decision
    assert (decision.backend, decision.rule) == ("TORCH_SDPA", "platform_default/torch-sdpa")
    assert [
        warning.split(" was chosen by default, but its kernel does not bind: ")[0] for warning in decision.warnings
    ] == tried
    assert decision.inputs is not None
    assert len(decision.inputs.absent) == len(tried)
    assert [line["event"] for line in lines] == [decision.log, *decision.warnings]
    got = plan.kernel(q, k, v, mask=None, causal=None)
    assert float((got.double() - definition(q, k, v)).abs().max()) < 0.03


def test_a_default_without_builds_is_decided_again() -> None:
    """The fact that its row in the rules names is taken as absent."""
    plan = plan_for(*inputs(dtype="bfloat16"), selector=on(cuda("sm_120")))

    assert plan.decision.backend == "TORCH_SDPA"
    assert plan.decision.inputs is not None
    assert plan.decision.inputs.absent == ("cudnn",)
    assert plan.decision.facts["cudnn"] is None
    assert plan.decision.explain().walks[1].facts["cudnn"] is None


def test_every_default_on_the_way_is_tried() -> None:
    """cuDNN, FlashInfer, and then TORCH_SDPA."""
    plan = plan_for(*inputs(dtype="bfloat16", head_dim=64), selector=on(cuda("sm_120", FI)))

    assert plan.decision.backend == "TORCH_SDPA"
    assert len(plan.decision.warnings) == 2


MINE = """
  MINE:
    about: A backend that nobody offers.
"""
ROW = "rows:\n  - id: mine\n    when: {platform: cpu}\n    use: MINE\n    because: It is mine.\n"


@pytest.mark.parametrize("unbound", ["", "    unbound: cudnn\n"], ids=["nothing to take as absent", "taken in vain"])
def test_a_default_that_nothing_can_replace_is_refused(tmp_path: Path, unbound: str) -> None:
    """It is not tried for ever: where no fact would change the decision, the kernel's error is the answer."""
    edits = {
        "backends.yaml": [("backends:\n", f"backends:{MINE}{unbound}")],
        "platform_default.yaml": [("rows:\n", ROW)],
    }
    rules = load_rules([overlay(tmp_path / "o", edits)])

    with pytest.raises(SelectionRefusedError, match="MINE does not bind: ") as caught:
        attention(*inputs(), selector=on(CPU, rules=rules))

    assert isinstance(caught.value.__cause__, BindError)
    assert caught.value.decision.source == "platform"


def test_options_of_the_config_reach_the_kernel(tmp_path: Path) -> None:
    """And a kernel that knows none of them refuses."""
    edits = {
        "backends.yaml": [("    default_name: SDPA\n", "    default_name: SDPA\n    reads: {quant: [dtype_qk]}\n")]
    }
    rules = load_rules([overlay(tmp_path / "o", edits)])
    config = {"default": {"backend": "TORCH_SDPA", "quant": {"dtype_qk": "int8"}}}

    with pytest.raises(SelectionRefusedError, match=r"TORCH_SDPA does not bind: .*quant"):
        attention(*inputs(), selector=on(CPU, rules=rules, config=config))


# --- the layer ---


def test_a_layer_decides_when_it_is_made(cpu: Selector) -> None:
    """And shows what it got."""
    with structlog.testing.capture_logs() as lines:
        layer = Attention("cross", selector=cpu, head_dim=16, model="WanPipeline")

    assert (layer.decision.backend, layer.decision.role) == ("TORCH_SDPA", "cross")
    assert layer.decision.facts["mask_free"] is True
    assert len(lines) == 1
    assert repr(layer) == "Attention(role='cross', backend='TORCH_SDPA', rule='platform_default/torch-sdpa')"


def test_a_layer_computes_and_reports(cpu: Selector) -> None:
    """Each signature of call with how often it was met."""
    layer = Attention(selector=cpu, head_dim=16, num_heads=4, num_kv_heads=4, scale=0.3)
    q, k, v = inputs()
    lengths = masks.key_lengths(5, 12)

    assert layer.report() == ()
    got = layer(q, k, v)
    layer(q, k, v, mask=lengths)
    layer(q, k, v)
    layer(q, k, v, causal=True)

    torch.testing.assert_close(got.double(), definition(q, k, v, scale=0.3), atol=1e-5, rtol=1e-5)
    assert [(ran.backend, ran.calls) for ran in layer.report()] == [
        ("TORCH_SDPA", 2),
        ("TORCH_SDPA", 1),
        ("TORCH_SDPA", 1),
    ]
    assert {ran.rule for ran in layer.report()} == {"platform_default/torch-sdpa"}


def test_a_layer_that_gets_nothing_is_not_made() -> None:
    """The error is raised at once."""
    with pytest.raises(SelectionRefusedError):
        Attention(selector=on(CPU, backend="SAGE_ATTN"))
    with pytest.raises(InvalidSelectionError):
        Attention(selector=on(CPU), head_dims=5)


def test_a_layer_without_a_selector_is_this_machines() -> None:
    """As a call is."""
    assert Attention().selector is this_machine()


# --- imports ---

HEAVY = ("torch", "pydantic", "jsonschema", "structlog", "yaml", "backends")


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import selector", set()),
        ("import selector; dir(selector); selector.__version__", set()),
        ("from selector import ProblemsError, FactsError, ConfigError, TableError, Problem", set()),
        ("from selector import SelectionError, Decision", {"yaml"}),
        ("from selector import Selector; Selector(facts={'platform': 'cpu'}, environment={}).decide()", {"yaml"}),
        ("from selector import attention", {"yaml"}),
        ("import selector.command", set()),
        ("from selector.command import main; main(['decide', '/dev/null'])", {"yaml"}),
    ],
)
def test_imports_are_put_off(program: str, heavy: set[str]) -> None:
    """What is not needed yet is not loaded: neither torch nor the libraries for config, files and logs."""
    told = f"{program}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])"

    done = subprocess.run(
        [sys.executable, "-c", told], capture_output=True, text=True, cwd=ROOT, check=True, timeout=60
    )

    assert set(done.stdout.split()) <= heavy


def test_every_public_name_is_there() -> None:
    """And no other."""
    assert dir(selector) == sorted(selector.__all__)
    for name in selector.__all__:
        assert getattr(selector, name) is not None
    with pytest.raises(AttributeError, match="module `selector` has no attribute `atention`"):
        selector.atention  # noqa: B018
