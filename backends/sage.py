"""`SAGE_ATTN`: SageAttention 1 or 2, with queries and keys rounded to eight bits; for inference alone."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from backends._sage import bind_kernel, check_limits, imported
from backends._sage_operator import on_device, operator
from backends._sage_trial import measure
from backends._sage_versions import Package1, Package2, Run1, Run2
from backends._sdpa import bound_geometry
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType
    from typing import Any

    from backends._checks import Bound
    from backends._sage import Run
    from backends._sage_operator import Guard
    from backends._sage_trial import Errors
    from backends.interface import Backend, Geometry, Kernel, Precision

PACKAGE = "sageattention"
HEAD_DIM_MOST = 128
ALWAYS = frozenset({"tensor_layout", "is_causal", "sm_scale"})
"""The parameters of either version."""
ERROR_MOST = 0.08
"""Rounding to eight bits gives 0.01 to 0.04, a last block of keys counted wrongly 0.3 and more."""


class Version(NamedTuple):
    """One provider: how to know it by what is installed, the sizes of head that it takes, how to run it."""

    shows: str
    """The parameter of `sageattn` that the other version does not have."""
    head_dims: frozenset[int]
    wanted: str
    run: Callable[[Callable[..., Any], Guard], Run]
    precision: Precision
    """Version 2 puts weights and values into float16 or, on newer architectures, into eight bits."""


VERSIONS: Mapping[str, Version] = {
    "sage2": Version(
        "return_lse",
        frozenset(range(1, HEAD_DIM_MOST + 1)),
        f"1 to {HEAD_DIM_MOST}",
        lambda function, guard: Run2(
            operator(Package2(function, gives_lse=False), guard), operator(Package2(function, gives_lse=True), guard)
        ),
        "fp8",
    ),
    "sage1": Version(
        "smooth_k",
        frozenset({64, 96, 128}),
        "64, 96 or 128",
        lambda function, guard: Run1(operator(Package1(function), guard)),
        "int8",
    ),
}


@dataclass(frozen=True, slots=True)
class SageAttention:
    """No mask, key lengths, causal calls of equal lengths, grouped heads, half precision, two keys or more; no option.

    The version is found by the parameters of what is installed, and has to be the geometry's provider, if it names one.
    Values larger than float16 holds are scaled down for the kernel and their output up again. Nothing is mutated, and
    the current device stays the current one.

    `importer` gives the package by name, `device` is the type of device that it runs on, `guard` makes a device the
    current one, and `trial` measures the bound kernel.
    """

    name: str = "SAGE_ATTN"
    importer: Callable[[str], ModuleType] = import_module
    device: str = "cuda"
    guard: Guard = on_device
    trial: Callable[[Bound, Run], Errors] = measure

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; the kernel has been compared with the definition on this device when this returns."""
        bound = bound_geometry(self.name, spec, replace(geometry, provider=None))
        check_limits(self.name, bound, self.device)
        module = imported(self.name, self.importer, PACKAGE)
        function: Callable[..., Any] = getattr(module, "sageattn", _missing)
        version = self._version(function, geometry.provider)
        check_limits(
            self.name, bound, self.device, ("head_dim", version.wanted, geometry.head_dim in version.head_dims)
        )
        run = version.run(function, self.guard)
        return bind_kernel(self.name, bound, run, self.trial, ERROR_MOST, precision=version.precision)

    def _version(self, function: Callable[..., Any], provider: str | None) -> Version:
        """The version of an installed `sageattn`; `BindError` unless it is known and the one that is asked for."""
        parameters = _parameters(function)
        found = [name for name, version in VERSIONS.items() if {version.shows, *ALWAYS} <= parameters]
        if provider is not None and provider not in VERSIONS:
            raise BindError(f"`provider` of `{self.name}`: wanted {' or '.join(VERSIONS)}, got {provider}")
        if len(found) != 1:
            wanted = " or ".join(f"`{version.shows}`" for version in VERSIONS.values())
            got = ", ".join(sorted(parameters)) or "none"
            raise BindError(f"`sageattn` of `{PACKAGE}`: wanted the parameter {wanted}, got {got}")
        if provider not in (None, *found):
            raise BindError(f"`provider` of `{self.name}`: wanted {found[0]}, which is installed, got {provider}")
        return VERSIONS[found[0]]


def _missing() -> None:
    """In the place of a function that the package does not have."""


def _parameters(function: Callable[..., Any]) -> set[str]:
    """The names of a function's parameters; none where it does not tell them."""
    try:
        return set(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return set()


BACKEND: Backend = SageAttention()
