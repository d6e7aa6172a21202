"""`attention-selector validate`: every problem of rules, facts and config, each with its place."""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path

from selector.command import given
from selector.command.inputs import config
from selector.facts import read_machine
from selector.faults import place
from selector.rules.problems import FactsError, Problem, ProblemsError
from selector.rules.text import read_file
from selector.ruleset import RuleSet
from selector.selecting import Selector


def run(options: argparse.Namespace) -> int:
    """Check what was given; says what is well, and raises with all problems of all inputs otherwise."""
    rules = given.rules(options)  # nothing else can be checked without rules
    checks: dict[str, Callable[[], object]] = {
        f"facts {name}": functools.partial(_facts, name, rules, options.device) for name in options.facts
    }
    if options.config is not None or options.dotted or options.backend is not None or options.policy is not None:
        checks["config"] = functools.partial(_config, options, rules)
    sys.stdout.write(f"rules: well formed, digest {rules.digest[:12]}\n")
    problems: list[Problem] = []
    for name, check in checks.items():
        try:
            check()
        except ProblemsError as error:
            problems += error.problems
        else:
            sys.stdout.write(f"{name}: well formed\n")
    if problems:
        raise ProblemsError(problems)
    return 0


def _facts(name: str, rules: RuleSet, device: int) -> None:
    node = read_file(Path(name))
    faults, _ = read_machine(node.plain(), rules.vocabulary, device)
    if faults:
        raise FactsError(place(faults, name, node))


def _config(options: argparse.Namespace, rules: RuleSet) -> None:
    anywhere = {"platform": "cpu"}
    Selector(rules=rules, facts=anywhere, config=config(options), backend=options.backend, policy=options.policy)
