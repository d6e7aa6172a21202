"""A tree of words laid out in a given width: lines of the tree, hanging indents, colours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.rendering.text import Style, Word, columns, in_ascii, words, wrap

WINNER, REJECTED, UNDETERMINED, NOT_REACHED, WARNING = "✓", "✗", "?", "·", "!"
ARROW, DASH = "→", "–"
_TEE, _CORNER, _PIPE, _BLANK = "├ ", "└ ", "│ ", "  "
SIGNS = f"{WINNER}{REJECTED}{NOT_REACHED}{ARROW}{DASH}{_TEE}{_CORNER}{_PIPE}"
"""What a terminal's encoding must hold, or else the tree is drawn in ASCII."""

LEAST_WIDTH = 20
_SGR: Mapping[Style, str] = {"answer": "1", "winner": "32", "rejected": "31", "warning": "33", "quiet": "2"}


@dataclass(frozen=True, slots=True)
class Note:
    """A line below a branch, indented by so many steps."""

    words: Sequence[Word]
    indent: int = 0


@dataclass(frozen=True, slots=True)
class Branch:
    """One entry of the tree with its notes and what hangs below it.

    A `brief` branch with a single note takes it on its own line where that fits.
    """

    words: Sequence[Word]
    notes: Sequence[Note] = ()
    branches: Sequence[Branch] = ()
    brief: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    """Where a tree is drawn: `width` columns (20 at least), with or without colour, in ASCII or not."""

    width: int
    colour: bool = False
    ascii: bool = False

    @property
    def room(self) -> int:
        """The columns that are used."""
        return max(self.width, LEAST_WIDTH)

    def draw(self, root: Branch) -> str:
        """Give the tree as lines, each of them ended."""
        lines = self._lines(root, "", "")
        return "".join(f"{line}\n" for line in lines)

    def _lines(self, branch: Branch, head: str, tail: str) -> Iterator[str]:
        """Draw a branch: `head` stands before its first line, `tail` before all that is below it."""
        inner = tail + (_PIPE if branch.branches else _BLANK)
        heading, notes = self._joined(branch, len(head))
        yield from self._wrapped(heading, head, inner)
        for note in notes:
            before = inner + _BLANK * note.indent
            yield from self._wrapped(note.words, before, before + _BLANK)
        for index, child in enumerate(branch.branches, 1):
            is_last = index == len(branch.branches)
            yield from self._lines(child, tail + (_CORNER if is_last else _TEE), tail + (_BLANK if is_last else _PIPE))

    def _joined(self, branch: Branch, before: int) -> tuple[Sequence[Word], Sequence[Note]]:
        if branch.brief and len(branch.notes) == 1:
            joined = [*branch.words, *words(DASH), *branch.notes[0].words]
            if before + sum(columns(word.text) + 1 for word in self._spelt(joined)) - 1 <= self.room:
                return joined, ()
        return branch.words, branch.notes

    def _wrapped(self, parts: Sequence[Word], first: str, rest: str) -> Iterator[str]:
        lines = wrap(self._spelt(parts), self.room - len(first), self.room - len(rest))
        for line, before in zip(lines, itertools.chain([first], itertools.repeat(rest)), strict=False):
            yield (in_ascii(before) if self.ascii else before) + self._painted(line)

    def _spelt(self, parts: Sequence[Word]) -> Sequence[Word]:
        return [word._replace(text=in_ascii(word.text)) for word in parts] if self.ascii else parts

    def _painted(self, line: Sequence[Word]) -> str:
        runs = (
            (style, " ".join(word.text for word in run)) for style, run in itertools.groupby(line, lambda w: w.style)
        )
        return " ".join(f"\x1b[{_SGR[style]}m{text}\x1b[0m" if self.colour and style else text for style, text in runs)
