"""AMD GPUs as the kernel's compute driver lists them, in plain files."""

from collections.abc import Iterator, Mapping
from typing import Final

from selector.probe.gpus import Gpu, visible_gpus
from selector.probe.system import System

NODES: Final = "/sys/class/kfd/kfd/topology/nodes"
# The kinds of memory bank that are the GPU's own memory; the others are the host's, or caches.
_OWN_MEMORY: Final = frozenset({1, 2})


def find_amd(system: System) -> list[Gpu]:
    """The AMD GPUs that this process may use, by node number; empty where the driver is not loaded."""
    nodes = sorted((name for name in system.list_folder(NODES) if name.isdecimal()), key=int)
    gpus = [gpu for node in nodes if (gpu := _gpu(system, f"{NODES}/{node}")) is not None]
    variables = system.variables()
    # The runtime filters first; HIP filters what the runtime leaves, and reads CUDA's variable when it has none.
    hip = variables.get("HIP_VISIBLE_DEVICES", variables.get("CUDA_VISIBLE_DEVICES"))
    return visible_gpus(visible_gpus(gpus, variables.get("ROCR_VISIBLE_DEVICES")), hip)


def _gpu(system: System, folder: str) -> Gpu | None:
    node = _numbers(system.read_text(f"{folder}/properties"))
    target = node.get("gfx_target_version", 0)
    if not target:  # a processor
        return None
    arch = f"gfx{target // 10_000}{target // 100 % 100:x}{target % 100:x}"
    return Gpu(f"AMD {arch}", arch, _memory(system, f"{folder}/mem_banks"), f"GPU-{node.get('unique_id', 0):x}")


def _memory(system: System, folder: str) -> int | None:
    banks = (_numbers(system.read_text(f"{folder}/{bank}/properties")) for bank in system.list_folder(folder))
    return sum(bank.get("size_in_bytes", 0) for bank in banks if bank.get("heap_type") in _OWN_MEMORY) or None


def _numbers(text: str | None) -> Mapping[str, int]:
    return dict(_pairs(text or ""))


def _pairs(text: str) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        name, _, value = line.partition(" ")
        if value.isdecimal() and len(value) <= 20:  # noqa: PLR2004 - the digits of a 64-bit number
            yield name, int(value)
