"""Each family of models computes what its stock model does, with the backend of each role."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from backends.masks import AllKeep, KeyLengths, KeyPadding, NoMask
from selector import Selector
from tests.integrations.diffusers.conftest import assert_same, outputs
from tests.integrations.diffusers.small import BY_NAME, FAMILIES, Small, Untyped

PROMPTS = {"one": (9,), "two alike": (9, 9), "padded": (9, 4), "one padded": (5,)}
families = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
compiled = pytest.mark.parametrize(
    "family",
    [
        pytest.param(family, id=family.name, marks=[pytest.mark.slow] if family.name in {"sdxl", "z_image"} else [])
        for family in FAMILIES
    ],
)


def made(diffusers: ModuleType, family: Small) -> Untyped:
    """Give a model of a family, and skip where this version of diffusers has none."""
    if family.needs is not None and not hasattr(diffusers, family.needs):
        pytest.skip(f"diffusers {diffusers.__version__} has no {family.needs}")
    return family.made()


@families
@pytest.mark.parametrize("prompts", PROMPTS.values(), ids=PROMPTS)
def test_eager_output_is_that_of_the_stock_model(
    diffusers: ModuleType, cpu: Selector, family: Small, prompts: tuple[int, ...]
) -> None:
    """One prompt, a batch of two as guidance makes it, and padded ones; afterwards the stock model is back."""
    from selector.integrations.diffusers import apply

    model, given = made(diffusers, family), family.inputs(prompts)
    stock = outputs(model, given)

    with apply(model, selector=cpu) as report:
        ours = outputs(model, given)
        ran = {row.role: sum(one.calls for one in row.ran) for row in report.rows}

    assert_same(ours, stock)
    assert ran == dict(family.roles)
    assert {row.role: len(row.modules) for row in report.rows} == dict(family.roles)
    assert all(torch.equal(mine, theirs) for mine, theirs in zip(outputs(model, given), stock, strict=True))


@families
def test_each_role_runs_the_backend_that_was_configured_for_it(
    diffusers: ModuleType, compared: Untyped, family: Small
) -> None:
    """One role after the other gets another backend, and the output stays the same."""
    from selector.integrations.diffusers import apply

    model, given = made(diffusers, family), family.inputs((9, 9) if family.name == "sdxl" else (9, 4))
    stock = outputs(model, given)

    for role in family.roles:
        with apply(model, selector=compared({"per_role": {role: "COMPARED_ATTN"}})) as report:
            ours = outputs(model, given)
            ran = {row.role: {one.backend for one in row.ran} for row in report.rows}
        chosen = {one for one in family.roles if one == role or _category(one) == role}

        assert_same(ours, stock)
        assert ran == {one: {"COMPARED_ATTN" if one in chosen else "TORCH_SDPA"} for one in family.roles}


def _category(role: str) -> str:
    from selector.ruleset import shipped

    return shipped().roles.category(role) or role


@compiled
def test_compiled_output_is_that_of_the_stock_model(diffusers: ModuleType, cpu: Selector, family: Small) -> None:
    """As one graph where the stock model is one, for a padded batch of two."""
    from selector.integrations.diffusers import apply

    model, given = made(diffusers, family), family.inputs((9, 4) if family.pads else (9, 9))
    stock = outputs(model, given)
    torch.compiler.reset()

    with apply(model, selector=cpu) as report:
        ours = outputs(torch.compile(model, fullgraph=family.fullgraph, backend="eager"), given)
        report.verify()

    assert_same(ours, stock)


@pytest.mark.parametrize("name", ["hunyuan_video15", "qwen_image", "ltx2"])
def test_blocks_compiled_by_themselves_know_the_mask_too(diffusers: ModuleType, cpu: Selector, name: str) -> None:
    """The mask is looked at outside of them, once; other lengths may compile them anew, and are right."""
    from selector.integrations.diffusers import apply

    family = BY_NAME[name]
    model, batches = made(diffusers, family), ((9, 4), (5, 9), (9, 9))
    torch.compiler.reset()

    with apply(model, selector=cpu):
        eager = [outputs(model, family.inputs(prompts)) for prompts in batches]
        for block in model.transformer_blocks:
            block.compile(fullgraph=True, backend="eager")
        ours = [outputs(model, family.inputs(prompts)) for prompts in batches]

    for got, wanted in zip(ours, eager, strict=True):
        assert_same(got, wanted)


# --- the masks that kernels get ---

SEEN: dict[tuple[str, tuple[int, ...]], dict[str, type]] = {
    ("hunyuan_video15", (9, 9)): {"joint": AllKeep, "self": KeyLengths},
    ("hunyuan_video15", (9, 4)): {"joint": KeyLengths, "self": KeyLengths},
    ("hunyuan_video15", (12, 12)): {"joint": AllKeep, "self": AllKeep},
    ("qwen_image", (9, 9)): {"joint": NoMask},
    ("qwen_image", (9, 4)): {"joint": KeyPadding},
    ("ltx2", (9, 9)): {"cross": NoMask, "ltx2.audio_text_cross": NoMask, "self": NoMask},
    ("ltx2", (9, 4)): {"cross": KeyLengths, "ltx2.audio_text_cross": KeyLengths, "ltx2.audio_to_video": NoMask},
    ("ltx2_connectors", (9, 4)): {"ltx2.connector": AllKeep},
    ("z_image", (9, 4)): {"joint": KeyPadding},
}


@pytest.mark.parametrize(("name", "prompts"), SEEN, ids=str)
def test_a_kernel_gets_the_cheapest_mask(
    diffusers: ModuleType, cpu: Selector, name: str, prompts: tuple[int, ...]
) -> None:
    """A mask that hides nothing is none, padding at the end is lengths; none has pairs of tokens, or numbers."""
    from selector.integrations.diffusers import apply

    model = made(diffusers, BY_NAME[name])
    if name == "qwen_image" and diffusers.__version__ == "0.36.0":
        pytest.skip("diffusers 0.36.0 reads no mask of Qwen-Image")
    seen: dict[str, set[type]] = {}

    with apply(model, selector=cpu) as report:
        for row in report.rows:
            row.dispatcher.layer.register_forward_pre_hook(
                lambda _layer, _args, kwargs, role=row.role: seen.setdefault(role, set()).add(
                    NoMask if kwargs["mask"] is None else type(kwargs["mask"])
                ),
                with_kwargs=True,
            )
        outputs(model, BY_NAME[name].inputs(prompts))

    assert {role: seen[role] for role in SEEN[name, prompts]} == {
        role: {kind} for role, kind in SEEN[name, prompts].items()
    }


def test_masks_are_looked_at_once_for_the_same_prompts(diffusers: ModuleType, cpu: Selector) -> None:
    """The steps of a loop bring the same mask; one that was written to is looked at again."""
    from selector.integrations.diffusers import apply

    family = BY_NAME["hunyuan_video15"]
    model, given = family.made(), family.inputs((9, 4))

    with apply(model, selector=cpu) as report:
        dispatcher = report.rows[0].dispatcher
        found = []
        dispatcher.layer.register_forward_pre_hook(lambda *_: found.append(dispatcher.recognised.found))
        outputs(model, given)
        outputs(model, given)
        given["encoder_attention_mask"][1, :7] = 1
        outputs(model, given)

    assert found[0] is found[1]
    assert found[1].masks["joint"] != found[2].masks["joint"]
    assert dispatcher.recognised.found.masks == {}


def test_the_mask_of_every_pair_is_not_built(diffusers: ModuleType, cpu: Selector) -> None:
    """HunyuanVideo-1.5's layers make no tensor with as many elements as there are pairs of tokens."""
    from torch.overrides import TorchFunctionMode

    from selector.integrations.diffusers import apply

    class Largest(TorchFunctionMode):
        """Keeps the number of elements of the largest boolean tensor."""

        most = 0

        def __torch_function__(
            self, func: Untyped, types: Untyped, args: Untyped = (), kwargs: Untyped = None
        ) -> Untyped:
            made = func(*args, **(kwargs or {}))
            if isinstance(made, torch.Tensor) and made.dtype == torch.bool:
                self.most = max(self.most, made.numel())
            return made

    family = BY_NAME["hunyuan_video15"]
    model, given = family.made(), family.inputs((9, 4))
    tokens = 2 * 4 * 4 + 12 + 6 + 4

    with Largest() as stock:
        outputs(model, given)
    with apply(model, selector=cpu), Largest() as ours:
        outputs(model, given)

    assert stock.most == 2 * tokens**2
    assert ours.most <= 2 * 2 * 12**2  # the text refiner's, for each of its two heads
