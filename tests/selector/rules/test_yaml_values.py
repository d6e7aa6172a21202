from __future__ import annotations

import math

import pytest

from selector.rules.nodes import Node, Plain, follow
from selector.rules.yaml_text import read_yaml
from tests.selector.rules.texts import same, short


def _plain(text: str) -> Plain:
    return read_yaml(text, "f").plain()


def _child(node: Node, *path: str | int) -> Node:
    found = follow(node, path)
    assert found is not node
    return found


@pytest.mark.parametrize(
    "text",
    [
        "on", "off", "yes", "no", "Yes", "NO", "y", "n", "True", "TRUE", "False", "FALSE", "nULL", "none",
        "4:30", "190:20:30", "1_000", "0b11", "0o8", "0o", "0x", "0xg", "-0x1f", "+0o7", "1e", "1e+", "e3", ".", "+",
        "1.2.3", "-.nan", ".iNf", "inf", "nan", "Infinity", "--1", "+-1", "2001-01-01", "2001-01-01T00:00:00Z", "=",
        "<<",
        "<", "1,000", "sm_90", "4.0.0b18", "١٢٣", "a b", "a#b", "a:b",
    ],
)  # fmt: skip
def test_a_plain_word_is_the_string_as_it_stands(text: str) -> None:
    """Words that older YAML read as booleans, sexagesimal or grouped numbers, or dates are strings."""
    found = _plain(f"key: {text}")

    assert same(found, {"key": text})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True), ("false", False),
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None),
        ("0", 0), ("-0", 0), ("+1", 1), ("-17", -17), ("017", 17), ("0o17", 15), ("0o0", 0), ("0x1f", 31),
        ("0xFf", 255),
        ("123456789012345678901234567890", 123456789012345678901234567890), ("9" * 1000, 10**1000 - 1),
        (".5", 0.5), ("5.", 5.0), ("-.5", -0.5), ("+.5", 0.5), ("1.50", 1.5), ("1e3", 1000.0), ("1E+3", 1000.0),
        ("-1.5e-3", -0.0015),
        ("1e999", math.inf), (".inf", math.inf), ("+.Inf", math.inf), ("-.INF", -math.inf),
        (".nan", math.nan), (".NaN", math.nan), (".NAN", math.nan),
    ],
    ids=short,
)  # fmt: skip
def test_a_plain_scalar_is_what_yaml_1_2_makes_of_it(text: str, value: Plain) -> None:
    """Numbers, booleans and nulls are those of the core schema, with a value of the right type."""
    found = _plain(f"key: {text}")

    assert same(found, {"key": value})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("'true'", "true"), ('"1"', "1"), ("''", ""), ('""', ""), ("'~'", "~"), ('"0x1f"', "0x1f"), ("'it''s'", "it's"),
        ('"a\\tb\\u00e9\\n"', "a\tbé\n"), ("|\n  1\n", "1\n"), (">-\n  true\n", "true"), ("|+\n  a\n\n", "a\n\n"),
        ("a\n  b", "a b"), ("a\tb", "a\tb"), ("'a\tb'", "a\tb"), ("é😀", "é😀"),
    ],
)  # fmt: skip
def test_a_quoted_or_block_scalar_is_a_string(text: str, value: str) -> None:
    """Whatever its content looks like, a scalar that is quoted or a block is text."""
    found = _plain(f"key: {text}")

    assert same(found, {"key": value})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\r\nb:\r\n  - x\r\n  - y\r\n", {"a": 1, "b": ["x", "y"]}),
        ("\ufeffa: 1", {"a": 1}),
        ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        ("--- # start\na: 1 # one\n# end\n", {"a": 1}),
        ("---\n", None),
        ("? a\n: 1\n", {"a": 1}),
        ("? a\n", {"a": None}),
        ('{"a": [1, true, null], \'b\': {}}', {"a": [1, True, None], "b": {}}),
        ("[a, [b, ], {c: }]", ["a", ["b"], {"c": None}]),
        ("{a, b}", {"a": None, "b": None}),
        ("a: &x 1\nb: [*x, *x]\n", {"a": 1, "b": [1, 1]}),
        ("a: &x {b: &y [1]}\nc: *x\nd: *y\n", {"a": {"b": [1]}, "c": {"b": [1]}, "d": [1]}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("a: &x\nb: *x\n", {"a": None, "b": None}),
        ("a: &x {b: 1}\nc:\n  <<: *x\n  d: 2\n", {"a": {"b": 1}, "c": {"<<": {"b": 1}, "d": 2}}),
    ],
)  # fmt: skip
def test_a_document_is_its_plain_value(text: str, value: Plain) -> None:
    """Line ends, marks and directives leave no trace; aliases stand for their value; ``<<`` is a key like others."""
    found = _plain(text)

    assert same(found, value)


def test_values_and_keys_know_where_they_stand() -> None:
    """Lines and columns are those of the text, from 1, and a value knows the place of its key too."""
    root = read_yaml("# a comment\na: 1\r\nb:\n  - {c: x}\n  -   y\n'd': |\n  text\n", "f")

    assert (root.line, root.column, root.key) == (2, 1, None)
    assert (_child(root, "a").line, _child(root, "a").column, _child(root, "a").key) == (2, 4, (2, 1))
    assert (_child(root, "b").line, _child(root, "b").column, _child(root, "b").key) == (4, 3, (3, 1))
    assert _child(root, "b", 0, "c").key == (4, 6)
    assert (_child(root, "b", 1).line, _child(root, "b", 1).column, _child(root, "b", 1).key) == (5, 7, None)
    assert (_child(root, "d").line, _child(root, "d").column, _child(root, "d").key) == (6, 6, (6, 1))


def test_an_alias_stands_where_its_value_is_written_and_keeps_its_own_key() -> None:
    """What is wrong with a shared value is shown where it is written, what is wrong with a key where the key is."""
    root = read_yaml("a: &x [1]\nb: *x\n", "f")

    shared = _child(root, "b")

    assert (shared.line, shared.column, shared.key) == (1, 4, (2, 1))
    assert str(shared.at("f")) == "f:1:4"
    assert str(shared.key_at("f")) == "f:2:1"


def test_columns_count_characters() -> None:
    """A letter of several bytes is one column."""
    root = read_yaml("é😀: x\n", "f")

    assert _child(root, "é😀").column == 5


def test_following_a_path_ends_at_the_last_node_that_is_there() -> None:
    """A path that leads nowhere gives the nearest place that can be shown."""
    root = read_yaml("a: [{b: 1}]\n", "f")

    assert follow(root, ("a", 0, "b")).value == 1
    assert follow(root, ("a", 0, "c")).key is None
    assert follow(root, ("a", 1)) is _child(root, "a")
    assert follow(root, ("a", "b")) is _child(root, "a")
    assert follow(root, ("a", 0, "b", "c")).value == 1
    assert follow(root, (0,)) is root
    assert follow(root, ()) is root


def test_a_place_is_shown_with_as_much_as_is_known() -> None:
    """File, line and column; the path of keys stands in for a line that is not known."""
    root = read_yaml("a: 1\n", "f")

    assert str(root.at("f", "a")) == "f:1:1"
    assert str(root.key_at("f")) == "f:1:1"
    assert root.at("f", "a").path == "a"
