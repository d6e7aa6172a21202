"""Put together what the probe finds out about this machine, in the form of a facts file.

`platform`, `packages` and `devices` are always there. `driver`, `torch` and `cudnn` are null when there is none, and
left out when that could not be found out; so are a device's `arch` and `memory` (bytes).

- A package is its version, null when absent, `unknown` when it is there and its version cannot be told.
- A device's `index` is the number that a process sees (`cuda:0` is 0): `CUDA_VISIBLE_DEVICES` has been applied. A MIG
  instance is listed as its parent GPU.
- `switches` are torch's own, there when torch had been imported already and in a deep probe.
- `unusable` says in a deep probe why an import failed. Such a package is null, as if absent, and so is such a torch.
- `notes`, where there are any, say one line each what could not be found out, and why.

In a deep probe torch's own list of the devices counts, where it lists any.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from selector.probe.deep import NOT_DEEP, import_all
from selector.probe.hardware import Hardware, as_torch_sees, find_hardware
from selector.probe.packages import PackageEntry, Packages, after_trials, read_packages
from selector.probe.system import THIS_SYSTEM, System
from selector.probe.torch_state import TorchState, read_torch
from selector.probe.versions import cudnn_from_metadata

DEEP_SECONDS: Final = 60.0


def read_machine(
    packages: Sequence[PackageEntry],
    *,
    deep: bool = False,
    timeout: float = DEEP_SECONDS,
    system: System = THIS_SYSTEM,
) -> dict[str, object]:
    """This machine's facts as the module describes them, plain values that JSON and YAML can hold.

    Neither torch nor a kernel package is imported here, and CUDA is not initialised. With `deep`, torch and each
    package that is present are imported in subprocesses of at most `timeout` seconds each, two at a time.
    """
    installed = read_packages(system, packages)
    present = [entry for entry in packages if installed.versions[entry.key] is not None]
    symbols = {entry.key: entry.symbols or entry.modules for entry in present}
    report = import_all(system, symbols, timeout) if deep else NOT_DEEP
    torch = read_torch(system, report.torch)
    hardware = as_torch_sees(find_hardware(system, torch.build), torch)
    tried = after_trials(installed, report.trials)
    return {
        "platform": hardware.platform,
        **hardware.driver,
        **torch.version,
        **_cudnn(system, hardware.platform, torch),
        "packages": dict(tried.versions),
        "devices": [dict(device) for device in hardware.devices],
        **_where_any(hardware, torch, tried),
    }


def _where_any(hardware: Hardware, torch: TorchState, packages: Packages) -> dict[str, object]:
    parts: dict[str, Mapping[str, object] | list[str]] = {
        "switches": dict(torch.switches),
        "unusable": packages.unusable | ({"torch": torch.unusable} if torch.unusable else {}),
        "notes": [*packages.notes, *hardware.notes, *torch.notes],
    }
    return {name: part for name, part in parts.items() if part}


def _cudnn(system: System, platform: str, torch: TorchState) -> Mapping[str, object]:
    # torch reports another library's version under cuDNN's name elsewhere (MIOpen's on ROCm).
    if platform != "cuda" or torch.build not in {"cuda", None}:
        return {"cudnn": None}
    return torch.cudnn or cudnn_from_metadata(system)
