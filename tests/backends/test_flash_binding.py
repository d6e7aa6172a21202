"""What `FLASH_ATTN` refuses to bind, with the whole message, and what it says of what it has bound."""

from __future__ import annotations

import re
import types
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import flash_attn
from backends._flash import Family, try_build
from backends._flash_providers import PROVIDERS, Build, Origin, Packages, build_of, installed_version
from backends.flash_attn import FlashAttention
from backends.interface import BindError, Geometry
from tests.backends.cases import Sizes
from tests.backends.fakes import flash2, flash3, flash3_forward, flash4
from tests.backends.fakes.flash_packages import ALL, ON_CPU, bind, packages

if TYPE_CHECKING:
    from types import ModuleType

    from torch import Tensor

    from backends._checks import Bound

GEOMETRY = Geometry(128, 4, 2, "bfloat16", "cpu", provider="fa2")
FULL = packages({module: code for _, module, code in ALL.values()})


def refused(
    geometry: Geometry, found: Packages = FULL, spec: dict[str, object] | None = None, family: Family = ON_CPU
) -> BindError:
    """The refusal to bind."""
    with pytest.raises(BindError) as raised:
        FlashAttention(family, found).bind(spec or {}, geometry)
    return raised.value


def test_the_shipped_backend_uses_this_interpreter() -> None:
    """Its packages, on a GPU, and runs them once."""
    backend = flash_attn.BACKEND

    assert (backend.name, backend) == (
        "FLASH_ATTN",
        FlashAttention(Family("FLASH_ATTN", "cuda", try_build), Packages()),
    )


LIMITS: list[tuple[str, dict[str, object], Geometry, str]] = [
    ("no provider", {}, replace(GEOMETRY, provider=None), "`provider` of `FLASH_ATTN`: wanted fa4, fa3, fa2, got None"),
    (
        "another's",
        {},
        replace(GEOMETRY, provider="sage2"),
        "`provider` of `FLASH_ATTN`: wanted fa4, fa3, fa2, got sage2",
    ),
    ("another device", {}, replace(GEOMETRY, device="meta"), "`device` of `FLASH_ATTN`: wanted cpu, got meta"),
    (
        "float32",
        {},
        replace(GEOMETRY, dtype="float32"),
        "`dtype` of `FLASH_ATTN`: wanted float16 or bfloat16, got float32",
    ),
    (
        "head_dim 100",
        {},
        replace(GEOMETRY, head_dim=100),
        "`head_dim` of `FLASH_ATTN`: wanted a multiple of 8, got 100",
    ),
    ("head_dim 264", {}, replace(GEOMETRY, head_dim=264), "`head_dim` of `FLASH_ATTN`: wanted at most 256, got 264"),
    ("an option", {"quant": {}}, GEOMETRY, "`spec` of `FLASH_ATTN`: wanted no option, got `quant`"),
    (
        "heads that do not group",
        {},
        replace(GEOMETRY, num_heads=5),
        "`num_heads` of `FLASH_ATTN`: wanted a multiple of `num_kv_heads`, 2, got 5",
    ),
]


@pytest.mark.parametrize(
    ("spec", "geometry", "message"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS]
)
def test_limits(spec: dict[str, object], geometry: Geometry, message: str) -> None:
    """Before any package is imported."""
    assert str(refused(geometry, packages({}), spec)) == message


def with_functions(**functions: object) -> ModuleType:
    """A module in the place of `flash_attn`."""
    made = types.ModuleType("flash_attn")
    made.__dict__.update(functions)
    return made


def test_a_dtype_that_was_left_out_of_a_build() -> None:
    """Shows when the kernel runs once on a small input; the kernel's own words are the reason."""
    geometry = replace(GEOMETRY, dtype="float16", provider="fa3")

    error = refused(geometry, packages({"fa3_fwd_interface": flash3_forward}, {"fa3-fwd": "0.0.3"}))

    message = (
        "`FLASH_ATTN`: wanted `fa3_fwd_interface` 0.0.3 to run Geometry(head_dim=128, num_heads=4, num_kv_heads=2, "
        "dtype='float16', device='cpu', provider='fa3'), "
        "got RuntimeError: This flash attention build does not support FP16."
    )
    assert str(error) == message
    assert isinstance(error.__cause__, RuntimeError)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (lambda q: q[:, :1], r"got torch.bfloat16 \[1, 1, 4, 128\] for a query of torch.bfloat16 \[1, 64, 4, 128\]$"),
        (lambda q: q.float(), r"got torch.float32 .* for a query of torch.bfloat16"),
        (lambda q: q + 1, "got numbers that are not zero for values that are$"),
        (lambda q: q * float("nan"), "got numbers that are not zero for values that are$"),
    ],
)
def test_a_build_that_gives_something_else(wrong: object, reason: str) -> None:
    """The trial looks at what comes back."""
    assert callable(wrong)
    make = wrong

    def faulty(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        softmax_scale: float | None = None,
        *,
        causal: bool = False,
        window_size: object = None,
    ) -> object:
        return make(q)

    module = with_functions(flash_attn_func=faulty, flash_attn_varlen_func=flash2.flash_attn_varlen_func)

    assert re.search(reason, str(refused(GEOMETRY, packages({"flash_attn": module}))))


def test_the_trial_is_asked_once() -> None:
    """With the build and the geometry in torch's types, provider included."""
    asked: list[tuple[str, Bound]] = []

    def trial(build: Build, bound: Bound) -> str | None:
        asked.append((build.origin.source, bound))
        return None

    FlashAttention(Family("FLASH_ATTN", "cpu", trial), FULL).bind({}, GEOMETRY)

    assert [(source, bound.geometry, bound.dtype) for source, bound in asked] == [
        ("flash_attn", GEOMETRY, torch.bfloat16)
    ]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_real_trial_refuses() -> None:
    """Whatever torch raises where it has no CUDA."""
    error = refused(replace(GEOMETRY, device="cuda"), family=Family("FLASH_ATTN"))

    assert str(error).startswith("`FLASH_ATTN`: wanted `flash_attn` (version unknown) to run ")


@pytest.mark.parametrize(
    ("provider", "versions", "origin"),
    [
        ("fa4", {"flash-attn-4": "4.0.0b36", "fa4": "0"}, Origin("flash_attn.cute", "4.0.0b36")),
        ("fa3", {"flash-attn-3": "3.0.0"}, Origin("flash_attn_interface", "3.0.0")),
        ("fa2", {}, Origin("flash_attn", None)),
    ],
)
def test_origin_names_module_and_version(provider: str, versions: dict[str, str], origin: Origin) -> None:
    """The version is the distribution's: the module of version 4 says 0.0.0 of itself."""
    modules = {"flash_attn.cute": flash4, "flash_attn_interface": flash3, "flash_attn": flash2}
    kernel = FlashAttention(ON_CPU, packages(modules, versions)).bind({}, replace(GEOMETRY, provider=provider))

    assert getattr(kernel, "origin", None) == origin


def test_an_installed_version() -> None:
    """From the metadata, without an import."""
    assert installed_version("torch") == torch.__version__
    assert installed_version("no-such-distribution-anywhere") is None


def test_every_provider_has_a_fake() -> None:
    """So that each is tested."""
    assert {provider for provider, _, _ in ALL.values()} == set(PROVIDERS)
    assert {module for _, module, _ in ALL.values()} == {x.module for found in PROVIDERS.values() for x in found}


def test_equal_functions_are_bound_once() -> None:
    """Sixty layers do not make sixty entries in the table that operators look in."""
    numbers = {bind("fa2", Sizes(dtype=torch.bfloat16)).build.number for _ in range(3)}
    other = build_of("X", "fa3", flash3, Origin("flash_attn_interface", None)).number

    assert len(numbers) == 1
    assert other not in numbers
