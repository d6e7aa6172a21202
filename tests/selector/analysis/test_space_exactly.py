"""Which variables and classes a few tests make, and which facts are known where a table is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from selector.analysis.space import Answers, Box, Space, Variable, bits, known_in, lowest, make_space, size
from selector.rules import conditions
from selector.rules.problems import Place
from selector.rules.tables import Table
from selector.rules.vocabulary import Vocabulary
from tests.selector.analysis.random_tables import read_words
from tests.selector.rules.language import Facts, condition, table, words


def asked(*whens: str) -> list[conditions.Test]:
    """Give the tests of some conditions, in their order."""
    return [test for when in whens for test in conditions.tests(condition(when))]


def space(*whens: str, known: tuple[str, ...] = ()) -> Space:
    """Give the space of some conditions."""
    return make_space(asked(*whens), words(), known)


def classes(variable: Variable) -> list[dict[str, object]]:
    """Give the facts that stand for each class of a variable."""
    return [dict(cell.facts) for cell in variable.cells]


@pytest.mark.parametrize(
    ("mask", "numbers"),
    [
        (0, []),
        (1, [0]),
        (2, [1]),
        (0b1101, [0, 2, 3]),
        (1 << 70 | 1 << 3, [3, 70]),
        (1 << 700 | 1 << 600 | 1 << 3 | 1, [0, 3, 600, 700]),
    ],
)
def test_bits_are_numbered_from_the_lowest(mask: int, numbers: list[int]) -> None:
    """However many there are."""
    assert list(bits(mask)) == numbers
    assert [lowest(mask)] == numbers[:1] or not mask


@pytest.mark.parametrize(("box", "count"), [((), 1), ((1,), 1), ((0b101, 0b111), 6), ((3, 0), 0)])
def test_the_size_of_a_box_is_the_product_of_its_classes(box: Box, count: int) -> None:
    """A box of no variable holds the one situation that there is."""
    assert size(box) == count


def test_variables_stand_in_the_order_of_the_vocabulary() -> None:
    """Each with the classes that its tests tell apart, unknown among them, and where each test holds and fails."""
    found = space("{mask_free: true, platform: [cuda, rocm]}", "causal: absent")

    assert [variable.names for variable in found.variables] == [("platform",), ("mask_free",), ("causal",)]
    assert [classes(variable) for variable in found.variables] == [
        [{}, {"platform": "cuda"}, {"platform": "cpu"}],
        [{}, {"mask_free": True}, {"mask_free": False}],
        [{}, {"causal": None}, {"causal": True}],
    ]
    assert [found.of(test) for test in found.tests] == [Answers(1, 2, 4), Answers(0, 2, 4), Answers(2, 2, 4)]
    assert found.index == {"platform": 0, "mask_free": 1, "causal": 2}
    assert found.full == (7, 7, 7)


def test_a_test_that_no_file_has_is_kept_beside_one_that_asks_the_same() -> None:
    """Of those that files have, the first."""
    one, again = asked("platform: cuda", "platform: cuda")
    nowhere = replace(one, place=Place(""))

    assert make_space([nowhere, one, again], words()).asked == ((nowhere, one),)
    assert [test.place.file for test in make_space([again, nowhere, one], words()).asked[0]] == ["t.yaml", ""]


def test_a_fact_that_is_known_has_no_class_in_which_it_is_not() -> None:
    """Neither where it is said to be known, nor where the engine sets it."""
    assert classes(space("platform: cuda", known=("platform",)).variables[0]) == [
        {"platform": "cuda"},
        {"platform": "rocm"},
    ]
    tests = asked("role: self")
    assert {} in classes(make_space(tests, words(), engine=False).variables[0])
    assert {} not in classes(make_space(tests, words()).variables[0])


def test_facts_that_follow_from_others_share_their_variable() -> None:
    """With the facts that they follow from, whether these are asked about or not; others stay apart."""
    found = space("heads_divide: true", "steps: 1", "platform: cuda")
    assert [variable.names for variable in found.variables] == [
        ("platform",),
        ("steps",),
        ("num_heads", "num_kv_heads", "heads_divide"),
    ]
    assert found.index == {"platform": 0, "steps": 1, "num_heads": 2, "num_kv_heads": 2, "heads_divide": 2}

    apart = space("num_heads: 4", "num_kv_heads: 4")
    assert [variable.names for variable in apart.variables] == [("num_heads",), ("num_kv_heads",)]

    both = space("heads_divide: true", "equal_heads: true")
    assert [variable.names for variable in both.variables] == [
        ("num_heads", "num_kv_heads", "equal_heads", "heads_divide")
    ]


LINKED: Mapping[str, dict[str, object]] = {
    "maker": {"type": "string", "values": ["one", "two"]},
    "code": {"type": "string", "on": {"fact": "maker", "value": "one", "regex": "k[0-9]+", "example": "k1"}},
    "causal": {"type": "boolean"},
    "causal_alignment": {"type": "string", "values": ["top_left", "bottom_right"], "null": True},
}


def linked() -> Vocabulary:
    """Give facts whose values must fit each other."""
    return read_words({"facts": {name: {"group": "machine", "about": "x", **entry} for name, entry in LINKED.items()}})


@pytest.mark.parametrize(
    ("names", "groups"),
    [
        (["code", "maker"], [("maker", "code")]),
        (["code"], [("code",)]),
        (["maker"], [("maker",)]),
        (["causal", "causal_alignment"], [("causal", "causal_alignment")]),
        (["causal"], [("causal",)]),
        (["causal_alignment", "maker"], [("maker",), ("causal_alignment",)]),
        (["causal_alignment", "causal", "code", "maker"], [("maker", "code"), ("causal", "causal_alignment")]),
    ],
)
def test_facts_whose_values_must_fit_share_a_variable_where_both_are_asked(
    names: list[str], groups: list[tuple[str, ...]]
) -> None:
    """The form of one where another has a value, and causal with its corner."""
    vocabulary = linked()
    values = {"maker": "one", "code": "k1", "causal": "true", "causal_alignment": "top_left"}
    whens = [f"{name}: {values[name]}" for name in names]
    tests = [test for when in whens for test in conditions.tests(condition_of(when, vocabulary))]

    assert [variable.names for variable in make_space(tests, vocabulary).variables] == groups


def test_facts_are_joined_though_others_follow_from_something() -> None:
    """What must fit is looked for among all facts that are reached."""
    entries: dict[str, dict[str, object]] = {**LINKED, "one": {"type": "boolean"}, "two": {"type": "boolean"}}
    facts = {name: {"group": "machine", "about": "x", **entry} for name, entry in entries.items()}
    same = {"about": "x", "relation": "equal", "of": ["one", "two"]}
    vocabulary = read_words({"facts": facts, "derived": {"same": same}})
    whens = ("same: true", "causal: true", "causal_alignment: top_left", "maker: one", "code: k1")
    tests = [test for when in whens for test in conditions.tests(condition_of(when, vocabulary))]

    assert [variable.names for variable in make_space(tests, vocabulary).variables] == [
        ("maker", "code"), ("causal", "causal_alignment"), ("one", "two", "same"),
    ]  # fmt: skip


def condition_of(when: str, vocabulary: Vocabulary) -> conditions.Condition:
    """Read a condition in another vocabulary."""
    import yaml

    from tests.selector.analysis.random_tables import read_when

    return read_when(vocabulary, yaml.safe_load(when), "x")


def test_the_facts_of_a_situation_are_as_few_as_there_can_be() -> None:
    """Of each variable those of its smallest class."""
    found = space("platform: cuda", "equal_heads: true", "num_heads: 4")

    assert found.facts(found.full) == {}
    assert found.facts((0b110, 0b0001)) == {"platform": "cuda"}
    assert found.facts((0b010, 0b1100)) == {"platform": "cuda", "num_heads": 4, "num_kv_heads": 4}
    assert found.facts((0b100, 0b1110)) == {"platform": "rocm", "num_heads": 4}


def test_a_box_of_another_space_stands_for_no_facts() -> None:
    """It has more variables, or fewer."""
    for box in ((1,), (1, 1, 1)):
        with pytest.raises(ValueError, match="zip"):
            space("{platform: cuda, mask_free: true}").facts(box)


@pytest.mark.parametrize(
    ("facts", "box"),
    [
        ({}, (1, 1, 1)),
        ({"platform": "cuda"}, (2, 1, 1)),
        ({"platform": "cpu", "arch": None}, (4, 2, 1)),
        ({"arch": "sm_90", "head_dim": 64}, (1, 4, 2)),
        ({"arch": "sm_80", "head_dim": 32}, (1, 2, 4)),
        ({"head_dim": "symbolic"}, (1, 1, 1)),
    ],
)
def test_facts_are_located_in_one_class_of_each_variable(facts: Facts, box: Box) -> None:
    """By what the tests say of them; what is undetermined has its own class."""
    found = space("platform: cuda", "arch: sm_90", "head_dim: {min: 64}")

    assert found.locate(facts, words()) == box


def test_derived_facts_are_added_before_facts_are_located() -> None:
    """They need not be given."""
    found = space("equal_heads: true")

    boxes = [found.locate({"num_heads": 4, "num_kv_heads": other}, words()) for other in (4, 2)]

    assert boxes[0] == (found.of(found.tests[0]).true,)
    assert boxes[1] == (found.of(found.tests[0]).false,)


def test_facts_without_a_class_are_an_error_that_names_them() -> None:
    """What must be known is lacking."""
    found = space("platform: cuda", "heads_divide: true", known=("num_heads", "num_kv_heads"))

    with pytest.raises(LookupError) as caught:
        found.locate({"platform": "cuda"}, words())

    assert caught.value.args == ("no class of num_heads, num_kv_heads, heads_divide answers as these facts do",)


# --- what is known ------------------------------------------------------------------------------------------------

CONFIG: Mapping[str, dict[str, object]] = {
    "backend": {"type": "string"},
    "block": {"type": "boolean"},
    "block.part": {"type": "string", "null": True},
    "block.always": {"type": "string"},
    "block.flag": {"type": "boolean"},
    "block.maybe": {"type": "boolean", "null": True},
    "word": {"type": "string", "null": True},
}
ENGINE = {"role", "policy", "configured.role", "configured.category", "configured.default"}
BLOCKS = {"block", "block.part", "block.maybe"}


def configured() -> Vocabulary:
    """Give facts of the config, and one beside them that looks like them."""
    facts = {name: {"group": "config", "about": "x", **entry} for name, entry in CONFIG.items()}
    facts["other"] = {"group": "machine", "about": "x", "type": "boolean"}
    facts["other.part"] = {"group": "machine", "about": "x", "type": "string", "null": True}
    return read_words({"facts": facts})


def named(name: str, *requires: str) -> Table:
    """Give a table of this name that requires some facts."""
    text = f"table: {name}\nrequires: [platform]\nrows: [{{id: a, refuse: x, because: y}}]"
    return replace(table(text), requires=requires)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("mine", {"arch"}),
        ("role_fallback", {"arch", *ENGINE}),
        ("platform_default", {"arch", *ENGINE, *BLOCKS}),
        ("explicit", {"arch", *ENGINE, *BLOCKS}),
        ("provider", {"arch", *ENGINE, *BLOCKS}),
        ("call", {"arch", *ENGINE, *BLOCKS, "causal", "causal_alignment"}),
    ],
)
def test_what_is_known_where_a_table_is_asked(name: str, known: set[str]) -> None:
    """What it requires, what the engine sets, and the blocks of the entry, once it is chosen."""
    assert known_in(named(name, "arch"), configured()) == known


def test_what_a_table_requires_is_known_though_it_is_a_block() -> None:
    """Also before the entry is chosen."""
    assert "block" in known_in(named("role_fallback", "block"), configured())
    assert known_in(named("mine", "block"), configured()) == {"block"}
    assert known_in(named("mine"), words()) == set()
