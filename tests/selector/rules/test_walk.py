from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.rules import conditions
from selector.rules.conditions import Condition, Either, Not, Result, Truth
from selector.rules.problems import Place
from selector.rules.vocabulary import Value
from selector.rules.walk import ability_of, code, excluded, explain_row, first, holds, walk
from tests.selector.rules.language import condition, row_with, table
from tests.selector.rules.random_rules import (
    TARGETS,
    Plain,
    Rules,
    facts,
    kinds,
    read_when,
    row_says,
    rules,
    says,
    vocabulary_of,
    when,
)


@dataclass(frozen=True)
class _Asked:
    """Random rules, facts for them, and targets that are ruled out."""

    rules: Rules
    facts: dict[str, Value]
    without: frozenset[str]

    def says(self, row: Plain) -> Truth:
        """Say whether a row holds, by the second telling."""
        return row_says(row, self.rules.needs, self.facts, self.rules.kinds)

    def excluded(self, row: Plain) -> bool:
        """Say whether the row uses a target that is ruled out."""
        return str(row.get("use", "")).replace("{pick}", str(self.facts["pick"])) in self.without


def _ask(seed: int, length: int, levels: int) -> _Asked:
    dice = Random(seed)
    drawn = rules(dice, length, levels)
    without = frozenset(target for target in TARGETS if not dice.randrange(4))
    return _Asked(drawn, facts(dice, drawn.kinds), without)


_SEEDS = st.integers(0, 2**64)
_CASES = given(_SEEDS, st.integers(1, 5), st.integers(0, 3))


@given(_SEEDS, st.integers(0, 3))
@settings(max_examples=400, deadline=None)
def test_a_condition_says_what_the_language_defines(seed: int, levels: int) -> None:
    """Any condition over any facts has the same one of three answers as its definition gives."""
    dice = Random(seed)
    known = kinds(dice)
    plain = when(dice, known, levels)
    found = read_when(vocabulary_of(known), plain, "x.yaml")

    for given_facts in (facts(dice, known) for _ in range(5)):
        assert found.holds(given_facts) is says(plain, given_facts, known), (plain, given_facts)


@_CASES
@settings(max_examples=300, deadline=None)
def test_the_first_row_that_holds_wins(seed: int, length: int, levels: int) -> None:
    """The answer is the first row whose condition and target's need hold and whose target is not ruled out."""
    asked = _ask(seed, length, levels)
    able = [row["id"] for row in asked.rules.rows if asked.says(row) is True and not asked.excluded(row)]

    found = first(asked.rules.table, asked.facts, asked.rules.abilities, asked.without)

    assert (found.id if found else None) == (able[0] if able else None)


@_CASES
@settings(max_examples=300, deadline=None)
def test_the_walk_has_one_step_for_every_row_and_names_the_winner(seed: int, length: int, levels: int) -> None:
    """Rows before the winner are rejected or undetermined, with something blamed; rows behind it are not reached."""
    asked = _ask(seed, length, levels)
    winner = first(asked.rules.table, asked.facts, asked.rules.abilities, asked.without)

    steps = list(walk(asked.rules.table, asked.facts, asked.rules.abilities, asked.without))

    assert [step.row for step in steps] == list(asked.rules.table.rows)
    assert [step.row for step in steps if step.outcome == "chosen"] == ([winner] if winner else [])
    reached = True
    for step, row in zip(steps, asked.rules.rows, strict=True):
        answer = False if asked.excluded(row) else asked.says(row)
        outcome = {True: "chosen", False: "rejected", None: "undetermined"}[answer]
        assert step.outcome == (outcome if reached else "not_reached")
        assert bool(step.blamed) is (step.outcome in {"rejected", "undetermined"})
        assert all(result.blamed for result in step.blamed)
        reached = reached and step.row is not winner


def _forced(part: Condition, answers: Mapping[tuple[Place, str], bool], given_facts: Mapping[str, Value]) -> Truth:
    """Evaluate with the answers of some tests given."""
    if isinstance(part, conditions.Test):
        answer = answers.get((part.place, part.op))
        return part.holds(given_facts) if answer is None else answer
    if isinstance(part, Not):
        inner = _forced(part.part, answers, given_facts)
        return None if inner is None else not inner
    parts = [_forced(inner, answers, given_facts) for inner in part.parts]
    wanted = isinstance(part, Either)
    if wanted in parts:
        return wanted
    return None if None in parts else not wanted


@_CASES
@settings(max_examples=300, deadline=None)
def test_a_row_holds_once_what_is_blamed_has_passed(seed: int, length: int, levels: int) -> None:
    """Nothing else stands in the way: with every blamed test turned, and no other, the row would have fired."""
    asked = _ask(seed, length, levels)
    for row in asked.rules.table.rows:
        step = explain_row(row, asked.facts, asked.rules.abilities)
        answers = {(result.place, result.op): not result.negated for result in step.blamed}
        ability = ability_of(row, asked.facts, asked.rules.abilities)
        assert _forced(row.when, answers, asked.facts) is True
        assert _forced(ability, answers, asked.facts) is True


_TABLE = """\
table: t
requires: [platform, backend]
rows:
  - {id: one, when: {platform: cuda, head_dim: 64}, use: A, because: x}
  - {id: two, when: {platform: cuda}, use: "{backend}", because: x}
  - {id: three, when: {platform: rocm}, refuse: no, because: x}
  - {id: four, use: A, because: x}
"""


def test_a_step_tells_both_what_the_row_and_what_its_target_asks() -> None:
    """Results of the row come first, then those of the ability, each with its origin and its code."""
    abilities = {"A": condition("arch: '>=sm_80'"), "B": condition("cudnn: present")}
    given_facts: dict[str, Value] = {"platform": "cuda", "backend": "B", "head_dim": 64, "cudnn": None}

    one, two, three, four = walk(table(_TABLE), given_facts, abilities)

    assert [step.outcome for step in (one, two, three, four)] == [
        "undetermined",
        "rejected",
        "rejected",
        "undetermined",
    ]
    assert [(result.origin, code(one.row, result)) for result in one.results] == [
        ("when", "t/one:platform.equals"),
        ("when", "t/one:head_dim.equals"),
        ("ability", "t/one:arch.compare"),
    ]
    assert [result.reason() for result in one.blamed] == ["arch: wanted >=sm_80, got unknown"]
    assert [code(two.row, result) for result in two.blamed] == ["t/two:cudnn.present"]
    assert [result.reason() for result in three.blamed] == ["platform: wanted rocm, got cuda"]
    assert [result.origin for result in four.blamed] == ["ability"]


def test_a_target_that_is_ruled_out_is_rejected_by_the_engine() -> None:
    """What refused a call before is passed over, whatever its row says, and the trace says so."""
    given_facts: dict[str, Value] = {"platform": "cuda", "backend": "A", "head_dim": 64}
    found = table(_TABLE)

    steps = list(walk(found, given_facts, {}, {"A"}))

    assert [step.outcome for step in steps] == ["rejected"] * 4
    assert [result.reason() for result in steps[0].blamed] == ["backend: wanted not A, got A"]
    assert code(steps[1].row, steps[1].blamed[0]) == "t/two:backend.excluded"
    assert steps[0].blamed[0].origin == "engine"
    assert [excluded(row, given_facts, {"A"}) for row in found.rows] == [True, True, False, True]
    assert first(found, given_facts, {}, {"A"}) is None


def test_an_undetermined_row_is_not_taken() -> None:
    """What is not known never fires a row, and the table goes on."""
    found = table(_TABLE)

    winner = first(found, {"platform": "cuda", "backend": "B"}, {})

    assert winner is found.rows[1]
    assert [step.outcome for step in walk(found, {"platform": "cuda", "backend": "B"}, {})] == [
        "undetermined", "chosen", "not_reached", "not_reached",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("own", "need", "answer"),
    [
        ("true", "true", True), ("true", "false", False), ("true", "unknown", None),
        ("false", "true", False), ("false", "unknown", False), ("unknown", "true", None),
        ("unknown", "false", False), ("unknown", "unknown", None),
    ],
)  # fmt: skip
def test_a_row_and_the_need_of_its_target_are_anded(own: str, need: str, answer: Truth) -> None:
    """What the target cannot do is no less a no than what the row does not want."""
    parts = {
        "true": condition("platform: cuda"),
        "false": condition("platform: cpu"),
        "unknown": condition("head_dim: 64"),
    }

    assert holds(row_with(parts[own]), {"platform": "cuda"}, {"A": parts[need]}) is answer


def test_other_actions_need_nothing() -> None:
    """A row that refuses or substitutes does not ask what a backend of the same name can do."""
    found = table(json.dumps({"table": "t", "rows": [{"id": "a", "substitute": "A", "because": "x"}]}))

    assert first(found, {}, {"A": condition("platform: cuda")}) is found.rows[0]


def test_what_the_engine_rules_out_is_a_result_behind_those_of_the_row() -> None:
    """The tests of the row and of its target are told as without it, and it alone is blamed."""
    abilities = {"A": condition("arch: '>=sm_80'")}
    given_facts: dict[str, Value] = {"platform": "cuda", "backend": "A", "head_dim": 128, "arch": "sm_75"}
    row = table(_TABLE).rows[0]

    plain, ruled_out = explain_row(row, given_facts, abilities), explain_row(row, given_facts, abilities, {"A"})

    engine = Result("backend", "excluded", "not A", "A", known=True, held=False, place=row.place, origin="engine")
    assert ruled_out.row is row
    assert (ruled_out.outcome, ruled_out.blamed) == ("rejected", (engine,))
    assert ruled_out.results == (*plain.results, engine)
    assert [result.held for result in plain.results] == [True, False, False]
    assert [(result.origin, result.fact) for result in plain.blamed] == [("when", "head_dim"), ("ability", "arch")]


def test_a_row_that_is_chosen_tells_its_results_and_blames_nothing() -> None:
    """Each with what it asks, and with what is."""
    row = table(_TABLE).rows[0]

    step = explain_row(row, {"platform": "cuda", "head_dim": 64, "arch": "sm_90"}, {"A": condition("arch: '>=sm_80'")})

    assert (step.row, step.outcome, step.blamed) == (row, "chosen", ())
    assert [(result.fact, result.wanted, result.got) for result in step.results] == [
        ("platform", "cuda", "cuda"), ("head_dim", "64", 64), ("arch", ">=sm_80", "sm_90"),
    ]  # fmt: skip


def test_rows_that_are_not_reached_have_no_results() -> None:
    """Nothing was asked of them."""
    last = list(walk(table(_TABLE), {"platform": "cuda", "backend": "B"}, {}))[-1]

    assert (last.outcome, last.results, last.blamed) == ("not_reached", (), ())
