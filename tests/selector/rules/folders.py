"""Folders of rules for a test: a small table in place of a shipped one, or a shipped file with one text replaced."""

from __future__ import annotations

from pathlib import Path

import pytest

from selector import data
from selector.rules.problems import TableError
from selector.ruleset import load_rules

_EXPLICIT = """\
table: explicit
targets: backends
actions: [use, substitute, refuse]
requires: [platform, backend, policy]
rows:
  - {id: able, use: "{backend}", because: x}
"""
_LAST = "  - {id: last, refuse: no, because: x}\n"
_DEFAULT = """\
table: platform_default
targets: backends
actions: [use]
requires: [platform]
rows:
"""


def refusals(*folders: Path) -> list[str]:
    """Load folders that must be refused; each problem without the name of the folder."""
    with pytest.raises(TableError) as caught:
        load_rules(folders)
    return [str(problem).replace(f"{folders[-1]}/", "") for problem in caught.value.problems]


def file(folder: Path, name: str, text: str) -> Path:
    """Write a file, and give its folder."""
    (folder / name).write_text(text, encoding="utf-8")
    return folder


def explicit(folder: Path, *rows: str) -> Path:
    """Write a table for named backends: whatever can run, then these rows, then none; a row begins in line 7."""
    return file(folder, "explicit.yaml", _EXPLICIT + "".join(f"  - {{{row}, because: x}}\n" for row in rows) + _LAST)


def default(folder: Path, *rows: str) -> Path:
    """Write a table of platform defaults with these rows alone; the first stands in line 6."""
    return file(folder, "platform_default.yaml", _DEFAULT + "".join(f"  - {{{row}, because: x}}\n" for row in rows))


def edited(folder: Path, name: str, old: str, new: str) -> Path:
    """Copy one shipped file with one text replaced where it first stands."""
    text = (data.folder("rules") / name).read_text(encoding="utf-8")
    assert old in text
    return file(folder, name, text.replace(old, new, 1))


def where(folder: Path, name: str, text: str) -> str:
    """Give ``file:line:column`` of a text in a file."""
    whole = (folder / name).read_text(encoding="utf-8")
    before = whole[: whole.index(text)]
    return f"{name}:{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"
