"""The backends over the hub with the `kernels` library of several ages in its place."""

from __future__ import annotations

import re
import types
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import hub, masks
from backends._flash import Family, FlashKernel
from backends._hub_library import Attempt, HubOrigin, Verdict
from backends.hub import FlashHub
from backends.interface import BindError, CallRefused, Geometry
from backends.reference import attention
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes import flash2, flash3
from tests.backends.fakes.hub_folder import HUB_ID, lay_out
from tests.backends.fakes.kernels_library import Accepted, Hub, Rejected, Variant, before_lists, before_trust, newest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import ModuleType

    from backends.interface import Backend

SIZES = Sizes(dtype=torch.bfloat16)
AGES = [before_trust, before_lists, newest]
FLASH_2, FLASH_3 = flash2.__name__, flash3.__name__
NO_BUILD = FileNotFoundError(f"Cannot find a build variant for this system in {HUB_ID} (revision: c1):\n\nand a table")

every_age = pytest.mark.parametrize("age", AGES, ids=lambda age: age.__name__)


@pytest.fixture(autouse=True)
def _no_local_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_KERNELS", raising=False)


def over(library: ModuleType, repository: str = HUB_ID, versions: tuple[int, ...] = (1, 2)) -> FlashHub:
    """`FLASH_ATTN_HUB` on a CPU with this library."""
    return FlashHub(Family("FLASH_ATTN_HUB", device="cpu"), repository, versions, "hub_fa2", lambda _: library)


def bound(backend: FlashHub, sizes: Sizes = SIZES) -> FlashKernel:
    """Its kernel."""
    kernel = backend.bind({}, sizes.geometry)
    assert isinstance(kernel, FlashKernel)
    return kernel


def refusal(backend: Backend, geometry: Geometry = SIZES.geometry) -> BindError:
    """What it says."""
    with pytest.raises(BindError) as raised:
        backend.bind({}, geometry)
    return raised.value


def test_the_shipped_backends() -> None:
    """Names, repositories and pinned versions, in the order in which they are asked for."""
    shipped = [hub.FLASH_ATTN_2, hub.FLASH_ATTN_3]

    assert [(x.name, getattr(x, "repository", ""), getattr(x, "versions", ())) for x in shipped] == [
        ("FLASH_ATTN_HUB", "kernels-community/flash-attn2", (1, 2, 4)),
        ("FLASH_ATTN_3_HUB", "kernels-community/flash-attn3", (1,)),
    ]


def test_hub_how_each_age_is_asked(tmp_path: Path) -> None:
    """By revision before there was trust, by version and trust since, by a list where a list is heeded."""
    asked = []
    for age in AGES:
        library_hub = Hub({(HUB_ID, 1): lay_out(tmp_path / age.__name__, FLASH_2)})
        bound(over(age(library_hub)))
        asked += library_hub.asked

    assert asked == [
        {"version": 1, "revision": "v1"},
        {"version": 1, "trust_remote_code": True},
        {"version": 1, "trust_remote_code": [HUB_ID]},
    ]


@every_age
def test_the_first_version_that_loads_is_taken(tmp_path: Path, age: Callable[[Hub], ModuleType]) -> None:
    """And what was passed over is told."""
    kernels: dict[tuple[str, int], Path | Exception] = {
        (HUB_ID, 1): NO_BUILD,
        (HUB_ID, 2): lay_out(tmp_path / "two", FLASH_2, version=2, build="torch213-cpu-x86_64-linux"),
    }

    origin = bound(over(age(Hub(kernels)))).origin

    assert isinstance(origin, HubOrigin)
    assert (origin.source, origin.version, origin.build) == (HUB_ID, "2", "torch213-cpu-x86_64-linux")
    assert origin.revision == (None if age is before_trust else "commit-of-v2")
    assert [attempt.version for attempt in origin.passed_over] == [1]
    assert str(origin).startswith(f"`{HUB_ID}` version 2, ")


def test_verdicts_of_the_library(tmp_path: Path) -> None:
    """Those of the version that was taken, and of one that has no build for this machine."""
    fits, too_new = Variant("torch213-cpu"), Variant("torch214-cpu")
    reason = "Torch version (2.14) does not match environment Torch version (2.13)"
    decisions: dict[int, list[Accepted | Rejected]] = {
        1: [Rejected(too_new, reason)],
        2: [Accepted(fits), Rejected(too_new, reason)],
    }
    kernels: dict[tuple[str, int], Path | Exception] = {
        (HUB_ID, 1): NO_BUILD,
        (HUB_ID, 2): lay_out(tmp_path, FLASH_2),
    }

    origin = bound(over(newest(Hub(kernels, decisions)))).origin

    assert isinstance(origin, HubOrigin)
    assert origin.verdicts == (Verdict("torch213-cpu", None), Verdict("torch214-cpu", reason))
    assert [str(verdict) for verdict in origin.verdicts] == ["torch213-cpu fits", f"torch214-cpu rejected: {reason}"]
    told = f"FileNotFoundError: Cannot find a build variant for this system in {HUB_ID} (revision: c1)"
    assert origin.passed_over == (Attempt(1, told, (Verdict("torch214-cpu", reason),)),)


@every_age
def test_when_no_version_loads(age: Callable[[Hub], ModuleType]) -> None:
    """Every reason is told, with the library's own lines where it has no verdicts, and the last error is the cause."""
    error = refusal(over(age(Hub({(HUB_ID, 1): NO_BUILD}))))

    assert str(error) == (
        f"`FLASH_ATTN_HUB`: wanted version 1 or 2 of `{HUB_ID}`, got version 1: FileNotFoundError: "
        f"Cannot find a build variant for this system in {HUB_ID} (revision: c1):; and a table; "
        "version 2: ValueError: Version 2 not found, available versions: 9"
    )
    assert isinstance(error.__cause__, ValueError)


def test_verdicts_explain_a_refusal() -> None:
    """In the place of the table in the error's own text."""
    decisions: dict[int, list[Accepted | Rejected]] = {1: [Rejected(Variant("torch29-cu126"), "CUDA version (12.6)")]}

    error = refusal(over(newest(Hub({(HUB_ID, 1): NO_BUILD}, decisions)), versions=(1,)))

    assert str(error).endswith("(revision: c1); torch29-cu126 rejected: CUDA version (12.6)")


def test_only_named_publishers_are_loaded() -> None:
    """Whatever a library would allow; it is not even asked."""
    nothing = Hub({})

    error = refusal(over(newest(nothing), "someone/flash-attn2"))

    wanted = "`FLASH_ATTN_HUB`: wanted a repository of kernels-community, got `someone/flash-attn2`"
    assert (str(error), nothing.asked) == (wanted, [])


@pytest.mark.parametrize(
    "broken", [ModuleNotFoundError("No module named 'kernels'", name="kernels"), OSError("libssl.so")]
)
def test_without_the_library(broken: Exception) -> None:
    """Its own error is the cause."""

    def importer(_: str) -> ModuleType:
        raise broken

    error = refusal(replace(over(types.ModuleType("kernels")), importer=importer))

    wanted = f"`FLASH_ATTN_HUB`: wanted the package `kernels`, got {type(broken).__name__}: {broken}"
    assert str(error) == wanted
    assert error.__cause__ is broken


def test_limits_come_before_the_library() -> None:
    """Nothing is downloaded for a layer that no build could run."""
    nothing = Hub({})
    backend = over(newest(nothing))

    said = [
        str(refusal(backend, replace(SIZES.geometry, provider="fa2"))),
        str(refusal(backend, replace(SIZES.geometry, dtype="float32"))),
    ]

    assert said == [
        "`provider` of `FLASH_ATTN_HUB`: wanted none, got fa2",
        "`dtype` of `FLASH_ATTN_HUB`: wanted float16 or bfloat16, got float32",
    ]
    assert nothing.asked == []


def test_a_kernel_without_the_functions(tmp_path: Path) -> None:
    """Is refused with its repository and version."""
    home = lay_out(tmp_path, FLASH_2) / "build" / "torch-cpu" / "__init__.py"
    home.write_text("def flash_attn_func(q, k, v, softmax_scale=None): ...\n")

    error = refusal(over(newest(Hub({(HUB_ID, 1): tmp_path}))))

    message = (
        f"`FLASH_ATTN_HUB`: wanted `flash_attn_func` of `{HUB_ID}` version 1, revision commit-of-v1, build torch-cpu"
    )
    assert str(error) == message + " to take `causal`, `window_size`, got (q, k, v, softmax_scale)"


@every_age
def test_local_kernels_are_heeded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age: Callable[[Hub], ModuleType]
) -> None:
    """As the library heeds them: a folder stands for the repository, and a change of the variable counts."""
    library_hub = Hub({(HUB_ID, 1): lay_out(tmp_path / "hub", FLASH_2, build="torch-universal")})
    backend = over(age(library_hub))
    first = bound(backend).origin

    monkeypatch.setenv("LOCAL_KERNELS", f"{HUB_ID}={lay_out(tmp_path / 'local', FLASH_2)}")
    second = bound(backend).origin

    assert isinstance(first, HubOrigin)
    assert isinstance(second, HubOrigin)
    assert [first.build, second.build] == ["torch-universal", "torch-cpu"]
    assert second.revision is None


def test_a_kernel_is_loaded_once(tmp_path: Path) -> None:
    """For all layers of a process."""
    library_hub = Hub({(HUB_ID, 1): lay_out(tmp_path, FLASH_2)})
    backend = over(newest(library_hub))

    for _ in range(3):
        bound(backend)

    assert len(library_hub.asked) == 1


@pytest.mark.parametrize("module", [FLASH_2, FLASH_3])
@pytest.mark.parametrize("causal", [False, True])
def test_output_is_that_of_the_kernel_called_directly(tmp_path: Path, module: str, *, causal: bool) -> None:
    """To the bit, with or without a scale."""
    library_hub = Hub({(HUB_ID, 1): lay_out(tmp_path, module)})
    kernel, (q, k, v) = bound(over(newest(library_hub))), SIZES.qkv()
    direct = library_hub.loaded[0].module.flash_attn_func

    for scale in (None, 0.3):
        out = kernel(q, k, v, causal="bottom_right" if causal else None, scale=scale)
        assert torch.equal(out, direct(q, k, v, softmax_scale=scale, causal=causal))


@pytest.mark.parametrize("kind", MASKS)
def test_the_masks_of_flash_attn(tmp_path: Path, kind: str) -> None:
    """The same are honoured, the same refused, under this backend's name."""
    kernel = bound(over(newest(Hub({(HUB_ID, 1): lay_out(tmp_path, FLASH_3)}))))
    (q, k, v), mask = SIZES.qkv(), MASKS[kind](SIZES)

    if isinstance(mask, (masks.BooleanPerQuery, masks.Additive)):
        with pytest.raises(CallRefused, match=re.escape("`mask` of `FLASH_ATTN_HUB`: wanted one of ")):
            kernel(q, k, v, mask=mask)
    else:
        expected = attention(q, k, v, mask=mask)
        torch.testing.assert_close(kernel(q, k, v, mask=mask).double(), expected, rtol=0, atol=2e-2)
