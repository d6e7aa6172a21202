"""Finding rule files: what a folder holds, what a rule set in one file holds, and which kind each of it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from selector.rules.nodes import OF_RULES, Node
from selector.rules.problems import Place, Problem, ProblemsError, nearest, reason_of, shown
from selector.rules.text import parsed, read_bytes

TABLES = ("role_fallback", "platform_default", "explicit", "provider", "call")
FILES = ("vocabulary", "backends", "roles", "models", "warnings")
SUFFIXES = (".yaml", ".yml", ".json")
_MOST_LETTERS = 4096
_NAME = re.compile(r"[a-z][a-z0-9_-]*")


@dataclass(frozen=True, slots=True)
class RuleFile:
    """One file, or a part of a rule set in one file. `kind` is one of `FILES`, or a table's name.

    `whole` says that it stands for all of its kind; otherwise it is laid over what is there: edits of a table row by
    row, words, backends, roles and models entry by entry.
    """

    name: str
    kind: str
    node: Node
    whole: bool


class RuleText(NamedTuple):
    """A rule file as it was read. `name` is what it is called in places."""

    path: Path
    name: str
    data: bytes


class RuleTexts(NamedTuple):
    """The rule files of a folder in the order of their names, or (`rule_set`) a rule set in one file.

    `shipped` files stand for all of their kind.
    """

    texts: tuple[RuleText, ...]
    rule_set: bool
    shipped: bool


@dataclass(slots=True)
class Finder:
    """Reads folders and files; `problems` tells all that is wrong, `tables` are those known so far."""

    problems: list[Problem]
    tables: set[str]

    def texts(self, path: Path, *, shipped: bool = False, told: str | None = None) -> RuleTexts:
        """Read a folder, or a rule set in one file; `told` is what the folder is called in places."""
        rule_set = not shipped and _is_file(path)
        found = []
        for inner in [path] if rule_set else self.paths(path):
            name = f"{told}/{inner.name}" if told else shown(str(inner), _MOST_LETTERS)
            try:
                found.append(RuleText(inner, name, read_bytes(inner, name, OF_RULES)))
            except ProblemsError as error:
                self.problems.extend(error.problems)
        return RuleTexts(tuple(found), rule_set, shipped)

    def files(self, read: RuleTexts) -> Iterator[RuleFile]:
        """Give the files of a folder, or the parts of a rule set in one file."""
        found: dict[str, str] = {}
        for path, name, data in read.texts:
            try:
                node = parsed(data, path.suffix, name, OF_RULES)
            except ProblemsError as error:
                self.problems.extend(error.problems)
                continue
            if read.rule_set:
                yield from self.rule_set(node, name)
                continue
            kind = path.stem.rpartition(".")[2]
            file = RuleFile(name, kind, node, whole=read.shipped) if kind in FILES else self.table(node, name)
            if file is None:
                continue
            if file.whole and file.kind in found:
                message = f"table `{file.kind}` stands in {found[file.kind]} too"
                self.note(node.at(name), "duplicate-table", message)
            if file.whole:
                found[file.kind] = name
            yield file

    def paths(self, folder: Path) -> list[Path]:
        """List the rule files of a folder."""
        where = Place(shown(str(folder), _MOST_LETTERS))
        try:
            found = sorted(path for path in folder.iterdir() if path.suffix.lower() in SUFFIXES)
        except (OSError, ValueError) as error:
            message = f"cannot read the rules folder: {reason_of(error)}"
            self.problems.append(Problem(where, "unreadable", message))
            return []
        if not found:
            self.problems.append(Problem(where, "no-rules", "the rules folder holds no rule file (*.yaml)"))
        return found

    def table(self, node: Node, name: str) -> RuleFile | None:
        """Give a table, or edits of one."""
        keys = _mapping(node)
        table = keys.get("table")
        if table is None:
            message = f"wanted a rule table (a mapping with the key `table`) or one of {', '.join(FILES)} as file name"
            self.note(node.at(name), "unknown-file", message, nearest(Path(name).stem, FILES))
            return None
        whole = "edits" not in keys
        if not whole and "rows" in keys:
            message = "wanted `rows` (the whole table) or `edits` (changes to it), got both"
            self.note(keys["edits"].key_at(name, "edits"), "rows-and-edits", message)
            return None
        kind = self.table_name(table, keys.get("new"), name, whole=whole)
        if kind is None:
            return None
        content = {key: child for key, child in keys.items() if key != "new"}
        return RuleFile(name, kind, replace(node, value=content), whole)

    def table_name(self, table: Node, new: Node | None, name: str, *, whole: bool) -> str | None:
        """Give the name of the table that a file is about; one of the user's own says that it is new."""
        kind = table.value if isinstance(table.value, str) else shown(table.plain())
        if new is not None and (new.value is not True or not whole or kind in self.tables):
            message = f"`new`: wanted true for a table that is not there yet, with `rows`, got `{shown(new.plain())}`"
            hint = "leave it out" if kind in self.tables else None
            self.note(new.at(name, "new"), "bad-value", message, hint)
            return None
        if kind not in self.tables and new is None:
            hint = nearest(table.value, self.tables) or "a table of your own says `new: true`"
            self.note(table.at(name), "unknown-table", f"no table `{shown(kind)}`", hint)
            return None
        if not _NAME.fullmatch(kind):
            message = f"`{shown(kind)}` is no name for a table: wanted small letters, digits, `_` and `-`"
            self.note(table.at(name), "bad-name", message)
            return None
        self.tables.add(kind)
        return kind

    def rule_set(self, node: Node, name: str) -> Iterator[RuleFile]:
        """Give the parts of a rule set in one file, each whole."""
        keys = _mapping(node)
        known = [key for key in keys if key in (*FILES, "tables")]
        if len(known) != len(keys) or not keys:
            unknown = next((key for key in keys if key not in known), None)
            message = f"no key `{shown(unknown)}` in a rule set" if unknown else "wanted a rule set (a mapping)"
            place = keys[unknown].key_at(name, unknown) if unknown else node.at(name)
            hint = (nearest(unknown, (*FILES, "tables")) if unknown else None) or "a folder holds single rule files"
            self.note(place, "unknown-key", message, hint)
        for kind in known:
            if kind != "tables":
                yield RuleFile(name, kind, keys[kind], whole=True)
                continue
            tables = keys[kind].value
            for table, child in tables.items() if isinstance(tables, dict) else ():
                named = replace(child, value={"table": replace(child, value=table), **_mapping(child)})
                file = self.table(named, name)
                if file is not None:
                    yield file
            if not isinstance(tables, dict):
                self.note(keys[kind].at(name, kind), "wrong-type", "`tables`: wanted a mapping of tables")

    def note(self, place: Place, code: str, message: str, hint: str | None = None) -> None:
        """Note a problem."""
        self.problems.append(Problem(place, code, message, hint))


def _mapping(node: Node) -> dict[str, Node]:
    return node.value if isinstance(node.value, dict) else {}


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False
