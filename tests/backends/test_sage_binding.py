"""What the Sage backends refuse to bind, how they know what is installed, and what they find when they try it."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from backends import sage, sage3
from backends._sage_operator import on_device
from backends._sage_trial import Errors, measure
from backends.interface import BindError, Geometry
from backends.sage import SageAttention
from backends.sage3 import Sage3Attention
from tests.backends.fakes import sage1, sage2
from tests.backends.fakes import sage3 as fake3
from tests.backends.fakes.sage_bound import installed, untried

GEOMETRY = Geometry(64, 4, 4, "bfloat16", "cpu")
SAGE1, SAGE2 = sage1.MODULE, sage2.Sage2("sm90")
SAGE3 = fake3.module(fake3.Sage3(causal_works=True))


def attention(module: object, **fields: Any) -> SageAttention:  # noqa: ANN401 - any field of the backend
    """`SAGE_ATTN` over that package, on the CPU."""
    return SageAttention(**{"importer": installed(module), "device": "cpu", "trial": untried, **fields})


def attention3(module: object, **fields: Any) -> Sage3Attention:  # noqa: ANN401 - as above
    """`SAGE_ATTN_3` over that package, on the CPU."""
    return Sage3Attention(**{"importer": installed(module), "device": "cpu", "trial": untried, **fields})


def test_the_shipped_backends_are_the_real_ones() -> None:
    """Nothing is put in the place of the importer, the device and the trial."""
    for backend, name in ((sage.BACKEND, "SAGE_ATTN"), (sage3.BACKEND, "SAGE_ATTN_3")):
        assert isinstance(backend, SageAttention | Sage3Attention)
        assert (backend.name, backend.device, backend.guard, backend.trial) == (name, "cuda", on_device, measure)


def shown(**geometry: Any) -> str:  # noqa: ANN401 - any field of the geometry
    """The geometry as messages write it."""
    return str(replace(GEOMETRY, **geometry))


UNBOUND: dict[str, tuple[SageAttention | Sage3Attention, dict[str, object], Geometry, str]] = {
    "a CPU": (SageAttention(), {}, GEOMETRY, "`device` of `SAGE_ATTN`: wanted cuda, got cpu"),
    "a CPU for version 3": (Sage3Attention(), {}, GEOMETRY, "`device` of `SAGE_ATTN_3`: wanted cuda, got cpu"),
    "float32": (
        attention(SAGE1),
        {},
        replace(GEOMETRY, dtype="float32"),
        "`dtype` of `SAGE_ATTN`: wanted float16 or bfloat16, got float32",
    ),
    "an option": (attention(SAGE1), {"quant": {}}, GEOMETRY, "`spec` of `SAGE_ATTN`: wanted no option, got `quant`"),
    "heads that do not group": (
        attention(SAGE1),
        {},
        replace(GEOMETRY, num_kv_heads=3),
        "`num_heads` of `SAGE_ATTN`: wanted a multiple of `num_kv_heads`, 3, got 4",
    ),
    "head_dim 72 for version 1": (
        attention(SAGE1),
        {},
        replace(GEOMETRY, head_dim=72),
        "`head_dim` of `SAGE_ATTN`: wanted 64, 96 or 128, got 72",
    ),
    "head_dim 136 for version 2": (
        attention(SAGE2),
        {},
        replace(GEOMETRY, head_dim=136),
        "`head_dim` of `SAGE_ATTN`: wanted 1 to 128, got 136",
    ),
    "version 1 where 2 is asked for": (
        attention(SAGE1),
        {},
        replace(GEOMETRY, provider="sage2"),
        "`provider` of `SAGE_ATTN`: wanted sage1, which is installed, got sage2",
    ),
    "version 2 where 1 is asked for": (
        attention(SAGE2),
        {},
        replace(GEOMETRY, provider="sage1"),
        "`provider` of `SAGE_ATTN`: wanted sage2, which is installed, got sage1",
    ),
    "an unknown provider": (
        attention(SAGE2),
        {},
        replace(GEOMETRY, provider="fa4"),
        "`provider` of `SAGE_ATTN`: wanted sage2 or sage1, got fa4",
    ),
    "a provider for version 3": (
        attention3(SAGE3),
        {},
        replace(GEOMETRY, provider="sage3"),
        "`provider` of `SAGE_ATTN_3`: wanted none, got sage3",
    ),
    "a package without the function": (
        attention(SimpleNamespace()),
        {},
        GEOMETRY,
        "`sageattn` of `sageattention`: wanted the parameter `return_lse` or `smooth_k`, got none",
    ),
    "a function of another kind": (
        attention(SimpleNamespace(sageattn=sage1.sageattn_varlen)),
        {},
        GEOMETRY,
        "`sageattn` of `sageattention`: wanted the parameter `return_lse` or `smooth_k`, got args, kwargs",
    ),
    "a function that does not tell": (
        attention(SimpleNamespace(sageattn=torch.cosine_similarity)),
        {},
        GEOMETRY,
        "`sageattn` of `sageattention`: wanted the parameter `return_lse` or `smooth_k`, got none",
    ),
    "head_dim 256 for version 3": (
        attention3(SAGE3),
        {},
        replace(GEOMETRY, head_dim=256),
        "`head_dim` of `SAGE_ATTN_3`: wanted 64 or 128, got 256",
    ),
    "head_dim 96 for version 3": (
        attention3(SAGE3),
        {},
        replace(GEOMETRY, head_dim=96),
        "`head_dim` of `SAGE_ATTN_3`: wanted 64 or 128, got 96",
    ),
    "grouped heads for version 3": (
        attention3(SAGE3),
        {},
        replace(GEOMETRY, num_kv_heads=2),
        "`num_kv_heads` of `SAGE_ATTN_3`: wanted as many as `num_heads`, 4, got 2",
    ),
    "version 3 without the function": (
        attention3(SimpleNamespace()),
        {},
        GEOMETRY,
        "`SAGE_ATTN_3`: wanted `sageattn3_blackwell` or `sageattn_blackwell` in `sageattn3`, got neither",
    ),
    "an error beyond rounding": (
        attention(SAGE1, trial=lambda _bound, _run: Errors(0.36, 0.01)),
        {},
        replace(GEOMETRY, provider="sage1"),
        f"`SAGE_ATTN`: wanted an error of at most 0.08 for {shown()}, got 0.36",
    ),
    "an output that is not finite": (
        attention3(SAGE3, trial=lambda _bound, _run: Errors(float("inf"), 0.01)),
        {},
        GEOMETRY,
        f"`SAGE_ATTN_3`: wanted an error of at most 0.28 for {shown()}, got inf",
    ),
    "an architecture without a kernel": (
        attention(sage2.Sage2("sm100"), trial=measure),
        {},
        GEOMETRY,
        f"`SAGE_ATTN`: wanted a kernel for {shown()}, got ValueError: Unsupported CUDA architecture: sm100",
    ),
}


@pytest.mark.parametrize("case", UNBOUND)
def test_binding_refused(case: str) -> None:
    """What is wanted, and what is there instead."""
    backend, spec, geometry, message = UNBOUND[case]

    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        backend.bind(spec, geometry)


@pytest.mark.parametrize("error", [ImportError("no module"), OSError("libcudart"), AssertionError("no CUDA")])
@pytest.mark.parametrize(("backend", "package"), [(attention, "sageattention"), (attention3, "sageattn3")])
def test_a_broken_installation_is_the_cause(backend: Any, package: str, error: Exception) -> None:  # noqa: ANN401
    """Whatever its import raises."""

    def importer(_name: str) -> None:
        raise error

    with pytest.raises(BindError, match=f"wanted the package `{package}`, got {type(error).__name__}") as raised:
        backend(None, importer=importer).bind({}, GEOMETRY)

    assert raised.value.__cause__ is error


@pytest.mark.parametrize("geometry", [GEOMETRY, replace(GEOMETRY, device="cuda", num_kv_heads=2)])
def test_nothing_is_imported_for_a_geometry_outside_the_limits(geometry: Geometry) -> None:
    """The package may take seconds to load, or the process with it."""

    def importer(name: str) -> Any:  # noqa: ANN401 - never returns
        raise AssertionError(name)

    with pytest.raises(BindError):
        Sage3Attention(importer=importer).bind({}, geometry)


@pytest.mark.parametrize(("module", "provider"), [(SAGE1, "sage1"), (SAGE2, "sage2")])
def test_the_version_is_the_one_installed(module: object, provider: str) -> None:
    """Asked for by name or not at all, the kernel is the same."""
    named = attention(module).bind({}, replace(GEOMETRY, provider=provider))

    assert attention(module).bind({}, GEOMETRY) == named


def test_the_old_name_of_version_3() -> None:
    """Older forks export the function under it."""
    function = SAGE3.sageattn3_blackwell

    old = attention3(SimpleNamespace(sageattn_blackwell=function)).bind({}, GEOMETRY)

    assert old == attention3(SimpleNamespace(sageattn3_blackwell=function)).bind({}, GEOMETRY)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_the_package_nothing_binds() -> None:
    """Nor without a GPU."""
    for backend in (sage.BACKEND, sage3.BACKEND):
        with pytest.raises(BindError, match=r"^`SAGE_ATTN(_3)?`: wanted "):
            backend.bind({}, replace(GEOMETRY, device="cuda:0"))
