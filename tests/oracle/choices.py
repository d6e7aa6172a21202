"""What a walk through the contract's tables ends with."""

from __future__ import annotations

from dataclasses import dataclass


class RefusedError(ValueError):
    """The selection is refused."""


@dataclass(frozen=True)
class Choice:
    """A backend that may run, the words in brackets of its log line, and the warnings on the way to it."""

    backend: str
    brackets: str = ""
    warnings: tuple[str, ...] = ()
