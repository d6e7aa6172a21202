"""`attention-selector facts`: this machine as a file that can be saved, edited and given back."""

from __future__ import annotations

import argparse
import json
import math
import sys

import yaml

from selector.command import given
from selector.command.usage import UsageError

_HEADER = "# Give these facts back with --facts. A package that is null is absent; `unknown` was not looked for.\n"


def run(options: argparse.Namespace) -> int:
    """Read the machine and write its facts."""
    from selector.probe import read_machine  # only this command needs it always

    if not 0 < options.timeout < math.inf:
        raise UsageError(f"`--timeout`: wanted a finite number of seconds above 0, got {options.timeout}")
    rules = given.rules(options)
    facts = read_machine(tuple(rules.vocabulary.packages.values()), deep=options.deep, timeout=options.timeout)
    if options.format == "json":
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
    else:
        sys.stdout.write(_HEADER + yaml.safe_dump(facts, sort_keys=False, allow_unicode=True))
    return 0
