"""Editors find the schema of a file by its first line."""

from __future__ import annotations

from pathlib import Path

import pytest

from selector.command import main
from selector.schemas.build import NAMES
from tests.editors.files import RULES, named_schema, rule_files, schema_name


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: path.stem)
def test_every_shipped_rule_file_names_its_schema(path: Path) -> None:
    """The first line is a header, and the schema is one of ours."""
    assert named_schema(path), f"{path.name} has no header"
    assert schema_name(path) in NAMES
    assert schema_name(path) == kind(path)


def kind(path: Path) -> str:
    """Name the schema that goes with the name of a rule file."""
    last = path.stem.rpartition(".")[2]
    return last if last in {"vocabulary", "backends", "roles", "models", "warnings"} else "rule-table"


@pytest.mark.parametrize("path", sorted(RULES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_schema_of_a_shipped_table_is_there(path: Path) -> None:
    """Where the header says, seen from the file."""
    assert (path.parent / named_schema(path)).is_file()


def test_the_schemas_of_a_new_folder_are_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`init` writes them where its files look for them."""
    folder = tmp_path / "rules"

    assert main(["init", str(folder)]) == 0, capsys.readouterr().err

    files = sorted(folder.glob("*.yaml"))
    assert files
    assert [path.name for path in files if not (folder / named_schema(path)).is_file()] == []
