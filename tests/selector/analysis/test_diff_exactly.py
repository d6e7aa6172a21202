"""What is told of small changes, word for word, and of what takes too many steps."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from selector.analysis import cells, regions
from selector.analysis import diff as module
from selector.analysis.boxes import STEPS as OF_A_QUESTION
from selector.analysis.boxes import Budget
from selector.analysis.diff import STEPS, Change, Diff, TableDiff, diff
from selector.analysis.space import Box
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, shipped
from tests.selector.analysis.small_rules import rules_of
from tests.selector.rules.language import read_words

Needs = Mapping[str, str]
Told = tuple[str, str | None, str | None, tuple[str | None, str | None], int | None, Mapping[str, Value], Box]
LAST = "id: z, use: TORCH_SDPA"
A = "id: a, when: {mask_free: true}, use: CUDNN_ATTN"
B = "id: b, when: {compile: true}, use: FLASH_ATTN"
C = "id: c, when: {head_dim: 64}, use: SAGE_ATTN"
KNOWN = "id: b, when: {compile: [true, false]}, use: FLASH_ATTN"
CUDA: dict[str, Value] = {"platform": "cuda"}


def sides(
    old: Sequence[str], new: Sequence[str], needs: Needs, later: Needs, table: str = "platform_default"
) -> tuple[RuleSet, RuleSet]:
    """Give two rule sets with a table that ends in the same row; another table has that row alone as defaults."""
    if table == "platform_default":
        return rules_of([*old, LAST], needs), rules_of([*new, LAST], later)
    return rules_of([LAST], needs, None, **{table: old}), rules_of([LAST], later, None, **{table: new})


def compared(old: RuleSet, new: RuleSet, table: str = "platform_default", steps: int = STEPS) -> TableDiff:
    """Compare one table."""
    (found,) = [one for one in diff(old, new, steps).tables if one.table == table]
    return found


def told(found: TableDiff) -> list[Told]:
    """Give changes as plain values."""
    assert {change.table for change in found.changes} <= {found.table}
    return [
        (one.where, one.before, one.after, one.rows, one.cells, one.example, one.box) for one in found.changes
    ]  # fmt: skip


# --- a table of platform defaults; variables are `head_dim` where it is asked about, `mask_free` and `compile` ----

CASES: Mapping[str, tuple[Sequence[str], Sequence[str], Needs, Needs, list[Told]]] = {
    "a row is moved": (
        [A, B], [B, A], {}, {},
        [("mask_free true, compile true", "use CUDNN_ATTN", "use FLASH_ATTN", ("a", "b"), 1,
          CUDA | {"mask_free": True, "compile": True}, (2, 2))],
    ),
    "a row is gone": (
        [A, B], [A], {}, {},
        [("mask_free not true or not known, compile true", "use FLASH_ATTN", "use TORCH_SDPA", ("b", "z"), 2,
          CUDA | {"compile": True}, (5, 2))],
    ),
    "a row is put in": (
        [A], [B, A], {}, {},
        [("mask_free true, compile true", "use CUDNN_ATTN", "use FLASH_ATTN", ("a", "b"), 1,
          CUDA | {"mask_free": True, "compile": True}, (2, 2)),
         ("mask_free not true or not known, compile true", "use TORCH_SDPA", "use FLASH_ATTN", ("z", "b"), 2,
          CUDA | {"compile": True}, (5, 2))],
    ),
    "a condition is tightened": (
        [A, B], [A, "id: b, when: {compile: true, head_dim: 64}, use: FLASH_ATTN"], {}, {},
        [("head_dim not 64 or not known, mask_free not true or not known, compile true", "use FLASH_ATTN",
          "use TORCH_SDPA", ("b", "z"), 4, CUDA | {"compile": True}, (5, 5, 2))],
    ),
    "a row does something else": (
        [A, B], [A, "id: b, when: {compile: true}, use: SAGE_ATTN"], {}, {},
        [("mask_free not true or not known, compile true", "use FLASH_ATTN", "use SAGE_ATTN", ("b", "b"), 2,
          CUDA | {"compile": True}, (5, 2))],
    ),
    "a row refuses": (
        [A, B], [A, "id: b, when: {compile: true}, refuse: no"], {}, {},
        [("mask_free not true or not known, compile true", "use FLASH_ATTN", "refuse", ("b", "b"), 2,
          CUDA | {"compile": True}, (5, 2))],
    ),
    "a row has another id": ([A, B], [A, "id: c, when: {compile: true}, use: FLASH_ATTN"], {}, {}, []),
    "a target needs less": (
        [A, B], [A, B], {"FLASH_ATTN": "{head_dim: 64}"}, {"FLASH_ATTN": "{head_dim: {max: 64}}"},
        [("head_dim at most 64 and head_dim not 64, mask_free not true or not known, compile true", "use TORCH_SDPA",
          "use FLASH_ATTN", ("z", "b"), 2, CUDA | {"head_dim": 1, "compile": True}, (4, 5, 2))],
    ),
    "a target needs nothing": (
        [A, B], [A, B], {"FLASH_ATTN": "{head_dim: 64}"}, {},
        [("head_dim not 64 or not known, mask_free not true or not known, compile true", "use TORCH_SDPA",
          "use FLASH_ATTN", ("z", "b"), 4, CUDA | {"compile": True}, (5, 5, 2))],
    ),
    "rows are moved and changed": (
        [A, B, C], [C, KNOWN, A], {}, {},
        [("head_dim 64, mask_free true", "use CUDNN_ATTN", "use SAGE_ATTN", ("a", "c"), 3,
          CUDA | {"head_dim": 64, "mask_free": True}, (2, 2, 7)),
         ("head_dim not 64 or not known, mask_free true, compile one of true, false", "use CUDNN_ATTN",
          "use FLASH_ATTN", ("a", "b"), 4, CUDA | {"mask_free": True, "compile": True}, (5, 2, 6)),
         ("head_dim 64, mask_free not true or not known, compile true", "use FLASH_ATTN", "use SAGE_ATTN", ("b", "c"),
          2, CUDA | {"head_dim": 64, "compile": True}, (2, 5, 2)),
         ("head_dim not 64 or not known, mask_free not true or not known, compile not true", "use TORCH_SDPA",
          "use FLASH_ATTN", ("z", "b"), 4, CUDA | {"compile": False}, (5, 5, 4))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_regions_in_which_a_decision_changes(case: str) -> None:
    """Each with its rows, what they do, how many classes it has, an example and its box; nothing is left open."""
    old, new, needs, later, expected = CASES[case]

    found = compared(*sides(old, new, needs, later))

    assert told(found) == expected
    assert found.space is not None
    assert found.open is None


REFUSING = "id: d, when: {compile: false, mask_free: true}, refuse: {}"


@pytest.mark.parametrize(
    "new",
    [
        [A, B, C, REFUSING.replace("{}", "one")],
        [A, B, C, REFUSING.replace("{}", "another")],
        [A, B, "id: c, when: {head_dim: {equals: 64}}, use: SAGE_ATTN",
         "id: d, when: {mask_free: true, compile: false}, refuse: one"],
    ],
)  # fmt: skip
def test_rows_that_say_the_same_are_not_even_compared(new: Sequence[str]) -> None:
    """However they are written, and in whatever words they refuse."""
    found = diff(*sides([A, B, C, REFUSING.replace("{}", "one")], new, {}, {}))

    assert [(one.table, one.changes, one.space, one.open) for one in found.tables] == [
        (name, (), None, None) for name in shipped().tables
    ]
    assert not found.changed


def test_what_a_table_requires_may_differ() -> None:
    """Then it is compared, over what both have."""
    old, new = sides([A, B], [A, B], {}, {})
    table = new.tables["platform_default"]
    new = replace(new, tables={**new.tables, table.name: replace(table, requires=("platform", "compile"))})

    found, same = compared(old, new), compared(new, new)

    assert (told(found), found.open) == ([], None)
    assert found.space is not None
    assert [len(variable.cells) for variable in found.space.variables] == [3, 3]
    assert same.space is None


# --- tables that are asked about a backend ------------------------------------------------------------------------

WHATEVER, NONE = "id: x, use: '{backend}'", "id: n, refuse: no"
TWO: Needs = {"CUDNN_ATTN": "{head_dim: 64}", "FLASH_ATTN": "{mask_free: true}"}
NEWER: Needs = {**TWO, "FLASH_ATTN": "{mask_free: true, compile: true}"}
THREE: Needs = {**TWO, "SAGE_ATTN": "{compile: true}"}
NOT_FREE = "id: y, when: {mask_free: true}, refuse: no"
CAUSAL = "id: y, when: {causal: true}, refuse: no"


def situation(**more: Value) -> Mapping[str, Value]:
    """Give facts with those that are always known before a named backend is tried."""
    return {"platform": "cuda", "policy": "fallback", **more}


NAMED: Mapping[str, tuple[str, Sequence[str], Sequence[str], Needs, Needs, list[Told]]] = {
    "a named backend needs more": (
        "explicit", [WHATEVER, NONE], [WHATEVER, NONE], TWO, NEWER,
        [("mask_free true, compile not true or not known, backend FLASH_ATTN", "use {backend}", "refuse", ("x", "n"), 6,
          situation(mask_free=True, backend="FLASH_ATTN"), (7, 2, 5, 4))],
    ),
    "one set alone knows a backend": ("explicit", [WHATEVER, NONE], [WHATEVER, NONE], TWO, THREE, []),
    "that set is the older one": ("explicit", [WHATEVER, NONE], [WHATEVER, NONE], THREE, TWO, []),
    "of what both know each change is told": (
        "explicit", [NOT_FREE, WHATEVER, NONE], [WHATEVER, NONE], TWO, THREE,
        [("mask_free true, backend TORCH_SDPA or FLASH_ATTN", "refuse", "use {backend}", ("y", "x"), 18,
          situation(mask_free=True, backend="TORCH_SDPA"), (7, 2, 7, 5)),
         ("head_dim 64, mask_free true, backend CUDNN_ATTN", "refuse", "use {backend}", ("y", "x"), 3,
          situation(head_dim=64, mask_free=True, backend="CUDNN_ATTN"), (2, 2, 7, 2))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", NAMED)
def test_regions_in_which_another_answer_is_given_for_a_backend(case: str) -> None:
    """What only one set knows cannot be named in both."""
    table, old, new, needs, later, expected = NAMED[case]

    found = compared(*sides(old, new, needs, later, table), table)

    assert told(found) == expected
    assert found.space is not None
    assert found.open is None


CUDNN, FLASH = "head_dim 64, causal true, backend CUDNN_ATTN", "mask_free true, causal true, backend FLASH_ATTN"
NEWER_FLASH = "mask_free true, causal true, compile true, backend FLASH_ATTN"


@pytest.mark.parametrize(
    ("needs", "later", "where"),
    [
        (TWO, TWO, [FLASH, CUDNN]),
        (TWO, NEWER, [NEWER_FLASH, CUDNN]),
        (NEWER, TWO, [NEWER_FLASH, CUDNN]),
        (TWO, {"FLASH_ATTN": NEWER["FLASH_ATTN"]}, [NEWER_FLASH]),
        (THREE, TWO, [FLASH, CUDNN]),
        (TWO, THREE, [FLASH, CUDNN]),
    ],
)
def test_a_call_is_told_where_its_backend_can_run_in_both_sets(needs: Needs, later: Needs, where: list[str]) -> None:
    """Elsewhere it comes to no call, or not to that one, which is told where the backend is chosen."""
    found = compared(*sides([CAUSAL, WHATEVER, NONE], [WHATEVER, NONE], needs, later, "call"), "call")

    assert [(one.where, one.before, one.after, one.rows) for one in found.changes] == [
        (words, "refuse", "use {backend}", ("y", "x")) for words in where
    ]


def test_a_condition_on_the_backend_is_not_what_it_needs() -> None:
    """Though it names one."""
    both = "id: y, when: {backend: [CUDNN_ATTN, FLASH_ATTN], causal: true}, refuse: no"

    found = compared(*sides([both, WHATEVER, LAST], [WHATEVER, LAST], TWO, TWO, "call"), "call")

    assert [one.where for one in found.changes] == [FLASH, CUDNN]


@pytest.mark.parametrize(("needs", "later"), [(TWO, TWO), (TWO, {}), ({}, TWO), ({}, {}), (TWO, NEWER)])
def test_where_nothing_is_known_of_what_is_named_all_is_told(needs: Needs, later: Needs) -> None:
    """Rows that name no backend themselves are compared wherever they hold."""
    where = "mask_free not true or not known, causal true"

    found = compared(
        *sides([NOT_FREE.replace("y", "f", 1), CAUSAL], [NOT_FREE.replace("y", "f", 1)], needs, later, "call"), "call"
    )

    assert [(one.where, one.before, one.after, one.rows) for one in found.changes] == [
        (where, "refuse", None, ("y", None))
    ]


@pytest.mark.parametrize(
    ("needs", "later", "where"),
    [(TWO, {}, ["causal true"]), ({}, TWO, ["causal true, backend TORCH_SDPA", FLASH, CUDNN])],
)
def test_a_set_that_knows_no_backend_leaves_nothing_out(needs: Needs, later: Needs, where: list[str]) -> None:
    """There is nothing that both could run, and whatever is named runs in one of them."""
    found = compared(*sides([CAUSAL, WHATEVER, NONE], [WHATEVER, NONE], needs, later, "call"), "call")

    assert [one.where for one in found.changes if one.rows == ("y", "x")] == where


def test_a_table_that_was_not_asked_about_a_backend_before_is_compared_as_a_whole() -> None:
    """No backend had to be known then."""
    old, new = sides([CAUSAL, NONE], [WHATEVER, NONE], TWO, TWO, "call")
    old = replace(old, tables={**old.tables, "call": replace(old.tables["call"], requires=("platform",))})

    assert [one.where for one in compared(old, new, "call").changes if one.rows == ("y", "x")] == [
        "causal true, backend TORCH_SDPA", FLASH, CUDNN
    ]  # fmt: skip


# --- what is left open --------------------------------------------------------------------------------------------


def too_many(*rows: str) -> str:
    """Say that a row wins in too many regions."""
    return "; ".join(f"the regions in which {row} wins are too many to tell each" for row in rows)


A_AS_WHOLE: list[Told] = [
    ("mask_free true, as far as a wins", "use CUDNN_ATTN", "use SAGE_ATTN", ("a", None), None,
     CUDA | {"head_dim": 64, "mask_free": True}, (7, 2, 7)),
    ("mask_free true, as far as a wins", "use CUDNN_ATTN", "use FLASH_ATTN", ("a", None), None,
     CUDA | {"mask_free": True, "compile": True}, (7, 2, 7)),
]  # fmt: skip
B_AS_WHOLE: list[Told] = [
    ("head_dim 64, compile true, as far as b wins", "use FLASH_ATTN", "use SAGE_ATTN", ("b", None), None,
     CUDA | {"head_dim": 64, "compile": True}, (2, 7, 2)),
    ("compile one of true, false, as far as b wins", "use TORCH_SDPA", "use FLASH_ATTN", (None, "b"), None,
     CUDA | {"compile": False}, (7, 7, 6)),
]  # fmt: skip
EXACTLY = CASES["rows are moved and changed"][-1]


@pytest.mark.parametrize(
    ("steps", "expected", "left"),
    [
        (0, [*A_AS_WHOLE, *B_AS_WHOLE], too_many("a", "b")),
        (4, [*A_AS_WHOLE, *B_AS_WHOLE], too_many("a", "b")),
        (5, [*EXACTLY[:2], *B_AS_WHOLE], too_many("b")),
        (8, [*EXACTLY[:3], B_AS_WHOLE[1]], too_many("b")),
        (15, [*EXACTLY[:3], B_AS_WHOLE[1]], too_many("b")),
        (16, EXACTLY, None),
    ],
)
def test_wins_in_too_many_regions_are_told_as_a_whole(steps: int, expected: list[Told], left: str | None) -> None:
    """For each outcome with an example; the regions of other rows are told as ever."""
    old, new, needs, later, _ = CASES["rows are moved and changed"]

    found = compared(*sides(old, new, needs, later), steps=steps)

    assert (told(found), found.open) == (expected, left)


@pytest.mark.parametrize(
    ("steps", "expected", "left"),
    [
        (4, [EXACTLY[2], *A_AS_WHOLE, B_AS_WHOLE[1]], too_many("a", "b")),
        (5, [*EXACTLY[:3], B_AS_WHOLE[1]], too_many("b")),
        (8, EXACTLY, None),
    ],
)
def test_each_row_has_so_many_steps(
    monkeypatch: pytest.MonkeyPatch, steps: int, expected: list[Told], left: str | None
) -> None:
    """Of those that all of them have."""
    old, new, needs, later, _ = CASES["rows are moved and changed"]
    monkeypatch.setattr(module, "_STEPS_OF_A_ROW", steps)

    found = compared(*sides(old, new, needs, later))

    assert (told(found), found.open) == (expected, left)


def test_the_steps_are_those_of_each_table() -> None:
    """By default there are many."""
    old, new = CASES["rows are moved and changed"][:2]
    one, other = (rules_of([*rows, LAST], {}, explicit=rows) for rows in (old, new))

    assert diff(one, other) == diff(one, other, STEPS) == diff(one, other, 16) != diff(one, other, 15)
    assert [(table.table, table.open) for table in diff(one, other, 15).tables if table.changes] == [
        ("explicit", too_many("b")), ("platform_default", too_many("b")),
    ]  # fmt: skip


def whether(*against: str) -> str:
    """Say which outcomes were not found out."""
    return "; ".join(f"whether it is {words} anywhere takes too long to tell" for words in against)


LEFT_AT_NONE = "; ".join([
    too_many("a"),
    whether("a against use SAGE_ATTN", "a against use FLASH_ATTN", "a against use TORCH_SDPA", "a against no row"),
    too_many("b"),
    whether("b against use SAGE_ATTN", "b against use CUDNN_ATTN", "b against use TORCH_SDPA", "b against no row"),
])  # fmt: skip
LEFT_AT_TWO = "; ".join([
    too_many("a"), whether("a against use FLASH_ATTN"), too_many("b"), whether("b against use TORCH_SDPA"),
])  # fmt: skip


@pytest.mark.parametrize(
    ("steps", "expected", "left"),
    [
        (0, [], LEFT_AT_NONE),
        (2, [A_AS_WHOLE[0], B_AS_WHOLE[0]], LEFT_AT_TWO),
        (3, [*A_AS_WHOLE, *B_AS_WHOLE], too_many("a", "b")),
        (OF_A_QUESTION, [*A_AS_WHOLE, *B_AS_WHOLE], too_many("a", "b")),
    ],
)
def test_an_example_that_takes_too_long_is_a_question(
    monkeypatch: pytest.MonkeyPatch, steps: int, expected: list[Told], left: str
) -> None:
    """For each outcome; the others are told all the same."""
    old, new, needs, later, _ = CASES["rows are moved and changed"]
    monkeypatch.setattr(module, "Budget", lambda left=steps: Budget(left))

    found = compared(*sides(old, new, needs, later), steps=0)

    assert (told(found), found.open) == (expected, left)


@pytest.mark.parametrize("sizes", [(64, 128), (128, 64)])
def test_an_example_for_one_of_the_rows_that_do_the_same_is_enough(
    monkeypatch: pytest.MonkeyPatch, sizes: tuple[int, int]
) -> None:
    """Even where it takes too long to find one for the other."""
    small = "id: a, when: {head_dim: 64, mask_free: true}, use: CUDNN_ATTN"
    sage = [f"id: s{size}, when: {{head_dim: {size}}}, use: SAGE_ATTN" for size in sizes]
    monkeypatch.setattr(module, "Budget", lambda left=1: Budget(left))

    found = compared(*sides([small, B], [small, *sage], {}, {}), steps=0)

    assert [one for one in told(found) if one[3] == ("b", None)] == [
        ("compile true, as far as b wins", "use FLASH_ATTN", "use SAGE_ATTN", ("b", None), None,
         CUDA | {"head_dim": 128, "compile": True}, (15, 7, 2)),
    ]  # fmt: skip
    assert whether("b against use TORCH_SDPA") in str(found.open)
    assert whether("b against use SAGE_ATTN") not in str(found.open)


def test_a_table_that_one_set_alone_has_is_not_compared() -> None:
    """Tables of the older set go first."""
    rules, other = sides([A], [A], {}, {})
    mine, yours = (replace(rules.tables["explicit"], name=name) for name in ("mine", "yours"))
    old, new = (
        replace(side, tables={**side.tables, table.name: table}) for side, table in ((rules, mine), (other, yours))
    )

    found = diff(old, new)

    assert [(one.table, one.changes, one.space, one.open) for one in found.tables[-2:]] == [
        ("mine", (), None, "the table is gone"), ("yours", (), None, "the table is new"),
    ]  # fmt: skip
    assert [one.table for one in found.tables[:-2]] == list(rules.tables)


def test_a_table_that_is_too_large_is_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reason."""
    old, new = sides([A, B], [B, A, "id: c, when: {any: [head_dim: 64, compile: true]}, use: SAGE_ATTN"], {}, {})

    with monkeypatch.context() as patch:
        patch.setattr(regions, "MOST_BOXES", 1)
        found = diff(old, new, 7)
        (table,) = [one for one in found.tables if one.open]
        assert table == TableDiff("platform_default", (), None, "the answer takes more than 7 steps")
        assert found.changed
    with monkeypatch.context() as patch:
        patch.setattr(cells, "MOST_COMBINATIONS", 2)
        assert compared(old, new) == TableDiff(
            "platform_default", (), None, "`head_dim` have 5 combinations, more than the 2 that are tried"
        )


# --- tables of a user's own ---------------------------------------------------------------------------------------


def test_in_a_table_of_a_users_own_nothing_is_known_but_what_it_requires() -> None:
    """Targets that nobody knows have no needs."""
    old, new = sides([A, B], [A, "id: b, when: {role: self}, use: dinner"], {}, {})
    old, new = (
        replace(side, tables={"mine": replace(side.tables["platform_default"], name="mine", targets="")})
        for side in (old, new)
    )  # fmt: skip

    found = compared(old, new, "mine")

    assert [(one.where, one.rows) for one in found.changes] == [
        ("role self, mask_free not true or not known, compile true", ("b", "b")),
        ("role not self or not known, mask_free not true or not known, compile true", ("b", "z")),
        ("role self, mask_free not true or not known, compile not true or not known", ("z", "b")),
    ]


# --- the whole answer ---------------------------------------------------------------------------------------------


def test_an_answer_says_whose_it_is() -> None:
    """The digests of both sets, and what differs beside the tables."""
    old, new = sides([A, B], [A, B], {}, {})
    new = replace(new, digest="another", backends={})

    found = diff(old, new)

    assert found.digests == (old.digest, "another")
    assert found.beside == tuple(f"backends: {name} (gone)" for name in old.backends)
    assert found.changed


@pytest.mark.parametrize(
    ("found", "changed"),
    [
        (Diff((TableDiff("t", ()),), (), ("", "")), False),
        (Diff((), (), ("", "")), False),
        (Diff((), ("roles: mine (new)",), ("", "")), True),
        (Diff((TableDiff("s", ()), TableDiff("t", (), open="why")), (), ("", "")), True),
        (Diff((TableDiff("t", (Change("t", "", None, None, (None, None), 1, {}, ()),)),), (), ("", "")), True),
    ],
)
def test_what_counts_as_a_change(found: Diff, changed: bool) -> None:
    """A decision, a question that is left open, and what is beside the tables."""
    assert found.changed is changed


def test_a_change_is_given_as_plain_data() -> None:
    """Without its box."""
    change = Change("t", "everywhere", "use A", None, ("a", None), 2, {"platform": "cuda"}, (1, 2))

    assert change.to_dict() == {
        "table": "t", "where": "everywhere", "before": "use A", "after": None, "rows": ["a", None], "cells": 2,
        "example": {"platform": "cuda"},
    }  # fmt: skip


def test_changes_come_in_the_order_of_the_rows() -> None:
    """Of those of the older table, and then of the newer one; that no row holds goes first."""
    rows = {
        "p": "id: p, when: {head_dim: 64}, use: A", "q": "id: q, when: {causal: true}, use: B",
        "r": "id: r, when: {mask_free: true}, use: C",
    }  # fmt: skip

    found = compared(*sides([rows["p"], rows["q"]], [rows["r"], rows["q"]], {}, {}, "call"), "call")

    assert [one.rows for one in found.changes] == [(None, "r"), ("p", None), ("p", "r"), ("p", "q"), ("q", "r")]


# --- rows that stay -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", ["", "a", "abcd", "abcdx", "xyz"])
def test_rows_that_stay_are_a_longest_series_in_both_orders(old: str) -> None:
    """Whatever was moved."""
    for new in map("".join, itertools.permutations("abcde")):
        found = module._stable(old, new)

        kept = "".join(row for row in old if row in found)
        assert kept == "".join(row for row in new if row in found)
        assert len(found) == len(kept) == max(
            len(some) for many in range(len(old) + 1) for some in itertools.combinations(old, many)
            if all(row in new for row in some) and list(some) == sorted(some, key=new.index)
        )  # fmt: skip


# --- words of both sets -------------------------------------------------------------------------------------------


OLDER = """\
facts:
  kind: {type: string, group: machine, about: Older., values: [x, y]}
  open: {type: string, group: machine, about: Older.}
  closed: {type: string, group: machine, about: Older., values: [x]}
  gone: {type: string, group: machine, about: Older., values: [x]}
  one: {type: integer, group: request, about: Older., order: number}
  two: {type: integer, group: request, about: Older., order: number}
derived:
  same: {relation: equal, of: [one, two], about: Older.}
  old: {relation: equal, of: [two, one], about: Older.}
sets:
  mine: {fact: kind, values: [x]}
  gone: {fact: kind, values: [y]}
packages:
  flash: {distributions: [flash]}
  gone: {distributions: [gone]}
"""
NEWER_WORDS = """\
facts:
  new: {type: string, group: machine, about: Newer., values: [w]}
  kind: {type: string, group: machine, about: Newer., values: [z, y]}
  open: {type: string, group: machine, about: Newer., values: [x]}
  closed: {type: string, group: machine, about: Newer.}
  one: {type: integer, group: request, about: Newer., order: number}
  two: {type: integer, group: request, about: Newer., order: number}
derived:
  same: {relation: divisible, of: [one, two], about: Newer.}
  young: {relation: divisible, of: [two, one], about: Newer.}
sets:
  mine: {fact: kind, values: [z]}
  new: {fact: kind, values: [y]}
packages:
  flash: {distributions: [flash-attn]}
  new: {distributions: [new]}
"""


def test_words_of_both_sets_are_put_together() -> None:
    """What both have is that of the newer one, but for the values of a fact, which are those of both."""
    (old, _), (new, _) = read_words(OLDER), read_words(NEWER_WORDS)

    found = module._union(old, new)

    assert {name: fact.values for name, fact in found.facts.items() if fact.type == "string"} == {
        "kind": ("x", "y", "z"), "open": ("x",), "closed": (), "gone": ("x",), "new": ("w",),
    }  # fmt: skip
    assert {name for name, fact in found.facts.items() if fact.about == "Older."} == {"gone", "old"}
    assert found.facts["kind"] == replace(new.facts["kind"], values=("x", "y", "z"))
    assert [(one.name, one.relation) for one in found.derived] == [
        ("same", "divisible"), ("old", "equal"), ("young", "divisible"),
    ]  # fmt: skip
    assert found.sets == {"mine": new.sets["mine"], "gone": old.sets["gone"], "new": new.sets["new"]}
    assert found.packages == {**old.packages, **new.packages}
    assert found.packages["flash"] == new.packages["flash"] != old.packages["flash"]
