"""`rules`: what is loaded and where it came from, in a few lines, or whole as one file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from selector import data
from selector.ruleset import load_rules, shipped
from tests.selector.command.runs import ask
from tests.selector.rules.folders import file

STARTER = str(data.folder("rules") / "starter")
OUT = "table: platform_default\nedits: [{id: blackwell-cudnn, disable: true, because: x}]\n"


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Give the flags for two folders, of which the second one undoes what the first one says."""
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, category in zip(folders, ("cross", "self"), strict=True):
        folder.mkdir()
        file(folder, "roles.yaml", f"roles: {{mine: {category}}}\n")
    file(folders[0], "edits.yaml", OUT)
    return [flag for folder in folders for flag in ("--rules", str(folder))]


def round_trip(capsys: pytest.CaptureFixture[str], path: Path, *flags: str) -> tuple[str, str]:
    """Write a set as one file, and give its digest, and that of what is read from the file."""
    shown = ask(capsys, "rules", "--show", *flags)
    assert shown.status == 0
    path.write_text(shown.out, encoding="utf-8")
    loaded = [ask(capsys, "rules", *given).out.splitlines()[0] for given in (flags, ("--rules", str(path)))]
    return loaded[0], loaded[1]


def test_the_shipped_rules_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    """The digest, and how much there is of each table and kind."""
    ran = ask(capsys, "rules")

    first, *rest = ran.out.splitlines()
    assert (ran.status, ran.err) == (0, "")
    assert first == f"digest {shipped().digest}"
    assert [line.split(": ")[0] for line in rest] == list(shipped().content)
    assert all(line.endswith("from the shipped rules") and "," not in line for line in rest)
    assert f"call: {len(shipped().table('call').rows)} from the shipped rules" in rest


def test_what_is_laid_over_them_is_told(capsys: pytest.CaptureFixture[str], two: list[str]) -> None:
    """By its folder; where one undoes another, a warning says so on standard error."""
    one, other = Path(two[1]), Path(two[3])

    ran = ask(capsys, "rules", *two)

    assert ran.status == 0
    assert f"digest {load_rules([one, other]).digest}" in ran.out
    assert f"roles: {len(shipped().roles.exact)} from the shipped rules, 1 from {other}\n" in ran.out
    assert ran.err == (
        f"warning: {other}/roles.yaml:1:9: changed-twice: `mine` of `roles` is changed by {one}/roles.yaml:1:9 too, "
        "which no longer counts\n"
    )


@pytest.mark.parametrize(
    "arguments", [["rules"], ["rules", "--show"], ["validate"], ["explain", "--facts"], ["schema"]]
)
def test_every_command_tells_the_warning(
    capsys: pytest.CaptureFixture[str], two: list[str], tmp_path: Path, arguments: list[str]
) -> None:
    """On standard error, so that what it writes can still be read by a program."""
    (tmp_path / "cpu.yaml").write_text("platform: cpu\n", encoding="utf-8")
    facts = [str(tmp_path / "cpu.yaml")] if arguments[-1] == "--facts" else []

    ran = ask(capsys, *arguments, *facts, *two)

    assert ran.err.startswith("warning: ")
    assert ran.err.count("\n") == 1
    assert not ran.out.startswith("warning: ")


def test_two_that_say_the_same_are_no_warning(capsys: pytest.CaptureFixture[str], two: list[str]) -> None:
    """Nothing is undone."""
    assert ask(capsys, "rules", *two[:2], *two[:2]).err == ""


def test_all_of_it_is_one_file_that_loads_to_the_same_digest(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, two: list[str]
) -> None:
    """The shipped rules, the starter, two folders, and a file that was written so."""
    for flags in ([], ["--rules", STARTER], two):
        before, after = round_trip(capsys, tmp_path / "all.yaml", *flags)
        assert before == after
        again, twice = round_trip(capsys, tmp_path / "again.yaml", "--rules", str(tmp_path / "all.yaml"))
        assert before == again == twice


def test_a_row_is_shown_under_its_place(capsys: pytest.CaptureFixture[str], two: list[str]) -> None:
    """Those of the user, and those of the shipped rules; what was laid over them stands at the top."""
    lines = ask(capsys, "rules", "--show", "--rules", STARTER).out.splitlines()

    assert lines[0] == f"# digest: {load_rules([STARTER]).digest}"
    assert lines[1] == f"# with: {STARTER}"
    assert lines[lines.index("      - id: hopper-acme") - 1] == f"      # {STARTER}/30-acme.default.yaml:5:5"
    assert lines[lines.index("      - id: torch-sdpa") - 1].startswith("      # rules/platform_default.yaml:")
    assert any(line.startswith("# warning: ") for line in ask(capsys, "rules", "--show", *two).out.splitlines())


def test_the_environment_names_rules_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, two: list[str]
) -> None:
    """Several folders, in their order; the flag goes before it."""
    flagged = ask(capsys, "rules", *two)
    monkeypatch.setenv("ATTENTION_SELECTOR_RULES", os.pathsep.join([two[1], two[3]]))

    assert ask(capsys, "rules") == flagged
    assert ask(capsys, "rules", "--rules", STARTER).out.startswith(f"digest {load_rules([STARTER]).digest}\n")


def test_rules_that_do_not_load_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """All problems with their places, and nothing is written."""
    file(tmp_path, "edits.yaml", OUT.replace("cudnn", "cudn"))

    for flags in ([], ["--show"]):
        ran = ask(capsys, "rules", *flags, "--rules", str(tmp_path))
        assert (ran.status, ran.out) == (2, "")
        assert ran.err == (
            f"{tmp_path}/edits.yaml:2:9: unknown-row: no row `blackwell-cudn` in table `platform_default`\n"
            "  hint: did you mean `blackwell-cudnn`?\n"
        )
