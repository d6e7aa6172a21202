"""What version strings say of torch's build and of cuDNN."""

import re
from typing import Final

from selector.probe.system import System

_RELEASE: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,2})(?:\.([0-9]{1,2})(?:\.[0-9]+)*)?(?![.0-9])")
_CUDA_TAG: Final = re.compile(r"cu([0-9]{2})[0-9]*")
_OTHER_BUILDS: Final = ("cpu", "rocm", "xpu")
# The newest first: a torch whose version does not say its CUDA is most likely built for the newest one installed.
_CUDA_MAJORS: Final = ("13", "12", "11")
_FIVE_DIGITS_FROM: Final = 9


def build_of(torch_version: str | None) -> str | None:
    """What torch was built for, by the version's local tag: `cpu`, `cuda`, `rocm`, `xpu`; None when that is open."""
    tag = (torch_version or "").partition("+")[2]
    if _CUDA_TAG.match(tag):
        return "cuda"
    return next((build for build in _OTHER_BUILDS if tag.startswith(build)), None)


def cudnn_from_metadata(system: System) -> dict[str, object]:
    """`{cudnn: …}` from the distribution that brings it for torch's CUDA; empty when that cannot tell."""
    tagged = _CUDA_TAG.match((system.version("torch") or "").partition("+")[2])
    for major in [tagged[1]] if tagged else _CUDA_MAJORS:
        number = cudnn_number(system.version(f"nvidia-cudnn-cu{major}") or "")
        if number is not None:
            return {"cudnn": number}
    return {}


def cudnn_number(version: str) -> int | None:
    """The integer that cuDNN itself reports for a version: 9.10.2.21 is 91002, and before 9, 8.9.7 is 8907."""
    release = _RELEASE.match(version)
    if release is None:
        return None
    major, minor, patch = (int(part or 0) for part in release.groups())
    return major * (10_000 if major >= _FIVE_DIGITS_FROM else 1_000) + minor * 100 + patch
