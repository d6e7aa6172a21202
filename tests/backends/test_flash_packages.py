"""What `FLASH_ATTN` says of packages that are absent, broken, hidden, or not what they are called."""

from __future__ import annotations

import types
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from backends.flash_attn import FlashAttention
from backends.interface import BindError, Geometry
from tests.backends.fakes import flash2, flash3_forward
from tests.backends.fakes.flash_packages import ON_CPU, packages

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor

    from backends._flash_providers import Packages

GEOMETRY = Geometry(128, 4, 2, "bfloat16", "cpu", provider="fa2")


def refused(geometry: Geometry, found: Packages) -> BindError:
    """The refusal to bind."""
    with pytest.raises(BindError) as raised:
        FlashAttention(ON_CPU, found).bind({}, geometry)
    return raised.value


ABSENT: list[tuple[str, dict[str, ModuleType | Exception], dict[str, str], str]] = [
    ("fa2", {}, {}, "`FLASH_ATTN`: wanted the module `flash_attn`, got No module named 'flash_attn'"),
    (
        "fa3",
        {"flash_attn": flash2},
        {},
        (
            "`FLASH_ATTN`: wanted the module `flash_attn_interface` or `fa3_fwd_interface`, "
            "got No module named 'flash_attn_interface'; No module named 'fa3_fwd_interface'"
        ),
    ),
    (
        "fa4",
        {"flash_attn": flash2},
        {"flash-attn-4": "4.0.0b36"},
        (
            "`FLASH_ATTN`: wanted the module `flash_attn.cute`, got No module named 'flash_attn.cute' "
            "although `flash-attn-4` 4.0.0b36 is installed"
        ),
    ),
]


@pytest.mark.parametrize(("provider", "modules", "versions", "message"), ABSENT)
def test_an_absent_package(
    provider: str, modules: dict[str, ModuleType | Exception], versions: dict[str, str], message: str
) -> None:
    """An older FlashAttention 2 hides version 4, whose distribution is then still there: that is told."""
    error = refused(replace(GEOMETRY, provider=provider), packages(modules, versions))

    assert str(error) == message
    assert isinstance(error.__cause__, ModuleNotFoundError)


@pytest.mark.parametrize(
    "broken",
    [
        ImportError("undefined symbol: _ZN3c10"),
        OSError("libcudart.so.13: cannot open shared object file"),
        AttributeError("module 'cutlass' has no attribute 'pipeline'"),
        ModuleNotFoundError("No module named 'cutlass'", name="cutlass"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_broken_package_is_not_passed_over(broken: Exception) -> None:
    """Its own error is the cause, whatever its type, and no other package takes its place."""
    modules: dict[str, ModuleType | Exception] = {
        "flash_attn_interface": broken,
        "fa3_fwd_interface": flash3_forward,
    }

    error = refused(replace(GEOMETRY, provider="fa3"), packages(modules))

    wanted = "`FLASH_ATTN`: wanted a module `flash_attn_interface` that can be imported, got "
    assert str(error) == f"{wanted}{type(broken).__name__}: {broken}"
    assert error.__cause__ is broken


def with_functions(**functions: object) -> ModuleType:
    """A module in the place of `flash_attn`."""
    made = types.ModuleType("flash_attn")
    made.__dict__.update(functions)
    return made


def before_windows(
    q: Tensor, k: Tensor, v: Tensor, softmax_scale: float | None = None, *, causal: bool = False
) -> None:
    """A function of the time when causal was aligned top left."""


def swallowing(*args: object, **kwargs: object) -> None:
    """A function that takes anything, which says nothing of what it heeds."""


PARTIAL: list[tuple[str, ModuleType, str]] = [
    ("nothing of it", with_functions(), "wanted `flash_attn_func` in `flash_attn` 2.8.3, got none"),
    (
        "no packed function",
        with_functions(flash_attn_func=flash2.flash_attn_func),
        "wanted `flash_attn_varlen_func` in `flash_attn` 2.8.3, got none",
    ),
    (
        "too old",
        with_functions(flash_attn_func=before_windows),
        "wanted `flash_attn_func` of `flash_attn` 2.8.3 to take `window_size`, got (q, k, v, softmax_scale, causal)",
    ),
    (
        "keywords that are swallowed",
        with_functions(flash_attn_func=swallowing),
        (
            "wanted `flash_attn_func` of `flash_attn` 2.8.3 to take `softmax_scale`, `causal`, `window_size`, "
            "got (args, kwargs)"
        ),
    ),
    (
        "no signature",
        with_functions(flash_attn_func=dict),
        "wanted a signature of `flash_attn_func` in `flash_attn` 2.8.3, got none: no signature found",
    ),
]


@pytest.mark.parametrize(("module", "message"), [case[1:] for case in PARTIAL], ids=[case[0] for case in PARTIAL])
def test_a_package_without_what_is_needed(module: ModuleType, message: str) -> None:
    """Functions and keywords are looked for before the first call."""
    found = packages({"flash_attn": module}, {"flash-attn": "2.8.3"})

    assert str(refused(GEOMETRY, found)).startswith(f"`FLASH_ATTN`: {message}")
