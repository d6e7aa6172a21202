"""The scenarios that stand beside the shipped rules: they pass, and they show every row and every condition."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from selector import data
from selector.command import main
from selector.rules.text import read_file
from selector.ruleset import shipped
from selector.scenario.coverage import Coverage
from selector.structure import schema_faults

FILES = sorted((data.folder("rules") / "tests").glob("*.yaml"))
HEADER = "# yaml-language-server: $schema=../../schemas/scenarios.schema.json\n"


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the rules of whoever runs the tests out."""
    monkeypatch.delenv("ATTENTION_SELECTOR_RULES", raising=False)


@pytest.fixture(scope="module")
def files() -> list[Any]:
    """Give the content of every file."""
    return [read_file(path).plain() for path in FILES]


def test_they_pass_and_show_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them pass, every row wins and loses, every condition holds, fails and is blamed."""
    status = main(["test", "--min-coverage", "100", "--format", "json"])

    told = json.loads(capsys.readouterr().out)
    assert [one["id"] for one in told["scenarios"] if not one["passed"]] == []
    assert told["coverage"]["missing"] == []
    assert told["unreachable_shown"] == []
    assert (told["coverage"]["rows"]["percent"], told["coverage"]["conditions"]["percent"]) == (100, 100)
    assert status == 0


def test_there_is_a_file_for_each_table_and_for_the_document() -> None:
    """Under the names of the tables; each of them names its schema in its first line."""
    assert {path.stem for path in FILES} == {*shipped().tables, "document", "generated"}
    assert all(path.read_text(encoding="utf-8").startswith(HEADER) for path in FILES)


def test_the_schema_accepts_them(files: list[Any]) -> None:
    """The whole files, but for what is given wrong on purpose."""
    for file in files:
        valid = [
            one for one in file["scenarios"] if one["expect"].get("error") not in {"invalid", "mutually_exclusive"}
        ]
        assert schema_faults("scenarios", {**file, "scenarios": valid}) == []


def test_each_says_what_it_shows(files: list[Any]) -> None:
    """In a sentence of its own file."""
    for file in files:
        abouts = [one["about"] for one in file["scenarios"]]
        assert all(about.endswith(".") for about in abouts)


def test_every_row_that_can_lose_is_expected_to(files: list[Any]) -> None:
    """Some scenario expects the blame: coverage alone would also count what nobody looked at."""
    blamed = {
        code.partition(":")[0]
        for file in files
        for one in file["scenarios"]
        for code in one["expect"].get("blames", ())
    }
    never = {one["code"] for file in files for one in file.get("unreachable", ()) if one["never"] == "loses"}
    items = Coverage(shipped()).items.values()

    assert {item.code for item in items if item.kind == "row" and "loses" in item.wanted} - never - blamed == set()


def test_every_row_of_the_defaults_and_every_build_is_expected_to_win(files: list[Any]) -> None:
    """By the rule that decides, or the provider that it leads to."""
    expected = [one["expect"] for file in files for one in file["scenarios"]]
    rules = {expect.get("rule") for expect in expected}

    assert {row.name for row in shipped().table("platform_default").rows} <= rules
    assert {expect.get("provider") for expect in expected} >= {*shipped().providers}
    assert {expect.get("backend") for expect in expected} >= {*shipped().backends}


def test_every_transform_and_every_substitution_of_a_call_is_expected(files: list[Any]) -> None:
    """Each row of the call table that changes the call or hands it on, but those that nothing reaches."""
    expected = [one["expect"] for file in files for one in file["scenarios"]]
    never = {one["code"] for file in files for one in file.get("unreachable", ()) if one["never"] == "wins"}
    rows = [row for row in shipped().table("call").rows if row.name not in never]

    assert {row.transform for row in rows if row.transform} <= {expect.get("transform") for expect in expected}
    assert {row.name for row in rows if row.action == "substitute"} <= {expect.get("rule") for expect in expected}


def test_ids_are_kebab_case_and_used_once(files: list[Any]) -> None:
    """Over all files."""
    ids = [one["id"] for file in files for one in file["scenarios"]]

    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in ids)
