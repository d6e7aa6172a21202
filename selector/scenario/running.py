"""Running scenarios: each is decided, explained and compared, and what it showed of the rules is counted."""

from __future__ import annotations

from dataclasses import dataclass

from selector.decision import Decision
from selector.resolve import resolve
from selector.ruleset import RuleSet
from selector.scenario.coverage import Coverage
from selector.scenario.expecting import Difference, differences
from selector.scenario.reading import Scenario, Scenarios, Unreachable
from selector.serving import invalid
from selector.tracing import Trace


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out of one scenario; it passed where nothing differs."""

    scenario: Scenario
    decision: Decision
    trace: Trace
    differences: tuple[Difference, ...]

    @property
    def passed(self) -> bool:
        """Whether all that was wanted came out."""
        return not self.differences


@dataclass(frozen=True, slots=True)
class Shown:
    """Something that was said to be unreachable, and the scenario that shows it all the same."""

    unreachable: Unreachable
    scenario: str


@dataclass(frozen=True, slots=True)
class Run:
    """All outcomes, what they showed of the rules, and what is said to be unreachable, and shown all the same."""

    outcomes: tuple[Outcome, ...]
    coverage: Coverage
    unreachable: tuple[Unreachable, ...]
    shown: tuple[Shown, ...]

    @property
    def failed(self) -> list[Outcome]:
        """The outcomes that differ from what was wanted."""
        return [outcome for outcome in self.outcomes if not outcome.passed]

    @property
    def passed(self) -> bool:
        """Whether every scenario passed, and nothing showed what is said to be unreachable."""
        return not self.failed and not self.shown


def run_scenarios(read: Scenarios, rules: RuleSet) -> Run:
    """Run all scenarios."""
    coverage = Coverage(rules, {one.point for one in read.unreachable})
    outcomes = []
    for scenario in read.scenarios:
        outcome = _run(scenario, rules)
        outcomes.append(outcome)
        coverage.add(outcome.trace, scenario.id)
    firsts = [(one, coverage.items[one.point.code].first.get(one.point.does)) for one in read.unreachable]
    shown = tuple(Shown(one, first) for one, first in firsts if first is not None)
    return Run(tuple(outcomes), coverage, read.unreachable, shown)


def _run(scenario: Scenario, rules: RuleSet) -> Outcome:
    if scenario.faults:
        decision, trace = invalid(scenario.faults, rules, scenario.inputs.policy, scenario.id), Trace()
    else:
        decision = resolve(scenario.inputs, rules)
        trace = decision.explain()
    return Outcome(scenario, decision, trace, tuple(differences(scenario.expect, decision, trace)))
