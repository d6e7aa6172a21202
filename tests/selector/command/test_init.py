"""`init`: a folder to start from, written whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest

from selector import data
from selector.ruleset import load_rules
from tests.selector.command.runs import ask, assert_bad_input, process

STARTER = data.folder("rules") / "starter"
SCHEMAS = data.folder("schemas")
NAMES = sorted(path.name for path in STARTER.glob("*.yaml"))


def contents(folder: Path) -> list[str]:
    """Name everything in a folder and below it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_it_writes_the_starter_and_the_schemas(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Nothing else stays, beside it or in it, and what to do with it is told."""
    folder = tmp_path / "house"

    ran = ask(capsys, "init", str(folder))

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith(f"{folder} holds three worked edits of the shipped rules")
    assert contents(tmp_path) == sorted([
        "house", "house/.schemas", *(f"house/{name}" for name in NAMES),
        *(f"house/.schemas/{path.name}" for path in SCHEMAS.glob("*.json")),
    ])  # fmt: skip
    assert all((folder / name).read_bytes() == (STARTER / name).read_bytes() for name in NAMES)


def test_the_schemas_that_the_files_name_are_there(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As the shipped ones; the files are seen from their own folder."""
    ask(capsys, "init", str(tmp_path / "house"))

    for name in NAMES:
        first = (tmp_path / "house" / name).read_text(encoding="utf-8").splitlines()[0]
        (target,) = re.findall(r"^# yaml-language-server: \$schema=(\S+)$", first)
        schema = tmp_path / "house" / target
        assert json.loads(schema.read_text(encoding="utf-8"))
        assert schema.read_bytes() == (SCHEMAS / schema.name).read_bytes()


def test_what_it_tells_to_try_works(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Each line of advice is a command that is done."""
    folder = tmp_path / "house"
    advised = re.findall(r"^ {2}attention-selector (.*)$", ask(capsys, "init", str(folder)).out, re.MULTILINE)

    assert [command.split()[0] for command in advised] == ["validate", "rules", "explain"]
    for command in advised:
        ran = ask(capsys, *command.split(" "))
        assert (ran.status, ran.err) == (0, "")
    digest = load_rules([STARTER]).digest
    assert ask(capsys, "validate", "--rules", str(folder)).out == f"rules: well formed, digest {digest[:12]}\n"


@pytest.mark.parametrize("inner", ["", "a/b"])
def test_an_empty_folder_is_filled_and_others_are_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, inner: str
) -> None:
    """With those above it."""
    folder = tmp_path / "house" / inner
    (tmp_path / "house").mkdir()

    assert ask(capsys, "init", str(folder)).status == 0

    assert set(NAMES) < {path.name for path in folder.iterdir()}


def test_what_is_there_is_not_touched(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A folder that holds something, also what it wrote itself, and a file."""
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "mine.yaml").write_text("mine", encoding="utf-8")
    (tmp_path / "file").write_text("mine", encoding="utf-8")
    ask(capsys, "init", str(tmp_path / "second"))
    before = contents(tmp_path)

    for name in ("house", "file", "second"):
        ran = ask(capsys, "init", str(tmp_path / name))
        assert (ran.status, ran.out) == (2, "")
        assert ": unwritable: wanted an empty folder, or a new one: it " in ran.err
        assert ran.err.startswith(f"{tmp_path / name}: ")

    assert contents(tmp_path) == before
    assert (tmp_path / "file").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("name", ["file/house", "file/a/house", "a\0b"])
def test_a_folder_that_cannot_be_made_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str) -> None:
    """Below a file, or with a name that none can have."""
    (tmp_path / "file").touch()

    ran = ask(capsys, "init", str(tmp_path / name))

    assert (ran.status, ran.out) == (2, "")
    assert ": unwritable: cannot write the folder: " in ran.err
    assert contents(tmp_path) == ["file"]


@pytest.mark.skipif(os.getuid() == 0, reason="root may write everywhere")
def test_a_parent_that_may_not_be_written_to_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """And nothing is left there."""
    (tmp_path / "locked").mkdir(mode=0o555)

    ran = ask(capsys, "init", str(tmp_path / "locked" / "house"))

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.endswith("house: unwritable: cannot write the folder: permission denied\n")
    assert contents(tmp_path) == ["locked"]


@pytest.mark.parametrize("written", [0, 3, len(NAMES) + 2])
def test_a_disk_that_is_full_leaves_nothing(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    """However far it had come."""
    copied: list[Path] = []
    copy = shutil.copyfile

    def until_full(source: Path, target: Path) -> None:
        if len(copied) == written:
            raise OSError(28, "No space left on device")
        copied.append(target)
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", until_full)

    ran = ask(capsys, "init", str(tmp_path / "house"))

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f"{tmp_path / 'house'}: unwritable: cannot write the folder: no space left on device\n"
    assert contents(tmp_path) == []


def test_a_process_of_its_own_refuses_likewise(tmp_path: Path) -> None:
    """Quickly, and never with a traceback; a name that is missing is a usage error."""
    (tmp_path / "file").touch()

    assert_bad_input(process("init", str(tmp_path / "file")))
    assert_bad_input(process("init"))
