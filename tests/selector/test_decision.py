"""A decision as data: its short and long form, its way to JSON and back, its trace, and the errors it stands for."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from selector import InvalidSelectionError, ProblemsError, SelectionError, SelectionRefusedError
from selector.decision import Decision, Failure, ordered
from selector.resolve import resolve, trace
from selector.rules.vocabulary import Value
from selector.ruleset import load_rules, shipped
from tests.selector.conftest import ALL, BACKENDS, CPU, FA2, FI, HUB, cuda, decide, overlay, without

WORDS = shipped().vocabulary
SIZED = {"head_dim": 128, "dtype": "bfloat16"}


# --- data ---


def test_the_short_form_is_the_contract() -> None:
    """Its keys in their order, whatever was decided."""
    good = decide(cuda("sm_120"), SIZED).answer()
    refused = decide(CPU, SIZED, backend="SAGE_ATTN").answer()

    assert list(good) == list(refused) == ["backend", "source", "origin", "rule", "log", "warnings", "error"]
    assert good == {
        "backend": "CUDNN_ATTN",
        "source": "platform",
        "origin": "platform",
        "rule": "platform_default/blackwell-cudnn",
        "log": "Defaulting to diffusion attention backend CUDNN_ATTN (Blackwell sm_120, cuDNN 91002)",
        "warnings": [],
        "error": None,
    }
    assert cast("dict[str, object]", refused["error"])["code"] == "refused"
    assert (refused["backend"], refused["source"], refused["origin"]) == (None, "default", "flag")


def test_a_decision_is_frozen() -> None:
    """No field can be set."""
    decision = decide(CPU)

    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.backend = "X"  # type: ignore[misc]


@pytest.mark.parametrize("decision", [decide(CPU), decide(CPU, SIZED, backend="SAGE_ATTN")])
def test_a_decision_is_what_its_constructor_makes_of_its_fields(decision: Decision) -> None:
    """It is made in another way, which is quicker."""
    fields = {field.name: getattr(decision, field.name) for field in dataclasses.fields(Decision)}
    made = Decision(**fields)

    assert made == decision
    assert repr(made) == repr(decision)
    assert vars(decision).keys() <= fields.keys()
    assert {name for name, value in fields.items() if vars(made)[name] is not value} == set()


def test_equal_facts_and_rules_give_equal_decisions() -> None:
    """Also where the mappings behind them are others."""
    assert decide(cuda("sm_90", FA2), SIZED) == decide(cuda("sm_90", FA2), dict(SIZED))
    assert decide(cuda("sm_90", FA2), SIZED) != decide(cuda("sm_90", FA2), {"head_dim": 64})


def test_names_once_each_in_order() -> None:
    """A warning said twice is said once."""
    assert ordered(["b", "a", "b"]) == ("b", "a")


CASES: list[Decision] = [
    decide(CPU),
    decide(cuda("sm_120", ALL), SIZED | {"role": "ltx2.audio_self", "model": "LTX2Pipeline", "compile": True}),
    decide(cuda("sm_90", FA2 | HUB), SIZED | {"head_dim": 320}, backend="FLASH_ATTN_3_HUB"),
    decide(
        cuda("sm_100", FI), {"head_dim": "symbolic", "causal": "top_left"}, env={"DIFFUSION_ATTENTION_BACKEND": "auto"}
    ),
    decide(
        cuda("sm_100", FI),
        SIZED,
        config={
            "default": {
                "backend": "TRTLLM_ATTN",
                "skip_softmax": {"target_sparsity": 0.65, "disabled_until_timestep": 0},
                "quant": {"dtype_qk": "int8"},
            },
            "per_role": {"cross": "TORCH_SDPA", "ltx2": {"audio_self": "SAGE_ATTN"}},
        },
        policy="strict",
    ),
    decide(
        cuda("sm_100", FI), {"head_dim": 128, "mask_free": True, "call": {"mask": "key_padding", "dtype": "bfloat16"}}
    ),
    decide(CPU, SIZED, backend="SAGE_ATTN"),
    decide({"arch": None}, SIZED),
    decide(CPU, {"head_dim": 0}),
    decide(cuda("sm_90", FA2), {"role": "\ud800 \u202e", "model": "é"}),
]


@pytest.mark.parametrize("decision", CASES, ids=range(len(CASES)))
def test_the_way_to_json_and_back(decision: Decision) -> None:
    """What is read back is equal but for the problems of an error, and is written as the same text again."""
    text = decision.to_json()

    again = Decision.from_json(text)

    assert "\n" not in text
    assert json.loads(text) == decision.to_dict()
    assert again.to_json() == text
    assert again.answer() == decision.answer()
    assert again.missing == decision.missing
    assert (again.facts, again.spec, again.provider) == (decision.facts, decision.spec, decision.provider)
    assert again.rules is None
    if decision.error is None:
        assert again == decision


@pytest.mark.parametrize("decision", [case for case in CASES if case.inputs], ids=str)
def test_a_decision_that_was_read_back_replays(decision: Decision) -> None:
    """With the rules it was made with the same inputs give the same decision, step by step."""
    again = Decision.from_json(decision.to_json())
    assert again.inputs is not None

    assert resolve(again.inputs, shipped()).answer() == decision.answer()
    assert again.explain(shipped()).to_dict() == decision.explain().to_dict()


def test_a_trace_needs_the_rules_of_the_decision(tmp_path: Path) -> None:
    """Without any, or with others, `ValueError` says what was wanted."""
    again = Decision.from_json(decide(CPU).to_json())
    others = load_rules([overlay(tmp_path / "o", {"roles.yaml": [("cosmos3.gen: cross", "cosmos3.gen: self")]})])

    with pytest.raises(ValueError, match="wanted the rules that the decision was made with, got none"):
        again.explain()
    message = f"wanted rules with the digest {shipped().digest[:12]}, got {others.digest[:12]}"
    with pytest.raises(ValueError, match=message):
        again.explain(others)
    with pytest.raises(ValueError, match="got none"):
        decide(CPU, {"head_dim": 0}).explain(shipped())


def test_what_is_missing_is_known_without_rules_too() -> None:
    """It is written; an input that is not valid has nothing missing."""
    decision = decide(cuda("sm_100", FI), {"head_dim": 128})

    assert {"mask_free", "dtype"} <= set(decision.missing)
    assert Decision.from_json(decision.to_json()).missing == decision.missing
    assert decide(CPU, {"head_dim": 0}).missing == ()
    assert dataclasses.replace(decision, rules=None).missing == ()


@pytest.mark.parametrize("text", ["", "[]", "{}", "5", '{"backend": "X"}', "{"])
def test_what_is_no_decision_is_refused(text: str) -> None:
    """With a `ValueError`."""
    with pytest.raises(ValueError):  # noqa: PT011 - the sentence is that of the JSON reader or of the model
        Decision.from_json(text)


# --- errors ---


def test_a_decision_without_error_is_ensured() -> None:
    """It gives itself."""
    decision = decide(CPU)

    assert decision.ensure() is decision


def test_a_refusal_is_raised() -> None:
    """As a `ValueError` that carries the decision."""
    decision = decide(CPU, SIZED, backend="SAGE_ATTN")
    assert decision.error is not None

    with pytest.raises(SelectionRefusedError) as caught:
        decision.ensure()

    assert str(caught.value) == decision.error.message
    assert caught.value.decision is decision
    assert isinstance(caught.value, SelectionError)
    assert isinstance(caught.value, ValueError)
    assert not isinstance(caught.value, ProblemsError)


def test_an_input_that_is_not_valid_is_raised() -> None:
    """As an error with every problem, at its path."""
    decision = decide(CPU, {"head_dim": 0, "x": 1})

    with pytest.raises(InvalidSelectionError) as caught:
        decision.ensure()

    assert isinstance(caught.value, SelectionError)
    assert isinstance(caught.value, ProblemsError)
    assert caught.value.decision is decision
    assert [(problem.place.path, problem.code) for problem in caught.value.problems] == [
        ("head_dim", "bad-value"),
        ("x", "unknown-key"),
    ]
    assert "head_dim" in str(caught.value)


def test_the_error_of_an_input_that_is_not_valid() -> None:
    """One sentence of all faults with their hints, and the path of the first; no facts, no source."""
    decision = decide(CPU, {"head_dim": 0, "rol": "self"})

    assert decision.error == Failure(
        "invalid",
        "no key `rol` here (did you mean `role`?); `head_dim`: wanted an integer of at least 1 or `symbolic`, got 0",
        "rol",
        decision.error.problems if decision.error else (),
    )
    assert (decision.source, decision.origin, decision.facts, decision.role) == (None, None, {}, "")
    assert decision.digest == shipped().digest


def test_errors_of_no_decision_have_their_words_too() -> None:
    """They can be made by hand, around a decision that has no error."""
    decision = decide(CPU)

    assert str(SelectionRefusedError(decision)) == "no backend"
    assert InvalidSelectionError(decision).problems == ()


# --- the trace ---


def test_the_steps_of_a_trace() -> None:
    """No row is left out, and each test tells what it wanted, what it got and how it is called."""
    decision = decide(cuda("sm_120", FI, None), {"head_dim": 64})
    walks = decision.explain().to_dict()
    rows = cast("list[dict[str, object]]", walks[1]["rows"])
    conditions = cast("list[dict[str, object]]", rows[0]["conditions"])

    assert [(walk["table"], walk["subject"]) for walk in walks] == [
        ("role_fallback", "self"),
        ("platform_default", None),
        ("provider", "FLASHINFER_ATTN"),
    ]
    assert [(row["row"], row["outcome"]) for row in rows] == [
        ("blackwell-datacenter-trtllm", "rejected"),
        ("blackwell-cudnn", "rejected"),
        ("blackwell-flashinfer", "chosen"),
        ("blackwell-flash-attn-4", "not_reached"),
        ("hopper-flash-attn", "not_reached"),
        ("ampere-ada-flash-attn", "not_reached"),
        ("torch-sdpa", "not_reached"),
    ]
    assert {
        name: conditions[1][name] for name in ("fact", "value", "known", "wanted", "held", "negated", "in", "code")
    } == {
        "fact": "arch",
        "value": "sm_120",
        "known": True,
        "wanted": "blackwell_datacenter (sm_100, sm_103)",
        "held": False,
        "negated": False,
        "in": "when",
        "code": "platform_default/blackwell-datacenter-trtllm:arch.in",
    }
    assert conditions[1]["file"] == "rules/platform_default.yaml"
    assert "platform_default/blackwell-datacenter-trtllm:arch.in" in cast("list[str]", rows[0]["blamed"])
    assert {condition["in"] for condition in conditions} >= {"when", "ability"}
    assert "blamed" not in rows[2]
    assert rows[3]["conditions"] == []
    assert json.dumps(walks, allow_nan=False)


def test_a_trace_shows_a_substitution_and_the_call() -> None:
    """Each table once for each backend that it was asked about."""
    call = {"mask": "additive", "dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 8, "causal": None}
    decision = decide(cuda("sm_90", FA2), SIZED | {"call": call}, backend="FLASH_ATTN_3_HUB")

    assert [(walk.table, walk.subject) for walk in decision.explain().walks] == [
        ("role_fallback", "self"),
        ("explicit", "FLASH_ATTN_3_HUB"),
        ("explicit", "FLASH_ATTN"),
        ("call", "FLASH_ATTN"),
        ("explicit", "TORCH_SDPA"),
        ("call", "TORCH_SDPA"),
    ]


def test_a_default_that_refused_the_call_is_told_apart() -> None:
    """When the platform is asked again, the row says that its backend was ruled out."""
    call = {"mask": "key_padding", "dtype": "float16", "seq_len_q": 8, "seq_len_kv": 8}
    walks = decide(cuda("sm_100", FI), SIZED | {"mask_free": True, "call": call}).explain().walks
    again = [walk for walk in walks if walk.table == "platform_default"][1]

    assert [result.reason() for result in again.steps[0].blamed] == ["backend: wanted not TRTLLM_ATTN, got TRTLLM_ATTN"]


@pytest.mark.xfail(
    reason="each unknown fact that the winner asks for is named, whether it could matter or not", strict=True
)
def test_only_what_could_change_the_answer_is_missing() -> None:
    """Whether the layer is compiled matters where its size is symbolic."""
    assert "compile" not in decide(cuda("sm_120"), SIZED).missing


# --- laws ---

ARCHES = [None, "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121", "sm_130"]
VERSIONS = {
    "flashinfer": ["0.6.15", "0.6.16rc1", "0.6.18"],
    "flash-attn": ["2.8.3"],
    "flash-attn-3": ["0.0.3"],
    "flash-attn-4": ["4.0.0b4", "4.0.0b18"],
    "sageattention": ["1.0.6", "2.2.0"],
    "sageattn3": ["1.0.0"],
    "kernels": ["0.14.1"],
}
packages = st.fixed_dictionaries(
    {}, optional={name: st.sampled_from([None, "unknown", *versions]) for name, versions in VERSIONS.items()}
)
machines = st.fixed_dictionaries(
    {"platform": st.sampled_from(["cuda", "cuda", "cuda", "cuda", "rocm", "cpu"])},
    optional={
        "arch": st.sampled_from(ARCHES),
        "cudnn": st.sampled_from([None, 8907, 90499, 90500, 91002]),
        "packages": packages,
    },
)
LAYER: dict[str, st.SearchStrategy[object]] = {
    "role": st.sampled_from(["self", "cross", "ltx2.audio_self", "ltx2.audio_to_video", "x"]),
    "model": st.sampled_from(["WanPipeline", "LTX2Pipeline", "QwenImagePipeline", "nobody"]),
    "head_dim": st.sampled_from([1, 64, 72, 96, 128, 256, 320, "symbolic"]),
    "mask_free": st.booleans(),
    "dtype": st.sampled_from(["bfloat16", "float16", "float32"]),
    "causal": st.sampled_from([True, False, "top_left", "bottom_right"]),
    "num_heads": st.sampled_from([8, 32]),
    "num_kv_heads": st.sampled_from([8, 12, 32]),
    "seq_len_q": st.sampled_from([1, 64]),
    "seq_len_kv": st.sampled_from([0, 1, 64]),
    "compile": st.booleans(),
}
calls = st.fixed_dictionaries(
    {"mask": st.sampled_from(WORDS.facts["mask"].values)},
    optional={
        "dtype": LAYER["dtype"],
        "seq_len_q": LAYER["seq_len_q"],
        "seq_len_kv": LAYER["seq_len_kv"],
        "causal": st.sampled_from([None, "top_left", "bottom_right"]),
        "mask_per_head": st.booleans(),
    },
)
layers = st.fixed_dictionaries({}, optional=LAYER | {"call": calls})
backends = st.none() | st.sampled_from(BACKENDS)
policies = st.sampled_from(["fallback", "strict"])


@given(machine=machines, layer=layers, backend=backends, policy=policies)
@settings(max_examples=200, deadline=None)
def test_a_trace_tells_the_decision(
    machine: Mapping[str, object], layer: Mapping[str, object], backend: str | None, policy: str
) -> None:
    """It names the row that decided, has a step for every row of each table it walked, and one winner at most."""
    decision = decide(machine, layer, backend=backend, policy=policy)
    walks = decision.explain().walks

    for walk in walks:
        assert [step.row for step in walk.steps] == list(shipped().tables[walk.table].rows)
        outcomes = [step.outcome for step in walk.steps]
        assert outcomes.count("chosen") <= 1
        reached = outcomes[: outcomes.index("chosen")] if "chosen" in outcomes else outcomes
        assert "not_reached" not in reached
        assert all(step.blamed for step, outcome in zip(walk.steps, reached, strict=False) if outcome != "chosen")
    winners = {walk.chosen.row.name for walk in walks if walk.chosen is not None}
    assert decision.rule is None or decision.rule in winners
    assert (decision.backend is None) is (decision.error is not None)
    assert (decision.rule is None) is (decision.log is None) is (decision.backend is None)


@given(machine=machines, layer=layers, backend=backends, policy=policies)
@settings(max_examples=100, deadline=None)
def test_a_decision_replays_from_json(
    machine: Mapping[str, object], layer: Mapping[str, object], backend: str | None, policy: str
) -> None:
    """The inputs that it carries give it again, and its text is stable."""
    decision = decide(machine, layer, backend=backend, policy=policy)
    again = Decision.from_json(decision.to_json())
    assert again.inputs is not None

    assert resolve(again.inputs, shipped()).to_json() == decision.to_json() == again.to_json()


@given(machine=machines, layer=layers, backend=backends)
@settings(max_examples=150, deadline=None)
def test_strict_only_takes_away(
    machine: Mapping[str, object], layer: Mapping[str, object], backend: str | None
) -> None:
    """Under the strict policy the answer is the same, or a refusal of what would have been substituted."""
    loose = decide(machine, layer, backend=backend)
    strict = decide(machine, layer, backend=backend, policy="strict")

    if strict.error is None:
        assert (strict.backend, strict.rule, strict.log) == (loose.backend, loose.rule, loose.log)
        assert backend is None or strict.backend == backend
    elif loose.error is None:
        assert backend is not None
        assert strict.error.code == "refused"
        assert loose.warnings


@given(machine=machines, layer=layers)
@settings(max_examples=150, deadline=None)
def test_a_default_is_never_refused_unless_no_kernel_could(
    machine: Mapping[str, object], layer: Mapping[str, object]
) -> None:
    """TORCH_SDPA takes every call but one whose heads do not divide."""
    decision = decide(machine, layer)

    if decision.error is not None:
        assert "KV heads evenly" in decision.error.message


KNOWABLE: dict[str, list[Value]] = {
    "arch": [*ARCHES],
    "cudnn": [None, 8907, 90499, 90500, 91002],
    **{f"packages.{name}": [None, *versions] for name, versions in VERSIONS.items()},
    "head_dim": [64, 72, 128, 320],
    "mask_free": [True, False],
    "dtype": ["bfloat16", "float16", "float32"],
    "compile": [True, False],
    "num_heads": [8],
    "num_kv_heads": [8],
    "causal": [True, False],
}


@given(machine=machines, layer=st.fixed_dictionaries({}, optional=LAYER), data=st.data())
@example(
    machine={"platform": "cuda", "arch": "sm_90", "packages": {"flash-attn-3": "unknown"}},
    layer={"head_dim": 64, "dtype": "bfloat16", "mask_free": False},
    data=None,
)
@settings(max_examples=300, deadline=None)
def test_a_fact_that_is_not_named_as_missing_changes_nothing(
    machine: Mapping[str, object], layer: Mapping[str, object], data: st.DataObject | None
) -> None:
    """Learning it, whatever it is, leaves the backend what it is."""
    decision = decide(machine, layer)
    assert decision.inputs is not None
    open_ = [name for name in KNOWABLE if name not in decision.facts and name not in decision.missing]
    if data is None:
        learnt: dict[str, Value] = {"packages.flash-attn-3": "0.0.3"}
    else:
        name = data.draw(st.sampled_from(open_ or ["cudnn"]))
        learnt = {name: data.draw(st.sampled_from(KNOWABLE[name]))} if open_ else {}
    of_machine = {name: value for name, value in learnt.items() if WORDS.facts[name].group == "machine"}
    request = decision.inputs.request
    told = dataclasses.replace(
        decision.inputs,
        machine={**decision.inputs.machine, **of_machine},
        request=dataclasses.replace(
            request, facts={**request.facts, **{name: learnt[name] for name in learnt if name not in of_machine}}
        ),
    )

    if not set(learnt) & set(decision.missing):
        assert resolve(told, shipped()).backend == decision.backend


@given(machine=machines, layer=layers, backend=backends)
@settings(max_examples=100, deadline=None)
def test_a_trace_and_a_decision_walk_alike(
    machine: Mapping[str, object], layer: Mapping[str, object], backend: str | None
) -> None:
    """Tracing is deciding again: what it leaves behind is the same decision."""
    decision = decide(machine, layer, backend=backend)
    assert decision.inputs is not None

    assert trace(decision.inputs, shipped()).to_dict() == decision.explain().to_dict()


def test_unknown_machines_are_asked_for_what_would_matter() -> None:
    """Of a bare CUDA machine, all that the first rows ask."""
    decision = decide({"platform": "cuda"}, {})

    assert decision.backend == "TORCH_SDPA"
    assert "arch" in decision.missing
    assert decide(without(cuda("sm_100", FI), "cudnn"), {"head_dim": 64}).missing == ("cudnn",)
