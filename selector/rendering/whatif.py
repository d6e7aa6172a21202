"""Two worlds beside each other: what is decided now, and what would be with some facts changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from selector.analysis.changes import with_facts
from selector.decision import Decision
from selector.facts import Request, pattern_faults
from selector.rendering.layout import Branch, Note, Page
from selector.rendering.text import words
from selector.rendering.tree import answer
from selector.resolve import resolve
from selector.rules.problems import FactsError, Place, Problem, nearest, shown
from selector.rules.vocabulary import PACKAGE_PREFIX, Value, Vocabulary
from selector.rules.walk import Step
from selector.tracing import Trace

UNKNOWN = "unknown"
_OF_REQUEST = ("role", "role_category", "model")
_OPEN = ("machine", "request")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A decision, and the one that other facts would give; `changed` are these facts, None where nothing is known."""

    before: Decision
    after: Decision
    changed: Mapping[str, Value]

    def fields(self) -> Iterator[tuple[str, object, object]]:
        """Give what differs of the answer."""
        now, then = self.before.answer(), self.after.answer()
        now, then = {**now, "provider": self.before.provider}, {**then, "provider": self.after.provider}
        yield from ((name, now[name], then[name]) for name in now if now[name] != then[name] and name != "log")

    def rows(self) -> Iterator[tuple[str, Step | None, Step | None]]:
        """Give the rows of which something else becomes."""
        now, then = _steps(self.before.explain()), _steps(self.after.explain())
        for key in dict.fromkeys([*now, *then]):
            one, two = now.get(key), then.get(key)
            if (one.outcome if one else None) != (two.outcome if two else None):
                yield key, one, two

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {
            "changed": dict(self.changed), "decision": self.after.answer(),
            "differences": [{"field": name, "before": now, "after": then} for name, now, then in self.fields()],
            "rows": [
                {"row": key, "before": one.outcome if one else None, "after": two.outcome if two else None}
                for key, one, two in self.rows()
            ],
        }  # fmt: skip


def _steps(trace: Trace) -> dict[str, Step]:
    return {
        f"{step.row.name}{f' for {walk.subject}' if walk.subject else ''}": step
        for walk in trace.walks for step in walk.steps
    }  # fmt: skip


def what_if(decision: Decision, changes: Sequence[tuple[str, object]]) -> WhatIf:
    """Decide again with some facts changed; `unknown` makes one unknown.

    Raises `FactsError` for a name that is no fact of the machine or the request, or a value that is none of it, and
    `ValueError` for a decision without inputs or rules.
    """
    inputs, rules = decision.inputs, decision.rules
    if inputs is None or rules is None:
        raise ValueError("wanted a decision with its inputs and rules")
    problems = [problem for name, value in changes for problem in _problems(name, value, rules.vocabulary)]
    if problems:
        raise FactsError(problems)
    found: dict[str, Value] = {}
    for name, value in changes:
        gone = value == UNKNOWN
        if name in _OF_REQUEST:
            plain = None if gone and name != "role" else str(value)
            inputs = replace(inputs, request=_named(inputs.request, name, plain))
        elif gone:
            machine = {key: item for key, item in inputs.machine.items() if key != name}
            facts = {key: item for key, item in inputs.request.facts.items() if key != name}
            inputs = replace(inputs, machine=machine, request=replace(inputs.request, facts=facts))
        else:
            inputs = with_facts(inputs, {name: value}, rules.vocabulary)  # type: ignore[dict-item]
        found[name] = None if gone else value  # type: ignore[assignment]
    problems = [*_misshapen(inputs.machine, found, rules.vocabulary)]
    if problems:
        raise FactsError(problems)
    return WhatIf(decision, resolve(inputs, rules), found)


def _named(request: Request, name: str, value: str | None) -> Request:
    """Give the request with another role, category or model."""
    if name == "role":
        return replace(request, role=value or "self")
    return replace(request, model=value) if name == "model" else replace(request, category=value)


def _misshapen(machine: Mapping[str, Value], changed: Mapping[str, Value], vocabulary: Vocabulary) -> Iterator[Problem]:
    """Check values whose form another fact settles, where either of them was changed."""
    settles = {fact.name: str(pattern.fact) for fact, pattern in vocabulary.shaped}
    for fault in pattern_faults(machine, vocabulary, ()):
        name = str(fault.path[0])
        of = [one for one in (name, settles[name]) if one in changed]
        if of:
            yield Problem(_place(of[0]), fault.code, fault.message, fault.hint)


def _place(name: str) -> Place:
    return Place(f"--what-if {shown(name)}")


def _problems(name: str, value: object, vocabulary: Vocabulary) -> Iterator[Problem]:
    where = _place(name)
    known = [fact.name for fact in vocabulary.facts.values() if fact.group in _OPEN]
    if name not in known:
        package = PACKAGE_PREFIX + name
        hint = f"did you mean `{package}`?" if package in known else nearest(name, known)
        yield Problem(where, "unknown-fact", f"no fact `{shown(name)}` of the machine or the request", hint)
        return
    fact = vocabulary.facts[name]
    misfit = None if value == UNKNOWN or (value is None and fact.null) else fact.misfit(value)
    if misfit is not None:
        yield Problem(where, "bad-value", misfit.message, misfit.hint)


def render_what_if(
    found: WhatIf,
    *,
    width: int,
    colour: bool,
    ascii: bool = False,  # noqa: A002 - named after what it asks for
) -> str:
    """Draw it for a person, in lines of at most `width` columns (20 at least), each of them ended."""
    facts = found.before.facts
    told = ", ".join(
        f"{name} {_word(found, name)} (now {shown(facts[name]) if name in facts else 'not known'})"
        for name in found.changed
    )
    fields = [Branch(words(f"{name}: {_plain(now)} → {_plain(then)}")) for name, now, then in found.fields()]
    rows = [Branch(words(f"{key}: {_outcome(one)} → {_outcome(two)}"), _reasons(two)) for key, one, two in found.rows()]
    heading = Branch(
        words(answer(found.after), "answer"), branches=fields or [Branch(words("nothing else is decided"))]
    )
    branches = [heading, *([Branch(words("rows of which something else becomes"), branches=rows)] if rows else [])]
    return Page(width, colour, ascii).draw(Branch(words(f"What if {told}?", "answer"), branches=branches))


def _word(found: WhatIf, name: str) -> str:
    value = found.changed[name]
    known = found.after.facts
    return "not known" if value is None and name not in known else shown(value)


def _outcome(step: Step | None) -> str:
    return "not asked" if step is None else step.outcome.replace("_", " ")


def _reasons(step: Step | None) -> list[Note]:
    return [Note(words(result.reason())) for result in step.blamed] if step is not None else []


def _plain(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(map(str, value)) or "none"
    return shown(value, 200) if not isinstance(value, dict) else str(value.get("message"))
