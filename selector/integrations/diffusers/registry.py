"""Names in diffusers' registry of attention backends: ours come and go, nobody else's is touched."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from selector.integrations.diffusers.untyped import Untyped
from selector.integrations.diffusers.versions import dispatch_module

PREFIX = "attention_selector_"
"""What every name that is registered here begins with."""
_HOME = "diffusers.models.attention_dispatch"
_numbers = itertools.count()


def register(label: str, kernel: Callable[..., Any], arguments: frozenset[str]) -> Untyped:
    """Register a kernel under a new name that ends in `label`, and give the member of `AttentionBackendName`.

    `arguments` are the keywords that diffusers hands on: it drops every other one without a word. So the names of all
    arguments that any backend of this version takes are handed on too, for the kernel to refuse.
    """
    dispatch = dispatch_module()
    names, registry = dispatch.AttentionBackendName, dispatch._AttentionBackendRegistry  # noqa: SLF001 - checked
    value = f"{PREFIX}{next(_numbers)}_{''.join(c if c.isalnum() else '_' for c in label.lower())}"
    if value in names._value2member_map_ or value.upper() in names._member_map_:
        raise ValueError(f"wanted a name that diffusers does not know, got `{value}`")
    member = str.__new__(names, value)
    member._name_, member._value_ = value.upper(), value
    names._member_map_[member._name_] = member
    names._member_names_.append(member._name_)
    names._value2member_map_[value] = member
    every = frozenset[str]().union(*registry._supported_arg_names.values())  # noqa: SLF001
    registry._backends[member] = kernel  # noqa: SLF001
    registry._constraints[member] = []  # noqa: SLF001
    registry._supported_arg_names[member] = set(arguments | every)  # noqa: SLF001
    return member


def unregister(member: Untyped) -> None:
    """Take a member of ours out again; one that is gone already stays gone."""
    dispatch = dispatch_module()
    names, registry = dispatch.AttentionBackendName, dispatch._AttentionBackendRegistry  # noqa: SLF001
    for entries in (registry._backends, registry._constraints, registry._supported_arg_names):  # noqa: SLF001
        entries.pop(member, None)
    if names._member_map_.pop(member._name_, None) is not None:
        names._member_names_.remove(member._name_)
    names._value2member_map_.pop(member._value_, None)


def is_ours(backend: object) -> bool:
    """Whether a processor's backend is one that was registered here."""
    return isinstance(backend, str) and str.__str__(backend).startswith(PREFIX)


def runs(member: Untyped) -> object:
    """Give what diffusers would call for the member, None where it is not registered."""
    return dispatch_module()._AttentionBackendRegistry._backends.get(member)  # noqa: SLF001


def foreign_owner(backend: object) -> str | None:
    """Name the module of another project whose function a backend runs; None for diffusers' own and for ours."""
    dispatch = dispatch_module()
    if backend is None or is_ours(backend):
        return None
    function = dispatch._AttentionBackendRegistry._backends.get(backend)  # noqa: SLF001
    home = getattr(function, "__module__", None)
    return None if home is None or home == _HOME else str(home)


def patches() -> Iterator[str]:
    """Tell what other projects changed in diffusers' dispatch, one sentence each."""
    dispatch = dispatch_module()
    home = getattr(dispatch.dispatch_attention_fn, "__module__", None)
    if home != _HOME:
        yield f"`dispatch_attention_fn` is that of `{home}`"
    for member in list(dispatch._AttentionBackendRegistry._backends):  # noqa: SLF001
        owner = foreign_owner(member)
        if owner is not None:
            yield f"backend `{getattr(member, 'value', member)}` is that of `{owner}`"
