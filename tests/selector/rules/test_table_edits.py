"""Edits of a small table: what each of them changes, and under which path it is told when it is wrong."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from selector.rules.edits import Change, Slot, TableEdits, slots_of, with_rows
from selector.rules.fields import Source
from selector.rules.nodes import Node
from selector.rules.problems import Place
from selector.rules.yaml_text import read_yaml
from tests.selector.rules.texts import short

_TABLE = """\
table: t
rows:
  - {id: a, when: {x: 1}, use: A, because: first}
  - {id: b, use: B, because: second}
  - {id: c, use: C, because: third}
"""
_HEAD = "table: t\nedits:\n"


@dataclass(frozen=True)
class _Edited:
    """What came of some edits: the changes, the problems, and the rows afterwards."""

    changes: list[Change]
    problems: list[tuple[Place, str, str, str | None]]
    slots: list[Slot]

    @property
    def ids(self) -> list[str | None]:
        """The rows that are left, in their order."""
        return [slot.id for slot in self.slots if not slot.disabled]


def _edited(text: str, table: str = _TABLE) -> _Edited:
    """Edit the table; the edits are nodes that do not know their file."""
    source = Source("e.yaml")
    slots = slots_of(read_yaml(table, "t.yaml"))
    changes = TableEdits(source, "t", slots).apply(read_yaml(text, ""))
    return _Edited(changes, [(one.place, one.code, one.message, one.hint) for one in source.problems], slots)


def _edit(*edits: str) -> _Edited:
    """Edit the table; the first edit stands in line 3."""
    return _edited(_HEAD + "".join(f"  - {{{edit}}}\n" for edit in edits))


@pytest.mark.parametrize(
    ("edit", "ids"),
    [
        ("id: b, disable: true, because: x", ["a", "c"]),
        ("id: b, use: D, because: x", ["a", "b", "c"]),
        ("id: d, before: b, use: D, because: x", ["a", "d", "b", "c"]),
        ("id: d, after: b, use: D, because: x", ["a", "b", "d", "c"]),
        ("id: d, before: b, refuse: no", ["a", "d", "b", "c"]),
        ("id: c, before: a, because: x", ["c", "a", "b"]),
        ("id: a, after: c, because: x", ["b", "c", "a"]),
        ("id: b, before: c, because: x", ["a", "b", "c"]),
        ("id: b, after: a, because: x", ["a", "b", "c"]),
    ],
)
def test_an_edit_is_told_as_the_change_of_its_row(edit: str, ids: list[str]) -> None:
    """With the place of the edit and what it says, whole."""
    found = _edit(edit)

    name = edit.removeprefix("id: ")[0]
    assert found.problems == []
    assert found.ids == ids
    assert found.changes == [Change(name, Place("e.yaml", 3, 5, "edits[0]"), read_yaml(f"{{{edit}}}", "").plain())]


def test_the_path_of_an_edit_counts_from_zero() -> None:
    """Each edit has its own."""
    found = _edit("id: a, disable: true, because: x", "id: b, disable: true, because: x")

    assert [(change.row, change.place.line, change.place.path) for change in found.changes] == [
        ("a", 3, "edits[0]"),
        ("b", 4, "edits[1]"),
    ]


_ID = "`id`, its anchor and `because`"
_FORGOTTEN = ("missing-key", "wanted the key `because`, which is not there", None)


@pytest.mark.parametrize(
    ("edit", "column", "path", "said"),
    [
        ("id: b, before: a, after: c, because: x", 5, "edits[0]",
         ("one-anchor", "wanted one of `before` and `after`, got both", None)),
        ("id: d, disable: true, because: x", 5, "edits[0]", ("unknown-row", "no row `d` in table `t`", None)),
        ("id: bb, disable: true, because: x", 5, "edits[0]",
         ("unknown-row", "no row `bb` in table `t`", "did you mean `b`?")),
        ("id: b, disable: true", 5, "edits[0]", _FORGOTTEN),
        ("id: b, disable: false, because: x", 22, "edits[0]",
         ("bad-value", "`disable`: wanted true, got false", "leave the edit out")),
        ("id: b, disable: x, because: x", 22, "edits[0].disable",
         ("wrong-type", "`disable`: wanted true or false, got `x`", None)),
        ("id: b, disable: true, use: B, because: x", 5, "edits[0]",
         ("disabled-row", "row `b` is disabled, so `use` says nothing", None)),
        ("id: d, use: D, because: x", 5, "edits[0]",
         ("unknown-row", "no row `d` in table `t`", "to put a new row in, say `before` or `after` which row")),
        ("id: b, before: a, use: D, because: x", 5, "edits[0]",
         ("duplicate-row", "row `b` stands in table `t` already",
          "to replace it, leave out the anchor; to move it, write `id`, the anchor and `because` alone")),
        ("id: d, before: b, when: {x: 1}, because: x", 5, "edits[0]",
         ("one-action", "wanted an action beside `when`, got none", f"a row that is only moved has {_ID}")),
        ("id: d, before: b, because: x", 5, "edits[0]", ("unknown-row", "no row `d` in table `t`", None)),
        ("id: b, before: a", 5, "edits[0]", _FORGOTTEN),
        ("id: b, before: 1, because: x", 21, "edits[0].before",
         ("wrong-type", "`before`: wanted a string, got `1`", None)),
        ("id: b, after: b, because: x", 20, "edits[0].after",
         ("bad-anchor", "row `b` cannot stand after itself", None)),
        ("id: b, before: d, because: x", 21, "edits[0].before",
         ("unknown-row", "no row `d` in table `t`", None)),
        ("because: x", 5, "edits[0]", ("missing-key", "wanted the key `id`, which is not there", None)),
        ("id: [], because: x", 10, "edits[0].id", ("wrong-type", "`id`: wanted a string, got a list", None)),
    ],
    ids=short,
)  # fmt: skip
def test_an_edit_that_is_wrong_changes_nothing(
    edit: str, column: int, path: str, said: tuple[str, str, str | None]
) -> None:
    """It is told once, with its place and path; the rows stay, and it is no change."""
    found = _edit(edit)

    assert found.changes == []
    assert found.ids == ["a", "b", "c"]
    assert found.problems == [(Place("e.yaml", 3, column, path), *said)]


def test_a_key_that_is_not_known_is_told_with_its_path() -> None:
    """And the rest of the edit counts."""
    found = _edit("id: b, usee: B, use: D, because: x")

    assert found.problems == [
        (Place("e.yaml", 3, 13, "edits[0].usee"), "unknown-key", "no key `usee` here", "did you mean `use`?")
    ]
    assert found.slots[1].node.plain() == {"id": "b", "use": "D", "because": "x"}


def test_an_edit_that_is_wrong_does_not_hide_those_behind_it() -> None:
    """They are read, and count."""
    wrong = ["id: 5, disable: true, because: x", "id: d, disable: true, because: x", "id: b, before: b, because: x"]

    assert _edit(*wrong, "id: c, disable: true, because: x").ids == ["a", "b"]


def test_a_row_is_changed_once() -> None:
    """The second edit of a row is told with its path, and the first one counts."""
    found = _edit("id: b, disable: true, because: x", "id: b, use: B, because: x", "id: c, disable: true, because: x")

    assert [change.row for change in found.changes] == ["b", "c"]
    assert found.ids == ["a"]
    assert found.problems == [
        (
            Place("e.yaml", 4, 5, "edits[1]"),
            "duplicate-row",
            "row `b` is changed twice in this file",
            "the first is in line 3",
        )
    ]


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("table: t\n", (1, 1, ""), ("missing-key", "wanted the key `edits`, which is not there", None)),
        ("edits: [{id: b, disable: true, because: x}]\n", (1, 1, ""),
         ("missing-key", "wanted the key `table`, which is not there", None)),
        ("table: t\nedits: []\n", (2, 8, "edits"), ("wrong-type", "wanted a list of edits, got an empty one", None)),
        ("table: t\nedits: x\n", (2, 8, "edits"), ("wrong-type", "`edits`: wanted a list, got `x`", None)),
        ("table: t\nedits: [b]\n", (2, 9, "edits[0]"),
         ("wrong-type", "`edits[0]`: wanted a mapping, got `b`", None)),
        ("table: t\nrow: 1\nedits: [{id: b, disable: true, because: x}]\n", (2, 1, "row"),
         ("unknown-key", "no key `row` here", "known here: table, description, edits")),
    ],
    ids=short,
)  # fmt: skip
def test_a_file_of_edits_is_told_under_its_own_path(
    text: str, place: tuple[int, int, str], said: tuple[str, str, str | None]
) -> None:
    """What is wrong with the file itself has the path of its key."""
    assert _edited(text).problems == [(Place("e.yaml", *place), *said)]


def test_the_reason_for_a_move_replaces_that_of_the_row() -> None:
    """The rest of the row stays as it was written, with its place."""
    slot = _edit("id: a, after: b, because: moved").slots[1]

    assert slot.id == "a"
    assert slot.node.plain() == {"id": "a", "when": {"x": 1}, "use": "A", "because": "moved"}
    assert (slot.node.file, slot.node.line) == ("t.yaml", 3)


def test_a_new_row_has_no_anchor() -> None:
    """What says where it stands is no part of it; what replaces a row is written as it stands."""
    assert _edit("id: d, after: c, use: D, because: x").slots[3].node.plain() == {
        "id": "d",
        "use": "D",
        "because": "x",
    }
    assert _edit("id: b, when: {x: 2}, use: D, because: x").slots[1].node.plain() == {
        "id": "b",
        "when": {"x": 2},
        "use": "D",
        "because": "x",
    }


def test_a_disabled_row_keeps_its_place_and_may_come_back() -> None:
    """A later file finds it where it stood."""
    slots = slots_of(read_yaml(_TABLE, "t.yaml"))
    source = Source("e.yaml")
    TableEdits(source, "t", slots).apply(read_yaml(f"{_HEAD}  - {{id: b, disable: true, because: x}}\n", ""))

    assert [(slot.id, slot.disabled) for slot in slots] == [("a", False), ("b", True), ("c", False)]
    TableEdits(source, "t", slots).apply(read_yaml(f"{_HEAD}  - {{id: b, use: D, because: x}}\n", ""))
    assert [(slot.id, slot.disabled) for slot in slots] == [("a", False), ("b", False), ("c", False)]
    assert source.problems == []


@pytest.mark.parametrize("text", ["x", "[]", "{}", "rows: x", "rows: {a: 1}"])
def test_what_is_no_table_has_no_rows_and_stays_as_it_is(text: str) -> None:
    """Its reader tells what is wrong with it."""
    table = read_yaml(text, "t.yaml")

    assert slots_of(table) == []
    assert with_rows(table, [Slot("a", Node("x", 1, 1))]) is table


def test_rows_without_an_id_stay_where_they_are() -> None:
    """They cannot be named, and their reader tells that their id is wrong."""
    table = read_yaml("table: t\nmore: 1\nrows: [x, {use: A}, {id: 5}, {id: [a]}, {id: a}]\n", "t.yaml")

    slots = slots_of(table)
    slots[4].disabled = True

    assert [slot.id for slot in slots] == [None, None, None, None, "a"]
    assert with_rows(table, slots).plain() == {
        "table": "t",
        "more": 1,
        "rows": ["x", {"use": "A"}, {"id": 5}, {"id": ["a"]}],
    }
