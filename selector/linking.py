"""Rules read: every file with the words of the vocabulary, checked against each other, and put together."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from selector.catalog import CatalogReader
from selector.overlays import Layers
from selector.rule_files import FILES, TABLES, Finder, RuleTexts
from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place, Problem, TableError, nearest, shown
from selector.rules.tables import UNREADABLE, Row, Table, TableReader, problems_of_order
from selector.rules.vocabulary import Vocabulary
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary
from selector.ruleset import ENGINE_FACTS, ENTRIES, RuleSet


def read_rules(texts: Iterable[RuleTexts], finder: Finder, folders: tuple[str, ...]) -> RuleSet:
    """Lay the files over each other in their order, and link them. Raises `TableError` with every problem."""
    layers = Layers()
    for one in texts:
        for file in finder.files(one):
            layers.lay(file, shipped=one.shipped)
    if finder.problems:
        raise TableError(finder.problems)
    return link(layers, folders)


def link_content(content: Mapping[str, Node], folders: tuple[str, ...], notices: Iterable[Problem]) -> RuleSet:
    """Give the rule set of a content that was read before."""
    return link(Layers({kind: (node.file, node) for kind, node in content.items()}, notices=[*notices]), folders)


def link(layers: Layers, folders: tuple[str, ...]) -> RuleSet:
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
