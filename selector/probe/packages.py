"""The versions of the packages that rules ask about, from metadata and, in a deep probe, from their import."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from packaging.version import InvalidVersion, Version

from selector.probe.child import one_line
from selector.probe.deep import Trial
from selector.probe.system import UNKNOWN, System


class PackageEntry(Protocol):
    """A package that rules ask about: the distributions that bring it and what a deep probe imports of it.

    `symbols` are `module:attribute`; the first that works counts. Without symbols the modules are imported.
    """

    @property
    def key(self) -> str:
        """The name that rules use."""
        ...

    @property
    def distributions(self) -> tuple[str, ...]:
        """The names to look for in package metadata, in order."""
        ...

    @property
    def modules(self) -> tuple[str, ...]:
        """What to import where there are no symbols."""
        ...

    @property
    def symbols(self) -> tuple[str, ...]:
        """What to import, as `module:attribute`, in order."""
        ...


@dataclass(frozen=True, slots=True)
class Packages:
    """A version for each key (None: absent), why a package that is installed is of no use, and what to note."""

    versions: Mapping[str, str | None]
    unusable: dict[str, str]
    notes: tuple[str, ...]

    def origins(self) -> dict[str, str]:
        """Where each version comes from: an import that failed says that there is none, all else the metadata."""
        return {key: "deep probe" if key in self.unusable else "package metadata" for key in self.versions}


def read_packages(system: System, entries: Sequence[PackageEntry]) -> Packages:
    """Read the versions from the metadata of the distributions; nothing is imported."""
    notes: list[str] = []
    versions = {entry.key: _version(system, entry, notes) for entry in entries}
    return Packages(versions, {}, tuple(notes))


def _version(system: System, entry: PackageEntry, notes: list[str]) -> str | None:
    found = [(name, version) for name in entry.distributions if (version := system.version(name)) is not None]
    for name, version in found:
        trouble = _trouble(version)
        if trouble is None:
            return version
        notes.append(f"package {entry.key}: the metadata of {name} {trouble}")
    return UNKNOWN if found else None


def _trouble(version: str) -> str | None:
    if version == UNKNOWN:
        return "cannot be read"
    try:
        Version(version)
    except InvalidVersion:
        return f"has a version that cannot be compared: {one_line(version, 80)}"
    return None


def after_trials(packages: Packages, trials: Mapping[str, Trial]) -> Packages:
    """A package whose import failed counts as absent, and its reason names the version that is installed."""
    unusable = {
        key: f"{packages.versions[key]} is installed and cannot be used: {trial.failure}"
        for key, trial in trials.items()
        if trial.failure is not None
    }
    versions = {key: None if key in unusable else version for key, version in packages.versions.items()}
    untried = (f"package {key} was not imported: {trial.untried}" for key, trial in trials.items() if trial.untried)
    return Packages(versions, unusable, (*packages.notes, *untried))
