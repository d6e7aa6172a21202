from __future__ import annotations

import json
from collections.abc import Mapping
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.analysis.boxes import Budget, BudgetError, meet, within
from selector.analysis.regions import Regions, regions_of, told, witness
from selector.analysis.space import Box, known_in
from selector.analysis.values import TooManyError
from selector.facts import derive
from selector.rules.fields import Source
from selector.rules.tables import TableReader
from selector.rules.vocabulary import Value
from selector.rules.when import Reader
from selector.rules.yaml_text import read_yaml
from selector.ruleset import load_rules, shipped
from tests.selector.analysis.random_tables import Drawn, draw, situation, vocabulary, when
from tests.selector.rules.folders import file

SEEDS = st.integers(0, 2**32)
MANY = 200_000


def worked_out(drawn: Drawn) -> Regions | None:
    """Work a table out, unless that takes too long."""
    try:
        return regions_of(drawn.table, drawn.abilities, drawn.vocabulary)
    except (TooManyError, BudgetError):
        return None


def check_winners(dice: Random, drawn: Drawn, regions: Regions, samples: int) -> None:
    """Hold that a row wins in the boxes that are left to it, and nowhere else."""
    rows = drawn.table.rows
    left = [list(regions.left(at, Budget(MANY))) for at in range(len(rows))]
    flat = [box for boxes in left for box in boxes[:60]]
    assert all(meet(one, other) is None for at, one in enumerate(flat) for other in flat[:at])
    for _ in range(samples):
        facts = situation(dice, drawn.vocabulary, known_in(drawn.table, drawn.vocabulary))
        box, winner = regions.space.locate(facts, drawn.vocabulary), drawn.winner(facts)
        inside = [row.id for row, boxes in zip(rows, left, strict=True) if any(within(box, one) for one in boxes)]
        assert inside == ([winner.id] if winner else []), (facts, drawn.text)
    for row, boxes in zip(rows, left, strict=True):
        for one in boxes[:20]:
            won = drawn.winner(derive(witness(one, regions), drawn.vocabulary))
            assert won is row, (told(one, regions.space), drawn.text)


@settings(max_examples=100, deadline=None)
@given(seed=SEEDS)
def test_a_row_wins_where_something_is_left_to_it(seed: int) -> None:
    """And nowhere else; each situation that stands for a box is won by its row."""
    dice = Random(seed)
    drawn = draw(dice)
    regions = worked_out(drawn)

    if regions is not None:
        check_winners(dice, drawn, regions, 30)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_a_row_wins_where_something_is_left_to_it_often(seed: int) -> None:
    """The same, many times, with longer tables and deeper conditions."""
    dice = Random(seed)
    drawn = draw(dice, rows=7, levels=2, most=4)
    regions = worked_out(drawn)

    if regions is not None:
        check_winners(dice, drawn, regions, 80)


# --- the tables of the engine, and files --------------------------------------------------------------------------


def check_engine(dice: Random, name: str, samples: int) -> None:
    """Hold the same of a table of the engine with conditions that are drawn."""
    rules = shipped()
    table = rules.tables[name]
    drawn = Drawn(rules.vocabulary, table, rules.abilities.get(table.targets, {}), name)
    check_winners(dice, drawn, regions_of(table, drawn.abilities, rules.vocabulary), samples)


@pytest.mark.parametrize("name", list(shipped().tables))
def test_the_shipped_tables_are_won_as_told(name: str) -> None:
    """Over situations of the shipped vocabulary."""
    check_engine(Random(name), name, 150)


ACTIONS: Mapping[str, Mapping[str, object]] = {
    "role_fallback": {"entry": "platform"},
    "platform_default": {"use": "CUDNN_ATTN"},
    "explicit": {"refuse": "no"},
    "provider": {"use": "fa2"},
    "call": {"refuse": "no"},
}
ASKED = (
    "platform", "arch", "cudnn", "head_dim", "dtype", "packages.flashinfer", "quant.dtype_qk", "equal_heads", "causal",
    "configured.role", "role", "skip_softmax", "causal_alignment", "heads_divide", "num_heads", "quant.equal_types",
)  # fmt: skip


@settings(max_examples=4, deadline=None)
@given(seed=SEEDS)
def test_tables_in_files_are_won_as_told(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rows put in front of the shipped ones, with abilities of real backends, and a table of one's own."""
    dice, folder, words = Random(seed), tmp_path_factory.mktemp("rules"), shipped().vocabulary
    asked = dice.sample(ASKED, 4)

    def row(name: str, action: Mapping[str, object]) -> dict[str, object]:
        return {"id": name, "when": when(dice, words, asked, 1), "because": "x", **action}

    for name, action in ACTIONS.items():
        edits = [row(f"x{at}", action) | {"before": shipped().tables[name].rows[0].id} for at in range(2)]
        file(folder, f"{name}.yaml", json.dumps({"table": name, "edits": edits}))
    mine = [row("a", {"use": "x"}), row("b", {"refuse": "no"}), {"id": "c", "use": "y", "because": "x"}]
    file(folder, "mine.yaml", json.dumps({"table": "mine", "new": True, "rows": mine}))

    rules = load_rules([folder])

    assert set(rules.tables) == {*ACTIONS, "mine"}
    for table in rules.tables.values():
        drawn = Drawn(rules.vocabulary, table, rules.abilities.get(table.targets, {}), str(asked))
        regions = worked_out(drawn)
        if regions is not None:
            check_winners(dice, drawn, regions, 6)


# --- cases --------------------------------------------------------------------------------------------------------


def test_a_row_for_whatever_is_named_holds_for_names_without_needs() -> None:
    """Also where none of the targets has any."""
    words = vocabulary(Random(0), 1)
    text = '{"table": "mine", "requires": ["pick"], "rows": [{"id": "a", "use": "{pick}", "because": "x"}]}'
    table = TableReader(Reader(words, Source("mine.yaml"))).read(read_yaml(text, "mine.yaml"))
    assert table is not None

    regions = regions_of(table, {}, words)

    assert regions.held == ((regions.space.full,),)


def test_an_example_fits_the_platform_that_is_required() -> None:
    """No other maker's GPU is told to be one of CUDA's."""
    rules = shipped()
    table = rules.tables["explicit"]
    regions = regions_of(table, rules.abilities["backends"], rules.vocabulary)

    def examples(boxes: list[Box]) -> list[Mapping[str, Value]]:
        return [witness(box, regions) for box in boxes]

    for at in range(len(table.rows)):
        for facts in examples(list(regions.left(at, Budget(MANY)))):
            assert facts["platform"] != "cuda" or str(facts.get("arch") or "sm_90").startswith("sm_")
