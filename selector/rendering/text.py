"""Text for a terminal: nothing in it steers the terminal, width counts in columns, and lines break between words."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

Style = Literal["", "answer", "winner", "rejected", "warning", "quiet"]

_ASCII = str.maketrans({
    "├": "+", "└": "`", "│": "|", "✓": "*", "✗": "x", "·": ".", "→": "->", "–": "-", "—": "-", "−": "-", "…": "...",
    "’": "'", "“": '"', "”": '"', "×": "x", "≥": ">=", "≤": "<=", "≠": "!=",
})  # fmt: skip


class Word(NamedTuple):
    """What no line breaks inside of, and how it looks."""

    text: str
    style: Style = ""


def visible(text: str) -> str:
    r"""Write out every character that is neither printable nor a plain space: ``\x1b``, ``\n``, ``\u202e``, ``\udc80``.

    So a name with control characters, bidirectional overrides or lone surrogates is seen, and has no other effect.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode("ascii") for char in text)


def words(text: str, style: Style = "") -> list[Word]:
    """Cut a text into words, each of them `visible`."""
    return [Word(word, style) for word in visible(text.strip()).split()]


def prose(text: str, style: Style = "") -> list[Word]:
    """Cut a text of several lines into words; its line breaks are spaces."""
    return words(" ".join(text.split()), style)


def in_ascii(text: str) -> str:
    r"""Give the text in ASCII: signs by what resembles them, other characters written out (``\xe9``)."""
    return text.translate(_ASCII).encode("ascii", "backslashreplace").decode("ascii")


def columns(text: str) -> int:
    """Count the columns that a visible text takes: two for a wide character, none for a combining one."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in ("W", "F") else 1


def wrap(parts: Iterable[Word], first: int, rest: int) -> list[list[Word]]:
    """Fill lines with words: the first line has `first` columns, the others `rest`, which is not more.

    A word is cut only when it is longer than `rest`; at least two columns are wanted.
    """
    lines: list[list[Word]] = [[]]
    left = first
    for word in parts:
        *starts, end = _pieces(word, rest)
        for piece in (*starts, end):
            need = columns(piece.text)
            if lines[-1] and need >= left:
                lines.append([])
                left = rest
            left -= need + bool(lines[-1])
            lines[-1].append(piece)
            if piece is not end:
                left = 0  # what belongs to one word is not joined by a space
    return lines


def _pieces(word: Word, most: int) -> Iterator[Word]:
    """Cut a word where it is longer than `most` columns; combining characters stay with what they modify."""
    piece, used = "", 0
    for char in word.text:
        need = columns(char)
        if used + need > most:
            yield Word(piece, word.style)
            piece, used = "", 0
        piece, used = piece + char, used + need
    yield Word(piece, word.style)
