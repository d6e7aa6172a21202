"""What `apply` tells, what it refuses, what it finds wrong after a forward, and that it can be taken back."""

from __future__ import annotations

import copy
from types import ModuleType

import pytest
import torch

from selector import Selector
from tests.integrations.diffusers.conftest import outputs
from tests.integrations.diffusers.small import BY_NAME, Untyped

WAN, SDXL = BY_NAME["wan"], BY_NAME["sdxl"]


def snapshot() -> tuple[object, ...]:
    """Give everything of diffusers that is global."""
    from diffusers.models import attention_dispatch as dispatch

    names, registry = dispatch.AttentionBackendName, dispatch._AttentionBackendRegistry
    return (
        dict(names._member_map_), list(names._member_names_), dict(names._value2member_map_),
        dict(registry._backends), dict(registry._constraints), copy.deepcopy(registry._supported_arg_names),
        registry._active_backend,
    )  # fmt: skip


def test_a_report_tells_role_modules_backend_and_reason(diffusers: ModuleType, cpu: Selector) -> None:
    """One line for each role."""
    from selector.integrations.diffusers import apply

    model = WAN.made()

    with apply(model, selector=cpu) as report:
        told = str(report)

    assert told.splitlines() == [
        (
            "self → 2 modules of WanTransformer3DModel (WanTransformer3DModel.blocks.0.attn1 … "
            "WanTransformer3DModel.blocks.1.attn1) → TORCH_SDPA – platform_default/torch-sdpa: "
            "Defaulting to diffusion attention backend SDPA"
        ),
        (
            "cross → 2 modules of WanTransformer3DModel (WanTransformer3DModel.blocks.0.attn2 … "
            "WanTransformer3DModel.blocks.1.attn2) → TORCH_SDPA – platform_default/torch-sdpa: "
            "Defaulting to diffusion attention backend SDPA"
        ),
    ]


def test_a_pipeline_gives_its_name_and_its_parts(diffusers: ModuleType, cpu: Selector) -> None:
    """The models table is asked by the pipeline's class; its transformers are all taken."""
    from diffusers import FlowMatchEulerDiscreteScheduler, WanPipeline

    from selector.integrations.diffusers import apply

    pipeline = WanPipeline(
        tokenizer=None, text_encoder=None, vae=None, scheduler=FlowMatchEulerDiscreteScheduler(),
        transformer=WAN.made(), transformer_2=WAN.made(),
    )  # fmt: skip

    with apply(pipeline, selector=cpu) as report:
        rows = [
            (row.role, row.component, row.decision.facts["model"], row.decision.facts["head_dim"])
            for row in report.rows
        ]

    assert rows == [
        (role, part, "WanPipeline", 16) for part in ("transformer", "transformer_2") for role in ("self", "cross")
    ]


def test_everything_is_back_after_undo(diffusers: ModuleType, cpu: Selector) -> None:
    """Names, registry, processors and hooks are what they were; undoing twice is harmless."""
    from selector.integrations.diffusers import apply

    model = BY_NAME["hunyuan_video15"].made()
    before, processors = (
        snapshot(),
        {name: one.processor for name, one in model.named_modules() if hasattr(one, "processor")},
    )

    report = apply(model, selector=cpu)
    during = snapshot()
    report.undo()
    report.undo()

    assert during != before == snapshot()
    assert {name: one.processor for name, one in model.named_modules() if hasattr(one, "processor")} == processors
    assert not any(one._forward_hooks or one._forward_pre_hooks for one in model.modules())


def test_other_models_and_the_default_stay_as_they_are(diffusers: ModuleType, cpu: Selector) -> None:
    """A second model, and users of `set_attention_backend`, see nothing of it."""
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry

    from selector.integrations.diffusers import apply

    mine, other = WAN.made(), WAN.made()
    active = _AttentionBackendRegistry._active_backend

    with apply(mine, selector=cpu) as report:
        assert _AttentionBackendRegistry._active_backend is active
        assert all(one.processor._attention_backend is None for one in other.modules() if hasattr(one, "processor"))
        other.set_attention_backend("native")
        outputs(other, WAN.inputs((9,)))
        outputs(mine, WAN.inputs((9,)))
        calls = [sum(one.calls for one in row.ran) for row in report.rows]
    other.reset_attention_backend()

    assert calls == [2, 2]


# --- refused before anything changes ---


def refused(model: Untyped, selector: Selector) -> list[str]:
    """Give the problems of an `apply` that must fail, and see that it left nothing behind."""
    from selector.integrations.diffusers import ApplyError, apply

    before = snapshot()
    with pytest.raises(ApplyError) as caught:
        apply(model, selector=selector)
    assert snapshot() == before
    return list(caught.value.problems)


def test_a_configured_role_without_modules_is_refused(diffusers: ModuleType, compared: Untyped) -> None:
    """The roles that there are, and the nearest of them, are told."""
    selector = compared({"per_role": {"crss": "COMPARED_ATTN", "ltx2": {"connector": "TORCH_SDPA"}}})

    assert refused(WAN.made(), selector) == [
        "role `crss` is configured and matches no module; there are cross, self; did you mean `cross`?",
        "role `ltx2.connector` is configured and matches no module; there are cross, self",
    ]


def test_a_configured_module_that_attends_by_itself_is_refused(
    diffusers: ModuleType, compared: Untyped, cpu: Selector
) -> None:
    """Where its role is not configured it is left alone, and the report says so."""
    from diffusers.models.attention_processor import AttnProcessor

    from selector.integrations.diffusers import apply

    model = SDXL.made()
    place = "mid_block.attentions.0.transformer_blocks.0.attn2"
    model.get_submodule(place).set_processor(AttnProcessor())

    assert refused(model, compared({"per_role": {"cross": "COMPARED_ATTN"}})) == [
        (
            f"`UNet2DConditionModel.{place}`: role `cross` is configured, and here attention cannot be chosen: "
            "`AttnProcessor` calls neither dispatcher nor torch"
        )
    ]
    with apply(model, selector=cpu) as report:
        outputs(model, SDXL.inputs((9,)))
    assert [(one.module, one.role) for one in report.untouched] == [(f"UNet2DConditionModel.{place}", "cross")]


def test_a_second_choice_for_the_same_modules_is_refused(diffusers: ModuleType, cpu: Selector) -> None:
    """Processors of either way are recognised."""
    from selector.integrations.diffusers import apply

    for family in (WAN, SDXL):
        model = family.made()
        with apply(model, selector=cpu):
            problems = refused(model, cpu)
        assert len(problems) == sum(family.roles.values())
        assert problems[0].endswith("a choice was applied to it already; undo that one first")


def test_a_target_without_attention_is_refused(diffusers: ModuleType, cpu: Selector) -> None:
    """Whatever it is."""
    assert refused(torch.nn.Linear(2, 2), cpu) == [
        "wanted a diffusers pipeline or model with modules of attention, got `Linear` with none"
    ]


def test_what_the_rules_refuse_is_refused(diffusers: ModuleType) -> None:
    """The selector's own reason comes through."""
    from selector import SelectionRefusedError
    from selector.integrations.diffusers import apply

    before = snapshot()

    with pytest.raises(SelectionRefusedError, match="CUDNN_ATTN"):
        apply(WAN.made(), facts={"platform": "cpu"}, backend="CUDNN_ATTN")

    assert snapshot() == before


# --- found wrong after a forward ---


def wrong(report: Untyped) -> list[str]:
    """Give what `verify` finds."""
    from selector.integrations.diffusers import ApplyError

    with pytest.raises(ApplyError) as caught:
        report.verify()
    report.undo()
    return list(caught.value.problems)


def test_a_check_wants_a_forward(diffusers: ModuleType, cpu: Selector) -> None:
    """Nothing can be said before; at the end of a `with` it is not asked."""
    from selector.integrations.diffusers import apply

    model = WAN.made()
    with apply(model, selector=cpu):
        pass

    assert wrong(apply(model, selector=cpu)) == [
        f"role `{role}` of `WanTransformer3DModel`: wanted a forward before the check, got none"
        for role in ("self", "cross")
    ]


def test_a_backend_that_was_set_since_is_found(diffusers: ModuleType, cpu: Selector) -> None:
    """And stays, on the processor that was there before; that of the other modules has the backend that it had."""
    from selector.integrations.diffusers import apply

    model = WAN.made()
    kinds = [type(block.attn2.processor) for block in model.blocks]
    report = apply(model, selector=cpu)
    model.blocks[1].attn2.set_attention_backend("native")
    outputs(model, WAN.inputs((9,)))

    assert wrong(report) == [
        "`WanTransformer3DModel.blocks.1.attn2`: its backend was set to `native`",
        "`WanTransformer3DModel.blocks.1.attn2`: its attention bypasses the dispatcher",
    ]
    assert [type(block.attn2.processor) for block in model.blocks] == kinds
    assert [block.attn2.processor._attention_backend for block in model.blocks] == [None, "native"]


def test_a_processor_that_was_replaced_since_is_found_and_kept(diffusers: ModuleType, cpu: Selector) -> None:
    """As loading an adapter or fusing projections does."""
    from diffusers.models.attention_processor import AttnProcessor2_0

    from selector.integrations.diffusers import apply

    model, theirs = SDXL.made(), AttnProcessor2_0()
    report = apply(model, selector=cpu)
    place = "mid_block.attentions.0.transformer_blocks.0.attn1"
    model.get_submodule(place).set_processor(theirs)
    outputs(model, SDXL.inputs((9,)))

    assert wrong(report) == [
        f"`UNet2DConditionModel.{place}`: its processor was replaced by `AttnProcessor2_0`",
        f"`UNet2DConditionModel.{place}`: its attention bypasses the dispatcher",
    ]
    assert model.get_submodule(place).processor is theirs


def test_another_backend_than_was_configured_is_found(diffusers: ModuleType, compared: Untyped) -> None:
    """A substitution by the call table is one; of a default it would be in the report alone."""
    from selector.integrations.diffusers import apply

    model = SDXL.made()
    report = apply(model, selector=compared({"per_role": {"cross": "COMPARED_ATTN"}}))
    outputs(model, SDXL.inputs((9, 4)))

    assert wrong(report) == [
        (
            "role `cross` of `UNet2DConditionModel`: wanted COMPARED_ATTN, TORCH_SDPA ran "
            "(call/compared-takes-no-bias; COMPARED_ATTN takes no bias)"
        )
    ]


def test_an_error_inside_is_not_hidden_by_the_check(diffusers: ModuleType, cpu: Selector) -> None:
    """The choice is taken back all the same."""
    from selector.integrations.diffusers import apply

    model, before = WAN.made(), snapshot()

    with pytest.raises(KeyError, match="mine"), apply(model, selector=cpu):
        raise KeyError("mine")

    assert snapshot() == before
