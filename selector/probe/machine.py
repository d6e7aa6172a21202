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
from typing import Final, NamedTuple

from selector.probe.deep import NOT_DEEP, import_all
from selector.probe.hardware import Hardware, as_torch_sees, find_hardware
from selector.probe.packages import PackageEntry, Packages, after_trials, read_packages
from selector.probe.system import THIS_SYSTEM, System
from selector.probe.torch_state import TorchState, read_torch
from selector.probe.versions import cudnn_from_metadata
from selector.rules.vocabulary import PACKAGE_PREFIX

DEEP_SECONDS: Final = 60.0


class Probed(NamedTuple):
    """The facts of a machine, and for each that rules ask about what said so, in the words of `selector.origins`."""

    facts: dict[str, object]
    origins: dict[str, str]


def read_machine(
    packages: Sequence[PackageEntry],
    *,
    deep: bool = False,
    timeout: float = DEEP_SECONDS,
    system: System = THIS_SYSTEM,
) -> dict[str, object]:
    """This machine's facts as the module describes them, plain values that JSON and YAML can hold.

    It reads what `probe_machine` does.
    """
    return probe_machine(packages, deep=deep, timeout=timeout, system=system).facts


def probe_machine(
    packages: Sequence[PackageEntry],
    *,
    deep: bool = False,
    timeout: float = DEEP_SECONDS,
    system: System = THIS_SYSTEM,
) -> Probed:
    """This machine's facts as the module describes them, and where they come from.

    Neither torch nor a kernel package is imported here, and CUDA is not initialised. With `deep`, torch and each
    package that is present are imported in subprocesses of at most `timeout` seconds each, two at a time.
    """
    installed = read_packages(system, packages)
    present = [entry for entry in packages if installed.versions[entry.key] is not None]
    symbols = {entry.key: entry.symbols or entry.modules for entry in present}
    report = import_all(system, symbols, timeout) if deep else NOT_DEEP
    torch = read_torch(system, report.torch)
    hardware = as_torch_sees(find_hardware(system, torch), torch)
    tried = after_trials(installed, report.trials)
    cudnn, cudnn_origin = _cudnn(system, hardware.platform, torch)
    facts: dict[str, object] = {
        "platform": hardware.platform,
        **hardware.driver,
        **torch.version,
        **cudnn,
        "packages": dict(tried.versions),
        "devices": [dict(device) for device in hardware.devices],
        **_where_any(hardware, torch, tried),
    }
    origins = {"platform": hardware.origin, "arch": hardware.devices_origin, "cudnn": cudnn_origin}
    return Probed(facts, origins | {f"{PACKAGE_PREFIX}{key}": origin for key, origin in tried.origins().items()})


def _where_any(hardware: Hardware, torch: TorchState, packages: Packages) -> dict[str, object]:
    parts: dict[str, Mapping[str, object] | list[str]] = {
        "switches": dict(torch.switches),
        "unusable": packages.unusable | ({"torch": torch.unusable} if torch.unusable else {}),
        "notes": [*packages.notes, *hardware.notes, *torch.notes],
    }
    return {name: part for name, part in parts.items() if part}


def _cudnn(system: System, platform: str, torch: TorchState) -> tuple[Mapping[str, object], str]:
    """The entry of the facts, and where it comes from."""
    # torch reports another library's version under cuDNN's name elsewhere (MIOpen's on ROCm).
    if platform != "cuda":
        return {"cudnn": None}, "derived from platform"
    if torch.build not in {"cuda", None}:
        return {"cudnn": None}, torch.origin("build")
    return (torch.cudnn, torch.origin("cudnn")) if torch.cudnn else (cudnn_from_metadata(system), "package metadata")
