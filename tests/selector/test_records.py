from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.config import AttentionSpec
from selector.decision import Decision, InvalidSelectionError
from selector.lines import Lines
from selector.records import DecisionError, Difference, read_decision, replay
from selector.ruleset import RuleSet, load_rules, shipped
from selector.structure import schema_faults
from tests.selector.conftest import CPU, FA2, FI, cuda, decide, overlay
from tests.selector.schemas.documents import KEYS, LINES, SLIPS

TRTLLM = {"per_role": {"cross": {"backend": "TRTLLM_ATTN", "skip_softmax": {"target_sparsity": 0.5}}}}


def written(decision: Decision) -> Decision:
    """Write a decision and read it again."""
    return Decision.from_json(decision.to_json())


def comparable(decision: Decision) -> Decision:
    """Leave the problems behind an error out, which are not written."""
    error = decision.error
    return decision if error is None else replace(decision, error=replace(error, problems=()))


def problems(data: object) -> list[str]:
    """Give what is said of data that is no decision."""
    with pytest.raises(DecisionError) as caught:
        read_decision(data)
    return [str(problem) for problem in caught.value.problems]


def refused(data: object) -> bool:
    """Whether data is no decision; there is a reason then."""
    try:
        read_decision(data)
    except DecisionError as error:
        return bool(error.problems)
    return False


# --- there and back ---


@settings(max_examples=200, deadline=None, derandomize=True)
@given(line=LINES)
def test_a_decision_comes_back_as_it_was(line: dict[str, Any]) -> None:
    """Whatever was asked, and whatever came of it."""
    decision = Lines(shipped()).decide(line)

    read = written(decision)

    assert comparable(read) == comparable(decision)
    assert read.missing == decision.missing
    assert read.to_json() == decision.to_json()
    assert schema_faults("decision", json.loads(decision.to_json())) == []


@settings(max_examples=75, deadline=None, derandomize=True)
@given(line=LINES)
def test_a_decision_that_was_read_explains_and_replays(line: dict[str, Any]) -> None:
    """With the rules that it was made with, every step is the same, and nothing changes."""
    decision = Lines(shipped()).decide(line)
    read = written(decision)
    if decision.inputs is None:
        return

    assert read.explain(shipped()).to_dict() == decision.explain().to_dict()
    assert not replay(read, shipped()).changed


def test_a_spec_comes_back_typed() -> None:
    """With the blocks and fields that were written, and no others."""
    decision = decide(cuda(packages=FI), {"role": "cross", "head_dim": 128}, config=TRTLLM)

    read = written(decision)

    assert read.spec == AttentionSpec.model_validate(TRTLLM["per_role"]["cross"])
    assert read.inputs is not None
    assert read.inputs.choices.per_role["cross"].blocks() == {"skip_softmax": {"target_sparsity": 0.5}}


def test_a_spec_of_a_backend_that_the_shipped_rules_do_not_know_comes_back(tmp_path: Path) -> None:
    """The form alone is checked, as the rules it was made with are not at hand."""
    added = "backends:\n  NEW_ATTN:\n    about: New.\n    reads: {quant: {dtype_qk: [int8]}}\n"
    rules = load_rules([overlay(tmp_path / "rules", {"backends.yaml": [("backends:\n", added)]})])
    config = {"default": {"backend": "NEW_ATTN", "quant": {"dtype_qk": "int8"}}}

    decision = decide(CPU, config=config, rules=rules)

    assert decision.backend == "NEW_ATTN"
    assert written(decision) == decision


def test_an_error_that_was_read_can_be_raised() -> None:
    """Its one sentence stands for the problems that were behind it."""
    read = written(decide(CPU, {"head_dim": "x"}))

    with pytest.raises(InvalidSelectionError, match="wanted an integer or `symbolic`, got the string `x`"):
        read.ensure()


# --- what is no decision ---

GOOD: Mapping[str, Any] = decide(cuda(packages=FI), {"role": "cross", "head_dim": 128}, config=TRTLLM).to_dict()
SOURCE = "`source`: wanted one of role, category, default, platform, got `rôle`\n  hint: did you mean `role`?"
FACT = "`head_dim`: wanted a string or an integer or true or false, got the number 64.0"
DIGEST = "`digest`: wanted 64 hexadecimal digits, got the string `4f`"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (None, "decision: wrong-type: wanted a mapping, got null"),
        ([], "decision: wrong-type: wanted a mapping, got a list"),
        ({**GOOD, "backend": 5}, "decision (backend): wrong-type: `backend`: wanted a string, got the number 5"),
        ({**GOOD, "source": "rôle"}, f"decision (source): bad-value: {SOURCE}"),
        ({**GOOD, "digest": "4f"}, f"decision (digest): bad-value: {DIGEST}"),
        ({**GOOD, "warnings": [1]}, "decision (warnings[0]): wrong-type: wanted a string, got the number 1"),
        ({**GOOD, "facts": {"head_dim": 64.0}}, f"decision (facts.head_dim): wrong-type: {FACT}"),
        (
            {**GOOD, "spec": {"backend": "X", "skip_softmax": {"threshold": 1, "target_sparsity": 1}}},
            "decision (spec.skip_softmax): bad-value: wanted one of `target_sparsity` and `threshold`, got both",
        ),
        (
            {**GOOD, "inputs": {**GOOD["inputs"], "machines": {}}},
            "decision (inputs.machines): unknown-key: no key `machines` here\n  hint: did you mean `machine`?",
        ),
        (
            {key: value for key, value in GOOD.items() if key != "rule"},
            "decision: missing-key: wanted the key `rule`, which is not there",
        ),
    ],
)
def test_says_what_is_wrong(data: object, told: str) -> None:
    """At its path, as a `ValueError`."""
    assert problems(data) == [told]


def test_says_everything_that_is_wrong_at_once() -> None:
    """All of it, and not only the first."""
    codes = [line.split(": ")[1] for line in problems({**GOOD, "backend": 5, "x": 1, "error": {"code": "x"}})]

    assert sorted(codes) == ["bad-value", "missing-key", "missing-key", "unknown-key", "wrong-type"]


@settings(max_examples=200, deadline=None, derandomize=True)
@given(data=st.data())
def test_what_is_read_is_what_the_schema_accepts(data: st.DataObject) -> None:
    """A decision with a slip is refused by both or by neither."""
    document = json.loads(json.dumps(GOOD))
    place = document
    while isinstance(place, dict) and place and data.draw(st.integers(0, 3)):
        key = data.draw(st.sampled_from(sorted(place)))
        if not isinstance(place[key], dict) or not data.draw(st.booleans()):
            place[key] = data.draw(SLIPS)
            break
        place = place[key]
    else:
        if isinstance(place, dict):
            place[data.draw(KEYS)] = data.draw(SLIPS)

    assert refused(document) == bool(schema_faults("decision", document))


def test_json_that_is_none_is_a_value_error() -> None:
    """As it is from the standard library."""
    with pytest.raises(ValueError, match="Expecting value"):
        Decision.from_json("no")


# --- deciding again ---


@pytest.fixture
def without_cudnn(tmp_path: Path) -> RuleSet:
    """Give rules under which no default is CUDNN_ATTN."""
    row = ('      cudnn: ">=9.5"\n    use: CUDNN_ATTN', '      cudnn: ">=99.0"\n    use: CUDNN_ATTN')
    return load_rules([overlay(tmp_path / "rules", {"platform_default.yaml": [row]})])


def test_a_replay_says_what_changes_and_by_which_row(without_cudnn: RuleSet) -> None:
    """Each field that differs, before and after, and the rows that decided."""
    decision = decide(cuda("sm_120"), {"head_dim": 128})

    again = replay(written(decision), without_cudnn)

    assert again.changed
    assert again.rows == ("platform_default/blackwell-cudnn", "platform_default/torch-sdpa")
    assert again.after.digest == without_cudnn.digest
    assert again.differences == (
        Difference("backend", "CUDNN_ATTN", "TORCH_SDPA"),
        Difference("rule", "platform_default/blackwell-cudnn", "platform_default/torch-sdpa"),
        Difference(
            "log",
            "Defaulting to diffusion attention backend CUDNN_ATTN (Blackwell sm_120, cuDNN 91002)",
            "Defaulting to diffusion attention backend SDPA",
        ),
    )


def test_a_replay_of_what_the_change_does_not_concern_changes_nothing(without_cudnn: RuleSet) -> None:
    """Though the digest of the rules is another."""
    again = replay(written(decide(cuda("sm_90", FA2), {"head_dim": 128})), without_cudnn)

    assert not again.changed
    assert again.differences == ()
    assert again.rows[0] == again.rows[1] is not None


def test_a_replay_names_the_row_that_refuses(tmp_path: Path) -> None:
    """Where it can be known: a refusal that was read back does not say which row it was."""
    row = "  - {id: nothing-here, when: {backend: TORCH_SDPA}, refuse: not here, because: A test.}\n"
    edit = ("  - id: able\n", f"{row}  - id: able\n")
    refusing = load_rules([overlay(tmp_path / "rules", {"explicit.yaml": [edit]})])

    again = replay(decide(CPU, backend="TORCH_SDPA"), refusing)
    back = replay(written(again.after), shipped())

    assert again.rows == ("explicit/able", "explicit/nothing-here")
    assert again.after.error is not None
    assert again.after.error.code == "refused"
    assert back.rows == (None, "explicit/able")
    assert [item.field for item in back.differences][:1] == ["backend"]


def test_a_replay_with_rules_that_lack_the_backend_is_invalid(tmp_path: Path) -> None:
    """Inputs that the rules do not accept are told, and nothing is raised."""
    added = "backends:\n  NEW_ATTN:\n    about: New.\n"
    rules = load_rules([overlay(tmp_path / "rules", {"backends.yaml": [("backends:\n", added)]})])
    decision = decide(
        CPU, {"role": "cross"}, config={"default": "NEW_ATTN", "per_role": {"cross": "NEW_ATTN"}}, rules=rules
    )

    again = replay(written(decision), shipped())

    assert again.rows == ("explicit/able", None)
    assert again.after.error is not None
    assert [str(problem.place) for problem in again.after.error.problems] == [
        "inputs (choices.default.backend)", "inputs (choices.per_role.cross.backend)",
    ]  # fmt: skip


def test_a_replay_of_facts_that_are_none_is_invalid() -> None:
    """A record that somebody edited does not bring the tables down."""
    data = json.loads(json.dumps(GOOD))
    data["inputs"]["machine"]["packages.flashinfer"] = "newest"
    data["inputs"]["request"]["facts"]["head_dim"] = "wide"

    again = replay(read_decision(data), shipped())

    assert again.after.error is not None
    assert [problem.message for problem in again.after.error.problems] == [
        "`packages.flashinfer`: wanted a version as PEP 440 writes it, got `newest`",
        "`head_dim`: wanted an integer or `symbolic`, got the string `wide`",
    ]
    assert [problem.place.path for problem in again.after.error.problems] == [
        "machine.packages.flashinfer", "request.head_dim",
    ]  # fmt: skip


def test_a_decision_without_inputs_cannot_be_replayed() -> None:
    """There is nothing to decide from."""
    with pytest.raises(ValueError, match="wanted a decision with its inputs, got one whose input was not valid"):
        replay(decide(CPU, {"head_dim": "x"}), shipped())
