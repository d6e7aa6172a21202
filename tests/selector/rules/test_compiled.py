"""Compiled tables: the same row as the walker's, whatever the table and the situation."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from selector.rules.columns import Columns, by_columns
from selector.rules.compiled import TooLargeError, compiled
from selector.rules.deciding import Decider
from selector.rules.walk import first, walk
from selector.tables import bind
from tests.selector.analysis.random_tables import draw, situation
from tests.selector.rules.language import table as table_of
from tests.selector.rules.language import words

SEEDS = range(400)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_tables_are_decided_and_explained_as_the_walker_does(seed: int) -> None:
    """Compiled, by columns, and by the table itself, in two hundred situations of each."""
    dice = Random(seed)
    drawn = draw(dice, rows=6, levels=dice.randrange(2))
    table, abilities = drawn.table, drawn.abilities
    columns = by_columns(Columns(table, abilities), table.rows)
    decider, bound = Decider(table, abilities, drawn.vocabulary), Decider(table, abilities, drawn.vocabulary)
    bind = bound.bind(table.rows)

    for _ in range(200):
        facts = situation(dice, drawn.vocabulary, set(table.requires))
        wanted = first(table, facts, abilities)
        steps = tuple(walk(table, facts, abilities))
        assert columns(facts) is wanted, facts
        assert decider.first(facts) is wanted, facts
        assert bind(facts) is wanted, facts
        assert decider.steps(facts) == steps, facts
        assert tuple(decider.lazily(facts)) == steps, facts


@pytest.mark.parametrize("seed", SEEDS[::4])
def test_facts_that_a_table_requires_are_decided_alike(seed: int) -> None:
    """The code believes that they are there; a function of plain mappings looks first."""
    dice = Random(seed)
    drawn = draw(dice, rows=8, levels=0)
    given = [name for name, fact in drawn.vocabulary.facts.items() if fact.group != "derived"]
    required = ("pick", *dice.sample(given[1:], dice.randint(0, len(given) - 1)))
    table = replace(drawn.table, requires=required)
    trusting = Decider(table, drawn.abilities, drawn.vocabulary).bind(table.rows)
    looking = bind(Decider(table, drawn.abilities, drawn.vocabulary), table.rows)

    for _ in range(200):
        facts = situation(dice, drawn.vocabulary, set(required))
        wanted = first(table, facts, drawn.abilities)
        assert trusting(facts) is wanted, facts
        if all(fact.null or facts.get(name) is not None for name, fact in drawn.vocabulary.facts.items()):
            assert looking(facts) is wanted, facts


@pytest.mark.parametrize("asked", [0, 1, 2, "[1, 2]", "[0, 1]"])
def test_a_number_that_is_required_is_a_number(asked: object) -> None:
    """One is asked for as a number, and so is nought."""
    two = "{id: two, when: {steps: 2}, use: A, because: x}"
    known = table_of(
        f"table: t\nrequires: [steps]\nrows: [{two}, {{id: it, when: {{steps: {asked}}}, use: A, because: x}}]"
    )
    decide = compiled(known, {}, words(), known.rows)

    assert [decide({"steps": at}) for at in range(-1, 4)] == [first(known, {"steps": at}, {}) for at in range(-1, 4)]


def test_most_random_tables_are_small_enough_to_be_compiled() -> None:
    """So that the test above is one of compiled tables."""
    large = 0
    for seed in SEEDS:
        dice = Random(seed)
        drawn = draw(dice, rows=6, levels=dice.randrange(2))
        named = drawn.abilities if any(row.read_from for row in drawn.table.rows) else [None]
        for name in named:
            try:
                compiled(drawn.table, drawn.abilities, drawn.vocabulary, drawn.table.rows, named=name)
            except TooLargeError:
                large += 1

    assert large <= len(SEEDS) // 10
