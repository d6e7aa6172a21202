"""Checks run on a backend through its interface, and what became of each."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias

from backends.conformance.call_checks import CALL_CHECKS
from backends.conformance.checking import precision_of, tolerance_of
from backends.conformance.mask_checks import MASK_CHECKS
from backends.conformance.memory_checks import MEMORY_CHECKS
from backends.interface import BindError, CallRefused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from backends.conformance.checking import Check
    from backends.interface import Backend, Geometry, Kernel

Outcome: TypeAlias = Literal["passed", "failed", "refused", "cannot bind"]
OUTCOMES: tuple[Outcome, ...] = ("passed", "failed", "refused", "cannot bind")
ALL: tuple[Check, ...] = (*CALL_CHECKS, *MASK_CHECKS, *MEMORY_CHECKS)
"""Every check. Together they catch each fault that docs/conformance.md lists."""


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one check.

    `wanted` and `got` are what passed or failed, or the refusal. `error` is the largest absolute error of the output,
    and `tolerance` what was allowed of it: each None where there is none. `build` names the code that was bound, where
    it has a name.
    """

    check: str
    geometry: Geometry
    outcome: Outcome
    wanted: str
    got: str
    error: float | None = None
    tolerance: float | None = None
    build: str | None = None

    def __str__(self) -> str:
        return f"{self.check}: {self.outcome}: wanted {self.wanted}, got {self.got}"


@dataclass(frozen=True, slots=True)
class Report:
    """What became of every check, in the order of the checks."""

    backend: str
    results: tuple[Result, ...]

    @property
    def failed(self) -> tuple[Result, ...]:
        """The checks whose answer was wrong."""
        return tuple(result for result in self.results if result.outcome == "failed")

    @property
    def counts(self) -> Mapping[Outcome, int]:
        """How many checks came to each outcome."""
        counted = Counter(result.outcome for result in self.results)
        return {outcome: counted[outcome] for outcome in OUTCOMES}

    def __str__(self) -> str:
        counts = ", ".join(f"{count} {outcome}" for outcome, count in self.counts.items())
        return "\n".join([f"{self.backend}: {counts}", *(f"  {result}" for result in self.failed)])


def run(backend: Backend, spec: Mapping[str, object], geometry: Geometry, *, checks: Iterable[Check] = ALL) -> Report:
    """Binds the backend and makes the call of every check.

    A check that needs another geometry binds for that one; a kernel is bound once for each. What a kernel raises is a
    failure unless it is `CallRefused`, and what `bind` raises unless it is `BindError`; either with a reason.
    """
    bindings = _Bindings(backend, spec)
    return Report(backend.name, tuple(bindings.result(check, check.at(geometry)) for check in checks))


@dataclass(frozen=True, slots=True)
class _Bindings:
    backend: Backend
    spec: Mapping[str, object]
    bound: dict[Geometry, Kernel | Exception] = field(default_factory=dict)

    def result(self, check: Check, geometry: Geometry) -> Result:
        kernel = self._kernel(geometry)
        if isinstance(kernel, Exception):
            reasoned = isinstance(kernel, BindError) and bool(str(kernel))
            outcome: Outcome = "cannot bind" if reasoned else "failed"
            return Result(check.name, geometry, outcome, "a kernel, or a `BindError` with its reason", _told(kernel))
        tolerance = tolerance_of(precision_of(self.backend, kernel), geometry.dtype)
        origin = getattr(kernel, "origin", None)
        build = None if origin is None else str(origin)
        try:
            verdict = check.on(kernel, geometry, tolerance)
        except Exception as error:  # noqa: BLE001 - whatever a kernel raises is what it did with the call
            outcome = "refused" if isinstance(error, CallRefused) and str(error) else "failed"
            wanted = "an output, or `CallRefused` with its reason"
            return Result(check.name, geometry, outcome, wanted, _told(error), None, tolerance, build)
        outcome = "passed" if verdict.good else "failed"
        return Result(check.name, geometry, outcome, verdict.wanted, verdict.got, verdict.error, tolerance, build)

    def _kernel(self, geometry: Geometry) -> Kernel | Exception:
        if geometry not in self.bound:
            try:
                self.bound[geometry] = self.backend.bind(self.spec, geometry)
            except Exception as error:  # noqa: BLE001 - kept, and told with each check that needs this kernel
                self.bound[geometry] = error
        return self.bound[geometry]


def _told(error: Exception) -> str:
    """A refusal's own sentence; of anything else what it is, too."""
    text = " ".join(str(error).split())
    return text if isinstance(error, BindError | CallRefused) and text else f"{type(error).__name__}: {text}"
