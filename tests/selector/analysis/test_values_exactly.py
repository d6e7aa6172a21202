"""Values that stand for all those of a fact, one by one, and held against counting all of them out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pytest
import yaml

from selector.analysis import values as module
from selector.analysis.values import ALONE, Compared, candidates, marks_of
from selector.rules import conditions
from selector.rules.vocabulary import Fact, Value
from tests.selector.analysis.random_tables import read_when, read_words
from tests.selector.rules.language import condition, words

FACTS = words().facts


def asked(name: str, *matchers: str) -> list[conditions.Test]:
    """Give the tests of some matchers of one fact."""
    return [test for text in matchers for test in conditions.tests(condition(f"{{{name}: {text}}}"))]


def compared(*names: str, tests: Iterable[conditions.Test] = (), marks: Iterable[int] = ()) -> Compared:
    """Tell what a fact is compared with."""
    return Compared(tuple(FACTS[name] for name in names), tuple(tests), frozenset(marks))


# --- which they are -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "matchers", "found"),
    [
        ("mask_free", ["true"], [True, False]),
        ("causal", ["absent"], [True, False]),
        ("platform", ["cuda"], ["cuda", "rocm", "cpu"]),
        ("head_dim", [], ["symbolic", 1]),
        ("head_dim", ["64"], [64, "symbolic", 1, 65]),
        ("head_dim", ["symbolic", "[64, 128]", "{multiple_of: 8}"],
         [64, 128, "symbolic", 8, 1, 72, 65, 136, 129]),
        ("head_dim", ["'>=64 , <128,!=100'"], [64, 100, 128, "symbolic", 1, 65, 101, 129]),
        ("steps", [], [0, -1]),
        ("steps", ["{multiple_of: 2}", "{min: -3, max: 5}"], [-3, 5, -4, -5, -2, -1, 6, 7]),
        ("cudnn", ["'>=9.5,<9.10.2'"], [90500, 91002, 1, 90501, 91003]),
        ("cudnn", ["{min: '9.5'}"], [90500, 1, 90501]),
        ("cudnn", ["{max: '9.5'}"], [90500, 1, 90501]),
        ("cudnn", ["{min: 8907}"], [8907, 1, 8908]),
        ("cudnn", ["'!=8.9.7'", "'<=9.5'"], [8907, 90500, 1, 8908, 90501]),
        ("role", ["cross"], ["cross", "other"]),
        ("role", ["[other, other_]"], ["other", "other_", "other__"]),
        ("label", ["'1.0'"], ["1.0", "2.0", "v1.0", "v2.0"]),
        ("label", [], ["1.0", "2.0", "v1.0", "v2.0"]),
        ("release", [], ["1.0"]),
        ("release", ["'>=1.2'"],
         ["1.2", "1.3", "2", "1.2.0.1", "1.2.post1", "1.1", "1.2.dev0", "1.2.post0.dev0", "1.2.0.0.1.dev0", "1.3.dev0",
          "2.dev0", "1.2+local", "0.dev0"]),
        ("release", ["{min: '0.0a1'}", "{max: '0.0'}"],
         ["0.0a1", "0.0", "0.1", "1", "0.0.0.1", "0.0.post1", "0.0.dev0", "0.0.post0.dev0", "0.0.0.0.1.dev0",
          "0.1.dev0", "1.dev0", "0.0a1.post0.dev0", "0.0a1.dev0", "0.0a2.dev0", "0.0a1+local", "0.0+local", "0.dev0"]),
        ("arch", [], ["sm_10", "sm_999", "other"]),
        ("arch", ["sm_90"], ["sm_90", "sm_91", "sm_89", "sm_10", "sm_999", "other"]),
        ("arch", ["'>=sm_10'"], ["sm_10", "sm_11", "sm_999", "other"]),
        ("arch", ["'<=sm_999'"], ["sm_999", "sm_998", "sm_10", "other"]),
        ("arch", ["{min: sm_80, max: sm_100}"],
         ["sm_80", "sm_100", "sm_81", "sm_79", "sm_101", "sm_99", "sm_10", "sm_999", "other"]),
        ("arch", ["[gfx942, sm_10x, sm_80, gfx90]"],
         ["gfx942", "gfx90", "sm_80", *(f"sm_10{minor}" for minor in range(10)), "sm_81", "sm_79", "sm_99", "sm_110",
          "sm_10", "sm_999", "other"]),
        ("arch", ["[sm_99x, sm_1x, sm_12]"],
         ["sm_12", *(f"sm_{key}" for key in [10, 11, 13, 14, 15, 16, 17, 18, 19, *range(990, 1000), 20, 989]),
          "other"]),
    ],
)  # fmt: skip
def test_candidates_of_a_fact_that_stands_alone(name: str, matchers: list[str], found: list[Value]) -> None:
    """Those that are mentioned first, then plain ones, then those next to a bound, and one that nobody mentions."""
    got = candidates(FACTS[name], asked(name, *matchers))

    assert got == found
    assert [type(value) for value in got] == [type(value) for value in found]
    assert candidates(FACTS[name], [*asked("platform", "cuda"), *asked(name, *matchers)], ALONE) == found


VERSIONS = ["1.2", "1.3", "2", "1.2.0.1", "1.2.post1", "1.1", "1.2.dev0", "1.2.post0.dev0", "1.2.0.0.1.dev0",
            "1.3.dev0", "2.dev0", "1.2+local", "0.dev0"]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "matchers", "others", "found"),
    [
        ("head_dim", ["64"], compared("steps", marks=[0, 3]), [64, "symbolic", 1, 2, 3, 4, 5, 65, 66]),
        ("steps", ["7"], compared("head_dim", marks=[0, 3]), [7, -1, -2, 0, 1, 2, 3, 4, 5, 8, 9]),
        ("steps", ["7"], compared("head_dim", tests=asked("head_dim", "9")), [7, 9, 6, 5, 8, 10, 11]),
        ("role", ["cross"], compared("platform", "head_dim"),
         ["cross", "cuda", "rocm", "cpu", "symbolic", "other", "other_", "other__"]),
        ("role", ["cross"], compared("head_dim", tests=asked("role", "[symbolic, other]")),
         ["cross", "symbolic", "other", "other_", "other__"]),
        ("arch", ["sm_90"], compared("role", tests=asked("role", "cross")),
         ["cross", "sm_90", "sm_91", "sm_89", "sm_92", "sm_88", "sm_10", "sm_999", "sm_11", "sm_998", "other",
          "other_"]),
        ("role", ["cross"], compared("arch"),
         ["cross", "sm_10", "sm_999", "sm_11", "sm_998", "other", "other_"]),
        ("label", [], compared("role"), ["1.0", "2.0", "v1.0", " v1.0", "v2.0", " v2.0"]),
        ("label", ["v1.0"], compared("role"),
         ["v1.0", "1.0", "2.0", " v1.0", "  v1.0", "v2.0", " v2.0"]),
        ("release", ["'>=1.2'"], compared("role"), VERSIONS + [f"v{version}" for version in VERSIONS]),
        ("release", ["'>=1.2'"], compared("label"),
         VERSIONS + [f"v{version}" for version in VERSIONS] + ["1.0", "2.0", "v1.0", " v1.0", "v2.0", " v2.0"]),
        ("mask_free", [], compared("causal"), [True, False]),
    ],
)  # fmt: skip
def test_candidates_of_a_fact_that_is_compared(
    name: str, matchers: list[str], others: Compared, found: list[Value]
) -> None:
    """As many of each class as facts are compared, and the words of the others."""
    assert candidates(FACTS[name], asked(name, *matchers), others) == found


FORMS: Mapping[str, tuple[str, str]] = {
    "digits": ("k[0-9]+", "k1"), "letters": ("[ab]|bb|ca|aba", "a"), "short": ("ab?|b|xb", "ab"), "one": ("abc", "abc"),
    "signs": (r"[-_.]x", ".x"), "many": ("[0-9a-z_.-]{2}", "0a"),
}  # fmt: skip


def formed(name: str, *matchers: str, copies: int = 1) -> list[Value]:
    """Give the candidates of a fact that has a form where another has a value."""
    regex, example = FORMS[name]
    told: dict[str, dict[str, object]] = {
        "maker": {"type": "string", "values": ["one", "two"]},
        "code": {"type": "string", "on": {"fact": "maker", "value": "one", "regex": regex, "example": example}},
        "word": {"type": "string"},
    }
    found = read_words({"facts": {name: {"group": "machine", "about": "x", **entry} for name, entry in told.items()}})
    tests = [
        test
        for matcher in matchers
        for test in conditions.tests(read_when(found, {"code": yaml.safe_load(matcher)}, "x"))
    ]
    return candidates(found.facts["code"], tests, Compared((found.facts["word"],) * (copies - 1)))


@pytest.mark.parametrize(
    ("name", "matchers", "copies", "found"),
    [
        ("digits", [], 1, ["other", "k1"]),
        ("digits", ["k1"], 1, ["k1", "other", "k0"]),
        ("digits", ["[k1, k0]"], 3, ["k1", "k0", "other", "other_", "other__", "k2", "k3", "k4"]),
        (
            "digits",
            ["[" + ", ".join(f"k{n}" for n in range(10)) + "]"],
            2,
            [*(f"k{n}" for n in range(10)), "other", "other_", "k10", "k11"],
        ),
        ("letters", ["a"], 2, ["a", "other", "other_", "b"]),
        ("short", [], 4, ["other", "other_", "other__", "other___", "ab", "xb", "b", "a"]),
        ("one", [], 2, ["other", "other_", "abc"]),
        ("one", ["abc"], 2, ["abc", "other", "other_"]),
        ("signs", [], 3, ["other", "other_", "other__", ".x", "_x", "-x"]),
        ("many", [], 5, ["other", "other_", "other__", "other___", "other____", "0a", "00", "01", "02", "03"]),
    ],
)
def test_values_of_a_form_are_like_its_example(name: str, matchers: list[str], copies: int, found: list[str]) -> None:
    """With another sign, from the last one on, with one more, or with one less; never one that is mentioned."""
    assert formed(name, *matchers, copies=copies) == found


def test_true_is_not_1() -> None:
    """Each value is given once, where it first stands."""
    found = list(module._typed([True, 1, "1", 1, None, True, "1", 0, False]))

    assert [(type(value), value) for value in found] == [
        (bool, True), (int, 1), (str, "1"), (type(None), None), (int, 0), (bool, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "matchers", "marks", "divisors"),
    [
        ("head_dim", ["64", "[1, 2]", "symbolic"], {64, 1, 2}, set()),
        ("head_dim", ["{multiple_of: 8}", "{min: 3}", "{max: 9}", "'>5,<=7'"], {3, 9, 5, 7}, {8}),
        ("cudnn", ["'>=9.5'", "{min: 8.9.7}", "'<9.10.2'"], {90500, 8907, 91002}, set()),
        ("mask_free", ["true", "false"], set(), set()),
        ("role", ["cross", "'12'"], {12}, set()),
        ("arch", ["'>=sm_80'"], set(), set()),
    ],
)
def test_numbers_that_tests_mention(name: str, matchers: list[str], marks: set[int], divisors: set[int]) -> None:
    """Bounds are read as cuDNN's versions where they look like them; true is no number."""
    assert marks_of(iter(asked(name, *matchers))) == (marks, divisors)


# --- that they are enough -----------------------------------------------------------------------------------------


def check(fact: Fact, tests: Sequence[conditions.Test], others: Compared, all_of_them: Iterable[Value]) -> None:
    """Hold that of each class there are as many as are wanted, or as there are."""

    def answers(value: Value) -> tuple[conditions.Truth, ...]:
        return tuple(test.holds({fact.name: value}) for test in tests)

    there = Counter(answers(value) for value in all_of_them if fact.misfit(value) is None)
    given = Counter(answers(value) for value in candidates(fact, tests, others))

    assert {vector: min(count, others.copies) for vector, count in there.items()} == {
        vector: min(given[vector], others.copies) for vector in there
    }


MATCHERS: Mapping[str, Sequence[Sequence[str]]] = {
    "head_dim": [
        ["64"], ["{min: 60}", "{max: 70}", "{multiple_of: 8}"], ["'>10,!=12'", "{multiple_of: 4}", "{multiple_of: 6}"],
        ["[1, 2, 5]", "{in: small}", "symbolic"], ["{multiple_of: 12}", "{multiple_of: 8}", "'<=48'"],
    ],
    "steps": [["{min: -4, max: -2}", "{multiple_of: 3}"], ["0", "[-9, 9]"], ["{multiple_of: 5}", "{min: 1}"]],
    "arch": [
        ["sm_9x"], ["{in: blackwell}", "'>=sm_100'"], ["'>sm_99'", "'<sm_101'"], ["{min: sm_11}", "{max: sm_998}"],
        ["[sm_1x, sm_99x]", "'!=sm_15'"],
    ],
}  # fmt: skip
ALL: Mapping[str, Sequence[Value]] = {
    "head_dim": ["symbolic", *range(1, 400)],
    "steps": range(-100, 100),
    "arch": [f"sm_{number}" for number in range(10, 1000)],
}


@pytest.mark.parametrize("name", MATCHERS)
@pytest.mark.parametrize("others", [ALONE, compared("role"), compared("role", "label")])
def test_every_way_to_answer_is_given_as_often_as_facts_are_compared(name: str, others: Compared) -> None:
    """Among all numbers, and all architectures of one maker."""
    for matchers in MATCHERS[name]:
        check(FACTS[name], asked(name, *matchers), others, ALL[name])
