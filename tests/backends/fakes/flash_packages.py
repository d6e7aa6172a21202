"""Machines with some of the fakes installed, and kernels bound on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from backends._flash import Family, FlashKernel
from backends._flash_providers import Packages
from backends.flash_attn import FlashAttention
from tests.backends.fakes import flash2, flash2_older, flash3, flash3_forward, flash3_older, flash4

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from tests.backends.cases import Sizes

ON_CPU = Family("FLASH_ATTN", device="cpu")
ALL: Mapping[str, tuple[str, str, ModuleType]] = {
    "fa4": ("fa4", "flash_attn.cute", flash4),
    "fa3": ("fa3", "flash_attn_interface", flash3),
    "fa3, older": ("fa3", "flash_attn_interface", flash3_older),
    "fa3, forward alone": ("fa3", "fa3_fwd_interface", flash3_forward),
    "fa2": ("fa2", "flash_attn", flash2),
    "fa2, older": ("fa2", "flash_attn", flash2_older),
}
"""Each fake by a name: its provider, and the module in whose place it stands."""


def packages(modules: Mapping[str, ModuleType | Exception], versions: Mapping[str, str] | None = None) -> Packages:
    """These modules by name, an exception for one that cannot be imported; these versions by distribution."""

    def importer(name: str) -> ModuleType:
        found = modules.get(name, ModuleNotFoundError(f"No module named {name!r}", name=name))
        if isinstance(found, Exception):
            raise found
        return found

    return Packages(importer, dict(versions or {}).get)


def only(fake: str) -> Packages:
    """One fake and nothing else."""
    _, module, code = ALL[fake]
    return packages({module: code})


def dtypes(fake: str) -> tuple[torch.dtype, ...]:
    """What it computes in."""
    return (torch.bfloat16,) if ALL[fake][2] is flash3_forward else (torch.bfloat16, torch.float16)


def bind(fake: str, sizes: Sizes) -> FlashKernel:
    """The kernel of `FLASH_ATTN` over one fake, on the CPU."""
    kernel = FlashAttention(ON_CPU, only(fake)).bind({}, replace(sizes.geometry, provider=ALL[fake][0]))
    assert isinstance(kernel, FlashKernel)
    return kernel
