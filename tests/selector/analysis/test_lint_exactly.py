"""What is told of small tables, word for word, and after how many steps a question is left open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from selector.analysis import cells, regions
from selector.analysis.boxes import STEPS
from selector.analysis.findings import Finding
from selector.analysis.lint import lint_table, lint_tables, ordered, written
from selector.rules import conditions
from selector.rules.conditions import ALWAYS, Both, Either, Not
from selector.rules.problems import Place
from selector.rules.tables import Table
from selector.ruleset import RuleSet, shipped
from tests.selector.rules.language import condition, table, words

Needs = Mapping[str, str]
Told = tuple[str, str, str, Mapping[str, object] | None, tuple[str, ...]]
LAST = "id: z, refuse: n"
"""The last row of every table here; what is told of it is asked for in a test of its own."""


def read(*rows: str, name: str = "mine", requires: str = "platform, backend") -> Table:
    """Read a table; its first row stands in line 4."""
    return table(
        f"table: {name}\nrequires: [{requires}]\nrows:\n" + "".join(f"  - {{{row}, because: x}}\n" for row in rows)
    )


def rules_with(found: Sequence[Table], needs: Needs) -> RuleSet:
    """Give rules with these tables alone, over the small vocabulary."""
    abilities = {"": {name: condition(need) for name, need in needs.items()}}
    return replace(
        shipped(), vocabulary=words(), tables={one.name: one for one in found}, abilities=abilities if needs else {}
    )


def linted(rows: Sequence[str], needs: Needs, steps: int = STEPS) -> list[Told]:
    """Give what is told of a table, but for its last row."""
    found = read(*rows, LAST)
    return [
        (one.code, str(one.place), one.message, one.witness, one.rows)
        for one in lint_table(found, rules_with([found], needs), steps)
        if not one.message.startswith("row `z`")
    ]


CUDA = "id: a, when: {platform: cuda}, use: A"
FREE = "id: b, when: {platform: cuda, mask_free: true}, use: B"
OTHERS = "the other conditions and what the target needs"
CASES: Mapping[str, tuple[Sequence[str], Needs, list[Told]]] = {
    "nothing to tell": ([CUDA, "id: b, when: {platform: rocm}, refuse: n"], {}, []),
    "conditions contradict each other": (
        ["id: a, when: {platform: cuda, not: {platform: cuda}}, use: A"], {},
        [("never-fires", "t.yaml:4:5", "row `a` never fires: its conditions contradict each other", None, ())],
    ),
    "a target cannot run": (
        ["id: a, when: {any: [{platform: cpu, mask_free: true}, {platform: rocm}]}, use: A"], {"A": "platform: cuda"},
        [("never-fires", "t.yaml:4:5", "row `a` never fires: `A` cannot run where its conditions hold",
          {"platform": "cpu", "mask_free": True, "backend": "other"}, ())],
    ),
    "one row takes all": (
        [CUDA, FREE, "id: c, when: {platform: cpu}, use: A"], {},
        [("shadowed", "t.yaml:5:5", "row `b` never fires: `a` before it takes all that meets it",
          {"platform": "cuda", "mask_free": True, "backend": "other"}, ("`a`",))],
    ),
    "two rows take all": (
        [CUDA, "id: b, when: {platform: rocm}, use: A", "id: c, when: {platform: [cuda, rocm]}, use: B"], {},
        [("shadowed", "t.yaml:6:5", "row `c` never fires: `a`, `b` before it take all that meets it",
          {"platform": "cuda", "backend": "other"}, ("`a`", "`b`"))],
    ),
    "one row takes a part": (
        [FREE, "id: c, when: {platform: [cuda, rocm]}, refuse: n"], {},
        [("partly-shadowed", "t.yaml:5:5",
          "row `c` fires only partly: `b` takes part of it, such as platform cuda, mask_free true",
          {"platform": "cuda", "mask_free": True, "backend": "other"}, ("`b`",))],
    ),
    "two rows take a part": (
        [FREE, "id: c, when: {platform: rocm, mask_free: true}, use: A", "id: d, when: {mask_free: true}, use: B"], {},
        [("partly-shadowed", "t.yaml:6:5",
          "row `d` fires only partly: `b` and 1 more before it take part of it, such as platform cuda, mask_free true",
          {"platform": "cuda", "mask_free": True, "backend": "other"}, ("`b`", "`c`"))],
    ),
    "three rows take a part": (
        ["id: a, when: {platform: cpu}, use: A", FREE, "id: c, when: {platform: rocm}, use: A",
         "id: d, when: {any: [{platform: [rocm, cpu], causal: true}, {platform: cuda, causal: false}]}, use: B"], {},
        [("partly-shadowed", "t.yaml:7:5",
          "row `d` fires only partly: `a` and 2 more before it take part of it, such as platform cpu, causal true",
          {"platform": "cpu", "causal": True, "backend": "other"}, ("`a`", "`b`", "`c`"))],
    ),
    "a target cannot run somewhere": (
        [CUDA], {"A": "arch: '>=sm_80'"},
        [("cannot-run", "t.yaml:4:5", ("row `a` prefers `A` where it cannot run, such as platform cuda, "
          "arch not >=sm_80 or not known"), {"platform": "cuda", "backend": "other"}, ("mine/a",))],
    ),
    "what it cannot run is taken before": (
        ["id: b, when: {platform: cuda, not: {mask_free: {equals: true, unknown: fail}}}, refuse: n", CUDA],
        {"A": "mask_free: true"}, [],
    ),
    "a part of what it cannot run is taken before": (
        ["id: b, when: {platform: cuda, mask_free: false}, refuse: n", CUDA], {"A": "mask_free: true"},
        [("cannot-run", "t.yaml:5:5", ("row `a` prefers `A` where it cannot run, such as platform cuda, "
          "mask_free not known"), {"platform": "cuda", "backend": "other"}, ("mine/a",))],
    ),
    "a refusal runs everywhere": (["id: a, when: {platform: cuda}, refuse: A"], {"A": "mask_free: true"}, []),
    "whatever is named is not told": (
        ["id: a, when: {mask_free: true, any: [mask_free: true, causal: true]}, use: '{platform}'"],
        {"cuda": "arch: present"}, [],
    ),
    "others imply it": (
        ["id: a, when: {platform: cuda, any: [{platform: cuda}, {mask_free: true}, {platform: rocm}]}, use: A"], {},
        [("implied-condition", "t.yaml:4:43", (f"row `a`: its condition on `platform`, `mask_free` changes nothing, "
          f"{OTHERS} imply it"), None, ("mine/a",))],
    ),
    "the target implies it": (
        ["id: a, when: {platform: cuda, mask_free: true}, use: A"], {"A": "{mask_free: true}"},
        [("implied-condition", "t.yaml:4:36", (f"row `a`: its condition on `mask_free` changes nothing, {OTHERS} "
          "imply it"), None, ("mine/a",))],
    ),
    "of a refusal no target implies it": (
        ["id: a, when: {platform: cuda, mask_free: true}, refuse: A"], {"A": "{mask_free: true}"}, [],
    ),
    "rows before imply it": (
        [CUDA, "id: b, when: {not: {platform: cuda}, mask_free: true}, use: B"], {},
        [("implied-condition", "t.yaml:5:26", ("row `b`: its condition on `platform` changes nothing, the rows before "
          "it imply it"), None, ("mine/b",))],
    ),
    "two that imply each other": (
        ["id: a, when: {all: [platform: cuda, platform: cuda]}, refuse: n"], {},
        [("implied-condition", "t.yaml:4:26", (f"row `a`: its condition on `platform` changes nothing, {OTHERS} imply "
          "it"), None, ("mine/a",)),
         ("implied-condition", "t.yaml:4:42", (f"row `a`: its condition on `platform` changes nothing, {OTHERS} imply "
          "it"), None, ("mine/a",))],
    ),
    "a single one that says nothing": (
        ["id: a, when: {platform: [cuda, rocm, cpu]}, refuse: n"], {},
        [("implied-condition", "t.yaml:4:20", (f"row `a`: its condition on `platform` changes nothing, {OTHERS} imply "
          "it"), None, ("mine/a",))],
    ),
    "the same condition": (
        ["id: a, when: {platform: cuda, mask_free: true}, use: A", "id: c, when: {platform: rocm}, use: A",
         "id: b, when: {mask_free: true, platform: cuda}, use: B"], {},
        [("shadowed", "t.yaml:6:5", "row `b` never fires: `a` before it takes all that meets it",
          {"platform": "cuda", "mask_free": True, "backend": "other"}, ("`a`",)),
         ("same-when", "t.yaml:6:5", "row `b` has the condition of `a` in line 4, which goes before it", None,
          ("mine/b", "mine/a"))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_told_of_a_table(case: str) -> None:
    """In the order of its rows, with a situation that shows it and the rows that have a part in it."""
    rows, needs, told = CASES[case]

    assert linted(rows, needs) == told


def test_the_last_row_is_told_like_any_other() -> None:
    """Nothing is implied where there is no condition."""
    found = read(CUDA, LAST)
    everything = read("id: a, use: A", LAST)

    assert list(lint_table(found, rules_with([found], {}))) == [
        Finding(
            "partly-shadowed", Place("t.yaml", 5, 5, "rows[1]"),
            "row `z` fires only partly: `a` takes part of it, such as platform cuda",
            {"backend": "other", "platform": "cuda"}, ("`a`",),
        ),
    ]  # fmt: skip
    assert list(lint_table(everything, rules_with([everything], {}))) == [
        Finding(
            "shadowed", Place("t.yaml", 5, 5, "rows[1]"),
            "row `z` never fires: `a` before it takes all that meets it",
            {"backend": "other", "platform": "cuda"}, ("`a`",),
        ),
    ]  # fmt: skip


SAME = "when: {platform: cuda, mask_free: true}"


@pytest.mark.parametrize(
    ("first", "second", "needs", "same"),
    [
        ("use: A", "use: B", {}, True),
        ("use: A", "refuse: n", {}, True),
        ("use: A", "use: B", {"A": "causal: true"}, False),
        ("use: A", "use: B", {"B": "causal: true"}, False),
        ("use: A", "use: A", {"A": "causal: true"}, True),
        ("use: A", "use: B", {"A": "causal: true", "B": "causal: true"}, True),
        ("use: '{backend}'", "use: '{backend}'", {"A": "causal: true"}, True),
        ("use: '{backend}'", "use: A", {}, False),
        ("use: '{backend}'", "refuse: '{backend}'", {}, False),
        ("use: '{backend}'", "use: '{platform}'", {}, False),
    ],
)
def test_a_condition_is_the_same_where_the_needs_are(first: str, second: str, needs: Needs, same: bool) -> None:
    """Of whatever is named the fact that names it counts."""
    told = linted([f"id: a, {SAME}, {first}", f"id: b, {SAME}, {second}"], needs)

    assert ("same-when" in [code for code, *_ in told]) is same


def test_rows_without_a_condition_have_not_the_same() -> None:
    """Nor does a row that comes third have that of the second, but that of the first."""
    told = linted(["id: a, use: A", "id: b, use: A", *(f"id: {name}, {SAME}, use: A" for name in "cde")], {})

    assert [(code, message) for code, _, message, _, _ in told if code == "same-when"] == [
        ("same-when", "row `d` has the condition of `c` in line 6, which goes before it"),
        ("same-when", "row `e` has the condition of `c` in line 6, which goes before it"),
    ]


# --- questions that are left open ---------------------------------------------------------------------------------

MANY = (
    "id: a, when: {platform: cuda, mask_free: true}, use: A", "id: b, when: {platform: rocm}, use: A",
    "id: d, when: {platform: [cuda, rocm]}, use: B",
)  # fmt: skip
MANY_IDS = "abd"
QUESTIONS = (
    "whether the rows before it leave it anything", "where its target cannot run",
    "whether one of its conditions is implied",
)  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        (0, "a0 a1 a2 b0 b1 b2 d0 d1 d2"),
        (1, "a1 a2 b1 b2 d0 d1 d2"),
        (2, "a:cannot-run a2 b:cannot-run b2 d:partly-shadowed d1"),
        (3, "a:cannot-run a2 b:cannot-run d:partly-shadowed d:cannot-run"),
        (4, "a:cannot-run b:cannot-run d:partly-shadowed d:cannot-run"),
    ],
)
def test_a_question_that_takes_more_steps_is_left_open(steps: int, told: str) -> None:
    """And told; the next ones are asked all the same."""
    found = linted(MANY, {"A": "arch: '>=sm_80'", "B": "causal: true"}, steps)

    expected = []
    for word in told.split():
        row, code = word[0], word[2:]
        question = code or f"row `{row}`: {QUESTIONS[int(word[1])]} was not found out in {steps} steps"
        expected.append((f"t.yaml:{4 + MANY_IDS.index(row)}:5", question))
    assert [(place, message if code == "open-question" else code) for code, place, message, _, _ in found] == expected
    assert [rows for code, _, _, _, rows in found if code == "open-question"] == [
        (f"mine/{word[0]}",) for word in told.split() if len(word) == 2
    ]


def test_where_a_refusal_cannot_run_is_no_question() -> None:
    """Nor is it for whatever was named."""
    refusing, named = "id: a, when: {platform: cuda}, refuse: n", "id: a, when: {mask_free: true}, use: '{platform}'"

    assert [message for _, _, message, _, _ in linted([refusing], {}, 0)] == [
        f"row `a`: {QUESTIONS[number]} was not found out in 0 steps" for number in (0, 2)
    ]
    assert [message for _, _, message, _, _ in linted([named], {"cuda": "arch: present"}, 0)] == [
        f"row `a`: {QUESTIONS[0]} was not found out in 0 steps"
    ]


def test_as_many_steps_are_taken_as_are_allowed_by_default() -> None:
    """For each question."""
    found = read(*MANY, LAST)
    rules = rules_with([found], {"A": "arch: '>=sm_80'"})

    assert list(lint_table(found, rules)) == list(lint_table(found, rules, STEPS)) == lint_tables(rules)
    assert list(lint_table(found, rules, 0)) == lint_tables(rules, 0) != lint_tables(rules)


def test_a_table_that_is_too_large_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason; the place is that of the table."""
    found = read("id: a, when: {platform: cuda, any: [head_dim: 64, mask_free: true]}, use: A", LAST)
    rules, place = rules_with([found], {}), found.place

    with monkeypatch.context() as patch:
        patch.setattr(regions, "MOST_BOXES", 1)
        assert list(lint_table(found, rules)) == [
            Finding("open-question", place, "table `mine` is not checked: a row falls into too many boxes")
        ]
    with monkeypatch.context() as patch:
        patch.setattr(cells, "MOST_COMBINATIONS", 2)
        assert list(lint_table(found, rules)) == [
            Finding(
                "open-question", place, "table `mine` is not checked: `platform` have 3 combinations, more than the 2 "
                "that are tried",
            ),
        ]  # fmt: skip


# --- order --------------------------------------------------------------------------------------------------------


def test_findings_come_worst_first() -> None:
    """Then in the order of the files, and by their code; those that are alike stay as they are."""
    first, second = Place("a.yaml", 2, 1), Place("b.yaml", 1, 1)
    found = [
        Finding("cannot-run", second, "1"), Finding("partly-shadowed", first, "2"), Finding("cannot-run", first, "3"),
        Finding("same-when", second, "4"), Finding("never-fires", second, "5"), Finding("unused-set", first, "6"),
        Finding("same-when", second, "0"),
    ]  # fmt: skip

    assert [finding.message for finding in ordered(found)] == ["5", "6", "4", "0", "3", "2", "1"]


def test_every_table_is_checked() -> None:
    """Findings of all of them are put in order."""
    one = read(CUDA, LAST, name="one")
    two = read("id: a, when: {platform: cuda, not: {platform: cuda}}, use: A", LAST, name="two")

    assert [(finding.code, finding.message[:7]) for finding in lint_tables(rules_with([one, two], {}))] == [
        ("never-fires", "row `a`"), ("partly-shadowed", "row `z`"),
    ]  # fmt: skip


# --- what a condition says ----------------------------------------------------------------------------------------


def test_what_a_condition_says_is_told_without_its_place() -> None:
    """Whatever the order of its parts."""
    one = condition("{platform: cuda, any: [mask_free: true, causal: absent], not: {arch: sm_90}}")
    same = condition("{not: {arch: sm_90}, any: [causal: absent, mask_free: true], platform: cuda}")
    platform, free, absent, arch = conditions.tests(one)

    assert written(platform) == ("platform", "equals", ("cuda",), False, None, frozenset())
    assert written(free) == ("mask_free", "equals", (True,), False, None, frozenset())
    assert written(absent) == ("causal", "absent", (), True, None, frozenset())
    assert written(one) == written(same)
    assert written(one) == (
        "all",
        frozenset({written(platform), ("any", frozenset({written(free), written(absent)})), ("not", written(arch))}),
    )
    assert written(ALWAYS) == ("all", frozenset())
    assert len({written(part) for part in (Both((free,)), Either((free,)), Not(free), free, Both(()), Either(()))}) == 6


def test_what_is_answered_for_unknown_is_part_of_a_condition() -> None:
    """And the words that stand for a number that is not known."""
    texts = ("head_dim: 64", "head_dim: {equals: 64, unknown: match}", "head_dim: {in: [64]}", "head_dim: symbolic")
    found = [written(condition(text)) for text in texts]

    assert len(set(found)) == 4
    assert found[1] == ("head_dim", "equals", (64,), False, True, frozenset({"symbolic"}))
