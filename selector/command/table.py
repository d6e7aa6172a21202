"""`attention-selector table`: a rule table as a table, as it is written or where each row wins."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from pathlib import Path

from selector.command import given
from selector.command.usage import UsageError
from selector.facts import read_machine
from selector.faults import place
from selector.rendering.table import sheet
from selector.rendering.table_formats import FORMATS, terminal
from selector.rendering.terminal import terminal_width, use_ascii
from selector.rules.problems import FactsError, nearest, shown
from selector.rules.text import read_file
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet


def run(options: argparse.Namespace) -> int:
    """Write the table."""
    rules = given.rules(options)
    if options.name not in rules.tables:
        hint = nearest(options.name, rules.tables) or f"tables: {', '.join(rules.tables)}"
        raise UsageError(f"no table `{shown(options.name)}`; {hint}")
    if options.device and options.machine is None:
        raise UsageError("`--device` goes with `--for`: it chooses one of the GPUs of that machine")
    drawn = sheet(rules, options.name, effective=options.effective, machine=_machine(options, rules))
    if options.format == "terminal":
        text = terminal(drawn, terminal_width(sys.stdout, os.environ), ascii=use_ascii(sys.stdout))
    else:
        text = FORMATS[options.format](drawn)
    sys.stdout.write(text)
    return 0


def _machine(options: argparse.Namespace, rules: RuleSet) -> Mapping[str, Value] | None:
    """Read the facts of the machine that the table is for."""
    if options.machine is None:
        return None
    node = read_file(Path(options.machine))
    faults, machine = read_machine(node.plain(), rules.vocabulary, options.device)
    if faults:
        raise FactsError(place(faults, options.machine, node))
    return machine
