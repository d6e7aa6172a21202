"""docs/lint.md has a section for every code, with an example that is told by that code."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from selector.analysis.findings import CODES
from tests.doc_examples import ROOT
from tests.selector.command.runs import ask

TEXT = (ROOT / "docs" / "lint.md").read_text(encoding="utf-8")
HEADINGS = re.findall(r"^### (.*)$", TEXT, re.MULTILINE)
SECTIONS = dict(zip(HEADINGS, re.split(r"^### .*$", TEXT, flags=re.MULTILINE)[1:], strict=True))
NOT_TOLD = ("missing-row",)


def test_every_code_has_a_section() -> None:
    """In the order in which they are listed, and no other."""
    assert list(CODES) == HEADINGS


@pytest.mark.parametrize("code", [code for code in CODES if code not in NOT_TOLD])
def test_the_example_of_a_code_is_told_by_it(
    code: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the text that the page shows, and the status of its level."""
    for name, content in re.findall(r"<!-- file (\S+) -->\n```yaml\n(.*?)```", SECTIONS[code], re.DOTALL):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content, encoding="utf-8")
    ((command, shown),) = re.findall(
        r"\$ attention-selector (lint .*?)(?: \| .*?)?\n(.*?)```", SECTIONS[code], re.DOTALL
    )
    monkeypatch.chdir(tmp_path)

    ran = ask(capsys, *shlex.split(command))

    level = CODES[code][0]
    found = [line for line in shown.splitlines() if f": {level}: {code}: " in line]
    assert found
    assert set(found) <= set(ran.out.splitlines())
    assert ran.status == (0 if level == "note" else 1)


@pytest.mark.parametrize("until", re.findall(r"^\| `until: (.*?)` \|", TEXT, re.MULTILINE))
def test_the_forms_of_until_are_understood(until: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """None of them is unclear; those about the machine have passed on one that is new enough."""
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules" / "edits.yaml").write_text(
        "table: platform_default\nedits:\n  - {id: x, before: torch-sdpa, when: {platform: rocm, head_dim: 7}, "
        f"use: TORCH_SDPA, because: x, until: {until}}}\n",
        encoding="utf-8",
    )
    facts = "platform: cuda\narch: sm_90\ncudnn: 91900\npackages: {flash-attn-4: 4.1.0}\n"
    (tmp_path / "facts.yaml").write_text(facts, encoding="utf-8")

    out = ask(capsys, "lint", "--rules", str(tmp_path / "rules"), "--facts", str(tmp_path / "facts.yaml")).out

    assert "unclear-until" not in out
    assert until[0].isdigit() or "until-passed" in out


@pytest.mark.parametrize("code", NOT_TOLD)
def test_a_code_that_nothing_tells_says_so(code: str) -> None:
    """Its section has no example."""
    assert "```" not in SECTIONS[code]


def test_the_page_says_how_many_steps_are_taken(capsys: pytest.CaptureFixture[str]) -> None:
    """As the command does it."""
    from selector.command.options import parse

    assert f"({parse(['lint']).steps});" in TEXT
