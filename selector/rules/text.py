"""Reading a file: bounded, UTF-8, YAML or JSON."""

from __future__ import annotations

import codecs
from pathlib import Path

from selector.rules.nodes import OF_TEXTS, Bounds, Node, failure
from selector.rules.problems import Place, reason_of, shown


def read_file(path: Path, name: str | None = None) -> Node:
    """Read a YAML or JSON file (by its suffix; JSON is read as JSON).

    Raises `TextError` with the place for whatever keeps it from being read: no such file, a directory, more than
    1 MiB, bytes that are not UTF-8, and all that `read_yaml` and `read_json` refuse.
    """
    name = name or shown(str(path), 4096)
    return parsed(read_bytes(path, name), path.suffix, name)


def parsed(data: bytes, suffix: str, name: str, most: Bounds = OF_TEXTS) -> Node:
    """Parse what `read_bytes` gave for a file with that suffix."""
    text = decode(data, name)
    if suffix.lower() == ".json":
        from selector.rules.json_text import read_json

        return read_json(text, name, most)
    from selector.rules.yaml_text import read_yaml  # PyYAML only where YAML is read

    return read_yaml(text, name, most)


def read_bytes(path: Path, name: str, most: Bounds = OF_TEXTS) -> bytes:
    """Read a file; one of more bytes than `most`, or that cannot be read, is a `TextError`."""
    try:
        with path.open("rb") as file:
            data = file.read(most.bytes + 1)
    except OSError as error:
        raise failure(Place(name), "unreadable", f"cannot read the file: {reason_of(error)}") from error
    except ValueError as error:  # a NUL byte or a lone surrogate in the name
        raise failure(Place(shown(name)), "unreadable", f"cannot read the file: {error}") from error
    if len(data) > most.bytes:
        raise failure(Place(name), "too-large", f"wanted at most {most.bytes} bytes, got more")
    return data


def decode(data: bytes, name: str) -> str:
    """Decode UTF-8 (a byte-order mark is allowed), or say at which line the first bad byte stands."""
    try:
        data = data.removeprefix(codecs.BOM_UTF8)
        return data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise failure(
            Place(name, line, column), "not-utf-8", f"wanted UTF-8, got byte 0x{data[error.start]:02x}"
        ) from error
