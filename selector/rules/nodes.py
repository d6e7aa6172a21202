"""Values with their places: what every text is read into, and the bounds that every text is held to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from selector.rules.problems import Place, Problem, ProblemsError

MOST_BYTES = 1 << 20
MOST_LEVELS = 64
MOST_NODES = 100_000


class Bounds(NamedTuple):
    """How many bytes and values a text may have."""

    bytes: int = MOST_BYTES
    nodes: int = MOST_NODES


OF_TEXTS = Bounds()
OF_RULES = Bounds(4 << 20, 190_000)
"""Of rule files, which are the user's own: a table of ten thousand rows is some 2 MiB."""

Scalar = str | int | float | bool | None
Plain = Scalar | list["Plain"] | dict[str, "Plain"]


@dataclass(frozen=True, slots=True)
class Node:
    """A value and where it stands; `key` is where the key stands that leads to it, when it has one.

    `file` is the file that it was read from; trees of several files may be put together into one.
    """

    value: Scalar | list[Node] | dict[str, Node]
    line: int
    column: int
    key: tuple[int, int] | None = None
    file: str = field(default="", compare=False, repr=False)

    def plain(self) -> Plain:
        """Give the value without its places."""
        if isinstance(self.value, dict):
            return {name: child.plain() for name, child in self.value.items()}
        if isinstance(self.value, list):
            return [child.plain() for child in self.value]
        return self.value

    def at(self, file: str, path: str = "") -> Place:
        """Give the place of the value, in `file` where it was not read from one."""
        return Place(self.file or file, self.line, self.column, path)

    def key_at(self, file: str, path: str = "") -> Place:
        """Give the place of the key, or of the value where there is no key."""
        line, column = self.key or (self.line, self.column)
        return Place(self.file or file, line, column, path)


def follow(node: Node, path: tuple[str | int, ...]) -> Node:
    """Walk down as far as the path leads; the last node that exists is the answer."""
    for step in path:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[str(step)]
        elif isinstance(node.value, list) and isinstance(step, int) and step < len(node.value):
            node = node.value[step]
        else:
            break
    return node


class TextError(ProblemsError):
    """A text that cannot be read as YAML or JSON."""


def failure(place: Place, code: str, message: str, hint: str | None = None) -> TextError:
    """Make the error of one problem."""
    return TextError([Problem(place, code, message, hint)])
