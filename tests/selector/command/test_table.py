from __future__ import annotations

from pathlib import Path

import pytest

from tests.selector.command.runs import ROOT, ask

B200 = str(ROOT / "rules" / "machines" / "b200.yaml")


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw for a terminal of 100 columns."""
    monkeypatch.setenv("COLUMNS", "100")


def test_a_table_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    """In the columns of the terminal."""
    ran = ask(capsys, "table", "role_fallback")

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("role_fallback: Which entry of the user's config speaks for this role?\n")
    assert "configured-default  configured.default true" in ran.out


@pytest.mark.parametrize(("form", "start"), [("markdown", "**platform_default"), ("html", "<!doctype html>")])
def test_it_is_written_for_a_page(capsys: pytest.CaptureFixture[str], form: str, start: str) -> None:
    """As Markdown, and as HTML."""
    ran = ask(capsys, "table", "platform_default", "--format", form, "--effective", "--for", B200)

    assert ran.status == 0
    assert ran.out.startswith(start)
    assert "blackwell-cudnn" in ran.out
    assert "cannot win here: blackwell-flashinfer, hopper-flash-attn, ampere-ada-flash-attn" in ran.out


def test_what_is_wrong_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The name of the table, a device without a machine, and facts that are none."""
    facts = tmp_path / "facts.yaml"
    facts.write_text("platform: cudda\n", encoding="utf-8")

    unknown = ask(capsys, "table", "platform_defaults")
    other = ask(capsys, "table", "x")
    alone = ask(capsys, "table", "call", "--device", "1")
    wrong = ask(capsys, "table", "call", "--for", str(facts))

    assert [ran.status for ran in (unknown, other, alone, wrong)] == [2, 2, 2, 2]
    assert "no table `platform_defaults`; did you mean `platform_default`?" in unknown.err
    assert "no table `x`; tables: " in other.err
    assert "`--device` goes with `--for`" in alone.err
    assert f"{facts}:1:11: bad-value: `platform`: wanted" in wrong.err


def test_the_rules_of_a_folder_are_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """A table of one's own too."""
    (tmp_path / "mine.yaml").write_text(
        "table: mine\nnew: true\nrows:\n  - {id: big, when: {head_dim: {min: 129}}, use: x, because: It is big.}\n"
        "  - {id: rest, use: y, because: It is not.}\n",
        encoding="utf-8",
    )

    ran = ask(capsys, "table", "mine", "--rules", str(tmp_path), "--effective")

    assert ran.out == (
        "mine\n\n"
        "row      where it wins\n"
        f"───────  {'─' * len('head_dim not at least 129 or not known')}\n"
        "big      head_dim at least 129\n"
        "→ use x  – It is big\n\n"
        "rest     head_dim not at least 129 or not known\n"
        "→ use y  – It is not\n"
    )
