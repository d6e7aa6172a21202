"""The rules and the log that a command line asks for."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown
from selector.ruleset import RuleSet
from selector.selecting import rules_from

if TYPE_CHECKING:
    from selector.decision_logs import Log


def rules(options: argparse.Namespace) -> RuleSet:
    """Load the rules; where one overlay undoes what another one did, say so on standard error."""
    found = rules_from(options.rules, os.environ)
    for notice in found.notices:
        sys.stderr.write(f"warning: {notice}\n")
    return found


def log(name: str) -> Log:
    """Open a log of decisions. Raises `ProblemsError` where it cannot be written."""
    from selector.decision_logs import log_at  # only where a log is kept

    try:
        return log_at(name)
    except ProblemsError:
        raise
    except (OSError, ValueError) as error:
        problem = Problem(Place(shown(name, 4096)), "unwritable", f"cannot write the log: {reason_of(error)}")
        raise ProblemsError([problem]) from error
