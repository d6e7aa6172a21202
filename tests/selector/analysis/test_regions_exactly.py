"""Where the rows of a small table hold, box by box, and the words for a box."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from selector.analysis import regions as module
from selector.analysis.boxes import Budget, BudgetError
from selector.analysis.regions import Regions, Where, asked_by, conditions_of, needs_of, regions_of, told, witness
from selector.analysis.space import Box, Space, make_space
from selector.rules import conditions
from selector.rules.conditions import ALWAYS, Either
from selector.rules.fields import Source
from selector.rules.tables import Table, TableReader
from selector.rules.vocabulary import Vocabulary
from selector.rules.walk import Abilities
from selector.rules.when import Reader
from selector.rules.yaml_text import read_yaml
from tests.selector.analysis.random_tables import read_when, read_words
from tests.selector.rules.language import condition, table, words

_TABLE = """\
table: mine
requires: [platform, backend]
rows:
  - {id: a, when: {head_dim: {min: 64}, platform: cuda}, use: A, because: x}
  - {id: b, when: {any: [head_dim: 32, mask_free: true]}, use: C, because: x}
  - {id: c, when: {not: {platform: cpu}}, refuse: A, because: x}
  - {id: d, use: B, because: x}
"""
MAKERS: Mapping[str, Mapping[str, object]] = {
    "maker": {"type": "string", "values": ["one", "two"]},
    "code": {"type": "string", "on": {"fact": "maker", "value": "one", "regex": "k[0-9]+", "example": "k1"}},
}
ABILITIES: Abilities = {"A": condition("arch: '>=sm_80'"), "B": condition("arch: present")}


def vocabulary_of(entries: Mapping[str, Mapping[str, object]]) -> Vocabulary:
    """Read facts of a machine."""
    return read_words({"facts": {name: {"group": "machine", "about": "x", **entry} for name, entry in entries.items()}})


def table_in(vocabulary: Vocabulary, text: str) -> Table:
    """Read a table in another vocabulary."""
    found = TableReader(Reader(vocabulary, Source("t.yaml"))).read(read_yaml(text, "t.yaml"))
    assert found is not None
    return found


def worked_out(text: str = _TABLE) -> Regions:
    """Work a table out; variables are platform (three classes), arch (four), head_dim (four) and mask_free (three)."""
    return regions_of(table(text), ABILITIES, words())


def test_the_classes_of_the_small_table() -> None:
    """What the bits of its boxes stand for."""
    assert [[dict(cell.facts) for cell in variable.cells] for variable in worked_out().space.variables] == [
        [{"platform": "cuda"}, {"platform": "rocm"}, {"platform": "cpu"}],
        [{}, {"arch": None}, {"arch": "sm_80"}, {"arch": "sm_79"}],
        [{}, {"head_dim": 32}, {"head_dim": 64}, {"head_dim": 1}],
        [{}, {"mask_free": True}, {"mask_free": False}],
    ]


def test_a_row_wishes_by_its_condition_and_holds_where_its_target_can_run() -> None:
    """Only of a row that uses it; the index has every box with its row."""
    found = worked_out()

    assert found.wished == (
        ((1, 15, 4, 7),), ((7, 15, 2, 7), (7, 15, 15, 2)), ((3, 15, 15, 7),), ((7, 15, 15, 7),),
    )  # fmt: skip
    assert found.held == (
        ((1, 4, 4, 7),), ((7, 15, 2, 7), (7, 15, 15, 2)), ((3, 15, 15, 7),), ((7, 12, 15, 7),),
    )  # fmt: skip
    assert list(found.index.owners) == [0, 1, 1, 2, 3]
    assert list(found.index.boxes) == [box for boxes in found.held for box in boxes]
    assert found.table.name == "mine"
    assert found.vocabulary is words()


def test_what_is_left_to_a_row_does_not_overlap() -> None:
    """The rows before it, and its own boxes before one, are taken from it; those that were needed are told."""
    found, used = worked_out(), [set[int]() for _ in range(4)]

    left = [list(found.left(at, Budget(), used[at])) for at in range(4)]

    assert left == [
        [(1, 4, 4, 7)],
        [(7, 15, 2, 7), (1, 4, 9, 2), (1, 11, 13, 2), (6, 15, 13, 2)],
        [(1, 4, 9, 5), (1, 11, 13, 5), (2, 15, 13, 5)],
        [(4, 12, 13, 5)],
    ]
    assert used == [set(), {0}, {0, 1}, {1, 2}]


def test_a_row_that_uses_what_was_named_holds_by_the_needs_of_each_name() -> None:
    """Names with needs are told apart, and all others need nothing."""
    entries: dict[str, dict[str, object]] = {
        "pick": {"type": "string", "values": ["A", "B", "C", "D"]},
        "arch": {"type": "string", "values": ["x", "y", "z"]},
        "flag": {"type": "boolean"},
    }
    vocabulary = vocabulary_of(entries)
    needs: dict[str, dict[str, object]] = {"A": {"arch": "x"}, "B": {"arch": ["x", "y"]}, "other": {"arch": "z"}}
    abilities = {name: read_when(vocabulary, need, "needs.yaml") for name, need in needs.items()}
    text = (
        "table: mine\nrequires: [pick, arch, flag]\nrows:\n"
        "  - {id: a, when: {flag: true}, use: '{pick}', because: x}\n  - {id: b, refuse: '{pick}', because: x}\n"
    )
    read = table_in(vocabulary, text)

    found = regions_of(read, abilities, vocabulary)

    assert [[dict(cell.facts) for cell in variable.cells] for variable in found.space.variables] == [
        [{"pick": "A"}, {"pick": "B"}, {"pick": "C"}],
        [{"arch": "x"}, {"arch": "y"}, {"arch": "z"}],
        [{"flag": True}, {"flag": False}],
    ]
    assert found.wished == (((7, 7, 1),), ((7, 7, 3),))
    assert found.held == (((1, 1, 1), (2, 3, 1), (4, 7, 1)), ((7, 7, 3),))
    assert [needs_of(row, abilities) for row in read.rows] == [list(abilities.values()), []]
    named = list(asked_by(read, abilities, vocabulary))[-2:]
    assert [(test.fact, test.op, test.wanted, test.mentions) for test in named] == [
        ("pick", "equals", "A", ("A",)),
        ("pick", "equals", "B", ("B",)),
    ]
    assert [(test.at_null, test.at_unknown, test.special) for test in named] == [(False, None, frozenset())] * 2
    assert [[test.holds({"pick": value}) for value in ("A", "B", None)] for test in named] == [
        [True, False, False], [False, True, False],
    ]  # fmt: skip
    assert told((6, 7, 3), found.space) == "pick B or C"


def test_only_the_tests_for_names_with_needs_stand_for_them() -> None:
    """Not those that are written in rows, of the same fact or of another one with the same value."""
    vocabulary = vocabulary_of(
        {
            "pick": {"type": "string", "values": ["A", "B", "D"]},
            "label": {"type": "string", "values": ["A", "D"], "null": True},
        }
    )
    text = (
        "table: mine\nrequires: [pick]\nrows:\n"
        "  - {id: a, when: {label: A, pick: [B, D]}, use: '{pick}', because: x}\n"
        "  - {id: b, when: {pick: D}, refuse: x, because: x}\n"
        "  - {id: c, when: {pick: A}, refuse: x, because: x}\n"
        "  - {id: d, when: {label: present}, refuse: x, because: x}\n"
    )
    abilities = {name: read_when(vocabulary, {"label": "D"}, "needs.yaml") for name in ("A", "B")}
    asked_ = list(asked_by(table_in(vocabulary, text), abilities, vocabulary))

    named = module._named("pick", make_space(asked_, vocabulary), abilities)

    assert {name: (test.fact, test.op, test.place.file) for name, test in named.items()} == {
        "A": ("pick", "equals", ""),
        "B": ("pick", "equals", ""),
    }


@pytest.mark.parametrize(("name", "known"), [("mine", False), ("explicit", True)])
def test_what_the_engine_sets_is_known_in_its_own_tables_alone(name: str, known: bool) -> None:
    """In a table of one's own it may be unknown."""
    rows = "rows: [{id: a, when: {role: self}, refuse: x, because: y}, {id: b, refuse: x, because: y}]"
    text = f"table: {name}\n{rows}"

    variable = regions_of(table(text), {}, words()).space.variables[0]

    assert (variable.names, {} not in [dict(cell.facts) for cell in variable.cells]) == (("role",), known)


def test_the_conditions_of_a_table_are_those_of_its_rows_and_of_their_targets() -> None:
    """A target of which nothing is known needs nothing, and only a row that uses one asks for it."""
    found = table(_TABLE)
    rows = found.rows

    assert [needs_of(row, ABILITIES) for row in rows] == [[ABILITIES["A"]], [ALWAYS], [], [ABILITIES["B"]]]
    assert list(conditions_of(found, ABILITIES)) == [
        rows[0].when, ABILITIES["A"], rows[1].when, ALWAYS, rows[2].when, rows[3].when, ABILITIES["B"],
    ]  # fmt: skip
    assert [test.fact for test in asked_by(found, ABILITIES, words())] == [
        "head_dim", "platform", "arch", "head_dim", "mask_free", "platform", "arch",
    ]  # fmt: skip


# --- conditions ---------------------------------------------------------------------------------------------------


def asked(*whens: str, known: tuple[str, ...] = ()) -> tuple[list[conditions.Condition], Space]:
    """Give conditions and their space."""
    found = [condition(when) for when in whens]
    return found, make_space([test for one in found for test in conditions.tests(one)], words(), known)


@pytest.mark.parametrize(
    ("when", "holds", "fails"),
    [
        ("platform: cuda", [(2, 7)], [(4, 7)]),
        ("{platform: cuda, mask_free: true}", [(2, 2)], [(4, 7), (7, 4)]),
        ("any: [platform: cuda, mask_free: true]", [(2, 7), (7, 2)], [(4, 4)]),
        ("not: {platform: cuda, mask_free: true}", [(4, 7), (7, 4)], [(2, 2)]),
        ("any: [{platform: cuda}, {platform: cuda, mask_free: true}]", [(2, 7)], [(4, 7)]),
        ("any: [{platform: cuda, mask_free: true}, {platform: cuda}]", [(2, 7)], [(4, 7)]),
        ("any: [{platform: cuda}, {platform: cuda}]", [(2, 7)], [(4, 7)]),
        ("{platform: cuda, not: {platform: cuda}}", [], [(4, 7), (2, 7)]),
    ],
)
def test_a_condition_holds_and_fails_in_boxes(when: str, holds: list[Box], fails: list[Box]) -> None:
    """Where it is undetermined is in neither; none of the boxes lies in another."""
    (found,), space = asked(when)
    if len(space.variables) == 1:
        (found, _), space = asked(when, "mask_free: true")

    assert Where(space).holds(found) == holds
    assert Where(space).holds(found, wanted=False) == fails


def test_a_test_that_never_holds_has_no_box() -> None:
    """Nor has an alternative without parts; no condition holds everywhere."""
    (found,), space = asked("{platform: cuda, head_dim: {multiple_of: 1}}", known=("head_dim",))
    first, second = conditions.tests(found)

    assert Where(space).holds(second, wanted=False) == []
    assert Where(space).holds(first) == [(2, space.full[1])]
    assert Where(space).holds(Either(())) == []
    assert Where(space).holds(ALWAYS) == [space.full]
    assert Where(space).holds(ALWAYS, wanted=False) == []


def test_more_boxes_than_are_worked_with_are_an_open_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are allowed are worked with."""
    _, space = asked("platform: cuda")
    where = Where(space)
    monkeypatch.setattr(module, "MOST_BOXES", 2)

    assert where.both([(1,), (2,)], [(7,)]) == [(1,), (2,)]
    assert where.both([(1,), (2,), (4,)], [(3,)]) == [(1,), (2,)]
    with pytest.raises(BudgetError):
        where.both([(1,), (2,), (4,)], [(7,)])


# --- telling ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "words_"),
    [
        (0b000010, "arch not >=sm_80 and arch not <sm_100"),
        (0b000100, "arch <sm_100 and arch >=sm_80"),
        (0b001000, "arch blackwell (sm_10x, sm_120)"),
        (0b001001, "arch blackwell (sm_10x, sm_120) or not known"),
        (0b100000, "arch >=sm_80 and arch not <sm_100 and arch not blackwell (sm_10x, sm_120)"),
        (0b010010, "arch not >=sm_80"),
        (0b010011, "arch not >=sm_80 or not known"),
        (0b101100, "arch >=sm_80"),
        (0b101101, "arch >=sm_80 or not known"),
        (0b101000, "arch >=sm_80 and arch not <sm_100"),
        (0b000110, "arch null or sm_80"),
        (0b110001, "arch not known or sm_79 or sm_110"),
        (0b111111, "everywhere"),
    ],
)
def test_one_fact_is_told_by_its_tests_or_else_by_its_values(mask: int, words_: str) -> None:
    """One test that says just that, then a few that do together, then a value of each class."""
    _, space = asked("arch: '>=sm_80'", "arch: '<sm_100'", "arch: {in: blackwell}")
    assert [dict(cell.facts) for cell in space.variables[0].cells] == [
        {}, {"arch": None}, {"arch": "sm_80"}, {"arch": "sm_100"}, {"arch": "sm_79"}, {"arch": "sm_110"},
    ]  # fmt: skip

    assert told((mask,), space) == words_


def test_a_box_is_told_by_the_facts_that_matter() -> None:
    """One after the other; what may be anything is left out."""
    _, space = asked("{platform: cuda, mask_free: true}", "causal: true")

    assert [variable.names for variable in space.variables] == [("platform",), ("mask_free",), ("causal",)]
    assert told((2, 7, space.full[2]), space) == "platform cuda"
    assert told((2, 4, space.full[2]), space) == "platform cuda, mask_free not true"
    assert told((7, 2, space.full[2]), space) == "mask_free true"
    assert told(space.full, space) == "everywhere"


def test_facts_that_belong_together_are_told_together() -> None:
    """By the values of each class, in brackets."""
    _, space = asked("heads_divide: true")

    assert [told((mask,), space) for mask in (0b010, 0b011, 0b100, 0b101)] == [
        "heads_divide true", "heads_divide true or not known", "heads_divide not true",
        "heads_divide not true or not known",
    ]  # fmt: skip
    assert told((0b110,), space) == "(num_heads 1 with num_kv_heads 1 or num_heads 1 with num_kv_heads 2)"


def test_many_values_are_counted() -> None:
    """Six are told, and how many more there are."""
    _, space = asked(*[f"steps: {number}" for number in range(1, 10)], known=("steps",))
    cells = [dict(cell.facts)["steps"] for cell in space.variables[0].cells]
    assert cells[:9] == list(range(1, 10))

    assert told((0b1111_1100,), space) == "steps 3 or 4 or 5 or 6 or 7 or 8"
    assert told((0b1_1111_1100,), space) == "steps 3 or 4 or 5 or 6 or 7 or 8 or 1 more"
    assert told((0b0_1111_1110,), space) == "steps 2 or 3 or 4 or 5 or 6 or 7 or 1 more"


def test_of_tests_that_say_the_same_the_first_is_told() -> None:
    """In the order in which they are written."""
    _, space = asked("head_dim: {min: 64}", "head_dim: '>=64'")
    (answers, _) = (space.of(test) for test in space.tests)

    assert told((answers.true,), space) == "head_dim at least 64"
    assert told((answers.false,), space) == "head_dim not at least 64"


def test_what_others_say_is_not_told_beside_them() -> None:
    """Of tests that hold together only those without which the others would say more."""
    _, space = asked("steps: [1, 2, 3]", "steps: [1, 2, 4, 5]", "steps: [1, 3, 6, 7]", known=("steps",))
    first = space.locate({"steps": 1}, words())

    assert told(first, space) == "steps one of 1, 2, 4, 5 and steps one of 1, 3, 6, 7"


def test_more_than_three_tests_are_not_told_together() -> None:
    """A value of the class is shorter then."""
    _, three = asked("steps: 1", "steps: 2", "steps: 3", known=("steps",))
    _, four = asked("steps: 1", "steps: 2", "steps: 3", "steps: 4", known=("steps",))

    assert told(three.locate({"steps": 9}, words()), three) == "steps not 1 and steps not 2 and steps not 3"
    assert told(four.locate({"steps": 9}, words()), four) == "steps 0"


def test_values_are_told_by_one_fact_where_no_class_needs_two() -> None:
    """In brackets where a class does, and with what they count where there are more than six."""
    _, space = asked("equal_heads: true", "num_heads: 4")
    variable = space.variables[0]
    assert [dict(cell.facts) for cell in variable.cells] == [
        {}, {"num_heads": 4}, {"num_heads": 4, "num_kv_heads": 4}, {"num_heads": 4, "num_kv_heads": 1},
        {"num_heads": 1}, {"num_heads": 1, "num_kv_heads": 4}, {"num_heads": 1, "num_kv_heads": 1},
    ]  # fmt: skip

    assert told((0b0010010,), space) == "num_heads 4 or 1"
    assert module._values(variable, 0b0010011) == "num_heads not known or 4 or 1"
    assert module._values(variable, 0b0000001) == "num_heads not known"
    assert module._values(variable, 0b0000111) == "(not known or num_heads 4 or num_heads 4 with num_kv_heads 4)"
    six = "not known or num_heads 4 or num_heads 4 with num_kv_heads 4 or num_heads 4 with num_kv_heads 1 or "
    six += "num_heads 1 or num_heads 1 with num_kv_heads 4"
    assert module._values(variable, 0b0111111) == f"({six})"
    assert module._values(variable, 0b1111111) == f"({six} or 1 more)"


def test_two_facts_that_must_fit_are_told_together() -> None:
    """A value of both for each class."""
    vocabulary = vocabulary_of(MAKERS)
    asked_ = [test for when in ({"maker": "one"}, {"code": "k1"})
              for test in conditions.tests(read_when(vocabulary, when, "x"))]  # fmt: skip
    space = make_space(asked_, vocabulary, ("maker", "code"))
    (variable,) = space.variables
    cells = [dict(cell.facts) for cell in variable.cells]

    assert variable.names == ("maker", "code")
    assert module._values(variable, 0b11) == "(" + " or ".join(
        f"maker {cell['maker']} with code {cell['code']}" for cell in cells[:2]
    ) + ")"  # fmt: skip


def test_a_box_of_another_space_is_not_told() -> None:
    """It has more variables, or fewer."""
    _, space = asked("{platform: cuda, mask_free: true}")

    for box in ((1,), (1, 1, 1)):
        with pytest.raises(ValueError, match="zip"):
            told(box, space)


# --- an example ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("box", "facts"),
    [
        ((1, 4, 4, 7), {"platform": "cuda", "arch": "sm_80", "head_dim": 64}),
        ((6, 15, 13, 2), {"platform": "rocm", "mask_free": True}),
        ((7, 15, 15, 7), {"platform": "cuda"}),
    ],
)
def test_an_example_has_what_the_box_says_and_what_the_table_requires(box: Box, facts: dict[str, object]) -> None:
    """As few facts as there can be; what no row asks about is any value."""
    assert witness(box, worked_out()) == {"backend": "other", **facts}


@pytest.mark.parametrize(("makers", "maker"), [(["one", "two"], "two"), (["one"], "one")])
def test_a_required_fact_fits_those_of_the_box(makers: list[str], maker: str) -> None:
    """No value is given that could not be beside them, where there is another."""
    vocabulary = vocabulary_of({**MAKERS, "maker": {"type": "string", "values": makers}})
    text = (
        "table: mine\nrequires: [maker]\nrows:\n  - {id: a, when: {code: other}, refuse: x, because: y}\n"
        "  - {id: b, refuse: x, because: y}\n"
    )
    read = table_in(vocabulary, text)
    found = regions_of(read, {}, vocabulary)

    assert witness(found.held[0][0], found) == {"maker": maker, "code": "other"}
