"""Why a backend does not run: what stands in its way wherever a row would use it, and what naming it would give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from selector.analysis.changes import Way, Wish, ways
from selector.configuring import Choices
from selector.decision import Decision, Inputs
from selector.facts import Request
from selector.rendering.layout import Branch, Note, Page
from selector.rendering.reasons import obstacles
from selector.rendering.rows import abilities_for, chosen, passed_over, title
from selector.rendering.text import words
from selector.rendering.tree import answer, warnings
from selector.resolve import resolve
from selector.rules.conditions import Facts, Result
from selector.rules.problems import ConfigError, FactsError, Place, Problem, listing, nearest, shown
from selector.rules.tables import Row
from selector.rules.walk import Step, code, explain_row
from selector.ruleset import RuleSet
from selector.selecting import Selector
from selector.tracing import Walk

_DEFAULTS = "platform_default"
Outcome = Literal["runs", "substituted", "refused", "invalid"]


@dataclass(frozen=True, slots=True)
class Standing:
    """How a row that would use the backend stands, or which row took the backend's place.

    `step` says what becomes of the row for itself; `earlier` is the id of a row before it that won. `asked` tells
    whether its table was walked at all for this decision.
    """

    walk: Walk
    step: Step
    earlier: str | None
    asked: bool

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        row = self.step.row
        return {
            "row": row.name, "subject": self.walk.subject, "asked": self.asked, "holds": _HOLDS[self.step.outcome],
            "earlier": self.earlier, "action": row.action, "file": row.place.file, "line": row.place.line,
            "blamed": [_told(self.step, result) for result in self.step.blamed],
        }  # fmt: skip


_HOLDS: Mapping[str, bool | None] = {"chosen": True, "rejected": False, "undetermined": None}


def _told(step: Step, result: Result) -> dict[str, object]:
    return {
        "fact": result.fact, "value": result.got, "known": result.known, "wanted": result.wanted,
        "negated": result.negated, "in": result.origin, "code": code(step.row, result), "reason": result.reason(),
        "file": result.place.file, "line": result.place.line,
    }  # fmt: skip


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a backend does not run; when it does, `standings` is empty and `named` is null.

    `decision` is what stands now, `named` what would stand if the config named the backend for every role. `ways` are
    the smallest sets of facts after whose change the platform would choose it, `ways_named` those after which it would
    run if it were named.
    """

    backend: str
    decision: Decision
    rules: RuleSet
    standings: tuple[Standing, ...] = ()
    named: Decision | None = None
    ways: tuple[Way, ...] = ()
    ways_named: tuple[Way, ...] = ()

    @property
    def chosen(self) -> bool:
        """Whether the backend is the one that runs."""
        return self.decision.backend == self.backend

    @property
    def outcome(self) -> Outcome | None:
        """What naming the backend would give; null when it runs already."""
        if self.named is None:
            return None
        if self.named.error is not None:
            return "refused" if self.named.error.code == "refused" else "invalid"
        return "runs" if self.named.backend == self.backend else "substituted"

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data that JSON can hold."""
        named = None if self.named is None else {"outcome": self.outcome, **self.named.answer()}
        return {
            "backend": self.backend, "chosen": self.chosen, "decision": self.decision.answer(),
            "rows": [standing.to_dict() for standing in self.standings], "named": named,
            "ways": [way.to_dict() for way in self.ways], "ways_named": [way.to_dict() for way in self.ways_named],
            "digest": self.rules.digest,
        }  # fmt: skip


def why_not(
    selector: Selector, request: Request | Mapping[str, object], backend: str, *, any_fact: bool = False
) -> WhyNot:
    """Find why a backend does not run for a request: one that is checked, or the arguments of `Selector.decide`.

    With `any_fact`, also facts are changed that nobody changes on a machine as it is, such as its architecture. Raises
    `ConfigError` for a backend that nobody knows and `FactsError` for a request that is not valid.
    """
    return why_not_of(_decision(selector, request), backend, selector.rules, any_fact=any_fact)


def why_not_of(decision: Decision, backend: str, rules: RuleSet, *, any_fact: bool = False) -> WhyNot:
    """Find why a backend does not run for what was decided by these rules; see `why_not`."""
    name = rules.named(backend)
    if name is None:
        hint = nearest(backend, rules.backends) or f"known: {listing(list(rules.backends))}"
        raise ConfigError([Problem(Place("backend"), "unknown-backend", f"no backend `{shown(backend)}`", hint)])
    inputs = decision.inputs
    if inputs is None:
        raise FactsError(decision.error.problems if decision.error is not None else ())
    if decision.backend == name:
        return WhyNot(name, decision, rules)
    standings, named = tuple(_standings(decision, inputs, rules, name)), _named(inputs, rules, name)
    by_default, if_named = (tuple(ways(decision, Wish(name, one, any_fact))) for one in (False, True))
    return WhyNot(name, decision, rules, standings, named, by_default, if_named)


def _decision(selector: Selector, request: Request | Mapping[str, object]) -> Decision:
    if isinstance(request, Request):
        return selector.resolve(request)
    return selector.decide(**request)  # type: ignore[arg-type]  # `decide` checks what it is given


def _named(inputs: Inputs, rules: RuleSet, name: str) -> Decision:
    from selector.config import AttentionSpec  # needs pydantic

    return resolve(replace(inputs, choices=Choices(default=AttentionSpec.model_construct(backend=name))), rules)


def _standings(decision: Decision, inputs: Inputs, rules: RuleSet, name: str) -> Iterator[Standing]:
    """Give every row that would use the backend; the defaults are asked even where the config speaks."""
    walks = decision.explain(rules).walks
    for walk in walks:
        yield from _in_walk(walk, rules, name, asked=True)
    if all(walk.table != _DEFAULTS for walk in walks):
        unconfigured = replace(inputs, choices=Choices(), request=replace(inputs.request, call=None))
        for walk in resolve(unconfigured, rules).explain(rules).walks:
            if walk.table == _DEFAULTS:
                yield from _in_walk(walk, rules, name, asked=False)


def _in_walk(walk: Walk, rules: RuleSet, name: str, *, asked: bool) -> Iterator[Standing]:
    """Give the rows that would use the backend; where it is the subject, those up to the winner, and the winner."""
    abilities = abilities_for(walk.table, rules)
    if rules.table(walk.table).targets != "backends":
        return
    earlier = None
    for step in walk.steps:
        subject_lost = walk.subject == name and step.outcome == "chosen"
        own = explain_row(step.row, walk.facts, abilities) if step.outcome == "not_reached" else step
        if subject_lost or (_uses(step.row, walk.facts, name) and not _about_another(own)):
            yield Standing(walk, own, earlier, asked)
        if subject_lost:
            return
        if step.outcome == "chosen":
            earlier = step.row.id


def _uses(row: Row, facts: Facts, name: str) -> bool:
    return row.action in ("use", "substitute") and row.target_for(facts) == name


def _about_another(step: Step) -> bool:
    """Whether the row is about another backend than the one that its table was walked for."""
    return any(result.fact == "backend" and result.origin == "when" for result in step.blamed)


def render_why_not(
    why: WhyNot,
    *,
    width: int,
    colour: bool,
    ascii: bool = False,  # noqa: A002 - named after what it asks for
) -> str:
    """Draw the answer for a person, in lines of at most `width` columns (20 at least), each of them ended."""
    if why.named is None:
        root = Branch(words(f"{why.backend} runs: {answer(why.decision)}", "answer"))
    else:
        told = f"Why not {why.backend}? {answer(why.decision)}"
        root = Branch(words(told, "answer"), branches=[*_places(why), _if_named(why, why.named), *_ways(why)])
    return Page(width, colour, ascii).draw(root)


def _places(why: WhyNot) -> Iterator[Branch]:
    """Give the rows table by table, in the order in which the tables were walked."""
    if all(row.target != why.backend for row in why.rules.table(_DEFAULTS).rows):
        yield Branch(words(f"no row of {_DEFAULTS} uses {why.backend}"))
    walks = {id(standing.walk): standing for standing in why.standings}
    for standing in walks.values():
        asked = "" if standing.asked else " (not asked, because the config speaks for this role)"
        rows = [_row(other, why) for other in why.standings if other.walk is standing.walk]
        yield Branch(words(title(standing.walk) + asked), branches=rows)


def _row(standing: Standing, why: WhyNot) -> Branch:
    """Give one row: what blocks it, the row that went before it, or how it won in vain."""
    step, facts = standing.step, standing.walk.facts
    found = obstacles(step, facts, abilities_for(step.row.table, why.rules))
    if standing.earlier is not None:
        holds = "" if found else "it holds, but "
        told = Note(words(f"{holds}{standing.earlier} stands before it and won"))
        branch = passed_over(step if found else replace(step, outcome="not_reached"), facts, found)
        return replace(branch, notes=[*branch.notes, told])
    if step.outcome != "chosen":
        return passed_over(step, facts, found)
    branch = chosen(step, facts, why.rules)
    if not _uses(step.row, facts, why.backend):
        return branch
    vain = "it won here, and a later table took it back" if standing.asked else "it would win here"
    return replace(branch, notes=[*branch.notes, Note(words(vain))])


def _ways(why: WhyNot) -> Iterator[Branch]:
    """Give the smallest changes that would be enough."""
    for heading, found in (
        ("the platform would choose it with", why.ways),
        ("named, it would run with", why.ways_named),
    ):
        if found:
            yield Branch(words(heading), branches=[Branch(words(str(way))) for way in found])


_IF_NAMED: Mapping[Outcome | None, str] = {
    "runs": "it would run",
    "substituted": "another would run in its place",
    "refused": "it would be refused",
    "invalid": "no decision would be made",
}


def _if_named(why: WhyNot, named: Decision) -> Branch:
    heading = words(f"if the config named it, {_IF_NAMED[why.outcome]}")
    return Branch(heading, [Note(words(answer(named)))], list(warnings(named)))
