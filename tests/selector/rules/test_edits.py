"""Edits of a table, row by row."""

from __future__ import annotations

from pathlib import Path

import pytest

from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.conftest import CPU, FA4, FI, cuda, decide
from tests.selector.rules.folders import file, refusals

TABLE = "platform_default"
SHIPPED = [row.id for row in shipped().table(TABLE).rows]


def edits(folder: Path, *rows: str, table: str = TABLE, name: str = "edits.yaml") -> Path:
    """Write a file of edits; the first stands in line 3."""
    folder.mkdir(exist_ok=True)
    return file(folder, name, f"table: {table}\nedits:\n" + "".join(f"  - {{{row}, because: x}}\n" for row in rows))


def ids(rules: RuleSet) -> list[str]:
    """Give the ids of the table's rows, in their order."""
    return [row.id for row in rules.table(TABLE).rows]


# --- the four edits ---


def test_a_row_is_taken_out(tmp_path: Path) -> None:
    """The rows around it stay as they are."""
    rules = load_rules([edits(tmp_path, "id: blackwell-cudnn, disable: true")])

    assert ids(rules) == [name for name in SHIPPED if name != "blackwell-cudnn"]
    assert decide(cuda("sm_120", FI), rules=rules).backend == "TORCH_SDPA"


def test_a_row_is_replaced_where_it_stands(tmp_path: Path) -> None:
    """And is then told with its new place."""
    rules = load_rules([edits(tmp_path, "id: blackwell-cudnn, when: {arch: sm_120}, use: TORCH_SDPA")])

    row = rules.table(TABLE).rows[1]
    assert ids(rules) == SHIPPED
    assert str(row.place) == f"{tmp_path}/edits.yaml:3:5"
    assert decide(cuda("sm_120"), rules=rules).rule == "platform_default/blackwell-cudnn"
    assert decide(cuda("sm_120"), rules=rules).backend == "TORCH_SDPA"
    assert decide(cuda("sm_100"), rules=rules).backend == "TORCH_SDPA"


@pytest.mark.parametrize(
    ("anchor", "at"),
    [("before: blackwell-cudnn", 1), ("after: blackwell-cudnn", 2), ("before: blackwell-datacenter-trtllm", 0)],
)
def test_a_new_row_stands_before_or_after_another(tmp_path: Path, anchor: str, at: int) -> None:
    """The anchor is no part of the row."""
    rules = load_rules([edits(tmp_path, f"id: mine, {anchor}, when: {{arch: sm_120}}, use: TORCH_SDPA")])

    assert ids(rules) == [*SHIPPED[:at], "mine", *SHIPPED[at:]]
    assert decide(cuda("sm_120"), {"head_dim": 128}, rules=rules).backend == ("TORCH_SDPA" if at < 2 else "CUDNN_ATTN")


@pytest.mark.parametrize(
    ("row", "anchor", "expected"),
    [
        ("blackwell-flash-attn-4", "before: blackwell-cudnn", [0, 3, 1, 2, 4, 5, 6]),
        ("blackwell-flash-attn-4", "after: blackwell-cudnn", [0, 1, 3, 2, 4, 5, 6]),
        ("blackwell-cudnn", "after: blackwell-flash-attn-4", [0, 2, 3, 1, 4, 5, 6]),
        ("blackwell-cudnn", "before: blackwell-flash-attn-4", [0, 2, 1, 3, 4, 5, 6]),
        ("blackwell-cudnn", "before: blackwell-flashinfer", [0, 1, 2, 3, 4, 5, 6]),
        ("blackwell-cudnn", "after: blackwell-datacenter-trtllm", [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_a_row_is_moved(tmp_path: Path, row: str, anchor: str, expected: list[int]) -> None:
    """It keeps its condition, its action and its place in the file; its `because` is that of the edit."""
    rules = load_rules([edits(tmp_path, f"id: {row}, {anchor}")])

    moved = next(found for found in rules.table(TABLE).rows if found.id == row)
    before = next(found for found in shipped().table(TABLE).rows if found.id == row)
    assert ids(rules) == [SHIPPED[at] for at in expected]
    assert (moved.because, before.because != "x") == ("x", True)
    assert (moved.conditional, moved.target, moved.log, str(moved.place)) == (
        before.conditional, before.target, before.log, str(before.place),
    )  # fmt: skip


def test_edits_see_those_before_them(tmp_path: Path) -> None:
    """A new row may stand beside another new one, and beside one that was taken out."""
    rules = load_rules(
        [
            edits(
                tmp_path,
                "id: one, before: blackwell-cudnn, when: {arch: sm_100}, use: TORCH_SDPA",
                "id: two, after: one, when: {arch: sm_100}, use: TORCH_SDPA",
                "id: blackwell-cudnn, disable: true",
                "id: three, before: blackwell-cudnn, when: {arch: sm_100}, use: TORCH_SDPA",
            )
        ]
    )

    assert ids(rules)[:5] == ["blackwell-datacenter-trtllm", "one", "two", "three", "blackwell-flashinfer"]


def test_several_files_may_edit_one_table(tmp_path: Path) -> None:
    """In the order of their names."""
    edits(tmp_path, "id: one, before: blackwell-cudnn, when: {arch: sm_100}, use: TORCH_SDPA", name="10.yaml")
    edits(tmp_path, "id: two, before: one, when: {arch: sm_100}, use: TORCH_SDPA", name="20.yaml")

    assert ids(load_rules([tmp_path]))[1:3] == ["two", "one"]


def test_the_trace_names_the_file_of_each_row(tmp_path: Path) -> None:
    """Shipped rows theirs, and others the user's."""
    rules = load_rules([edits(tmp_path, "id: mine, before: blackwell-cudnn, when: {arch: sm_120}, use: TORCH_SDPA")])

    walk = decide(cuda("sm_120"), rules=rules).explain().walks[-1].to_dict()

    rows = {row["row"]: f"{row['file']}:{row['line']}" for row in walk["rows"]}  # type: ignore[attr-defined]
    assert rows["mine"] == f"{tmp_path}/edits.yaml:3"
    assert rows["torch-sdpa"].startswith("rules/platform_default.yaml:")


# --- what is wrong ---

ACTION = "use: TORCH_SDPA"


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("id: blackwell-cudn, disable: true",
         "3:5: unknown-row: no row `blackwell-cudn` in table `platform_default`\n  hint: did you mean `blackwell-cudnn`?"),  # noqa: E501
        (f"id: blackwell-cuDNN, {ACTION}",
         ("3:5: unknown-row: no row `blackwell-cuDNN` in table `platform_default`\n"
         "  hint: did you mean `blackwell-cudnn`?")),
        (f"id: qqq, {ACTION}",
         ("3:5: unknown-row: no row `qqq` in table `platform_default`\n"
         "  hint: to put a new row in, say `before` or `after` which row")),
        ("id: blackwell-flashinfr, before: blackwell-cudnn",
         ("3:5: unknown-row: no row `blackwell-flashinfr` in table `platform_default`\n"
         "  hint: did you mean `blackwell-flashinfer`?")),
        (f"id: mine, before: blackwel-cudnn, {ACTION}",
         ("3:24: unknown-row: no row `blackwel-cudnn` in table `platform_default`\n"
         "  hint: did you mean `blackwell-cudnn`?")),
        (f"id: mine, before: mine, {ACTION}", "3:24: bad-anchor: row `mine` cannot stand before itself"),
        (f"id: mine, before: torch-sdpa, after: torch-sdpa, {ACTION}",
         "3:5: one-anchor: wanted one of `before` and `after`, got both"),
        (f"id: blackwell-cudnn, before: torch-sdpa, {ACTION}",
         ("3:5: duplicate-row: row `blackwell-cudnn` stands in table `platform_default` already\n  hint: to replace "
         "it, leave out the anchor; to move it, write `id`, the anchor and `because` alone")),
        ("id: mine, before: torch-sdpa, when: {arch: sm_90}",
         ("3:5: one-action: wanted an action beside `when`, got none\n"
         "  hint: a row that is only moved has `id`, its anchor and `because`")),
        ("id: blackwell-cudnn, disable: true, when: {arch: sm_90}",
         "3:5: disabled-row: row `blackwell-cudnn` is disabled, so `when` says nothing"),
        ("id: blackwell-cudnn, disable: false",
         "3:36: bad-value: `disable`: wanted true, got false\n  hint: leave the edit out"),
        ("id: blackwell-cudnn, disable: 1", "3:36: wrong-type: `disable`: wanted true or false, got `1`"),
        ("id: 5, disable: true", "3:10: wrong-type: `id`: wanted a string, got `5`"),
        ("id: blackwell-cudnn, disabel: true, use: TORCH_SDPA, when: {arch: sm_120}",
         "3:27: unknown-key: no key `disabel` here\n  hint: did you mean `disable`?"),
        (f"id: blackwell-cudnn, {ACTION}, when: {{archh: sm_90}}",
         "3:51: unknown-fact: no fact `archh`\n  hint: did you mean `arch`?"),
        ("id: blackwell-cudnn, use: CUDN_ATTN, when: {arch: sm_120}",
         "3:5: unknown-backend: no backend `CUDN_ATTN`\n  hint: did you mean `CUDNN_ATTN`?"),
        ("id: torch-sdpa, disable: true",
         ("rules/platform_default.yaml:49:5: no-last-resort: table `platform_default` has no last resort: "
         "wanted a last row without `when`")),
    ],
)  # fmt: skip
def test_an_edit_that_is_wrong_is_told_with_its_place(tmp_path: Path, row: str, said: str) -> None:
    """One mistake, one problem, and the nearest id."""
    found = refusals(edits(tmp_path, row))

    assert len(found) == 1
    assert found[0].removeprefix("edits.yaml:") == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("table: platform_default\nedits: []\n", "f.yaml:2:8: wrong-type: wanted a list of edits, got an empty one"),
        ("table: platform_default\nedits: {}\n", "f.yaml:2:8: wrong-type: `edits`: wanted a list, got a mapping"),
        ("table: platform_default\nedits: [1]\n", "f.yaml:2:9: wrong-type: `edits[0]`: wanted a mapping, got `1`"),
        ("table: platform_default\nedits: [{id: torch-sdpa, use: TORCH_SDPA}]\n",
         "f.yaml:2:9: missing-key: wanted the key `because`, which is not there"),
        ("table: platform_defalt\nedits: []\n",
         "f.yaml:1:8: unknown-table: no table `platform_defalt`\n  hint: did you mean `platform_default`?"),
        ("table: platform_default\nrows: []\nedits: []\n",
         "f.yaml:3:1: rows-and-edits: wanted `rows` (the whole table) or `edits` (changes to it), got both"),
        ("table: platform_default\nrequires: [arch]\nedits: [{id: blackwell-cudnn, disable: true, because: x}]\n",
         "f.yaml:2:1: unknown-key: no key `requires` here\n  hint: known here: table, description, edits"),
    ],
)  # fmt: skip
def test_a_file_of_edits_that_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    """Told with its place."""
    assert refusals(file(tmp_path, "f.yaml", text)) == [said]


def test_a_row_is_changed_once_in_a_file(tmp_path: Path) -> None:
    """Which of two edits is meant, nobody can tell."""
    folder = edits(tmp_path, "id: blackwell-cudnn, disable: true", "id: blackwell-cudnn, use: TORCH_SDPA")

    assert refusals(folder) == [
        (
            "edits.yaml:4:5: duplicate-row: row `blackwell-cudnn` is changed twice in this file\n"
            "  hint: the first is in line 3"
        )
    ]


def test_all_wrong_edits_are_told_together(tmp_path: Path) -> None:
    """Of all files, beside what is wrong with the rows themselves."""
    edits(tmp_path, "id: a, disable: true", "id: blackwell-cudnn, use: NOTHING", name="1.yaml")
    edits(tmp_path, "id: b, disable: true", name="2.yaml", table="call")

    assert [line.split(": ")[0] + " " + line.split(": ")[1] for line in refusals(tmp_path)] == [
        "1.yaml:3:5 unknown-row", "1.yaml:4:5 unknown-backend", "2.yaml:3:5 unknown-row",
    ]  # fmt: skip


# --- two overlays ---


def test_the_later_overlay_wins_and_a_warning_says_so(tmp_path: Path) -> None:
    """With both places."""
    first = edits(tmp_path / "a", "id: blackwell-cudnn, disable: true")
    second = edits(tmp_path / "b", "id: blackwell-cudnn, when: {arch: sm_120}, use: TORCH_SDPA")

    rules = load_rules([first, second])

    assert "blackwell-cudnn" in ids(rules)
    assert [str(notice) for notice in rules.notices] == [
        (
            f"{second}/edits.yaml:3:5: changed-twice: row `blackwell-cudnn` of table `platform_default` is changed by "
            f"{first}/edits.yaml:3:5 too, which no longer counts"
        )
    ]
    assert "blackwell-cudnn" not in ids(load_rules([second, first]))


def test_two_overlays_that_say_the_same_are_no_contradiction(tmp_path: Path) -> None:
    """There is nothing to warn of."""
    first = edits(tmp_path / "a", "id: blackwell-cudnn, disable: true")
    second = edits(tmp_path / "b", "id: blackwell-cudnn, disable: true")

    assert load_rules([first, second]).notices == ()


def test_an_overlay_may_change_a_row_of_another_one(tmp_path: Path) -> None:
    """Which is told as well."""
    first = edits(tmp_path / "a", "id: mine, before: blackwell-cudnn, when: {arch: sm_120}, use: TORCH_SDPA")
    second = edits(tmp_path / "b", "id: mine, disable: true")

    rules = load_rules([first, second])

    assert ids(rules) == SHIPPED
    assert len(rules.notices) == 1


def test_a_whole_table_drops_the_edits_before_it_with_a_warning(tmp_path: Path) -> None:
    """They are of another table then."""
    first = edits(tmp_path / "a", "id: blackwell-cudnn, disable: true")
    second = tmp_path / "b"
    second.mkdir()
    rows = "rows: [{id: one, use: TORCH_SDPA, because: x}]\n"
    file(second, "t.yaml", f"table: platform_default\ntargets: backends\n{rows}")

    assert [str(notice) for notice in load_rules([first, second]).notices] == [
        (
            f"{second}/t.yaml:1:1: changed-twice: `platform_default` is replaced whole, so what {first}/edits.yaml:3:5 "
            "says of row `blackwell-cudnn` of table `platform_default` no longer counts"
        )
    ]
    with pytest.raises(ValueError, match="no row `blackwell-cudnn`"):
        load_rules([second, first])


# --- the worked orders ---


def test_another_order_changes_the_answer(tmp_path: Path) -> None:
    """On the machines that the moved row is about, and on no other."""
    rules = load_rules([edits(tmp_path, "id: blackwell-flash-attn-4, before: blackwell-cudnn")])

    blackwell = cuda("sm_120", FA4)
    assert (decide(blackwell).backend, decide(blackwell, rules=rules).backend) == ("CUDNN_ATTN", "FLASH_ATTN")
    for machine in (CPU, cuda("sm_90", FA4), cuda("sm_120")):
        assert decide(machine).answer() == decide(machine, rules=rules).answer()
