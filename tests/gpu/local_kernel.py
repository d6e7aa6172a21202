"""Lays out a folder in which the `kernels` library finds an installed module as a kernel of the hub, for this GPU.

    python -m tests.gpu.local_kernel FOLDER [MODULE]

prints the value that `LOCAL_KERNELS` then needs. The module stays where it is installed: the folder only refers to it.
"""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import torch

REPOSITORY = "kernels-community/flash-attn3"
MODULE = "fa3_fwd_interface"
ARCHS = ["9.0a"]
"""What FlashAttention 3 is built for, in the library's notation."""


def build_name(torch_version: str, cuda: str, machine: str) -> str:
    """What the library calls a build for these versions: `torch211-cxx11-cu130-x86_64-linux`."""
    major, minor = torch_version.split(".")[:2]
    return f"torch{major}{minor}-cxx11-cu{cuda.replace('.', '')}-{machine}-linux"


def lay_out(folder: Path, module: str = MODULE, *, archs: list[str] | None = None) -> Path:
    """`folder` with one build for the running torch, whose functions are those of `module`."""
    name = build_name(torch.__version__, torch.version.cuda or "", platform.machine())
    home = folder / "build" / name
    home.mkdir(parents=True, exist_ok=True)
    (home / "__init__.py").write_text(f"from {module} import flash_attn_func, flash_attn_varlen_func\n")
    written = {
        "name": "flash-attn3",
        "id": f"flash_attn3_local_{abs(hash(folder.resolve()))}",
        "version": 1,
        "license": "BSD-3-Clause",
        "python-depends": [],
        "backend": {"type": "cuda", "archs": ARCHS if archs is None else archs},
    }
    (home / "metadata.json").write_text(json.dumps(written))
    return folder


if __name__ == "__main__":
    made = lay_out(Path(sys.argv[1]).resolve(), *sys.argv[2:3])
    sys.stdout.write(f"{REPOSITORY}={made}\n")
