"""Compiled tables that ask for numbers: every table of a few rows, at every number nearby."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations

import pytest

from selector.rules.compiled import compiled
from selector.rules.walk import first
from tests.selector.rules.language import table, words

ASKED = ["1", "3", "[1, 4]", "{min: 2}", "{min: 5}", "{max: 1}", "{max: 3}", "{multiple_of: 2}"]


@pytest.mark.parametrize(("fact", "least"), [("steps", -3), ("num_heads", 1)])
@pytest.mark.parametrize("requires", ["requires: [{}]", ""])
def test_every_number_is_decided_as_the_walker_does(fact: str, least: int, requires: str) -> None:
    """With and without a least number of the fact."""
    for asked in permutations(ASKED, 3):
        assert_like_the_walker(requires.format(fact), [f"{fact}: {one}" for one in asked], fact, range(least, 9))


@pytest.mark.parametrize("asked", ["{min: 0}", "{max: 0}", "{min: -4}", "{max: -4}", "{min: 1}", "{max: 1}"])
@pytest.mark.parametrize("fact", ["steps", "num_heads"])
def test_what_every_number_is_or_none(fact: str, asked: str) -> None:
    """A bound may lie below the least number of a fact."""
    for whole in (f"{fact}: {asked}", f"not: {{{fact}: {asked}}}"):
        assert_like_the_walker("", [whole, f"{fact}: 2"], fact, range(-6 if fact == "steps" else 1, 6))


@pytest.mark.parametrize("bound", [10**400, -(10**400)])
def test_a_number_may_be_as_large_as_it_can_be_written(bound: int) -> None:
    """Or as far below nought."""
    near = [bound - 1, bound, bound + 1, 0]
    for asked in (f"{{min: {bound}}}", f"{{max: {bound}}}", f"{bound}"):
        assert_like_the_walker("requires: [steps]", [f"steps: {asked}", "steps: 0"], "steps", near)


def assert_like_the_walker(requires: str, when: Sequence[str], fact: str, numbers: Sequence[int]) -> None:
    """Compile a table with a row for each condition, and ask it of each number."""
    rows = "".join(f"  - {{id: r{at}, when: {{{one}}}, use: A, because: x}}\n" for at, one in enumerate(when))
    known = table(f"table: t\n{requires}\nrows:\n{rows}")
    decide = compiled(known, {}, words(), known.rows)

    assert [decide({fact: at}) for at in numbers] == [first(known, {fact: at}, {}) for at in numbers], when
