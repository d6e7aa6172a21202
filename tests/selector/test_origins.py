"""Where facts come from: every word end to end, what is not known told apart, and nothing of it decides."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, get_args

import pytest
import torch
from hypothesis import given, settings

from selector import Selector
from selector.configuring import POLICY_VARIABLE
from selector.decision import Decision, Inputs
from selector.dispatch import plan_for
from selector.facts import Request
from selector.origins import ORIGINS, STATES, State, Word, given_origins, state_of, word_of
from selector.probe import probe_machine
from selector.rendering.tree import render_tree
from selector.resolve import resolve
from selector.ruleset import shipped
from tests.selector.command.runs import ROOT, ask
from tests.selector.conftest import CPU, FA2, FA4, FI, cuda, decide, without
from tests.selector.probe.machines import Machine, with_modules
from tests.selector.probe.test_machine import TWO_B200
from tests.selector.rendering.cases import Case
from tests.selector.rendering.situations import situations

ADDITIVE = {"mask": "additive", "dtype": "bfloat16"}
FILE = """\
platform: cuda
cudnn: 91002
packages:
  flash-attn: 2.8.3
  kernels: unknown
devices:
  - {index: 0, arch: sm_90}
  - index: 1
    arch: sm_100
"""


def here(monkeypatch: pytest.MonkeyPatch, machine: Machine, **probing: object) -> Selector:
    """Give the selector of a machine that the probe is given."""
    probe: Any = partial(probe_machine, system=machine.system())
    monkeypatch.setattr("selector.probe.probe_machine", partial(probe, **probing))
    return Selector(environment={})


def written(tmp_path: Path, text: str = FILE, name: str = "facts.yaml") -> Path:
    """Write a file of facts."""
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


# --- the words ---


def test_every_word_has_its_sentence() -> None:
    """The lists are closed."""
    assert tuple(ORIGINS) == get_args(Word)
    assert set(STATES) == set(get_args(State))
    assert all(sentence.endswith(".") for sentence in (*ORIGINS.values(), *STATES.values()))
    assert [word_of(word) for word in ORIGINS] == list(ORIGINS)
    page = (ROOT / "docs/commands.md").read_text(encoding="utf-8")
    assert all(f"| `{word}` | {sentence} |\n" in page for word, sentence in ORIGINS.items())
    assert word_of("file a.yaml:3") == "file"
    assert word_of("facts") == "facts"


GIVEN: Mapping[str, tuple[Callable[[], Decision], str, str]] = {
    "facts": (lambda: decide(CPU), "platform", "facts"),
    "an absent package of a mapping": (lambda: decide(CPU), "packages.kernels", "facts"),
    "request": (lambda: decide(CPU, {"head_dim": 64}), "head_dim", "request"),
    "a role": (lambda: decide(CPU, {"role": "self"}), "role", "request"),
    "the alignment of a request": (lambda: decide(CPU, {"causal": "top_left"}), "causal_alignment", "request"),
    "a call": (lambda: decide(CPU, {"call": ADDITIVE}), "mask", "request"),
    "no role": (lambda: decide(CPU), "role", "default"),
    "no policy": (lambda: decide(CPU), "policy", "default"),
    "no causal flag of a call": (lambda: decide(CPU, {"call": ADDITIVE}), "causal", "default"),
    "policy": (lambda: decide(CPU, policy="strict"), "policy", "flag"),
    "policy of the environment": (
        lambda: decide(CPU, env={POLICY_VARIABLE: "strict"}), "policy", f"environment {POLICY_VARIABLE}",
    ),
    "flag": (lambda: decide(CPU, backend="TORCH_SDPA"), "backend", "flag"),
    "environment": (
        lambda: decide(CPU, env={"DIFFUSION_ATTENTION_BACKEND": "TORCH_SDPA"}), "backend",
        "environment DIFFUSION_ATTENTION_BACKEND",
    ),
    "that there is a default": (
        lambda: decide(CPU, env={"DIFFUSION_ATTENTION_BACKEND": "TORCH_SDPA"}), "configured.default",
        "environment DIFFUSION_ATTENTION_BACKEND",
    ),
    "config": (lambda: decide(CPU, config={"default": "TORCH_SDPA"}), "backend", "config"),
    "an entry": (lambda: decide(CPU, config={"per_role": {"self": "TORCH_SDPA"}}), "configured.role", "config"),
    "no entry": (lambda: decide(CPU), "configured.role", "default"),
    "a block": (
        lambda: decide(
            cuda(packages=FI),
            config={"default": {"backend": "TRTLLM_ATTN", "quant": {"dtype_qk": "int8", "q_block_size": 4}}},
        ), "quant.dtype_qk", "config",
    ),
    "model table": (lambda: decide(CPU, {"model": "WanPipeline"}), "head_dim", "model table WanPipeline"),
    "a role of a model": (
        lambda: decide(CPU, {"model": "Lightricks/LTX-2", "role": "ltx2.audio_to_video"}), "num_heads",
        "model table Lightricks/LTX-2",
    ),
    "the request before the model": (
        lambda: decide(CPU, {"model": "WanPipeline", "head_dim": 64}), "head_dim", "request",
    ),
    "the model": (lambda: decide(CPU, {"model": "WanPipeline"}), "model", "request"),
    "roles table": (lambda: decide(CPU, {"role": "wan2_1.cross"}), "role_category", "roles table"),
    "category": (lambda: decide(CPU, {"role": "x", "role_category": "cross"}), "role_category", "request"),
    "derived": (
        lambda: decide(CPU, {"num_heads": 8, "num_kv_heads": 4}), "equal_heads",
        "derived from num_heads and num_kv_heads",
    ),
    "row": (lambda: decide(CPU), "backend", "row platform_default/torch-sdpa"),
    "a substitute": (
        lambda: decide(CPU, backend="FLASH_ATTN"), "backend", "row explicit/to-torch-sdpa",
    ),
    "decided again": (
        lambda: decide(cuda(packages=FI), {"model": "WanPipeline", "call": ADDITIVE}), "mask_free",
        "row call/trtllm-mask",
    ),
    "taken as absent": (
        lambda: Selector(facts=cuda("sm_90", FA2), environment={}).resolve(Request(), ["packages.flash-attn"]),
        "packages.flash-attn", "taken as absent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GIVEN)
def test_what_is_given_is_told(name: str) -> None:
    """Each in its own words, with the model, the facts or the row by name."""
    make, fact, origin = GIVEN[name]

    assert make().origins[fact] == origin


def test_the_driver_and_the_metadata_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a plain probe finds, and what it does not."""
    installed = {"flashinfer-python": "0.6.18", "torch": "2.11.0+cu128", "nvidia-cudnn-cu12": "9.19.0.56"}

    origins = here(monkeypatch, Machine(driver=TWO_B200, installed=installed)).decide().origins

    assert (origins["platform"], origins["arch"]) == ("device query", "device query")
    assert (origins["cudnn"], origins["packages.flashinfer"]) == ("package metadata", "package metadata")
    assert origins["packages.kernels"] == "package metadata"


def test_no_cudnn_follows_from_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without an NVIDIA GPU has none, whatever is installed."""
    origins = here(monkeypatch, Machine(installed={"nvidia-cudnn-cu12": "9.19.0.56"})).decide().origins

    assert origins["cudnn"] == "derived from platform"


def test_a_torch_that_is_imported_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """It knows its cuDNN."""
    library = SimpleNamespace(getVersionInt=lambda: 91002)
    loaded: Any = ModuleType("torch")
    loaded.__dict__.update(_C=SimpleNamespace(_cudnn=library), version=SimpleNamespace(cuda="12.8"))

    decision = here(monkeypatch, Machine(driver=TWO_B200, loaded={"torch": loaded})).decide()

    assert (decision.facts["cudnn"], decision.origins["cudnn"]) == (91002, "torch")


@pytest.mark.parametrize(("source", "origin"), [("raise OSError('x')", "deep probe"), ("", "package metadata")])
def test_a_package_that_does_not_import_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, origin: str
) -> None:
    """That it is absent says the deep probe; of one that is imported the metadata still say the version."""
    system = with_modules(tmp_path, {"kernels": f"def get_kernel(): ...\n{source}"})
    monkeypatch.setattr("selector.probe.probe_machine", partial(probe_machine, deep=True, timeout=60.0, system=system))

    decision = Selector(environment={}).decide()

    assert decision.origins["packages.kernels"] == origin
    assert (decision.facts["packages.kernels"] is None) is (origin == "deep probe")


@pytest.mark.parametrize(
    ("device", "lines"),
    [
        (0, {"platform": 1, "arch": 7, "cudnn": 2, "packages.flash-attn": 4, "packages.flashinfer": 3}),
        (1, {"platform": 1, "arch": 9, "cudnn": 2, "packages.flash-attn": 4, "packages.flashinfer": 3}),
    ],
)
def test_a_file_is_told_with_its_lines(tmp_path: Path, device: int, lines: Mapping[str, int]) -> None:
    """Those of the device; a package that is not listed has the line of the list."""
    path = written(tmp_path)

    origins = Selector(facts=path, device=device, environment={}).decide().origins

    assert {fact: origins[fact] for fact in lines} == {fact: f"file {path}:{line}" for fact, line in lines.items()}


def test_no_device_has_the_line_of_the_list(tmp_path: Path) -> None:
    """That there is no GPU stands there."""
    path = written(tmp_path, '{"platform": "cpu",\n"packages": {},\n"devices": []}', "facts.json")

    origins = Selector(facts=path, environment={}).decide().origins

    assert origins["arch"] == f"file {path}:3"


def test_another_device_of_a_file_has_its_own_lines(tmp_path: Path) -> None:
    """A selector for it tells those; for facts from elsewhere it cannot know the file."""
    chosen = Selector(facts=written(tmp_path), environment={}, policy="strict")
    (_, machine), *_ = chosen.other_machines()

    assert chosen.on(machine).decide().origins["arch"].endswith(":9")
    assert chosen.on(dict(machine)).decide().origins["arch"] == "facts"
    assert chosen.on(machine).decide().origins["policy"] == "flag"


def test_flags_of_explain_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """For the layer and for the call; what no flag says is a default."""
    flags = ("--role", "self", "--head-dim", "64", "--mask", "additive", "--dtype", "bfloat16")

    told = json.loads(ask(capsys, "explain", "--facts", str(written(tmp_path)), "--format", "json", *flags).out)

    assert {name: told["origins"][name] for name in ("role", "head_dim", "mask", "dtype")} == dict.fromkeys(
        ("role", "head_dim", "mask", "dtype"), "flag"
    )
    assert (told["origins"]["causal"], told["origins"]["causal_alignment"]) == ("default", "default")
    assert told["origins"]["arch"].startswith("file ")


def test_a_causal_flag_is_told_as_its_alignment(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """One flag says both."""
    flags = ("--causal", "top_left", "--mask", "none", "--dtype", "bfloat16")

    told = json.loads(ask(capsys, "explain", "--facts", str(written(tmp_path)), "--format", "json", *flags).out)

    assert (told["origins"]["causal"], told["origins"]["causal_alignment"]) == ("flag", "flag")


def test_lines_of_decide_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Facts are given, the request asks, and the trace tells all of it beside its walks."""
    line = {"facts": CPU, "request": {"head_dim": 64}, "policy": "strict", "env": {}}
    lines = tmp_path / "lines"
    lines.write_text(json.dumps(line) + "\n{}\n[]\n", encoding="utf-8")

    given, here_, wrong = map(json.loads, ask(capsys, "decide", "--trace", str(lines)).out.splitlines())

    assert {name: given["origins"][name] for name in ("platform", "head_dim", "policy", "role")} == {
        "platform": "facts", "head_dim": "request", "policy": "flag", "role": "default",
    }  # fmt: skip
    assert here_["origins"]["platform"] == "device query"
    assert (wrong["trace"], wrong["layers"], wrong["origins"]) == ([], [], {})


def test_tensors_are_told() -> None:
    """What is read off them, and what the caller says beside them."""
    q, k = torch.randn(1, 8, 4, 16), torch.randn(1, 8, 2, 16)
    chosen = Selector(facts=CPU, environment={})

    plain = plan_for(q, k, k, selector=chosen).decision.origins
    more = plan_for(q, k, k, selector=chosen, role="cross", causal=True, compile=True).decision.origins

    read = ("head_dim", "num_heads", "num_kv_heads", "dtype", "seq_len_q", "seq_len_kv", "mask_matches_dtype")
    assert {plain[name] for name in read} == {"tensors"}
    assert (plain["role"], plain["causal"], plain["mask"]) == ("default", "default", "request")
    assert (more["role"], more["causal"], more["causal_alignment"], more["compile"]) == ("request",) * 4


# --- what is not known ---


def conditions(decision: Decision) -> dict[str, dict[str, Any]]:
    """Give a condition of the trace for each fact."""
    walks: list[Any] = decision.explain().to_dict()
    return {told["fact"]: told for walk in walks for row in walk["rows"] for told in row["conditions"]}


def drawn(decision: Decision) -> list[str]:
    """Draw the tree, and give its lines."""
    return render_tree(decision, decision.explain(), width=160, colour=False).splitlines()


def test_absent_is_not_the_same_as_not_looked_for() -> None:
    """A package that is not listed, one that is `unknown`, and a request that says nothing are three things."""
    packages = {"flash-attn-4": "unknown"}
    decision = decide(without(cuda("sm_100", packages), "cudnn"), {"head_dim": 64})

    told, lines = conditions(decision), drawn(decision)

    assert (told["packages.flashinfer"]["state"], told["packages.flashinfer"]["origin"]) == ("absent", "facts")
    assert (told["packages.flash-attn-4"]["state"], told["packages.flash-attn-4"]["origin"]) == ("not looked for", None)
    assert (told["cudnn"]["state"], told["cudnn"]["known"]) == ("not looked for", False)
    assert (told["mask_free"]["state"], told["mask_free"]["origin"]) == ("not given", None)
    assert "state" not in told["platform"]
    assert "├ not looked for: cudnn, packages.flash-attn-4" in lines
    assert any(line.startswith("├ packages absent: flashinfer, ") for line in lines)
    assert any(line.startswith("├ not given: ") and "mask_free" in line for line in lines)


def test_without_a_list_no_package_was_looked_for() -> None:
    """With an empty list all are absent."""
    nobody = decide(without(cuda("sm_90"), "packages"), {"head_dim": 64})

    assert conditions(nobody)["packages.flash-attn"]["state"] == "not looked for"
    assert conditions(decide(cuda("sm_90"), {"head_dim": 64}))["packages.flash-attn"]["state"] == "absent"


def test_cudnn_that_the_probe_cannot_tell_was_not_looked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be one."""
    decision = here(monkeypatch, Machine(driver=TWO_B200)).decide()

    assert conditions(decision)["cudnn"]["state"] == "not looked for"
    assert any(line.startswith("├ not looked for: cudnn") for line in drawn(decision))


def test_a_derived_fact_is_as_unknown_as_what_it_follows_from() -> None:
    """The tree names what is behind it."""
    decision = decide(CPU, {"call": {"mask": "none", "dtype": "float32"}, "num_heads": 8})

    assert conditions(decision)["heads_divide"]["state"] == "not given"
    (line,) = [line for line in drawn(decision) if line.startswith("├ not given: ")]
    assert "num_kv_heads" in line
    assert "heads_divide" not in line
    assert state_of("heads_divide", {"num_heads": 8, "num_kv_heads": 0}, shipped().vocabulary) == "not given"


def test_a_null_that_is_a_value_is_not_absence() -> None:
    """A call that is not causal has no alignment, and the config asks for no type."""
    facts = decide(CPU, {"call": ADDITIVE}).facts

    assert state_of("causal_alignment", facts, shipped().vocabulary) is None
    assert state_of("quant.dtype_qk", facts, shipped().vocabulary) is None


# --- laws ---


@settings(deadline=None, max_examples=100)
@given(case=situations())
def test_every_fact_has_an_origin_of_the_list(case: Case) -> None:
    """At the end and in each walk, and no origin is of a fact that is not known."""
    decision = case.decide()
    trace = decision.explain()

    assert set(decision.origins) == set(decision.facts)
    for walk in trace.walks:
        assert set(walk.origins) == set(walk.facts)
        assert all(word_of(origin) for origin in walk.origins.values())
        assert all((condition["origin"] is None) is not condition["known"] for condition in _conditions(walk.to_dict()))


def _conditions(walk: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [condition for row in walk["rows"] for condition in row["conditions"]]


@settings(deadline=None, max_examples=60)
@given(case=situations())
def test_origins_survive_json(case: Case) -> None:
    """Of the decision and of its inputs; so does the trace, and the layers."""
    decision = case.decide()
    again = Decision.from_json(decision.to_json())

    assert again.origins == decision.origins
    assert again.inputs is not None
    assert decision.inputs is not None
    assert again.inputs.origins == given_origins(decision.inputs)
    assert again.explain(shipped()).origins == decision.origins
    assert again.explain(shipped()).layers == decision.explain().layers
    assert again.to_json() == decision.to_json()


def test_no_decision_depends_on_an_origin() -> None:
    """Inputs that differ in it alone are equal, and so are their decisions."""
    inputs = decide(cuda(packages=FA4), {"head_dim": 64}).inputs
    assert inputs is not None
    other = dataclasses.replace(inputs, origins={"arch": "file x.yaml:1"})

    assert other == inputs
    assert resolve(other, shipped()) == resolve(inputs, shipped())
    assert resolve(other, shipped()).origins["arch"] == "file x.yaml:1"


def test_inputs_without_origins_have_them_all_the_same() -> None:
    """A mapping and a request are what is there where nothing else is said."""
    decision = resolve(
        Inputs({"platform": "cpu"}, Request("cross", facts={"head_dim": 64}), policy="strict"), shipped()
    )

    assert {name: decision.origins[name] for name in ("platform", "role", "head_dim", "policy")} == {
        "platform": "facts", "role": "request", "head_dim": "request", "policy": "flag",
    }  # fmt: skip


def test_an_input_that_is_not_valid_has_no_facts() -> None:
    """And a decision without rules does not know."""
    assert decide(CPU, {"head_dim": 0}).origins == {}
    assert dataclasses.replace(decide(CPU), rules=None).origins == {}
