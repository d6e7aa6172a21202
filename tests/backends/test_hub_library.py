"""The backends over the hub with the real `kernels` library, where it is installed, and a kernel folder on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch
from packaging.version import Version

from backends._flash import Family, FlashKernel
from backends._flash_providers import installed_version
from backends._hub_library import HubOrigin
from backends.hub import FlashHub
from backends.reference import attention
from selector import Attention, Selector
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes import flash2
from tests.backends.fakes.hub_folder import HUB_ID, lay_out

if TYPE_CHECKING:
    from types import ModuleType

VERSION = installed_version("kernels")
HEEDS_LOCAL = VERSION is not None and Version(VERSION) >= Version("0.13")
pytestmark = pytest.mark.skipif(not HEEDS_LOCAL, reason=f"wanted the package `kernels` 0.13 or newer, got {VERSION}")
SIZES = Sizes(dtype=torch.bfloat16)
ROOT = Path(__file__).parents[2]
BACKEND = FlashHub(Family("FLASH_ATTN_HUB", device="cpu"), HUB_ID, (1, 2), "hub_fa2")


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The library, and a folder that stands for the repository."""
    monkeypatch.setenv("LOCAL_KERNELS", f"{HUB_ID}={lay_out(tmp_path, flash2.__name__)}")
    library: ModuleType = pytest.importorskip("kernels")
    return library


def bound() -> FlashKernel:
    """Over whatever the environment says."""
    kernel = BACKEND.bind({}, SIZES.geometry)
    assert isinstance(kernel, FlashKernel)
    return kernel


def test_a_local_kernel_is_what_the_library_gives(kernels: ModuleType) -> None:
    """Its output to the bit, its build by name."""
    kernel, (q, k, v) = bound(), SIZES.qkv()
    direct = kernels.get_kernel(HUB_ID, version=1).flash_attn_func

    assert torch.equal(kernel(q, k, v, scale=0.3), direct(q, k, v, softmax_scale=0.3, causal=False))
    assert kernel.origin == HubOrigin(HUB_ID, "1", None, "torch-cpu", (), ())
    assert str(kernel.origin) == f"`{HUB_ID}` version 1, build torch-cpu"


@pytest.mark.parametrize("kind", ["nothing", "suffix", "key padding", "block diagonal"])
def test_a_local_kernel_under_masks(kernels: ModuleType, kind: str) -> None:
    """As any build of `FLASH_ATTN`."""
    (q, k, v), mask = SIZES.qkv(), MASKS[kind](SIZES)

    out = bound()(q, k, v, mask=mask)

    torch.testing.assert_close(out.double(), attention(q, k, v, mask=mask), rtol=0, atol=2e-2)


BIND = """
import sys
from tests.backends.test_hub_library import bound
try:
    print(repr(bound().origin))
except Exception as error:
    print(type(error).__name__, error)
"""


def offline(**variables: str) -> str:
    """What binding prints in a process of its own, without the network."""
    environment = {name: value for name, value in os.environ.items() if name != "LOCAL_KERNELS"}
    environment |= {"HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT), **variables}
    ran = subprocess.run(
        [sys.executable, "-c", BIND], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    return ran.stdout.strip()


@pytest.mark.slow
def test_offline_without_a_cache(tmp_path: Path) -> None:
    """The library's own words are in the refusal, for each version that was asked for."""
    said = offline(HF_HOME=str(tmp_path))

    assert said.startswith(f"BindError `FLASH_ATTN_HUB`: wanted version 1 or 2 of `{HUB_ID}`, got version 1: ")
    assert f"Version 2 of '{HUB_ID}' is not available in the local cache" in said


@pytest.mark.slow
def test_offline_with_a_cache(tmp_path: Path) -> None:
    """What was downloaded before is loaded, without a question to the hub."""
    home = tmp_path / "hub" / f"kernels--{HUB_ID.replace('/', '--')}"
    lay_out(home / "snapshots" / ("c" * 40), flash2.__name__, version=2)
    (home / "refs").mkdir()
    (home / "refs" / "v2").write_text("c" * 40)

    said = offline(HF_HOME=str(tmp_path))

    assert said.startswith(f"HubOrigin(source={HUB_ID!r}, version='2', revision=None, build='torch-cpu', verdicts=(), ")
    assert "passed_over=(Attempt(version=1, " in said


@pytest.mark.slow
def test_offline_a_build_that_does_not_fit(tmp_path: Path) -> None:
    """The library's reason for each build is told."""
    home = tmp_path / "kernel"
    lay_out(home, flash2.__name__, build="torch29-cxx11-cu126-x86_64-linux")
    metadata = home / "build" / "torch29-cxx11-cu126-x86_64-linux" / "metadata.json"
    metadata.write_text(json.dumps(json.loads(metadata.read_text()) | {"backend": {"type": "cuda"}}))

    said = offline(HF_HOME=str(tmp_path), LOCAL_KERNELS=f"{HUB_ID}={home}")

    assert "torch29-cxx11-cu126-x86_64-linux: Torch version (2.9) does not match environment Torch version" in said


def test_a_decision_names_the_build_and_what_was_said_of_the_others(
    kernels: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repository, version and build, and each verdict of the library; a layer's report has both."""
    assert kernels.__name__ == "kernels"
    monkeypatch.setattr("backends.registry.load", lambda _name: BACKEND)
    facts = {"platform": "cuda", "arch": "sm_80", "packages": {"kernels": VERSION}}
    layer = Attention("self", selector=Selector(facts=facts, backend="FLASH_ATTN_HUB"))
    q, k, v = SIZES.qkv()

    layer(q, k, v)

    (ran,) = layer.report()
    assert ran.build is not None
    assert ran.build.startswith(f"`{HUB_ID}` version 1")
    assert "build torch" in ran.build
    origin = BACKEND.bind({}, SIZES.geometry).origin  # type: ignore[attr-defined]
    assert isinstance(origin, HubOrigin)
    assert ran.considered == tuple(map(str, origin.considered))
