from __future__ import annotations

from dataclasses import replace

import pytest

from selector.rules.vocabulary import Derived, Fact, Misfit, Package, Value, package_fact
from tests.selector.rules.language import WORDS, Facts, read_words, truth, words
from tests.selector.rules.texts import short

_NAME = "is no name for a fact: wanted small letters, digits, `_`, `-` and dots, and none of the reserved words"
_MISSING = "which is not there"
_A = "facts: {a: {type: string, group: machine, about: x}, n: {type: integer, group: machine, about: x}}\n"
_TWICE = """\
facts: {packages.x: {type: string, group: machine, about: x}}
packages: {x: {distributions: [x]}}
"""
_STRING = "string, integer, boolean, version"
_ORDERS = "number, capability, cudnn, pep440"
_MACHINE = "machine, request, call, config, derived"


def _of_fact(keys: str) -> str:
    return f"facts: {{a: {{type: string, group: machine, about: x, {keys}}}}}"


def test_the_facts_of_a_vocabulary_are_sorted_by_who_gives_them() -> None:
    """Facts, packages and relations are all facts, each in its group; a package is a version that may be absent."""
    found, _ = read_words(WORDS)

    assert [fact.name for fact in found.group["machine"]] == [
        "platform",
        "arch",
        "cudnn",
        "packages.flash",
        "packages.sage",
    ]
    assert [fact.name for fact in found.group["derived"]] == ["equal_heads", "heads_divide"]
    assert [fact.name for fact in found.group["config"]] == ["backend"]
    assert (found.facts["packages.flash"].type, found.facts["packages.flash"].null) == ("version", True)
    assert (found.facts["arch"].null_word, found.facts["cudnn"].null_word) == ("no GPU", "none")
    assert found.sets["blackwell"] == ("arch", ("sm_10x", "sm_120"))
    assert found.packages["sage"].modules == ()
    assert list(found.own.items()) == [(name, found.facts[name]) for name in ("platform", "arch", "cudnn")]
    assert found.packaged == tuple((key, found.facts[f"packages.{key}"]) for key in ("flash", "sage"))
    assert list(found.asked.items()) == [(fact.name, fact) for fact in found.group["request"]]


def test_a_package_whose_fact_is_missing_is_passed_over() -> None:
    """As where its declaration is wrong."""
    found = words()

    without = replace(found, facts={name: fact for name, fact in found.facts.items() if name != "packages.flash"})

    assert without.packaged == (("sage", found.facts["packages.sage"]),)


def test_a_distribution_leads_to_its_package() -> None:
    """Whoever writes the name from the package index is told ours."""
    assert words().package_key("sageattention") == "sage"
    assert words().package_key("flash_attn") is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", ["1:1: wrong-type: wanted a mapping, got a list"]),
        ("{}", [f"1:1: missing-key: wanted the key `facts`, {_MISSING}"]),
        pytest.param("facts: []", ["1:8: wrong-type: `facts`: wanted a mapping, got a list"]),
        (f"{_A}set: {{}}", ["2:1: unknown-key: no key `set` here\n  hint: did you mean `sets`?"]),
        (f"{_A}qqqq: 1", ["2:1: unknown-key: no key `qqqq` here\n  hint: known here: facts, derived, sets, packages"]),
        ("facts: {A: {type: string, group: machine, about: x}}",
         [f"1:9: bad-name: `A` {_NAME}"]),
        ("facts: {any: {type: string, group: machine, about: x}}",
         [f"1:9: bad-name: `any` {_NAME}"]),
        ("facts: {a.: {type: string, group: machine, about: x}}",
         [f"1:9: bad-name: `a.` {_NAME}"]),
        ("facts: {unknown: {type: string, group: machine, about: x}}",
         [f"1:9: bad-name: `unknown` {_NAME}"]),
        ("facts: {a: 1}", ["1:12: wrong-type: `a`: wanted a mapping, got `1`"]),
        ("facts: {a: {}}",
         [f"1:12: missing-key: wanted the key `{key}`, {_MISSING}" for key in ("type", "group", "about")]),
        ("facts: {a: {type: strng, group: machin, about: x}}",
         [f"1:19: unknown-name: `type`: wanted one of {_STRING}, got `strng`\n  hint: did you mean `string`?",
          f"1:33: unknown-name: `group`: wanted one of {_MACHINE}, got `machin`\n  hint: did you mean `machine`?"]),
        ("facts: {a: {type: string, group: machine, about: ' '}}",
         ["1:50: wrong-type: `about`: wanted a string, got ` `"]),
        (_of_fact("valus: [x]"), ["1:53: unknown-key: no key `valus` here\n  hint: did you mean `values`?"]),
        (_of_fact("values: [x, 1]"), ["1:65: wrong-type: `values[1]`: wanted a string, got `1`"]),
        (_of_fact("special: x"), ["1:62: wrong-type: `special`: wanted a list, got `x`"]),
        (_of_fact("minimum: '1'"), ["1:62: wrong-type: `minimum`: wanted an integer, got `1`"]),
        (_of_fact("minimum: true"), ["1:62: wrong-type: `minimum`: wanted an integer, got `true`"]),
        (_of_fact("unit: 3"), ["1:59: wrong-type: `unit`: wanted a string, got `3`"]),
        (_of_fact("order: qqqq"),
         [f"1:60: unknown-name: `order`: wanted one of {_ORDERS}, got `qqqq`"]),
        (_of_fact("'null': yes"), ["1:61: wrong-type: `null`: wanted true or false, got `yes`"]),
        (_of_fact("null_word: ''"), ["1:64: wrong-type: `null_word`: wanted a string, got an empty string"]),
        (_of_fact("pattern: x"), ["1:62: wrong-type: `pattern`: wanted a mapping, got `x`"]),
        (_of_fact("pattern: {example: y}"), [f"1:62: missing-key: wanted the key `regex`, {_MISSING}"]),
        (_of_fact("pattern: {regex: '(', example: y}"),
         ["1:70: bad-value: `regex`: not a regular expression: missing ), unterminated subpattern at position 0"]),
        (_of_fact("'on': {regex: x, example: y}"),
         [f"1:59: missing-key: wanted the key `{key}`, {_MISSING}" for key in ("fact", "value")]),
        (f"{_A}packages: {{X: {{distributions: [x]}}}}", [f"2:12: bad-name: `packages.X` {_NAME}"]),
        (f"{_A}packages: {{x: {{}}}}", [f"2:15: missing-key: wanted the key `distributions`, {_MISSING}"]),
        (f"{_A}packages: {{x: {{distributions: [x], symbls: []}}}}",
         ["2:36: unknown-key: no key `symbls` here\n  hint: did you mean `symbols`?"]),
        (f"{_A}packages: {{x: {{distributions: x, modules: [1]}}}}",
         ["2:31: wrong-type: `distributions`: wanted a list, got `x`",
          "2:44: wrong-type: `modules[0]`: wanted a string, got `1`"]),
        (f"{_A}derived: {{d: {{relation: equal, of: [a]}}}}", ["2:36: bad-value: `d`: wanted two facts, got 1"]),
        (f"{_A}derived: {{d: {{relation: equal, of: [a, a, a]}}}}",
         ["2:36: bad-value: `d`: wanted two facts, got 3"]),
        (f"{_A}sets: {{s: 1}}", ["2:11: wrong-type: `s`: wanted a mapping, got `1`"]),
        (f"{_A}sets: {{s: {{values: [x]}}}}", [f"2:11: missing-key: wanted the key `fact`, {_MISSING}"]),
        (f"{_A}sets: {{s: {{fact: a}}}}", [f"2:11: missing-key: wanted the key `values`, {_MISSING}"]),
        (f"{_A}sets: {{s: {{fact: [a], values: [x]}}}}", ["2:18: wrong-type: `fact`: wanted a string, got a list"]),
        (f"{_A}sets: {{s: {{fact: b, values: [x]}}}}", ["2:18: unknown-fact: no fact `b`"]),
        (f"{_A}sets: {{s: {{fact: a, values: x}}}}", ["2:29: wrong-type: `values`: wanted a list, got `x`"]),
        (f"{_A}sets: {{s: {{fact: a, values: [1, ~, [x], 1.5, y, {{}}]}}}}",
         ["2:30: bad-value: `a`: wanted a string, got the number 1",
          "2:33: bad-value: wanted a value of `a`, got `null`",
          "2:36: bad-value: wanted a value of `a`, got a list", "2:41: bad-value: wanted a value of `a`, got `1.5`",
          "2:49: bad-value: wanted a value of `a`, got a mapping"]),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_wrong_with_a_vocabulary_is_told_with_its_place(text: str, said: list[str]) -> None:
    """Every mistake is told, and reading goes on."""
    assert read_words(text)[1] == [f"words.yaml:{one}" for one in said]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{_A}derived: {{d: {{relation: equals, of: [a, n]}}}}", "2:25"),
        (f"{_A}derived: {{d: {{relation: equal, of: [a, m]}}}}", "2:40"),
        (f"{_A}derived: {{d: 1}}", "2:14"),
        ("fact: {}", "1:1"),
        ("facts: {a: {typ: string, group: machine, about: x}}", "1:13"),
        (f"{_A}derived: {{a: {{relation: equal, of: [a, n]}}}}", "2:11"),
        (f"{_A}derived: {{any: {{relation: equal, of: [a, n]}}}}", "2:11"),
        (_TWICE, "2:12"),
        (_of_fact("order: number"), "1:60"),
        pytest.param(_of_fact("'on': {fact: b, value: c, regex: x, example: y}"), "1:66"),
        (f"{_A}derived: {{d: {{relation: divisible, of: [a, n]}}}}", "2:"),
        (f"{_A}sets: {{s: {{fact: a, values: []}}}}", "2:29"),
    ],
    ids=short,
)  # fmt: skip
def test_one_mistake_in_a_vocabulary_makes_one_problem(text: str, said: str) -> None:
    """A mistake is told once, and no mistake waits until a decision trips over it."""
    (found,) = read_words(text)[1]

    assert found.startswith(f"words.yaml:{said}")


@pytest.mark.parametrize(
    ("fact", "value", "misfit"),
    [
        ("platform", "cuda", None),
        ("platform", "", Misfit("`platform`: wanted one of cuda, rocm, cpu, got ``")),
        ("platform", None, Misfit("`platform`: wanted a string, got null")),
        ("role", "anything", None),
        ("arch", "gfx942", None),
        ("arch", "sm_10x", None),
        ("arch", "", Misfit("`arch`: wanted a string, got an empty one")),
        ("arch", "SM_90", None),
        ("head_dim", "symbolic", None),
        ("head_dim", [], Misfit("`head_dim`: wanted an integer or `symbolic`, got a list")),
        ("head_dim", {}, Misfit("`head_dim`: wanted an integer or `symbolic`, got a mapping")),
        ("head_dim", 1, None),
        ("head_dim", 0, Misfit("`head_dim`: wanted an integer of at least 1 or `symbolic`, got 0")),
        ("steps", -(10**30), None),
        ("steps", 1.0, Misfit("`steps`: wanted an integer, got the number 1.0")),
        ("mask_free", True, None),
        ("mask_free", 0, Misfit("`mask_free`: wanted true or false, got the number 0")),
        ("mask_free", None, Misfit("`mask_free`: wanted true or false, got null")),
        ("packages.flash", "1!2.0.post1.dev3+cu12.x", None),
        ("packages.flash", 2, Misfit("`packages.flash`: wanted a version as a string, got the number 2", "quote it")),
        ("packages.flash", "", Misfit("`packages.flash`: wanted a version as PEP 440 writes it, got ``")),
    ],
    ids=short,
)  # fmt: skip
def test_a_value_that_does_not_belong_to_a_fact_is_told_why(fact: str, value: object, misfit: Misfit | None) -> None:
    """Type, choice and bound are checked (the form of a text in rules alone); both what was wanted and got are told."""
    assert words().facts[fact].misfit(value) == misfit


def test_every_word_that_stands_for_a_number_is_told() -> None:
    """One after the other."""
    fact = Fact("a", "integer", "request", "x", special=("one", "two"))

    assert fact.misfit(True) == Misfit("`a`: wanted an integer or `one` or `two`, got true")
    assert fact.misfit("two") is None


def test_a_single_choice_is_told_without_ceremony() -> None:
    """One value is no list of them."""
    found, _ = read_words(_of_fact("values: [x]"))

    assert found.facts["a"].misfit("y") == Misfit("`a`: wanted x, got `y`")


@pytest.mark.parametrize(
    ("facts", "equal", "divides"),
    [
        ({"num_heads": 8, "num_kv_heads": 8}, True, True),
        ({"num_heads": 8, "num_kv_heads": 2}, False, True),
        ({"num_heads": 8, "num_kv_heads": 3}, False, False),
        ({"num_heads": 2, "num_kv_heads": 8}, False, False),
        ({"num_heads": 8}, None, None),
        ({"num_heads": 8, "num_kv_heads": None}, True, None),
        ({}, None, None),
    ],
)
def test_a_relation_of_two_facts_is_known_when_both_are(facts: Facts, equal: bool | None, divides: bool | None) -> None:
    """Equality and divisibility stay open while one side is unknown."""
    by_name = {derived.name: derived for derived in words().derived}

    assert by_name["equal_heads"].value(facts) is equal
    assert by_name["heads_divide"].value(facts) is divides


@pytest.mark.parametrize(
    ("relation", "first", "second", "answer"),
    [
        ("equal", "a", "a", True),
        ("equal", "a", "b", False),
        ("divisible", "a", 2, None),
        ("divisible", 2, "a", None),
        ("equal", True, 1, None),
    ],
)  # fmt: skip
def test_a_relation_of_other_values(relation: str, first: Value, second: Value, answer: bool | None) -> None:
    """Texts are not divided, and values of two types are not compared."""
    derived = Derived("d", relation, "a", "b")  # type: ignore[arg-type]

    assert derived.value({"a": first, "b": second}) is answer


def test_nothing_is_divisible_by_zero() -> None:
    """A length of zero is a value, and a relation of it has an answer or is open."""
    assert Derived("d", "divisible", "a", "b").value({"a": 8, "b": 0}) is not True


@pytest.mark.parametrize("other", [64, "symbolic"])
def test_a_relation_of_a_symbolic_size_is_open(other: Value) -> None:
    """A word that stands for a number that is not known leaves the relation open."""
    text = """\
facts:
  d: {type: integer, group: request, about: x, special: [symbolic]}
  e: {type: integer, group: request, about: x, special: [symbolic]}
derived: {same: {relation: equal, of: [d, e]}}
"""
    found, problems = read_words(text)

    assert problems == []
    assert found.derived[0].value({"d": "symbolic", "e": other}) is None


def test_an_order_that_does_not_fit_a_fact_never_reaches_a_decision() -> None:
    """The vocabulary does not load."""
    assert read_words(_of_fact("order: number"))[1] == [
        "words.yaml:1:60: wrong-order: `order`: `number` orders facts of the type integer, not string"
    ]


def test_a_derived_fact_is_asked_like_any_other() -> None:
    """A relation is a boolean fact of its own group."""
    assert truth("equal_heads: true", {"equal_heads": True}) is True
    assert truth("{equal_heads: {equals: true, unknown: match}}", {}) is True


@pytest.mark.parametrize(
    ("first", "second", "equal"),
    [("symbolic", "text", None), ("text", "symbolic", None), ("symbolic", "symbolic", None), ("symbolic", None, True),
     ("text", "text", True), ("text", "other", False)],
)  # fmt: skip
def test_a_word_for_a_number_is_equal_to_nothing_for_certain(first: Value, second: Value, equal: bool | None) -> None:
    """On either side; null is equal to whatever it meets, and other words are values."""
    derived = Derived("d", "equal", "a", "b", frozenset({"symbolic"}))

    assert derived.value({"a": first, "b": second}) is equal


def test_a_package_is_a_fact_of_the_machine() -> None:
    """Its version, with the order of versions; null where the package is absent."""
    package = Package("flash", ("flash-attn",), (), (), "Flash.")

    assert package_fact(package) == Fact("packages.flash", "version", "machine", "Flash.", order="pep440", null=True)
