"""The `kernels` library over a range of its versions, told apart by what its functions take.

It reads `LOCAL_KERNELS` and `HF_HUB_OFFLINE` by itself, and nothing here goes past it to the network.
"""

from __future__ import annotations

import inspect
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from backends._flash_providers import Origin
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

PUBLISHERS = ("kernels-community",)
"""Whose code is loaded: it runs in this process, unasked."""


class Verdict(NamedTuple):
    """What the library says of one build of a repository."""

    build: str
    rejected: str | None
    """Why it does not fit this machine; None where it does."""

    def __str__(self) -> str:
        return f"{self.build} {'fits' if self.rejected is None else f'rejected: {self.rejected}'}"


class Attempt(NamedTuple):
    """A version that could not be loaded, with the library's reason and, where it has them, its verdicts."""

    version: int
    reason: str
    verdicts: tuple[Verdict, ...]

    def __str__(self) -> str:
        verdicts = "".join(f"; {verdict}" for verdict in self.verdicts)
        return f"version {self.version}: {self.reason}{verdicts}"


@dataclass(frozen=True, slots=True)
class HubOrigin(Origin):
    """A repository and kernel version, and of these the commit and the build, where the library tells them.

    `verdicts` are those on all builds of the version, where it was found on the hub; `passed_over` are the versions
    that were asked for before it.
    """

    revision: str | None
    build: str | None
    verdicts: tuple[Verdict, ...]
    passed_over: tuple[Attempt, ...]

    @property
    def considered(self) -> tuple[Attempt | Verdict, ...]:
        """Versions that were passed over, then the builds of the one that was taken, each with its reason."""
        return (*self.passed_over, *self.verdicts)

    def __str__(self) -> str:
        told = (("revision", self.revision), ("build", self.build))
        return f"`{self.source}` " + ", ".join(
            [f"version {self.version}", *(f"{word} {value}" for word, value in told if value is not None)]
        )


class Loaded(NamedTuple):
    """An imported kernel and where it came from."""

    module: ModuleType
    origin: HubOrigin


def first_loaded(name: str, library: ModuleType, repository: str, versions: tuple[int, ...]) -> Loaded:
    """The first of the versions that loads, loaded once a process; raises `BindError` with every reason if none does.

    Only from `PUBLISHERS`, who are then trusted whatever the library would ask of the hub.
    """
    publisher = repository.split("/", maxsplit=1)[0]
    if publisher not in PUBLISHERS:
        raise BindError(f"`{name}`: wanted a repository of {' or '.join(PUBLISHERS)}, got `{repository}`")
    return _first_loaded(name, library, repository, versions, os.environ.get("LOCAL_KERNELS"))


@lru_cache(maxsize=16)
def _first_loaded(
    name: str,
    library: ModuleType,
    repository: str,
    versions: tuple[int, ...],
    local: str | None,  # noqa: ARG001 - what was loaded depends on it
) -> Loaded:
    attempts: list[Attempt] = []
    errors: list[Exception] = []
    for version in versions:
        try:
            module = library.get_kernel(repository, **_arguments(library, repository, version))
        except Exception as error:  # noqa: BLE001 - a kernel's import may raise anything; all of it is told
            errors.append(error)
            attempts.append(_attempt(library, repository, version, error))
            continue
        return Loaded(module, _origin(library, repository, version, module, tuple(attempts)))
    wanted = " or ".join(str(version) for version in versions)
    got = "; ".join(str(attempt) for attempt in attempts)
    raise BindError(f"`{name}`: wanted version {wanted} of `{repository}`, got {got}") from errors[-1]


def _arguments(library: ModuleType, repository: str, version: int) -> Mapping[str, object]:
    """How this library is asked for a version, and told that its publisher is trusted.

    Before it asked for trust, versions were numbers of another kind, and branches were called `v1`, `v2`, …. Before its
    arguments were keywords alone, it warned of a list of repositories and ignored it.
    """
    known = inspect.signature(library.get_kernel).parameters
    if "trust_remote_code" not in known:
        return {"revision": f"v{version}"}
    reads_lists = known["version"].kind is inspect.Parameter.KEYWORD_ONLY
    return {"version": version, "trust_remote_code": [repository] if reads_lists else True}


def _attempt(library: ModuleType, repository: str, version: int, error: Exception) -> Attempt:
    """Verdicts are asked for where the version was found, and no build of it; the first line says that."""
    verdicts = _verdicts(library, repository, version) if isinstance(error, FileNotFoundError) else ()
    lines = str(error).split("\n")
    told = lines[0].rstrip(":") if verdicts else "; ".join(line.strip() for line in lines if line.strip())
    return Attempt(version, f"{type(error).__name__}: {told}", verdicts)


def _origin(
    library: ModuleType, repository: str, version: int, module: ModuleType, passed_over: tuple[Attempt, ...]
) -> HubOrigin:
    loaded = [kernel for kernel in getattr(library, "get_loaded_kernels", list)() if kernel.module is module]
    info = loaded[0].repo_info if loaded else None
    return HubOrigin(
        source=repository,
        version=str(version),
        revision=None if info is None else info.revision,
        build=_build(module),
        verdicts=() if info is None else _verdicts(library, repository, version),
        passed_over=passed_over,
    )


def _verdicts(library: ModuleType, repository: str, version: int) -> tuple[Verdict, ...]:
    """None from a library that has none to give, or cannot reach the hub for them now."""
    ask = getattr(library, "get_kernel_variants", None)
    if ask is None:
        return ()
    try:
        decisions = ask(repository, version=version)
    except Exception:  # noqa: BLE001 - they only explain; what counts has been said already
        return ()
    return tuple(Verdict(each.variant.variant_str, getattr(each, "reason", None)) for each in decisions)


def _build(module: ModuleType) -> str | None:
    """The folder in a folder `build`, whose name tells what it was built for."""
    folders = Path(module.__file__ or "").parents
    return next((folder.name for folder in folders if folder.parent.name == "build"), None)
