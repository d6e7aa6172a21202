from __future__ import annotations

import pytest

from selector.rules import conditions
from selector.rules.checks import Comparison
from selector.rules.conditions import Truth
from selector.rules.fields import Source
from selector.rules.matchers import Matcher, Skip, _nullness
from selector.rules.nodes import Node
from selector.rules.problems import Place
from selector.rules.vocabulary import Value
from tests.selector.rules.language import condition, node, truth, words
from tests.selector.rules.texts import short

_GONE = "packages.flash"

# A matcher of each kind for each type of fact: as it is written, the fact, values that it holds for, values that it
# does not, and whether it holds for null.
_MATCHERS: tuple[tuple[str, str, list[Value], list[Value], bool], ...] = (
    ("equals: cuda", "platform", ["cuda"], ["rocm", "cpu"], False),
    ("in: [cuda, rocm]", "platform", ["cuda", "rocm"], ["cpu"], False),
    ("equals: sm_90", "arch", ["sm_90"], ["gfx90", "SM_90"], False),
    ("equals: sm_10x", "arch", ["sm_100", "sm_103"], ["sm_90", "sm_120", "gfx942"], False),
    ("in: [sm_8x, sm_90, gfx942]", "arch", ["sm_86", "sm_90", "gfx942"], ["sm_100", "gfx90"], False),
    ("in: blackwell", "arch", ["sm_100", "sm_103", "sm_120"], ["sm_121", "sm_90"], False),
    ('compare: ">=sm_80,<sm_120"', "arch", ["sm_80", "sm_90", "sm_100"], ["sm_75", "sm_120", "gfx942"], False),
    ("min: sm_80", "arch", ["sm_80", "sm_100"], ["sm_75", "gfx942"], False),
    ("max: sm_90", "arch", ["sm_90", "sm_75"], ["sm_100", "gfx942"], False),
    ("present: true", "arch", ["sm_90", "gfx942"], [], False),
    ("absent: true", "arch", [], ["sm_90", "gfx942"], True),
    ("equals: 91002", "cudnn", [91002], [91001, 9], False),
    ('compare: ">=9.5"', "cudnn", [90500, 91002], [90499, 8907], False),
    ("min: 90500", "cudnn", [90500], [90499], False),
    ('min: "9.5"', "cudnn", [90500], [90499, 8907], False),
    ('max: "9.5"', "cudnn", [90500, 8907], [90501], False),
    ("present: true", "cudnn", [8907], [], False),
    ("absent: true", "cudnn", [], [8907], True),
    ("equals: 64", "head_dim", [64], [65], False),
    ("in: [64, 128]", "head_dim", [64, 128], [96], False),
    ("in: small", "head_dim", [64, 128], [256], False),
    ('compare: ">64,!=96"', "head_dim", [65, 128], [64, 96], False),
    ("multiple_of: 8", "head_dim", [8, 256], [4, 9], False),
    ("multiple_of: 1", "head_dim", [1, 7], [], False),
    ("min: 64", "head_dim", [64, 65], [63], False),
    ("max: 256", "head_dim", [256, 1], [257], False),
    ("equals: 4", "steps", [4], [5, -4], False),
    ("min: -1", "steps", [-1, 0], [-2], False),
    ("equals: true", "mask_free", [True], [False], False),
    ("equals: false", "mask_free", [False], [True], False),
    ("in: [true, false]", "mask_free", [True, False], [], False),
    ("equals: true", "causal", [True], [False], False),
    ("present: true", "causal", [True, False], [], False),
    ("absent: true", "causal", [], [True, False], True),
    ("equals: present", "role", ["present"], ["absent"], False),
    ('equals: ">a"', "role", [">a"], ["a"], False),
    ('in: ["on", "4:30"]', "role", ["on", "4:30"], ["off"], False),
    ('equals: "2.10"', _GONE, ["2.10", "2.10.0", "2.10+cu13"], ["2.1", "2.10.1", "2.10rc1"], False),
    ('in: ["1.0", "2.0"]', _GONE, ["1.0", "2.0.0"], ["1.5"], False),
    ('compare: ">=4.0.0b18"', _GONE, ["4.0.0b18", "4.0.0", "4.1.dev0"], ["4.0.0b17", "3.9"], False),
    ('min: "2.0"', _GONE, ["2.0", "3.0rc1"], ["2.0rc1", "1.9.post3"], False),
    ('max: "2.0"', _GONE, ["2.0", "2.0rc1", "2.0+cu12"], ["2.0.post1", "2.1"], False),
    ("present: true", _GONE, ["0.0.0"], [], False),
    ("absent: true", _GONE, [], ["0.0.0"], True),
    ('equals: "1.0"', "label", ["1.0"], ["1.0.0", "1.0+cu12"], False),
)
_CASES = pytest.mark.parametrize(("matcher", "fact", "yes", "no", "at_null"), _MATCHERS, ids=short)


@_CASES
def test_a_matcher_holds_for_its_values_and_fails_for_others(
    matcher: str, fact: str, yes: list[Value], no: list[Value], at_null: bool
) -> None:
    """The answer for a value that is known is yes or no, whatever `unknown` says."""
    for unknown in ("", ", unknown: match", ", unknown: fail"):
        when = f"{fact}: {{{matcher}{unknown}}}"
        assert [value for value in yes if truth(when, {fact: value}) is not True] == []
        assert [value for value in no if truth(when, {fact: value}) is not False] == []


@_CASES
def test_a_fact_that_is_not_given_is_neither_yes_nor_no(
    matcher: str, fact: str, yes: list[Value], no: list[Value], at_null: bool
) -> None:
    """Unknown leaves the answer open, unless the matcher says what to make of it."""
    assert truth(f"{fact}: {{{matcher}}}", {}) is None
    assert truth(f"{fact}: {{{matcher}, unknown: match}}", {}) is True
    assert truth(f"{fact}: {{{matcher}, unknown: fail}}", {}) is False


@_CASES
def test_null_is_known_and_no_value(matcher: str, fact: str, yes: list[Value], no: list[Value], at_null: bool) -> None:
    """Where there is none of something only `absent` holds, whatever is said of what is unknown."""
    for unknown in ("", ", unknown: match", ", unknown: fail"):
        assert truth(f"{fact}: {{{matcher}{unknown}}}", {fact: None}) is at_null


@pytest.mark.parametrize(
    ("written", "op", "wanted"),
    [
        ("platform: cuda", "equals", "cuda"),
        ("head_dim: 64", "equals", "64"),
        ("head_dim: symbolic", "equals", "symbolic"),
        ("mask_free: true", "equals", "true"),
        ("arch: sm_10x", "equals", "sm_10x"),
        ("arch: [sm_90, sm_10x]", "in", "one of sm_90, sm_10x"),
        ("mask_free: [true, false]", "in", "one of true, false"),
        ("arch: {in: blackwell}", "in", "blackwell (sm_10x, sm_120)"),
        ('arch: ">=sm_80"', "compare", ">=sm_80"),
        ('arch: " >=sm_80"', "compare", " >=sm_80"),
        ('cudnn: "<9.5"', "compare", "<9.5"),
        ('packages.flash: "!=2.0"', "compare", "!=2.0"),
        ('packages.flash: "2.0"', "equals", "2.0"),
        ("packages.flash: present", "present", "present"),
        ("packages.flash: absent", "absent", "absent"),
        ("head_dim: {min: 8}", "min", "at least 8"),
        ("head_dim: {max: 8}", "max", "at most 8"),
        ('packages.flash: {min: "2.0"}', "min", ">=2.0"),
        ("arch: {max: sm_90}", "max", "<=sm_90"),
        ("head_dim: {multiple_of: 8}", "multiple_of", "a multiple of 8"),
    ],
    ids=short,
)
def test_the_short_forms_are_matchers_with_a_name(written: str, op: str, wanted: str) -> None:
    """A scalar, a list, a comparison and a word each stand for one matcher, whose words a reason repeats."""
    found = condition(written)

    assert isinstance(found, conditions.Test)
    assert (found.op, found.wanted) == (op, wanted)


@pytest.mark.parametrize(
    ("when", "value"),
    [
        ("steps: 1", True), ("steps: 0", False), ("steps: [0, 1]", True), ("mask_free: true", 1),
        ("mask_free: [false]", 0),
        ("steps: 1", 1.0), ("role: '1'", 1), ("label: '1'", 1),
    ],
    ids=short,
)  # fmt: skip
def test_values_of_different_types_are_never_equal(when: str, value: Value) -> None:
    """True is not 1 and 1 is not 1.0, though Python says so."""
    fact = when.partition(":")[0]

    assert truth(when, {fact: value}) is False


@pytest.mark.parametrize(
    ("when", "answer"),
    [
        ("head_dim: 64", None), ("head_dim: [64, 128]", None), ("head_dim: {in: small}", None),
        ('head_dim: ">=64"', None),
        ("head_dim: {multiple_of: 8}", None), ("head_dim: {min: 1}", None), ("head_dim: {max: 256}", None),
        ("head_dim: {max: 256, unknown: match}", True), ("head_dim: {max: 256, unknown: fail}", False),
        ("head_dim: {multiple_of: 8, max: 256, unknown: match}", True),
        ("head_dim: symbolic", True), ("head_dim: {equals: symbolic, unknown: fail}", True),
        ("not: {head_dim: symbolic}", False),
    ],
)  # fmt: skip
def test_a_word_in_place_of_a_number_is_unknown_as_a_number(when: str, answer: Truth) -> None:
    """A symbolic size leaves tests of its number open, and is itself when it is asked for."""
    assert truth(when, {"head_dim": "symbolic"}) is answer


@pytest.mark.parametrize(
    ("when", "facts", "answer"),
    [
        ("head_dim: symbolic", {"head_dim": 64}, False),
        ("head_dim: symbolic", {}, None),
        ("head_dim: [symbolic, 256]", {"head_dim": 256}, True),
        ("head_dim: [symbolic, 256]", {"head_dim": 64}, False),
    ],
)
def test_a_word_that_is_asked_for_is_a_value(when: str, facts: dict[str, Value], answer: Truth) -> None:
    """A number is not the word, and a size that is not given may be it."""
    assert truth(when, facts) is answer


@pytest.mark.parametrize("when", ["head_dim: [symbolic, 64]", "head_dim: {in: [symbolic]}", "head_dim: {in: traced}"])
def test_a_word_that_is_asked_for_in_a_list_is_found(when: str) -> None:
    """Asking for the word among others is asking for it."""
    assert truth(when, {"head_dim": "symbolic"}) is True


@pytest.mark.parametrize(
    ("when", "facts", "answer"),
    [
        ("head_dim: {min: 64, max: 128}", {"head_dim": 96}, True),
        ("head_dim: {min: 64, max: 128}", {"head_dim": 129}, False),
        ("head_dim: {min: 64, max: 128}", {}, None),
        ("head_dim: {min: 64, max: 128, unknown: match}", {}, True),
        ("head_dim: {equals: 64, multiple_of: 7}", {"head_dim": 64}, False),
        ("cudnn: {present: true, unknown: match}", {"cudnn": None}, False),
        ("cudnn: {present: true, unknown: match}", {}, True),
        ("cudnn: {absent: true, unknown: match}", {"cudnn": 90500}, False),
    ],
)
def test_matchers_of_one_fact_are_anded(when: str, facts: dict[str, Value], answer: Truth) -> None:
    """Every matcher must hold; what `unknown` says goes for all of them."""
    assert truth(when, facts) is answer


@pytest.mark.parametrize(
    ("written", "mentions"),
    [
        ("arch: sm_90", ("sm_90",)), ("arch: sm_10x", ("sm_10x",)), ("head_dim: 64", (64,)),
        ("mask_free: true", (True,)),
        ("head_dim: [64, symbolic]", (64, "symbolic")), ("arch: {in: blackwell}", ("sm_10x", "sm_120")),
        ('arch: ">=sm_80,<sm_90"', (">=sm_80,<sm_90",)), ("arch: {min: sm_80}", (">=sm_80",)),
        ("head_dim: {min: 8}", (">=8",)), ("head_dim: {max: 8}", ("<=8",)), ("head_dim: {multiple_of: 8}", (8,)),
        ("arch: present", ()), ("arch: absent", ()),
    ],
    ids=short,
)  # fmt: skip
def test_a_test_mentions_what_it_is_about(written: str, mentions: tuple[Value, ...]) -> None:
    """The values, or the comparison, as they are written; a set by its values."""
    (found,) = conditions.tests(condition(written))

    assert found.mentions == mentions


@pytest.mark.parametrize("text", [">=64", ">=64,<128"])
def test_a_comparison_is_known_by_its_order_and_its_text(text: str) -> None:
    """Which is all that is written to disk of it."""
    (found,) = conditions.tests(condition(f'head_dim: "{text}"'))

    assert isinstance(found.check, Comparison)
    assert (found.check.order, found.check.text) == ("number", text)


def test_what_was_read_from_no_file_stands_in_that_of_the_matcher() -> None:
    """Value and key."""
    matcher = Matcher(words().facts["arch"], words(), Source("t.yaml"), "x")

    assert matcher.at(Node(1, 2, 3)) == Place("t.yaml", 2, 3, "x")
    assert matcher.key(Node(1, 2, 3, key=(4, 5))) == Place("t.yaml", 4, 5, "x")


def test_a_word_is_a_pattern_only_where_architectures_compare() -> None:
    """Of another fact it is a text like any other."""
    assert truth("role: sm_10x", {"role": "sm_10x"}) is True
    assert truth("role: sm_10x", {"role": "sm_100"}) is False


@pytest.mark.parametrize(("name", "held"), [("present", True), ("absent", False)])
def test_two_words_ask_whether_there_is_a_value(name: str, held: bool) -> None:
    """A value that is not null is present, whatever it is; nothing is mentioned."""
    source = Source("t.yaml")

    wanted, check, mentions = _nullness(name)(Matcher(words().facts["arch"], words(), source, "x"), node("true"))

    assert (wanted, check("sm_90"), mentions) == (name, held, ())
    assert source.problems == []


@pytest.mark.parametrize(
    ("name", "fact", "text", "code", "message"),
    [
        ("present", "arch", "1", "bad-value", "`present`: wanted true, got `1`"),
        ("absent", "arch", "false", "bad-value", "`absent`: wanted true, got `false`"),
        ("present", "platform", "true", "never-null",
         "`platform` is never null: it is always present where it is known"),
        ("absent", "platform", "true", "never-null", "`platform` is never null: it is never absent where it is known"),
    ],
)  # fmt: skip
def test_what_the_two_words_cannot_ask(name: str, fact: str, text: str, code: str, message: str) -> None:
    """Anything but true, and a fact that is never null."""
    source = Source("t.yaml")

    with pytest.raises(Skip):
        _nullness(name)(Matcher(words().facts[fact], words(), source, "x"), node(text))

    (problem,) = source.problems
    assert (problem.place, problem.code, problem.message, problem.hint) == (
        Place("t.yaml", 1, 1, "x"), code, message, None,
    )  # fmt: skip
