"""`schema`: the JSON Schemas for editors, one by one or as a list."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from selector import data
from selector.schemas.build import NAMES
from tests.selector.command.runs import ask, assert_bad_input, process


def test_without_a_name_the_schemas_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    """Each with its title, on a line."""
    ran = ask(capsys, "schema")

    assert (ran.status, ran.err) == (0, "")
    assert [line.split(maxsplit=1)[0] for line in ran.out.splitlines()] == list(NAMES)
    assert "rule-table   Rule table\n" in ran.out
    assert "rule-set     Rule set\n" in ran.out


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_the_one_that_is_shipped(capsys: pytest.CaptureFixture[str], name: str) -> None:
    """To the letter, so that a file made with it does as well."""
    wanted = (data.folder("schemas") / f"{name}.schema.json").read_text(encoding="utf-8")

    assert ask(capsys, "schema", name) == (0, wanted, "")


def test_a_schema_knows_the_names_of_the_rules_in_use(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With `--rules` it offers what these declare."""
    fact = {"type": "string", "group": "machine", "about": "The rack that the machine stands in."}
    (tmp_path / "house.vocabulary.json").write_text(json.dumps({"facts": {"rack": fact}}), encoding="utf-8")

    plain = ask(capsys, "schema", "rule-table")
    ran = ask(capsys, "schema", "rule-table", "--rules", str(tmp_path))

    assert "rack" not in json.loads(plain.out)["$defs"]["when"]["properties"]
    assert "rack" in json.loads(ran.out)["$defs"]["when"]["properties"]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("rule-tabel", "did you mean `rule-table`?"),
        ("Vocabulary", "did you mean `vocabulary`?"),
        ("zzz", f"schemas: {', '.join(NAMES)}"),
    ],
)
def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str], name: str, hint: str) -> None:
    """With the nearest, or with all that there are."""
    ran = ask(capsys, "schema", name)

    assert (ran.status, ran.out) == (2, "")
    assert ran.err == f"usage: no schema `{name}`; {hint}\n  hint: attention-selector --help\n"


def test_an_unknown_name_is_bad_input_like_any_other() -> None:
    """In a process of its own: told quickly, and never as a traceback."""
    assert_bad_input(process("schema", "\udcff\n"))


def test_rules_that_do_not_load_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As by every command."""
    ran = ask(capsys, "schema", "roles", "--rules", str(tmp_path / "nowhere"))

    assert ran.status == 2
    assert "unreadable" in ran.err
