"""`facts`: this machine as a file that can be given back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from selector.ruleset import shipped
from tests.selector.command.runs import ask, process
from tests.selector.conftest import overlay

FOUND: dict[str, object] = {
    "platform": "cuda",
    "driver": "580.95",
    "torch": "2.13.0",
    "cudnn": 91002,
    "packages": {"flash-attn": "2.8.3", "flashinfer": None, "kernels": "unknown"},
    "devices": [{"index": 0, "name": "Größe 🎉", "arch": "sm_90", "memory": 1}],
}


@pytest.fixture
def probed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[object, ...], dict[str, Any]]]:
    """Let the probe find a machine, and keep what it was asked."""
    asked: list[tuple[tuple[object, ...], dict[str, Any]]] = []

    def read_machine(packages: tuple[object, ...], **given: object) -> dict[str, object]:
        asked.append((packages, given))
        return FOUND

    monkeypatch.setattr("selector.probe.read_machine", read_machine)
    return asked


@pytest.mark.parametrize("form", ["yaml", "json"])
def test_facts_can_be_given_back(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, probed: list[object], form: str
) -> None:
    """In either form, in their order and with every sign; a note on top says what null and `unknown` mean."""
    ran = ask(capsys, "facts", "--format", form)
    path = tmp_path / f"facts.{form}"
    path.write_text(ran.out, encoding="utf-8")

    assert (ran.status, ran.err) == (0, "")
    read = json.loads(ran.out) if form == "json" else yaml.safe_load(ran.out)
    assert read == FOUND
    assert list(read) == list(FOUND)
    assert ran.out.startswith("# Give these facts back with --facts.") is (form == "yaml")
    assert ask(capsys, "validate", "--facts", str(path)).status == 0
    told = ask(capsys, "explain", "--facts", str(path), "--format", "json", "--head-dim", "64")
    assert json.loads(told.out)["backend"] == "FLASH_ATTN"


def test_the_flags_reach_the_probe(
    capsys: pytest.CaptureFixture[str], probed: list[tuple[tuple[object, ...], dict[str, Any]]]
) -> None:
    """Shallow, unless it is to go deep; with a limit of time."""
    ask(capsys, "facts")
    ask(capsys, "facts", "--deep", "--timeout", "2.5")

    packages = tuple(shipped().vocabulary.packages.values())
    assert probed == [
        (packages, {"deep": False, "timeout": 60.0}),
        (packages, {"deep": True, "timeout": 2.5}),
    ]


def test_packages_of_other_rules_are_looked_for_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, probed: list[tuple[tuple[Any, ...], dict[str, Any]]]
) -> None:
    """They are declared in the vocabulary."""
    edit = ("packages:\n", "packages:\n  xformers: {distributions: [xformers]}\n")
    folder = overlay(tmp_path / "o", {"vocabulary.yaml": [edit]})

    ask(capsys, "facts", "--rules", str(folder))

    assert "xformers" in [package.key for package in probed[0][0]]


def test_this_machine(tmp_path: Path) -> None:
    """Read for real, without importing a kernel: quickly, and well enough to be given back."""
    ran = process("facts")
    path = tmp_path / "facts.yaml"
    path.write_text(ran.out, encoding="utf-8")

    assert (ran.status, ran.err) == (0, "")
    assert process("validate", "--facts", str(path)).status == 0


@pytest.mark.parametrize("value", ["-1", "0", "nan", "inf"])
def test_a_time_limit_is_positive_and_finite(
    capsys: pytest.CaptureFixture[str], probed: list[object], value: str
) -> None:
    """Another is a mistake."""
    assert ask(capsys, "facts", "--deep", "--timeout", value).status == 2
