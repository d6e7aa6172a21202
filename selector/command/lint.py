"""`attention-selector lint`: what is wrong or doubtful about rules, proven over every situation."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from selector.analysis.findings import CODES, LEVELS, Finding
from selector.analysis.lint import lint_tables, ordered
from selector.analysis.names import lint_names, lint_until
from selector.command.usage import UsageError
from selector.facts import read_machine
from selector.faults import place
from selector.rules.problems import FactsError, ProblemsError, shown
from selector.rules.text import read_file
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet
from selector.scenario.files import beside
from selector.scenario.reading import read_scenarios
from selector.selecting import rules_from


def run(options: argparse.Namespace) -> int:
    """Write the findings; the status is 1 when one of them is an error or a warning."""
    if options.steps < 1:
        raise UsageError(f"`--steps`: wanted a number of at least 1, got {options.steps}")
    rules = rules_from(options.rules, os.environ)  # what its notices say is told as findings
    today = datetime.now(UTC).date()
    found = [
        *lint_tables(rules, options.steps),
        *lint_names(rules),
        *lint_until(rules, _machine(options, rules), today),
        *_missing_rows(rules),
        *(Finding("changed-twice", notice.place, notice.message) for notice in rules.notices),
    ]
    told = [finding for finding in ordered(found) if options.notes or finding.level != "note"]
    if options.format == "json":
        sys.stdout.write(json.dumps([finding.to_dict() for finding in told], indent=2) + "\n")
    else:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(told, found, rules)))
    return 1 if any(finding.level != "note" for finding in found) else 0


def _missing_rows(rules: RuleSet) -> Iterator[Finding]:
    """Find rows that scenarios name and that there are not; what else is wrong with them, `test` tells."""
    try:
        read_scenarios(beside(rules.folders), rules)
    except ProblemsError as error:
        for problem in error.problems:
            if problem.code in ("unknown-row", "unknown-code"):
                yield Finding("missing-row", problem.place, problem.message)


def _machine(options: argparse.Namespace, rules: RuleSet) -> Mapping[str, Value]:
    """Give the facts at hand: those of a file, or this machine's."""
    if options.facts is None:
        from selector.probe import read_machine as probe  # only when the machine is asked

        return read_machine(probe(tuple(rules.vocabulary.packages.values())), rules.vocabulary)[1]
    node = read_file(Path(options.facts))
    faults, machine = read_machine(node.plain(), rules.vocabulary)
    if faults:
        raise FactsError(place(faults, options.facts, node))
    return machine


def _lines(told: list[Finding], found: list[Finding], rules: RuleSet) -> Iterator[str]:
    for finding in told:
        yield f"{finding.place}: {finding.level}: {finding.code}: {finding.message}"
        if finding.witness is not None:
            facts = ", ".join(f"{name} {shown(value)}" for name, value in finding.witness.items())
            yield f"  such as: {facts}"
    for code in dict.fromkeys(finding.code for finding in told):
        yield f"  {code}: {CODES[code][1]} See docs/lint.md#{code}."
    counts = Counter(finding.level for finding in found)
    rows = sum(len(table.rows) for table in rules.tables.values())
    summary = ", ".join(f"{counts[level]} {level}{'' if counts[level] == 1 else 's'}" for level in LEVELS)
    hidden = "" if len(told) == len(found) else " (--notes tells the notes)"
    yield f"{rows} rows in {len(rules.tables)} tables: {summary}{hidden}"
