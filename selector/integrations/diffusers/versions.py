"""What this integration needs of diffusers beyond its public names, checked before anything is used."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata
from types import ModuleType

from selector.integrations.diffusers.untyped import Untyped

SUPPORTED = ("0.36.0", "0.42.1")
"""The oldest and the newest version that the tests run with."""
_REGISTRY = ("_backends", "_constraints", "_supported_arg_names", "_active_backend")
_ENUM = ("_member_map_", "_member_names_", "_value2member_map_")


class UnsupportedDiffusersError(RuntimeError):
    """This version of diffusers lacks what the integration is built on."""


def installed() -> str:
    """Give the version of diffusers that is installed, `unknown` where its metadata is missing."""
    try:
        return metadata.version("diffusers")
    except metadata.PackageNotFoundError:
        return "unknown"


def dispatch_module() -> Untyped:
    """Give `diffusers.models.attention_dispatch` with everything in it that is used here.

    Raises `UnsupportedDiffusersError`, which names the version and each attribute that is missing.
    """
    try:
        from diffusers.models import attention_dispatch
    except ImportError as error:
        raise UnsupportedDiffusersError(
            f"diffusers {installed()} has no `diffusers.models.attention_dispatch`; {_advice()}"
        ) from error
    missing = list(lacking(attention_dispatch))
    if missing:
        raise UnsupportedDiffusersError(f"diffusers {installed()} has no {', '.join(missing)}; {_advice()}")
    return attention_dispatch


def lacking(dispatch: ModuleType) -> Iterator[str]:
    """Name what the module lacks, each in the words of its place."""
    for holder, names in (("_AttentionBackendRegistry", _REGISTRY), ("AttentionBackendName", _ENUM)):
        found = getattr(dispatch, holder, None)
        if found is None:
            yield f"`{holder}`"
        else:
            yield from (f"`{holder}.{name}`" for name in names if not hasattr(found, name))
    if not hasattr(dispatch, "dispatch_attention_fn"):
        yield "`dispatch_attention_fn`"


def _advice() -> str:
    return f"this integration is tested with {SUPPORTED[0]} to {SUPPORTED[1]}"
