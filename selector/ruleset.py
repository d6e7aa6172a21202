"""A rule set: every rule file of one or more folders, read, linked and checked as a whole, or refused as a whole."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from selector import data
from selector.catalog import Backend, CatalogReader, Caution, Model, Provider, Roles
from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place, Problem, ProblemsError, TableError, nearest, shown
from selector.rules.tables import UNREADABLE, Row, Table, TableReader, problems_of_order
from selector.rules.text import read_file
from selector.rules.vocabulary import Vocabulary
from selector.rules.walk import Abilities
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary

TABLES = ("role_fallback", "platform_default", "explicit", "provider", "call")
FILES = ("vocabulary", "backends", "roles", "models", "warnings")
ENTRIES = ("role", "category", "default", "platform")
_ENGINE_FACTS = (
    "platform", "arch", "cudnn", "role", "role_category", "model", "head_dim", "mask_free", "dtype", "causal",
    "causal_alignment", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv", "compile", "mask", "mask_per_head",
    "backend", "policy", "configured.role", "configured.category", "configured.default",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Everything that decides, immutable. `digest` names the content: equal digests give equal decisions."""

    vocabulary: Vocabulary
    tables: Mapping[str, Table]
    backends: Mapping[str, Backend]
    providers: Mapping[str, Provider]
    models: Mapping[str, Model]
    roles: Roles
    warnings: tuple[Caution, ...]
    abilities: Mapping[str, Abilities]
    digest: str
    folders: tuple[str, ...]

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


def load_rules(folders: Sequence[str | Path] = ()) -> RuleSet:
    """Load the shipped rules with the files of `folders` in place of the shipped ones of the same table or kind.

    A later folder goes before an earlier one. Raises `TableError` with every problem of every file at once.
    """
    base = data.folder("rules")
    files = _Files()
    for folder in [base, *map(Path, folders)]:
        files.add(folder, shipped=folder is base)
    files.check()
    return _link(files, tuple(str(folder) for folder in folders))


@dataclass(slots=True)
class _Files:
    """The nodes of every file by what they hold (`vocabulary`, …, or a table's name), each with its name."""

    nodes: dict[str, tuple[str, Node]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)

    def add(self, folder: Path, *, shipped: bool) -> None:
        found: dict[str, str] = {}
        for path in self.paths(folder):
            name = f"rules/{path.name}" if shipped else shown(str(path), 4096)
            try:
                node = read_file(path, name)
            except ProblemsError as error:
                self.problems.extend(error.problems)
                continue
            kind = path.stem if path.stem in FILES else self.table_name(node, name)
            if kind is None:
                continue
            if kind in found:
                message = f"table `{kind}` stands in {found[kind]} too"
                self.problems.append(Problem(node.at(name), "duplicate-table", message))
            found[kind] = name
            self.nodes[kind] = (name, node)

    def paths(self, folder: Path) -> list[Path]:
        try:
            found = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".yaml", ".yml", ".json"))
        except (OSError, ValueError) as error:
            said = getattr(error, "strerror", None) or str(error)
            self.problems.append(
                Problem(Place(shown(str(folder), 4096)), "unreadable", f"cannot read the rules folder: {said.lower()}")
            )
            return []
        if not found:
            message = "the rules folder holds no rule file (*.yaml)"
            self.problems.append(Problem(Place(str(folder)), "no-rules", message))
        return found

    def table_name(self, node: Node, name: str) -> str | None:
        table = node.value.get("table") if isinstance(node.value, dict) else None
        if table is None:
            message = f"wanted a rule table (a mapping with the key `table`) or one of {', '.join(FILES)} as file name"
            self.problems.append(Problem(node.at(name), "unknown-file", message, nearest(Path(name).stem, FILES)))
            return None
        if table.value not in TABLES:
            message = f"no table `{shown(table.plain())}`"
            self.problems.append(Problem(table.at(name), "unknown-table", message, nearest(table.value, TABLES)))
            return None
        return str(table.value)

    def check(self) -> None:
        if self.problems:
            raise TableError(self.problems)


def _link(files: _Files, folders: tuple[str, ...]) -> RuleSet:
    """Read every file with the words of the vocabulary, check them against each other, and put them together."""
    problems: list[Problem] = []
    name, node = files.nodes["vocabulary"]
    vocabulary = read_vocabulary(node, Source(name, problems))
    problems.extend(_missing_words(vocabulary, name))
    vocabulary = _with_backend_names(vocabulary, files.nodes["backends"][1])
    readers = {kind: Reader(vocabulary, Source(name, problems)) for kind, (name, _) in files.nodes.items()}
    rules = _assemble({kind: node for kind, (_, node) in files.nodes.items()}, readers, _digest(files), folders)
    for table in rules.tables.values():
        problems.extend(_problems_of(table, rules))
    problems.extend(_provider_problems(rules))
    if not problems:
        problems.extend(_cycles(rules))
    if problems:
        raise TableError(problems)
    return rules


def _assemble(
    nodes: Mapping[str, Node], readers: Mapping[str, Reader], digest: str, folders: tuple[str, ...]
) -> RuleSet:
    catalog = {kind: CatalogReader(readers[kind]) for kind in FILES}
    backends, providers = catalog["backends"].backends(nodes["backends"])
    models = catalog["models"].models(nodes["models"])
    tables = (TableReader(readers[name]).read(nodes[name]) for name in TABLES)
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
        digest=digest,
        folders=folders,
    )


def _digest(files: _Files) -> str:
    content = {kind: node.plain() for kind, (_, node) in files.nodes.items()}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _missing_words(vocabulary: Vocabulary, name: str) -> Iterator[Problem]:
    for fact in _ENGINE_FACTS:
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
    known: Mapping[str, object] = {"backends": rules.backends, "providers": rules.providers}.get(
        table.targets, dict.fromkeys(ENTRIES)
    )
    always = []
    if table.targets == UNREADABLE:
        return
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
