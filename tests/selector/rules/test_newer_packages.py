from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.rules.conditions import ALWAYS
from selector.rules.vocabulary import Value
from selector.rules.walk import needs_newer
from tests.selector.rules.language import condition, row_with
from tests.selector.rules.random_rules import Kind, Plain, facts, kinds, matcher, read_when, row_says, vocabulary_of

_SEEDS = st.integers(0, 2**64)
_OLD = (Kind("v0", "version", null=True, word=False), Kind("v1", "version", null=True, word=False))


def _leaf(dice: Random, known: list[Kind]) -> Plain:
    """Draw a lower bound of a version, or anything of another fact."""
    kind = dice.choice([*known, *_OLD, *_OLD])
    return {kind.name: f">={dice.randint(1, 4)}" if kind in _OLD else matcher(dice, kind)}


@given(_SEEDS)
@settings(max_examples=400, deadline=None)
def test_a_newer_package_is_asked_for_exactly_where_it_would_help(seed: int) -> None:
    """Versions that are too old are told when the row would fire with newer ones, and nothing is told otherwise."""
    dice = Random(seed)
    known = kinds(dice)
    groups = {name: [_leaf(dice, known) for _ in range(dice.randint(1, 2))] for name in ("any", "all")}
    plain: dict[str, object] = {"when": {**_leaf(dice, known), **groups}, "use": "A"}
    needs = {"A": _leaf(dice, known)}
    vocabulary = vocabulary_of([*known, *_OLD])
    row = row_with(read_when(vocabulary, plain["when"], "x.yaml"))  # type: ignore[arg-type]
    abilities = {"A": read_when(vocabulary, needs["A"], "A.yaml")}

    for given_facts in (facts(dice, [*known, *_OLD]) for _ in range(5)):
        raised = {name: "999" if name in {"v0", "v1"} and value else value for name, value in given_facts.items()}
        now, then = (row_says(plain, needs, asked, [*known, *_OLD]) for asked in (given_facts, raised))
        found = needs_newer(row, given_facts, abilities, {"v0", "v1"})
        assert bool(found) is (now is False and then is True)
        assert {result.fact for result in found} <= {"v0", "v1"}
        assert all(result.held is False and result.got == given_facts[result.fact] for result in found)


@pytest.mark.parametrize(
    ("text", "version", "told"),
    [
        ('packages.flash: ">=2"', "1.0", ["packages.flash: wanted >=2, got 1.0"]),
        ('packages.flash: {min: "2"}', "1.0", ["packages.flash: wanted >=2, got 1.0"]),
        ('packages.flash: ">2"', "2", ["packages.flash: wanted >2, got 2"]),
        ('packages.flash: ">=2"', "2", []),
        ('packages.flash: ">=2"', None, []),
        ('packages.flash: "<2"', "2", []),
        ('packages.flash: "==2"', "1", []),
        ('packages.flash: "2"', "1", []),
        ('packages.flash: ["2", "3"]', "1", []),
        ('packages.flash: {max: "2"}', "3", []),
        ('not: {packages.flash: ">=2"}', "3", []),
        ('{packages.flash: ">=2", head_dim: 64}', "1", []),
        ('{packages.flash: ">=2", platform: cuda}', "1", ["packages.flash: wanted >=2, got 1"]),
        ('any: [packages.flash: ">=2", head_dim: 64]', "1", []),
        ('{head_dim: {min: 64, unknown: match}, packages.flash: ">=2"}', "1", ["packages.flash: wanted >=2, got 1"]),
        ('release: ">=2"', "1", []),
    ],
)  # fmt: skip
def test_what_would_win_with_a_newer_package(text: str, version: str | None, told: list[str]) -> None:
    """A package that is there and too old is told; one that is missing, unknown or new enough is not."""
    given_facts: dict[str, Value] = {"platform": "cuda", "packages.flash": version, "release": "1"}

    found = needs_newer(row_with(condition(text)), given_facts, {}, {"packages.flash", "packages.sage"})

    assert [result.reason() for result in found] == told


def test_a_version_that_is_too_new_is_not_told_to_be_too_old() -> None:
    """No newer package helps where an upper bound is passed."""
    row = row_with(condition('packages.flash: ">=2,<3"'))

    assert needs_newer(row, {"packages.flash": "4"}, {}, {"packages.flash"}) == []


def test_bounds_may_stand_in_any_order() -> None:
    """The order of two bounds in one text means nothing."""
    row = row_with(condition('packages.flash: "<3,>=2"'))

    assert len(needs_newer(row, {"packages.flash": "1"}, {}, {"packages.flash"})) == 1


def test_a_bound_that_must_not_be_met_does_not_hide_one_that_must() -> None:
    """An old package that is right where it is does not keep the warning about another one away."""
    row = row_with(condition('{packages.flash: ">=2", not: {packages.sage: ">=3"}}'))
    given_facts = {"packages.flash": "1", "packages.sage": "1"}

    found = needs_newer(row, given_facts, {}, {"packages.flash", "packages.sage"})

    assert [result.fact for result in found] == ["packages.flash"]


def test_what_is_too_old_is_told_with_where_it_is_written() -> None:
    """A test of the row as its own, and one that the target needs as its ability, as in every other result."""
    row, abilities = row_with(condition('packages.sage: ">=3"')), {"A": condition('packages.flash: ">=2"')}
    versions = {"packages.flash": "1", "packages.sage": "1"}

    found = needs_newer(row, versions, abilities, set(versions))

    assert [(result.fact, result.origin) for result in found] == [
        ("packages.sage", "when"),
        ("packages.flash", "ability"),
    ]


def test_what_an_open_target_needs_is_that_of_the_backend_that_is_named() -> None:
    """A row that uses whatever was named asks what that one needs."""
    row = replace(row_with(ALWAYS), target="{backend}")
    abilities = {"A": condition('packages.flash: ">=2"'), "B": condition('packages.sage: ">=2"')}
    versions = {"packages.flash": "1", "packages.sage": "1"}

    found = needs_newer(row, {**versions, "backend": "B"}, abilities, set(versions))

    assert [result.fact for result in found] == ["packages.sage"]
