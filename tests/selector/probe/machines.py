"""Machines made of values, and packages to import that are written to a folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType

from selector.probe import THIS_SYSTEM, System
from selector.probe.gpus import Driver, ProbeError
from selector.probe.process import Finished, never

# The source of a module that is as good as missing.
NO_TORCH = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')"


@dataclass(frozen=True, slots=True)
class Entry:
    """A package entry as the vocabulary gives it."""

    key: str
    distributions: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine holds; `system()` is the view that the probe gets of it. It starts with nothing at all."""

    variables: Mapping[str, str] = field(default_factory=dict)
    driver: Driver | None = None
    smi: Finished | OSError = field(default_factory=lambda: FileNotFoundError(2, "No such file or directory"))
    installed: Mapping[str, str] = field(default_factory=dict)
    loaded: Mapping[str, ModuleType] = field(default_factory=dict)
    files: Mapping[str, str] = field(default_factory=dict)

    def system(self) -> System:
        """A system that reads these values and nothing else."""
        return System(
            variables=lambda: self.variables,
            nvml=self._nvml,
            run=self._run,
            version=self.installed.get,
            loaded=self.loaded.get,
            read_text=self.files.get,
            list_folder=self._list_folder,
            exists=self.files.__contains__,
            python=lambda: "python",
            search_path=lambda: (),
        )

    def _nvml(self) -> Driver:
        if self.driver is None:
            raise ProbeError("NVML Shared Library Not Found")
        return self.driver

    def _run(self, command: Sequence[str], timeout: float, stopped: Callable[[], bool] = never, /) -> Finished:
        assert command[0] == "nvidia-smi"
        assert timeout == 10
        assert not stopped()
        if isinstance(self.smi, OSError):
            raise self.smi
        return self.smi

    def _list_folder(self, path: str) -> tuple[str, ...]:
        below = (name.removeprefix(f"{path}/") for name in self.files if name.startswith(f"{path}/"))
        return tuple(sorted({name.partition("/")[0] for name in below}))


def with_modules(folder: Path, sources: Mapping[str, str]) -> System:
    """Write modules, and give a bare machine whose packages are really imported, by real subprocesses.

    Every module counts as the distribution of its own name, version 1.0.
    """
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    bare = Machine(installed=dict.fromkeys(sources, "1.0")).system()
    return replace(
        bare, run=THIS_SYSTEM.run, python=lambda: sys.executable, search_path=lambda: (str(folder), *sys.path)
    )
