"""Edits of a table: rows taken out, moved, replaced or put in, by their ids, before the table is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place, nearest, shown
from selector.rules.tables import ACTIONS, ROW_KEYS

ANCHORS = ("before", "after")
EDIT_KEYS = (*ROW_KEYS, *ANCHORS, "disable")
_FILE_KEYS = ("table", "description", "edits")
_STANDING_ALONE = ("id", "because", "disable")
_MOVING_ALONE = ("id", "because", *ANCHORS)


@dataclass(frozen=True, slots=True)
class Change:
    """What one edit did to one row. `content` is what it says, so that two that say the same are no contradiction."""

    row: str
    place: Place
    content: object


@dataclass(slots=True)
class Slot:
    """A row of a table being edited; a disabled one keeps its place, so that it can come back."""

    id: str | None
    node: Node
    disabled: bool = False


@dataclass(slots=True)
class TableEdits:
    """Applies one file of edits to the rows of a table, in place; what is wrong is noted in `source`."""

    source: Source
    table: str
    slots: list[Slot]

    def apply(self, file: Node) -> list[Change]:
        """Apply the edits of `file`, and tell what each of them changed."""
        keys = self.source.mapping(file, "", _FILE_KEYS, required=("table", "edits"))
        return list(self.edits(keys.get("edits")))

    def edits(self, node: Node | None) -> Iterator[Change]:
        """Apply every edit in its order."""
        items = self.source.items(node, "edits")
        if node is not None and node.value == []:
            self.source.note(
                node.at(self.source.file, "edits"), "wrong-type", "wanted a list of edits, got an empty one"
            )
        seen: dict[str, Node] = {}
        for index, item in enumerate(items):
            path = f"edits[{index}]"
            keys = self.source.mapping(item, path, EDIT_KEYS, required=("id",))
            name = self.source.string(keys.get("id"), f"{path}.id")
            if name is None:
                continue
            if name in seen:
                message = f"row `{shown(name)}` is changed twice in this file"
                hint = f"the first is in line {seen[name].line}"
                self.source.note(item.at(self.source.file, path), "duplicate-row", message, hint)
                continue
            seen[name] = item
            if self.edit(name, replace(item, value=keys), keys, path):
                yield Change(name, item.at(self.source.file, path), item.plain())

    def edit(self, name: str, item: Node, keys: Mapping[str, Node], path: str) -> bool:
        """Apply one edit; False when it is wrong, and noted. What is wrong with a row itself, its reader tells."""
        here = self.find(name)
        anchors = [key for key in ANCHORS if key in keys]
        if len(anchors) > 1:
            self.note(item, path, "one-anchor", "wanted one of `before` and `after`, got both")
            return False
        if "disable" in keys:
            return self.disable(name, item, keys, path)
        if not anchors:
            return self.exchange(name, item, path)
        at = self.anchor(keys[anchors[0]], f"{path}.{anchors[0]}", anchors[0], name)
        if at is None:
            return False
        acting = any(action in keys for action in ACTIONS)
        return self.insert(here, name, item, path, at) if acting else self.move(here, item, keys, path, at)

    def disable(self, name: str, item: Node, keys: Mapping[str, Node], path: str) -> bool:
        """Take a row out."""
        if self.source.boolean(keys["disable"], f"{path}.disable") is not True:
            if keys["disable"].value is False:
                self.note(keys["disable"], path, "bad-value", "`disable`: wanted true, got false", "leave the edit out")
            return False
        more = [key for key in keys if key not in _STANDING_ALONE]
        if more:
            self.note(item, path, "disabled-row", f"row `{name}` is disabled, so `{more[0]}` says nothing")
            return False
        found = self.known(name, item, path)
        if found is None or not self.reasoned(item, keys, path):
            return False
        self.slots[found].disabled = True
        return True

    def reasoned(self, item: Node, keys: Mapping[str, Node], path: str) -> bool:
        """Whether an edit without a row of its own says why it is made, or note that it does not."""
        if "because" not in keys:
            self.note(item, path, "missing-key", "wanted the key `because`, which is not there")
        return "because" in keys

    def exchange(self, name: str, item: Node, path: str) -> bool:
        """Put a row in the place of the one of the same id."""
        found = self.known(name, item, path, "to put a new row in, say `before` or `after` which row")
        if found is not None:
            self.slots[found] = Slot(name, item)
        return found is not None

    def insert(self, here: int | None, name: str, item: Node, path: str, at: int) -> bool:
        """Put in a new row."""
        if here is not None:
            message = f"row `{name}` stands in table `{self.table}` already"
            hint = "to replace it, leave out the anchor; to move it, write `id`, the anchor and `because` alone"
            self.note(item, path, "duplicate-row", message, hint)
            return False
        self.slots.insert(at, Slot(name, _without(item, ANCHORS)))
        return True

    def move(self, here: int | None, item: Node, keys: Mapping[str, Node], path: str, at: int) -> bool:
        """Move a row; the edit's `because` is the reason for its new place."""
        more = [key for key in keys if key not in _MOVING_ALONE]
        if more:
            message = f"wanted an action beside `{more[0]}`, got none"
            self.note(item, path, "one-action", message, "a row that is only moved has `id`, its anchor and `because`")
            return False
        if here is None:
            self.known(str(keys["id"].value), item, path)
            return False
        if not self.reasoned(item, keys, path):
            return False
        slot = self.slots[here]
        if isinstance(slot.node.value, dict) and "because" in keys:
            slot.node = replace(slot.node, value={**slot.node.value, "because": keys["because"]})
        self.slots.insert(at, slot)
        del self.slots[here + (at <= here)]
        return True

    def anchor(self, node: Node, path: str, word: str, name: str) -> int | None:
        """Find where `before` or `after` a row is."""
        text = self.source.string(node, path)
        if text is None:
            return None
        if text == name:
            self.note(node, path, "bad-anchor", f"row `{shown(name)}` cannot stand {word} itself")
            return None
        found = self.known(text, node, path)
        return None if found is None else found + (word == "after")

    def known(self, name: str, node: Node, path: str, hint: str | None = None) -> int | None:
        """Find a row that must be there, or note that it is not, with the nearest id."""
        found = self.find(name)
        if found is None:
            near = nearest(name, [slot.id for slot in self.slots if slot.id])
            self.note(node, path, "unknown-row", f"no row `{shown(name)}` in table `{self.table}`", near or hint)
        return found

    def find(self, name: str) -> int | None:
        """Find a row by its id."""
        return next((index for index, slot in enumerate(self.slots) if slot.id == name), None)

    def note(self, node: Node, path: str, code: str, message: str, hint: str | None = None) -> None:
        """Note what is wrong with an edit."""
        self.source.note(node.at(self.source.file, path), code, message, hint)


def slots_of(table: Node) -> list[Slot]:
    """Give the rows of a table, to be edited."""
    rows = table.value.get("rows") if isinstance(table.value, dict) else None
    return [Slot(_id(row), row) for row in rows.value] if rows is not None and isinstance(rows.value, list) else []


def with_rows(table: Node, slots: Sequence[Slot]) -> Node:
    """Give a table with these rows, without the disabled ones."""
    rows = table.value.get("rows") if isinstance(table.value, dict) else None
    if rows is None or not isinstance(table.value, dict) or not isinstance(rows.value, list):
        return table
    kept = [slot.node for slot in slots if not slot.disabled]
    return replace(table, value={**table.value, "rows": replace(rows, value=kept)})


def _id(row: Node) -> str | None:
    name = row.value.get("id") if isinstance(row.value, dict) else None
    return name.value if name is not None and isinstance(name.value, str) else None


def _without(item: Node, keys: tuple[str, ...]) -> Node:
    content = item.value if isinstance(item.value, dict) else {}
    return replace(item, value={name: child for name, child in content.items() if name not in keys})
