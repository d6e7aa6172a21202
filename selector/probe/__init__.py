"""Read this machine: its GPUs, driver, torch, cuDNN and kernel packages, as the facts that rules ask about."""

from selector.probe.machine import DEEP_SECONDS, Probed, probe_machine, read_machine
from selector.probe.packages import PackageEntry
from selector.probe.system import THIS_SYSTEM, UNKNOWN, System

__all__ = [
    "DEEP_SECONDS",
    "THIS_SYSTEM",
    "UNKNOWN",
    "PackageEntry",
    "Probed",
    "System",
    "probe_machine",
    "read_machine",
]
