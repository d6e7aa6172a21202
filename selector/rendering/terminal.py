"""What a terminal can show: its width, colours, and whether it takes the signs of the tree."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TextIO

from selector.rendering.layout import LEAST_WIDTH, SIGNS

_USUAL_WIDTH = 80


def terminal_width(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Give the columns: of ``COLUMNS``, else of the terminal behind the stream, else 80; never fewer than 20."""
    columns = environ.get("COLUMNS", "")
    width = int(columns) if columns.isascii() and columns.isdigit() and len(columns) < len("100000") else 0
    return max(width or _width_of(stream) or _USUAL_WIDTH, LEAST_WIDTH)


def _width_of(stream: TextIO) -> int:
    try:
        return os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        return 0  # no terminal, or a stream without a file


def use_colour(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether to colour: only on a terminal, not on a dumb one, and not where ``NO_COLOR`` is set and not empty.

    ``FORCE_COLOR`` is not read: what goes into a file or a pipe never holds escape sequences.
    """
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False  # no stream, or one that is closed


def use_ascii(stream: TextIO) -> bool:
    """Whether the stream's encoding lacks the signs of the tree; a stream of text without an encoding has them all."""
    encoding = getattr(stream, "encoding", None)
    if encoding is None:
        return False
    try:
        SIGNS.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return True
    return False
