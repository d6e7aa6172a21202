"""`FLASH_ATTN_3_HUB` on a real GPU, from a folder of one's own that holds FlashAttention 3's library."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import pytest
import torch

from backends import hub
from backends._flash_providers import Packages, installed_version
from backends.interface import BindError, Causal, Kernel
from tests.backends.cases import ALIGNMENTS, MASKS, Sizes
from tests.gpu.conftest import cuda_reason
from tests.gpu.local_kernel import ARCHS, MODULE, REPOSITORY, lay_out
from tests.gpu.test_flash_attn import agrees

if TYPE_CHECKING:
    from pathlib import Path

SIZES = Sizes(seq_q=40, seq_kv=99, head_dim=128, dtype=torch.bfloat16, device="cuda:0")


def reason() -> str | None:
    """Why no test of this file can run here, or None where one can."""
    if cuda_reason() is not None:
        return cuda_reason()
    if installed_version("kernels") is None:
        return "the package `kernels` is not installed"
    try:
        Packages().importer(MODULE)
    except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to test
        return f"`{MODULE}` cannot be imported: {type(error).__name__}: {error}"
    major, minor = torch.cuda.get_device_capability()
    return None if f"{major}.{minor}a" in ARCHS else f"wanted a GPU of {', '.join(ARCHS)}, got {major}.{minor}"


REASON = reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that stands for the repository."""
    made = lay_out(tmp_path / "kernel")
    monkeypatch.setenv("LOCAL_KERNELS", f"{REPOSITORY}={made}")
    return made


def bind(sizes: Sizes = SIZES) -> Kernel:
    """The kernel of the folder."""
    return hub.FLASH_ATTN_3.bind({}, sizes.geometry)


@pytest.mark.parametrize("causal", [None, "bottom_right"])
@pytest.mark.parametrize("kv_heads", [4, 1])
def test_output_is_that_of_the_kernel_called_directly(folder: Path, kv_heads: int, causal: Causal | None) -> None:
    """To the bit."""
    sizes = replace(SIZES, kv_heads=kv_heads)
    kernels = pytest.importorskip("kernels")
    direct = kernels.get_kernel(REPOSITORY, version=1).flash_attn_func
    q, k, v = sizes.qkv()

    out = bind(sizes)(q, k, v, causal=causal)

    assert torch.equal(out, direct(q, k, v, causal=causal is not None))


def test_origin(folder: Path) -> None:
    """Repository, version and build."""
    (build,) = (folder / "build").iterdir()

    assert str(getattr(bind(), "origin", "")) == f"`{REPOSITORY}` version 1, build {build.name}"


@pytest.mark.parametrize("head_dim", [64, 72, 128, 256])
def test_every_kind_agrees_with_the_oracle(folder: Path, head_dim: int) -> None:
    """In both alignments, for fewer queries than keys and for more, or refused as the call table says."""
    base = replace(SIZES, head_dim=head_dim, kv_heads=2)
    kernel, wrong = bind(base), []

    for (seq_q, seq_kv), kind, causal in product([(72, 72), (40, 99), (99, 40)], MASKS, ALIGNMENTS):
        if not agrees(kernel, replace(base, seq_q=seq_q, seq_kv=seq_kv), kind, causal):
            wrong.append((kind, causal, seq_q, seq_kv))

    assert not wrong


def test_a_build_for_another_gpu_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the library, whose reason is ours, where its version looks at that."""
    monkeypatch.setenv("LOCAL_KERNELS", f"{REPOSITORY}={lay_out(tmp_path / 'other', archs=['12.0a'])}")
    kernels = pytest.importorskip("kernels")
    if not hasattr(kernels, "get_kernel_dep"):
        pytest.skip("this version of `kernels` does not look at the GPU of a local build")

    with pytest.raises(BindError, match=r"not supported by the architectures of the build: 12\.0a"):
        bind()
