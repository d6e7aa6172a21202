"""The conformance kit: it rejects every known fault, by the checks meant for it, and no kernel that is right."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import torch_sdpa
from backends.conformance import ALL, FULL, OUTCOMES, TOLERANCES, Call, Check, Report, as_pytest, run
from backends.conformance.checking import described, tolerance_of
from backends.flash_attn import FlashAttention
from backends.interface import Backend, BindError, CallRefused, Geometry
from tests.backends.broken import FAULTS, LSE_FAULTS, Broken, Plain, WithLse, refusing
from tests.backends.fakes.flash_packages import ALL as FLASH
from tests.backends.fakes.flash_packages import ON_CPU, only
from tests.backends.fakes.flashinfer_binding import PROVIDERS, flashinfer_backend, trtllm_backend
from tests.backends.fakes.sage_bound import FAKES, installed, untried

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backends.interface import Kernel, Precision

HALF = Geometry(64, 4, 2, "bfloat16", "cpu")
EQUAL = replace(HALF, num_kv_heads=4)
NAMES = [check.name for check in ALL]
LSE = {"lse", "lse-layout", "lse-lengths", "lse-padding", "lse-causal"}


def only_checks(names: set[str]) -> list[Check]:
    """The checks of these names."""
    return [check for check in ALL if check.name in names]


def failed(report: Report) -> set[str]:
    """The names of the checks that failed."""
    return {result.check for result in report.failed}


def short(geometry: Geometry) -> str:
    """The geometry in a test's name."""
    return f"{geometry.head_dim}-{geometry.num_kv_heads}-{geometry.dtype}"


# --- faults ---

GEOMETRIES = [HALF, replace(HALF, head_dim=128, dtype="float16"), replace(EQUAL, head_dim=72, dtype="float32")]
OF_FLOAT16 = {"values in float16", "values cut off at the largest of float16"}
"""Faults that are none where the inputs are float16."""


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=short)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_caught_by_the_checks_meant_for_it(fault: str, geometry: Geometry) -> None:
    """By all of them, whatever other checks catch it too."""
    broken, meant = FAULTS[fault]

    report = run(Broken(broken), {}, geometry, checks=only_checks(meant))

    assert failed(report) == (set() if fault in OF_FLOAT16 and geometry.dtype == "float16" else meant)


@pytest.mark.parametrize("fault", LSE_FAULTS)
def test_a_wrong_log_sum_exp_is_caught(fault: str) -> None:
    """Whose output is right."""
    change, meant = LSE_FAULTS[fault]

    assert failed(run(WithLse(change), {}, HALF, checks=only_checks(LSE))) >= meant


def test_a_right_log_sum_exp_passes() -> None:
    """And nothing is left to refuse."""
    assert run(WithLse(), {}, HALF).counts["passed"] == len(ALL)


def test_every_check_is_meant_for_a_fault() -> None:
    """And its name is its own."""
    meant = set().union(*(names for _, names in [*FAULTS.values(), *LSE_FAULTS.values()]))

    assert meant == set(NAMES)
    assert len(NAMES) == len(meant)


@dataclass(frozen=True)
class Rounded:
    """A kernel that rounds, over a fake of its package."""

    fake: str
    precision: Precision
    geometry: Geometry

    def backend(self) -> Backend:
        """The shipped adapter over the fake."""
        fake = FAKES[self.fake]
        return fake.backend(importer=installed(fake.module), device="cpu", trial=untried)


ROUNDED = {
    "int8": Rounded("1", "int8", HALF),
    "fp8": Rounded("2, sm90", "fp8", HALF),
    "fp4": Rounded("3", "fp4", EQUAL),
}
LOST_IN_FOUR_BITS = {"values cut off at the largest of float16"}


@pytest.mark.parametrize("rounded", ROUNDED.values(), ids=ROUNDED)
def test_rounding_hides_no_fault(rounded: Rounded) -> None:
    """A fault of a kernel with rounded inputs shows in every check that the kernel takes, above its own noise."""
    backend = rounded.backend()
    taken = {result.check for result in run(backend, {}, rounded.geometry).results if result.outcome == "passed"}
    hidden = set()

    for fault, (broken, meant) in FAULTS.items():
        checks = only_checks(meant & taken)
        report = run(Broken(broken, rounded.precision, backend), {}, rounded.geometry, checks=checks)
        if failed(report) != meant & taken:
            hidden.add(fault)

    assert {"dense", "causal-square", "key-lengths", "tail-of-keys", "tail-filled-up", "blocks"} <= taken
    assert hidden == (LOST_IN_FOUR_BITS if rounded.precision == "fp4" else set())


# --- kernels that are right ---


DTYPES = ["bfloat16", "float16", "float32", "float64"]
HEADS = [(4, 4), (1, 1), (8, 1), (6, 3), (3, 3)]


@pytest.mark.parametrize(
    "geometry",
    [
        *(replace(HALF, dtype=dtype, head_dim=head_dim) for dtype in DTYPES for head_dim in (64, 128)),
        *(replace(HALF, head_dim=head_dim) for head_dim in (8, 72, 256)),
        *(replace(HALF, num_heads=heads, num_kv_heads=kv_heads) for heads, kv_heads in HEADS),
    ],
    ids=lambda geometry: f"{short(geometry)}-{geometry.num_heads}",
)
def test_the_dispatcher_passes_everything(geometry: Geometry) -> None:
    """In every precision."""
    report = run(torch_sdpa.BACKEND, {}, geometry)

    assert report.counts == {"passed": len(ALL), "failed": 0, "refused": 0, "cannot bind": 0}


INT8, FP8 = {"quant": {"dtype_qk": "int8"}}, {"quant": {"dtype_qk": "fp8_e4m3"}}
CUTE = "flashinfer-cute-dsl"
Bound = tuple[Backend, "Mapping[str, object]", Geometry]
FLASH_BOUND: dict[str, Bound] = {
    name: (FlashAttention(ON_CPU, only(name)), {}, replace(HALF, provider=FLASH[name][0])) for name in FLASH
}
FLASHINFER_BOUND: dict[str, Bound] = {
    name: (flashinfer_backend(), {}, replace(EQUAL, head_dim=128, dtype="float16", provider=name)) for name in PROVIDERS
}
SAGE_BOUND: dict[str, Bound] = {
    f"sage {name}": (
        fake.backend(importer=installed(fake.module), device="cpu", trial=untried),
        {},
        replace(EQUAL, head_dim=128, num_kv_heads=min(fake.key_heads[:2])),
    )
    for name, fake in FAKES.items()
}
FAKES_BOUND: dict[str, Bound] = {
    **FLASH_BOUND,
    **FLASHINFER_BOUND,
    **SAGE_BOUND,
    "cute-dsl, fp8": (flashinfer_backend(), {"quant": {"dtype_vo": "fp8_e4m3"}}, replace(HALF, provider=CUTE)),
    "trtllm": (trtllm_backend(), {}, replace(HALF, head_dim=128)),
    "trtllm, int8": (trtllm_backend(), INT8, replace(HALF, head_dim=128)),
    "trtllm, fp8": (trtllm_backend(), FP8, replace(HALF, head_dim=128)),
}


WITHOUT_LSE = {"sage 1", "sage 3", "trtllm, int8", "trtllm, fp8"}


@pytest.mark.filterwarnings("ignore:.*such calls are not quantised")
@pytest.mark.parametrize("name", FAKES_BOUND)
def test_an_adapter_passes_or_refuses(name: str) -> None:
    """Over the fake of its package: nothing fails, and whatever does not run has a reason."""
    report = run(*FAKES_BOUND[name])

    assert report.failed == ()
    assert report.counts["passed"] >= 26
    assert all(result.got for result in report.results)
    given = {result.check for result in report.results if result.outcome == "passed"} & LSE
    assert (given >= {"lse", "lse-layout", "lse-lengths"}) == (name not in WITHOUT_LSE)
    assert bool(given) == (name not in WITHOUT_LSE)


@pytest.mark.parametrize(
    ("name", "tolerance"), [("fa3", 0.05), ("trtllm", 0.05), ("trtllm, int8", 0.25), ("cute-dsl, fp8", 0.25)]
)
def test_a_kernel_says_how_far_it_rounds(name: str, tolerance: float) -> None:
    """Where that depends on the options it was bound with."""
    backend, spec, geometry = FAKES_BOUND[name]

    (result,) = run(backend, spec, geometry, checks=only_checks({"no-batch"})).results

    assert result.tolerance == tolerance


# --- outcomes ---


def test_a_report_tells_what_was_wanted_and_got() -> None:
    """With the counts first, then what failed."""
    broken, _ = FAULTS["output flattened"]

    report = run(Broken(broken), {}, HALF, checks=only_checks({"dense", "lse"}))

    assert str(report) == (
        "BROKEN: 0 passed, 1 failed, 1 refused, 0 cannot bind\n"
        "  dense: failed: wanted bfloat16 [2, 9, 4, 64] on cpu, got bfloat16 [2, 9, 256] on cpu"
    )
    assert tuple(report.counts) == OUTCOMES


def test_an_error_is_told_with_its_tolerance() -> None:
    """The largest absolute one; NaN is the largest of all."""
    (wrong,) = run(Broken(FAULTS["scale applied twice"][0]), {}, HALF, checks=only_checks({"dense"})).results
    nan = run(Broken(lambda kernel, call: call.of(kernel) * math.nan), {}, HALF, checks=only_checks({"dense"})).results[
        0
    ]

    assert wrong.error is not None
    assert 1 < wrong.error < 3
    assert (wrong.tolerance, wrong.wanted, wrong.got) == (0.05, "an error of at most 0.05", f"{wrong.error:.3g}")
    assert (nan.outcome, nan.got) == ("failed", "nan")


@pytest.mark.parametrize(
    ("error", "outcome", "got"),
    [
        (CallRefused("`causal`: wanted none"), "refused", "`causal`: wanted none"),
        (CallRefused(), "failed", "CallRefused: "),
        (BindError("late"), "failed", "late"),
        (RuntimeError("no kernel\n image"), "failed", "RuntimeError: no kernel image"),
    ],
    ids=str,
)
def test_what_a_call_raises(error: Exception, outcome: str, got: str) -> None:
    """A refusal with a reason is honest; anything else is a failure."""
    (result,) = run(Broken(refusing(lambda _: True, error)), {}, HALF, checks=only_checks({"dense"})).results

    assert (result.outcome, result.got) == (outcome, got)
    assert result.wanted == "an output, or `CallRefused` with its reason"


@dataclass(frozen=True)
class Unbound:
    """A backend whose `bind` raises."""

    error: Exception
    name: str = "UNBOUND"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`."""
        raise self.error


@pytest.mark.parametrize(
    ("error", "outcome"),
    [(BindError("no GPU"), "cannot bind"), (BindError(), "failed"), (KeyError("x"), "failed")],
    ids=str,
)
def test_what_bind_raises(error: Exception, outcome: str) -> None:
    """The same for every check; only `BindError` with a reason is honest."""
    report = run(Unbound(error), {}, HALF)

    assert {result.outcome for result in report.results} == {outcome}


def test_a_kernel_is_bound_once_for_each_geometry() -> None:
    """Those of the checks that need another one among them."""
    bound = []

    class Counting:
        name = "COUNTING"

        def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
            bound.append(geometry)
            return torch_sdpa.BACKEND.bind(spec, geometry)

    run(Counting(), {}, EQUAL)

    assert sorted(bound, key=str) == sorted([EQUAL, HALF, replace(EQUAL, head_dim=72)], key=str)


def test_new_memory_is_poisoned_during_a_call_alone() -> None:
    """What a process has set is as it was, also after a kernel that raised."""
    memory = []

    def unwritten(kernel: Kernel, call: Call) -> torch.Tensor:
        memory.append(torch.empty_like(call.q))
        raise RuntimeError("late")

    run(Broken(unwritten), {}, HALF, checks=only_checks({"dense"}))

    assert bool(memory[0].isnan().all())
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("precision", TOLERANCES)
def test_tolerances_of_a_class(precision: Precision) -> None:
    """Full precision is tighter where nothing is rounded."""
    assert tolerance_of(precision, "float16") == TOLERANCES[precision]
    assert tolerance_of(precision, "float32") == (FULL["float32"] if precision == "exact" else TOLERANCES[precision])


def test_a_class_that_is_none_is_a_mistake_of_the_caller() -> None:
    """It is not taken for exact."""
    with pytest.raises(ValueError, match=r"^`precision` of `BROKEN`: wanted exact, int8, fp8, fp4, got fp2$"):
        run(Broken(FAULTS["scale dropped"][0], "fp2"), {}, HALF)  # type: ignore[arg-type]


def test_the_build_is_told_where_it_has_a_name() -> None:
    """As a plan tells it."""
    backend, spec, geometry = FAKES_BOUND["fa3"]

    (result,) = run(backend, spec, geometry, checks=only_checks({"dense"})).results

    assert "flash_attn_interface" in str(result.build)


@pytest.mark.parametrize("check", ALL, ids=NAMES)
def test_a_check_draws_the_same_each_time(check: Check) -> None:
    """So that a failure can be looked into."""
    from backends.conformance import Draw

    geometry = check.at(HALF)
    calls = [dict(check.make(Draw(geometry)).tensors()) for _ in range(2)]

    assert calls[0].keys() == calls[1].keys()
    assert all(torch.equal(calls[0][name], calls[1][name]) for name in calls[0])
    assert described(calls[0]["q"]).endswith(f"{geometry.num_heads}, {geometry.head_dim}] on cpu")


# --- in pytest ---

CASES = as_pytest(torch_sdpa.BACKEND, HALF, required=[name for name in NAMES if name not in LSE])


@pytest.mark.parametrize("case", CASES[:3])
def test_cases_are_called(case: object) -> None:
    """As a kernel's author does it."""
    assert callable(case)
    case()


def test_the_ids_are_the_names_of_the_checks() -> None:
    """With the geometry where there are several."""
    several = as_pytest(torch_sdpa.BACKEND, HALF, EQUAL, checks=ALL[:1])

    assert [case.id for case in CASES] == NAMES
    assert [case.id for case in several] == ["dense-64-4x2-bfloat16", "dense-64-4x4-bfloat16"]


def test_a_failure_says_what_the_kernel_does() -> None:
    """With wanted, got, and the check's reason."""
    (case,) = as_pytest(Broken(FAULTS["scale dropped"][0]), HALF, checks=only_checks({"scale"}))

    with pytest.raises(
        AssertionError, match=r"^BROKEN: scale: failed: wanted an error of at most 0.05, got \S+\na given"
    ):
        case.values[0]()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("backend", "reason"),
    [
        (Plain(), "refused: `with_lse`: wanted a kernel that has it, got one that gives no log-sum-exp"),
        (Unbound(BindError("no GPU")), "cannot bind: no GPU"),
    ],
    ids=["refused", "cannot bind"],
)
def test_a_refusal_skips(backend: Backend, reason: str) -> None:
    """With its own reason; where the check is required it fails."""
    (case,) = as_pytest(backend, HALF, checks=only_checks({"lse"}))
    (required,) = as_pytest(backend, HALF, checks=only_checks({"lse"}), required=["lse"])

    with pytest.raises(pytest.skip.Exception) as skipped:
        case.values[0]()  # type: ignore[operator]
    with pytest.raises(AssertionError):
        required.values[0]()  # type: ignore[operator]
    assert str(skipped.value) == reason


def test_a_required_name_that_no_check_has() -> None:
    """Would require nothing."""
    with pytest.raises(ValueError, match=r"^`required`: wanted names of checks, got `dens`; the nearest is `dense`$"):
        as_pytest(torch_sdpa.BACKEND, HALF, required=["dens"])


def test_the_kit_is_imported_without_pytest() -> None:
    """And without the selector: a kernel's author needs neither."""
    code = "import sys, backends.conformance; sys.exit(any(name in sys.modules for name in ('pytest', 'selector')))"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
