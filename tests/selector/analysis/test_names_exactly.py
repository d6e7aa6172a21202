"""Each place that uses a name keeps it from being told as unused, and what is told of names and of `until`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date

import pytest

from selector.analysis import names as module
from selector.analysis.findings import CODES, Finding
from selector.analysis.names import lint_names, lint_until
from selector.catalog import Backend, Caution, Provider
from selector.rules.conditions import ALWAYS, Condition
from selector.rules.nodes import Node
from selector.rules.problems import Place
from selector.rules.tables import Row
from selector.rules.vocabulary import Derived, Fact, Pattern, Value, Vocabulary
from selector.rules.yaml_text import read_yaml
from selector.ruleset import ENGINE_FACTS, RuleSet, shipped
from tests.selector.analysis.random_tables import read_when

HERE = Place("here.yaml", 1, 1)
WORDS = """\
facts:
  platform: {type: string}
  mine: {type: string, about: x}
  "our.part": {type: string}
sets:
  mine: {fact: mine, values: [x]}
packages:
  ours: {distributions: [x]}
  "mine": {distributions: [x]}
"""
UNUSED = [
    "unused-fact: nothing uses the fact `mine`",
    "unused-fact: nothing uses the fact `our.part`",
    "unused-set: nothing uses the set `mine`",
    "unused-package: nothing uses the package `ours`",
    "unused-package: nothing uses the package `mine`",
]


def rules_of(**changed: object) -> RuleSet:
    """Give the shipped rules with names that nothing uses, and some fields changed."""
    words = shipped().vocabulary
    facts = {
        "mine": Fact("mine", "string", "request", "x"),
        "our.part": Fact("our.part", "string", "request", "x"),
        "packages.ours": Fact("packages.ours", "version", "machine", "x", null=True),
        "packages.mine": Fact("packages.mine", "version", "machine", "x", null=True),
    }
    sets: Mapping[str, tuple[str, tuple[Value, ...]]] = {"mine": ("mine", ("x",))}
    vocabulary = Vocabulary({**words.facts, **facts}, {**words.sets, **sets}, words.packages, words.derived)
    content = {**shipped().content, "vocabulary": read_yaml(WORDS, "words.yaml")}
    return replace(shipped(), **{"vocabulary": vocabulary, "content": content, **changed})  # type: ignore[arg-type]


def told(rules: RuleSet) -> list[str]:
    """Give what is told of names."""
    return [f"{finding.code}: {finding.message}" for finding in lint_names(rules)]


def row_with(name: str, **changed: object) -> RuleSet:
    """Give the rules with one row of a table changed."""
    rules = rules_of()
    table = rules.tables[name]
    last = replace(table.rows[-1], **changed)  # type: ignore[arg-type]
    return replace(rules, tables={**rules.tables, name: replace(table, rows=(*table.rows[:-1], last))})


def asking(name: str) -> Condition:
    """Give a condition that asks about a fact, below a group."""
    matcher = "present" if name.startswith("packages.") else "x"
    return read_when(rules_of().vocabulary, {"any": [{"platform": "cpu"}, {"not": {name: matcher}}]}, "x")


def caution(when: Condition = ALWAYS, warn: str = "x") -> Caution:
    """Give something that is warned of."""
    return Caution(when, warn, "x", HERE)


def backend(**changed: object) -> RuleSet:
    """Give the rules with one backend more."""
    found = replace(Backend("B", "x", ALWAYS, HERE, "B"), **changed)  # type: ignore[arg-type]
    return rules_of(backends={**shipped().backends, "B": found})


def provider(**changed: object) -> RuleSet:
    """Give the rules with one provider changed."""
    found = replace(shipped().providers["fa2"], **changed)  # type: ignore[arg-type]
    return rules_of(providers={**shipped().providers, "fa2": found})


def with_words(facts: Mapping[str, Fact] | None = None, derived: tuple[Derived, ...] = ()) -> RuleSet:
    """Give the rules with more facts."""
    words = rules_of().vocabulary
    return rules_of(
        vocabulary=Vocabulary({**words.facts, **(facts or {})}, words.sets, words.packages, (*words.derived, *derived))
    )


ON = Pattern(re.compile("x"), "x", "mine", "x")
USES: Mapping[str, Callable[[str], RuleSet]] = {
    "a condition of a row": lambda name: row_with("call", when=asking(name)),
    "an ability of a backend": lambda name: rules_of(
        abilities={**shipped().abilities, "backends": {"B": ALWAYS, "C": asking(name)}}
    ),
    "an ability of a provider": lambda name: rules_of(
        abilities={**shipped().abilities, "providers": {"B": ALWAYS, "C": asking(name)}}
    ),
    "a caution of a backend": lambda name: backend(unverified=(caution(), caution(asking(name)))),
    "a warning": lambda name: rules_of(warnings=(caution(), caution(asking(name)))),
    "the text of a warning": lambda name: rules_of(warnings=(caution(), caution(warn=f"no {{{name}}}"))),
    "the text of a caution": lambda name: backend(unverified=(caution(), caution(warn=f"{{x}} {{{name}}}"))),
    "what a table requires": lambda name: rules_of(
        tables={**shipped().tables, "call": replace(shipped().table("call"), requires=("platform", name))}
    ),
    "what a row has decided again": lambda name: row_with("call", redecide={"platform": "cpu", name: "x"}),
    "a target": lambda name: row_with("call", target=f"no {{platform}} and {{{name}}}"),
    "a log line": lambda name: row_with("explicit", log=f"{{{name}}}"),
    "a warning of a row": lambda name: row_with("provider", warn=f"a {{{name}}} b"),
    "a transform": lambda name: row_with("role_fallback", transform=f"{{{name}}}"),
    "the fact without which a backend is bound": lambda name: backend(unbound=name),
    "the fact without which a provider is bound": lambda name: provider(unbound=name),
    "a block that a backend reads": lambda name: backend(reads={"x": {}, name: {"part": ()}}),
    "what follows from it, as the first": lambda name: with_words(derived=(Derived("d", "equal", name, "platform"),)),
    "what follows from it, as the second": lambda name: with_words(derived=(Derived("d", "equal", "platform", name),)),
}


def test_names_that_nothing_uses_are_told() -> None:
    """Each by its section, at its key; a set that is called as a fact that is used is no fact."""
    rules = rules_of()

    assert told(rules) == UNUSED
    assert list(lint_names(rules)) == [
        Finding("unused-fact", Place("words.yaml", 3, 3, "facts.mine"), "nothing uses the fact `mine`"),
        Finding("unused-fact", Place("words.yaml", 4, 3, "facts.our.part"), "nothing uses the fact `our.part`"),
        Finding("unused-set", Place("words.yaml", 6, 3, "sets.mine"), "nothing uses the set `mine`"),
        Finding("unused-package", Place("words.yaml", 8, 3, "packages.ours"), "nothing uses the package `ours`"),
        Finding("unused-package", Place("words.yaml", 9, 3, "packages.mine"), "nothing uses the package `mine`"),
    ]
    assert list(lint_names(shipped())) == []


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ["mine", "packages.ours"])
def test_a_fact_or_package_that_is_used_is_not_told(use: str, name: str) -> None:
    """Wherever it is used; nothing else counts as used thereby."""
    gone = "unused-package: nothing uses the package `ours`" if "." in name else UNUSED[0]

    assert told(USES[use](name)) == [line for line in UNUSED if line != gone]


def test_a_field_that_a_backend_reads_is_used() -> None:
    """By the name of its block; and so is the fact on which a form depends."""
    reads = backend(reads={"x": {"y": ()}, "our": {"one": (), "part": ()}})
    assert told(reads) == [line for line in UNUSED if "our.part" not in line]

    formed = Fact("formed", "string", "machine", "x", on=ON)
    assert told(with_words({"formed": formed})) == [line for line in UNUSED if line != UNUSED[0]]


def test_what_the_engine_sets_is_used() -> None:
    """Though no rule asks about it."""
    assert set(ENGINE_FACTS) <= set(module._facts_used(rules_of(tables={}, abilities={}, backends={}, warnings=())))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("{in: mine}", ["mine"]),
        ("{x: {y: [1, {z: {in: mine}}, {in: other}]}}", ["mine", "other"]),
        ("[{in: mine}, [{in: other}]]", ["mine", "other"]),
        ("{in: [mine]}", []),
        ("{in: {in: mine}}", ["mine"]),
        ("{on: mine, list: [mine]}", []),
        ("mine", []),
    ],
)
def test_a_set_is_used_where_it_stands_after_in(text: str, found: list[str]) -> None:
    """Anywhere but in the vocabulary, which declares it."""
    node = read_yaml(text, "t.yaml")

    assert sorted(module._sets_used(rules_of(content={"a": read_yaml("x: 1", "t.yaml"), "b": node}))) == found
    assert list(module._sets_used(rules_of(content={"vocabulary": node}))) == []
    content = {**rules_of().content, "more": node}
    assert told(rules_of(content=content)) == [line for line in UNUSED if "set" not in line or "mine" not in found]


@pytest.mark.parametrize("text", ["facts: 1", "facts: null", "sets: {}", "[]", "x"])
def test_a_section_without_names_has_none(text: str) -> None:
    """Nor has a file without sections."""
    assert module._entries(read_yaml(text, "t.yaml"), "facts") == {}
    assert told(rules_of(content={"vocabulary": read_yaml(text, "t.yaml")})) == []


def test_names_of_no_file_stand_in_the_vocabulary() -> None:
    """So their place has a name."""
    name = Node("x", 3, 4, key=(3, 1))
    node = Node({"facts": Node({"mine": name}, 2, 1)}, 1, 1)

    (found,) = lint_names(rules_of(content={"vocabulary": node}))

    assert found.place == Place("vocabulary", 3, 1, "facts.mine")


# --- providers ----------------------------------------------------------------------------------------------------


def test_a_provider_runs_where_a_backend_lists_it_and_a_row_uses_it() -> None:
    """What is missing is told at the provider, and rows of other tables do not count."""
    rules, extra = shipped(), Provider("own", "B", "x", ALWAYS, None, HERE)
    providers = {**rules.providers, "own": extra}
    listing = {**rules.backends, "B": Backend("B", "x", ALWAYS, HERE, "B", providers=("x", "own"))}

    def row(table: str) -> Mapping[str, object]:
        changed = replace(rules.tables[table], rows=(*rules.tables[table].rows, using("own")))
        return {**rules.tables, table: changed}

    def using(name: str) -> Row:
        return replace(rules.tables["provider"].rows[0], target=name)

    def unused(**changed: object) -> list[Finding]:
        return list(lint_names(replace(rules, providers=providers, **changed)))  # type: ignore[arg-type]

    not_listed = Finding("unused-provider", HERE, "the provider `own` never runs: no backend lists it")
    no_row = Finding("unused-provider", HERE, "the provider `own` never runs: no row uses it")
    assert unused() == [not_listed]
    assert unused(backends=listing) == [no_row]
    assert unused(tables=row("provider")) == [not_listed]
    assert unused(backends=listing, tables=row("platform_default")) == [no_row]
    assert unused(backends=listing, tables=row("provider")) == []


# --- until --------------------------------------------------------------------------------------------------------

MACHINE: Mapping[str, Value] = {"platform": "cuda", "cudnn": 91002, "arch": None, "packages.flash-attn": "2.8.3"}
UNCLEAR = "row `none-fits`: `until` says `{}`: wanted a date or a fact with a comparison"
PASSED = "row `none-fits` was to stand until {}, and {}"


@pytest.mark.parametrize(
    ("until", "code", "message"),
    [
        ("2027-06-30", "until-passed", PASSED.format("2027-06-30", "today is 2027-06-30")),
        ("2027-06-29", "until-passed", PASSED.format("2027-06-29", "today is 2027-06-30")),
        ("2027-07-01", None, ""),
        ("cudnn >=9.5", "until-passed", PASSED.format("cudnn >=9.5", "cudnn is 91002")),
        ("cudnn   <9.5", None, ""),
        ("cudnn >=9.99", None, ""),
        ("packages.flash-attn ~=2.8", "until-passed",
         PASSED.format("packages.flash-attn ~=2.8", "packages.flash-attn is 2.8.3")),
        ("packages.flash-attn !=2.8.3", None, ""),
        ("packages.sageattention >=1", None, ""),
        ("arch >=sm_80", None, ""),
        ("head_dim =64", "unclear-until", UNCLEAR.format("head_dim =64")),
        ("cudnn >=x", "unclear-until", UNCLEAR.format("cudnn >=x")),
        ("packages.sageattention >=x", "unclear-until", UNCLEAR.format("packages.sageattention >=x")),
        ("platform ==cuda", "unclear-until", UNCLEAR.format("platform ==cuda")),
        ("nothing >=1", "unclear-until", UNCLEAR.format("nothing >=1")),
        ("soon", "unclear-until", UNCLEAR.format("soon")),
        ("some day", "unclear-until", UNCLEAR.format("some day")),
        ("cudnn>=9.5", "unclear-until", UNCLEAR.format("cudnn>=9.5")),
        ("2027-13-01", "unclear-until", UNCLEAR.format("2027-13-01")),
        ("a\nb", "unclear-until", UNCLEAR.format("a\\nb")),
    ],
)  # fmt: skip
def test_a_row_is_told_once_what_it_waits_for_has_come(until: str, code: str | None, message: str) -> None:
    """A day, or a version of something; what is not known has not come."""
    rules = row_with("provider", until=until)
    row = rules.tables["provider"].rows[-1]

    found = list(lint_until(rules, MACHINE, date(2027, 6, 30)))

    assert found == ([Finding(code, row.place, message, rows=("provider/none-fits",))] if code else [])


def test_rows_that_wait_for_nothing_are_not_told() -> None:
    """And every row that does is looked at."""
    rules = row_with("provider", until="2000-01-01")
    table = rules.tables["call"]
    first = replace(table.rows[0], until="x")
    rules = replace(rules, tables={"call": replace(table, rows=(first, *table.rows[1:])), **rules.tables})

    assert list(lint_until(shipped(), MACHINE, date(2100, 1, 1))) == []
    assert [finding.code for finding in lint_until(rules, MACHINE, date(2027, 6, 30))] == ["until-passed"]
    both = replace(rules, tables={"provider": rules.tables["provider"], "call": replace(table, rows=(first,))})
    assert [finding.code for finding in lint_until(both, MACHINE, date(2027, 6, 30))] == [
        "until-passed", "unclear-until",
    ]  # fmt: skip


# --- findings -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CODES)
def test_a_finding_is_given_as_plain_data(code: str) -> None:
    """With the level of its code; its witness may be none."""
    found = Finding(code, Place("a.yaml", 3, 5, "x"), "y", {"cudnn": None}, ("t/a", "t/b"))
    level = CODES[code][0]

    assert found.level == level
    assert found.to_dict() == {
        "code": code, "level": level, "file": "a.yaml", "line": 3, "column": 5, "message": "y",
        "rows": ["t/a", "t/b"], "witness": {"cudnn": None},
    }  # fmt: skip
    assert Finding(code, HERE, "y").to_dict()["witness"] is None
    assert Finding(code, HERE, "y", {}).to_dict()["witness"] == {}
    assert list(found.to_dict()) == ["code", "level", "file", "line", "column", "message", "rows", "witness"]
