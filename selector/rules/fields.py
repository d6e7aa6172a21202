"""Reading the fields of a file: what is wrong is noted with its place, and reading goes on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from selector.rules.nodes import Node
from selector.rules.problems import Place, Problem, listing, nearest, shown

MOST_TOLD = 100
Known = Sequence[str] | Mapping[str, object]


def kind_of(node: Node) -> str:
    """Name the kind of a value for a sentence: a list, a mapping, or the value itself."""
    if isinstance(node.value, dict):
        return "a mapping"
    if isinstance(node.value, list):
        return "a list"
    return "an empty string" if node.value == "" else f"`{shown(node.value)}`"


@dataclass(slots=True)
class Source:
    """One file being read, and the problems found in it so far."""

    file: str
    problems: list[Problem] = field(default_factory=list)

    def note(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        """Add a problem."""
        self.problems.append(Problem(place, code, message, hint))

    def mapping(
        self, node: Node | None, path: str, known: Known | None, required: Sequence[str] = ()
    ) -> dict[str, Node]:
        """Give the entries of a mapping whose keys are known; others are noted, and so is a required one missing."""
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            self.wrong_type(node, path, "a mapping")
            return {}
        meant = set()
        unknown = [name for name in node.value if known is not None and name not in known]
        if len(unknown) > MOST_TOLD:
            message = f"{len(unknown)} keys here are not known, of which the first {MOST_TOLD} are told"
            self.note(node.at(self.file, path), "too-many", message)
        for name, child in [(name, node.value[name]) for name in unknown[:MOST_TOLD]]:
            if known is not None:
                near = nearest(name, known)
                meant.add(near)
                hint = near or f"known here: {listing(list(known))}"
                self.note(
                    child.key_at(self.file, join(path, name)), "unknown-key", f"no key `{shown(name)}` here", hint
                )
        for name in required:
            if name not in node.value and f"did you mean `{name}`?" not in meant:
                self.note(node.at(self.file, path), "missing-key", f"wanted the key `{name}`, which is not there")
        return {name: child for name, child in node.value.items() if known is None or name in known}

    def items(self, node: Node | None, path: str) -> list[Node]:
        """Give the items of a list."""
        if node is None:
            return []
        if not isinstance(node.value, list):
            self.wrong_type(node, path, "a list")
            return []
        return node.value

    def string(self, node: Node | None, path: str) -> str | None:
        """Give a string that is not empty; None when the key is not there, or the value is noted as wrong."""
        if node is None:
            return None
        if not isinstance(node.value, str) or not node.value.strip():
            self.wrong_type(node, path, "a string")
            return None
        return node.value

    def strings(self, node: Node | None, path: str, known: Known | None = None) -> list[str]:
        """Give a list of strings, each of them a known name where `known` is given."""
        found = []
        for index, item in enumerate(self.items(node, path)):
            text = self.string(item, f"{path}[{index}]")
            if text is not None and known is not None and text not in known:
                message = f"no `{shown(text)}` for `{last(path)}`"
                self.note(item.at(self.file, path), "unknown-name", message, nearest(text, known))
            elif text is not None:
                found.append(text)
        return found

    def choice(self, node: Node | None, path: str, known: Known) -> str | None:
        """Give a string that is one of the known names."""
        text = self.string(node, path)
        if node is None or text is None or text in known:
            return text
        wanted = f"one of {listing(list(known))}" if known else "a name that is known here, where there is none"
        message = f"`{last(path)}`: wanted {wanted}, got `{shown(text)}`"
        self.note(node.at(self.file, path), "unknown-name", message, nearest(text, known))
        return None

    def integer(self, node: Node | None, path: str) -> int | None:
        """Give an integer (true and false are none)."""
        if node is None:
            return None
        if isinstance(node.value, bool) or not isinstance(node.value, int):
            self.wrong_type(node, path, "an integer")
            return None
        return node.value

    def boolean(self, node: Node | None, path: str) -> bool | None:
        """Give true or false."""
        if node is None:
            return None
        if not isinstance(node.value, bool):
            self.wrong_type(node, path, "true or false")
            return None
        return node.value

    def wrong_type(self, node: Node, path: str, wanted: str) -> None:
        """Note that a value has another type than is wanted."""
        subject = f"`{last(path)}`: " if path else ""
        self.note(node.at(self.file, path), "wrong-type", f"{subject}wanted {wanted}, got {kind_of(node)}")


def join(path: str, name: str) -> str:
    """Add a key to a dotted path."""
    return f"{path}.{name}" if path else name


def last(path: str) -> str:
    """Give the last key of a dotted path."""
    return path.rsplit(".", 1)[-1]
