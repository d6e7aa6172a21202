"""What is known of torch, from whichever source may be asked: this process, a subprocess, or metadata."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from selector.probe.child import describe_torch
from selector.probe.system import UNKNOWN, System
from selector.probe.versions import build_of


@dataclass(frozen=True, slots=True)
class TorchState:
    """What is known of torch.

    `version` and `cudnn` are entries of the facts, empty where they could not be found out. `build` is `cuda`,
    `rocm`, `xpu`, `cpu`, or None while that is open. `devices` are torch's own list, None when it was not asked.
    `unusable` is why the installed torch cannot be imported, or None. `told` says of what torch itself told whether it
    was this process's or that of a deep probe.
    """

    version: Mapping[str, object]
    build: str | None
    cudnn: Mapping[str, object]
    switches: Mapping[str, object]
    devices: tuple[Mapping[str, object], ...] | None
    unusable: str | None
    notes: tuple[str, ...]
    told: Mapping[str, str]

    def origin(self, name: str) -> str:
        """Where the build or cuDNN is known from."""
        return self.told.get(name, "package metadata")


def read_torch(system: System, fresh: Mapping[str, object]) -> TorchState:
    """Join the sources: a torch that this process has imported speaks first, then `fresh`, then metadata.

    `fresh` is the report of a subprocess (`child.report_torch`), empty when none was asked.
    """
    loaded = system.loaded("torch")
    here = {} if loaded is None else describe_torch(loaded)
    known = {**fresh, **here}
    installed = system.version("torch")
    build, switches, devices = known.get("build"), known.get("switches"), known.get("devices")
    unusable = _unusable(known, installed)
    return TorchState(
        version={"torch": None} if unusable else _version(known, installed),
        build=build if isinstance(build, str) else build_of(installed),
        cudnn={"cudnn": known["cudnn"]} if "cudnn" in known else {},
        switches=switches if isinstance(switches, dict) else {},
        devices=tuple(devices) if isinstance(devices, list) else None,
        unusable=unusable,
        notes=tuple(_notes(fresh, loaded is not None)),
        told={name: "torch" if name in here else "deep probe" for name in known},
    )


def _version(known: Mapping[str, object], installed: str | None) -> dict[str, object]:
    if "version" in known:
        return {"torch": known["version"]}
    return {} if installed == UNKNOWN else {"torch": installed}


def _unusable(known: Mapping[str, object], installed: str | None) -> str | None:
    failure = known.get("failure")
    absent = installed is None and known.get("missing")
    return None if failure is None or absent or "version" in known else str(failure)


def _notes(fresh: Mapping[str, object], loaded: bool) -> Iterator[str]:  # noqa: FBT001 - private, called once
    if "untried" in fresh:
        yield f"torch was not imported: {fresh['untried']}"
    if "devices_failure" in fresh:
        yield f"torch cannot list its devices: {fresh['devices_failure']}"
    if "failure" in fresh and loaded:
        yield f"torch is imported here, but not by a new process: {fresh['failure']}"
