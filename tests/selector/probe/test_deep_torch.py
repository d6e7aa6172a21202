from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from selector.probe import read_machine
from selector.probe.gpus import Driver, Gpu
from tests.selector.probe.machines import NO_TORCH, Machine, with_modules

SECONDS = 30.0


def fake_torch(devices: str = "[]", build: str = "cuda='13.0', hip=None") -> str:
    """The source of a torch that lists these devices."""
    return f"""
from types import SimpleNamespace as Namespace
__version__ = "2.13.0"
version = Namespace({build})
devices = {devices}
cuda = Namespace(device_count=lambda: len(devices), get_device_properties=devices.__getitem__)
_C = Namespace(_cudnn=Namespace(getVersionInt=lambda: 91900))
backends = Namespace(cuda=Namespace(cudnn_sdp_enabled=lambda: True))
print("noise")
"""


B200 = Gpu("NVIDIA B200", "sm_100", 1000, "GPU-a")
RTX = Gpu("NVIDIA RTX PRO 6000", "sm_120", 500, "GPU-b")
TORCH_RTX = "Namespace(name='NVIDIA RTX PRO 6000', major=12, minor=0, total_memory=499)"
TORCH_B200 = "Namespace(name='NVIDIA B200', major=10, minor=0, total_memory=999)"
ORDER_IS_OPEN = "the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA may number them in another order"


def read_with_torch(folder: Path, source: str, machine: Machine) -> dict[str, object]:
    """A deep probe of this machine, with a torch of this source in its path."""
    real = with_modules(folder, {"torch": source})
    system = replace(real, nvml=machine.system().nvml, version=machine.installed.get, loaded=machine.loaded.get)
    return read_machine([], deep=True, timeout=SECONDS, system=system)


def test_a_new_process_s_torch_tells_cudnn_switches_and_the_order_of_the_devices(tmp_path: Path) -> None:
    """The GPUs have torch's numbers; that settles what the driver's list leaves open."""
    machine = Machine(driver=Driver("580.95.05", (B200, RTX)), installed={"torch": "2.13.0"})

    facts = read_with_torch(tmp_path, fake_torch(f"[{TORCH_RTX}, {TORCH_B200}]"), machine)

    assert facts == {
        "platform": "cuda",
        "driver": "580.95.05",
        "torch": "2.13.0",
        "cudnn": 91900,
        "packages": {},
        "devices": [
            {"index": 0, "name": "NVIDIA RTX PRO 6000", "arch": "sm_120", "memory": 499},
            {"index": 1, "name": "NVIDIA B200", "arch": "sm_100", "memory": 999},
        ],
        "switches": {"cudnn_sdp_enabled": True},
    }


@pytest.mark.parametrize(
    ("listed", "build", "devices", "notes"),
    [
        (
            "[]",
            "cuda='13.0'",
            ["NVIDIA B200", "NVIDIA RTX PRO 6000"],
            [ORDER_IS_OPEN, "the driver lists sm_100, sm_120, torch (a build for cuda) lists no GPU"],
        ),
        (
            "[]",
            "",
            ["NVIDIA B200", "NVIDIA RTX PRO 6000"],
            [ORDER_IS_OPEN, "the driver lists sm_100, sm_120, torch (a build for cpu) lists no GPU"],
        ),
        (
            f"[{TORCH_B200}]",
            "cuda='13.0'",
            ["NVIDIA B200"],
            ["the driver lists sm_100, sm_120, torch (a build for cuda) lists sm_100"],
        ),
    ],
)
def test_a_difference_between_torch_and_the_driver_is_noted(
    tmp_path: Path, listed: str, build: str, devices: list[str], notes: list[str]
) -> None:
    """Where torch sees no GPU the driver's list stands."""
    machine = Machine(driver=Driver("580.95.05", (B200, RTX)), installed={"torch": "2.13.0"})

    facts = read_with_torch(tmp_path, fake_torch(listed, build), machine)

    found = facts["devices"]
    assert isinstance(found, list)
    assert [device["name"] for device in found] == devices
    assert facts["notes"] == notes
    assert facts["cudnn"] == (91900 if build else None)


def test_torch_names_a_gpu_that_no_driver_tool_could(tmp_path: Path) -> None:
    """A board without NVML is still a CUDA machine."""
    facts = read_with_torch(tmp_path, fake_torch(f"[{TORCH_B200}]"), Machine(installed={"torch": "2.13.0"}))

    assert facts["platform"] == "cuda"
    assert facts["devices"] == [{"index": 0, "name": "NVIDIA B200", "arch": "sm_100", "memory": 999}]


@pytest.mark.parametrize(
    ("source", "installed", "reason"),
    [
        (
            "raise OSError('libtorch_cuda.so: undefined symbol')",
            "2.13.0",
            "OSError: libtorch_cuda.so: undefined symbol",
        ),
        ("import os; os._exit(9)", "2.13.0", "ended the process with exit status 9"),
        (NO_TORCH, "2.13.0", "ModuleNotFoundError: No module named 'torch'"),
        (NO_TORCH, None, None),
    ],
)
def test_a_torch_that_cannot_be_imported_counts_as_absent(
    tmp_path: Path, source: str, installed: str | None, reason: str | None
) -> None:
    """Its reason stands with those of the packages; a torch that nobody installed needs none."""
    machine = Machine(installed={} if installed is None else {"torch": installed})

    facts = read_with_torch(tmp_path, source, machine)

    assert facts["torch"] is None
    assert facts.get("unusable") == (None if reason is None else {"torch": reason})


def test_a_torch_without_devices_to_list_says_so(tmp_path: Path) -> None:
    """What the driver lists stands, and the reason is noted."""
    machine = Machine(driver=Driver("580.95.05", (B200,)), installed={"torch": "2.13.0"})

    facts = read_with_torch(tmp_path, fake_torch() + "del cuda", machine)

    assert facts["devices"] == [B200.as_facts(0)]
    assert facts["notes"] == ["torch cannot list its devices: AttributeError: module 'torch' has no attribute 'cuda'"]


def test_the_torch_of_this_process_counts_before_a_new_one(tmp_path: Path) -> None:
    """Switches are this process's own, and a torch that works here is not unusable."""
    loaded = ModuleType("torch")
    vars(loaded).update(__version__="2.12.0", are_deterministic_algorithms_enabled=lambda: True)
    machine = Machine(installed={"torch": "2.13.0"}, loaded={"torch": loaded})

    facts = read_with_torch(tmp_path, "raise OSError('gone')", machine)

    assert (facts["torch"], facts["switches"]) == ("2.12.0", {"deterministic_algorithms": True})
    assert "unusable" not in facts
    notes = facts["notes"]
    assert isinstance(notes, list)
    assert notes[-1] == "torch is imported here, but not by a new process: OSError: gone"
