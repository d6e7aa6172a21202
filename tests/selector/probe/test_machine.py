from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from selector.probe import UNKNOWN, read_machine
from selector.probe.gpus import Driver, Gpu
from selector.probe.process import Finished
from tests.selector.probe.machines import Entry, Machine

ROOT = Path(__file__).parents[3]
GIB = 1024**3
B200 = Gpu("NVIDIA B200", "sm_100", 180 * GIB, "GPU-a")
RTX = Gpu("NVIDIA RTX PRO 6000", "sm_120", 96 * GIB, "GPU-b")
MIXED = Driver("580.95.05", (B200, RTX))
TWO_B200 = Driver("580.95.05", (B200, Gpu("NVIDIA B200", "sm_100", 180 * GIB, "GPU-c")))
NO_GPU = "no NVIDIA GPU found: NVML: NVML Shared Library Not Found; nvidia-smi: "
NO_COMMAND = NO_GPU + "cannot be started: No such file or directory"
ORDER_IS_OPEN = "the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA may number them in another order"
NODES = "/sys/class/kfd/kfd/topology/nodes"
MI300 = {
    f"{NODES}/0/properties": "cpu_cores_count 96\nsimd_count 0\ngfx_target_version 0\n",
    f"{NODES}/10/properties": "simd_count 304\ngfx_target_version 90500\nunique_id 255\nname odd value\n",
    f"{NODES}/10/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {288 * GIB}\n",
    f"{NODES}/9/properties": "simd_count 304\ngfx_target_version 90402\nunique_id 171\n",
    f"{NODES}/9/mem_banks/0/properties": f"heap_type 1\nsize_in_bytes {192 * GIB}\n",
    f"{NODES}/9/mem_banks/1/properties": "heap_type 4\nsize_in_bytes 65536\n",
    f"{NODES}/readme": "",
}


def test_a_mixed_host_lists_every_gpu_with_its_own_facts() -> None:
    """Different GPUs are several entries, and that CUDA may number them otherwise is said."""
    machine = Machine(
        driver=MIXED,
        installed={"torch": "2.13.0", "nvidia-cudnn-cu13": "9.19.0.56", "flashinfer-python": "0.6.18"},
    )
    entries = [Entry("flashinfer", ("flashinfer-python",)), Entry("flash-attn", ("flash-attn",))]

    facts = read_machine(entries, system=machine.system())

    assert facts == {
        "platform": "cuda",
        "driver": "580.95.05",
        "torch": "2.13.0",
        "cudnn": 91900,
        "packages": {"flashinfer": "0.6.18", "flash-attn": None},
        "devices": [
            {"index": 0, "name": "NVIDIA B200", "arch": "sm_100", "memory": 180 * GIB},
            {"index": 1, "name": "NVIDIA RTX PRO 6000", "arch": "sm_120", "memory": 96 * GIB},
        ],
        "notes": [ORDER_IS_OPEN],
    }
    assert list(facts) == ["platform", "driver", "torch", "cudnn", "packages", "devices", "notes"]
    assert json.loads(json.dumps(facts)) == facts
    assert yaml.safe_load(yaml.safe_dump(facts)) == facts


@pytest.mark.parametrize(
    ("variables", "archs", "notes"),
    [
        ({}, ["sm_100", "sm_120"], [ORDER_IS_OPEN]),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, ["sm_100", "sm_120"], []),
        ({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "1,0"}, ["sm_120", "sm_100"], []),
        ({"CUDA_VISIBLE_DEVICES": "GPU-b"}, ["sm_120"], [ORDER_IS_OPEN]),
        ({"CUDA_VISIBLE_DEVICES": ""}, [], ["CUDA_VISIBLE_DEVICES hides every NVIDIA GPU (2)", ORDER_IS_OPEN]),
    ],
)
def test_devices_are_what_a_process_sees(variables: dict[str, str], archs: list[str], notes: list[str]) -> None:
    """The index is the place among the visible GPUs; where all are hidden, the machine is a CPU with a driver."""
    facts = read_machine([], system=Machine(variables=variables, driver=MIXED).system())

    devices = facts["devices"]
    assert isinstance(devices, list)
    assert [device["arch"] for device in devices] == archs
    assert [device["index"] for device in devices] == list(range(len(archs)))
    assert facts.get("notes", []) == notes
    assert facts["platform"] == ("cuda" if archs else "cpu")
    assert facts["driver"] == "580.95.05"


def test_nvidia_smi_answers_where_nvml_does_not() -> None:
    """The fallback gives the same facts and no note."""
    smi = Finished(0, b"0, GPU-a, NVIDIA H100 80GB HBM3, 9.0, 81559, 550.54.15\n")

    facts = read_machine([], system=Machine(smi=smi).system())

    assert facts == {
        "platform": "cuda",
        "driver": "550.54.15",
        "torch": None,
        "packages": {},
        "devices": [{"index": 0, "name": "NVIDIA H100 80GB HBM3", "arch": "sm_90", "memory": 81559 * 1024**2}],
    }


@pytest.mark.parametrize(
    ("smi", "note"),
    [
        (Finished(None), "no answer within 10 s"),
        (Finished(0, b"\x00\xff"), "unreadable line: �"),
        (Finished(9, b"NVIDIA-SMI has failed\n"), "exit status 9, it said: NVIDIA-SMI has failed"),
    ],
)
def test_a_driver_tool_that_does_not_answer_leaves_the_driver_unknown(smi: Finished, note: str) -> None:
    """The platform falls to the CPU with the reason; that there is no driver is not claimed."""
    facts = read_machine([], system=Machine(smi=smi).system())

    assert facts == {
        "platform": "cpu",
        "torch": None,
        "cudnn": None,
        "packages": {},
        "devices": [],
        "notes": [NO_GPU + note],
    }


def test_a_machine_with_nothing_is_a_cpu() -> None:
    """Without a driver tool there is no driver, which is null."""
    facts = read_machine([], system=Machine().system())

    assert facts == {
        "platform": "cpu",
        "driver": None,
        "torch": None,
        "cudnn": None,
        "packages": {},
        "devices": [],
        "notes": [NO_COMMAND],
    }


def test_a_driver_without_gpus_is_a_cpu_with_a_driver() -> None:
    """NVML works in a container that was given no GPU."""
    facts = read_machine([], system=Machine(driver=Driver("580.95.05", ())).system())

    assert (facts["platform"], facts["driver"]) == ("cpu", "580.95.05")
    assert facts["notes"] == ["no NVIDIA GPU found: the driver lists none"]


def test_amd_gpus_are_read_from_the_compute_driver_s_files() -> None:
    """Nodes in order of their number, processors left out, the GPU's own memory summed; the driver is not read."""
    facts = read_machine([], system=Machine(files=MI300).system())

    assert facts == {
        "platform": "rocm",
        "torch": None,
        "cudnn": None,
        "packages": {},
        "devices": [
            {"index": 0, "name": "AMD gfx942", "arch": "gfx942", "memory": 192 * GIB},
            {"index": 1, "name": "AMD gfx950", "arch": "gfx950", "memory": 288 * GIB},
        ],
        "notes": [NO_COMMAND],
    }


@pytest.mark.parametrize(
    ("variables", "archs"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, ["gfx950"]),
        ({"CUDA_VISIBLE_DEVICES": "1"}, ["gfx950"]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, ["gfx942"]),
        ({"ROCR_VISIBLE_DEVICES": "1", "HIP_VISIBLE_DEVICES": "0"}, ["gfx950"]),
        ({"ROCR_VISIBLE_DEVICES": "GPU-ab"}, ["gfx942"]),
        ({"HIP_VISIBLE_DEVICES": "-1"}, []),
    ],
)
def test_amd_s_own_variables_choose_among_its_gpus(variables: dict[str, str], archs: list[str]) -> None:
    """The runtime's variable filters first, then HIP's, for which CUDA's stands in."""
    facts = read_machine([], system=Machine(variables=variables, files=MI300).system())

    devices = facts["devices"]
    assert isinstance(devices, list)
    assert [device["arch"] for device in devices] == archs
    assert facts["platform"] == ("rocm" if archs else "cpu")


@pytest.mark.parametrize(
    ("machine", "platform"),
    [
        (Machine(installed={"torch": "2.11.0+rocm6.4"}), "rocm"),
        (Machine(installed={"torch": "2.11.0+xpu"}), "xpu"),
        (Machine(installed={"torch": "2.11.0", "torch-npu": "2.11.0"}), "npu"),
        (Machine(files={"/dev/davinci_manager": ""}), "npu"),
        (Machine(installed={"torch-musa": UNKNOWN}), "musa"),
        (Machine(files={"/dev/mtgpu.0": ""}), "musa"),
        (Machine(installed={"torch": "2.13.0+cu130"}), "cpu"),
        (Machine(driver=MIXED, installed={"torch": "2.11.0+rocm6.4"}), "cuda"),
    ],
)
def test_other_platforms_are_told_by_what_is_installed(machine: Machine, platform: str) -> None:
    """A build of torch, an add-on of torch or a device file tells; an NVIDIA GPU comes before them."""
    facts = read_machine([], system=machine.system())

    assert facts["platform"] == platform
    assert facts["cudnn"] is None
    assert ("driver" in facts) == (platform in {"cuda", "cpu"})


@pytest.mark.parametrize(
    ("installed", "version", "notes"),
    [
        ({}, None, []),
        ({"fa3-fwd": "0.0.3"}, "0.0.3", []),
        ({"flash_attn_3": "3.0.0", "fa3-fwd": "0.0.3"}, "3.0.0", []),
        ({"flash_attn_3": UNKNOWN}, UNKNOWN, ["package fa3: the metadata of flash_attn_3 cannot be read"]),
        (
            {"flash_attn_3": UNKNOWN, "fa3-fwd": "0.0.3"},
            "0.0.3",
            ["package fa3: the metadata of flash_attn_3 cannot be read"],
        ),
        (
            {"fa3-fwd": "three\n"},
            UNKNOWN,
            ["package fa3: the metadata of fa3-fwd has a version that cannot be compared: three"],
        ),
        ({"flash-attn": "2.8.3"}, None, []),
    ],
)
def test_a_package_is_its_first_distribution_that_says_its_version(
    installed: dict[str, str], version: str | None, notes: list[str]
) -> None:
    """Absent is null; there with a version that cannot be told is `unknown`, with a note."""
    system = Machine(driver=TWO_B200, installed=installed).system()

    facts = read_machine([Entry("fa3", ("flash_attn_3", "fa3-fwd"))], system=system)

    assert facts["packages"] == {"fa3": version}
    assert facts.get("notes", []) == notes


def test_this_machine_is_read_without_importing_torch_and_without_a_home() -> None:
    """The real thing, in a process of its own: plain facts, no torch, no kernel package."""
    source = """
import json, os, sys
os.environ.pop("HOME", None)
from selector.probe import read_machine
class Entry:
    key, distributions, modules, symbols = "flashinfer", ("flashinfer-python",), ("flashinfer",), ()
facts = read_machine([Entry()])
assert not {"torch", "flashinfer"} & set(sys.modules), sorted(sys.modules)
print(json.dumps(facts))
"""
    command = (sys.executable, "-W", "error", "-c", source)

    finished = subprocess.run(
        command, check=False, capture_output=True, text=True, cwd=ROOT, env={"PATH": os.environ["PATH"]}
    )

    assert (finished.stderr, finished.returncode) == ("", 0)
    assert {"platform", "packages", "devices"} <= set(json.loads(finished.stdout))
