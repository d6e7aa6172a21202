"""What a measurement ran on, for its heading."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform
import sys

_PACKAGES = (
    "torch", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "flash-attn", "flash_attn_3", "fa3-fwd", "flash-attn-4",
    "flashinfer-python", "sageattention", "kernels", "diffusers",
)  # fmt: skip


def describe() -> dict[str, str]:
    """Give device, date, versions and the command."""
    import torch

    cuda = torch.cuda.is_available()
    found = {
        "device": torch.cuda.get_device_name(0) if cuda else platform.processor() or platform.machine(),
        "date": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "python": platform.python_version(),
        "command": "python -m " + " ".join([(sys.modules["__main__"].__spec__ or _Nameless).name, *sys.argv[1:]]),
    }
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class _Nameless:
    name = "benchmarks"


def heading(title: str) -> str:
    """Give the heading of a result page."""
    rows = "\n".join(f"- {name}: {value}" for name, value in describe().items())
    return f"# {title}\n\n{rows}\n"
