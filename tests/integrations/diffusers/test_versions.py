"""What is private in diffusers is looked at before it is used, and what others changed there is theirs."""

from __future__ import annotations

from types import ModuleType

import pytest

from selector import Selector
from tests.integrations.diffusers.conftest import outputs
from tests.integrations.diffusers.small import BY_NAME, Untyped

WAN = BY_NAME["wan"]


@pytest.mark.parametrize(
    "name",
    [
        "_AttentionBackendRegistry._backends",
        "_AttentionBackendRegistry._constraints",
        "_AttentionBackendRegistry._supported_arg_names",
        "_AttentionBackendRegistry._active_backend",
    ],
)
def test_a_missing_attribute_is_an_error_with_the_version(
    diffusers: ModuleType, cpu: Selector, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The error names what is missing and which versions are tested."""
    from diffusers.models import attention_dispatch

    from selector.integrations.diffusers import UnsupportedDiffusersError, apply

    holder, attribute = name.split(".")
    monkeypatch.delattr(getattr(attention_dispatch, holder), attribute)

    with pytest.raises(UnsupportedDiffusersError) as caught:
        apply(WAN.made(), selector=cpu)

    assert str(caught.value) == (
        f"diffusers {diffusers.__version__} has no `{name}`; this integration is tested with 0.36.0 to 0.42.1"
    )


def test_everything_that_is_missing_is_named(diffusers: ModuleType) -> None:
    """All at once."""
    from selector.integrations.diffusers.versions import lacking

    empty = ModuleType("attention_dispatch")

    assert list(lacking(empty)) == ["`_AttentionBackendRegistry`", "`AttentionBackendName`", "`dispatch_attention_fn`"]


# --- other projects ---


@pytest.fixture
def foreign(diffusers: ModuleType) -> Untyped:
    """Register a backend as cache-dit does, with a function of its own module; give its member."""
    from diffusers.models import attention_dispatch as dispatch

    from selector.integrations.diffusers import registry

    def theirs(**arguments: object) -> object:
        names = dispatch._AttentionBackendRegistry._supported_arg_names["native"]
        native = dispatch._AttentionBackendRegistry._backends[dispatch.AttentionBackendName.NATIVE]
        return native(**{name: value for name, value in arguments.items() if name in names})

    theirs.__module__ = "cache_dit.attention"
    member = registry.register("theirs", theirs, frozenset())
    names = dispatch.AttentionBackendName
    names._value2member_map_["_theirs"] = names._value2member_map_.pop(member._value_)
    member._value_ = "_theirs"
    renamed = str.__new__(names, "_theirs")
    renamed._name_, renamed._value_ = member._name_, "_theirs"
    for entries in (
        dispatch._AttentionBackendRegistry._backends,
        dispatch._AttentionBackendRegistry._constraints,
        dispatch._AttentionBackendRegistry._supported_arg_names,
    ):
        entries[renamed] = entries.pop(member)
    names._member_map_[renamed._name_] = names._value2member_map_["_theirs"] = renamed
    yield renamed
    registry.unregister(renamed)


def test_a_backend_of_another_project_is_reported_and_kept(
    diffusers: ModuleType, cpu: Selector, foreign: Untyped
) -> None:
    """A module that has it is left alone."""
    from selector.integrations.diffusers import apply

    model = WAN.made()
    model.blocks[0].attn1.processor._attention_backend = foreign

    with apply(model, selector=cpu) as report:
        assert model.blocks[0].attn1.processor._attention_backend is foreign
        modules = {row.role: row.modules for row in report.rows}

    assert report.foreign == ("backend `_theirs` is that of `cache_dit.attention`",)
    assert [str(one.because) for one in report.untouched] == ["`cache_dit.attention` has set its backend"]
    assert modules["self"] == ("WanTransformer3DModel.blocks.1.attn1",)


def test_a_configured_module_of_another_project_is_refused(
    diffusers: ModuleType, compared: Untyped, foreign: Untyped
) -> None:
    """Its choice is not overwritten without a word."""
    from selector.integrations.diffusers import ApplyError, apply

    model = WAN.made()
    model.blocks[0].attn1.processor._attention_backend = foreign

    with pytest.raises(ApplyError, match=r"`cache_dit\.attention` has set its backend"):
        apply(model, selector=compared({"per_role": {"self": "COMPARED_ATTN"}}))


def test_an_entry_that_was_replaced_is_reported(
    diffusers: ModuleType, cpu: Selector, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ours run through names of their own, so both go on."""
    from diffusers.models import attention_dispatch as dispatch

    from selector.integrations.diffusers import apply

    def theirs(query: Untyped, key: Untyped, value: Untyped) -> Untyped:
        raise AssertionError("not to be called")

    theirs.__module__ = "cache_dit.attention"
    monkeypatch.setitem(dispatch._AttentionBackendRegistry._backends, dispatch.AttentionBackendName.NATIVE, theirs)
    model = WAN.made()

    with apply(model, selector=cpu) as report:
        outputs(model, WAN.inputs((9,)))

    assert report.foreign == ("backend `native` is that of `cache_dit.attention`",)
    assert dispatch._AttentionBackendRegistry._backends[dispatch.AttentionBackendName.NATIVE] is theirs
