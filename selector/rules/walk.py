"""The evaluator: the first row that holds wins, and every row gets a step that says why or why not."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from selector.rules.conditions import ALWAYS, Condition, Facts, Result, Test, Truth, blame, results, would_hold
from selector.rules.orders import ORDERS
from selector.rules.tables import Row, Table

Outcome = Literal["chosen", "rejected", "undetermined", "not_reached"]
Abilities = Mapping[str, Condition]


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one row: its outcome, every test with wanted and got, and the tests that stood in its way."""

    row: Row
    outcome: Outcome
    results: tuple[Result, ...] = ()
    blamed: tuple[Result, ...] = ()


def code(row: Row, result: Result) -> str:
    """Give the stable code of one test in one row: ``table/row-id:fact.matcher``."""
    return f"{row.name}:{result.fact}.{result.op}"


def ability_of(row: Row, facts: Facts, abilities: Abilities) -> Condition:
    """Give what the target of a `use` row needs; other actions need nothing."""
    return abilities.get(row.target_for(facts), ALWAYS) if row.action == "use" else ALWAYS


def holds(row: Row, facts: Facts, abilities: Abilities) -> Truth:
    """Evaluate a row: its own condition and what its target needs."""
    held = row.when.holds(facts)
    if held is False:
        return False
    able = ability_of(row, facts, abilities).holds(facts)
    return able if held else (False if able is False else None)


def first(table: Table, facts: Facts, abilities: Abilities, without: Container[str] = ()) -> Row | None:
    """Give the first row that holds, None when there is none; rows that use a target in `without` are passed over."""
    for row in table.rows:
        if holds(row, facts, abilities) is True and not excluded(row, facts, without):
            return row
    return None


def excluded(row: Row, facts: Facts, without: Container[str]) -> bool:
    """Whether the row uses a target that was ruled out before."""
    return row.action == "use" and row.target_for(facts) in without


def walk(table: Table, facts: Facts, abilities: Abilities, without: Container[str] = ()) -> Iterator[Step]:
    """Explain `first`: one step for every row, in order."""
    chosen = False
    for row in table.rows:
        if chosen:
            yield Step(row, "not_reached")
            continue
        step = explain_row(row, facts, abilities, without)
        chosen = step.outcome == "chosen"
        yield step


def needs_newer(row: Row, facts: Facts, abilities: Abilities, versions: Container[str]) -> list[Result]:
    """Give the versions that are too old, where nothing else keeps the row from firing; otherwise nothing.

    The row is evaluated again with every unmet lower bound on a version that is present taken as met. `versions` names
    the facts that are versions of packages, which a person can upgrade.
    """

    def too_old(test: Test) -> bool:
        value = facts.get(test.fact)
        return test.fact in versions and value is not None and _below(test, value)

    ability = ability_of(row, facts, abilities)
    if not (would_hold(row.when, facts, too_old) and would_hold(ability, facts, too_old)):
        return []
    blamed = [*blame(row.when, facts, "when"), *blame(ability, facts, "ability")]
    old = [result for result in blamed if result.fact in versions and result.held is False and result.got is not None]
    return list({(result.fact, result.wanted): result for result in old}.values())


def _below(test: Test, value: object) -> bool:
    """Whether a version fails its test by lower bounds alone."""
    if test.op not in ("compare", "min") or test.check(value):
        return False
    unmet = [part for part in test.wanted.split(",") if not ORDERS["pep440"].comparison(part)(value)]
    return all(part.strip().startswith(">") for part in unmet)


def explain_row(row: Row, facts: Facts, abilities: Abilities, without: Container[str] = ()) -> Step:
    """Evaluate one row with all its tests."""
    ability = ability_of(row, facts, abilities)
    found = [*results(row.when, facts, "when"), *results(ability, facts, "ability")]
    if excluded(row, facts, without):
        target = row.target_for(facts)
        ruled_out = Result(
            "backend", "excluded", f"not {target}", target, known=True, held=False, place=row.place, origin="engine"
        )
        return Step(row, "rejected", (*found, ruled_out), (ruled_out,))
    held = holds(row, facts, abilities)
    if held is True:
        return Step(row, "chosen", tuple(found))
    blamed = (*blame(row.when, facts, "when"), *blame(ability, facts, "ability"))
    return Step(row, "undetermined" if held is None else "rejected", tuple(found), blamed)
