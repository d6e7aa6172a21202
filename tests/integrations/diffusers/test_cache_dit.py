"""cache-dit itself beside `apply`: what it changed in diffusers is told and stays, and each is undone by itself."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from types import ModuleType

import pytest

from selector import Selector
from tests.integrations.diffusers.conftest import assert_same, outputs
from tests.integrations.diffusers.documented import ROOT
from tests.integrations.diffusers.small import BY_NAME, Untyped

pytestmark = pytest.mark.filterwarnings("ignore")  # of what it uses itself
WAN = BY_NAME["wan"]
OWNER = "cache_dit.attention._diffusers_bridge"


@pytest.fixture
def cache_dit(diffusers: ModuleType) -> Iterator[Untyped]:
    """Give the library, and take out again what it registers: it has no way to do so itself."""
    if importlib.util.find_spec("cache_dit") is None:
        pytest.skip("cache-dit is not installed here; newest.txt names the version that is tested")
    library = importlib.import_module("cache_dit")
    environment = importlib.import_module("cache_dit.envs").ENV
    held = [(entries, entries.copy()) for entries in registered()]
    yield library
    environment.CACHE_DIT_CUSTOM_ATTN_ALREADY_DISPATCH = False
    for entries, before in held:
        entries.clear()
        (entries.extend if isinstance(entries, list) else entries.update)(before)


def registered() -> list[Untyped]:
    """Give everything of diffusers in which backends are registered."""
    from diffusers.models import attention_dispatch as dispatch

    names, registry = dispatch.AttentionBackendName, dispatch._AttentionBackendRegistry
    return [
        names._member_map_, names._member_names_, names._value2member_map_,
        registry._backends, registry._constraints, registry._supported_arg_names, registry._supports_context_parallel,
    ]  # fmt: skip


def backends(model: Untyped) -> list[str | None]:
    """Give the backend of every module of attention."""
    processors = [module.processor for module in model.modules() if hasattr(module, "processor")]
    return [getattr(processor._attention_backend, "value", None) for processor in processors]


def test_what_it_has_set_is_left_alone(diffusers: ModuleType, cpu: Selector, cache_dit: Untyped) -> None:
    """The report names it; its functions are there during and after, and run."""
    from selector.integrations.diffusers import apply

    model = WAN.made()
    stock = outputs(model, WAN.inputs((9,)))
    cache_dit.set_attn_backend(model, "native")
    before = [entries.copy() for entries in registered()]

    with apply(model, selector=cpu) as report:
        ours, during = outputs(model, WAN.inputs((9,))), backends(model)

    assert f"backend `native` is that of `{OWNER}`" in report.foreign
    assert {one.because for one in report.untouched} == {f"`{OWNER}` has set its backend"}
    assert (len(report.untouched), report.rows) == (4, ())
    assert during == backends(model) == ["native"] * 4
    assert [entries.copy() for entries in registered()] == before
    assert_same(ours, stock)


def test_a_configured_role_is_not_taken_from_it(diffusers: ModuleType, compared: Untyped, cache_dit: Untyped) -> None:
    """It is refused, and nothing changes."""
    from selector.integrations.diffusers import ApplyError, apply

    model = WAN.made()
    cache_dit.set_attn_backend(model, "native")

    with pytest.raises(ApplyError, match=f"`{OWNER}` has set its backend"):
        apply(model, selector=compared({"per_role": {"self": "COMPARED_ATTN"}}))

    assert backends(model) == ["native"] * 4


def test_modules_that_it_has_not_set_run_ours(diffusers: ModuleType, compared: Untyped, cache_dit: Untyped) -> None:
    """Its functions stand behind the names of diffusers, and ours have names of their own."""
    from selector.integrations.diffusers import apply

    model = WAN.made()
    stock = outputs(model, WAN.inputs((9,)))
    cache_dit.set_attn_backend(WAN.made(), "native")
    before = [entries.copy() for entries in registered()]

    with apply(model, selector=compared({"per_role": {"cross": "COMPARED_ATTN"}})) as report:
        ours = outputs(model, WAN.inputs((9,)))
        ran = {row.role: {one.backend for one in row.ran} for row in report.rows}

    assert ran == {"self": {"TORCH_SDPA"}, "cross": {"COMPARED_ATTN"}}
    assert f"backend `native` is that of `{OWNER}`" in report.foreign
    assert backends(model) == [None] * 4
    assert [entries.copy() for entries in registered()] == before
    assert_same(ours, stock)


def test_what_it_sets_later_is_found_and_stays(diffusers: ModuleType, cpu: Selector, cache_dit: Untyped) -> None:
    """It registers its backends only then, over those of diffusers; undoing takes out ours alone."""
    from selector.integrations.diffusers import ApplyError, apply

    model = WAN.made()
    stock = outputs(model, WAN.inputs((9,)))
    report = apply(model, selector=cpu)
    ours = {row.member for row in report.rows}
    cache_dit.set_attn_backend(model, "native")
    theirs = dict(registered()[3])

    outputs(model, WAN.inputs((9,)))
    with pytest.raises(ApplyError, match="its backend was set to `native`"):
        report.verify()
    report.undo()

    assert backends(model) == ["native"] * 4
    assert registered()[3] == {member: function for member, function in theirs.items() if member not in ours}
    assert_same(outputs(model, WAN.inputs((9,))), stock)


def test_cached_blocks_run_ours(
    diffusers: ModuleType, cpu: Selector, cache_dit: Untyped, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The blocks that it skips are not called, and that is no bypass."""
    from selector.integrations.diffusers import apply

    monkeypatch.syspath_prepend(ROOT / "examples")
    families = importlib.import_module("small_videos").VIDEOS
    pipeline, given = importlib.import_module("small_pipelines").small("wan", "a cat", families)
    pipeline.set_progress_bar_config(disable=True)
    steps, blocks, guided = 6, 2, 2
    config = cache_dit.DBCacheConfig(
        Fn_compute_blocks=1, Bn_compute_blocks=0, max_warmup_steps=2, residual_diff_threshold=10.0
    )

    cache_dit.enable_cache(pipeline, cache_config=config)
    with apply(pipeline, selector=cpu) as report:
        pipeline(height=32, width=48, num_frames=5, num_inference_steps=steps, output_type="latent", **given)
        calls = {row.role: sum(one.calls for one in row.ran) for row in report.rows}
    cache_dit.disable_cache(pipeline)

    assert calls["self"] == calls["cross"]
    assert steps * guided < calls["self"] < steps * guided * blocks
