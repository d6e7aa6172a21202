"""A kernel in the layout of the hub, in a folder of one's own, which `LOCAL_KERNELS` can name."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

HUB_ID = "kernels-community/flash-attn2"


def lay_out(folder: Path, module: str, *, version: int = 1, build: str = "torch-cpu") -> Path:
    """`folder` with one build that offers the functions of an importable module; fit for a CPU."""
    home = folder / "build" / build
    home.mkdir(parents=True)
    (home / "__init__.py").write_text(f"from {module} import flash_attn_func, flash_attn_varlen_func\n")
    written = {
        "name": "fake-attn",
        "id": f"fake_attn_{abs(hash(folder))}",
        "version": version,
        "license": "Apache-2.0",
        "python-depends": [],
        "backend": {"type": "cpu"},
    }
    (home / "metadata.json").write_text(json.dumps(written))
    return folder
