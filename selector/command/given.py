"""The rules that a command line asks for."""

from __future__ import annotations

import argparse
import os
import sys

from selector.ruleset import RuleSet
from selector.selecting import rules_from


def rules(options: argparse.Namespace) -> RuleSet:
    """Load the rules; where one overlay undoes what another one did, say so on standard error."""
    found = rules_from(options.rules, os.environ)
    for notice in found.notices:
        sys.stderr.write(f"warning: {notice}\n")
    return found
