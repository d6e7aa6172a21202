from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from selector import data
from selector.rule_files import FILES, TABLES
from selector.rules.problems import TableError
from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.rules.folders import default, file, refusals


def test_the_shipped_rules_load_without_a_problem_and_at_once() -> None:
    """All tables and files are there, and reading, linking and checking them takes well under a second."""
    start = time.process_time()

    rules = load_rules()

    assert time.process_time() - start < 0.5
    assert set(rules.tables) == set(TABLES)
    assert rules.folders == ()
    assert all(rules.table(name).rows for name in TABLES)
    assert rules.vocabulary.facts["backend"].values == tuple(rules.backends)
    assert set(rules.abilities["providers"]) == set(rules.providers)
    assert set(rules.abilities["backends"]) == set(rules.backends)
    assert {path.stem for path in data.folder("rules").glob("*.yaml")} == {*TABLES, *FILES}


def test_the_shipped_rules_are_read_once() -> None:
    """Every selector without rules of its own shares one rule set."""
    assert shipped() is shipped()
    assert shipped().digest == load_rules().digest


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("TORCH_SDPA", "TORCH_SDPA"), ("torch_sdpa", "TORCH_SDPA"), ("Torch_Sdpa", "TORCH_SDPA"), ("SDPA", None),
        ("", None),
        ("TORCH_SDPA ", None), ("torch-sdpa", None), ("\ufb02ash_attn", None), ("\u017fage_attn", None), ("auto", None),
    ],
)  # fmt: skip
def test_a_backend_is_found_by_its_name_letter_case_aside(rules: RuleSet, name: str, found: str | None) -> None:
    """Only the case of ASCII letters is put aside; a ligature is no pair of letters."""
    assert rules.named(name) == found


def test_a_folder_replaces_the_table_of_its_name(tmp_path: Path) -> None:
    """The other files stay the shipped ones, whatever the file is called and whether it is YAML or JSON."""
    table = {
        "table": "platform_default",
        "targets": "backends",
        "rows": [{"id": "one", "use": "TORCH_SDPA", "because": "x"}],
    }
    file(tmp_path, "my.json", json.dumps(table))

    rules = load_rules([tmp_path])

    assert [row.id for row in rules.table("platform_default").rows] == ["one"]
    assert str(rules.table("platform_default").place) == f"{tmp_path}/my.json:1:1"
    assert [row.id for row in rules.table("call").rows] == [row.id for row in shipped().table("call").rows]
    assert rules.folders == (str(tmp_path),)


def test_a_later_folder_goes_before_an_earlier_one(tmp_path: Path) -> None:
    """Folders are laid over each other in the order in which they are given."""
    first, second = tmp_path / "a", tmp_path / "b"
    for folder, name in ((first, "one"), (second, "two")):
        folder.mkdir()
        default(folder, f"id: {name}, use: TORCH_SDPA")

    assert load_rules([first, second]).table("platform_default").rows[0].id == "two"
    assert load_rules([second, str(first)]).table("platform_default").rows[0].id == "one"


def test_a_folder_adds_to_words_roles_and_models(tmp_path: Path) -> None:
    """What is no table is known by the name of its file, and laid over the shipped entries one by one."""
    file(tmp_path, "roles.yaml", "roles: {mine.*: cross}")

    rules = load_rules([tmp_path])

    assert rules.roles.category("mine.own") == "cross"
    assert rules.roles.exact == shipped().roles.exact


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda text: "# a comment\n" + text + "\n# another\n", True),
        (lambda text: text.replace("\n", "\r\n"), True),
        (lambda text: text.replace("requires: [platform]", "requires:\n  - 'platform'"), True),
        (lambda text: text.replace("because: x", "because: y"), False),
        (lambda text: text.replace("id: one", "id: won"), False),
        (lambda text: text.replace("head_dim: 64", "head_dim: 128"), False),
        (lambda text: text.replace("head_dim: 64", "head_dim: 0x40"), True),
        (lambda text: text.replace("head_dim: 64", "head_dim: [64]"), False),
    ],
)  # fmt: skip
def test_the_digest_names_the_content(tmp_path: Path, change: Callable[[str], str], same: bool) -> None:
    """Comments, line ends and the way of writing mean nothing to it, and every word means something."""
    folder = default(tmp_path, "id: one, when: {head_dim: 64}, use: TORCH_SDPA", "id: last, use: TORCH_SDPA")
    text = (folder / "platform_default.yaml").read_text(encoding="utf-8")
    before = load_rules([folder]).digest

    (folder / "platform_default.yaml").write_bytes(change(text).encode())

    assert (load_rules([folder]).digest == before) is same


def test_the_digest_is_the_same_wherever_and_in_whatever_order_files_stand(rules_copy: Path) -> None:
    """A copy has the digest of the original, under other file names and in two folders as well."""
    assert load_rules([rules_copy]).digest == shipped().digest

    (rules_copy / "explicit.yaml").rename(rules_copy / "a-first.yaml")
    (rules_copy / "call.yaml").rename(rules_copy / "z-last.yml")

    assert load_rules([rules_copy, rules_copy]).digest == shipped().digest


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("empty", "empty: no-rules: the rules folder holds no rule file (*.yaml)"),
        ("missing", "missing: unreadable: cannot read the rules folder: no such file or directory"),
        ("file", "file:1:1: empty: wanted a mapping, got an empty file"),
        ("a\0b", "a\\x00b: unreadable: cannot read the rules folder: embedded null byte"),
        ("a\ud800b", "a\\ud800b: unreadable: cannot read the rules folder: 'utf-8' codec can't encode character"),
    ],
    ids=ascii,
)
def test_a_folder_without_rules_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    """A folder that cannot be read, or holds nothing to read, is a mistake and not an empty change."""
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").touch()

    with pytest.raises(TableError) as caught:
        load_rules([name])

    assert str(caught.value).startswith(said)


def test_a_folder_is_told_by_its_whole_name(tmp_path: Path) -> None:
    """A place can be gone to, however long it is."""
    folder = tmp_path / ("x" * 100)

    with pytest.raises(TableError, match=str(folder)):
        load_rules([folder])


def test_what_is_no_rule_file_is_passed_over(tmp_path: Path) -> None:
    """Other suffixes and folders below do not count."""
    default(tmp_path, "id: one, use: TORCH_SDPA")
    file(tmp_path, "notes.txt", "[")
    (tmp_path / "tests").mkdir()

    assert len(load_rules([tmp_path]).table("platform_default").rows) == 1


def test_every_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    """Broken files of one folder are told together, and what holds no table is told by its nearest name."""
    (tmp_path / "a.yaml").mkdir()
    file(tmp_path, "b.yaml", "table: provider\ntable: call")
    file(tmp_path, "c.json", "{]")
    file(tmp_path, "d.yaml", "")
    file(tmp_path, "e.yaml", "# x\ntable: providr")
    file(tmp_path, "f.yaml", "table: [call]")
    file(tmp_path, "model.yaml", "models: []")
    file(tmp_path, "qqqq.yaml", "[]")

    known = (
        "wanted a rule table (a mapping with the key `table`) or one of vocabulary, backends, roles, models, warnings"
    )
    assert refusals(tmp_path) == [
        "a.yaml: unreadable: cannot read the file: is a directory",
        "b.yaml:2:1: duplicate-key: key `table` stands twice\n  hint: the first one is in line 1",
        "c.json:1:2: json-syntax: wanted a key in double quotes",
        "d.yaml:1:1: empty: wanted a mapping, got an empty file",
        "e.yaml:2:8: unknown-table: no table `providr`\n  hint: did you mean `provider`?",
        "f.yaml:1:8: unknown-table: no table `['call']`\n  hint: a table of your own says `new: true`",
        f"model.yaml:1:1: unknown-file: {known} as file name\n  hint: did you mean `models`?",
        f"qqqq.yaml:1:1: unknown-file: {known} as file name",
    ]


def test_a_whole_table_stands_once_in_a_folder(tmp_path: Path) -> None:
    """Two files for the same thing are refused, since neither goes before the other."""
    default(tmp_path, "id: one, use: TORCH_SDPA")
    file(tmp_path, "z.yaml", "# again\n" + (tmp_path / "platform_default.yaml").read_text(encoding="utf-8"))

    assert refusals(tmp_path) == [
        "z.yaml:2:1: duplicate-table: table `platform_default` stands in platform_default.yaml too",
    ]
