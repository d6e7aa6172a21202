"""The checks as cases of a parametrised test, for whoever tests a kernel with pytest."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from backends.conformance.running import ALL, run

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from _pytest.mark.structures import ParameterSet

    from backends.conformance.checking import Check
    from backends.interface import Backend, Geometry


@dataclass(frozen=True, slots=True)
class Case:
    """One check of a backend; calling it fails the test, passes, or skips it with the refusal's own reason."""

    backend: Backend
    spec: Mapping[str, object]
    geometry: Geometry
    check: Check
    required: bool

    def __call__(self) -> None:
        """Raises `AssertionError` for a wrong answer, and for a refusal where the check is required."""
        import pytest

        __tracebackhide__ = True
        (result,) = run(self.backend, self.spec, self.geometry, checks=[self.check]).results
        if result.outcome == "failed" or (self.required and result.outcome != "passed"):
            raise AssertionError(f"{self.backend.name}: {result}\n{self.check.reason}")
        if result.outcome != "passed":
            pytest.skip(f"{result.outcome}: {result.got}")


def as_pytest(
    backend: Backend,
    *geometries: Geometry,
    spec: Mapping[str, object] | None = None,
    checks: Iterable[Check] = ALL,
    required: Collection[str] = (),
) -> list[ParameterSet]:
    """Cases for `pytest.mark.parametrize`, each to be called by the test; the ids are the names of the checks.

    With several geometries head_dim, heads and dtype follow the name. A refusal skips its case, unless `required` names
    the check. Raises `ValueError` for a required name that no check has. pytest is imported here and not before.
    """
    import pytest

    checks = tuple(checks)
    _known(required, [check.name for check in checks])
    return [
        pytest.param(
            Case(backend, spec or {}, geometry, check, check.name in required),
            id=check.name if len(geometries) == 1 else f"{check.name}-{_short(geometry)}",
        )
        for geometry in geometries
        for check in checks
    ]


def _short(geometry: Geometry) -> str:
    return f"{geometry.head_dim}-{geometry.num_heads}x{geometry.num_kv_heads}-{geometry.dtype}"


def _known(required: Collection[str], names: list[str]) -> None:
    for name in required:
        if name not in names:
            near = get_close_matches(name, names, n=1)
            hint = f"; the nearest is `{near[0]}`" if near else ""
            raise ValueError(f"`required`: wanted names of checks, got `{name}`{hint}")
