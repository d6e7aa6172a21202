"""Rule files laid over each other: tables row by row or whole, words, backends, roles and models entry by entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from selector.rule_files import RuleFile
from selector.rules.edits import Slot, TableEdits, slots_of, with_rows
from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place, Problem, listing, nearest, shown

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "vocabulary": ("facts", "derived", "sets", "packages"),
    "backends": ("backends", "providers"),
    "roles": ("roles",),
    "models": ("models",),
    "warnings": ("warnings",),
}
_IDENTIFIED_BY = {"models": "names", "warnings": "id"}


@dataclass(slots=True)
class Layers:
    """The nodes of every file by what they hold (`vocabulary`, …, or a table's name), each with its file's name.

    `notices` tell where one overlay undoes what another one did: the later one wins, and nothing is silent about it.
    """

    nodes: dict[str, tuple[str, Node]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notices: list[Problem] = field(default_factory=list)
    changed: dict[tuple[str, str], tuple[Place, object]] = field(default_factory=dict)
    slots: dict[str, list[Slot]] = field(default_factory=dict)

    def lay(self, file: RuleFile, *, shipped: bool) -> None:
        """Lay one file over those before it."""
        kind = file.kind
        if file.whole or kind not in self.nodes:
            self.replaced(file, shipped=shipped)
            self.slots.pop(kind, None)
            self.nodes[kind] = (file.name, file.node)
            return
        name, base = self.nodes[kind]
        source = Source(file.name, self.problems)
        if kind not in SECTIONS:
            slots = self.slots.setdefault(kind, slots_of(base))
            for change in TableEdits(source, kind, slots).apply(file.node):
                self.change(kind, f"row `{change.row}` of table `{kind}`", change.place, change.content)
            node = with_rows(base, slots)
        else:
            node = _Entries(source, kind, self.change).lay(base, file.node)
        self.nodes[kind] = (name, node)

    def change(self, kind: str, what: str, place: Place, content: object) -> None:
        """Take note of what an overlay changed, and tell where an earlier one had changed it to something else."""
        earlier = self.changed.get((kind, what))
        if earlier is not None and earlier[1] != content:
            message = f"{what} is changed by {earlier[0]} too, which no longer counts"
            self.notices.append(Problem(place, "changed-twice", message))
        self.changed[kind, what] = (place, content)

    def replaced(self, file: RuleFile, *, shipped: bool) -> None:
        """Take note of a kind that is replaced whole, and tell of earlier overlays that this undoes."""
        if shipped:
            return
        place, content = file.node.at(file.name), file.node.plain()
        for (kind, what), (found, before) in self.changed.items():
            if kind == file.kind and before != content:
                message = f"`{kind}` is replaced whole, so what {found} says of {what} no longer counts"
                self.notices.append(Problem(place, "changed-twice", message))
        self.changed = {key: value for key, value in self.changed.items() if key[0] != file.kind}
        self.changed[file.kind, f"`{file.kind}`"] = (place, content)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Lays the entries of one file over those of the same kind."""

    source: Source
    kind: str
    change: Callable[[str, str, Place, object], None]

    def lay(self, base: Node, over: Node) -> Node:
        """Give the base with the entries of `over` added, put in place of others, or taken out."""
        if not isinstance(base.value, dict) or not isinstance(over.value, dict):
            self.source.mapping(over, "", None)
            return base
        if not over.value:
            wanted = listing(SECTIONS[self.kind])
            self.source.note(
                over.at(self.source.file), "empty", f"wanted at least one of {wanted}, got an empty mapping"
            )
        content = dict(base.value)
        for section, node in self.source.mapping(over, "", SECTIONS[self.kind]).items():
            content[section] = self.section(section, content.get(section), node)
        return replace(base, value=content)

    def section(self, section: str, base: Node | None, over: Node) -> Node:
        """Lay one section; a value of the wrong type is left for the reader to tell."""
        if section in _IDENTIFIED_BY:
            if base is not None and isinstance(base.value, list) and isinstance(over.value, list):
                return replace(base, value=list(self.listed(section, base.value, over.value)))
            return over
        if base is None or not isinstance(base.value, dict) or not isinstance(over.value, dict):
            return over
        entries = dict(base.value)
        for name, child in over.value.items():
            self.entry(section, entries, name, child)
        return replace(base, value=entries)

    def entry(self, section: str, entries: dict[str, Node], name: str, child: Node) -> None:
        """Lay one entry of a mapping; null takes one out, `add` lets a set hold more."""
        place = child.key_at(self.source.file, f"{section}.{name}")
        more = child.value.get("add") if section == "sets" and isinstance(child.value, dict) else None
        if (child.value is None or more is not None) and name not in entries:
            message = f"no `{shown(name)}` in `{section}`"
            self.source.note(place, "unknown-entry", message, nearest(name, entries))
            return
        self.told(f"`{name}` of `{section}`", place, child)
        if child.value is None:
            del entries[name]
        elif more is not None:
            entries[name] = self.grown(entries[name], child, f"{section}.{name}")
        else:
            entries[name] = child

    def grown(self, base: Node, child: Node, path: str) -> Node:
        """Give a set with more values."""
        keys = self.source.mapping(child, path, ("add",))
        values = base.value.get("values") if isinstance(base.value, dict) else None
        if values is None or not isinstance(base.value, dict) or not isinstance(values.value, list):
            return base
        more = self.source.items(keys.get("add"), f"{path}.add")
        return replace(base, value={**base.value, "values": replace(values, value=[*values.value, *more])})

    def listed(self, section: str, base: list[Node], over: list[Node]) -> Iterator[Node]:
        """Lay a list whose entries are known by a name of theirs, or by several."""
        key = _IDENTIFIED_BY[section]
        kept: list[tuple[set[str], Node]] = [(_names(item, key), item) for item in base]
        added: list[Node] = []
        for index, item in enumerate(over):
            names = _names(item, key)
            for name in sorted(names):
                self.told(f"`{name}` of `{section}`", item.at(self.source.file, f"{section}[{index}]"), item)
            if self.disabled(item, section, index):
                kept = self.taken_out(kept, names, item, section)
                continue
            same = next((at for at, (known, _) in enumerate(kept) if names and known == names), None)
            if same is not None:
                kept[same] = (names, item)
                continue
            kept = [
                (known - names, _rest(node, key, known & names)) for known, node in kept if not known or known - names
            ]
            added.append(item)
        yield from (node for _, node in kept)
        yield from added

    def disabled(self, item: Node, section: str, index: int) -> bool:
        """Whether an entry of a list only says that the one of its id is to go."""
        path = f"{section}[{index}]"
        node = item.value.get("disable") if isinstance(item.value, dict) else None
        if node is None or self.source.boolean(node, f"{path}.disable") is not True:
            return False
        key = _IDENTIFIED_BY[section]
        self.source.mapping(item, path, (key, "disable"), required=(key,))
        return True

    def taken_out(
        self, kept: list[tuple[set[str], Node]], names: set[str], item: Node, section: str
    ) -> list[tuple[set[str], Node]]:
        """Leave out the entry of that name, or note that there is none."""
        known = {name for ids, _ in kept for name in ids}
        for name in sorted(names - known):
            message = f"no `{shown(name)}` in `{section}`"
            self.source.note(item.at(self.source.file, section), "unknown-entry", message, nearest(name, known))
        key = _IDENTIFIED_BY[section]
        left = [(ids - names, _rest(node, key, ids & names), ids) for ids, node in kept]
        return [(ids, node) for ids, node, before in left if ids or not before]

    def told(self, what: str, place: Place, child: Node) -> None:
        """Tell what this file changes."""
        self.change(self.kind, what, place, child.plain())


def _names(item: Node, key: str) -> set[str]:
    node = item.value.get(key) if isinstance(item.value, dict) else None
    if node is None:
        return set()
    found = node.value if isinstance(node.value, list) else [node]
    return {name.value for name in found if isinstance(name.value, str)}


def _rest(node: Node, key: str, taken: set[str]) -> Node:
    """Give an entry without the names that another one has taken."""
    names = node.value.get(key) if isinstance(node.value, dict) else None
    if not taken or names is None or not isinstance(names.value, list) or not isinstance(node.value, dict):
        return node
    left = [name for name in names.value if name.value not in taken]
    return replace(node, value={**node.value, key: replace(names, value=left)})
