from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selector import data
from selector.schemas.__main__ import main, run
from selector.schemas.build import NAMES

if TYPE_CHECKING:
    import pytest

FILES = sorted(f"{name}.schema.json" for name in NAMES)


def test_the_schemas_that_are_checked_in_have_not_drifted(capsys: pytest.CaptureFixture[str]) -> None:
    """They are what the models and the rules give; `python -m selector.schemas` writes them again."""
    status = main(["--check"])

    assert (status, capsys.readouterr().out) == (0, "")


def test_gives_the_same_text_every_time() -> None:
    """The order of what is written does not hang on the hashes of strings."""
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, "-m", "selector.schemas", "--check"],
            env=environment, cwd=data.folder("schemas").parent, capture_output=True, text=True, check=False,
        )  # fmt: skip

        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_writes_every_schema(tmp_path: Path) -> None:
    """Into a folder that need not be there, with one newline at the end, and readable as it stands."""
    folder = tmp_path / "schemas"

    status = run(folder, check=False)

    assert status == 0
    assert sorted(path.name for path in folder.iterdir()) == FILES
    for path in folder.iterdir():
        text = path.read_text(encoding="utf-8")
        assert text.endswith("}\n")
        assert json.loads(text)["$id"] == path.name
    assert run(folder, check=True) == 0


def test_names_the_files_that_differ(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the first lines of the difference; a file that is missing or that nothing generates is named too."""
    run(tmp_path, check=False)
    roles = tmp_path / "roles.schema.json"
    roles.write_text(
        roles.read_text(encoding="utf-8").replace('"title": "Roles"', '"title": "Rolls"'), encoding="utf-8"
    )
    (tmp_path / "facts.schema.json").unlink()
    (tmp_path / "old.schema.json").write_text("{}", encoding="utf-8")

    status = run(tmp_path, check=True)

    assert status == 1
    assert capsys.readouterr().out == (
        "facts.schema.json: is not there\n"
        "roles.schema.json: is not what the models give\n"
        "  --- checked in\n"
        "  +++ generated\n"
        "  @@ -3,3 +3,3 @@\n"
        '     "$id": "roles.schema.json",\n'
        '  -  "title": "Rolls",\n'
        '  +  "title": "Roles",\n'
        '     "description": "Role → category: the category whose entry of the config speaks for a role '
        'that has none of its own.",\n'
        "old.schema.json: nothing generates this file\n"
    )


def test_a_long_difference_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is quite another one does not fill the screen."""
    run(tmp_path, check=False)
    (tmp_path / "config.schema.json").write_text("{}\n", encoding="utf-8")

    run(tmp_path, check=True)

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 22
    assert lines[-1].startswith("  … and ")
    assert lines[-1].endswith(" lines more")
