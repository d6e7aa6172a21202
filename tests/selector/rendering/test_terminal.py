"""What is read of a terminal."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pytest

from selector.rendering.terminal import terminal_width, use_ascii, use_colour

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


@pytest.fixture
def terminal() -> Iterator[io.TextIOWrapper]:
    """Open a real terminal of 33 columns."""
    import fcntl
    import pty
    import struct
    import termios

    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 33, 0, 0))
    with os.fdopen(slave, "w") as stream:
        yield stream
    os.close(master)


@pytest.mark.parametrize(
    ("columns", "width"),
    [("120", 120), ("7", 20), ("0", 80), ("-5", 80), ("wide", 80), ("", 80), ("²", 80), ("9" * 5000, 80)],
)
def test_columns_variable_is_the_width(columns: str, width: int) -> None:
    """`COLUMNS` counts where it is a number, and 20 is the least; without a terminal the width is 80."""
    assert terminal_width(io.StringIO(), {"COLUMNS": columns}) == width


def test_terminal_behind_the_stream_is_asked(terminal: io.TextIOWrapper) -> None:
    """The width is that of the stream's own terminal, unless `COLUMNS` says otherwise."""
    assert terminal_width(terminal, {}) == 33
    assert terminal_width(terminal, {"COLUMNS": "50"}) == 50


def test_file_is_no_terminal(tmp_path: os.PathLike[str]) -> None:
    """A file gets 80 columns and no colour, even where colour is forced; so does a stream that is closed."""
    with open(os.path.join(tmp_path, "out"), "w", encoding="utf-8") as stream:  # noqa: PTH118, PTH123
        assert terminal_width(stream, {}) == 80
        assert not use_colour(stream, {"FORCE_COLOR": "1"})

    assert terminal_width(stream, {}) == 80
    assert not use_colour(stream, {})


@pytest.mark.parametrize(
    ("environ", "colour"),
    [
        ({}, True),
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"NO_COLOR": "1"}, False),
        ({"NO_COLOR": ""}, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
    ],
)
def test_terminal_gets_colour_unless_it_is_declined(environ: Mapping[str, str], *, colour: bool) -> None:
    """`NO_COLOR` counts when it is not empty; a dumb terminal knows no colour."""
    assert use_colour(Terminal(), environ) is colour


@pytest.mark.parametrize(
    ("encoding", "ascii_only"),
    [("utf-8", False), ("utf-16", False), ("ascii", True), ("latin-1", True), ("cp437", True)],
)
def test_encoding_without_the_signs_gets_ascii(encoding: str, *, ascii_only: bool) -> None:
    """The tree is drawn with what the stream can write."""
    assert use_ascii(io.TextIOWrapper(io.BytesIO(), encoding=encoding)) is ascii_only


def test_stream_of_text_takes_every_sign() -> None:
    """A stream without an encoding takes text as it is; one with an encoding that nobody knows gets ASCII."""
    odd = Terminal()
    odd.__class__ = type("Odd", (Terminal,), {"encoding": "klingon"})

    assert not use_ascii(io.StringIO())
    assert use_ascii(odd)
