from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING

import pytest

from selector.rules import conditions
from selector.rules.conditions import ALWAYS, Both, Either, Not, Result, Truth, blame, distance, results, would_hold
from selector.rules.problems import Place
from tests.selector.rules.language import Facts, condition, truth
from tests.selector.rules.texts import short

if TYPE_CHECKING:
    from collections.abc import Iterable

_TRUTHS: tuple[Truth, ...] = (False, None, True)
_RANK = {False: 0, None: 1, True: 2}
_FACTS: dict[Truth, str] = {False: "mask_free: false", True: "mask_free: true", None: "causal: true"}


def _constant(value: Truth) -> conditions.Test:
    (test,) = conditions.tests(condition(_FACTS[value]))
    return test


def _held(values: Iterable[Truth], join: Callable[[tuple[conditions.Condition, ...]], conditions.Condition]) -> Truth:
    """Join tests that hold, fail and are undetermined, and evaluate."""
    return join(tuple(map(_constant, values))).holds({"mask_free": True})


@pytest.mark.parametrize(
    "values", [*product(_TRUTHS, repeat=2), *product(_TRUTHS, repeat=3), *product(_TRUTHS, repeat=1)]
)
def test_all_is_the_least_and_any_the_greatest_of_three_values(values: tuple[Truth, ...]) -> None:
    """False is less than undetermined, which is less than true: Kleene's logic, in whatever order parts stand."""
    assert _held(values, Both) is min(values, key=lambda value: _RANK[value])
    assert _held(values, Either) is max(values, key=lambda value: _RANK[value])


@pytest.mark.parametrize(("value", "turned"), [(True, False), (None, None), (False, True)])
def test_not_leaves_what_is_undetermined(value: Truth, turned: Truth) -> None:
    """True and false change places."""
    assert Not(_constant(value)).holds({"mask_free": True}) is turned


def test_no_condition_always_holds() -> None:
    """An empty conjunction is true and an empty alternative false, as everywhere."""
    assert ALWAYS.holds({}) is True
    assert Either(()).holds({}) is False


@pytest.mark.parametrize(
    ("when", "facts", "answer"),
    [
        ("{platform: cuda, head_dim: 64}", {"platform": "cuda", "head_dim": 64}, True),
        ("{platform: cuda, head_dim: 64}", {"platform": "cpu"}, False),
        ("{platform: cuda, head_dim: 64}", {"platform": "cuda"}, None),
        ("any: [{platform: cuda}, {head_dim: 64}]", {"platform": "cpu"}, None),
        ("any: [{platform: cuda}, {head_dim: 64}]", {"platform": "cuda"}, True),
        ("all: [{platform: cuda}, {head_dim: 64}]", {"head_dim": 63}, False),
        ("not: {platform: cuda, head_dim: 64}", {"platform": "cpu"}, True),
        ("not: {platform: cuda, head_dim: 64}", {"platform": "cuda"}, None),
        ("not: {any: [platform: cuda, not: {head_dim: 64}]}", {"platform": "cpu", "head_dim": 64}, True),
        ("not: {any: [platform: cuda, not: {head_dim: 64}]}", {"platform": "cpu"}, None),
        ("{any: [head_dim: 64, head_dim: 128], not: {arch: {in: blackwell}}}", {"head_dim": 128, "arch": None}, True),
        ("{any: [head_dim: 64, head_dim: 128], not: {arch: {in: blackwell}}}",
         {"head_dim": 128, "arch": "sm_103"},
         False),
        ("all: [any: [all: [not: {not: {platform: cuda}}]]]", {"platform": "cuda"}, True),
        ("not: {packages.flash: {compare: '>=4', unknown: fail}}", {}, True),
        ("not: {packages.flash: {compare: '>=4', unknown: match}}", {}, False),
        ("not: {packages.flash: '>=4'}", {"packages.flash": None}, True),
    ],
    ids=short,
)  # fmt: skip
def test_groups_nest(when: str, facts: Facts, answer: Truth) -> None:
    """Facts side by side are ANDed, and `all`, `any` and `not` stand in each other."""
    assert truth(when, facts) is answer


_NESTED = "{platform: cuda, any: [head_dim: 64, not: {steps: {min: 8, unknown: fail}}], not: {all: [causal: true]}}"


def test_every_test_is_told_in_the_order_of_the_text() -> None:
    """A trace has one result for each test, also those that evaluation need not reach."""
    found = list(results(condition(_NESTED), {"platform": "cpu", "steps": 9, "causal": None}, "when"))

    assert [(item.fact, item.op, item.held, item.known, item.group, item.negated) for item in found] == [
        ("platform", "equals", False, True, "", False),
        ("head_dim", "equals", None, False, "any.", False),
        ("steps", "min", True, True, "any.not.", True),
        ("causal", "equals", False, True, "not.", True),
    ]
    assert [str(item.place) for item in found] == ["t.yaml:1:2", "t.yaml:1:24", "t.yaml:1:44", "t.yaml:1:90"]
    assert {item.origin for item in found} == {"when"}
    assert [item.blamed for item in found] == [True, True, True, False]
    assert [test.fact for test in conditions.tests(condition(_NESTED))] == [item.fact for item in found]


@pytest.mark.parametrize(
    ("when", "facts", "reasons"),
    [
        ("head_dim: 128", {"head_dim": 64}, ["head_dim: wanted 128, got 64"]),
        ("head_dim: 128", {}, ["head_dim: wanted 128, got unknown"]),
        ("cudnn: present", {"cudnn": None}, ["cudnn: wanted present, got null"]),
        ("mask_free: true", {"mask_free": False}, ["mask_free: wanted true, got false"]),
        ("not: {platform: cuda}", {"platform": "cuda"}, ["platform: wanted not cuda, got cuda"]),
        ("not: {not: {platform: cuda}}", {"platform": "cpu"}, ["platform: wanted cuda, got cpu"]),
        ("arch: {in: blackwell}", {"arch": "sm_90"}, ["arch: wanted blackwell (sm_10x, sm_120), got sm_90"]),
        ("head_dim: {multiple_of: 8, max: 256}", {"head_dim": 260},
         ["head_dim: wanted a multiple of 8, got 260", "head_dim: wanted at most 256, got 260"]),
        ("head_dim: [64, 128]", {"head_dim": "symbolic"}, ["head_dim: wanted one of 64, 128, got symbolic"]),
    ],
    ids=short,
)  # fmt: skip
def test_a_reason_says_what_was_wanted_and_what_is(when: str, facts: Facts, reasons: list[str]) -> None:
    """Both values stand in the reason, and unknown is a word of its own."""
    assert [item.reason() for item in blame(condition(when), facts, "when")] == reasons


@pytest.mark.parametrize(
    ("when", "facts", "blamed"),
    [
        ("{platform: cuda, head_dim: 64}", {"platform": "cuda", "head_dim": 64}, []),
        ("{platform: cuda, head_dim: 64}", {"platform": "cpu", "head_dim": 64}, ["platform"]),
        ("{platform: cuda, head_dim: 64}", {"platform": "cpu"}, ["platform", "head_dim"]),
        ("any: [{platform: cuda, steps: 1}, {head_dim: 64}]",
         {"platform": "cpu", "steps": 2, "head_dim": 63},
         ["head_dim"]),
        ("any: [{platform: cuda, steps: 1}, {head_dim: 64}]",
         {"platform": "cuda", "steps": 2, "head_dim": 63},
         ["steps", "head_dim"]),
        ("not: {platform: cuda, steps: 1}", {"platform": "cuda", "steps": 1}, ["platform", "steps"]),
        ("not: {platform: cuda, steps: 1}", {"platform": "cuda"}, ["steps"]),
        ("not: {any: [platform: cuda, steps: 1]}", {"platform": "cuda", "steps": 1}, ["platform", "steps"]),
        ("not: {any: [platform: cuda, steps: 1]}", {"platform": "cuda", "steps": 2}, ["platform"]),
        ("not: {not: {platform: cuda, steps: 1}}", {"platform": "cuda", "steps": 2}, ["steps"]),
    ],
    ids=short,
)  # fmt: skip
def test_the_tests_that_stand_in_the_way_are_blamed(when: str, facts: Facts, blamed: list[str]) -> None:
    """Of parts that must all hold every one that does not, of alternatives those that lack least."""
    assert [item.fact for item in blame(condition(when), facts, "when")] == blamed


def test_the_origin_of_a_blamed_test_is_told() -> None:
    """A trace says whether a row's own condition or its target's ability stood in the way."""
    (found,) = blame(condition("platform: cuda"), {"platform": "cpu"}, "ability")

    assert found.origin == "ability"
    assert found.blamed


def test_granting_a_test_takes_it_as_met_where_it_must_be_met() -> None:
    """The rest of the condition is asked as before, and what stands below a `not` too."""
    whole = condition("{platform: cuda, any: [head_dim: 64, steps: 1], not: {causal: true}}")
    facts: Facts = {"platform": "cpu", "head_dim": 63, "steps": 2, "causal": False}

    assert would_hold(whole, facts, lambda test: test.fact in {"platform", "steps"})
    assert not would_hold(whole, facts, lambda test: test.fact == "platform")
    assert would_hold(whole, facts, lambda _: True)
    assert not would_hold(whole, {**facts, "causal": True}, lambda _: True)
    assert not would_hold(whole, {name: value for name, value in facts.items() if name != "causal"}, lambda _: True)
    assert not would_hold(whole, {}, lambda _: False)
    assert would_hold(whole, {"platform": "cuda", "head_dim": 64, "causal": False}, lambda _: False)


@pytest.mark.parametrize("negated", [False, True])
def test_a_result_has_all_that_its_test_has(*, negated: bool) -> None:
    """What was asked, what is, whether that holds, where it is written, and in which groups."""
    text = "any: [not: {head_dim: {min: 64, unknown: match}}]"

    known, unknown = (
        list(results(condition(text), facts, "ability", "a.", negated=negated)) for facts in ({"head_dim": 32}, {})
    )

    place, wanted, group = Place("t.yaml", 1, 13, "rule.any[0].not.head_dim"), "at least 64", "a.any.not."
    assert known == [
        Result("head_dim", "min", wanted, 32, known=True, held=False, place=place, origin="ability", group=group,
               negated=not negated)
    ]  # fmt: skip
    assert unknown == [
        Result("head_dim", "min", wanted, None, known=False, held=True, place=place, origin="ability", group=group,
               negated=not negated)
    ]  # fmt: skip


_HERE: Facts = {"platform": "cuda", "steps": 1, "head_dim": 64}


@pytest.mark.parametrize(
    ("when", "met", "unmet"),
    [
        ("platform: cuda", (0, 0), (1, 0)),
        ("platform: cpu", (1, 0), (0, 0)),
        ("mask_free: true", (0, 1), (0, 1)),
        ("{platform: cpu, steps: 2, mask_free: true, causal: true}", (2, 2), (0, 0)),
        ("{platform: cuda, steps: 1, head_dim: 64}", (0, 0), (1, 0)),
        ("{platform: cuda, steps: 1, mask_free: true}", (0, 1), (0, 1)),
        ("any: [platform: cpu, steps: 2]", (1, 0), (0, 0)),
        ("any: [platform: cuda, steps: 1, steps: 2]", (0, 0), (2, 0)),
        ("any: [platform: cpu, mask_free: true]", (0, 1), (0, 1)),
        ("any: [platform: cuda, mask_free: true, causal: true]", (0, 0), (1, 2)),
        ("any: [{platform: cpu, steps: 2}, {platform: cpu, mask_free: true}]", (1, 1), (0, 0)),
        ("not: {platform: cuda}", (1, 0), (0, 0)),
        ("not: {any: [platform: cuda, mask_free: true]}", (1, 1), (0, 0)),
        ("not: {platform: cuda, mask_free: true}", (0, 1), (0, 1)),
        ("{platform: cpu, not: {not: {steps: 2}}}", (2, 0), (0, 0)),
    ],
    ids=short,
)
def test_the_distance_counts_what_fails_and_then_what_is_undetermined(
    when: str, met: tuple[int, int], unmet: tuple[int, int]
) -> None:
    """Of parts that must all hold the sum, of alternatives the least; below a `not` what keeps it from failing."""
    found = condition(when)

    assert distance(found, _HERE) == distance(found, _HERE, wanted=True) == met
    assert distance(found, _HERE, wanted=False) == unmet


def test_nothing_is_nearer_to_an_alternative_without_parts() -> None:
    """There is nothing to change in it, and nothing to blame."""
    assert distance(Either(()), {}) == (0, 0)
    assert distance(ALWAYS, {}, wanted=False) == (0, 0)
    assert blame(Either(()), {}, "when") == []


@pytest.mark.parametrize(
    ("when", "blamed"),
    [
        ("any: [platform: cpu, mask_free: true]", ["mask_free"]),
        ("any: [{platform: cpu, steps: 2}, {steps: 2, mask_free: true}]", ["steps", "mask_free"]),
        ("any: [{steps: 2}, {mask_free: true, causal: true, arch: sm_90}]", ["mask_free", "causal", "arch"]),
        ("any: [{steps: 2}, {all: [platform: cpu, mask_free: true]}, {head_dim: 63}]", ["steps", "head_dim"]),
        ("not: {all: [platform: cuda, mask_free: true, steps: 1]}", ["mask_free"]),
    ],
    ids=short,
)
def test_what_is_undetermined_is_nearer_than_what_fails(when: str, blamed: list[str]) -> None:
    """A test that fails outweighs any number of those that may still hold."""
    assert [item.fact for item in blame(condition(when), _HERE, "when")] == blamed


def test_what_is_blamed_below_a_not_is_told_as_negated() -> None:
    """Each test by the number of `not`s above it."""
    found = blame(condition("{platform: cpu, not: {any: [steps: 1, not: {head_dim: 128}]}}"), _HERE, "when")

    assert [(item.fact, item.negated) for item in found] == [("platform", False), ("steps", True), ("head_dim", False)]
