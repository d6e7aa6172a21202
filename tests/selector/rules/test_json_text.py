from __future__ import annotations

import json

import pytest

from selector.rules.json_text import read_json
from selector.rules.nodes import MOST_BYTES, Plain, follow
from tests.selector.rules.texts import nested, refusal, same, short

_VALUE = "json-syntax: wanted a value, got"
_END = "json-syntax: wanted the end of the text after the value"
_KEY = "json-syntax: wanted a key in double quotes"
_COLON = "json-syntax: wanted `:` after the key"
_DEEP = "too-deep: wanted at most 64 levels, got more"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("null", None), ("true", True), ("false", False), ("0", 0), ("-0", 0), ("-0.0", -0.0), ("-17", -17),
        ("1.50", 1.5),
        ("1e3", 1000.0), ("1E+3", 1000.0), ("1.5e-3", 0.0015), ("1e-999", 0.0),
        ("123456789012345678901234567890", 123456789012345678901234567890),
        ('""', ""), ('"a\\"\\\\\\/\\b\\f\\n\\r\\t"', 'a"\\/\b\f\n\r\t'), ('"\\u00e9\\ud83d\\ude00"', "é😀"),
        ('"é😀"', "é😀"), ('"\\ud800"', "\ud800"),
        ("[]", []), (" [ ] ", []), ("{}", {}), ("\t{\r\n}\n", {}), ("[1, [2], {}]", [1, [2], {}]),
        ('{"": 1, "a": {"": 2}}', {"": 1, "a": {"": 2}}),
        ("9" * 4300, 10**4300 - 1),
    ],
    ids=short,
)  # fmt: skip
def test_a_text_is_its_value(text: str, value: Plain) -> None:
    """Every form of RFC 8259 is read, with values of the right type."""
    assert same(read_json(text, "f").plain(), value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tru", f"f:1:1: {_VALUE} `tru`"), ("True", f"f:1:1: {_VALUE} `True`"),
        ("'a'", f"f:1:1: {_VALUE} `'a'`"), ("// x", f"f:1:1: {_VALUE} `// x`"), ("# x", f"f:1:1: {_VALUE} `# x`"),
        ("-", f"f:1:1: {_VALUE} `-`"), ("+1", f"f:1:1: {_VALUE} `+1`"), (".5", f"f:1:1: {_VALUE} `.5`"),
        ("NaN", f"f:1:1: {_VALUE} `NaN`"), ("[Infinity]", f"f:1:2: {_VALUE} `Infinity]`"),
        ("-Infinity", f"f:1:1: {_VALUE} `-Infinity`"), ("\ufeff1", f"f:1:1: {_VALUE} `\\ufeff1`"),
        ("a" * 50, f"f:1:1: {_VALUE} `{'a' * 12}`"), ("\xa01", f"f:1:1: {_VALUE} `\\xa01`"),
        ("]", f"f:1:1: {_VALUE} `]`"), ("[,1]", f"f:1:2: {_VALUE} `,1]`"), ("[1,,2]", f"f:1:4: {_VALUE} `,2]`"),
        ("01", f"f:1:2: {_END}"), ("-01", f"f:1:3: {_END}"), ("1.", f"f:1:2: {_END}"), ("1.e3", f"f:1:2: {_END}"),
        ("1e", f"f:1:2: {_END}"),
        ("1e+", f"f:1:2: {_END}"), ("0x1f", f"f:1:2: {_END}"), ("1 2", f"f:1:3: {_END}"), ("{}\n{}", f"f:2:1: {_END}"),
        ("[] // x", f"f:1:4: {_END}"), ("truex", f"f:1:5: {_END}"), ("1\x00", f"f:1:2: {_END}"),
        ("[1 2]", "f:1:4: json-syntax: wanted `,` or `]`"), ("[1", "f:1:3: json-syntax: wanted `,` or `]`"),
        ("[1}", "f:1:3: json-syntax: wanted `,` or `]`"), ("[1_000]", "f:1:3: json-syntax: wanted `,` or `]`"),
        ('{"a": 1 "b": 2}', "f:1:9: json-syntax: wanted `,` or `}`"),
        ('{"a": 1', "f:1:8: json-syntax: wanted `,` or `}`"),
        ('{"a": 1]', "f:1:8: json-syntax: wanted `,` or `}`"),
        ("[1,]", "f:1:4: json-syntax: wanted a value after the comma, got `]`"),
        ('{"a": 1,\n}', "f:2:1: json-syntax: wanted a value after the comma, got `}`"),
        ("{", f"f:1:2: {_KEY}"), ("{a: 1}", f"f:1:2: {_KEY}"), ("{'a': 1}", f"f:1:2: {_KEY}"),
        ("{1: 1}", f"f:1:2: {_KEY}"),
        ('{"a": 1, null: 2}', f"f:1:10: {_KEY}"), ("{,}", f"f:1:2: {_KEY}"),
        ('{"a"', f"f:1:5: {_COLON}"), ('{"a" 1}', f"f:1:6: {_COLON}"), ('{"a"\n= 1}', f"f:2:1: {_COLON}"),
        ('{"a",}', f"f:1:5: {_COLON}"),
        ('"a\\x"', "f:1:3: json-syntax: invalid \\escape"), ('"\\u12"', "f:1:3: json-syntax: invalid \\uxxxx escape"),
        ('"\\u12g4"', "f:1:3: json-syntax: invalid \\uxxxx escape"),
        ('{"a": 1, "a": 1}', "f:1:10: duplicate-key: key `a` stands twice"),
        ('[{"x":\n {"b": 1, "c": 2,\n  "\\u0062": 3}}]', "f:3:3: duplicate-key: key `b` stands twice"),
        ("[1e999]", "f:1:2: number: wanted a finite number, got 1e999"),
        ("-1e400", "f:1:1: number: wanted a finite number, got -1e400"),
        ("9" * 4301, "f:1:1: number: the number is too large: 4301 digits"),
        (" " * (MOST_BYTES + 1), "f: too-large: wanted at most 1048576 bytes, got more"),
        ("[" * 1_000_000, f"f:1:65: {_DEEP}"), ('{"a":' * 100, f"f:1:321: {_DEEP}"),
    ],
    ids=short,
)  # fmt: skip
def test_a_text_that_is_no_json_is_refused_where_it_goes_wrong(text: str, said: str) -> None:
    """Every malformed form has its line and column."""
    assert refusal(read_json, text) == said


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", "1:1"), (" \n ", "2:2"), ("[", "1:2"), ('{"a":', "1:6"), ("[1,\n", "2:1"), ("[\n nul\n]", "2:2"),
        ("\x0c1", "1:1"),
        ('["a', "1:2"), ('{"a', "1:2"), ('"a\nb"', "1:3"), ('"\t"', "1:2"), ('"\x00"', "1:2"), ('"a', "1:1"),
    ],
    ids=short,
)  # fmt: skip
def test_a_text_that_breaks_off_is_placed(text: str, place: str) -> None:
    """A text that ends too early, and a character that may not stand there, are syntax errors of that place."""
    assert refusal(read_json, text).startswith(f"f:{place}: json-syntax: ")


@pytest.mark.parametrize(
    ("text", "flaw"),
    [
        ("[\n  foo\n]", "\n"),
        ("[", "`the end of the text`"),
        ('["a', "starting at"),
        ('"\t"', "character at"),
    ],
    ids=short,
)
def test_a_message_is_one_whole_sentence(text: str, flaw: str) -> None:
    """A message reads to its end in one line, and backticks hold only what the text holds."""
    assert flaw not in refusal(read_json, text)


def test_a_message_stays_short_whatever_the_text_holds() -> None:
    """What is quoted from a text is cut."""
    assert len(refusal(read_json, "1e" + "9" * 2000)) < 200


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (nested(63, "[", "]", "1"), nested(64, "[", "]", "1")),
        (nested(64, "[", "]"), nested(65, "[", "]")),
        (nested(63, '{"a":', "}", "1"), nested(64, '{"a":', "}", "1")),
        (nested(31, '[{"b":', "}]", "[1]"), nested(32, '[{"b":', "}]", "1")),
    ],
    ids=short,
)
def test_sixty_four_levels_are_read_and_no_more(fits: str, does_not: str) -> None:
    """Lists and mappings nest 64 levels deep, the innermost scalar included."""
    assert same(read_json(fits, "f").plain(), json.loads(fits))
    assert refusal(read_json, does_not).endswith(f": {_DEEP}")


def test_values_and_keys_know_where_they_stand() -> None:
    """Lines and columns count characters from 1, and a value knows the place of its key too."""
    root = read_json(' {"é😀": 1,\r\n\t"b" : [ true, {"c":\n null}]}', "f")

    places = {
        path: (node.line, node.column, node.key)
        for path in [(), ("é😀",), ("b",), ("b", 0), ("b", 1), ("b", 1, "c")]
        for node in [follow(root, path)]
    }

    assert places == {
        (): (1, 2, None),
        ("é😀",): (1, 9, (1, 3)),
        ("b",): (2, 8, (2, 2)),
        ("b", 0): (2, 10, None),
        ("b", 1): (2, 16, None),
        ("b", 1, "c"): (3, 2, (2, 17)),
    }
