from __future__ import annotations

from itertools import pairwise

import pytest

from selector.rules.orders import ORDERS, capability_pattern
from tests.selector.rules.texts import short


@pytest.mark.parametrize(
    ("order", "text", "yes", "no"),
    [
        ("number", ">=64", [64, 65, 10**30], [63, 0, -1]),
        ("number", "<64", [63, -64], [64]),
        ("number", "<=64", [64], [65]),
        ("number", ">64", [65], [64]),
        ("number", "==64", [64], [63]),
        ("number", "!=64", [63], [64]),
        ("number", ">= 64 , <128", [64, 127], [63, 128]),
        ("number", ">-5,!=0,!=1", [-4, 2], [-5, 0, 1]),
        ("capability", ">=sm_80", ["sm_80", "sm_89", "sm_90", "sm_100", "sm_121", "sm_130"], ["sm_75", "sm_10"]),
        ("capability", ">=sm_80", ["sm_80"], ["gfx942", "mps", "sm_90a", "SM_90", ""]),
        ("capability", "<sm_100", ["sm_75", "sm_90"], ["sm_100", "sm_103", "sm_120", "gfx942", "mps"]),
        ("capability", ">=sm_100,<sm_120", ["sm_100", "sm_103", "sm_110"], ["sm_90", "sm_120"]),
        ("capability", "!=sm_90", ["sm_80", "sm_100"], ["sm_90", "gfx942"]),
        ("cudnn", ">=9.5", [90500, 90501, 91002, 100000], [90499, 90100, 8907]),
        ("cudnn", "<9.5", [8907, 90499], [90500]),
        ("cudnn", ">=8.9.7", [8907, 90000], [8906, 8900, 7605]),
        ("cudnn", "==9.10.2", [91002], [91000]),
        ("cudnn", ">=9.5.0,<9.6", [90500, 90599], [90600]),
        ("cudnn", "<10.0", [91999], [100000]),
        ("pep440", ">=0.6.16rc1", ["0.6.16rc1", "0.6.16", "0.6.16.post1", "0.6.17.dev0", "0.6.16+cu130"], ["0.6.15"]),
        ("pep440", ">=0.6.16rc1", ["1!0.1", "v0.6.16"], ["0.6.16b9", "0.6.16.dev5"]),
        ("pep440", ">=1!2.0, <2!0", ["1!2.0", "1!3"], ["2.0", "9.0", "2!0"]),
        ("pep440", ">=4.0.0b18", ["4.0.0b18", "4.0.0b19", "4.0.0rc1", "4.0.0"], ["4.0.0b17", "4.0.0a1", "3.9"]),
        ("pep440", "<2", ["1.0.6", "1.9.post1", "1.0+local"], ["2", "2.0.1", "2.0rc1"]),
        ("pep440", "==2.8.3", ["2.8.3", "2.8.3+cu12torch2.8", "2.8.3.0"], ["2.8.3.post1", "2.8.4", "2.8.3rc1"]),
        ("pep440", "==2.8.3+cu12", ["2.8.3+cu12"], ["2.8.3", "2.8.3+cu13"]),
        ("pep440", "==2.8.*", ["2.8", "2.8.3", "2.8.0rc1"], ["2.9", "2.80"]),
        ("pep440", "!=2.8.3", ["2.8.4"], ["2.8.3", "2.8.3+cu12"]),
        ("pep440", ">1.0", ["1.0.1", "2.0b1"], ["1.0", "1.0.post1", "1.0+cu12"]),
        ("pep440", ">=2,<3", ["2.0", "2.9"], ["1.9", "3.0"]),
    ],
    ids=short,
)  # fmt: skip
def test_a_comparison_holds_for_what_lies_within_its_bounds(
    order: str, text: str, yes: list[object], no: list[object]
) -> None:
    """All clauses must hold; a value outside of the order fails every comparison."""
    holds = ORDERS[order].comparison(text)

    assert [value for value in yes if not holds(value)] == []
    assert [value for value in no if holds(value)] == []


@pytest.mark.parametrize(
    ("order", "text"),
    [
        ("number", "64"), ("number", ">="), ("number", ""), ("number", ">=x"), ("number", ">=1.5"), ("number", ">=64,"),
        ("number", ",>=64"),
        ("number", ">=64 <128"), ("number", "=64"), ("number", "=>64"), ("number", "~=64"),
        ("number", ">=" + "9" * 5000),
        ("capability", ">=80"), ("capability", ">=sm_8"), ("capability", ">=sm_10x"), ("capability", ">=sm_080"),
        ("capability", ">=SM_80"),
        ("capability", ">=sm_90a"), ("capability", ">=sm_1000"), ("capability", "sm_80"),
        ("cudnn", ">=9"), ("cudnn", ">=9.5.1.2"), ("cudnn", ">=90500"), ("cudnn", ">=9.x"), ("cudnn", ">=9.5rc1"),
        ("pep440", ">=x"), ("pep440", "1.0"), ("pep440", ">=1.0,x"), ("pep440", ">=1.0 <2"), ("pep440", ">=1.*"),
        ("pep440", "=1.0"),
        ("pep440", ""),
        ("pep440", ","),
        ("pep440", ">=1.0,"),
        ("pep440", "===one"),
        ("number", ">=1_000"),
        ("number", ">=٣"),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_no_comparison_is_a_value_error(order: str, text: str) -> None:
    """A bound that cannot be read is never guessed at."""
    with pytest.raises(ValueError):  # noqa: PT011 - the reader of rules makes the message
        ORDERS[order].comparison(text)


def test_capabilities_are_ordered_by_major_and_minor() -> None:
    """sm_100 comes after sm_90, as numbers and not as text."""
    rising = ["sm_50", "sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121", "sm_130"]

    for less, more in pairwise(rising):
        below = ORDERS["capability"].comparison(f"<{more}")
        assert below(less)
        assert not below(more)


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("sm_10x", ["sm_100", "sm_103", "sm_109"], ["sm_10", "sm_110", "sm_120", "gfx10", "sm_10x", "sm_100a"]),
        ("sm_8x", ["sm_80", "sm_89"], ["sm_800", "sm_90"]),
        ("sm_13x", ["sm_130"], ["sm_13", "sm_100"]),
    ],
)
def test_a_pattern_holds_for_every_minor_of_its_major(pattern: str, yes: list[str], no: list[str]) -> None:
    """One word for a family of architectures."""
    holds = capability_pattern(pattern)

    assert holds is not None
    assert [value for value in yes if not holds(value)] == []
    assert [value for value in no if holds(value)] == []


@pytest.mark.parametrize("text", ["sm_100", "sm_x", "sm_xx", "sm_0x", "sm_100x", "SM_10x", "sm_10x ", "gfx9x", ""])
def test_what_is_no_pattern_is_a_value(text: str) -> None:
    """Only ``sm_``, a major and an ``x`` make a pattern."""
    assert capability_pattern(text) is None


@pytest.mark.parametrize(
    ("order", "less", "more"),
    [
        ("number", "9", 10),
        ("capability", "sm_90", "sm_100"),
        ("cudnn", "9.5", 91002),
        ("pep440", "4.0.0b17", "4.0.0b18"),
    ],
)
def test_bounds_and_values_have_comparable_keys(order: str, less: str, more: object) -> None:
    """A bound as it is written and a value of the fact are turned into keys of one kind."""
    bound, key = ORDERS[order].read(less), ORDERS[order].key(more)

    assert key is not None
    assert bound < key  # type: ignore[operator]


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_a_bound_that_cannot_be_read_is_a_value_error(order: str) -> None:
    """Every order says so in the same way."""
    with pytest.raises(ValueError):  # noqa: PT011 - the reader of rules makes the message
        ORDERS[order].read("one")


@pytest.mark.parametrize(
    ("order", "text", "told"),
    [
        ("number", ">=64, x ,y", "x"), ("number", ">=x", "x"), ("capability", ">=sm_8", "sm_8"),
        ("cudnn", ">=9.5,<9", "9"), ("pep440", ">=1.0,x", ">=1.0,x"), ("pep440", ">=x", ">=x"),
    ],
)  # fmt: skip
def test_the_error_holds_the_text_that_is_no_comparison(order: str, text: str, told: str) -> None:
    """The first clause or bound that cannot be read, or all of a set of specifiers."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
        ORDERS[order].comparison(text)

    assert caught.value.args == (told,)


@pytest.mark.parametrize("order", sorted(ORDERS))
def test_the_error_holds_the_text_that_is_no_bound(order: str) -> None:
    """As it was given."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - compared below
        ORDERS[order].read("one")

    assert caught.value.args == ("one",)
