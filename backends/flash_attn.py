"""`FLASH_ATTN`: FlashAttention 4, 3 or 2, as the geometry's provider says."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from backends._flash import Family
from backends._flash_providers import PROVIDERS, Packages
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backends.interface import Backend, Geometry, Kernel


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """No mask, all kinds of padding, block diagonals; causal alone, bottom right where lengths differ; half precision.

    Grouped heads are the kernels' own. Reads no option. A bound kernel's `origin` names its module and version.
    """

    family: Family = field(default_factory=lambda: Family("FLASH_ATTN"))
    packages: Packages = field(default_factory=Packages)

    @property
    def name(self) -> str:
        """See `Backend.name`."""
        return self.family.name

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`; the geometry names the provider, and its kernel has run once when this returns."""
        provider = geometry.provider
        if provider is None or provider not in PROVIDERS:
            raise BindError(f"`provider` of `{self.name}`: wanted {', '.join(PROVIDERS)}, got {provider}")
        return self.family.bind(spec, geometry, lambda: self.packages.build(self.name, provider))


BACKEND: Backend = FlashAttention()
