"""Compiled tables: the same row as the walker's, whatever the table and the situation."""

from __future__ import annotations

from random import Random

import pytest

from selector.rules.columns import Columns, by_columns
from selector.rules.compiled import TooLargeError, compiled
from selector.rules.deciding import Decider
from selector.rules.walk import first, walk
from tests.selector.analysis.random_tables import draw, situation

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
