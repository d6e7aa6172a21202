"""A decision as a tree: the answer, what it rests on, and the path through the tables row by row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from selector.decision import Decision
from selector.rendering import provenance
from selector.rendering.layout import WARNING, Branch, Note, Page
from selector.rendering.possible import possibilities
from selector.rendering.rows import read_with, walk_branch
from selector.rendering.text import words
from selector.rules.problems import shown
from selector.rules.vocabulary import PACKAGE_PREFIX, Value, Vocabulary
from selector.ruleset import RuleSet
from selector.tracing import Trace

_VERDICT: Mapping[str, str] = {"refused": "Refused", "invalid": "Invalid", "mutually_exclusive": "Mutually exclusive"}
_SHORT_DIGEST = 12


def render_tree(
    decision: Decision,
    trace: Trace,
    *,
    width: int,
    colour: bool,
    ascii: bool = False,  # noqa: A002 - named after what it asks for
    rules: RuleSet | None = None,
) -> str:
    """Draw a decision for a person, in lines of at most `width` columns (20 at least), each of them ended.

    A passed-over row shows wanted and got of all that stood in its way, with file and line; alternatives of an `any`
    are those nearest to holding. Names that the user wrote cannot steer the terminal. A decision read from JSON needs
    the rules it was made with: give them, or `ValueError` is raised.
    """
    branches = list(_branches(decision, trace, rules or decision.rules))
    root = Branch(words(answer(decision), "answer"), branches=branches)
    return Page(width, colour, ascii).draw(root)


def answer(decision: Decision) -> str:
    """Say what was decided in one sentence: the log line, or the error."""
    error = decision.error
    if error is None:
        return str(decision.log)
    message = error.message if len(error.problems) <= 1 else f"{len(error.problems)} problems"
    return f"{_VERDICT[error.code]}: {message}"


def _branches(decision: Decision, trace: Trace, rules: RuleSet | None) -> Iterator[Branch]:
    yield from _problems(decision)
    if decision.rule is not None:
        yield Branch(words(f"decided by: {_decided_by(decision)}"))
    yield from provenance.layers(trace)
    if rules is not None:
        yield from (Branch(words(line)) for line in basis(decision, rules.vocabulary))
    yield from warnings(decision)
    yield from (walk_branch(walk, known) for walk, known in read_with(decision, trace, rules))
    if rules is not None:
        yield from possibilities(decision, rules)
        yield from provenance.origins(trace, rules.vocabulary)
    missing = trace.missing()
    if missing:
        yield Branch(words(f"unknown, and it would matter: {', '.join(missing)}", "warning"))
    yield Branch(words(f"rules {decision.digest[:_SHORT_DIGEST]}", "quiet"))


def _problems(decision: Decision) -> Iterator[Branch]:
    """Give the problems of an input that is not valid; one alone is told by the answer, so only its place is left."""
    error = decision.error
    if error is None:
        return
    if len(error.problems) <= 1 and error.path:
        yield Branch(words(f"at: {error.path}"))
    elif len(error.problems) > 1:
        for problem in error.problems:
            hint = [Note(words(f"hint: {problem.hint}"))] if problem.hint else []
            line = words(f"{WARNING} {problem.place}: {problem.code}: {problem.message}", "warning")
            yield Branch(line, hint)


def _decided_by(decision: Decision) -> str:
    parts = [str(decision.rule)]
    if decision.provider:
        parts.append(f"provider {decision.provider}")
    if decision.transform:
        parts.append(f"transform: {decision.transform}")
    return "; ".join(parts)


def basis(decision: Decision, vocabulary: Vocabulary) -> Iterator[str]:
    """Give the known facts a line for each group: machine, packages, request, call and config."""
    facts = decision.facts
    machine = _known("machine", facts, vocabulary)
    packages = {
        name.removeprefix(PACKAGE_PREFIX): machine.pop(name) for name in [*machine] if name in _packages(vocabulary)
    }
    groups = {
        "machine": _listed(machine),
        "packages": _listed({name: version for name, version in packages.items() if version is not None}),
        "packages absent": ", ".join(name for name, version in packages.items() if version is None),
        "request": _listed(_known("request", facts, vocabulary)),
        "call": _listed(_known("call", facts, vocabulary)),
        "config": _listed(_config(decision, vocabulary)),
    }
    yield from (f"{name}: {line}" for name, line in groups.items() if line)


def _packages(vocabulary: Vocabulary) -> set[str]:
    return {PACKAGE_PREFIX + key for key in vocabulary.packages}


def _known(group: str, facts: Mapping[str, Value], vocabulary: Vocabulary) -> dict[str, Value]:
    return {fact.name: facts[fact.name] for fact in vocabulary.group.get(group, ()) if fact.name in facts}


def _config(decision: Decision, vocabulary: Vocabulary) -> dict[str, object]:
    """Give where the choice comes from, and what the config says beside the name of a backend."""
    known = _known("config", decision.facts, vocabulary)
    told: dict[str, object] = {name: value for name, value in known.items() if _telling(name, value)}
    if decision.source is not None:
        told = {"source": decision.source, "origin": decision.origin, **told}
    blocks = decision.spec.blocks() if decision.spec is not None else {}
    return told | {f"{block}.{name}": value for block, fields in blocks.items() for name, value in fields.items()}


def _telling(name: str, value: Value) -> bool:
    """Whether a fact of the config is worth a word: what is written, but not what the tree shows anyway."""
    written = value is not None and value is not False
    return written and name != "backend" and not name.startswith("configured.")


def _listed(facts: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in facts.items())


def warnings(decision: Decision) -> Iterator[Branch]:
    """Give each warning of a decision, first that its rules are not the newest."""
    if decision.outdated is not None:
        since, problem = decision.outdated.since, decision.outdated.problem
        yield Branch(words(f"{WARNING} newer rules are refused since {since}: {problem}", "warning"))
    for text in decision.warnings:
        yield Branch(words(f"{WARNING} {text}", "warning"))
