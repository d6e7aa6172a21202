"""Where two rule sets differ: right in every situation that is tried, without overlap, and in a fixed order."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from random import Random
from typing import Any

import pytest

from selector.analysis.boxes import meet, within
from selector.analysis.diff import Change, Diff, TableDiff, diff
from selector.analysis.machines import narrowed, on_machine
from selector.analysis.space import Box, Space
from selector.facts import derive
from selector.rules.tables import Row
from selector.rules.vocabulary import Value
from selector.rules.walk import first
from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.analysis.random_tables import Drawn, draw, over
from tests.selector.rules.folders import edited, file

EDITS = "table: platform_default\nedits:\n"
CASES: Mapping[str, Mapping[str, str]] = {
    "a row moved": {"e.yaml": EDITS + "  - {id: blackwell-flash-attn-4, before: blackwell-cudnn, because: x}\n"},
    "a row gone": {"e.yaml": EDITS + "  - {id: blackwell-cudnn, disable: true, because: x}\n"},
    "a row changed": {
        "e.yaml": EDITS + "  - {id: blackwell-cudnn, when: {platform: cuda, arch: {in: blackwell_class}, "
        'cudnn: ">=9.8"}, use: CUDNN_ATTN, because: x}\n'
    },
    "a row put in": {
        "e.yaml": EDITS + "  - {id: mine, before: hopper-flash-attn, when: {arch: sm_90, head_dim: {max: 64}}, "
        "use: TORCH_SDPA, because: x}\n"
    },
    "an ability tightened": {
        "backends.yaml": "backends: {SAGE_ATTN: {about: x, ability: {platform: cuda, arch: sm_90, "
        "packages.sageattention: present}}}\n"
    },
    "a set widened": {"vocabulary.yaml": "sets: {blackwell_class: {add: [sm_13x]}}\n"},
    "a provider row gone": {"e.yaml": "table: provider\nedits:\n  - {id: hopper-fa3, disable: true, because: x}\n"},
    "a call row gone": {"e.yaml": "table: call\nedits:\n  - {id: one-key, disable: true, because: x}\n"},
}


def edited_rules(folder: Path, case: str) -> RuleSet:
    """Load the shipped rules with one of the edits."""
    for name, text in CASES[case].items():
        file(folder, name, text)
    return load_rules([folder])


def winner(rules: RuleSet, table: str, facts: Mapping[str, Value]) -> Row | None:
    """Give the row that wins, by the evaluator."""
    found = rules.table(table)
    return first(found, derive(dict(facts), rules.vocabulary), rules.abilities.get(found.targets, {}))


def does(row: Row | None) -> object:
    """Give what a row does."""
    return None if row is None else (row.action, row.target, row.transform)


def point(space: Space, box: Box, chance: random.Random) -> tuple[Box, dict[str, Value]]:
    """Give one class of each variable of a box, and facts that are in it."""
    here = tuple(1 << chance.choice([at for at in range(mask.bit_length()) if mask >> at & 1]) for mask in box)
    facts: dict[str, Value] = {}
    for variable, mask in zip(space.variables, here, strict=True):
        facts |= chance.choice(variable.cells[mask.bit_length() - 1].members)
    return here, facts


def changed_tables(found: Diff) -> list[TableDiff]:
    """Give the tables in which something changes."""
    return [table for table in found.tables if table.changes]


@pytest.mark.parametrize("case", CASES)
def test_a_decision_changes_in_the_regions_that_are_told_and_nowhere_else(tmp_path: Path, case: str) -> None:
    """Whatever situation is drawn, in a region or anywhere, the evaluator agrees."""
    old, new = shipped(), edited_rules(tmp_path, case)
    chance, tried = random.Random(case), 0

    for table in changed_tables(diff(old, new)):
        assert table.space is not None
        boxes = [table.space.full] * 400 + [change.box for change in table.changes for _ in range(40)]
        for box in boxes:
            here, facts = point(table.space, box, chance)
            told = [change for change in table.changes if within(here, change.box)]
            before, after = winner(old, table.table, facts), winner(new, table.table, facts)
            if table.table in ("platform_default", "explicit", "provider"):
                assert bool(told) == (does(before) != does(after)), facts
            for change in told:
                assert change.rows == (before.id if before else None, after.id if after else None)
                tried += 1
            assert len(told) <= 1

    assert tried > 30


@pytest.mark.parametrize("case", CASES)
def test_regions_do_not_overlap_and_each_has_an_example(tmp_path: Path, case: str) -> None:
    """The example is a situation of the region, and the count that of its classes."""
    old, new = shipped(), edited_rules(tmp_path, case)
    found = diff(old, new)

    assert found.changed
    for table in changed_tables(found):
        boxes = [change.box for change in table.changes]
        assert all(meet(one, two) is None for at, one in enumerate(boxes) for two in boxes[:at])
        for change in table.changes:
            pair = [winner(rules, table.table, change.example) for rules in (old, new)]
            assert tuple(row.id if row else None for row in pair) == change.rows
            assert change.cells


@pytest.mark.parametrize("case", CASES)
def test_the_way_back_changes_the_same(tmp_path: Path, case: str) -> None:
    """With before and after exchanged; and asking twice gives the same answer."""
    old, new = shipped(), edited_rules(tmp_path, case)

    there, back = diff(old, new), diff(new, old)

    assert diff(old, new) == there
    for one, two in zip(there.tables, back.tables, strict=True):
        assert sum(change.cells or 0 for change in one.changes) == sum(change.cells or 0 for change in two.changes)
        assert {change.rows for change in one.changes} == {change.rows[::-1] for change in two.changes}


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("platform_default.yaml", "description: Nothing", "description: Really nothing"),
        ("explicit.yaml", "cannot run here", "does not run here"),
        ("vocabulary.yaml", "about: The type of q, k and v.", "about: Their type."),
    ],
)
def test_words_change_no_decision(tmp_path: Path, name: str, old: str, new: str) -> None:
    """Reasons and descriptions decide nothing."""
    folder = edited(tmp_path, name, old, new)

    assert not diff(shipped(), load_rules([folder])).changed


def test_the_same_rules_change_nothing() -> None:
    """Neither regions nor anything beside them."""
    found = diff(shipped(), load_rules())

    assert not found.changed
    assert found.digests[0] == found.digests[1]


def test_what_is_no_table_is_told_beside(tmp_path: Path) -> None:
    """Models, roles, standing warnings, and what is unverified about a backend."""
    file(tmp_path, "roles.yaml", "roles: {ltx2.connector: cross, mine: self, ltx2.audio_self: null}")
    file(tmp_path, "models.yaml", "models: [{names: [Krea2Pipeline], mask_free: true, roles: {self: {}}}]")
    file(tmp_path, "warnings.yaml", "warnings: [{id: blackwell-untested, disable: true}]")

    assert diff(shipped(), load_rules([tmp_path])).beside == (
        "models: Krea2Pipeline (changed)", "roles: ltx2.audio_self (gone)", "roles: ltx2.connector (changed)",
        "roles: mine (new)", "warnings: blackwell-untested (gone)",
    )  # fmt: skip


def test_a_table_of_ones_own_is_left_open(tmp_path: Path) -> None:
    """There is nothing to compare it with."""
    file(tmp_path, "t.yaml", "table: lunch\nnew: true\nrows: [{id: rest, use: cold, because: x}]\n")

    found = diff(shipped(), load_rules([tmp_path]))

    assert [(table.table, table.open) for table in found.tables if table.open] == [("lunch", "the table is new")]
    assert found.changed


def test_past_its_budget_it_says_what_it_left_open(tmp_path: Path) -> None:
    """And does not call that no change."""
    found = diff(shipped(), edited_rules(tmp_path, "a row moved"), steps=3)

    (table,) = [table for table in found.tables if table.open]
    assert table.table == "platform_default"
    assert table.open == "the regions in which blackwell-flash-attn-4 wins are too many to tell each"
    assert found.changed


@pytest.mark.parametrize("seed", range(60))
def test_random_tables_differ_where_brute_force_says_so(seed: int) -> None:
    """Whatever was moved, changed, put in or taken out: in every class of situations, the region that it is in."""
    old, new, table = _edited_at_random(Random(seed))
    assert table.space is not None
    assert table.open is None
    chance, changed = Random(seed), 0

    for _ in range(300):
        here, facts = point(table.space, table.space.full, chance)
        before, after = _winners((old, new), facts)
        told = [change for change in table.changes if within(here, change.box)]
        changed += bool(told)
        assert len(told) == (does(before) != does(after)), facts
        for change in told:
            assert change.rows == (before.id if before else None, after.id if after else None)
    for change in table.changes:
        assert change.cells
        before, after = _winners((old, new), change.example)
        assert change.rows == (before.id if before else None, after.id if after else None)


@pytest.mark.parametrize("seed", range(60))
def test_wins_that_are_told_as_a_whole_say_all_outcomes(seed: int) -> None:
    """As many as the regions have, with an example each, and all regions lie within the boxes."""
    old, new, exact = _edited_at_random(Random(seed))
    (table,) = diff(old.rules, new.rules, steps=0).tables

    def outcomes(some: Sequence[Change]) -> set[object]:
        return {(change.before, change.after) for change in some}

    assert outcomes(table.changes) == outcomes(exact.changes)
    assert bool(table.open) >= bool(table.changes)
    for change in table.changes:
        before, after = _winners((old, new), change.example)
        assert change.cells is None
        assert (_words(before), _words(after)) == (change.before, change.after)
    for region in exact.changes:
        wholes = [one.box for one in table.changes if (one.before, one.after) == (region.before, region.after)]
        around = tuple(reduce(or_, masks) for masks in zip(*wholes, strict=True))
        assert within(region.box, around)


def _winners(sides: Sequence[Drawn], facts: Mapping[str, Value]) -> list[Row | None]:
    return [side.winner(derive({"pick": "A", **facts}, side.vocabulary)) for side in sides]


def _edited_at_random(dice: Random) -> tuple[Drawn, Drawn, TableDiff]:
    """Draw a table and the same with some edits, and tell what differs."""
    old = draw(dice, rows=5, levels=0, most=2)
    rows, other = list(old.table.rows), over(dice, old.vocabulary, rows=3, levels=0)
    for edit in dice.sample(("move", "change", "drop", "add"), dice.randint(1, 3)):
        at = dice.randrange(len(rows)) if rows else None
        if edit == "add" or at is None:
            rows.insert(dice.randint(0, len(rows)), replace(dice.choice(other.table.rows), id="added"))
        elif edit == "move":
            rows.insert(dice.randrange(len(rows)), rows.pop(at))
        elif edit == "change":
            rows[at] = replace(rows[at], when=dice.choice(other.table.rows).when)
        else:
            del rows[at]
    new = replace(old, table=replace(old.table, rows=tuple(rows)))
    (table,) = diff(old.rules, new.rules).tables
    if table.space is None:  # no row was changed in the end
        return _edited_at_random(dice)
    return old, new, table


def _words(row: Row | None) -> str | None:
    return None if row is None else "refuse" if row.action == "refuse" else f"{row.action} {row.target}"


def test_only_changes_that_concern_a_machine(tmp_path: Path) -> None:
    """What its own facts leave possible; what a request says may still be anything."""
    old, new = shipped(), edited_rules(tmp_path, "a row moved")
    found = diff(old, new)

    def concerning(**machine: Value) -> list[Change]:
        facts: dict[str, Value] = {"platform": "cuda", "cudnn": 91002, **machine}
        return [change for table in found.tables for change in on_machine(table, facts, new.vocabulary)]

    with_fa4 = concerning(arch="sm_120", **{"packages.flash-attn-4": "4.0.0"})
    assert {change.after for change in with_fa4} == {"use FLASH_ATTN"}
    assert concerning(arch="sm_120", **{"packages.flash-attn-4": None}) == []
    assert concerning(arch="sm_90", **{"packages.flash-attn-4": "4.0.0"}) == []
    kept = narrowed(found, with_fa4)
    assert [change for table in kept.tables for change in table.changes] == with_fa4


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("FLASH_ATTN", "providers", ("fa4", "fa2")),
        ("TRTLLM_ATTN", "reads", {}),
        ("TRTLLM_ATTN", "takes", ("layer",)),
        ("CUDNN_ATTN", "unbound", "packages.flashinfer"),
        ("TORCH_SDPA", "default_name", "TORCH"),
    ],
)
def test_what_is_said_of_a_backend_is_told_beside(name: str, field: str, value: Any) -> None:  # noqa: ANN401
    """Each of these changes what a decision ends in, or what it is called."""
    old = shipped()
    new = replace(old, backends={**old.backends, name: replace(old.backends[name], **{field: value})})

    assert diff(old, new).beside == (f"backends: `{field}` of {name} (changed)",)
    assert diff(old, new).changed
