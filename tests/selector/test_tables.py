"""`selector.tables`: one table by itself, asked about plain mappings that are checked."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from selector import tables
from selector.rules.deciding import Decider
from selector.rules.problems import FactsError, TableError
from selector.rules.vocabulary import Value
from selector.rules.walk import first
from selector.tables import bind, facts_for, read_table

VOCABULARY = """
facts:
  sm_major: {type: integer, group: machine, about: Its major version., minimum: 1}
  size: {type: integer, group: request, about: A size., special: [symbolic]}
  free: {type: boolean, group: request, about: Whether it is free.}
  platform: {type: string, group: machine, about: What it is., values: [cuda, rocm]}
  name: {type: string, group: machine, about: How it is called., "null": true}
packages:
  kernels: {distributions: [kernels], about: Some kernels.}
"""
TABLE = """
table: mine
requires: [sm_major, size, free, platform, name, packages.kernels]
rows:
  - {id: new, when: {sm_major: {min: 10}, packages.kernels: ">=2", free: true}, use: A, because: It is there.}
  - {id: sized, when: {size: 128, platform: cuda}, use: B, because: It fits.}
  - {id: named, when: {name: [x, y]}, use: C, because: It is called so.}
  - {id: rest, use: D, because: Something has to.}
"""
RIGHT = {
    "sm_major": 10, "size": 128, "free": True, "platform": "cuda", "name": None, "packages.kernels": "2.1",
}  # fmt: skip
VALUES: dict[str, list[object]] = {
    "sm_major": [1, 9, 10, 12], "size": [64, 128, "symbolic"], "free": [True, False], "platform": ["cuda", "rocm"],
    "name": ["x", "y", "z", None], "packages.kernels": ["1.9", "2", "2.1rc1", None],
}  # fmt: skip


@pytest.fixture
def which() -> Callable[[object], str | None]:
    """Give the function that names the row."""
    decider = read_table(VOCABULARY, TABLE)
    return bind(decider, [row.id for row in decider.table.rows])  # type: ignore[return-value]


def test_every_mapping_that_is_right_is_decided_as_the_walker_does(which: Callable[[object], str | None]) -> None:
    """When a value is met for the first time, and later."""
    decider, dice = read_table(VOCABULARY, TABLE), Random(1)
    for _ in range(3_000):
        facts = {name: dice.choice(values) for name, values in VALUES.items()}
        row = first(decider.table, facts_for(decider, facts), {})
        assert row is not None
        assert which(facts) == row.id


WRONG = [
    ({"sm_major": "10"}, "`sm_major`: wanted an integer, got the string `10`"),
    ({"sm_major": True}, "`sm_major`: wanted an integer, got true"),
    ({"sm_major": 0}, "`sm_major`: wanted an integer of at least 1, got 0"),
    ({"sm_major": 10.0}, "`sm_major`: wanted an integer, got the number 10.0"),
    ({"sm_major": None}, "`sm_major`: wanted a value, for the table decides nothing without it, got none"),
    ({"size": "symbol"}, "`size`: wanted an integer or `symbolic`, got the string `symbol`"),
    ({"free": 1}, "`free`: wanted true or false, got the number 1"),
    ({"platform": "cud"}, "`platform`: wanted one of cuda, rocm, got `cud`"),
    ({"platform": ["cuda"]}, "`platform`: wanted a string, got a list"),
    ({"name": ""}, "`name`: wanted a string, got an empty one"),
    ({"packages.kernels": "two"}, "`packages.kernels`: wanted a version as PEP 440 writes it, got `two`"),
    ({"packages.kernels": 2}, "`packages.kernels`: wanted a version as a string, got the number 2"),
    ({"sm_mayor": 10}, "facts (sm_mayor): unknown-key: no key `sm_mayor` here\n  hint: did you mean `sm_major`?"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "message"), WRONG, ids=[str(wrong) for wrong, _ in WRONG])
def test_a_wrong_mapping_is_refused(
    which: Callable[[object], str | None], wrong: dict[str, object], message: str
) -> None:
    """Before and after right ones were seen."""
    for _ in range(2):
        with pytest.raises(FactsError) as caught:
            which(RIGHT | wrong)
        assert message in str(caught.value)
        assert which(RIGHT) == "new"


@pytest.mark.parametrize("mapping", [None, [], "x", 1])
def test_what_is_no_mapping_is_refused(which: Callable[[object], str | None], mapping: object) -> None:
    """Whatever it is."""
    with pytest.raises(FactsError, match="wanted a mapping of facts"):
        which(mapping)


@pytest.mark.parametrize("name", VALUES)
def test_a_missing_fact_is_refused(which: Callable[[object], str | None], name: str) -> None:
    """Where the table requires it."""
    with pytest.raises(
        FactsError, match=f"`{name}`: wanted a value, for the table decides nothing without it, got none"
    ):
        which({key: value for key, value in RIGHT.items() if key != name})


def test_a_table_that_does_not_require_a_fact_decides_without_it() -> None:
    """As it decides where the fact is not known."""
    decider = read_table(VOCABULARY, TABLE.replace("size, free, ", "size, "))
    which = bind(decider, [row.id for row in decider.table.rows])

    assert which(RIGHT) == "new"
    assert which({name: value for name, value in RIGHT.items() if name != "free"}) == "sized"


def test_many_rows_are_checked_too() -> None:
    """Also where the table is laid out by columns."""
    rows = "".join(f"  - {{id: r{at}, when: {{size: {at}}}, use: A, because: It fits.}}\n" for at in range(60))
    decider = read_table(VOCABULARY, f"table: mine\nrequires: [size]\nrows:\n{rows}")
    which = bind(decider, [row.id for row in decider.table.rows])

    assert [which({"size": size}) for size in (0, 59, 60)] == ["r0", "r59", None]
    with pytest.raises(FactsError, match="`size`: wanted an integer or `symbolic`, got true"):
        which({"size": True})


def test_a_wrong_table_is_refused_with_every_problem() -> None:
    """With the place of each."""
    wrong = TABLE.replace("size: 128", "sise: 128").replace("min: 10", "mni: 10")

    with pytest.raises(TableError) as caught:
        read_table(VOCABULARY, wrong)

    assert [problem.code for problem in caught.value.problems] == ["unknown-matcher", "unknown-fact"]


@pytest.mark.parametrize(("name", "said"), [((), "table"), (("mine.yaml",), "mine.yaml")])
def test_problems_of_both_texts_are_told_together(name: tuple[str, ...], said: str) -> None:
    """Each with the name of its text."""
    words = VOCABULARY.replace("{type: boolean, ", "{type: bool, ")

    with pytest.raises(TableError) as caught:
        read_table(words, TABLE.replace("rows:", "rwos:"), *name)

    places = [(problem.place.file, problem.place.line, problem.code) for problem in caught.value.problems]
    assert sorted(places) == sorted([(said, 4, "unknown-key"), ("vocabulary", 5, "unknown-name")])


@pytest.mark.parametrize("name", [(), ("mine.yaml",)])
def test_texts_that_cannot_be_read_are_told_by_name(name: tuple[str, ...]) -> None:
    """One after the other."""
    for texts, said in (("{", TABLE), "vocabulary"), ((VOCABULARY, "{"), (*name, "table")[0]):
        with pytest.raises(ValueError, match=f"^{said}:2:1: yaml-syntax: "):
            read_table(*texts, *name)


def test_texts_may_be_as_long_as_rule_files_may() -> None:
    """More than one of facts may be."""
    comment = "#" * (1 << 20)

    decider = read_table(VOCABULARY + comment, TABLE + comment)

    assert [row.id for row in decider.table.rows] == ["new", "sized", "named", "rest"]


def test_texts_are_looked_at_once_and_not_all_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no caller fills the memory; of each fact by itself."""
    looked: list[object] = []

    def noted(decider: Decider, mapping: object) -> dict[str, Value]:
        looked.append(mapping)
        return facts_for(decider, mapping)

    monkeypatch.setattr(tables, "MOST_KNOWN", 2)
    monkeypatch.setattr(tables, "facts_for", noted)
    decider = read_table(VOCABULARY, TABLE)
    which = bind(decider, [row.id for row in decider.table.rows])

    def is_looked_at(**other: object) -> bool:
        looked.clear()
        assert which({**RIGHT, "sm_major": 9, "size": 1, **other}) == ("named" if other.get("name") == "x" else "rest")
        return bool(looked)

    asked = [is_looked_at(name=name) for name in ("x", "x", "z", "x", "z", "w", "w", "z", "w", "x", "w", None)]
    assert asked == [True, False, True, False, False, True, False, True, False, True, True, False]
    assert [is_looked_at(platform=name) for name in ("cuda", "rocm", "rocm")] == [False, True, False]
    assert [is_looked_at(size=size) for size in ("symbolic", "symbolic", 64, 2)] == [True, True, False, False]
