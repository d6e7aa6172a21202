"""The selector: rules, facts and config in each of their forms, errors in their place, and what it answers."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog
import yaml

from selector import (
    AttentionConfig,
    AttentionSpec,
    ConfigError,
    FactsError,
    InvalidSelectionError,
    ProblemsError,
    SelectionRefusedError,
    Selector,
    TableError,
    load_rules,
    logs,
)
from selector.decision_log import DecisionLog
from selector.facts import Request
from selector.faults import Fault
from selector.ruleset import RuleSet, shipped
from selector.selecting import rules_from
from selector.serving import invalid
from tests.selector.conftest import BACKENDS, CPU, FA2, FI, SAGE2, cuda, overlay

BACKEND, POLICY, RULES = "DIFFUSION_ATTENTION_BACKEND", "ATTENTION_SELECTOR_POLICY", "ATTENTION_SELECTOR_RULES"
KNOWN = f"known: {', '.join(BACKENDS)}"
SWAP = {"explicit.yaml": [("backend: [FLASH_ATTN, FLASH_ATTN_HUB", "backend: [SAGE_ATTN, FLASH_ATTN, FLASH_ATTN_HUB")]}


@pytest.fixture(autouse=True)
def _nothing_announced() -> Iterator[None]:
    """Forget what other tests logged."""
    logs.forget()
    yield
    logs.forget()


def selector(**given: object) -> Selector:
    """Make a selector for a CPU, with no environment, unless other things are given."""
    return Selector(**({"facts": CPU, "environment": {}} | given))  # type: ignore[arg-type]


def problems(error: type[ProblemsError], **given: object) -> list[str]:
    """Give what is wrong, as it is shown."""
    with pytest.raises(error) as caught:
        selector(**given)
    return [str(problem) for problem in caught.value.problems]


# --- rules ---


def test_rules_are_the_shipped_ones_unless_others_are_given() -> None:
    """And loaded once."""
    assert selector().rules is shipped()
    assert rules_from(None, {RULES: ""}) is shipped()
    assert rules_from([], {}) is shipped()


def test_rules_go_before_the_shipped_ones(tmp_path: Path) -> None:
    """As a folder, several of them, a rule set, or in the environment; a later folder goes before an earlier one."""
    one = overlay(tmp_path / "one", SWAP)
    two = overlay(tmp_path / "two", {"roles.yaml": [("cosmos3.gen: cross", "cosmos3.gen: self")]})
    loaded = load_rules([one])

    for given in (str(one), one, [one], [str(one), two], loaded):
        assert selector(rules=given, backend="SAGE_ATTN").select().backend == "TORCH_SDPA"
    assert selector(rules=loaded).rules is loaded
    assert selector(environment={RULES: str(one)}).rules.digest == loaded.digest
    both = selector(environment={RULES: os.pathsep.join([str(one), "", str(two)])}).rules
    assert both.digest == selector(rules=[one, two]).rules.digest
    assert both.digest != loaded.digest
    assert both.folders == (str(one), str(two))


def test_given_rules_go_before_the_environments(tmp_path: Path) -> None:
    """Which then is not read at all."""
    assert selector(rules=[], environment={RULES: str(tmp_path / "nowhere")}).rules is shipped()
    assert selector(rules=shipped(), environment={RULES: str(tmp_path / "nowhere")}).rules is shipped()


def test_rules_that_do_not_load_are_told_with_their_place(tmp_path: Path) -> None:
    """Every problem of every file at once."""
    edits = {
        "roles.yaml": [("cosmos3.gen: cross", "cosmos3.gen: [cross]")],
        "platform_default.yaml": [("head_dim: 128", "head_dims: 128")],
    }
    folder = overlay(tmp_path / "o", edits)

    found = problems(TableError, rules=folder)

    assert found[0] == (
        f"{folder / 'platform_default.yaml'}:13:7: unknown-fact: no fact `head_dims`\n  hint: did you mean `head_dim`?"
    )
    assert found[-1].startswith(f"{folder / 'roles.yaml'}:")
    assert len({line.split(":")[0] for line in found}) == 2


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nowhere", ": unreadable: cannot read the rules folder: no such file or directory"),
        ("file.yaml", ":1:1: unknown-key: wanted a rule set (a mapping)"),
    ],
)
def test_a_rules_folder_that_is_none(tmp_path: Path, name: str, said: str) -> None:
    """Not there, or a file that is no rule set."""
    (tmp_path / "file.yaml").write_text("{}", encoding="utf-8")

    (line,) = problems(TableError, rules=tmp_path / name)

    assert said in line


def test_a_rules_folder_is_told_by_its_whole_name(tmp_path: Path) -> None:
    """So that it can be looked for."""
    folder = tmp_path / ("nowhere" * 10)

    (line,) = problems(TableError, rules=folder)

    assert line.startswith(f"{folder}: unreadable: ")


def test_an_empty_rules_folder(tmp_path: Path) -> None:
    """It is a mistake rather than a wish for the shipped rules."""
    assert problems(TableError, rules=tmp_path) == [
        f"{tmp_path}: no-rules: the rules folder holds no rule file (*.yaml)"
    ]


# --- facts ---


@pytest.mark.parametrize("suffix", ["yaml", "yml", "json"])
@pytest.mark.parametrize("as_text", [True, False])
def test_facts_come_from_a_file(tmp_path: Path, suffix: str, *, as_text: bool) -> None:
    """YAML or JSON, and decide as the mapping does."""
    facts = cuda("sm_90", FA2)
    path = tmp_path / f"facts.{suffix}"
    path.write_text(json.dumps(facts) if suffix == "json" else yaml.safe_dump(facts), encoding="utf-8")

    chosen = selector(facts=str(path) if as_text else path)

    assert chosen.machine == selector(facts=facts).machine
    assert chosen.select(head_dim=64).backend == "FLASH_ATTN"


def test_facts_of_a_file_are_told_with_line_and_column(tmp_path: Path) -> None:
    """All of them, in the order of the file."""
    path = tmp_path / "facts.yaml"
    path.write_text(
        "platform: CUDA\narch: sm_90\npackages:\n  flash-attn: 2.10\n  xformers: '1'\ncudnn: on\nx: 1\n",
        encoding="utf-8",
    )

    assert "\n".join(problems(FactsError, facts=path)).splitlines() == [
        f"{path}:1:11: bad-value: `platform`: wanted one of cuda, rocm, xpu, npu, musa, cpu, got `CUDA`",
        "  hint: did you mean `cuda`?",
        f"{path}:4:15: bad-value: `packages.flash-attn`: wanted a version as a string, got the number 2.1",
        "  hint: quote it",
        f"{path}:5:3: unknown-key: no package `xformers` in the vocabulary",
        f"  hint: known here: {', '.join(shipped().vocabulary.packages)}",
        f"{path}:6:8: bad-value: `cudnn`: wanted an integer, got the string `on`",
        f"{path}:7:1: unknown-key: no key `x` here",
        "  hint: known here: platform, arch, cudnn, driver, torch, packages, switches, devices, notes, unusable",
    ]


def test_facts_of_a_mapping_are_told_with_their_path() -> None:
    """There is no line to name."""
    assert problems(FactsError, facts={"platform": "cuda", "devices": [{"arch": 90}]}) == [
        "facts (devices[0].arch): bad-value: `arch`: wanted a string, got the number 90"
    ]
    assert problems(FactsError, facts=[]) == ["facts: wrong-type: wanted a mapping of facts, got a list"]


def test_without_facts_this_machine_is_read() -> None:
    """And decides without any being given."""
    chosen = Selector(environment={})

    assert chosen.machine["platform"] in shipped().vocabulary.facts["platform"].values
    assert chosen.decide().backend is not None


DEVICES = {
    "platform": "cuda", "cudnn": 91002, "packages": FA2 | SAGE2,
    "devices": [{"arch": "sm_90"}, {"arch": "sm_120"}, {"arch": "sm_90"}],
}  # fmt: skip


def test_one_of_several_devices_is_asked() -> None:
    """The first unless another is named."""
    assert selector(facts=DEVICES).select(head_dim=64).backend == "FLASH_ATTN"
    assert selector(facts=DEVICES, device=1).select(head_dim=64).backend == "CUDNN_ATTN"
    assert problems(FactsError, facts=DEVICES, device=3) == [
        "facts (devices): no-device: wanted one of 3 devices (0 to 2), got device 3"
    ]


def test_other_devices_are_those_that_differ() -> None:
    """Each with its number and facts; one machine alone has none."""
    chosen = selector(facts=DEVICES)

    assert [(device, machine["arch"]) for device, machine in chosen.other_machines()] == [(1, "sm_120")]
    assert [device for device, _ in selector(facts=DEVICES, device=1).other_machines()] == [0, 2]
    assert list(selector().other_machines()) == []


def test_the_same_selector_on_another_machine() -> None:
    """Rules, config and policy stay; what was bound for the first does not travel."""
    chosen = selector(facts=DEVICES, config={"per_role": {"cross": "SAGE_ATTN"}}, policy="strict")
    chosen.serving.plans["x"] = "bound"
    (_, machine), *_ = chosen.other_machines()

    other = chosen.on(machine)

    assert other.select(head_dim=64).backend == "CUDNN_ATTN"
    assert other.select("cross", head_dim=64).backend == "SAGE_ATTN"
    assert (other.policy, other.rules, other.serving.plans) == ("strict", chosen.rules, {})
    assert chosen.select(head_dim=64).backend == "FLASH_ATTN"
    assert chosen.serving.plans == {"x": "bound"}


# --- config ---

FORMS: list[object] = [
    {"default": "TORCH_SDPA", "per_role": {"cross": "SAGE_ATTN"}},
    AttentionConfig(
        default=AttentionSpec(backend="TORCH_SDPA"), per_role={"cross": AttentionSpec(backend="SAGE_ATTN")}
    ),
    "yaml",
    "json",
]


@pytest.mark.parametrize("form", FORMS, ids=["mapping", "typed", "yaml", "json"])
def test_config_comes_in_every_form(tmp_path: Path, form: object) -> None:
    """A mapping, the typed form, and a file of either kind decide alike."""
    given: object = form
    if isinstance(form, str):
        given = tmp_path / f"config.{form}"
        text = json.dumps(FORMS[0]) if form == "json" else yaml.safe_dump(FORMS[0])
        given.write_text(text, encoding="utf-8")

    chosen = selector(facts=cuda("sm_90", SAGE2), config=given)

    assert chosen.select("self").backend == "TORCH_SDPA"
    assert chosen.select("cross").backend == "SAGE_ATTN"
    assert chosen.choices == selector(facts=cuda("sm_90", SAGE2), config=FORMS[0]).choices


def test_config_of_a_file_is_told_with_line_and_column(tmp_path: Path) -> None:
    """What is wrong with its form, and what is wrong with its values, at once."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "default:\n  backend: NOPE\n  x: 1\nper_role:\n  cross: sage_atn\n  self:\n    backend: TRTLLM_ATTN\n"
        "    quant:\n      q_block_size: 4.0\n",
        encoding="utf-8",
    )

    found = problems(ConfigError, config=path)

    assert [line.split(": ")[:2] for line in found] == [
        [f"{path}:2:12", "unknown-backend"],
        [f"{path}:3:3", "unknown-key"],
        [f"{path}:5:10", "unknown-backend"],
        [f"{path}:9:21", "wrong-type"],
    ]
    assert "did you mean `SAGE_ATTN`?" in found[2]


@pytest.mark.xfail(
    reason="where the form of an entry is wrong, the values of its other fields are not checked", strict=True
)
def test_a_wrong_type_hides_no_wrong_value() -> None:
    """Both are told at once."""
    quant = {"dtype_qk": "float16", "q_block_size": 4.0}

    assert len(problems(ConfigError, config={"default": {"backend": "TRTLLM_ATTN", "quant": quant}})) == 2


def test_a_block_that_is_not_read_is_told_in_its_file(tmp_path: Path) -> None:
    """Its form is right, so the rules have the word."""
    path = tmp_path / "config.yaml"
    path.write_text("default:\n  backend: FLASH_ATTN\n  skip_softmax: {threshold: 1.0}\n", encoding="utf-8")

    (line,) = problems(ConfigError, config=path)

    assert line.startswith(f"{path}:3:")
    assert "FLASH_ATTN does not read `skip_softmax`" in line


def test_config_of_a_mapping_is_told_with_its_path() -> None:
    """There is no line to name."""
    assert problems(ConfigError, config={"default": "NOPE"}) == [
        f"config (default): unknown-backend: no backend `NOPE`\n  hint: {KNOWN}"
    ]


@pytest.mark.parametrize(
    ("given", "place", "code"),
    [
        ({"backend": "NOPE"}, "--diffusion-attention-backend", "unknown-backend"),
        ({"policy": "lax"}, "--policy", "bad-value"),
        ({"environment": {BACKEND: "NOPE"}}, BACKEND, "unknown-backend"),
        ({"environment": {POLICY: "lax"}}, POLICY, "bad-value"),
        ({"config": {"default": "SAGE_ATTN"}, "backend": "SAGE_ATTN"}, "--diffusion-attention-backend",
         "mutually_exclusive"),
    ],
)  # fmt: skip
def test_settings_are_told_at_their_name(given: Mapping[str, object], place: str, code: str) -> None:
    """As a person would look for them."""
    (line,) = problems(ConfigError, **given)

    assert line.startswith(f"{place}: {code}: ")


def test_everything_that_is_wrong_with_the_config_is_told_at_once() -> None:
    """Config and policy together."""
    found = problems(ConfigError, config={"default": "NOPE", "x": 1}, policy="lax")

    assert [line.split(": ")[0] for line in found] == ["--policy", "config (default)", "config (x)"]


def test_settings_come_from_the_environment() -> None:
    """From the one that is given, or from the process's own."""
    chosen = selector(environment={BACKEND: "SAGE_ATTN", POLICY: "strict", "OTHER": "x"})

    assert (chosen.policy, chosen.choices.default_origin) == ("strict", "env")
    assert selector(policy="fallback", environment={POLICY: "strict"}).policy == "fallback"


def test_the_environment_of_the_process_is_read_when_none_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the selector is made, and not later."""
    monkeypatch.setenv(BACKEND, "torch_sdpa")
    chosen = Selector(facts=cuda("sm_90", FA2))
    monkeypatch.setenv(BACKEND, "NOPE")

    decision = chosen.select()

    assert (decision.backend, decision.origin) == ("TORCH_SDPA", "env")


# --- asking ---


def test_select_gives_the_decision_and_logs_it_once() -> None:
    """Facts of the request go by name."""
    chosen = selector(facts=cuda("sm_100", FI))

    with structlog.testing.capture_logs() as lines:
        decisions = [chosen.select(role, head_dim=128, mask_free=True) for role in ("self", "cross", "self")]

    assert {decision.backend for decision in decisions} == {"TRTLLM_ATTN"}
    assert [line["event"] for line in lines] == [
        "Defaulting to diffusion attention backend TRTLLM_ATTN (datacenter Blackwell sm_100, head_dim 128)"
    ]


def test_select_raises_a_refusal() -> None:
    """With the decision, and nothing is logged."""
    chosen = selector(backend="SAGE_ATTN")

    with structlog.testing.capture_logs() as lines, pytest.raises(SelectionRefusedError) as caught:
        chosen.select("self")

    assert lines == []
    assert caught.value.decision.error is not None
    assert str(caught.value).startswith("SAGE_ATTN cannot run here (")


def test_select_raises_what_is_not_valid() -> None:
    """A fact that nobody knows, a wrong value, and a platform that is not known."""
    with pytest.raises(InvalidSelectionError) as caught:
        selector().select("self", head_dims=64, dtype="fp16")
    assert [problem.place.path for problem in caught.value.problems] == ["dtype", "head_dims"]
    assert {problem.place.file for problem in caught.value.problems} == {"request"}

    with pytest.raises(InvalidSelectionError, match="`platform` is not known"):
        selector(facts={}).select()


def test_decide_answers_instead() -> None:
    """And logs nothing."""
    with structlog.testing.capture_logs() as lines:
        refused = selector(backend="SAGE_ATTN").decide("self")
        wrong = selector().decide("self", head_dims=64)
        good = selector().decide("self", head_dim=64)

    assert lines == []
    assert refused.error is not None
    assert refused.error.code == "refused"
    assert wrong.error is not None
    assert (wrong.error.code, wrong.error.path) == ("invalid", "head_dims")
    assert good.error is None


def test_a_call_is_asked_about_with_the_layer() -> None:
    """As a mapping of its own."""
    chosen = selector(facts=cuda("sm_90", FA2))
    call = {"mask": "additive", "dtype": "bfloat16"}

    assert chosen.decide("self", head_dim=64).backend == "FLASH_ATTN"
    assert chosen.decide("self", head_dim=64, call=call).backend == "TORCH_SDPA"


def test_a_request_that_is_checked_is_resolved() -> None:
    """Also with facts that are taken as absent."""
    chosen = selector(facts=cuda("sm_90", FA2))
    request = Request(facts={"head_dim": 64})

    assert chosen.resolve(request).backend == "FLASH_ATTN"
    assert chosen.resolve(request, ["packages.flash-attn"]).backend == "TORCH_SDPA"


def test_threads_share_a_selector() -> None:
    """Their answers are those of one thread."""
    chosen = selector(facts=cuda("sm_100", FI | FA2 | SAGE2))
    asked: list[dict[str, Any]] = [
        {"head_dim": size, "mask_free": free} for size in (64, 72, 128, 320) for free in (True, False)
    ] * 8

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda request: chosen.decide(**request), asked))

    assert answers == [chosen.decide(**request) for request in asked]


def test_the_exclusive_fault_stands_alone(rules: RuleSet) -> None:
    """Whatever else is wrong, it is the answer."""
    faults = [Fault(("x",), "unknown-key", "no"), Fault(("backend",), "mutually_exclusive", "both", "hint")]

    decision = invalid(faults, rules, "strict", "line")

    assert decision.error is not None
    assert (decision.error.code, decision.error.message, decision.error.path) == (
        "mutually_exclusive", "both (hint)", "backend",
    )  # fmt: skip
    assert len(decision.error.problems) == 2
    assert decision.policy == "strict"
    assert invalid(faults[:1], rules, "fallback", "line").error != decision.error
    none = invalid([Fault((), "c", "m")], rules, "fallback", "line").error
    assert none is not None
    assert none.path is None


def test_devices_with_numbers_of_their_own_are_asked_for_by_them() -> None:
    """A machine that shows its GPUs 3 and 5 alone is asked about those, and each knows the other."""
    shown = [{"index": 3, "arch": "sm_90"}, {"index": 5, "arch": "sm_120"}]
    facts = {"platform": "cuda", "cudnn": 91900, "packages": {}, "devices": shown}

    chosen = Selector(facts=facts, device=5, environment={})

    assert chosen.machine["arch"] == "sm_120"
    assert [(number, machine["arch"]) for number, machine in chosen.other_machines()] == [(3, "sm_90")]


# --- the log ---


def logged(path: Path) -> list[dict[str, Any]]:
    """Give the lines of a decision log."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_every_decision_is_logged(tmp_path: Path) -> None:
    """Those of `decide`, `select` and `resolve`, also equal ones and refusals, in their order."""
    with DecisionLog(tmp_path / "log") as log:
        chosen = selector(facts=cuda("sm_90", FA2), config={"per_role": {"cross": "SAGE_ATTN"}}, log=log)
        made = [chosen.decide("self"), chosen.select("self"), chosen.decide("cross"), chosen.resolve(Request())]
        with pytest.raises(SelectionRefusedError):
            chosen.select("cross")

    lines = logged(tmp_path / "log")
    assert [line["request"]["role"] for line in lines] == ["self", "self", "cross", "self", "cross"]
    assert [line["decision"]["backend"] for line in lines] == [*(decision.backend for decision in made), None]
    assert {line["digest"] for line in lines} == {chosen.rules.digest}
    assert log.dropped == 0


def test_what_was_not_valid_is_not_logged(tmp_path: Path) -> None:
    """It cannot be made again."""
    with DecisionLog(tmp_path / "log") as log:
        chosen = selector(log=log)
        assert chosen.decide("self", head_dims=64).error is not None

    assert logged(tmp_path / "log") == []


def test_a_log_that_cannot_be_written_breaks_no_decision(tmp_path: Path) -> None:
    """What was lost is counted."""
    log = DecisionLog(tmp_path / "log")
    chosen = selector(log=log)
    log.close()

    assert chosen.select("self").backend == "TORCH_SDPA"
    assert log.dropped == 1


def test_rules_in_the_shadow_are_not_logged(tmp_path: Path) -> None:
    """A line says what served."""
    rules = tmp_path / "rules"
    rules.mkdir()
    (rules / "roles.yaml").write_text("roles: {mine: cross}", encoding="utf-8")
    with DecisionLog(tmp_path / "log") as log:
        chosen = selector(rules=rules, log=log)
        (rules / "roles.yaml").write_text("roles: {mine: self}", encoding="utf-8")
        before = chosen.rules.digest
        assert chosen.reload(shadow=True).outcome == "shadowed"
        chosen.decide("mine")
        chosen.switch()
        chosen.decide("mine")

    assert [line["digest"] for line in logged(tmp_path / "log")] == [before, chosen.rules.digest]
    assert before != chosen.rules.digest


def test_a_copy_has_no_log(tmp_path: Path) -> None:
    """A log is an open file, and belongs to who opened it."""
    with DecisionLog(tmp_path / "log") as log:
        chosen = selector(log=log)
        for other in (copy.copy(chosen), copy.deepcopy(chosen), chosen.on(chosen.machine)):
            other.decide("self")

    assert logged(tmp_path / "log") == []
