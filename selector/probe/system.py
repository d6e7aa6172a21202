"""Everything the probe asks of the world outside, as values that a test can replace."""

import importlib.metadata
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Final, Protocol

from selector.probe.gpus import Driver
from selector.probe.nvml import read_nvml
from selector.probe.process import Finished, never, run

UNKNOWN: Final = "unknown"


class Run(Protocol):
    """A way to run a command: `process.run`, or a test's stand-in."""

    def __call__(self, command: Sequence[str], timeout: float, stopped: Callable[[], bool] = never, /) -> Finished:
        """Run it for at most `timeout` seconds, or until `stopped()`; OSError when it cannot be started."""
        ...


def installed_version(distribution: str, path: Sequence[str] | None = None) -> str | None:
    """The version in a distribution's metadata, as it is written there; nothing is imported.

    None when it is not installed, `unknown` when it is and its metadata cannot be read.
    """
    folders = list(sys.path if path is None else path)
    found = list(importlib.metadata.distributions(name=distribution, path=folders))
    versions = (version for candidate in found if (version := _written_version(candidate)))
    return next(versions, UNKNOWN) if found else None


def _written_version(distribution: importlib.metadata.Distribution) -> str | None:
    try:
        versions = distribution.metadata.get_all("Version") or [""]
    except Exception:  # noqa: BLE001 - damaged metadata raises whatever its parser stumbles over
        return None
    return str(versions[0]).strip() or None


def read_text(path: str) -> str | None:
    """A small text file's content, or None when it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def list_folder(path: str) -> tuple[str, ...]:
    """The names in a folder, sorted; empty when it cannot be read."""
    try:
        return tuple(sorted(os.listdir(path)))  # noqa: PTH208 - names are wanted, not paths
    except OSError:
        return ()


@dataclass(frozen=True, slots=True)
class System:
    """What the probe reads, each as a callable; the defaults read this process and this machine."""

    variables: Callable[[], Mapping[str, str]] = lambda: os.environ
    nvml: Callable[[], Driver] = read_nvml
    run: Run = run
    version: Callable[[str], str | None] = installed_version
    loaded: Callable[[str], ModuleType | None] = sys.modules.get
    read_text: Callable[[str], str | None] = read_text
    list_folder: Callable[[str], tuple[str, ...]] = list_folder
    exists: Callable[[str], bool] = os.path.exists
    python: Callable[[], str] = lambda: sys.executable
    search_path: Callable[[], Sequence[str]] = lambda: tuple(sys.path)


THIS_SYSTEM: Final = System()
