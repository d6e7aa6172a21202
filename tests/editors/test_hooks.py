"""The hooks that pre-commit finds here."""

from __future__ import annotations

import re
from typing import Any

import pytest

from selector.command import options
from selector.rules.text import read_file
from tests.editors.language_server import ROOT

HOOKS: Any = read_file(ROOT / ".pre-commit-hooks.yaml").plain()


def test_there_are_two_hooks() -> None:
    """One for what does not load, one for what loads and looks wrong."""
    assert [hook["id"] for hook in HOOKS] == ["attention-selector-validate", "attention-selector-lint"]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_says_what_pre_commit_requires(hook: dict[str, Any]) -> None:
    """The keys that it requires; the files that make it run are YAML and JSON."""
    assert {"id", "name", "entry", "language"} <= set(hook)
    assert hook["language"] == "python"
    assert hook["pass_filenames"] is False
    assert re.search(hook["files"], "rules/acme.vocabulary.yaml")
    assert not re.search(hook["files"], "selector/ruleset.py")


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook["id"])
def test_a_hook_runs_a_command_that_there_is(hook: dict[str, Any]) -> None:
    """Installed with the package, under that name."""
    program, command = hook["entry"].split()

    assert f'{program} = "selector.command:main"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert command in options._COMMANDS
