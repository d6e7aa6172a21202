"""The shipped tables, compiled and by columns, in every situation that the conformance lines ask about."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import pytest

from selector.configuring import choose
from selector.decision import Inputs
from selector.facts import read_machine, read_request
from selector.resolve import resolve
from selector.rules.columns import Columns, by_columns
from selector.rules.deciding import Decider
from selector.rules.tables import Row
from selector.rules.vocabulary import Value
from selector.rules.walk import first, walk
from selector.ruleset import RuleSet, shipped
from tests.selector.test_resolve import CONFORMANCE

Asked = list[tuple[str, dict[str, Value]]]


@pytest.fixture(scope="module")
def asked() -> Asked:
    """Give every table with the facts that it was asked about."""
    found: Asked = []
    with pytest.MonkeyPatch.context() as patch:

        def noted(self: Decider, facts: Mapping[str, Value]) -> Row | None:
            found.append((self.table.name, dict(facts)))
            return first(self.table, facts, self.abilities)

        patch.setattr(Decider, "first", noted)
        rules = shipped()
        for inputs in of_conformance(rules):
            resolve(inputs, rules)
    return found


def of_conformance(rules: RuleSet) -> Iterator[Inputs]:
    """Give what every line of the conformance files asks that is well."""
    for path in sorted(CONFORMANCE.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            _, machine = read_machine(line["facts"], rules.vocabulary)
            _, request = read_request(line["request"], rules.vocabulary)
            faults, choices = choose(line.get("config"), line.get("backend"), line.get("env", {}), rules)
            if not faults:
                yield Inputs(machine, request, choices, line.get("policy", "fallback"))


def test_every_table_decides_and_explains_as_the_walker_does(asked: Asked) -> None:
    """Whatever it was made into."""
    rules = shipped()
    made = {name: rules.decider(name) for name in rules.tables}
    bound = {name: decider.bind(decider.table.rows) for name, decider in made.items()}
    columns = {name: by_columns(Columns(one.table, one.abilities), one.table.rows) for name, one in made.items()}

    assert {name for name, _ in asked} == set(rules.tables)
    for name, facts in asked:
        one = made[name]
        wanted = first(one.table, facts, one.abilities)
        assert bound[name](facts) is wanted, (name, facts)
        assert columns[name](facts) is wanted, (name, facts)
        assert one.steps(facts) == tuple(walk(one.table, facts, one.abilities)), (name, facts)
