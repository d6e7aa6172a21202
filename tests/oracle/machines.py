"""Machines: the facts of paragraph 2 of the contract, and the generations of GPU of paragraph 3."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from packaging.version import InvalidVersion, Version

from tests.oracle.words import InvalidError, Json, mapping

PLATFORMS: Final = ("cuda", "rocm", "xpu", "npu", "musa", "cpu")
PACKAGES: Final = ("flashinfer", "flash-attn", "flash-attn-3", "flash-attn-4", "sageattention", "sageattn3", "kernels")
FACT_KEYS: Final = {"platform", "driver", "torch", "cudnn", "packages", "switches", "devices", "arch"}
FA4_ON_BLACKWELL: Final = Version("4.0.0b18")
CUDNN_ON_BLACKWELL: Final = 90500


@dataclass(frozen=True)
class Machine:
    """The facts of a machine; `cudnn` is None where there is none, and `cudnn_known` tells that from not asked."""

    platform: str
    arch: str | None
    cudnn: int | None
    cudnn_known: bool
    packages: dict[str, str | None] | None

    @property
    def sm(self) -> tuple[int, int] | None:
        """Major and minor on CUDA where the architecture is known, else None."""
        if self.platform != "cuda" or self.arch is None:
            return None
        digits = self.arch.removeprefix("sm_")
        return int(digits[:-1]), int(digits[-1])

    def version(self, package: str) -> Version | None:
        """The version of a package that is known to be there, else None."""
        found = (self.packages or {}).get(package)
        return None if found is None or found == "unknown" else Version(found)

    def has(self, package: str) -> bool:
        """Whether the package is known to be there."""
        return self.version(package) is not None


def read_machine(facts: Json) -> Machine:
    """Paragraph 2, facts: `platform` is required everywhere, and null is no platform.

    Reading: on CUDA an architecture that is not `sm_NN` is invalid; a device list is read at its first device.
    """
    given = mapping(facts, FACT_KEYS)
    platform = given.get("platform")
    if platform not in PLATFORMS:
        raise InvalidError("platform")
    arch = given.get("arch")
    if "devices" in given:
        arch = given["devices"][0].get("arch")
    if arch is not None and not isinstance(arch, str):
        raise InvalidError("arch")
    if platform == "cuda" and arch is not None and not re.fullmatch(r"sm_[1-9][0-9]{1,2}", arch):
        raise InvalidError("arch")
    cudnn = given.get("cudnn")
    if cudnn is not None and (isinstance(cudnn, bool) or not isinstance(cudnn, int)):
        raise InvalidError("cudnn")
    return Machine(platform, arch, cudnn, "cudnn" in given, _read_packages(given.get("packages")))


def _read_packages(value: Json) -> dict[str, str | None] | None:
    """Paragraph 2: name to version; null or not listed is absent, `unknown` was not looked for.

    Reading: a name that the vocabulary does not have is an unknown key.
    """
    if value is None:
        return None
    packages = mapping(value, set(PACKAGES))
    for name, version in packages.items():
        if version is not None and not isinstance(version, str):
            raise InvalidError(name)
        if version not in {None, "unknown"}:
            try:
                Version(version)
            except InvalidVersion as bad:
                raise InvalidError(name) from bad
    return packages


def blackwell(machine: Machine) -> bool:
    """Paragraph 3: sm_100, sm_103, sm_120, sm_121, and any other 10.x, 11.x or 12.x."""
    return machine.sm is not None and machine.sm[0] in {10, 11, 12}


def hopper(machine: Machine) -> bool:
    """Paragraph 3: sm_90."""
    return machine.sm == (9, 0)


def ada_or_ampere(machine: Machine) -> bool:
    """Paragraph 3: sm_80 to sm_89."""
    return machine.sm is not None and machine.sm[0] == 8


def sm_80_or_newer(machine: Machine) -> bool:
    """Paragraph 4: CUDA, with an architecture known to be at least sm_80."""
    return machine.sm is not None and machine.sm >= (8, 0)


def datacenter(machine: Machine) -> bool:
    """Paragraph 3: sm_100 or sm_103."""
    return machine.sm in {(10, 0), (10, 3)}


def fa4_for_blackwell(machine: Machine) -> bool:
    """Paragraph 3: FA4 from 4.0.0b18, by PEP 440."""
    version = machine.version("flash-attn-4")
    return version is not None and version >= FA4_ON_BLACKWELL
