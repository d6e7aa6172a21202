"""The classes of facts that depend on each other, one by one, and held against every pair of small numbers."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import pytest
import yaml

from selector.analysis import cells as module
from selector.analysis.cells import ALIGNED, Cell, Combinations, possible, question, with_derived
from selector.analysis.numbers import Stretch
from selector.analysis.values import ALONE, TooManyError
from selector.rules import conditions
from selector.rules.vocabulary import Derived, Value, Vocabulary
from tests.selector.analysis.random_tables import read_when, read_words
from tests.selector.rules.language import condition

Entries = Mapping[str, Mapping[str, object]]
NUMBER: Mapping[str, object] = {"type": "integer", "order": "number"}
LINKED: Entries = {
    "maker": {"type": "string", "values": ["one", "two"]},
    "code": {"type": "string", "on": {"fact": "maker", "value": "one", "regex": "k[0-9]+", "example": "k1"}},
    "causal": {"type": "boolean", "null": True},
    "causal_alignment": {"type": "string", "values": ["left", "right"], "null": True},
    "plain": {"type": "string"},
}


def equal(*of: str) -> dict[str, object]:
    """Declare a fact that two others are equal."""
    return {"relation": "equal", "of": of}


def divides(*of: str) -> dict[str, object]:
    """Declare a fact that the second of two divides the first."""
    return {"relation": "divisible", "of": of}


def vocabulary(facts: Entries, derived: Entries | None = None) -> Vocabulary:
    """Read facts of a machine, and what follows from them."""
    told: dict[str, object] = {
        "facts": {name: {"group": "machine", "about": "x", **one} for name, one in facts.items()}
    }
    told["derived"] = {name: {"about": "x", **one} for name, one in (derived or {}).items()}
    return read_words(told)


def asked(words: Vocabulary, *whens: str) -> list[conditions.Test]:
    """Give the tests of some conditions."""
    return [test for when in whens for test in conditions.tests(read_when(words, yaml.safe_load(when), "x"))]


def combinations(words: Vocabulary, *whens: str, known: Sequence[str] = ()) -> Combinations:
    """Give the combinations of all facts of a vocabulary."""
    return Combinations(list(words.facts), asked(words, *whens), words, set(known))


def facts_of(found: Combinations) -> list[dict[str, Value]]:
    """Give the combinations as plain mappings."""
    return [dict(facts) for facts in found.facts()]


# --- facts --------------------------------------------------------------------------------------------------------


def test_a_question_is_what_is_asked_and_not_where() -> None:
    """Of which fact, how, for what, and what is answered for null and unknown."""
    texts = (
        "{arch: sm_90}", "{arch: sm_80}", "{arch: {equals: sm_90, unknown: match}}", "{arch: {in: [sm_90]}}",
        "{arch: {min: sm_90}}", "{arch: present}", "{head_dim: 64}", "{steps: 64}",
    )  # fmt: skip
    once = [question(next(conditions.tests(condition(text)))) for text in texts]
    again = [question(next(conditions.tests(condition(f"any: [{text}]")))) for text in texts]

    assert once == again
    assert len(set(once)) == len(texts)
    assert once[0] == ("arch", "equals", "sm_90", ("sm_90",), False, None, frozenset())


def test_facts_that_follow_are_added_where_they_are_known() -> None:
    """In their order, so that one may follow from another; without any the facts are the same."""
    made = [
        Derived("same", "equal", "a", "b"), Derived("as_said", "equal", "same", "said"),
        Derived("more", "divisible", "a", "c"),
    ]  # fmt: skip
    facts = {"a": 4, "b": 4, "said": False}

    assert with_derived(facts, []) is facts
    assert with_derived(facts, made) == {**facts, "same": True, "as_said": False}
    assert facts == {"a": 4, "b": 4, "said": False}
    assert with_derived({"a": 4, "c": 2}, made) == {"a": 4, "c": 2, "more": True}


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({}, True),
        ({"maker": "one"}, True),
        ({"code": "k"}, True),
        ({"maker": "one", "code": "k1"}, True),
        ({"maker": "one", "code": "k"}, False),
        ({"maker": "one", "code": "k1x"}, False),
        ({"maker": "one", "code": None}, True),
        ({"maker": "two", "code": "k"}, True),
        ({"plain": "x", "maker": "one", "code": "k"}, False),
    ],
)
def test_a_form_is_asked_for_where_another_fact_has_a_value(facts: Mapping[str, Value], fits: bool) -> None:
    """And nowhere else; null has no form."""
    words = vocabulary(LINKED)

    assert possible(facts, [words.facts[name] for name in ("plain", "maker", "code")]) is fits
    assert possible(facts, [words.facts[name] for name in ("maker", "plain", "causal")])


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(
    ("causal", "corner", "fits"),
    [
        (True, "left", True),
        (True, None, False),
        (True, "nothing said", True),
        (False, None, True),
        (False, "left", False),
        (False, "nothing said", False),
        (None, "nothing said", True),
        (None, "left", False),
        (None, None, False),
        ("nothing said", "nothing said", True),
        ("nothing said", "left", False),
        ("nothing said", None, False),
    ],
)
def test_a_corner_is_where_something_is_causal(causal: Value, corner: Value, fits: bool, known: bool) -> None:
    """None where nothing is, and unknown where that is; a form that does not fit makes it no better."""
    words = vocabulary(LINKED)
    facts = {name: got for name, got in zip(ALIGNED, (causal, corner), strict=True) if got != "nothing said"}
    base = [words.facts[name] for name in ("maker", "code", *ALIGNED)]

    assert possible({**facts, "maker": "one", "code": "k1" if known else "k"}, base) is (fits and known)
    assert possible(facts, base[:3])
    assert possible(facts, [*base[:2], base[3]])
    assert possible(facts, base[2:]) is fits


# --- the combinations of some facts -------------------------------------------------------------------------------


def test_every_two_values_are_combined() -> None:
    """Unknown and null among them, with as many of each class as facts are compared."""
    words = vocabulary(
        {"a": {**NUMBER, "minimum": 1}, "b": {**NUMBER, "minimum": 1, "null": True}}, {"same": equal("a", "b")}
    )
    found = combinations(words, "{same: true}")

    assert [fact.name for fact in found.base] == ["a", "b"]
    assert [derived.name for derived in found.made] == ["same"]
    assert facts_of(found) == [
        {}, {"b": None}, {"b": 1}, {"b": 2}, {"a": 1}, {"a": 1, "b": None}, {"a": 1, "b": 1}, {"a": 1, "b": 2},
        {"a": 2}, {"a": 2, "b": None}, {"a": 2, "b": 1}, {"a": 2, "b": 2},
    ]  # fmt: skip
    classes, masks = found.classes()
    assert classes == [
        Cell({}, ({}, {"b": None}, {"b": 1}, {"b": 2}, {"a": 1}, {"a": 2})),
        Cell({"a": 1, "b": None}, ({"a": 1, "b": None}, {"a": 1, "b": 1}, {"a": 2, "b": None}, {"a": 2, "b": 2})),
        Cell({"a": 1, "b": 2}, ({"a": 1, "b": 2}, {"a": 2, "b": 1})),
    ]
    assert masks == {question(found.tests[0]): (0b010, 0b100)}


def test_questions_that_are_the_same_are_answered_once() -> None:
    """Each with the classes where it holds and where it fails; what must be known is."""
    words = vocabulary({"a": NUMBER, "flag": {"type": "boolean", "null": True}})
    numbers = Combinations(["a"], asked(words, "{a: 4}", "{a: 4}", "{a: {min: 4}}"), words, {"a"})
    flags = Combinations(["flag"], asked(words, "{flag: true}", "{flag: absent}"), words, set())

    classes, masks = numbers.classes()
    assert [dict(cell.facts) for cell in classes] == [{"a": 4}, {"a": 3}, {"a": 5}]
    assert list(masks.values()) == [(0b001, 0b110), (0b101, 0b010)]
    classes, masks = flags.classes()
    assert [dict(cell.facts) for cell in classes] == [{}, {"flag": None}, {"flag": True}, {"flag": False}]
    assert list(masks.values()) == [(0b0100, 0b1010), (0b0010, 0b1100)]


def test_a_class_is_shown_by_the_fewest_facts() -> None:
    """The first of those that have as few."""
    words = vocabulary(LINKED)
    found = Combinations(["maker", "code"], asked(words, "{maker: two}", "{code: k1}"), words, {"code"})

    classes, _ = found.classes()

    assert [dict(cell.facts) for cell in classes] == [
        {"code": "k1"}, {"code": "other"}, {"maker": "one", "code": "k1"}, {"maker": "one", "code": "k0"},
        {"maker": "two", "code": "k1"}, {"maker": "two", "code": "other"},
    ]  # fmt: skip
    assert {"maker": "one", "code": "other"} not in [dict(one) for cell in classes for one in cell.members]


def test_more_combinations_than_are_tried_are_an_open_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are allowed are tried; the message names the facts, but for those that follow."""
    words = vocabulary(
        {"a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "boolean"}}, {"same": equal("a", "b")}
    )
    found = Combinations(["a", "b", "same"], asked(words, "{same: true}"), words, set())
    monkeypatch.setattr(module, "MOST_COMBINATIONS", 9)

    assert len(facts_of(found)) == 9
    monkeypatch.setattr(module, "MOST_COMBINATIONS", 8)
    with pytest.raises(TooManyError) as caught:
        list(found.facts())
    assert str(caught.value) == "`a`, `b` have 9 combinations, more than the 8 that are tried"


# --- what is compared ---------------------------------------------------------------------------------------------


def chained() -> Vocabulary:
    """Give facts that are compared in a row, whose links are told from the last on."""
    facts: Entries = {
        "a": NUMBER, "b": {**NUMBER, "minimum": 2}, "c": {"type": "string"}, "d": {"type": "integer", "minimum": 3},
        "e": {"type": "string"}, "f": {"type": "boolean"}, "said": {"type": "boolean"}, "x": {"type": "boolean"},
    }  # fmt: skip
    return vocabulary(
        facts,
        {"ef": equal("e", "f"), "ab": equal("a", "b"), "bc": equal("b", "c"), "cd": equal("c", "d"),
         "two": equal("ab", "said")},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "facts", "tests", "marks"),
    [
        ("a", "bcd", "bd", {0, 2, 3}),
        ("b", "acd", "ad", {0, 2, 3}),
        ("c", "abd", "abd", {0, 2, 3}),
        ("d", "abc", "ab", {0, 2, 3}),
        ("e", "f", "", set()),
        ("f", "e", "e", set()),
    ],
)
def test_a_fact_is_compared_over_however_many_relations(name: str, facts: str, tests: str, marks: set[int]) -> None:
    """Numbers stand apart at 0 and at the least of each; what follows from something is compared with nothing."""
    words = chained()
    found = combinations(words, "{a: 1}", "{b: 2, d: 7}", "{ab: true, e: y, said: true}")

    compared = found.compared(words.facts[name])

    assert [fact.name for fact in compared.facts] == list(facts)
    assert [test.fact for test in compared.tests] == list(tests)
    assert compared.marks == marks


def test_a_fact_that_is_compared_with_nothing_stands_alone() -> None:
    """Though others are compared; and so does one whose relation nobody asks about."""
    words = chained()
    found = combinations(words, "{a: 1}")

    assert found.compared(words.facts["said"]) is ALONE
    assert found.compared(words.facts["x"]) is ALONE
    assert Combinations(["a", "b"], [], words, set()).compared(words.facts["a"]) is ALONE
    assert Combinations(["a", "b", "bc"], [], words, set()).compared(words.facts["a"]) is ALONE


def test_a_fact_may_be_unknown_or_null_unless_it_is_known() -> None:
    """Values come last."""
    words = vocabulary({"a": {"type": "boolean", "null": True}, "b": {"type": "boolean"}})
    found = combinations(words, known="b")

    assert found.choices(words.facts["a"]) == [module._UNKNOWN, None, True, False]
    assert found.choices(words.facts["b"]) == [True, False]


def test_of_values_that_answer_alike_as_many_are_left_as_are_compared() -> None:
    """The plainest ones; those that another fact may not be, 0, and values of another type are no others."""
    words = vocabulary(
        {"a": NUMBER, "b": {**NUMBER, "minimum": 2}, "c": {"type": "boolean"}}, {"same": equal("a", "b")}
    )
    found = combinations(words, "{a: {min: 5}}", "{a: {min: 5}}", "{b: 9}")
    compared = found.compared(words.facts["a"])

    def few(*values: Value) -> list[Value]:
        return list(found.few(words.facts["a"], values, compared))

    assert compared.copies == 2
    assert few(8, 7, 6, 5, 10) == [5, 6]
    assert few(-1, -9, 0, 1, -3, 4, 3, 2) == [-1, 1, 0, 2, 3]
    assert few(10, 9, 11, 12) == [10, 11, 9]
    assert few(-4, 4, 3, -3) == [-3, -4, 3, 4]
    special = {**NUMBER, "special": ["symbolic"]}
    traced = vocabulary({"a": special, "b": special}, {"same": equal("a", "b")})
    either = combinations(traced)
    assert list(either.few(traced.facts["a"], [3, "symbolic", 2, 1], either.compared(traced.facts["a"]))) == [
        1, 2, "symbolic",
    ]  # fmt: skip
    plain = combinations(words, "{c: true}")
    assert list(plain.few(words.facts["c"], [True, 1, False, 0, 2], compared)) == [True, 1, False, 0, 2]


def test_the_plainest_value_is_the_shortest_or_nearest_to_0() -> None:
    """Of several the first in the alphabet."""
    assert sorted(["b", "aa", "a", "abc"], key=module._plainest) == ["a", "b", "aa", "abc"]
    assert sorted([3, -3, 12, 2, -100], key=module._plainest) == [2, -3, 3, 12, -100]
    assert [module._plainest(value) for value in (-3, "ab", True)] == [(3, "-3"), (2, "ab"), (1, "True")]


# --- numbers that divide each other -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "pairs"),
    [
        (("a", "b"), [(2, 1), (1, 2), (4, 1), (4, 3)]),
        (("b", "a"), [(1, 0), (2, 1), (4, 0), (4, 1)]),
    ],
)
def test_a_pair_is_given_for_every_two_classes_that_have_one(of: tuple[str, str], pairs: list[tuple[int, int]]) -> None:
    """One of which the second divides the first, and one of which it does not, in the order of the facts."""
    words = vocabulary({"a": {**NUMBER, "minimum": 1}, "b": {**NUMBER, "minimum": 0}}, {"div": divides(*of)})
    found = combinations(words, "{div: true, a: 4}")

    assert sorted(set(found.divided())) == sorted(set(pairs))
    assert facts_of(found)[-len(list(found.divided())) :] == [{"a": one, "b": other} for one, other in found.divided()]


def test_no_pair_is_given_where_nothing_divides() -> None:
    """Nor where a number is asked to divide itself."""
    facts: Entries = {"a": NUMBER, "b": NUMBER}

    assert list(combinations(vocabulary(facts, {"same": equal("a", "b")}), "{same: true}").divided()) == []
    own = Derived("own", "divisible", "a", "a")
    words = vocabulary(facts)
    words = Vocabulary({**words.facts}, {}, {}, (own,))
    assert list(Combinations(["a"], asked(words, "{a: 4}"), words, set()).divided()) == []


@pytest.mark.parametrize(
    "derived",
    [
        {"div": divides("a", "b"), "back": divides("b", "a")},
        {"div": divides("a", "b"), "same": equal("b", "c")},
        {"div": divides("a", "b"), "more": divides("b", "c")},
    ],
)
def test_numbers_that_are_compared_in_more_ways_are_an_open_question(derived: Entries) -> None:
    """The message names the first two."""
    words = vocabulary({"a": NUMBER, "b": NUMBER, "c": NUMBER}, derived)
    names = [name for name in words.facts if name != "c" or "back" not in derived]

    with pytest.raises(TooManyError) as caught:
        list(Combinations(names, asked(words, "{div: true}"), words, set()).divided())

    assert str(caught.value) == "`a` and `b` are compared in more ways than are enumerated"


def test_two_numbers_may_be_compared_in_both_ways() -> None:
    """Whether they are equal, and whether one divides the other, told twice."""
    derived = {"div": divides("a", "b"), "again": divides("a", "b"), "same": equal("a", "b")}
    words = vocabulary({"a": {**NUMBER, "minimum": 1}, "b": {**NUMBER, "minimum": 1}}, derived)

    assert set(combinations(words, "{div: true}").divided()) == {(2, 1), (1, 2)}


def test_stretches_are_sorted_by_what_the_tests_of_the_fact_answer() -> None:
    """Those that mention another fact do not count."""
    words = vocabulary({"a": {**NUMBER, "minimum": 1}, "b": NUMBER}, {"div": divides("a", "b")})
    found = combinations(words, "{a: {min: 4}}", "{a: {min: 4}}", "{b: 2}")

    def stretch(start: int, end: int | None) -> Stretch:
        return Stretch(start, end, frozenset({0}), 1)

    assert found.by_answers(words.facts["a"], {0, 2, 4, 9}, set()) == [
        [stretch(1, 1), stretch(2, 2), stretch(3, 3)],
        [stretch(4, 4), stretch(5, 8), stretch(9, 9), stretch(10, None)],
    ]
    halves = found.by_answers(words.facts["a"], set(), {2})
    assert [[(one.start, one.residues) for one in stretches] for stretches in halves] == [
        [(1, frozenset({0})), (1, frozenset({1}))],
    ]  # fmt: skip


# --- that they are enough -----------------------------------------------------------------------------------------

LEASTS = [(None, None), (1, 1), (0, 3), (None, 2)]
RELATIONS: Mapping[str, Entries] = {
    "equal": {"r": equal("a", "b")},
    "divisible": {"r": divides("a", "b")},
    "divisible back": {"r": divides("b", "a")},
    "both": {"r": divides("a", "b"), "s": equal("b", "a")},
}
WHENS = (
    ["{r: true}"], ["{r: true, a: {min: 4}}"], ["{r: true, b: 6}", "{a: {min: 3, max: 9}}"],
    ["{r: true, a: {multiple_of: 4}}", "{b: {multiple_of: 2}}"], ["{r: true, a: {min: 5, max: 7}, b: '<4'}"],
)  # fmt: skip


@pytest.mark.parametrize("least", LEASTS)
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("whens", WHENS, ids=" ".join)
def test_every_two_numbers_answer_as_some_class_does(
    least: tuple[int | None, int | None], relation: str, whens: list[str]
) -> None:
    """And no class answers as no two numbers do."""
    facts = {
        name: {**NUMBER, **({} if one is None else {"minimum": one})} for name, one in zip("ab", least, strict=True)
    }
    words = vocabulary(facts, RELATIONS[relation])
    found = combinations(words, *whens, known="ab")

    def answers(facts: Mapping[str, Value]) -> tuple[conditions.Truth, ...]:
        told = with_derived(facts, words.derived)
        return tuple(test.holds(told) for test in found.tests)

    starts = [-14 if one is None else one for one in least]
    there = {answers({"a": a, "b": b}) for a, b in itertools.product(range(starts[0], 15), range(starts[1], 15))}
    classes, masks = found.classes()
    given = [{answers(one) for one in cell.members} for cell in classes]

    assert all(len(vectors) == 1 for vectors in given)
    assert set().union(*given) == there
    for at, (vector,) in enumerate(given):
        for test, held in zip(found.tests, vector, strict=True):
            true, false = masks[question(test)]
            assert (true >> at & 1, false >> at & 1) == (held is True, held is False)
