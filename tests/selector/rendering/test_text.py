"""Words, columns and line breaks."""

from __future__ import annotations

import pytest

from selector.rendering.text import Word, columns, in_ascii, prose, visible, words, wrap


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("self", "self"),
        ("日本 é", "日本 é"),
        ("\x1b[31m\r\n\t\x7f\x9b", r"\x1b[31m\r\n\t\x7f\x9b"),
        ("\u202eeman\u2066\u200b\u2028\u00a0", r"\u202eeman\u2066\u200b\u2028\xa0"),
        ("\ud800\U000e0001", r"\ud800\U000e0001"),
    ],
)
def test_characters_that_steer_a_terminal_are_written_out(text: str, shown: str) -> None:
    """Control characters, escape sequences, bidirectional overrides and lone surrogates are seen, not obeyed."""
    assert visible(text) == shown


@pytest.mark.parametrize(("text", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("\uff46\u20dd", 2), ("", 0)])
def test_columns_are_those_of_the_display(text: str, width: int) -> None:
    """Wide characters take two columns and combining ones none."""
    assert columns(text) == width


def test_ascii_resembles_the_signs() -> None:
    """Signs that the tree uses have a counterpart in ASCII, and other characters are written out."""
    assert in_ascii("├ ✓ a → b – é") == r"+ * a -> b - \xe9"


def test_line_breaks_of_prose_are_spaces_and_those_of_names_are_seen() -> None:
    """A sentence from a rule file may span lines; a name with a line break shows it."""
    assert prose("one\n  two", "quiet") == [Word("one", "quiet"), Word("two", "quiet")]
    assert words("one\ntwo") == [Word(r"one\ntwo")]


def test_a_word_that_is_longer_than_the_line_is_cut_and_stands_alone() -> None:
    """Its pieces fill lines of their own, and what follows never looks like a part of it."""
    lines = wrap([Word("a"), Word("bcdefgh"), Word("i")], 4, 3)

    assert lines == [[Word("a")], [Word("bcd")], [Word("efg")], [Word("h"), Word("i")]]


def test_a_wide_character_that_does_not_fit_goes_to_the_next_line() -> None:
    """Half a character is no piece, and the piece before it is not joined to the next."""
    assert wrap([Word("日本語")], 6, 3) == [[Word("日")], [Word("本")], [Word("語")]]
