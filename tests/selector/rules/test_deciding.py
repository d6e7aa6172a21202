"""When a table is made fast, what it is made into, and how many steps of traces are remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from selector.rules import columns, deciding
from selector.rules.compiled import Decide, Guard
from selector.rules.conditions import Facts
from selector.rules.deciding import MOST_COMPILED, WALKED, Answer, Decider
from selector.rules.tables import Table
from selector.rules.walk import first, walk
from tests.selector.rules.language import condition, table, words

ABILITIES = {"A": condition("head_dim: {max: 128}"), "B": condition("mask_free: true")}
NAMED = """\
table: t
requires: [role, backend]
rows:
  - {id: refused, when: {platform: cpu}, refuse: "no", because: x}
  - {id: named, when: {arch: sm_90}, use: "{role}", because: x}
  - {id: other, use: "{backend}", because: x}
  - {id: replaced, when: {steps: 1}, substitute: A, because: x}
  - {id: rest, use: A, because: x}
"""


class Noted(Decider):
    """A table that counts how often it is made fast."""

    made = 0

    def bind(self, answers: Sequence[Answer], guard: Guard | None = None) -> Decide[Answer]:
        """Count."""
        self.made += 1
        return super().bind(answers, guard)


def sized(rows: int) -> Table:
    """Give a table with a row for each size, and none for other sizes."""
    told = "".join(f"  - {{id: r{at}, when: {{steps: {at}}}, use: A, because: x}}\n" for at in range(rows))
    return table(f"table: t\nrows:\n{told}")


def is_compiled(decide: Callable[..., object]) -> bool:
    """Whether a traceback would name the table in place of a file."""
    return decide.__code__.co_filename == "<table t>"


def test_a_table_walks_at_first_and_then_is_made_fast_once() -> None:
    """After as many questions as are said."""
    one = Noted(sized(3), {}, words())

    counts = []
    for at in range(WALKED + 3):
        row = one.first({"steps": at % 4})
        assert row is (one.table.rows[at % 4] if at % 4 < 3 else None)
        counts.append(one.made)

    assert counts == [0] * WALKED + [1] * 3


@pytest.mark.parametrize(("rows", "code"), [(1, True), (MOST_COMPILED, True), (MOST_COMPILED + 1, False)])
def test_a_table_of_few_rows_becomes_code(rows: int, code: bool) -> None:
    """And a larger one columns, which decide alike; the guard of one that is not compiled answers itself."""
    one = Decider(sized(rows), {}, words())
    guard = Guard(lambda _: -1, {})

    decide, guarded = one.bind(range(rows)), one.bind(range(rows), guard)

    assert [decide({"steps": at}) for at in range(-1, rows + 1)] == [None, *range(rows), None]
    assert is_compiled(decide) is code
    assert (guarded is guard.others) is not code or guarded({"steps": 0}) == -1


def test_a_table_that_needs_too_much_code_is_laid_out_by_columns() -> None:
    """However few its rows are."""
    parts = ", ".join(f"{{steps: {at}}}" for at in range(40))
    one = Decider(table(f"table: t\nrows: [{{id: a, when: {{any: [{parts}]}}, use: A, because: x}}]"), {}, words())

    decide = one.bind(["a"])

    assert not is_compiled(decide)
    assert [decide({"steps": at}) for at in (0, 39, 40)] == ["a", "a", None]


SITUATIONS: tuple[Facts, ...] = tuple(
    {"role": role, "backend": backend, "arch": arch, "head_dim": size, "mask_free": free}
    for role in ("A", "B", "C") for backend in ("A", "B") for arch in ("sm_90", "sm_80")
    for size in (64, 256) for free in (True, False)
)  # fmt: skip


@pytest.mark.parametrize("text", [NAMED, NAMED.replace("{role}", "{backend}"), NAMED.replace("{backend}", "{role}")])
def test_targets_may_be_named_by_one_fact_or_by_several(text: str) -> None:
    """Each with what it needs; a guard sees all that is asked."""
    one = Decider(table(text), ABILITIES, words())
    guard = Guard(lambda _: -1, {})

    decide, guarded = one.bind(one.table.rows), one.bind(range(5), guard)

    for facts in SITUATIONS:
        assert decide(facts) is first(one.table, facts, ABILITIES), facts
        assert one.steps(facts) == tuple(one.lazily(facts)) == tuple(walk(one.table, facts, ABILITIES)), facts
        assert guarded(facts) == -1


def test_a_table_whose_targets_one_fact_names_becomes_code_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where other rows have targets of their own; no columns are made."""

    def refused(*_: object) -> Decide[int]:
        raise AssertionError

    monkeypatch.setattr(columns, "by_columns", refused)
    one = Decider(table(NAMED.replace("{backend}", "{role}")), ABILITIES, words())
    decide = one.bind(one.table.rows)

    assert all(decide(facts) is first(one.table, facts, ABILITIES) for facts in SITUATIONS)
    with pytest.raises(AssertionError):
        Decider(table(NAMED), ABILITIES, words()).bind(range(5))


def test_a_refusal_may_consist_of_the_value_of_a_fact() -> None:
    """Which names no target, and need not be known."""
    text = NAMED.replace('refuse: "no"', 'refuse: "{label}"').replace("{backend}", "{role}")
    one = Decider(table(text), ABILITIES, words())
    decide = one.bind(one.table.rows)

    for facts in SITUATIONS:
        assert decide(facts) is first(one.table, facts, ABILITIES), facts
        assert one.steps(facts) == tuple(walk(one.table, facts, ABILITIES)), facts


# --- the trace ---


def test_a_step_is_remembered_for_the_facts_that_its_row_asks_about() -> None:
    """Whatever else is asked; of a row that uses a target, also for what that needs."""
    one = Decider(table(NAMED), ABILITIES, words())
    facts: Facts = {"role": "B", "backend": "B", "arch": "sm_80", "mask_free": False, "steps": 2, "head_dim": 64}
    before = one.steps(facts)

    def again(**other: object) -> list[str]:
        steps = one.steps({**facts, **other})  # type: ignore[dict-item]
        return [step.row.id for step, old in zip(steps, before, strict=True) if step is old]

    assert [step.outcome for step in before] == ["undetermined", "rejected", "rejected", "rejected", "chosen"]
    assert again() == again(causal=True) == ["refused", "named", "other", "replaced", "rest"]
    assert again(head_dim=65) == ["refused", "named", "other", "replaced"]
    assert again(steps=3) == ["refused", "named", "other", "rest"]
    assert again(platform="cuda") == ["named", "other", "replaced", "rest"]
    assert again(arch="sm_86") == ["refused", "other", "replaced", "rest"]
    assert again(role="C") == ["refused", "other", "replaced", "rest"]


@pytest.mark.parametrize("lazily", [False, True])
def test_steps_are_forgotten_when_there_are_too_many(lazily: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """And when that is asked for; what is remembered never grows past the bound."""
    monkeypatch.setattr(deciding, "MOST_STEPS", 3)
    one = Decider(sized(1), {}, words())

    def step(steps: int) -> object:
        facts = {"steps": steps}
        return next(one.lazily(facts)) if lazily else one.steps(facts)[0]

    def kept() -> int:
        return len(one._made_traces().rows[0].memo)

    counts = [(step(at), kept())[1] for at in range(8)]
    old = step(7)
    one.forget()

    assert counts == [1, 2, 3, 1, 2, 3, 1, 2]
    assert kept() == 0
    assert step(7) == old
    assert step(7) is not old
    assert [(step(at), kept())[1] for at in range(4)] == [2, 3, 1, 2]
