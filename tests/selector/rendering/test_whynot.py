"""Why a backend does not run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from selector.facts import Request
from selector.rendering.whynot import WhyNot, render_why_not, why_not
from selector.rules.problems import ConfigError, FactsError
from tests.selector.rendering.cases import B200, CASES, CPU, H200, RTX_PRO, WAN, Case

if TYPE_CHECKING:
    from collections.abc import Mapping


def ask(case: Case, backend: str) -> WhyNot:
    """Ask a case why not."""
    return why_not(case.selector(), case.request, backend)


def rows(answer: WhyNot) -> list[tuple[str, str, str | None, list[str]]]:
    """Give the rows that would use the backend: outcome, the row before them, and what stands in their way."""
    return [
        (one.step.row.name, one.step.outcome, one.earlier, [result.reason() for result in one.step.blamed])
        for one in answer.standings
    ]


def test_backend_that_runs_is_said_to_run() -> None:
    """There is nothing to explain then; letter case makes no difference."""
    answer = ask(CASES["b200-mask-unknown"], "cudnn_attn")

    assert answer.chosen
    assert (answer.standings, answer.named, answer.outcome) == ((), None, None)
    text = "CUDNN_ATTN runs: Defaulting to diffusion attention backend CUDNN_ATTN (Blackwell sm_100, cuDNN 91002)\n"
    assert render_why_not(answer, width=120, colour=False) == text


def test_condition_in_the_way_is_blamed() -> None:
    """A row before the winner has only its own conditions against it."""
    answer = ask(CASES["b200-mask-unknown"], "TRTLLM_ATTN")

    reasons = ["mask_free: wanted true, got unknown"]
    assert rows(answer) == [("platform_default/blackwell-datacenter-trtllm", "undetermined", None, reasons)]
    assert answer.outcome == "runs"


def test_earlier_row_is_named() -> None:
    """A row that would hold is passed over because another stands before it."""
    case = Case(B200, {**WAN, "call": None})
    answer = ask(case, "CUDNN_ATTN")

    assert rows(answer) == [("platform_default/blackwell-cudnn", "chosen", "blackwell-datacenter-trtllm", [])]
    told = render_why_not(answer, width=80, colour=False)
    assert "│ └ · blackwell-cudnn → use CUDNN_ATTN\n" in told
    assert "│     it holds, but blackwell-datacenter-trtllm stands before it and won\n" in told


def test_defaults_are_asked_where_the_config_speaks() -> None:
    """The machine's own choice is told even when the config did not leave it the choice."""
    answer = ask(CASES["sm120-flash-attn-3-hub"], "CUDNN_ATTN")

    assert [(one.step.row.id, one.step.outcome, one.asked) for one in answer.standings] == [
        ("blackwell-cudnn", "chosen", False)
    ]


def test_defaults_are_asked_without_the_call() -> None:
    """What the machine would choose is told once; what the call makes of the backend shows when it is named."""
    case = Case(B200, {**WAN, "call": {"mask": "additive"}}, backend="TORCH_SDPA")
    answer = ask(case, "TRTLLM_ATTN")

    assert rows(answer) == [("platform_default/blackwell-datacenter-trtllm", "chosen", None, [])]
    assert answer.outcome == "refused"


@pytest.mark.parametrize(
    ("case", "backend", "outcome", "runs"),
    [
        (Case(B200, {"head_dim": 128}), "FLASHINFER_ATTN", "runs", "FLASHINFER_ATTN"),
        (Case(RTX_PRO, {"head_dim": 128}), "FLASH_ATTN_3_HUB", "substituted", "TORCH_SDPA"),
        (Case(RTX_PRO, {"head_dim": 128}, policy="strict"), "FLASH_ATTN_3_HUB", "refused", None),
        (Case(H200, {"head_dim": 128}), "TRTLLM_ATTN", "refused", None),
        (Case({}, {"head_dim": 128}), "TORCH_SDPA", "invalid", None),
    ],
)
def test_naming_the_backend_is_tried(case: Case, backend: str, outcome: str, runs: str | None) -> None:
    """What the config would get by naming it is decided by the same tables, facts and policy."""
    answer = ask(case, backend)

    assert answer.named is not None
    assert (answer.outcome, answer.named.backend) == (outcome, runs)


def test_win_that_did_not_last_is_told() -> None:
    """A default that won and was refused by the call table shows both, and that it is out of the second walk."""
    answer = ask(CASES["b200-declaration-wrong"], "TRTLLM_ATTN")

    assert [(name, outcome) for name, outcome, *_ in rows(answer)] == [
        ("platform_default/blackwell-datacenter-trtllm", "chosen"),
        ("call/trtllm-mask", "chosen"),
        ("platform_default/blackwell-datacenter-trtllm", "rejected"),
    ]


def test_rows_about_another_backend_are_left_out() -> None:
    """A substitution for a backend that nobody named is no place where this one could have won."""
    answer = ask(CASES["sm120-flash-attn-3-hub"], "FLASH_ATTN")

    explicit = [name for name, *_ in rows(answer) if name.startswith("explicit/")]
    assert explicit == ["explicit/flash-attn-3-hub-without-kernels", "explicit/able", "explicit/to-torch-sdpa"]


def test_checked_request_may_be_given() -> None:
    """A `Request` and the arguments that it was read from give the same answer."""
    case = Case(B200, {"head_dim": 128})

    answer = why_not(case.selector(), Request(facts={"head_dim": 128}), "TRTLLM_ATTN")
    assert answer.to_dict() == ask(case, "TRTLLM_ATTN").to_dict()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("TRTLM_ATTN", "backend: unknown-backend: no backend `TRTLM_ATTN`\n  hint: did you mean `TRTLLM_ATTN`?"),
        (
            "qqq",
            (
                "backend: unknown-backend: no backend `qqq`\n  hint: known: TORCH_SDPA, CUDNN_ATTN, FLASHINFER_ATTN,"
                " FLASH_ATTN, SAGE_ATTN, SAGE_ATTN_3, FLASH_ATTN_HUB, FLASH_ATTN_3_HUB, TRTLLM_ATTN"
            ),
        ),
    ],
)
def test_unknown_backend_is_an_error(name: str, message: str) -> None:
    """The nearest name is the hint, or all names where none is near."""
    with pytest.raises(ConfigError) as raised:
        ask(Case(CPU), name)

    assert str(raised.value) == message


def test_request_that_is_not_valid_is_an_error() -> None:
    """Nothing is explained about a request that cannot be read."""
    with pytest.raises(FactsError, match="head_dim"):
        ask(Case(CPU, {"head_dim": 0}), "TORCH_SDPA")


def test_answer_is_plain_data() -> None:
    """It can be written as JSON, with wanted, got, code, file and line of all that stands in the way."""
    answer = json.loads(json.dumps(ask(CASES["b200-mask-unknown"], "TRTLLM_ATTN").to_dict()))

    (row,) = answer["rows"]
    (blamed,) = row.pop("blamed")
    assert row.pop("line") < blamed.pop("line")
    assert row == {
        "row": "platform_default/blackwell-datacenter-trtllm", "subject": None, "asked": True, "holds": None,
        "earlier": None, "action": "use", "file": "rules/platform_default.yaml",
    }  # fmt: skip
    assert blamed == {
        "fact": "mask_free", "value": None, "known": False, "wanted": "true", "negated": False, "in": "when",
        "code": "platform_default/blackwell-datacenter-trtllm:mask_free.equals",
        "reason": "mask_free: wanted true, got unknown", "file": "rules/platform_default.yaml",
    }  # fmt: skip
    named: Mapping[str, object] = answer["named"]
    assert (named["outcome"], named["backend"]) == ("runs", "TRTLLM_ATTN")
    assert (answer["backend"], answer["chosen"], answer["decision"]["backend"]) == ("TRTLLM_ATTN", False, "CUDNN_ATTN")
