from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from selector.rules.nodes import MOST_BYTES, TextError
from selector.rules.text import decode, read_bytes, read_file


def _said(path: Path, name: str | None = None) -> str:
    with pytest.raises(TextError) as caught:
        read_file(path, name)
    return str(caught.value)


def _written(folder: Path, data: bytes, name: str = "x.yaml") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("name", "data", "value"),
    [
        ("x.yaml", b"a: on\n", {"a": "on"}),
        ("x.yml", "é: 😀".encode(), {"é": "😀"}),
        ("x", b"[a]", ["a"]),
        ("x.json", b'{"a": 1e1}', {"a": 10.0}),
        ("x.yaml", b"\xef\xbb\xbfa: 1", {"a": 1}),
        ("x.json", b"\xef\xbb\xbf[1]", [1]),
        ("x.yaml", b"a: 1\r\nb: 2\r\n", {"a": 1, "b": 2}),
    ],
    ids=range(7),
)
def test_a_file_is_read_by_its_suffix(tmp_path: Path, name: str, data: bytes, value: object) -> None:
    """JSON is read as JSON and everything else as YAML; a byte-order mark is no part of the text."""
    path = _written(tmp_path, data, name)

    assert read_file(path).plain() == value


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("x.yaml", b"", "x.yaml:1:1: empty: wanted a mapping, got an empty file"),
        ("x.json", b"[1,]", "x.json:1:4: json-syntax: wanted a value after the comma, got `]`"),
        ("x.json", b"a: 1", "x.json:1:1: json-syntax: wanted a value, got `a: 1`"),
        ("x.yaml", b"a: \xff", "x.yaml:1:4: not-utf-8: wanted UTF-8, got byte 0xff"),
        ("x.yaml", b"a: 1\nbc\xc3(", "x.yaml:2:3: not-utf-8: wanted UTF-8, got byte 0xc3"),
        ("x.json", "[1]".encode("utf-16"), "x.json:1:1: not-utf-8: wanted UTF-8, got byte 0xff"),
        ("x.yaml", b"a: \xed\xa0\x80", "x.yaml:1:4: not-utf-8: wanted UTF-8, got byte 0xed"),
        ("x.yaml", b"# " * (MOST_BYTES // 2) + b"#", "x.yaml: too-large: wanted at most 1048576 bytes, got more"),
        ("x.yaml", b"\x00" * 10_000_000, "x.yaml: too-large: wanted at most 1048576 bytes, got more"),
    ],
    ids=range(9),
)
def test_a_file_that_cannot_be_read_is_told_with_its_name(tmp_path: Path, name: str, data: bytes, said: str) -> None:
    """The name that a caller gives stands in the place, else the path."""
    path = _written(tmp_path, data, name)

    assert _said(path, name) == said
    assert _said(path) == f"{tmp_path}{os.sep}{said}"


def _missing(folder: Path) -> Path:
    return folder / "missing.yaml"


def _folder(folder: Path) -> Path:
    (folder / "folder.yaml").mkdir()
    return folder / "folder.yaml"


def _below_a_file(folder: Path) -> Path:
    return _written(folder, b"a: 1") / "y.yaml"


def _loop(folder: Path) -> Path:
    (folder / "loop.yaml").symlink_to(folder / "loop.yaml")
    return folder / "loop.yaml"


def _dangling(folder: Path) -> Path:
    (folder / "link.yaml").symlink_to(folder / "gone.yaml")
    return folder / "link.yaml"


def _long(folder: Path) -> Path:
    return folder / ("x" * 300)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (_missing, "no such file or directory"),
        (_folder, "is a directory"),
        (_below_a_file, "not a directory"),
        (_loop, "too many levels of symbolic links"),
        (_dangling, "no such file or directory"),
        (_long, "file name too long"),
    ],
)
def test_what_the_system_refuses_is_told_in_its_words(tmp_path: Path, make: Callable[[Path], Path], why: str) -> None:
    """A file that is not there, a directory, and a loop of links are problems of the file, without a line."""
    path = make(tmp_path)

    assert _said(path, "n") == f"n: unreadable: cannot read the file: {why}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    """Permission is a problem of the file like any other."""
    path = _written(tmp_path, b"a: 1")
    path.chmod(0)

    assert _said(path, "n") == "n: unreadable: cannot read the file: permission denied"


@pytest.mark.parametrize(
    ("name", "place"), [("a\x00b.yaml", "a\\x00b.yaml"), ("a\ud800b.yaml", "a\\ud800b.yaml")], ids=["nul", "surrogate"]
)
def test_a_name_that_no_file_can_have_is_refused(name: str, place: str) -> None:
    """NUL and half a character in a name are told without failing on the name itself."""
    said = _said(Path(name))

    assert said.startswith(f"{place}: unreadable: cannot read the file: ")
    assert said.encode()


def test_a_name_that_is_not_utf_8_can_be_told(tmp_path: Path) -> None:
    """A name of bytes that are no text still makes a message that can be written as UTF-8."""
    path = tmp_path / os.fsdecode(b"\xff.yaml")

    assert _said(path) == f"{tmp_path}{os.sep}\\udcff.yaml: unreadable: cannot read the file: no such file or directory"


def test_a_link_to_a_file_is_followed(tmp_path: Path) -> None:
    """A symbolic link reads like the file behind it."""
    (tmp_path / "link.yaml").symlink_to(_written(tmp_path, b"a: 1"))

    assert read_file(tmp_path / "link.yaml").plain() == {"a": 1}


def test_a_file_without_end_is_read_no_further_than_the_bound() -> None:
    """What a device or a pipe gives is bounded as a file is."""
    with pytest.raises(TextError, match=r"\Azero: too-large: wanted at most 1048576 bytes, got more\Z"):
        read_bytes(Path("/dev/zero"), "zero")


def test_the_bound_itself_is_allowed(tmp_path: Path) -> None:
    """Exactly 1 MiB is read."""
    path = _written(tmp_path, b"x" * MOST_BYTES)

    assert len(read_bytes(path, "x")) == MOST_BYTES


def test_a_bad_byte_after_a_byte_order_mark_is_the_one_that_is_told() -> None:
    """The mark moves no place and no byte."""
    with pytest.raises(TextError, match=r"\Af:1:4: not-utf-8: wanted UTF-8, got byte 0xff\Z"):
        decode(b"\xef\xbb\xbfa: \xff", "f")
