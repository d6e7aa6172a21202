"""`diff`: regions, examples, machines and exit statuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from selector import data
from selector.ruleset import shipped
from tests.selector.command.runs import ask
from tests.selector.rules.folders import file

MOVED = "table: platform_default\nedits: [{id: blackwell-flash-attn-4, before: blackwell-cudnn, because: x}]\n"


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """Give an overlay that moves a row."""
    folder = tmp_path / "mine"
    folder.mkdir()
    return file(folder, "e.yaml", MOVED)


def test_what_changes_is_told_by_rows_and_regions(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """With an example; and the status is 1."""
    ran = ask(capsys, "diff", "shipped", str(mine))

    lines = ran.out.splitlines()
    assert (ran.status, ran.err) == (1, "")
    assert lines[0].startswith(shipped().digest[:12])
    assert any(
        line.startswith("platform_default: use CUDNN_ATTN (blackwell-cudnn) → use FLASH_ATTN (blackwell-flash-attn-4)")
        for line in lines
    )
    assert "  such as: platform cuda, arch sm_101" in ran.out


def test_nothing_changes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The same rules, under another name."""
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in data.folder("rules").glob("*.yaml"):
        shutil.copy(path, copy)
    digest = shipped().digest[:12]

    assert ask(capsys, "diff", "shipped", str(copy)) == (0, f"{digest} → {digest}: no decision changes\n", "")


def test_a_whole_folder_stands_by_itself(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What it no longer has is gone, and not laid over the shipped rules."""
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        folder.mkdir()
        for path in data.folder("rules").glob("*.yaml"):
            shutil.copy(path, folder)
    text = (new / "roles.yaml").read_text()
    (new / "roles.yaml").write_text(text.replace("  ltx2.connector: self\n", ""))

    ran = ask(capsys, "diff", str(old), str(new))

    assert ran.status == 1
    assert "also: roles: ltx2.connector (gone)" in ran.out


def test_json(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """All of it as data."""
    ran = ask(capsys, "diff", "shipped", str(mine), "--format", "json", "--fleet", *machines())

    told = json.loads(ran.out)
    assert told["changed"] is True
    assert told["changes"][0]["rows"] == ["blackwell-cudnn", "blackwell-flash-attn-4"]
    assert told["machines"][machines()[1]] == []
    assert {change["after"] for change in told["machines"][machines()[0]]} == {"use FLASH_ATTN"}


def machines() -> list[str]:
    """Give the example machines: b200, h100."""
    return [str(data.folder("rules") / "machines" / f"{name}.yaml") for name in ("b200", "h100")]


def test_markdown_is_a_table(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """For a comment; what could be taken for its signs is escaped."""
    ran = ask(capsys, "diff", "shipped", str(mine), "--format", "markdown")

    rows = [line for line in ran.out.splitlines() if line.startswith("| platform_default")]
    assert rows
    assert all(line.count(" | ") == 4 for line in rows)
    assert "cudnn >=9.5" in ran.out or "cudnn &lt;9.5" in ran.out


def test_only_machines_that_there_are(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """A change that concerns none of them is none."""
    h100 = machines()[1]

    ran = ask(capsys, "diff", "shipped", str(mine), "--fleet", h100)

    assert ran.status == 0
    assert f"{h100}: nothing changes" in ran.out


def test_revisions_of_git(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of a revision and the path in it."""
    monkeypatch.chdir(tmp_path)
    rules = tmp_path / "rules"
    rules.mkdir()
    for path in data.folder("rules").glob("*.yaml"):
        shutil.copy(path, rules)
    git("init", "-q")
    git("add", "-A")
    git("commit", "-qm", "one")
    text = (rules / "platform_default.yaml").read_text()
    (rules / "platform_default.yaml").write_text(text.replace('cudnn: ">=9.5"', 'cudnn: ">=9.8"'))

    same, other = (ask(capsys, "diff", "HEAD:rules", name) for name in ("HEAD:rules", "rules"))

    assert same.status == 0
    assert other.status == 1
    assert "cudnn >=9.5 and cudnn not >=9.8" in other.out


def git(*arguments: str) -> None:
    """Run git as somebody."""
    who = {f"GIT_{role}_{what}": "x@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    subprocess.run(["git", *arguments], check=True, env={**os.environ, **who})  # noqa: S607 - whichever git there is


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("nowhere", "shipped"), "nowhere: unreadable: no such folder or file, and no revision with a path"),
        (("shipped", "no-such-revision:rules"), "no-such-revision:rules: no-revision: git says: "),
        (("--output=x:y", "shipped"), "usage: "),
    ],
)
def test_what_there_is_not(capsys: pytest.CaptureFixture[str], names: tuple[str, str], said: str) -> None:
    """Told by its name; nothing is compared."""
    ran = ask(capsys, "diff", *names)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err.startswith(said)


def test_rules_that_do_not_load(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """With their problems."""
    file(mine, "e.yaml", MOVED.replace("blackwell-cudnn", "blackwell-cudn"))

    ran = ask(capsys, "diff", "shipped", str(mine))

    assert ran.status == 2
    assert "unknown-row" in ran.err


def test_a_question_left_open(capsys: pytest.CaptureFixture[str], mine: Path) -> None:
    """Is no answer that nothing changes."""
    ran = ask(capsys, "diff", "shipped", str(mine), "--steps", "2")

    assert ran.status == 1
    assert (
        "platform_default: left open: the regions in which blackwell-flash-attn-4 wins are too many to tell each"
        in ran.out
    )
    assert ask(capsys, "diff", "shipped", str(mine), "--steps", "0").status == 2
