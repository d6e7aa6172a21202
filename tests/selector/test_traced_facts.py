"""What is traced is decided as such: the fact `compile` is true, and what cannot be traced says so in its ability."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from selector import Attention, SelectionRefusedError, Selector, attention, load_rules
from selector.decision import Decision
from selector.dispatch import plan_for
from selector.ruleset import RuleSet
from tests.selector.conftest import CPU
from tests.selector.rules.folders import file

EAGER_ALONE = """
backends:
  EAGER_ATTN:
    about: One that torch.compile cannot trace.
    ability:
      platform: cpu
      not: {compile: {equals: true, unknown: fail}}
"""
FIRST = """
table: platform_default
edits:
  - {id: eager, before: torch-sdpa, when: {platform: cpu}, use: EAGER_ATTN, because: It is the faster one.}
"""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Compile anew in each test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RuleSet:
    """Give rules by which a CPU's default is a backend that runs eagerly alone, and let that backend be installed."""
    from backends.torch_sdpa import TorchSdpa

    known = {name: TorchSdpa(name) for name in ("EAGER_ATTN", "TORCH_SDPA")}
    monkeypatch.setattr("backends.registry.load", lambda name: known[name])
    monkeypatch.setattr("backends.registry.available", lambda: dict.fromkeys(known, "attention-selector"))
    file(tmp_path, "backends.yaml", EAGER_ALONE)
    file(tmp_path, "first.yaml", FIRST)
    return load_rules([tmp_path])


def tensors() -> list[Tensor]:
    """Give q, k and v."""
    return [torch.randn(2, 9, 4, 16) for _ in range(3)]


def decisions(selector: Selector) -> list[Decision]:
    """Give what was decided for every plan, in order."""
    return [plan.decision for plan in selector.serving.plans.values()]  # type: ignore[attr-defined]


@pytest.mark.parametrize("said", [None, False, True])
def test_a_traced_call_is_decided_as_compiled(said: bool | None) -> None:
    """Whatever its layer says; an eager one as its layer says, and by default it says nothing."""
    selector, call = Selector(facts=CPU, environment={}), tensors()
    layer: Any = {} if said is None else {"compile": said}

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = attention(q, k, v, selector=selector, **layer)
        return out

    run(*call)
    torch.compile(run, fullgraph=True, backend="eager")(*call)

    eager, traced = decisions(selector)[0], decisions(selector)[-1]
    assert (eager.facts.get("compile"), traced.facts["compile"]) == (said, True)
    if said is not True:  # else both have one plan, which the eager call made
        assert traced.origins["compile"] == "tracing"


def test_an_exported_layer_is_decided_as_compiled() -> None:
    """Its code is traced too."""
    selector = Selector(facts=CPU, environment={})

    torch.export.export(Attention("self", selector=selector), tuple(tensors()))

    assert [decision.facts.get("compile") for decision in decisions(selector)] == [True]


def test_a_default_that_cannot_be_traced_is_not_chosen_for_traced_code(rules: RuleSet) -> None:
    """Eager code of the same layer has it; the reason stands in the trace."""
    selector = Selector(rules=rules, facts=CPU, environment={})
    layer, call = Attention("self", selector=selector), tensors()
    whole = torch.compile(layer, fullgraph=True, backend="eager")

    torch.testing.assert_close(whole(*call), layer(*call))

    assert [ran.backend for ran in layer.report()] == ["TORCH_SDPA", "EAGER_ATTN"]
    (traced,) = (decision for decision in decisions(selector) if decision.backend == "TORCH_SDPA")
    walks: list[Any] = traced.explain().to_dict()
    (row,) = (row for walk in walks for row in walk["rows"] if row["row"] == "eager")
    assert row["blamed"] == ["platform_default/eager:compile.equals"]
    assert [told["origin"] for told in row["conditions"] if told["fact"] == "compile"] == ["tracing"]


def test_one_that_is_configured_is_refused_while_code_is_traced(rules: RuleSet) -> None:
    """And not replaced without a word."""
    selector = Selector(rules=rules, facts=CPU, backend="EAGER_ATTN", environment={})
    call = tensors()

    with pytest.raises(Exception, match="EAGER_ATTN cannot run here"):
        torch.compile(lambda: attention(*call, selector=selector), fullgraph=True, backend="eager")()
    with pytest.raises(SelectionRefusedError, match=r"EAGER_ATTN cannot run here \(compile: wanted"):
        plan_for(*call, selector=selector, compile=True)
    assert attention(*call, selector=selector).shape == call[0].shape
