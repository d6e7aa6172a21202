"""What is remembered of a rule set says the same as the definitions do."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from selector import prepared
from selector.lines import Lines
from selector.prepared import Prepared
from selector.rules.conditions import blame
from selector.rules.vocabulary import PACKAGE_PREFIX, Value
from selector.rules.walk import ability_of, first, holds, needs_newer
from selector.ruleset import RuleSet, load_rules, shipped

CASES = Path(__file__).parents[1] / "conformance"
OPEN = """\
table: platform_default
edits:
  - {id: named, when: {model: WanPipeline, packages.flashinfer: ">=0.7"}, use: FLASHINFER_ATTN, because: x,
     before: blackwell-cudnn}
"""


def situations() -> Iterator[Mapping[str, Value]]:
    """Give the facts of each of the conformance cases, and the same with older packages."""
    lines = Lines(shipped())
    for name in ("selection", "call"):
        for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            facts = lines.decide(json.loads(line)).facts
            if "platform" in facts:
                yield facts
                yield {
                    name: "0.1" if name.startswith(PACKAGE_PREFIX) and value is not None else value
                    for name, value in facts.items()
                }


SITUATIONS = list(situations())


@pytest.fixture(params=["shipped", "edited", "few kept"])
def rules(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RuleSet:
    """Give rule sets, one of which remembers next to nothing."""
    if request.param == "few kept":
        monkeypatch.setattr(prepared, "MOST_KEPT", 2)
    (tmp_path / "open.yaml").write_text(OPEN, encoding="utf-8")
    return load_rules([tmp_path] if request.param == "edited" else [])


def unmet(rules: RuleSet, table: str, facts: Mapping[str, Value]) -> list[str]:
    """Walk the rows that use the backend, and give the needs that are not met."""
    abilities = rules.abilities["backends"]
    using = [row for row in rules.table(table).rows if row.action == "use"]
    return [
        result.reason()
        for row in using
        if row.target_for(facts) == facts["backend"] and holds(row, facts, abilities) is not True
        for result in blame(ability_of(row, facts, abilities), facts, "ability")
    ]


@pytest.mark.parametrize("table", ["explicit", "call"])
def test_needs_that_are_not_met(rules: RuleSet, table: str) -> None:
    """Each once, for every backend, whatever was asked before."""
    of = Prepared(rules)

    for at, facts in enumerate(SITUATIONS):
        backends = list(rules.backends)
        asked = {**facts, "backend": backends[at % len(backends)]}
        assert list(of.unmet(table, asked)) == list(dict.fromkeys(unmet(rules, table, asked)))
        assert of.unmet(table, asked) == of.unmet(table, asked)


def test_newer_packages(rules: RuleSet) -> None:
    """The first row before the winner that a newer package would let win."""
    of, abilities = Prepared(rules), rules.abilities["backends"]
    versions = {PACKAGE_PREFIX + key for key in rules.vocabulary.packages}
    table = rules.table("platform_default")
    found = []

    for facts in SITUATIONS:
        winner = first(table, facts, abilities)
        assert winner is not None
        before = table.rows[: [row is winner for row in table.rows].index(True)]
        old = ((row, needs_newer(row, facts, abilities, versions)) for row in before)
        wanted = next(((row, results) for row, results in old if results), None)
        assert of.newer(winner, facts) == of.newer(winner, facts) == wanted
        found.append(wanted)

    assert any(found)
    assert not all(found)


def test_cautions(rules: RuleSet) -> None:
    """Those that stand, and those of each backend."""
    of = Prepared(rules)

    for facts in SITUATIONS:
        assert list(of.standing(facts)) == [one for one in rules.warnings if one.when.holds(facts) is True]
        for name, backend in rules.backends.items():
            holding = [one for one in backend.unverified if one.when.holds(facts) is True]
            assert list(of.unverified(name, facts)) == holding
