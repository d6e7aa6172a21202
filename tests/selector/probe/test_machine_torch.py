from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from selector.probe import UNKNOWN, System, read_machine
from selector.probe.gpus import Driver, Gpu
from tests.selector.probe.machines import Machine

ROOT = Path(__file__).parents[3]
B200 = Gpu("NVIDIA B200", "sm_100", 180 * 1024**3, "GPU-a")
ONE_B200 = Driver("580.95.05", (B200,))
AMD_NODE = "/sys/class/kfd/kfd/topology/nodes/1/properties"


@pytest.mark.parametrize(
    ("installed", "facts"),
    [
        pytest.param({"torch": "2.13.0", "nvidia-cudnn-cu13": "9.10.2.21"}, {"cudnn": 91002}, id="metadata"),
        pytest.param({"torch": "2.13.0+cpu"}, {"cudnn": None}, id="a CPU build has none"),
        pytest.param({"torch": "2.13.0+cpu", "nvidia-cudnn-cu13": "9.10.2.21"}, {"cudnn": None}, id="nor uses one"),
        pytest.param({"torch": "2.13.0"}, {}, id="torch may bundle it: not known"),
        pytest.param({"torch": "2.13.0", "nvidia-cudnn-cu13": UNKNOWN}, {}, id="metadata that cannot be read"),
        pytest.param({}, {}, id="no torch and no distribution"),
    ],
)
def test_cudnn_on_an_nvidia_machine(installed: dict[str, str], facts: dict[str, object]) -> None:
    """Null says that there is none; a key left out says that nobody knows."""
    read = read_machine([], system=Machine(driver=ONE_B200, installed=installed).system())

    assert {key: value for key, value in read.items() if key == "cudnn"} == facts


def test_a_torch_whose_metadata_cannot_be_read_is_left_out() -> None:
    """Its version is not known, and that it is absent is not claimed."""
    assert "torch" not in read_machine([], system=Machine(installed={"torch": UNKNOWN}).system())


def torch_module(version: str = "2.13.0+cu130", cudnn: int | None = 91900) -> ModuleType:
    """A stand-in for a torch that this process has imported."""
    torch = ModuleType("torch")
    on = {f"{name}_sdp_enabled": lambda: True for name in ("flash", "mem_efficient", "math")}
    library = {} if cudnn is None else {"_cudnn": SimpleNamespace(getVersionInt=lambda: cudnn)}
    parts: dict[str, object] = {
        "__version__": version,
        "version": SimpleNamespace(cuda="13.0", hip=None),
        "_C": SimpleNamespace(**library),
        "backends": SimpleNamespace(cuda=SimpleNamespace(**on, cudnn_sdp_enabled=lambda: False)),
        "nn": SimpleNamespace(attention=SimpleNamespace(current_flash_attention_impl=lambda: "FA4")),
        "are_deterministic_algorithms_enabled": lambda: False,
    }
    for name, part in parts.items():
        setattr(torch, name, part)
    return torch


SWITCHES = {
    "flash_sdp_enabled": True,
    "mem_efficient_sdp_enabled": True,
    "math_sdp_enabled": True,
    "cudnn_sdp_enabled": False,
    "flash_attention_impl": "FA4",
    "deterministic_algorithms": False,
}


def with_torch(torch: ModuleType, installed: str = "2.12.0") -> System:
    """A machine with this torch imported, and older metadata."""
    metadata = {"torch": installed, "nvidia-cudnn-cu13": "9.5.0.50"}
    return Machine(driver=ONE_B200, loaded={"torch": torch}, installed=metadata).system()


def test_a_torch_that_is_imported_already_speaks_for_itself() -> None:
    """Its own version, cuDNN and switches count before the metadata."""
    facts = read_machine([], system=with_torch(torch_module()))

    assert (facts["torch"], facts["cudnn"], facts["switches"]) == ("2.13.0+cu130", 91900, SWITCHES)
    assert read_machine([], system=with_torch(torch_module(cudnn=None)))["cudnn"] is None


def test_a_torch_that_is_only_half_imported_says_what_it_can() -> None:
    """What it cannot say yet comes from metadata, or is left out; nothing is raised."""
    torch = torch_module()
    del torch.nn, torch.backends, torch._C, torch.__version__

    facts = read_machine([], system=with_torch(torch))

    assert (facts["torch"], facts["cudnn"]) == ("2.12.0", 90500)
    assert facts["switches"] == {"deterministic_algorithms": False}
    assert "switches" not in read_machine([], system=with_torch(ModuleType("torch")))


def test_another_library_s_version_is_not_taken_for_cudnn() -> None:
    """On ROCm torch reports MIOpen's version under cuDNN's name."""
    torch = torch_module("2.11.0+rocm6.4", cudnn=3_004_000)
    vars(torch)["version"] = SimpleNamespace(cuda=None, hip="6.4")

    facts = read_machine(
        [], system=Machine(loaded={"torch": torch}, files={AMD_NODE: "gfx_target_version 90402\n"}).system()
    )

    assert (facts["platform"], facts["torch"], facts["cudnn"]) == ("rocm", "2.11.0+rocm6.4", None)


@pytest.mark.gpu
def test_reading_a_torch_that_is_imported_initialises_no_cuda() -> None:
    """A process may still fork after it was asked what it runs on."""
    facts = read_machine([])
    if facts["platform"] != "cuda" or facts.get("torch") is None:
        pytest.skip(str(facts.get("notes", "torch is not installed")))
    source = """
import torch
from selector.probe import read_machine
print(read_machine([])["cudnn"])
assert not torch.cuda.is_initialized()
print(torch.backends.cudnn.version())
"""
    command = (sys.executable, "-c", source)

    finished = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)

    ours, theirs = finished.stdout.split()
    assert ours == theirs
