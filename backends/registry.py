"""Backends by name: each is an entry point of the group `attention_selector.backends`, of any distribution."""

from __future__ import annotations

import difflib
from functools import cache
from typing import TYPE_CHECKING, cast

from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.metadata import EntryPoint

    from backends.interface import Backend

GROUP = "attention_selector.backends"


@cache
def installed() -> tuple[EntryPoint, ...]:
    """The entry points of every installed distribution, looked up once a process."""
    from importlib import metadata

    return tuple(metadata.entry_points(group=GROUP))


def available(entry_points: Iterable[EntryPoint] | None = None) -> dict[str, str]:
    """The distribution of each backend by the backend's name, in order of names; imports none of them.

    Raises `BindError` where two distributions take the same name.
    """
    found = installed() if entry_points is None else tuple(entry_points)
    return {name: _distribution(_only(name, found)) for name in sorted({point.name for point in found})}


def load(name: str, entry_points: Iterable[EntryPoint] | None = None) -> Backend:
    """The backend called `name`, exactly.

    Raises `BindError` for a name that nobody or more than one distribution offers, and for a plug-in that cannot be
    imported or is no backend of that name.
    """
    found = installed() if entry_points is None else tuple(entry_points)
    point = _only(name, found)
    try:
        backend = point.load()
    except Exception as error:
        raise BindError(
            f"backend `{name}` of `{_distribution(point)}` does not load: {type(error).__name__}: {error}"
        ) from error
    called = getattr(backend, "name", None)
    if called != name or not callable(getattr(backend, "bind", None)):
        wanted = f"an object with `bind` and the name `{name}`"
        got = f"{backend!r} with the name `{called}`"
        raise BindError(f"backend `{name}` of `{_distribution(point)}`: wanted {wanted}, got {got}")
    return cast("Backend", backend)


def _only(name: str, found: tuple[EntryPoint, ...]) -> EntryPoint:
    points = [point for point in found if point.name == name]
    if not points:
        names = {point.name.casefold(): point.name for point in found}
        near = difflib.get_close_matches(name.casefold(), names, n=1, cutoff=0.75)
        nearest = f"; the nearest is `{names[near[0]]}`" if near else ""
        raise BindError(f"backend `{name}`: wanted the name of an installed backend, got none{nearest}")
    if len(points) > 1:
        homes = " and ".join(sorted(f"`{_distribution(point)}`" for point in points))
        raise BindError(f"backend `{name}`: wanted one distribution that offers it, got {homes}")
    return points[0]


def _distribution(point: EntryPoint) -> str:
    return point.value if point.dist is None else point.dist.name
