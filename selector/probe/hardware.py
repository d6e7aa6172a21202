"""Which platform this machine is, and its devices, without importing torch or initialising a device."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from selector.probe.amd import find_amd
from selector.probe.gpus import Driver, Gpu, ProbeError, may_be_renumbered, visible_gpus
from selector.probe.smi import NoCommandError, read_smi
from selector.probe.system import System
from selector.probe.torch_state import TorchState

_ADD_ONS: Final = {"npu": "torch-npu", "musa": "torch-musa"}
_DEVICE_FILES: Final = {"npu": "/dev/davinci_manager", "musa": "/dev/mtgpu.0"}
_RENUMBERED: Final = "the GPUs differ and CUDA_DEVICE_ORDER is not PCI_BUS_ID: CUDA may number them in another order"


@dataclass(frozen=True, slots=True)
class Hardware:
    """The platform, its devices as entries of the facts, and what of the driver is known.

    `driver` is an entry of the facts, or empty where nothing was found out about one. `origin` and `devices_origin` say
    where platform and devices come from, in the words of `selector.origins`.
    """

    platform: str
    devices: tuple[Mapping[str, object], ...]
    driver: Mapping[str, object]
    notes: tuple[str, ...]
    origin: str = "device query"
    devices_origin: str = "device query"


def find_hardware(system: System, torch: TorchState) -> Hardware:
    """An NVIDIA GPU that this process may see makes the platform `cuda`; then others are asked for, `cpu` last.

    What torch was built for, where that is known, decides where no device can be listed.
    """
    nvidia = _find_nvidia(system)
    if nvidia.devices:
        return nvidia
    if amd := find_amd(system):
        return Hardware("rocm", _entries(amd), {}, nvidia.notes)
    platform, origin = _platform_by_software(system, torch)
    return replace(nvidia, platform=platform, driver=nvidia.driver if platform == "cpu" else {}, origin=origin)


def _find_nvidia(system: System) -> Hardware:
    try:
        return _leave_visible(system, system.nvml())
    except ProbeError as error:
        nvml = error
    try:
        return _leave_visible(system, read_smi(system))
    except ProbeError as smi:
        driver: dict[str, object] = {"driver": None} if isinstance(smi, NoCommandError) else {}
        return Hardware("cpu", (), driver, (f"no NVIDIA GPU found: NVML: {nvml}; nvidia-smi: {smi}",))


def _leave_visible(system: System, driver: Driver) -> Hardware:
    variables = system.variables()
    gpus = visible_gpus(driver.gpus, variables.get("CUDA_VISIBLE_DEVICES"))
    notes = []
    if not driver.gpus:
        notes.append("no NVIDIA GPU found: the driver lists none")
    elif not gpus:
        notes.append(f"CUDA_VISIBLE_DEVICES hides every NVIDIA GPU ({len(driver.gpus)})")
    if may_be_renumbered(driver.gpus, variables):
        notes.append(_RENUMBERED)
    return Hardware("cuda" if gpus else "cpu", _entries(gpus), {"driver": driver.version}, tuple(notes))


def _entries(gpus: Iterable[Gpu]) -> tuple[dict[str, object], ...]:
    return tuple(gpu.as_facts(index) for index, gpu in enumerate(gpus))


def _platform_by_software(system: System, torch: TorchState) -> tuple[str, str]:
    if torch.build is not None and torch.build in {"rocm", "xpu"}:
        return torch.build, torch.origin("build")
    for platform, distribution in _ADD_ONS.items():
        if system.exists(_DEVICE_FILES[platform]):
            return platform, "device query"
        if system.version(distribution) is not None:
            return platform, "package metadata"
    return "cpu", "device query"


def as_torch_sees(hardware: Hardware, torch: TorchState) -> Hardware:
    """The same machine with the devices that torch lists, where it was asked and lists any; a difference is noted.

    torch's list settles the numbers of the devices, and names GPUs that no driver tool here could.
    """
    if torch.devices is None or torch.build is None:
        return hardware
    by_driver, by_torch = _kinds(hardware.devices), _kinds(torch.devices)
    notes = [note for note in hardware.notes if not torch.devices or note != _RENUMBERED]
    if hardware.devices and by_driver != by_torch:
        notes.append(f"the driver lists {by_driver}, torch (a build for {torch.build}) lists {by_torch}")
    if not torch.devices:
        return replace(hardware, notes=tuple(notes))
    seen = replace(hardware, platform=torch.build, devices=torch.devices, notes=tuple(notes))
    return replace(seen, origin="deep probe", devices_origin="deep probe")


def _kinds(devices: Iterable[Mapping[str, object]]) -> str:
    return ", ".join(sorted(str(device.get("arch", "a GPU of unknown kind")) for device in devices)) or "no GPU"
