from __future__ import annotations

import pytest
import yaml

from selector.rules import yaml_text
from selector.rules.nodes import MOST_BYTES
from selector.rules.yaml_text import read_yaml
from tests.selector.rules.texts import nested, refusal, short

_KEY = "key-type: wanted a string as key, got"
_NO_SCALAR = f"{_KEY} a list, a mapping, an alias or a tag"
_TAG = "tag: tags are not allowed, got"
_OWN = "tag:yaml.org,2002:"
_SPACES = "\n  hint: indent with spaces: YAML allows no tab there"
_START = "yaml-syntax: found character that cannot start any token"
_DEEP = "too-deep: wanted at most 64 levels, got more"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: 1\na: 2", "f:2:1: duplicate-key: key `a` stands twice\n  hint: the first one is in line 1"),
        ("a: {b: 1,\n 'b': 2}", "f:2:2: duplicate-key: key `b` stands twice\n  hint: the first one is in line 1"),
        ("a: 1\n'': 2\n? ''\n", "f:3:3: duplicate-key: key `` stands twice\n  hint: the first one is in line 2"),
        ("x:\n  - <<: 1\n    <<: 2", "f:3:5: duplicate-key: key `<<` stands twice\n  hint: the first one is in line 2"),
        ("a: !!python/object/apply:os.system [x]", f"f:1:4: {_TAG} `{_OWN}python/object/apply:os.system`"),
        ("a: !x 1", f"f:1:4: {_TAG} `!x`"),
        ("a: !!str 1", f"f:1:4: {_TAG} `{_OWN}str`"),
        ("a: ! 1", f"f:1:4: {_TAG} `!`"),
        ("a: &x !!int 1", f"f:1:4: {_TAG} `{_OWN}int`"),
        ("!!map {a: 1}", f"f:1:1: {_TAG} `{_OWN}map`"),
        ("- !<tag:x> a", f"f:1:3: {_TAG} `tag:x`"),
        ("!!str a: 1", f"f:1:1: {_NO_SCALAR}"),
        ("a: 1\n*x : 2", f"f:2:1: {_NO_SCALAR}"),
        ("? [a]\n: 1", f"f:1:3: {_NO_SCALAR}"),
        ("{? {a: 1} : 1}", f"f:1:4: {_NO_SCALAR}"),
        ("[a]: 1", f"f:1:1: {_NO_SCALAR}"),
        ("a:\n  1: x", f"f:2:3: {_KEY} 1\n  hint: quote it"),
        ("true: x", f"f:1:1: {_KEY} true\n  hint: quote it"),
        ("~: x", f"f:1:1: {_KEY} null\n  hint: quote it"),
        ("1.50: x", f"f:1:1: {_KEY} 1.5\n  hint: quote it"),
        (".nan: x", f"f:1:1: {_KEY} nan\n  hint: quote it"),
        ("0x1f: x", f"f:1:1: {_KEY} 31\n  hint: quote it"),
        ("a: *b", "f:1:4: alias: `*b` is an alias without an anchor"),
        ("a: *b\nb: &b 1", "f:1:4: alias: `*b` is an alias without an anchor"),
        ("a: &a [*a]", "f:1:8: alias: `*a` is an alias of itself"),
        ("a: &a {b: *a}", "f:1:11: alias: `*a` is an alias of itself"),
        ("a: &a 1\nb: &a [*a]", "f:2:8: alias: `*a` is an alias of itself"),
        ("a: 1\n---\nb: 2", "f:2:1: several-documents: wanted one YAML document, got a second one"),
        ("--- a\n--- b\n--- c", "f:2:1: several-documents: wanted one YAML document, got a second one"),
        ("a\n...\n---\n[", "f:3:1: several-documents: wanted one YAML document, got a second one"),
        ("", "f:1:1: empty: wanted a mapping, got an empty file"),
        (" \n\n", "f:1:1: empty: wanted a mapping, got an empty file"),
        ("# only\n# comments\n", "f:1:1: empty: wanted a mapping, got an empty file"),
        ("\ufeff", "f:1:1: empty: wanted a mapping, got an empty file"),
        ("a: " + "9" * 1001, "f:1:4: number: the number is too large: 1001 digits"),
        ("a: 0x" + "f" * 5000, "f:1:4: number: the number is too large: 5002 digits"),
        ("? 0x" + "f" * 5000, "f:1:3: number: the number is too large: 5002 digits"),
        ("? " + "9" * 5000, "f:1:3: number: the number is too large: 5000 digits"),
        ("#" * (MOST_BYTES + 1), "f: too-large: wanted at most 1048576 bytes, got more"),
        ("[" + "1," * 99_999 + "1]", "f:1:200000: too-large: wanted at most 100000 values, got more"),
        ("[&a [1], " + "*a," * 50_000 + "]", "f:1:150004: too-large: wanted at most 100000 values, got more"),
    ],
    ids=short,
)  # fmt: skip
def test_what_strict_yaml_leaves_out_is_refused_where_it_stands(text: str, said: str) -> None:
    """Duplicate keys, tags, keys that are no strings, loose aliases, several documents and huge texts have a place."""
    assert refusal(read_yaml, text) == said


@pytest.mark.skipif(not yaml.__with_libyaml__, reason="the wording is libyaml's")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a:\n\t- 1", f"f:2:1: {_START}{_SPACES}"),
        ("\ta: 1", f"f:1:1: {_START}{_SPACES}"),
        ("- 1\n-\t2", f"f:2:2: {_START}{_SPACES}"),
        ("a: 1\n\tb: 2", f"f:2:1: yaml-syntax: found a tab character that violates indentation{_SPACES}"),
        ("a: @x", f"f:1:4: {_START}"),
        ("a: `x", f"f:1:4: {_START}"),
        ("a: %x", f"f:1:4: {_START}"),
        ("a: b: c", "f:1:5: yaml-syntax: mapping values are not allowed in this context"),
        ("a: 1\n b: 2", "f:2:3: yaml-syntax: mapping values are not allowed in this context"),
        ("a:\n  - 1\n - 2", "f:3:2: yaml-syntax: did not find expected key"),
        ("- a\nb: 1", "f:2:1: yaml-syntax: did not find expected '-' indicator"),
        ("a: [1, 2", "f:2:1: yaml-syntax: did not find expected ',' or ']'"),
        ("a: {b: 1", "f:2:1: yaml-syntax: did not find expected ',' or '}'"),
        ("[1,,2]", "f:1:4: yaml-syntax: did not find expected node content"),
        ("}", "f:1:1: yaml-syntax: did not find expected node content"),
        ("a: 'x", "f:1:6: yaml-syntax: found unexpected end of stream"),
        ('a: "\\q"', "f:1:5: yaml-syntax: found unknown escape character"),
        ("a: |x\n b", "f:1:5: yaml-syntax: did not find expected comment or line break"),
        ("a: & 1", "f:1:5: yaml-syntax: did not find expected alphabetic or numeric character"),
        ("%YAML 2.0\n---\na: 1", "f:1:1: yaml-syntax: found incompatible YAML document"),
        ("%FOO\n---\na: 1", "f:1:5: yaml-syntax: found unknown directive name"),
        ("[" * 1_000_000, "f:1:1001: yaml-syntax: exceeded maximum nesting depth"),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_not_yaml_is_refused_where_it_stands(text: str, said: str) -> None:
    """A syntax error is one sentence with line and column; a tab in its line is named."""
    assert refusal(read_yaml, text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: \x07", "1:4: yaml-syntax: character U+0007"),
        ("a: 1\nb: \x00", "2:4: yaml-syntax: character U+0000"),
        ("a: 1\r\nb: 2\r\nc: \x1b[31m\n", "3:4: yaml-syntax: character U+001B"),
        ("é" * 5 + ": \x07" + "\n" * 9, "1:8: yaml-syntax: character U+0007"),
        ("a: 1\rb: 2\rc: \x07", "3:4: yaml-syntax: character U+0007"),
        ("😀: '\ufffe'", "1:5: yaml-syntax: character U+FFFE"),
        ("a: 1\nb: \ud800", "2:4: yaml-syntax: character U+D800"),
    ],
    ids=short,
)  # fmt: skip
def test_a_character_that_yaml_does_not_allow_is_named_where_it_stands(text: str, said: str) -> None:
    """A control character, NUL or half a character (in a text that no file holds) is refused by its number."""
    assert refusal(read_yaml, text) == f"f:{said} is not allowed in YAML"


@pytest.mark.parametrize(
    ("fits", "does_not"),
    [
        (nested(63, "[", "]", "1"), nested(64, "[", "]", "1")),
        (nested(64, "[", "]"), nested(65, "[", "]")),
        (nested(63, "{a: ", "}", "1"), nested(64, "{a: ", "}", "1")),
        (nested(63, "- ", "", "1"), nested(64, "- ", "", "1")),
        ("- " * 31 + nested(32, "[", "]", "1"), "- " * 31 + nested(33, "[", "]", "1")),
        (nested(31, "[{b: ", "}]", "[1]"), nested(32, "[{b: ", "}]", "1")),
        ("".join("  " * level + "a:\n" for level in range(63)), "".join("  " * level + "a:\n" for level in range(64))),
    ],
    ids=short,
)
def test_sixty_four_levels_are_read_and_no_more(fits: str, does_not: str) -> None:
    """Lists and mappings, in flow and block form and mixed, nest 64 levels deep, the innermost scalar included."""
    assert read_yaml(fits, "f").plain() is not None
    assert refusal(read_yaml, does_not).endswith(f": {_DEEP}")


def test_the_level_past_the_last_is_pointed_at() -> None:
    """The place is that of the first value that stands too deep, in a block of many lines too."""
    lines = "".join("  " * level + "a:\n" for level in range(64)) + "  " * 64 + "b"

    assert refusal(read_yaml, nested(64, "[", "]", "1")) == f"f:1:65: {_DEEP}"
    assert refusal(read_yaml, "- " * 65) == f"f:1:129: {_DEEP}"
    assert refusal(read_yaml, lines) == f"f:65:129: {_DEEP}"


def test_aliases_do_not_dig_below_the_last_level() -> None:
    """The levels of what an alias stands for count where the alias stands."""
    chain = ["- &a0 [1]", *(f"- &a{number} [*a{number - 1}]" for number in range(1, 62))]
    fits = "\n".join(chain)

    assert str(read_yaml(fits, "f").plain()).count("[" * 62) == 1
    assert refusal(read_yaml, f"{fits}\n- [*a61]") == f"f:63:4: {_DEEP}"
    assert refusal(read_yaml, f"{fits}\n- x: [*a60]") == f"f:63:7: {_DEEP}"


def test_an_alias_bomb_is_refused_before_it_goes_off() -> None:
    """Ten levels of ten aliases would be ten thousand million values; the alias that passes the bound is named."""
    bomb = ["a0: &a0 x"]
    bomb += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 11)]

    assert refusal(read_yaml, "\n".join(bomb)) == "f:6:45: too-large: wanted at most 100000 values, got more"


def test_many_aliases_of_a_small_value_are_no_bomb() -> None:
    """Aliases count as the values that they stand for, and 99,990 of them are few enough."""
    root = read_yaml("[&a 1," + "*a," * 99_990 + "]", "f")

    assert root.plain() == [1] * 99_991


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a: [1", "yaml-syntax"), ("a: \x07", "yaml-syntax"), ("[" * 1000, "too-deep"), ("a: !x 1", "tag"),
        ("- a\n- b", None),
    ],
    ids=short,
)  # fmt: skip
def test_the_parser_in_python_is_held_to_the_same(text: str, code: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where PyYAML comes without libyaml its own parser stands in, with the same bounds."""
    monkeypatch.setattr(yaml_text, "_LOADER", yaml.SafeLoader)

    assert code is None or f": {code}: " in refusal(read_yaml, text)
    assert code is not None or read_yaml(text, "f").plain() == ["a", "b"]


def test_an_error_of_the_parser_without_a_place_is_told_without_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parser raises becomes one sentence of ours."""

    def parse(*_: object, **__: object) -> object:
        raise yaml.YAMLError("out of\n  order.")

    monkeypatch.setattr(yaml, "parse", parse)

    assert refusal(read_yaml, "a") == "f: yaml-syntax: out of order"


def test_an_error_of_the_parser_with_a_context_alone_is_placed_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some errors know where the construct began and not where it failed; some know neither."""
    mark = yaml.Mark("f", 0, 2, 3, None, 0)
    errors = iter([yaml.MarkedYAMLError("while", mark), yaml.MarkedYAMLError("while", None, "lost", None)])

    def parse(*_: object, **__: object) -> object:
        raise next(errors)

    monkeypatch.setattr(yaml, "parse", parse)

    assert refusal(read_yaml, "a").startswith("f:3:4: yaml-syntax: while")
    assert refusal(read_yaml, "a") == "f: yaml-syntax: lost"


@pytest.mark.parametrize(
    "text",
    [
        "!" + "x" * 2000 + " a",
        "*" + "x" * 2000,
        "? " + "x" * 2000 + "\n: 1\n? " + "x" * 2000 + "\n: 2",
    ],
    ids=short,
)
def test_a_message_stays_short_whatever_the_text_holds(text: str) -> None:
    """What is quoted from a text is cut."""
    assert len(refusal(read_yaml, text)) < 200


def test_a_message_has_two_lines_whatever_the_text_holds() -> None:
    """A name with a line break or a control character is told in a form that fits a line."""
    said = refusal(read_yaml, '"a\\nb\\e[31m": 1\n"a\\nb\\e[31m": 2')

    assert said.count("\n") == 1
    assert "\x1b" not in said
