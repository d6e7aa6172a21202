"""Every problem has a path beside its line: the keys and rows that lead to it."""

from __future__ import annotations

import pytest

from selector.rules import conditions
from selector.rules.fields import Source
from selector.rules.problems import Place
from selector.rules.tables import TableReader
from selector.rules.when import Reader
from selector.rules.yaml_text import read_yaml
from tests.selector.rules.language import condition, words
from tests.selector.rules.texts import short


@pytest.mark.parametrize(
    ("when", "column", "path"),
    [
        ("[]", 1, "rule"),
        ("{}", 1, "rule"),
        ("not: []", 6, "rule.not"),
        ("any: x", 6, "rule.any"),
        ("all: [platform: cuda, {}]", 23, "rule.all[1]"),
        ("any: [{all: [{}]}]", 14, "rule.any[0].all[0]"),
        ("{platform: cuda, head_dims: 1}", 18, "rule.head_dims"),
        ("not: {any: [head_dims: 1]}", 13, "rule.not.any[0].head_dims"),
        ("platform: 1", 11, "rule.platform"),
        ("head_dim: [64, x]", 16, "rule.head_dim"),
        ("head_dim: {min: 1, maxx: 1}", 20, "rule.head_dim"),
        ("head_dim: {}", 11, "rule.head_dim"),
        ("any: [{head_dim: {min: 1, unknown: x}}]", 36, "rule.any[0].head_dim"),
        ("arch: {in: nothing}", 12, "rule.arch"),
    ],
    ids=short,
)
def test_a_problem_of_a_condition_has_the_path_of_its_entry(when: str, column: int, path: str) -> None:
    """Groups count from zero; the file is that of the reader where a node does not know its own."""
    source = Source("t.yaml")

    Reader(words(), source).when(read_yaml(when, ""), "rule")

    assert [problem.place for problem in source.problems] == [Place("t.yaml", 1, column, path)]


def test_a_test_has_the_path_of_its_fact() -> None:
    """Also in groups, and for each matcher of one fact."""
    found = condition("{platform: cuda, any: [{head_dim: {min: 8, max: 64}}, {not: {arch: present}}]}")

    assert [test.place.path for test in conditions.tests(found)] == [
        "rule.platform", "rule.any[0].head_dim", "rule.any[0].head_dim", "rule.any[1].not.arch",
    ]  # fmt: skip


_ROWS = "rows: [{id: a, use: X, because: y}]"


def _row(keys: str) -> str:
    return f"table: t\nrows: [{{{keys}}}]"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[]", ""),
        ("table: t", ""),
        (f"tabel: t\n{_ROWS}", "tabel"),
        (f"table: 1\n{_ROWS}", "table"),
        (f"table: t\ntargets: x\n{_ROWS}", "targets"),
        (f"table: t\ndescription: 1\n{_ROWS}", "description"),
        (f"table: t\nrequires: [platform, x]\n{_ROWS}", "requires"),
        (f"table: t\nrequires: [platform, 1]\n{_ROWS}", "requires[1]"),
        (f"table: t\nactions: [use, x]\n{_ROWS}", "actions"),
        (f"table: t\nactions: [1, use]\n{_ROWS}", "actions[0]"),
        ("table: t\nrows: []", "rows"),
        ("table: t\nrows: [{id: a, use: X, because: y}, x]", "rows[1]"),
        (_row("id: a, use: X, because: y, wen: {}"), "rows[0].wen"),
        (_row("use: X, because: y"), "rows[0]"),
        (_row("id: 1, use: X, because: y"), "rows[0].id"),
        (_row("id: A, use: X, because: y"), "rows[0].id"),
        (_row("id: a, use: X, because: y, when: {platform: 1}"), "t/a.platform"),
        (_row("id: a, use: X, because: y, when: []"), "t/a"),
        (_row("id: a, because: y"), "rows[0]"),
        (f"actions: [use]\n{_row('id: a, refuse: x, because: y')}", "rows[0]"),
        (_row("id: a, use: 1, because: y"), "rows[0].use"),
        (_row("id: a, use: '{x}', because: y"), "rows[0].use"),
        (_row("id: a, use: X, because: 1"), "rows[0].because"),
        (_row("id: a, use: X, because: y, log: '{x}'"), "rows[0].log"),
        (_row("id: a, use: X, because: y, log: 1"), "rows[0].log"),
        (_row("id: a, use: X, because: y, warn: '{x}'"), "rows[0].warn"),
        (_row("id: a, use: X, because: y, until: 1"), "rows[0].until"),
        (_row("id: a, use: X, because: y, source: 1"), "rows[0].source"),
        (_row("id: a, use: X, because: y, transform: 1"), "rows[0].transform"),
        (_row("id: a, use: X, because: y, redecide: 1"), "rows[0].redecide"),
        (_row("id: a, use: X, because: y, redecide: {x: 1}"), "rows[0].redecide.x"),
        (_row("id: a, use: X, because: y, redecide: {mask_free: 1}"), "rows[0]"),
        ("table: t\nrows: [{id: a, use: X, because: y}, {id: a, use: X, because: y}]", ""),
    ],
    ids=short,
)
def test_a_problem_of_a_table_has_the_path_of_its_key(text: str, path: str) -> None:
    """What stands in a condition is told under the name of the row; the file is that of the reader."""
    source = Source("t.yaml")

    TableReader(Reader(words(), source)).read(read_yaml(text, ""))

    assert [(problem.place.file, problem.place.path) for problem in source.problems] == [("t.yaml", path)]


def test_a_row_without_a_name_is_told_by_its_number() -> None:
    """Its condition is read all the same."""
    source = Source("t.yaml")

    TableReader(Reader(words(), source)).read(read_yaml(_row("use: X, because: y, when: {platform: 1}"), ""))

    assert [problem.place.path for problem in source.problems] == ["rows[0]", "t/rows[0].platform"]


def test_a_table_and_its_rows_have_places() -> None:
    """In the file of the reader where the nodes do not know their own."""
    found = TableReader(Reader(words(), Source("t.yaml"))).read(read_yaml(f"table: t\n{_ROWS}", ""))

    assert found is not None
    assert found.place == Place("t.yaml", 1, 1)
    assert found.rows[0].place == Place("t.yaml", 2, 8, "rows[0]")
