"""Rows of a table as branches of the tree: the winner, those passed over with the reasons, those not reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from selector.decision import Decision
from selector.rendering.layout import ARROW, NOT_REACHED, REJECTED, UNDETERMINED, WINNER, Branch, Note
from selector.rendering.reasons import Obstacle, missing, notes, obstacles
from selector.rendering.text import Style, Word, prose, words
from selector.rules.conditions import Facts
from selector.rules.tables import Row, fill
from selector.rules.walk import Abilities, Step
from selector.ruleset import RuleSet
from selector.tracing import Trace, Walk

SIGN: Mapping[str, tuple[str, Style]] = {
    "chosen": (WINNER, "winner"),
    "rejected": (REJECTED, "rejected"),
    "undetermined": (UNDETERMINED, "warning"),
    "not_reached": (NOT_REACHED, "quiet"),
}
_WINNER_STYLE: Mapping[str, Style] = {"substitute": "warning", "refuse": "rejected"}


def read_with(decision: Decision, trace: Trace, rules: RuleSet | None) -> list[tuple[Walk, RuleSet]]:
    """Give every walk with the rules to read it with: the ones given, or else the decision's own.

    Raises `ValueError` when there are none.
    """
    found = rules or decision.rules
    if found is None and trace.walks:
        raise ValueError("wanted the rules that the decision was made with, got none")
    return [(walk, found) for walk in trace.walks if found is not None]


def title(walk: Walk) -> str:
    """Name a walk: its table, and whom it was walked for."""
    return walk.table if walk.subject is None else f"{walk.table} for {walk.subject}"


def action(row: Row, facts: Facts) -> str:
    """Say what a row does when it wins; a refusal's sentence is not part of it."""
    return row.action if row.action == "refuse" else f"{row.action} {row.target_for(facts)}"


def abilities_for(table: str, rules: RuleSet) -> Abilities:
    """Give what the targets of a table's rows need."""
    return rules.abilities.get(rules.table(table).targets, {})


def walk_branch(walk: Walk, rules: RuleSet) -> Branch:
    """Give a walk with every row of its table."""
    abilities = abilities_for(walk.table, rules)
    rows = []
    for step in walk.steps:
        if step.outcome == "chosen":
            rows.append(chosen(step, walk.facts, rules))
        elif step.outcome != "not_reached":
            rows.append(passed_over(step, walk.facts, obstacles(step, walk.facts, abilities)))
    rest = [step.row.id for step in walk.steps if step.outcome == "not_reached"]
    if rest:
        rows.append(Branch(words(f"{NOT_REACHED} not reached: {', '.join(rest)}", "quiet")))
    return Branch(words(title(walk)), branches=rows)


def heading(step: Step, facts: Facts, style: Style = "") -> list[Word]:
    """Give a row's sign, name and action."""
    sign, sign_style = SIGN[step.outcome]
    return [*words(sign, style or sign_style), *words(step.row.id, style), *words(f"{ARROW} {action(step.row, facts)}")]


def passed_over(step: Step, facts: Facts, found: Sequence[Obstacle]) -> Branch:
    """Give a row that did not win, with what stood in its way."""
    told = notes(found)
    if step.outcome == "undetermined":
        told.insert(0, Note(words(f"undetermined without {', '.join(missing(found))}", "warning")))
    return Branch(heading(step, facts), told, brief=True)


def chosen(step: Step, facts: Facts, rules: RuleSet) -> Branch:
    """Give the row that won, with the reason for its place and what it says."""
    row = step.row
    line = heading(step, facts, _WINNER_STYLE.get(row.action, "winner"))
    line += words(f"({row.place.file}:{row.place.line})", "quiet")
    told = [Note([*words("because:"), *prose(row.because)])]
    templates = {"says": row.target if row.action == "refuse" else None, "log": row.log, "transform": row.transform}
    for name, template in templates.items():
        if template:
            told.append(Note(words(f"{name}: {fill(template, facts, rules.vocabulary)}")))
    told += [Note([*words(f"{name}:"), *prose(text)]) for name, text in _origins(row) if text]
    return Branch(line, told)


def _origins(row: Row) -> tuple[tuple[str, str | None], ...]:
    return ("source", row.source), ("until", row.until)
