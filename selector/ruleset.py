"""A rule set: every rule file of one or more folders, read, linked and checked as a whole, or refused as a whole."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from selector import data
from selector.catalog import Backend, Caution, Model, Provider, Roles
from selector.prepared import Prepared
from selector.rule_files import TABLES, Finder
from selector.rules.conditions import Condition
from selector.rules.deciding import Decider
from selector.rules.nodes import Node
from selector.rules.problems import Problem
from selector.rules.tables import Table
from selector.rules.vocabulary import Vocabulary
from selector.rules.walk import Abilities

ENTRIES = ("role", "category", "default", "platform")
ENGINE_FACTS = (
    "platform", "arch", "cudnn", "role", "role_category", "model", "head_dim", "mask_free", "dtype", "causal",
    "causal_alignment", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "compile", "mask", "mask_per_head",
    "backend", "policy", "configured.role", "configured.category", "configured.default",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Everything that decides, immutable. `digest` names the content: equal digests give equal decisions.

    `folders` were laid over the shipped rules, and `notices` tell where one of them undid what another one did.
    `content` is what was read, by table and kind, each value with its file and line.
    """

    vocabulary: Vocabulary
    tables: Mapping[str, Table]
    backends: Mapping[str, Backend]
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    roles: Roles
    warnings: tuple[Caution, ...]
    abilities: Mapping[str, Abilities]
    digest: str
    folders: tuple[str, ...] = ()
    notices: tuple[Problem, ...] = ()
    content: Mapping[str, Node] = field(default_factory=dict, repr=False, compare=False)
    _deciders: dict[str, Decider] = field(default_factory=dict, init=False, repr=False, compare=False)
    _prepared: list[Prepared] = field(default_factory=list, init=False, repr=False, compare=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the content be pickled, which is read again: conditions hold functions."""
        return _from_content, (self.digest, self.content, self.folders, self.notices)

    def __deepcopy__(self, memo: dict[int, object]) -> RuleSet:
        """Give the set itself: nothing of it changes."""
        return self

    def table(self, name: str) -> Table:
        """Give one of the tables."""
        return self.tables[name]

    def conditions(self) -> Iterator[Condition]:
        """Give every condition on which a decision may depend."""
        for table in self.tables.values():
            yield from (row.when for row in table.rows)
        for needs in self.abilities.values():
            yield from needs.values()
        for cautions in (self.warnings, *(backend.unverified for backend in self.backends.values())):
            yield from (caution.when for caution in cautions)

    def decider(self, name: str) -> Decider:
        """Give one of the tables with what its targets need, ready to be asked."""
        found = self._deciders.get(name)
        if found is None:
            table = self.tables[name]
            found = self._deciders[name] = Decider(table, self.abilities.get(table.targets, {}), self.vocabulary)
        return found

    @property
    def prepared(self) -> Prepared:
        """What is worked out of the rules once."""
        if not self._prepared:
            self._prepared.append(Prepared(self))
        return self._prepared[0]

    def named(self, name: str) -> str | None:
        """Give the backend of that name, letter case aside; None when there is none."""
        upper = name.upper() if name.isascii() else name
        return upper if upper in self.backends else None


@functools.lru_cache(maxsize=8)
def shipped() -> RuleSet:
    """Load the rules that come with the product."""
    return load_rules()


def load_rules(folders: Sequence[str | Path] = (), base: Path | None = None) -> RuleSet:
    """Load the shipped rules with the files of `folders` laid over them, in the order in which they are given.

    A file with `edits` changes a table row by row, one with `rows` stands for the whole table; entries of the other
    files are added, or replace those of the same name. In place of a folder, one file may hold a whole rule set. Where
    two of them change the same thing, the later one wins, and `notices` of the result tells it.

    A set that was read before is taken from the user's cache folder (see `selector.stored_rules`).
    `base` is a folder that holds every kind of file, in place of the shipped one. Raises `TableError` with every
    problem of every file at once.
    """
    from selector import stored_rules  # names what it stores, and so this module

    finder = Finder([], set(TABLES))
    first = base or data.folder("rules")
    texts = [finder.texts(first, shipped=True, told="rules" if base is None else None)]
    texts += [finder.texts(Path(folder)) for folder in folders]
    names = tuple(map(str, folders))
    key = None if finder.problems else stored_rules.key_of(texts, names)
    found = None if key is None else stored_rules.recall(key)
    if found is not None:
        return found
    from selector.linking import read_rules  # only where something is read

    rules = read_rules(texts, finder, names)
    if key is not None:
        stored_rules.keep(key, rules)
    return rules


def _from_content(
    digest: str, content: Mapping[str, Node], folders: tuple[str, ...], notices: tuple[Problem, ...]
) -> RuleSet:
    """Give the rule set of a content that was read before; the shipped one is the one that all share."""
    if digest == shipped().digest and not folders:
        return shipped()
    from selector.linking import link_content

    return link_content(content, folders, notices)
