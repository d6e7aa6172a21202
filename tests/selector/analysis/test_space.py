from __future__ import annotations

import itertools
from collections.abc import Mapping
from random import Random

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.analysis.cells import possible
from selector.analysis.regions import asked_by
from selector.analysis.space import Space, known_in, make_space, size
from selector.analysis.values import TooManyError
from selector.facts import derive
from selector.rules import conditions
from selector.rules.vocabulary import Value, Vocabulary
from selector.ruleset import shipped
from tests.selector.analysis.random_tables import (
    Drawn,
    draw,
    matcher,
    over,
    read_when,
    read_words,
    situation,
    vocabulary,
)

SEEDS = st.integers(0, 2**32)


def space_of(drawn: Drawn) -> Space:
    """Give the space of a table."""
    asked = list(asked_by(drawn.table, drawn.abilities, drawn.vocabulary))
    return make_space(asked, drawn.vocabulary, known_in(drawn.table, drawn.vocabulary), engine=False)


def check_possible(drawn: Drawn, space: Space) -> None:
    """Hold that each class has facts that can be, and that answer as it says."""
    words = drawn.vocabulary
    for at, variable in enumerate(space.variables):
        asked = [test for test in space.tests if space.of(test).variable == at]
        base = [words.facts[name] for name in variable.names if words.facts[name].group != "derived"]
        vectors = set()
        for cell, found in enumerate(variable.cells):
            assert found.facts in found.members
            for facts in found.members[:40]:
                assert possible(facts, base)
                assert all(words.facts[name].misfit(got) is None for name, got in facts.items() if got is not None)
                told = derive(dict(facts), words)
                for test in asked:
                    answers = space.of(test)
                    held = True if answers.true >> cell & 1 else False if answers.false >> cell & 1 else None
                    assert test.holds(told) is held
            vectors.add(tuple((space.of(t).true >> cell & 1, space.of(t).false >> cell & 1) for t in asked))
        assert len(vectors) == len(variable.cells)
        assert all(not space.of(test).true & space.of(test).false for test in asked)


def check_complete(dice: Random, drawn: Drawn, space: Space, samples: int) -> None:
    """Hold that facts that can be together are in one class of each variable."""
    for _ in range(samples):
        facts = situation(dice, drawn.vocabulary, known_in(drawn.table, drawn.vocabulary))
        box = space.locate(facts, drawn.vocabulary)
        assert size(box) == 1
        for test in space.tests:
            answers, held = space.of(test), test.holds(facts)
            assert bool(box[answers.variable] & answers.true) is (held is True)
            assert bool(box[answers.variable] & answers.false) is (held is False)


def check_classes(dice: Random, rows: int, levels: int, most: int, samples: int) -> None:
    """Hold for one drawn table that its classes are possible and complete; what takes too long is left out."""
    drawn = draw(dice, rows, levels, most)
    try:
        space = space_of(drawn)
    except TooManyError:
        return
    check_possible(drawn, space)
    check_complete(dice, drawn, space, samples)


@settings(max_examples=120, deadline=None)
@given(seed=SEEDS)
def test_classes_are_possible_disjoint_and_complete(seed: int) -> None:
    """Of facts that are linked too: by a relation, by the form that one has where another has a value, causal."""
    check_classes(Random(seed), rows=4, levels=1, most=3, samples=40)


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(seed=SEEDS)
def test_classes_are_possible_disjoint_and_complete_often(seed: int) -> None:
    """The same, many times."""
    check_classes(Random(seed), rows=6, levels=2, most=4, samples=100)


# --- numbers that are compared ------------------------------------------------------------------------------------


def pair(relations: Mapping[str, list[str]], minimum: tuple[int | None, int | None]) -> Vocabulary:
    """Give a vocabulary of two numbers, `a` and `b`, and their relations."""
    entry: dict[str, object] = {"type": "integer", "order": "number", "group": "machine", "about": "x"}
    facts = {
        name: entry | ({} if least is None else {"minimum": least}) for name, least in zip("ab", minimum, strict=True)
    }
    derived = {name: {"relation": name.partition("-")[0], "of": of} for name, of in relations.items()}
    return read_words({"facts": facts, "derived": derived})


def check_grid(dice: Random, most: int) -> None:
    """Hold that every pair of small numbers has a class, and that a class is empty only where no number is in it."""
    minimum = dice.choice([(1, 1), (0, 0), (None, None), (3, 0), (1, None)])
    relations = {"divisible": dice.choice([["a", "b"], ["b", "a"]])}
    relations |= {"equal": ["a", "b"]} if dice.randrange(2) else {}
    words = pair(relations, minimum)
    told: list[dict[str, object]] = [{name: dice.choice([True, False])} for name in relations]
    told += [
        {name: matcher(dice, words.facts[name], has_set=False)} for name in dice.choices("ab", k=dice.randint(0, 6))
    ]
    asked = [test for one in told for test in conditions.tests(read_when(words, one, "x"))]
    try:
        space = make_space(asked, words, ("a", "b"), engine=False)
    except TooManyError:
        return
    start = [-most if least is None else least for least in minimum]
    for a, b in itertools.product(range(start[0], most), range(start[1], most)):
        space.locate({"a": a, "b": b}, words)


@settings(max_examples=60, deadline=None)
@given(seed=SEEDS)
def test_every_two_numbers_have_a_class(seed: int) -> None:
    """However the classes of each of them are cut, and whether one divides the other or not."""
    check_grid(Random(seed), 26)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(seed=SEEDS)
def test_every_two_numbers_have_a_class_often(seed: int) -> None:
    """The same, many times, over more numbers."""
    check_grid(Random(seed), 70)


@pytest.mark.parametrize(
    ("told", "facts"),
    [
        (["{a: '>100'}", "{b: 64}", "{divisible: true}"], {"a": 128, "b": 64}),
        (["{a: '>10'}", "{b: '>20'}", "{equal: true}"], {"a": 21, "b": 21}),
        (["{a: '>10'}", "{b: '>20'}", "{divisible: true}", "{equal: true}"], {"a": 42, "b": 21}),
        (["{a: {min: 13, max: 13}}", "{b: {min: 2, max: 12}}", "{divisible: true}"], {"a": 13, "b": 5}),
    ],
)
def test_a_pair_far_from_both_bounds_has_a_class(told: list[str], facts: dict[str, Value]) -> None:
    """Each of these was once told to be impossible."""
    words = pair({"divisible": ["a", "b"], "equal": ["a", "b"]}, (1, 1))
    asked = [test for one in told for test in conditions.tests(read_when(words, yaml.safe_load(one), "x"))]

    assert size(make_space(asked, words).locate(facts, words)) == 1


def test_a_prime_is_divided_by_nothing_between() -> None:
    """So there is no such class, and none is made up."""
    words = pair({"divisible": ["a", "b"]}, (1, 1))
    asked = [
        *conditions.tests(read_when(words, {"a": 13}, "x")),
        *conditions.tests(read_when(words, {"b": {"min": 2, "max": 12}}, "x")),
        *conditions.tests(read_when(words, {"divisible": True}, "x")),
    ]
    space = make_space(asked, words, ("a", "b"))

    where = [space.of(test).true for test in asked]

    assert where[0] & where[1] & where[2]
    assert where[0] & where[1] & where[2] & where[3] == 0


def test_numbers_that_are_compared_in_more_ways_are_an_open_question() -> None:
    """It says so, and answers nothing."""
    words = pair({"divisible": ["a", "b"], "divisible-back": ["b", "a"]}, (1, 1))
    asked = [
        *conditions.tests(read_when(words, {"divisible": True}, "x")),
        *conditions.tests(read_when(words, {"divisible-back": True}, "x")),
    ]

    with pytest.raises(TooManyError, match="are compared in more ways than are enumerated"):
        make_space(asked, words)


# --- what is known ------------------------------------------------------------------------------------------------


def test_what_the_engine_sets_is_known_where_it_is_set() -> None:
    """The blocks of the config are chosen with its entry, and a call always says whether it is causal."""
    rules = shipped()
    known = {name: known_in(table, rules.vocabulary) for name, table in rules.tables.items()}

    assert "quant.dtype_qk" not in known["role_fallback"]
    assert {"configured.role", "policy", "role"} <= known["role_fallback"]
    assert {"quant.dtype_qk", "skip_softmax"} <= known["explicit"]
    assert {"causal", "causal_alignment", "mask"} <= known["call"]
    assert "causal" not in known["explicit"]
    assert "backend" not in known["platform_default"]


def test_nothing_is_known_of_a_table_of_ones_own() -> None:
    """But for what it requires."""
    drawn = over(Random(1), vocabulary(Random(1), 1), 2, 0)

    assert known_in(drawn.table, drawn.vocabulary) == {"pick"}
