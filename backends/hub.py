"""`FLASH_ATTN_HUB` and `FLASH_ATTN_3_HUB`: FlashAttention as the Hugging Face hub builds it, as training uses it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from backends._flash import Family
from backends._flash_providers import build_of
from backends._hub_library import first_loaded
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from backends._flash_providers import Build
    from backends.interface import Backend, Geometry, Kernel

# Version 1 has no build for torch 2.13 and later (huggingface/kernels-community#1082). Version 3 is left out: its
# gradients of grouped heads are wrong (huggingface/kernels-community#1085), and training is to run the same code.
FLASH_ATTN_2_VERSIONS = (1, 2, 4)
FLASH_ATTN_3_VERSIONS = (1,)
"""The kernel versions that are asked for, in this order: the first that has a build for this machine is taken."""


@dataclass(frozen=True, slots=True)
class FlashHub:
    """The masks and limits of `FLASH_ATTN`, over a kernel of the hub; reads no option and no provider.

    The output is, to the bit, that of the kernel called directly. A bound kernel's `origin` (a `HubOrigin`) names
    repository, version and build. `LOCAL_KERNELS` and `HF_HUB_OFFLINE` mean what they mean to the `kernels` library.
    """

    family: Family
    repository: str
    versions: tuple[int, ...]
    operators: str
    """What the operators of a traced call are called after."""
    importer: Callable[[str], ModuleType] = importlib.import_module

    @property
    def name(self) -> str:
        """See `Backend.name`."""
        return self.family.name

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; downloads the kernel if need be, and it has run once when this returns."""
        if geometry.provider is not None:
            raise BindError(f"`provider` of `{self.name}`: wanted none, got {geometry.provider}")
        return self.family.bind(spec, geometry, self._load)

    def _load(self) -> Build:
        try:
            library = self.importer("kernels")
        except Exception as error:
            raise BindError(
                f"`{self.name}`: wanted the package `kernels`, got {type(error).__name__}: {error}"
            ) from error
        module, origin = first_loaded(self.name, library, self.repository, self.versions)
        return build_of(self.name, self.operators, module, origin)


FLASH_ATTN_2: Backend = FlashHub(
    Family("FLASH_ATTN_HUB"), "kernels-community/flash-attn2", FLASH_ATTN_2_VERSIONS, "hub_fa2"
)
FLASH_ATTN_3: Backend = FlashHub(
    Family("FLASH_ATTN_3_HUB"), "kernels-community/flash-attn3", FLASH_ATTN_3_VERSIONS, "hub_fa3"
)
