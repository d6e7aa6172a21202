from __future__ import annotations

import pytest

from selector.rules.fields import join, kind_of, last
from selector.rules.problems import Place, Problem, ProblemsError, listing, nearest, shown
from tests.selector.rules.language import node
from tests.selector.rules.texts import short


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (Place("f"), "f"),
        (Place("f", 3, 4), "f:3:4"),
        (Place("f", 3, 4, "a.b"), "f:3:4"),
        (Place("f", path="a.b"), "f (a.b)"),
    ],
)
def test_a_place_is_written_as_far_as_it_is_known(place: Place, text: str) -> None:
    """A line goes before a path of keys, and a file name alone is a place too."""
    assert str(place) == text


def test_a_problem_is_a_line_and_a_hint() -> None:
    """Place, code and sentence stand in one line, the hint in a second one."""
    plain, hinted = (Problem(Place("f", 1, 2), "code", "what is wrong", hint) for hint in (None, "do that"))

    assert str(plain) == "f:1:2: code: what is wrong"
    assert str(hinted) == "f:1:2: code: what is wrong\n  hint: do that"


def test_problems_are_told_in_the_order_of_the_text() -> None:
    """Files by name, and in each file by line and column as numbers; problems of one place keep their order."""
    places = [Place("b", 1, 1), Place("a", 10, 1), Place("a", 9, 10), Place("a", 9, 9), Place("a")]
    problems = [Problem(place, str(number), "m") for number, place in enumerate([*places, places[0]])]

    error = ProblemsError(problems)

    assert [problem.code for problem in error.problems] == ["4", "3", "2", "1", "0", "5"]
    assert str(error).splitlines()[0] == "a: 4: m"
    assert isinstance(error, ValueError)


@pytest.mark.parametrize(
    ("name", "known", "hint"),
    [
        ("head_dims", ["head_dim", "heads"], "did you mean `head_dim`?"),
        ("torch_sdpa", ["TORCH_SDPA"], "did you mean `TORCH_SDPA`?"),
        ("Straße", ["STRASSE"], "did you mean `STRASSE`?"),
        ("xyz", ["head_dim"], None),
        ("", ["head_dim"], None),
        ("a", [], None),
        (7, ["7"], None),
        (None, ["none"], None),
        ("\ud800head_dim", ["head_dim"], "did you mean `head_dim`?"),
    ],
)
def test_the_hint_names_what_is_most_alike(name: object, known: list[str], hint: str | None) -> None:
    """Letter case aside; nothing is said where nothing is alike, and only a string has a nearest name."""
    assert nearest(name, known) == hint


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (list("abcdefghijkl"), "a, b, c, d, e, f, g, h, i, j, k, l"),
     (list("abcdefghijklmn"), "a, b, c, d, e, f, g, h, i, j, k, l and 2 more")],
)  # fmt: skip
def test_a_long_list_of_names_is_counted(names: list[str], text: str) -> None:
    """Twelve names are told, and how many more there are."""
    assert listing(names) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"), (True, "true"), (False, "false"), (1, "1"), (1.0, "1.0"), ("a", "a"), ("", ""),
        ("null", "null"),
        ("x" * 60, "x" * 60), ("x" * 61, "x" * 59 + "…"), ("a\ud800", "a\\ud800"), ([1], "[1]"),
        ({"a": None}, "{'a': None}"),
        (0, "0"), (-0.0, "-0.0"), (float("inf"), "inf"),
    ],
    ids=short,
)  # fmt: skip
def test_a_value_is_shown_as_it_is_written(value: object, text: str) -> None:
    """As YAML and JSON spell it, cut to sixty characters; half a character is written as its number."""
    assert shown(value) == text


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "a\x1b[31mb", "a\x00b", "a\u2028b", "a\u202eb"], ids=short)
def test_a_value_is_shown_in_printable_characters(value: str) -> None:
    """No text of a rule can break the line of a message, or speak to the terminal."""
    assert shown(value).isprintable()


def test_a_number_that_python_does_not_write_is_told_by_its_size() -> None:
    """A hexadecimal number may be longer than Python is willing to write in decimal."""
    assert shown(10**60) == "1" + "0" * 58 + "…"
    assert shown(16**5000).endswith(" of 20001 bits")
    assert len(shown(-(16**5000))) <= 60


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("{a: 1}", "a mapping"), ("[]", "a list"), ("''", "an empty string"), ("~", "`null`"), ("true", "`true`"),
        ("x", "`x`"),
        ("1.0", "`1.0`"),
    ],
)  # fmt: skip
def test_the_kind_of_a_value_is_named(text: str, kind: str) -> None:
    """A list or mapping by its kind, everything else by itself."""
    assert kind_of(node(text)) == kind


def test_paths_of_keys_are_joined_and_taken_apart() -> None:
    """A path has no leading dot."""
    assert (join("", "a"), join("a", "b")) == ("a", "a.b")
    assert (last("a.b[0].c"), last("c")) == ("c", "c")
