"""A rule set: every rule file of one or more folders, read, linked and checked as a whole, or refused as a whole."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from selector import data
from selector.catalog import Backend, CatalogReader, Caution, Model, Provider, Roles
from selector.overlays import Layers
from selector.rule_files import FILES, TABLES, Finder
from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place, Problem, TableError, nearest, shown
from selector.rules.tables import UNREADABLE, Row, Table, TableReader, problems_of_order
from selector.rules.vocabulary import Vocabulary
from selector.rules.walk import Abilities
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary

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

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the content be pickled, which is read again: conditions hold functions."""
        return _from_content, (self.digest, self.content, self.folders, self.notices)

    def __deepcopy__(self, memo: dict[int, object]) -> RuleSet:
        """Give the set itself: nothing of it changes."""
        return self

    def table(self, name: str) -> Table:
        """Give one of the tables."""
        return self.tables[name]

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

    `base` is a folder that holds every kind of file, in place of the shipped one. Raises `TableError` with every
    problem of every file at once.
    """
    layers = Layers()
    finder = Finder([], set(TABLES))
    first = base or data.folder("rules")
    for folder in [first, *map(Path, folders)]:
        told = "rules" if folder is first and base is None else None
        for file in finder.files(folder, shipped=folder is first, told=told):
            layers.lay(file, shipped=folder is first)
    if finder.problems:
        raise TableError(finder.problems)
    return _link(layers, tuple(str(folder) for folder in folders))


def _from_content(
    digest: str, content: Mapping[str, Node], folders: tuple[str, ...], notices: tuple[Problem, ...]
) -> RuleSet:
    """Give the rule set of a content that was read before; the shipped one is the one that all share."""
    if digest == shipped().digest and not folders:
        return shipped()
    return _link(Layers({kind: (node.file, node) for kind, node in content.items()}, notices=[*notices]), folders)


def _link(layers: Layers, folders: tuple[str, ...]) -> RuleSet:
    """Read every file with the words of the vocabulary, check them against each other, and put them together."""
    problems = layers.problems
    name, node = layers.nodes["vocabulary"]
    vocabulary = read_vocabulary(node, Source(name, problems))
    problems.extend(_missing_words(vocabulary, name))
    vocabulary = _with_backend_names(vocabulary, layers.nodes["backends"][1])
    readers = {kind: Reader(vocabulary, Source(name, problems)) for kind, (name, _) in layers.nodes.items()}
    rules = replace(_assemble(layers, readers), folders=folders, notices=tuple(layers.notices))
    for table in rules.tables.values():
        problems.extend(_problems_of(table, rules))
    problems.extend(_provider_problems(rules))
    if not problems:
        problems.extend(_cycles(rules))
    if problems:
        raise TableError(problems)
    return rules


def _assemble(layers: Layers, readers: Mapping[str, Reader]) -> RuleSet:
    nodes = {kind: node for kind, (_, node) in layers.nodes.items()}
    catalog = {kind: CatalogReader(readers[kind]) for kind in FILES}
    backends, providers = catalog["backends"].backends(nodes["backends"])
    models = catalog["models"].models(nodes["models"])
    tables = (TableReader(readers[name]).read(node) for name, node in nodes.items() if name not in FILES)
    return RuleSet(
        vocabulary=readers["vocabulary"].vocabulary,
        tables={table.name: table for table in tables if table is not None},
        backends=backends,
        providers=providers,
        models={name: model for model in models for name in model.names},
        roles=catalog["roles"].roles(nodes["roles"]),
        warnings=catalog["warnings"].warnings(nodes["warnings"]),
        abilities={
            "backends": {name: backend.ability for name, backend in backends.items()},
            "providers": {name: provider.ability for name, provider in providers.items()},
        },
        digest=_digest(nodes),
        content=nodes,
    )


def _digest(nodes: Mapping[str, Node]) -> str:
    content = {kind: node.plain() for kind, node in nodes.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _missing_words(vocabulary: Vocabulary, name: str) -> Iterator[Problem]:
    for fact in ENGINE_FACTS:
        if fact not in vocabulary.facts and fact not in vocabulary.broken:
            yield Problem(
                Place(name), "missing-fact", f"the fact `{fact}` must be declared: decisions are made with it"
            )


def _with_backend_names(vocabulary: Vocabulary, node: Node) -> Vocabulary:
    """Let the fact `backend` take the names of the backends file, so that a rule cannot ask for any other."""
    backends = node.value.get("backends") if isinstance(node.value, dict) else None
    if backends is None or not isinstance(backends.value, dict) or "backend" not in vocabulary.facts:
        return vocabulary
    fact = replace(vocabulary.facts["backend"], values=tuple(backends.value))
    facts = {**vocabulary.facts, "backend": fact}
    return Vocabulary(facts, vocabulary.sets, vocabulary.packages, vocabulary.derived, vocabulary.broken)


def _problems_of(table: Table, rules: RuleSet) -> Iterator[Problem]:
    always = []
    if table.targets == UNREADABLE:
        return
    known = _targets(table, rules)
    for row in table.rows:
        problems = list(_target_problems(row, table, known, rules.vocabulary))
        yield from problems
        if row.action and not problems and _always_fires(row, known):
            always.append(row)
    yield from problems_of_order(table, always)
    last = table.rows[-1] if table.rows else None
    if (
        last is not None
        and not last.conditional
        and last.action == "use"
        and last.target in known
        and last not in always
    ):
        message = f"the last row of table `{table.name}` uses `{last.target}`, which cannot run everywhere"
        yield Problem(last.place, "no-last-resort", message)


class _Anything:
    """What a row of a user's own table names; nothing is known that it needs."""

    conditional = False


def _targets(table: Table, rules: RuleSet) -> Mapping[str, object]:
    """Give what rows of a table may name; those of a user's own table that names neither name what they like."""
    if table.name not in TABLES and not table.targets:
        return dict.fromkeys((row.target for row in table.rows), _Anything())
    found: Mapping[str, Mapping[str, object]] = {"backends": rules.backends, "providers": rules.providers}
    return found.get(table.targets, dict.fromkeys(ENTRIES))


def _always_fires(row: Row, known: Mapping[str, object]) -> bool:
    """Whether a row without `when` holds for every fact: it does unless its target has needs of its own."""
    if row.action != "use":
        return True
    return row.read_from is None and not getattr(known.get(row.target), "conditional", True)


def _target_problems(row: Row, table: Table, known: Mapping[str, object], vocabulary: Vocabulary) -> Iterator[Problem]:
    if row.action in ("", "refuse"):
        return
    kind = {"backends": "backend", "providers": "provider"}.get(table.targets, "entry")
    fact = row.read_from
    if fact is None:
        if row.target not in known:
            yield Problem(row.place, f"unknown-{kind}", f"no {kind} `{shown(row.target)}`", nearest(row.target, known))
        return
    values = vocabulary.facts[fact].values
    if row.action == "substitute":
        message = f"row `{row.id}` substitutes `{row.target}`: wanted the name of a {kind}"
        yield Problem(row.place, "open-target", message)
    elif fact not in table.requires:
        message = f"row `{row.id}` takes its target from `{fact}`, which table `{table.name}` does not require"
        yield Problem(row.place, "target-not-required", message)
    elif not values or not set(values) <= set(known):
        message = f"row `{row.id}` takes its target from `{fact}`, whose values are not all names of a {kind}"
        yield Problem(row.place, "open-target", message)


def _provider_problems(rules: RuleSet) -> Iterator[Problem]:
    for backend in rules.backends.values():
        for name in backend.providers:
            owner = rules.providers[name].backend
            if owner and owner != backend.name:
                message = f"provider `{name}` belongs to `{owner}`, not to `{backend.name}`"
                yield Problem(backend.place, "wrong-provider", message)


def _cycles(rules: RuleSet) -> Iterator[Problem]:
    """Find substitutions that lead back to where they came from, over whatever backend a row may concern."""
    rows = [row for name in ("explicit", "call") for row in rules.tables[name].rows if row.action == "substitute"]
    edges = {
        name: [row for row in rows if row.read_from is None and row.when.holds({"backend": name}) is not False]
        for name in rules.backends
    }
    told: set[frozenset[str]] = set()
    for start in rules.backends:
        trail = _trail(start, start, edges)
        members = frozenset(row.name for row in trail)
        if trail and members not in told:
            told.add(members)
            names = " → ".join([start, *(row.target for row in trail)])
            message = f"substitutions lead back to where they began: {names}"
            yield Problem(trail[-1].place, "substitution-cycle", message)


def _trail(start: str, name: str, edges: Mapping[str, Sequence[Row]]) -> tuple[Row, ...]:
    """Find the shortest chain of rows that leads from `name` back to `start`, or nothing."""
    trails: dict[str, tuple[Row, ...]] = {name: ()}
    waiting = [name]
    for here in waiting:
        for row in edges.get(here, ()):
            if row.target == start:
                return (*trails[here], row)
            if row.target not in trails:
                trails[row.target] = (*trails[here], row)
                waiting.append(row.target)
    return ()
