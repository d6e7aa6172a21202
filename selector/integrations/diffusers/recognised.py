"""Masks found once for each forward, in what a model was given: its layers then read no value of a tensor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from backends.masks import Mask
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from torch import Tensor

KEPT = 4
"""Of so many sets of masks it is remembered what was found: prompts change less often than steps."""


class Known(NamedTuple):
    """The mask of one role for one batch size and number of keys."""

    mask: Mask
    batch: int
    seq_len_kv: int


class Found(NamedTuple):
    """What a look at the arguments gave: masks by role, arguments to put in the place of others, and lengths."""

    masks: Mapping[str, Known]
    instead: Mapping[str, Any] = {}
    text_len: int | None = None
    """How many leading text tokens any query can see, where it is known."""


NOTHING = Found({})


class Recognised:
    """What was found for the forward that is running."""

    def __init__(self) -> None:
        """Begin with nothing."""
        self.found = NOTHING

    def mask(self, role: str, batch: int, seq_len_kv: int) -> Mask | None:
        """Give the mask of a role; None where none was found for a call of this size."""
        known = self.found.masks.get(role)
        if known is None or known.batch != batch or known.seq_len_kv != seq_len_kv:
            return None
        return known.mask


@dataclass(eq=False)
class Look:
    """A forward pre-hook and hook of a component: fills `recognised` before each forward, and empties it after.

    `eager` may read values of the tensors named in `tensors`, `traced` may not: it describes.
    """

    recognised: Recognised
    names: tuple[str, ...]
    tensors: tuple[str, ...]
    eager: Callable[[Untyped, Mapping[str, Any]], Found]
    traced: Callable[[Untyped, Mapping[str, Any]], Found]
    remembered: list[tuple[tuple[Any, ...], tuple[Any, ...], Found]] = field(default_factory=list)

    def before(self, module: Untyped, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Untyped:
        """Look at what the component is given, and replace what needs no mask."""
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        found = self.traced(module, given) if torch.compiler.is_compiling() else self._remembered(module, given)
        self.recognised.found = found
        if not found.instead:
            return None
        positional = tuple(found.instead.get(name, value) for name, value in zip(self.names, args, strict=False))
        return positional, {name: found.instead.get(name, value) for name, value in kwargs.items()}

    def after(self, module: Untyped, args: tuple[Any, ...], output: Untyped) -> None:  # noqa: ARG002 - torch's hook  # noqa: ANN401, ARG002 - torch's hook
        """Forget: a mask of one forward is none of the next."""
        self.recognised.found = NOTHING

    def _remembered(self, module: Untyped, given: Mapping[str, Any]) -> Found:
        """Look again only at tensors that are new or were written to."""
        tensors = tuple(given.get(name) for name in self.tensors)
        versions = (*(_version(tensor) for tensor in tensors), *_shapes(given))
        for others, theirs, found in self.remembered:
            if theirs == versions and all(mine is other for mine, other in zip(tensors, others, strict=True)):
                return found
        found = self.eager(module, given)
        if None not in versions[: len(tensors)]:
            self.remembered = [(tensors, versions, found), *self.remembered[: KEPT - 1]]
        return found


def names_of(component: Untyped) -> tuple[str, ...]:
    """Name the arguments of a component's forward, in order."""
    return tuple(signature(type(component).forward).parameters)[1:]


def _version(tensor: Tensor | None) -> int | None:
    """Count what was written to a tensor; None where nobody counts, -1 for none at all."""
    if tensor is None:
        return -1
    return None if tensor.is_inference() else tensor._version  # noqa: SLF001 - what torch counts writes with


def _shapes(given: Mapping[str, Any]) -> tuple[object, ...]:
    tensors = [value for value in given.values() if isinstance(value, torch.Tensor)]
    return tuple([(tuple(tensor.shape), tensor.device) for tensor in tensors])
