"""Rule tables: ordered rows, each a condition, one action and the reason for its place."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from selector.rules.conditions import ALWAYS, Condition
from selector.rules.fields import Source, kind_of
from selector.rules.nodes import Node
from selector.rules.problems import Place, Problem, listing, nearest, shown
from selector.rules.vocabulary import Value, Vocabulary
from selector.rules.when import Reader

TARGETS = ("backends", "providers")
UNREADABLE = "?"
ACTIONS = ("use", "substitute", "refuse", "entry")
ROW_KEYS = ("id", "when", *ACTIONS, "because", "log", "warn", "redecide", "transform", "until", "source")
_TABLE_KEYS = ("table", "description", "targets", "actions", "requires", "rows")
_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*\Z")
_FIELD = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `target` is what the action names; ``{fact}`` stands for the value of that fact.

    `conditional` tells that a `when` is written, even one that could not be read. `read_from` is the fact whose value
    is the target (``{backend}``), None when the target is written out.
    """

    table: str
    id: str
    when: Condition
    conditional: bool
    action: str
    target: str
    because: str
    place: Place
    log: str | None = None
    warn: str | None = None
    transform: str | None = None
    redecide: Mapping[str, Value] = field(default_factory=dict)
    until: str | None = None
    source: str | None = None
    read_from: str | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Look which fact names the target."""
        match = _FIELD.fullmatch(self.target) if "{" in self.target else None
        object.__setattr__(self, "read_from", match[1] if match else None)

    @property
    def name(self) -> str:
        """``table/row-id``."""
        return f"{self.table}/{self.id}"

    def target_for(self, facts: Mapping[str, Value]) -> str:
        """Give the target for these facts."""
        fact = self.read_from
        return str(facts[fact]) if fact else self.target


@dataclass(frozen=True, slots=True)
class Table:
    """An ordered table; the first row that holds wins, and the last one always does."""

    name: str
    description: str
    targets: str
    requires: tuple[str, ...]
    rows: tuple[Row, ...]
    place: Place


@functools.lru_cache(maxsize=1024)
def fields(template: str) -> frozenset[str]:
    """Name the facts whose values a template shows."""
    return frozenset(_FIELD.findall(template))


def fill(template: str, facts: Mapping[str, Value], vocabulary: Vocabulary) -> str:
    """Put the values of facts into a template; null and unknown are written in words."""
    if "{" not in template:
        return template

    def word(match: re.Match[str]) -> str:
        name = match[1]
        if name not in facts:
            return "unknown"
        value = facts[name]
        return vocabulary.facts[name].null_word if value is None else shown(value)

    return _FIELD.sub(word, template)


@dataclass(slots=True)
class TableReader:
    """Reads one table from its nodes; problems are collected and reading goes on."""

    reader: Reader
    table: str = ""
    actions: Sequence[str] = ACTIONS

    @property
    def source(self) -> Source:
        """The file being read."""
        return self.reader.source

    def read(self, node: Node) -> Table | None:
        """Give the table, or None when it is not even a table; `reader.problems` tells all that is wrong."""
        keys = self.source.mapping(node, "", _TABLE_KEYS, required=("table", "rows"))
        if "table" not in keys or "rows" not in keys:
            return None
        self.table = self.source.string(keys["table"], "table") or ""
        self.actions = tuple(self.source.strings(keys.get("actions"), "actions", ACTIONS)) or ACTIONS
        requires = tuple(self.source.strings(keys.get("requires"), "requires", self.reader.vocabulary.facts))
        description = self.source.string(keys.get("description"), "description") or ""
        targets = self.source.choice(keys.get("targets"), "targets", TARGETS) or (
            UNREADABLE if "targets" in keys else ""
        )
        rows = self.rows(keys["rows"])
        return Table(self.table, description, targets, requires, tuple(rows), node.at(self.source.file))

    def rows(self, node: Node) -> list[Row]:
        """Read the list of rows."""
        if not isinstance(node.value, list) or not node.value:
            message = f"wanted a list of rows, got {kind_of(node) if node.value else 'an empty one'}"
            self.source.note(node.at(self.source.file, "rows"), "wrong-type", message)
            return []
        rows: dict[str, Row] = {}
        for index, item in enumerate(node.value):
            row = self.row(item, f"rows[{index}]")
            if row is None:
                continue
            if row.id in rows:
                message = f"row `{row.id}` stands twice in table `{self.table}`"
                hint = f"the first is in line {rows[row.id].place.line}"
                self.source.note(item.at(self.source.file), "duplicate-row", message, hint)
            rows[row.id] = row
        return list(rows.values())

    def row(self, node: Node, path: str) -> Row | None:
        """Read one row; what is wrong with it is noted, and None says that it is no row at all."""
        keys = self.source.mapping(node, path, ROW_KEYS, required=("id", "because"))
        if not isinstance(node.value, dict):
            return None
        name = self.name(keys.get("id"), f"{path}.id") or path
        when = self.reader.when(keys["when"], f"{self.table}/{name}") if "when" in keys else ALWAYS
        action, target = self.action(node, keys, path)
        text = {
            key: self.source.string(keys.get(key), f"{path}.{key}")
            for key in ("because", "until", "source", "transform")
        }
        log, warn = (self.template(keys.get(key), f"{path}.{key}") for key in ("log", "warn"))
        place = node.at(self.source.file, path)
        return Row(
            self.table, name, when, "when" in keys, action, target, text["because"] or "", place, log,
            warn, text["transform"], self.redecide(keys.get("redecide"), path), text["until"], text["source"],
        )  # fmt: skip

    def name(self, node: Node | None, path: str) -> str | None:
        """Read the id of a row."""
        name = self.source.string(node, path)
        if node is not None and name is not None and not _ID.match(name):
            message = f"row id `{shown(name)}` is not kebab-case (small letters, digits and single hyphens)"
            self.source.note(node.at(self.source.file, path), "bad-id", message)
        return name

    def action(self, node: Node, keys: Mapping[str, Node], path: str) -> tuple[str, str]:
        """Read the one action of a row; both are empty when there is none that could be read."""
        given = [name for name in ACTIONS if name in keys]
        if len(given) != 1:
            written = node.value if isinstance(node.value, dict) else {}
            meant = {nearest(name, ROW_KEYS) for name in written if name not in ROW_KEYS}
            if given or not meant & {f"did you mean `{action}`?" for action in ACTIONS}:
                message = f"wanted exactly one of {listing(self.actions)}, got {listing(given) if given else 'none'}"
                self.source.note(node.at(self.source.file, path), "one-action", message)
            return "", ""
        if given[0] not in self.actions:
            message = f"rows of table `{self.table}` do not `{given[0]}`: wanted one of {listing(self.actions)}"
            self.source.note(keys[given[0]].key_at(self.source.file, path), "wrong-action", message)
        target = self.template(keys[given[0]], f"{path}.{given[0]}")
        return (given[0], target) if target is not None else ("", "")

    def template(self, node: Node | None, path: str) -> str | None:
        """Read a text in which ``{fact}`` stands for a value."""
        text = self.source.string(node, path)
        if text is None or node is None:
            return None
        unknown = [name for name in _FIELD.findall(text) if name not in self.reader.vocabulary.facts]
        for name in unknown:
            if name not in self.reader.vocabulary.broken:
                hint = nearest(name, self.reader.vocabulary.facts)
                self.source.note(
                    node.at(self.source.file, path), "unknown-fact", f"no fact `{shown(name)}` for the template", hint
                )
        return None if unknown else text

    def redecide(self, node: Node | None, path: str) -> dict[str, Value]:
        """Read the facts that a refused default takes for granted when the decision is made again."""
        if node is None:
            return {}
        keys = self.source.mapping(node, f"{path}.redecide", self.reader.vocabulary.facts)
        found: dict[str, Value] = {}
        for name, child in keys.items():
            misfit = self.reader.vocabulary.facts[name].misfit(child.value)
            if misfit is not None:
                self.source.note(child.at(self.source.file, path), "bad-value", misfit.message, misfit.hint)
            elif isinstance(child.value, str | int | bool):
                found[name] = child.value
        return found


def problems_of_order(table: Table, always: Sequence[Row]) -> list[Problem]:
    """Find what is wrong with the order of a table: no last resort, or rows behind one that always holds."""
    found = []
    if table.rows and table.rows[-1].conditional:
        message = f"table `{table.name}` has no last resort: wanted a last row without `when`"
        found.append(Problem(table.rows[-1].place, "no-last-resort", message))
    for row in table.rows[:-1]:
        if not row.conditional and row in always:
            message = f"row `{row.id}` always holds, so the rows behind it never fire"
            found.append(Problem(row.place, "unreachable", message, "give it a `when`, or make it the last row"))
    return found
