"""Builds of FlashAttention: where their two functions are found, what is asked of them, and how they are called.

Versions 2, 3 and 4 have the same arguments in different places and return a tensor, a tuple, or either. So queries,
keys and values are all that is passed by position, and every other argument is looked for in the signature by its name.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from backends._flash_operators import DIRECT, Forms, Functions, number_of, operators
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    from torch import Tensor

PACKING = ("cu_seqlens_q", "cu_seqlens_k", "max_seqlen_q", "max_seqlen_k")
# Functions that know no window may be older than the alignment of a causal mask to the bottom right corner.
WANTED: Mapping[str, tuple[str, ...]] = {
    "flash_attn_func": ("softmax_scale", "causal", "window_size"),
    "flash_attn_varlen_func": (*PACKING, "softmax_scale", "causal", "window_size"),
}
"""The functions of a build and the keywords that each must have."""


class Source(NamedTuple):
    """A module that holds a build, and the distribution that brings it."""

    module: str
    distribution: str


PROVIDERS: Mapping[str, tuple[Source, ...]] = {
    "fa4": (Source("flash_attn.cute", "flash-attn-4"),),
    "fa3": (Source("flash_attn_interface", "flash-attn-3"), Source("fa3_fwd_interface", "fa3-fwd")),
    "fa2": (Source("flash_attn", "flash-attn"),),
}
"""The modules of each build, of which the first that is there counts."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where bound code came from: a module or a repository, and its version where that is known."""

    source: str
    version: str | None

    def __str__(self) -> str:
        return f"`{self.source}` {self.version or '(version unknown)'}"


@dataclass(frozen=True, slots=True)
class Build:
    """Functions that were found and checked; `number` is their place among all that were bound."""

    origin: Origin
    number: int
    operators: Forms

    @property
    def _forms(self) -> Forms:
        """What is called here: operators in traced code, and in eager code what they hold."""
        return self.operators if torch.compiler.is_compiling() else DIRECT

    def dense(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, causal: bool) -> Tensor:
        """Attention of `[batch, seq, heads, head_dim]`; causal is aligned bottom right. Traced as one operator."""
        return cast("Tensor", self._forms.dense(q, k, v, scale, causal, self.number))

    def dense_lse(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float | None, causal: bool) -> tuple[Tensor, Tensor]:
        """The same, and the log-sum-exp to base e: float32 `[batch, heads, seq_q]`.

        Raises `CallRefused` for a build that does not give it.
        """
        return cast("tuple[Tensor, Tensor]", self._forms.dense_lse(q, k, v, scale, causal, self.number))

    def varlen(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        offsets: tuple[Tensor, Tensor],
        longest: tuple[int, int],
        scale: float | None,
    ) -> Tensor:
        """Attention of packed sequences `[tokens, heads, head_dim]`, each query within its own sequence."""
        return cast("Tensor", self._forms.varlen(q, k, v, *offsets, *longest, scale, self.number))

    def varlen_lse(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        offsets: tuple[Tensor, Tensor],
        longest: tuple[int, int],
        scale: float | None,
    ) -> tuple[Tensor, Tensor]:
        """The same, and the log-sum-exp to base e: float32 `[tokens, heads]`. Raises as `dense_lse`."""
        return cast("tuple[Tensor, Tensor]", self._forms.varlen_lse(q, k, v, *offsets, *longest, scale, self.number))


def installed_version(distribution: str) -> str | None:
    """The version of an installed distribution, or None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class Packages:
    """Where modules and versions come from: this interpreter, unless a test says otherwise."""

    importer: Callable[[str], ModuleType] = importlib.import_module
    version: Callable[[str], str | None] = installed_version

    def build(self, name: str, provider: str) -> Build:
        """The build of a provider, imported; raises `BindError` where none is there, or one is broken."""
        absences: list[ModuleNotFoundError] = []
        for source in PROVIDERS[provider]:
            found = self._module(name, source)
            if not isinstance(found, ModuleNotFoundError):
                return build_of(name, provider, found, Origin(source.module, self.version(source.distribution)))
            absences.append(found)
        wanted = " or ".join(f"`{source.module}`" for source in PROVIDERS[provider])
        got = "; ".join(
            f"{error}{self._hidden(source)}" for source, error in zip(PROVIDERS[provider], absences, strict=True)
        )
        raise BindError(f"`{name}`: wanted the module {wanted}, got {got}") from absences[0]

    def _module(self, name: str, source: Source) -> ModuleType | ModuleNotFoundError:
        try:
            return self.importer(source.module)
        except Exception as error:
            if isinstance(error, ModuleNotFoundError) and f"{source.module}.".startswith(f"{error.name}."):
                return error
            raise BindError(
                f"`{name}`: wanted a module `{source.module}` that can be imported, got {type(error).__name__}: {error}"
            ) from error

    def _hidden(self, source: Source) -> str:
        version = self.version(source.distribution)
        return "" if version is None else f" although `{source.distribution}` {version} is installed"


def build_of(name: str, family: str, module: ModuleType, origin: Origin) -> Build:
    """The build in an imported module; raises `BindError` unless its functions have the keywords that are needed."""
    functions = Functions(*(_checked(name, module, function, origin) for function in WANTED))
    return Build(origin, number_of(functions), operators(family))


def _checked(name: str, module: ModuleType, function: str, origin: Origin) -> Callable[..., object]:
    found = getattr(module, function, None)
    if not callable(found):
        raise BindError(f"`{name}`: wanted `{function}` in {origin}, got none")
    try:
        known = inspect.signature(found).parameters
    except (TypeError, ValueError) as error:
        raise BindError(f"`{name}`: wanted a signature of `{function}` in {origin}, got none: {error}") from error
    unknown = [f"`{keyword}`" for keyword in WANTED[function] if keyword not in known]
    if unknown:
        raise BindError(
            f"`{name}`: wanted `{function}` of {origin} to take {', '.join(unknown)}, got ({', '.join(known)})"
        )
    return cast("Callable[..., object]", found)
