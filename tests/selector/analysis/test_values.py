from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.analysis.values import TooManyError, candidates
from selector.rules import conditions
from selector.rules.vocabulary import Fact, Value
from tests.selector.analysis.random_tables import matcher, read_when, value, vocabulary
from tests.selector.rules.language import condition, words

SEEDS = st.integers(0, 2**32)


def vector(asked: list[conditions.Test], name: str, got: Value) -> tuple[conditions.Truth, ...]:
    """Give what every test says of one value."""
    return tuple(test.holds({name: got}) for test in asked)


def check_one(dice: Random, samples: int) -> None:
    """Hold for one drawn fact and some tests of it that a value answers as no candidate does is never found."""
    words = vocabulary(dice, 1)
    fact = dice.choice([fact for fact in words.facts.values() if fact.group != "derived"])
    told = [matcher(dice, fact, f"set-{fact.name}" in words.sets) for _ in range(dice.randint(1, 5))]
    asked = [test for one in told for test in conditions.tests(read_when(words, {fact.name: one}, "x"))]

    found = candidates(fact, asked)

    answers = {vector(asked, fact.name, one) for one in found}
    assert all(fact.misfit(one) is None for one in found)
    for _ in range(samples):
        got = value(dice, fact)
        assert vector(asked, fact.name, got) in answers, (fact.name, told, got)


@settings(max_examples=250, deadline=None)
@given(seed=SEEDS)
def test_no_value_answers_as_no_candidate_does(seed: int) -> None:
    """Whatever is asked of a fact of whatever type: values drawn from far and wide, odd ones too."""
    check_one(Random(seed), 60)


@pytest.mark.slow
@settings(max_examples=4000, deadline=None)
@given(seed=SEEDS)
def test_no_value_answers_as_no_candidate_does_often(seed: int) -> None:
    """The same, many times."""
    check_one(Random(seed), 200)


def of(name: str, *asked: str) -> tuple[Fact, list[conditions.Test], list[Value]]:
    """Give a fact of the small vocabulary, tests of it, and its candidates."""
    found = [test for text in asked for test in conditions.tests(condition(f"{{{name}: {text}}}"))]
    return words().facts[name], found, candidates(words().facts[name], found)


@pytest.mark.parametrize(
    ("name", "asked", "got"),
    [
        ("cudnn", "{min: 90500}", 90500),
        ("cudnn", "{max: 90500}", 90501),
        ("cudnn", '">=9.5"', 90500),
        ("head_dim", "{min: 1000000000000000000000}", 10**21),
        ("steps", "{max: -5}", -5),
        ("steps", "{min: -5}", -6),
        ("label", '"1.00"', "1.00"),
        ("release", '">1.2"', "1.2.0.0.1.dev0"),
        ("release", '"==1.2.*"', "1.2.dev0"),
        ("arch", "[sm_9x]", "sm_99"),
    ],
)  # fmt: skip
def test_each_side_of_a_bound_has_a_candidate(name: str, asked: str, got: Value) -> None:
    """One that answers as the value next to the bound does, and one that answers otherwise."""
    _, tests_of, found = of(name, asked)

    answers = {vector(tests_of, name, one) for one in found}

    assert vector(tests_of, name, got) in answers
    assert len(answers) > 1


def test_values_that_are_mentioned_come_first() -> None:
    """So that a class is shown by what the rule says, where it can be."""
    assert of("head_dim", "128", "[64, 96]")[2][:3] == [64, 96, 128]
    assert of("release", '">=0.6.16rc1"')[2][0] == "0.6.16rc1"
    assert of("arch", "[sm_90]")[2][0] == "sm_90"
    assert of("role", "cross")[2] == ["cross", "other"]


def test_a_string_that_nobody_mentions_is_found() -> None:
    """Even where rules mention the usual ones."""
    assert of("role", "[other, other_]")[2] == ["other", "other_", "other__"]


def test_divisors_without_a_small_multiple_are_refused() -> None:
    """The message says which."""
    with pytest.raises(TooManyError, match=r"the divisors 4093, 4095 have no common multiple below 4096"):
        of("head_dim", "{multiple_of: 4093}", "{multiple_of: 4095}")
