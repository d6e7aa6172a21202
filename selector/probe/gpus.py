"""A GPU as a driver lists it, and which of them a process may use."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

_NUMBER: Final = re.compile(r"\s*([0-9]{1,6})(?![0-9])")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU. None stands for what the driver could not say; `memory` is in bytes.

    `instances` are the UUIDs of its MIG instances, where they are known.
    """

    name: str
    arch: str | None
    memory: int | None
    uuid: str
    instances: tuple[str, ...] = ()

    def as_facts(self, index: int) -> dict[str, object]:
        """The device's entry in a facts file, without what is not known."""
        known = {"arch": self.arch, "memory": self.memory}
        return {"index": index, "name": self.name} | {key: value for key, value in known.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Driver:
    """The NVIDIA driver's version and its GPUs in its own order, that of the PCI bus."""

    version: str
    gpus: tuple[Gpu, ...]


class ProbeError(Exception):
    """A source has no answer; the message is one line that says why."""


def visible_gpus(gpus: Sequence[Gpu], chosen: str | None) -> list[Gpu]:
    """The GPUs that `CUDA_VISIBLE_DEVICES` (or a variable of its kind) leaves, in the order it names them.

    As in CUDA: not set means all, an entry that names no GPU hides itself and everything after it, and a GPU named
    twice hides everything. An entry is an index, a UUID or the start of one that is unique; a MIG instance stands for
    its parent GPU.
    """
    if chosen is None:
        return list(gpus)
    places: list[int] = []
    seen: set[object] = set()
    for entry in chosen.split(","):
        place = _place(gpus, entry.strip())
        if place is None:
            break
        # Two instances of one parent are two devices; one GPU named twice, in any spelling, is an error.
        identity = entry.strip() if entry.strip().startswith("MIG-") else place
        if identity in seen:
            return []
        seen.add(identity)
        places.append(place)
    return [gpus[place] for place in places]


def _place(gpus: Sequence[Gpu], entry: str) -> int | None:
    if number := _NUMBER.match(entry):
        place = int(number[1])
        return place if place < len(gpus) else None
    if entry.startswith("MIG-"):
        return _parent(gpus, entry)
    starts = [place for place, gpu in enumerate(gpus) if entry.startswith("GPU-") and gpu.uuid.startswith(entry)]
    return starts[0] if len(starts) == 1 else None


def _parent(gpus: Sequence[Gpu], entry: str) -> int | None:
    # The older form is MIG-<the parent's UUID>/<GPU instance>/<compute instance>.
    named = entry.removeprefix("MIG-").partition("/")[0]
    for place, gpu in enumerate(gpus):
        if named == gpu.uuid or any(instance.startswith(entry) for instance in gpu.instances):
            return place
    # Without a list of the instances the parent does not matter as long as all GPUs are of one kind.
    listed = any(gpu.instances for gpu in gpus)
    alike = len({(gpu.name, gpu.arch) for gpu in gpus}) == 1
    return 0 if alike and not listed else None


def may_be_renumbered(gpus: Sequence[Gpu], variables: Mapping[str, str]) -> bool:
    """Whether CUDA may number these GPUs otherwise than the driver: they differ, and the order was not asked for."""
    return len({gpu.arch for gpu in gpus}) > 1 and variables.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID"
