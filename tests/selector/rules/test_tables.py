from __future__ import annotations

import pytest

from selector.rules.tables import Table, fields, fill, problems_of_order
from tests.selector.rules.language import Facts, read_table, table, words
from tests.selector.rules.texts import short

_MISSING = "which is not there"
_FOUR = "use, substitute, refuse, entry"
_HEAD = "table: t\nrows:\n"


def _row(keys: str) -> str:
    return f"{_HEAD}  - {{id: a, because: y, {keys}}}\n"


_WHOLE = """\
table: t
description: What is asked.
targets: backends
actions: [use, refuse]
requires: [platform, backend]
rows:
  - id: first
    when: {platform: cuda}
    use: X
    log: (on {arch}, {head_dim})
    warn: "{platform} is new"
    transform: the keys are cut
    redecide: {mask_free: false, head_dim: 64, role: self}
    until: "2.0"
    source: a page
    because: one
  - id: 2nd-row
    use: "{backend}"
    because: two
  - id: last
    refuse: no {backend}
    because: three
"""


def test_a_table_is_read_with_all_that_its_rows_say() -> None:
    """Every key of a table and of a row arrives, and what is not written is empty."""
    found = table(_WHOLE)
    first, second, last = found.rows

    assert (found.name, found.description, found.targets) == ("t", "What is asked.", "backends")
    assert found.requires == ("platform", "backend")
    assert (first.name, first.action, first.target, first.because) == ("t/first", "use", "X", "one")
    assert (first.log, first.warn, first.transform) == (
        "(on {arch}, {head_dim})",
        "{platform} is new",
        "the keys are cut",
    )
    assert dict(first.redecide) == {"mask_free": False, "head_dim": 64, "role": "self"}
    assert (first.until, first.source, str(first.place)) == ("2.0", "a page", "t.yaml:7:5")
    assert (first.conditional, second.conditional, last.conditional) == (True, False, False)
    assert (second.log, second.warn, second.transform, dict(second.redecide), second.until, second.source) == (
        None,
        None,
        None,
        {},
        None,
        None,
    )
    assert (first.read_from, second.read_from, last.read_from) == (None, "backend", None)
    assert (first.target_for({}), second.target_for({"backend": "Y"})) == ("X", "Y")


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("({arch}, {head_dim})", "(sm_90, 128)"), ("{mask_free}{mask_free}", "falsefalse"), ("{role}", "unknown"),
        ("{packages.flash}", "none"),
        ("no fact", "no fact"), ("{", "{"), ("}{", "}{"),
    ],
)  # fmt: skip
def test_a_template_is_filled_with_what_is_known(template: str, text: str) -> None:
    """What is not given is called unknown, and null by the word of its fact."""
    facts: Facts = {"arch": "sm_90", "head_dim": 128, "mask_free": False, "packages.flash": None}

    assert fill(template, facts, words()) == text


def test_null_has_the_word_of_its_fact() -> None:
    """A log line says what there is none of."""
    assert fill("{arch}", {"arch": None}, words()) == "no GPU"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", ["1:1: wrong-type: wanted a mapping, got a list"]),
        ("x", ["1:1: wrong-type: wanted a mapping, got `x`"]),
        ("table: t", [f"1:1: missing-key: wanted the key `rows`, {_MISSING}"]),
        ("rows: []", [f"1:1: missing-key: wanted the key `table`, {_MISSING}"]),
        ("table: t\nrows: []", ["2:7: wrong-type: wanted a list of rows, got an empty one"]),
        ("table: t\nrows: x", ["2:7: wrong-type: wanted a list of rows, got `x`"]),
        ("table: t\nrows: {a: 1}", ["2:7: wrong-type: wanted a list of rows, got a mapping"]),
        ("table: t\nrows: ~", ["2:7: wrong-type: wanted a list of rows, got an empty one"]),
        (f"tabel: t\n{_row('use: X')}", ["1:1: unknown-key: no key `tabel` here\n  hint: did you mean `table`?"]),
        (f"targets: 1\n{_row('use: X')}", ["1:10: wrong-type: `targets`: wanted a string, got `1`"]),
        (f"description: []\n{_row('use: X')}", ["1:14: wrong-type: `description`: wanted a string, got a list"]),
        (f"requires: platform\n{_row('use: X')}", ["1:11: wrong-type: `requires`: wanted a list, got `platform`"]),
        (f"requires: [platfrm]\n{_row('use: X')}",
         ["1:12: unknown-name: no `platfrm` for `requires`\n  hint: did you mean `platform`?"]),
        (f"actions: [use, refus]\n{_row('use: X')}",
         ["1:16: unknown-name: no `refus` for `actions`\n  hint: did you mean `refuse`?"]),
        (f"actions: [use]\n{_row('refuse: X')}",
         ["4:25: wrong-action: rows of table `t` do not `refuse`: wanted one of use"]),
        (_row("when: {head_dims: 1}, use: X"),
         ["3:32: unknown-fact: no fact `head_dims`\n  hint: did you mean `head_dim`?"]),
        (_row("use: X, wen: {}"), ["3:33: unknown-key: no key `wen` here\n  hint: did you mean `when`?"]),
        (_row("use: X, refuse: y"), [f"3:5: one-action: wanted exactly one of {_FOUR}, got use, refuse"]),
        (_row("log: x"), [f"3:5: one-action: wanted exactly one of {_FOUR}, got none"]),
        (_row("use: 1"), ["3:30: wrong-type: `use`: wanted a string, got `1`"]),
        (_row("use: '{backnd}'"),
         ["3:30: unknown-fact: no fact `backnd` for the template\n  hint: did you mean `backend`?"]),
        (_row("use: X, log: '{}'"), ["3:38: unknown-fact: no fact `` for the template"]),
        (_row("use: X, warn: [x]"), ["3:39: wrong-type: `warn`: wanted a string, got a list"]),
        (_row("use: X, until: 2.0"), ["3:40: wrong-type: `until`: wanted a string, got `2.0`"]),
        (_row("use: X, source: ''"), ["3:41: wrong-type: `source`: wanted a string, got an empty string"]),
        (_row("use: X, redecide: x"), ["3:43: wrong-type: `redecide`: wanted a mapping, got `x`"]),
        (_row("use: X, redecide: {mask_fre: true}"),
         ["3:44: unknown-key: no key `mask_fre` here\n  hint: did you mean `mask_free`?"]),
        (_row("use: X, redecide: {mask_free: 1}"),
         ["3:55: bad-value: `mask_free`: wanted true or false, got the number 1"]),
        (_row("use: X, redecide: {packages.flash: 2}"),
         ["3:60: bad-value: `packages.flash`: wanted a version as a string, got the number 2\n  hint: quote it"]),
        (_row("use: X, redecide: {head_dim: ~}"),
         ["3:54: bad-value: `head_dim`: wanted an integer or `symbolic`, got null"]),
        (f"{_HEAD}  - {{use: X, because: y}}", [f"3:5: missing-key: wanted the key `id`, {_MISSING}"]),
        (f"{_HEAD}  - {{id: a, use: X}}", [f"3:5: missing-key: wanted the key `because`, {_MISSING}"]),
        (f"{_HEAD}  - {{id: a, use: X, because: ' '}}", ["3:30: wrong-type: `because`: wanted a string, got ` `"]),
        (f"{_HEAD}  - {{id: A_b, use: X, because: y}}",
         ["3:10: bad-id: row id `A_b` is not kebab-case (small letters, digits and single hyphens)"]),
        (f"{_HEAD}  - {{id: a--b, use: X, because: y}}",
         ["3:10: bad-id: row id `a--b` is not kebab-case (small letters, digits and single hyphens)"]),
        (_row("use: X") + "  - {id: b, use: X, because: y}\n  - {id: a, use: Y, because: z}",
         ["5:5: duplicate-row: row `a` stands twice in table `t`\n  hint: the first is in line 3"]),
    ],
    ids=short,
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_told_with_its_place(text: str, said: list[str]) -> None:
    """One mistake makes one problem, and reading goes on."""
    assert read_table(text)[1] == [f"t.yaml:{one}" for one in said]


def test_every_mistake_of_a_table_is_told() -> None:
    """A row with mistakes does not hide those of the rows behind it."""
    text = """\
table: t
targts: backends
rows:
  - {id: a, when: {platform: cudaa}, use: X, because: y}
  - {id: B, use: X, because: y, log: '{arc}'}
  - {id: c, because: y}
"""

    assert read_table(text)[1] == [
        "t.yaml:2:1: unknown-key: no key `targts` here\n  hint: did you mean `targets`?",
        "t.yaml:4:30: bad-value: `platform`: wanted one of cuda, rocm, cpu, got `cudaa`\n  hint: did you mean `cuda`?",
        "t.yaml:5:10: bad-id: row id `B` is not kebab-case (small letters, digits and single hyphens)",
        "t.yaml:5:38: unknown-fact: no fact `arc` for the template\n  hint: did you mean `arch`?",
        f"t.yaml:6:5: one-action: wanted exactly one of {_FOUR}, got none",
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"{_HEAD}  - {{id: a, ues: X, because: y}}",
        f"{_HEAD}  - {{id: a, use: X, becuase: y}}",
        f"{_HEAD}  - x",
        f"{_HEAD}  - {{id: 1, use: X, because: y}}",
    ],
)
def test_one_mistake_of_a_row_makes_one_problem(text: str) -> None:
    """What follows from a mistake is not told beside it."""
    assert len(read_table(text)[1]) == 1


@pytest.mark.parametrize("keys", ["log: x", "use: X, refuse: y", "use: 1", "refuse: '{x}'", "ues: X"])
def test_a_row_whose_action_could_not_be_read_has_none(keys: str) -> None:
    """Neither what it does nor to what."""
    found, _ = read_table(_row(keys))

    assert isinstance(found, Table)
    assert (found.rows[0].action, found.rows[0].target) == ("", "")


def test_texts_that_could_not_be_read_are_empty() -> None:
    """The names of the table, its description and the reasons of its rows are always texts."""
    found, _ = read_table("table: 1\nrows: [x, {id: a, use: X}, {id: b, use: X, because: y}]\n")

    assert isinstance(found, Table)
    assert (found.name, found.description, found.targets) == ("", "", "")
    assert [(row.id, row.because) for row in found.rows] == [("a", ""), ("b", "y")]


def test_every_mistake_of_a_template_is_told() -> None:
    """Two misspelt facts in one text are two problems."""
    assert len(read_table(_row("use: X, log: '{arc} {head_dims}'"))[1]) == 2


_ALWAYS = "always holds, so the rows behind it never fire\n  hint: give it a `when`, or make it the last row"
_ORDER = """\
table: t
rows:
  - {id: a, use: X, because: y}
  - {id: b, when: {platform: cuda}, use: Y, because: y}
  - {id: c, refuse: no, because: y}
  - {id: d, when: {platform: cpu}, use: Z, because: y}
"""


def test_the_order_of_a_table_is_checked() -> None:
    """Rows behind one that always holds never fire, and the last row has no condition."""
    found = table(_ORDER)

    assert [str(problem) for problem in problems_of_order(found, [found.rows[0], found.rows[2]])] == [
        "t.yaml:6:5: no-last-resort: table `t` has no last resort: wanted a last row without `when`",
        f"t.yaml:3:5: unreachable: row `a` {_ALWAYS}",
        f"t.yaml:5:5: unreachable: row `c` {_ALWAYS}",
    ]


def test_a_row_whose_target_may_be_unable_does_not_always_hold() -> None:
    """Without a condition of its own a row still falls through to the next one."""
    found = table(_ORDER)

    assert [problem.code for problem in problems_of_order(found, [])] == ["no-last-resort"]


def test_a_condition_that_could_not_be_read_is_a_condition() -> None:
    """A typo in a `when` does not make its row one that always holds."""
    text = _HEAD + "  - {id: a, when: {platfrm: x}, use: X, because: y}\n  - {id: b, use: X, because: y}\n"
    found, problems = read_table(text)

    assert isinstance(found, Table)
    assert [problem.split(": ")[1] for problem in problems] == ["unknown-fact"]
    assert problems_of_order(found, found.rows) == []


def test_a_table_without_rows_has_no_order() -> None:
    """What could not be read is told once."""
    found, _ = read_table("table: t\nrows: []")

    assert isinstance(found, Table)
    assert problems_of_order(found, []) == []


@pytest.mark.parametrize(
    ("template", "shown"),
    [("", set()), ("none", set()), ("{arch}", {"arch"}), ("{a} of {b.c}, {a}", {"a", "b.c"}), ("{", set())],
)
def test_a_template_says_which_facts_it_shows(template: str, shown: set[str]) -> None:
    """Each once."""
    assert fields(template) == shown
