"""How what stands in a row's way is grouped and said."""

from __future__ import annotations

from selector.rendering.layout import Branch, Page
from selector.rendering.reasons import notes, obstacles, sentence
from selector.rules import conditions
from selector.rules.conditions import Both, Condition, Either, Facts, Not
from selector.rules.problems import Place
from selector.rules.tables import Row
from selector.rules.walk import explain_row


def asks(fact: str, wanted: int, line: int) -> conditions.Test:
    """Ask for one value of a fact."""
    check = lambda got: got == wanted  # noqa: E731
    return conditions.Test(fact, "equals", str(wanted), check, False, None, frozenset(), Place("t.yaml", line, 1))


def told(when: Condition, facts: Facts, ability: Condition | None = None) -> list[str]:
    """Say what stands in the way of a row with this condition, line by line and then in one line."""
    row = Row("t", "row", when, True, "use", "X", "why", Place("t.yaml", 1, 1))
    abilities = {} if ability is None else {"X": ability}
    found = obstacles(explain_row(row, facts, abilities), facts, abilities)
    return [*Page(120).draw(Branch((), notes(found))).split("\n")[1:-1], sentence(found)]


def test_all_parts_are_told_apart() -> None:
    """Each part that does not hold has a line of its own; what holds has none."""
    when = Both((asks("a", 1, 2), asks("b", 2, 3), asks("c", 3, 4)))

    assert told(when, {"a": 1, "b": 0}) == [
        "  b: wanted 2, got 0 (t.yaml:3)",
        "  c: wanted 3, got unknown (t.yaml:4)",
        "b: wanted 2, got 0; c: wanted 3, got unknown",
    ]


def test_row_and_ability_that_ask_the_same_are_told_once() -> None:
    """One reason may stand in two files; the backend's ability is named as such."""
    assert told(asks("a", 1, 2), {"a": 0}, asks("a", 1, 9)) == [
        "  a: wanted 1, got 0 (t.yaml:2, ability t.yaml:9)",
        "a: wanted 1, got 0; a: wanted 1, got 0",
    ]


def test_alternatives_are_told_as_such() -> None:
    """Of an `any` one alternative is enough, and an alternative may want several things."""
    pairs = [Both((asks("a", 1, 2), asks("b", 1, 3))), Both((asks("c", 1, 4), asks("d", 1, 5)))]
    far = Both((asks("e", 1, 6), asks("f", 1, 7), asks("g", 1, 8)))

    assert told(Either((*pairs, far)), dict.fromkeys("abcdefg", 0)) == [
        "  one of:",
        "    - a: wanted 1, got 0 (t.yaml:2) and b: wanted 1, got 0 (t.yaml:3)",
        "    - c: wanted 1, got 0 (t.yaml:4) and d: wanted 1, got 0 (t.yaml:5)",
        "one of (a: wanted 1, got 0; b: wanted 1, got 0 | c: wanted 1, got 0; d: wanted 1, got 0)",
    ]


def test_alternatives_within_an_alternative_stand_on_its_line() -> None:
    """An `any` inside another is said with either and or."""
    inner = Either((asks("b", 1, 3), asks("c", 1, 4)))
    other = Both((asks("d", 1, 5), asks("e", 1, 6)))

    assert told(Either((Both((asks("a", 1, 2), inner)), other)), dict.fromkeys("abcdef", 0)) == [
        "  one of:",
        "    - a: wanted 1, got 0 (t.yaml:2) and either b: wanted 1, got 0 (t.yaml:3) or c: wanted 1, got 0 (t.yaml:4)",
        "    - d: wanted 1, got 0 (t.yaml:5) and e: wanted 1, got 0 (t.yaml:6)",
        (
            "one of (a: wanted 1, got 0; one of (b: wanted 1, got 0 | c: wanted 1, got 0)"
            " | d: wanted 1, got 0; e: wanted 1, got 0)"
        ),
    ]


def test_not_all_is_any_and_not_any_is_all() -> None:
    """Below a `not` the groups change places."""
    parts = (asks("a", 1, 2), asks("b", 1, 3))
    held = {"a": 1, "b": 1}

    assert told(Not(Both(parts)), held)[0] == "  one of:"
    assert told(Not(Either(parts)), held)[0] == "  a: wanted not 1, got 1 (t.yaml:2)"
