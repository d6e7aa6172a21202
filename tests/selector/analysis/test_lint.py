from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.analysis.boxes import BudgetError
from selector.analysis.findings import Finding
from selector.analysis.lint import lint_table
from selector.analysis.regions import regions_of
from selector.analysis.values import TooManyError
from selector.facts import derive
from selector.rules import conditions
from selector.rules.conditions import ALWAYS, Both, Condition, Truth
from selector.rules.fields import Source
from selector.rules.tables import Row, TableReader
from selector.rules.vocabulary import Value
from selector.rules.walk import ability_of, holds
from selector.rules.when import Reader
from selector.rules.yaml_text import read_yaml
from tests.selector.analysis.random_tables import Drawn, draw, read_when, vocabulary

SEEDS = st.integers(0, 2**32)
Rows = Sequence[Mapping[str, object]]
MOST = 4_000


@dataclass(frozen=True)
class Brute:
    """A small table over every situation that stands for a class, each asked of the evaluator itself."""

    drawn: Drawn
    situations: Sequence[Mapping[str, Value]]
    held: Sequence[Sequence[Truth]]

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of the table."""
        return self.drawn.table.rows

    def winner(self, at: int) -> int | None:
        """The row that wins a situation."""
        return next((row for row, truths in enumerate(self.held) if truths[at] is True), None)

    def expected(self, row: int) -> Iterator[str]:
        """Give the codes that a row must get, each part that changes nothing with its fact."""
        situations = range(len(self.situations))
        mine = [at for at in situations if self.held[row][at] is True]
        won = [at for at in situations if self.winner(at) == row]
        if not mine:
            yield "never-fires"
        elif not won:
            yield "shadowed"
        else:
            if len(won) < len(mine):
                yield "partly-shadowed"
            if self.passed_over(row):
                yield "cannot-run"
            yield from self.idle(row)

    def passed_over(self, row: int) -> bool:
        """Whether the row's condition holds somewhere where its target cannot run, and no earlier row takes it."""
        one = self.rows[row]
        if one.action != "use" or one.read_from:
            return False
        return any(
            one.when.holds(facts) is True
            and self.held[row][at] is not True
            and not any(self.held[earlier][at] is True for earlier in range(row))
            for at, facts in enumerate(self.situations)
        )

    def idle(self, row: int) -> Iterator[str]:
        """Give each part of a condition without which every situation has the same winner."""
        one = self.rows[row]
        if one.action == "use" and one.read_from:
            return
        parts = one.when.parts if isinstance(one.when, Both) else (one.when,)
        for at, part in enumerate(parts):
            others = Both((*parts[:at], *parts[at + 1 :]))
            if all(self.without(row, others, number) == self.winner(number) for number in range(len(self.situations))):
                yield f"implied-condition {place_of(part)}"

    def without(self, row: int, when: Condition, at: int) -> int | None:
        """The row that wins a situation when a row has another condition."""
        facts = self.situations[at]
        able = ability_of(self.rows[row], facts, self.drawn.abilities)
        for number in range(len(self.rows)):
            if number == row and when.holds(facts) is True and able.holds(facts) is True:
                return number
            if number != row and self.held[number][at] is True:
                return number
        return None


def place_of(part: Condition) -> str:
    """Give where a part of a condition stands."""
    return str(next(conditions.tests(part)).place)


def brute(drawn: Drawn) -> Brute | None:
    """Ask the evaluator about every class of a table, None where they are many."""
    try:
        regions = regions_of(drawn.table, drawn.abilities, drawn.vocabulary)
    except (TooManyError, BudgetError):
        return None
    count = 1
    for variable in regions.space.variables:
        count *= len(variable.cells)
    if count > MOST:
        return None
    products = itertools.product(*(variable.cells for variable in regions.space.variables))
    found = []
    for cells in products:
        facts: dict[str, Value] = {"pick": "A"}
        for cell in cells:
            facts |= cell.facts
        found.append(derive(facts, drawn.vocabulary))
    return Brute(
        drawn, found, [[holds(row, facts, drawn.abilities) for facts in found] for row in drawn.table.rows]
    )  # fmt: skip


def codes(found: Sequence[Finding], row: Row) -> list[str]:
    """Give what is told of a row, in the words of `Brute.expected`."""
    own = [finding for finding in found if row.name in finding.rows or f"row `{row.id}`" in finding.message[:40]]
    return sorted(
        f"{finding.code} {finding.place}" if finding.code == "implied-condition" else finding.code
        for finding in own
        if finding.code != "same-when"
    )


def check(drawn: Drawn) -> None:
    """Hold the findings of a table to what the evaluator says of every class."""
    told = brute(drawn)
    if told is None:
        return
    found = list(lint_table(drawn.table, drawn.rules))
    for at, row in enumerate(drawn.table.rows):
        assert codes(found, row) == sorted(told.expected(at)), (row.id, drawn.text)
    check_witnesses(drawn, told, found)
    check_budget(drawn, found)


def check_witnesses(drawn: Drawn, told: Brute, found: Sequence[Finding]) -> None:
    """Hold that each situation that a finding shows is one, and that the same condition never decides twice."""
    rows = {row.id: at for at, row in enumerate(drawn.table.rows)}
    for finding in found:
        at = rows[finding.message.split("`")[1]]
        row = drawn.table.rows[at]
        if finding.code == "same-when":
            assert next(told.expected(at)) in ("never-fires", "shadowed")
        if finding.witness is None:
            continue
        facts = derive({"pick": "A", **finding.witness}, drawn.vocabulary)
        held, won = holds(row, facts, drawn.abilities), drawn.winner(facts)
        if finding.code in ("never-fires", "cannot-run"):
            assert row.when.holds(facts) is True
            assert held is not True
        if finding.code == "cannot-run":
            assert won is None or rows[won.id] > at
        if finding.code in ("shadowed", "partly-shadowed"):
            assert held is True
            assert won is not None
            assert rows[won.id] < at
            if finding.code == "partly-shadowed":
                assert f"`{won.id}`" in finding.rows
        if finding.code == "shadowed":
            named = [told.held[rows[name.strip("`")]] for name in finding.rows]
            situations = (number for number, truth in enumerate(told.held[at]) if truth is True)
            assert all(any(held[number] is True for held in named) for number in situations)


def check_budget(drawn: Drawn, found: Sequence[Finding]) -> None:
    """Hold that with little time nothing is said that is not so.

    Of a row that never fires every condition changes nothing, which is told where it was not found out that it never
    does.
    """
    places = {one.place for one in found if one.code == "shadowed"}
    shadowed = {row.name for row in drawn.table.rows if row.place in places}
    for steps in (1, 3):
        for finding in lint_table(drawn.table, drawn.rules, steps):
            assert finding.code == "open-question" or any(
                (finding.code, finding.place, finding.rows) == (one.code, one.place, one.rows)
                or (finding.code, finding.place) == (one.code, one.place) == ("shadowed", one.place)
                or (finding.code == "implied-condition" and shadowed.issuperset(finding.rows))
                for one in found
            ), (finding, drawn.text)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_findings_are_those_of_the_evaluator(seed: int) -> None:
    """Row by row: never fires, shadowed wholly or in part, cannot run, and each part that changes nothing."""
    check(draw(Random(seed), rows=4, levels=1, most=1))


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_findings_are_those_of_the_evaluator_often(seed: int) -> None:
    """The same, many times, with longer tables and deeper conditions."""
    check(draw(Random(seed), rows=7, levels=2, most=2))


# --- cases --------------------------------------------------------------------------------------------------------


def linted(rows: Rows, needs: Mapping[str, dict[str, object]] | None = None) -> list[str]:
    """Give what is told of a table over a boolean, with its rows."""
    words = vocabulary(Flag(), 1)
    text = json.dumps({"table": "mine", "requires": ["pick"], "rows": [{"because": "x", **row} for row in rows]})
    source = Source("mine.yaml")
    table = TableReader(Reader(words, source)).read(read_yaml(text, "mine.yaml"))
    assert source.problems == []
    assert table is not None
    abilities = {name: read_when(words, need, "needs") for name, need in (needs or {}).items()}
    drawn = Drawn(words, table, abilities, text)
    return [f"{finding.code}: {finding.message}" for finding in lint_table(table, drawn.rules)]


class Flag(Random):
    """Dice that draw the group with one boolean."""

    def sample(self, population: object, k: int) -> list[str]:  # type: ignore[override]
        """Give that group."""
        return ["boolean"]


LAST: Mapping[str, object] = {"id": "last", "refuse": "no"}


def test_the_same_condition_with_other_needs_is_another_row() -> None:
    """A row for whatever was named leaves to the next one what cannot run."""
    when = {"flag": True}
    rows: Rows = [{"id": "a", "when": when, "use": "{pick}"}, {"id": "b", "when": when, "refuse": "no"}, LAST]

    found = linted(rows, {"A": {"flag": False}})

    assert [line for line in found if line.startswith("same-when")] == []


@pytest.mark.parametrize("first", [{"use": "A"}, {"use": "{pick}"}])
def test_the_same_condition_with_the_same_needs_is_told(first: Mapping[str, object]) -> None:
    """Whatever is done with it."""
    when = {"flag": True}
    rows: Rows = [{"id": "a", "when": when, **first}, {"id": "b", "when": when, **first}, LAST]

    (told,) = (line for line in linted(rows) if line.startswith("same-when"))

    assert told == "same-when: row `b` has the condition of `a` in line 1, which goes before it"


def test_no_needs_are_no_needs() -> None:
    """Whether a target has none, or a refusal has no target."""
    when = {"flag": True}
    rows: Rows = [{"id": "a", "when": when, "use": "A"}, {"id": "b", "when": when, "refuse": "no"}, LAST]

    assert any(line.startswith("same-when: row `b`") for line in linted(rows))
    assert ALWAYS.holds({}) is True
