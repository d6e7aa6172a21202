"""What may stand on the command line of `log`."""

from __future__ import annotations

import argparse

from selector.log_columns import COLUMNS

LOG_VARIABLE = "ATTENTION_SELECTOR_LOG"
_HELP = {
    "category": "as it was asked about; a role's own category is not written",
    "source": "whose entry spoke: role, category, default or platform",
    "origin": "where that entry is written: config, flag, env or platform",
    "rule": "the row that decided, also where it refused",
    "error": "refused, invalid or mutually_exclusive",
    "digest": "the rules, by the beginning of their digest",
}
_METAVARS = {"rule": "TABLE/ROW", "model": "NAME", "digest": "PREFIX", "error": "CODE"}


def add(command: argparse.ArgumentParser) -> None:
    """Add the flags of `log`: one for each column, and what is done with the decisions that fit."""
    text = f"log to ask, SQLite or JSON lines; - is standard input (default: {LOG_VARIABLE})"
    command.add_argument("file", nargs="?", metavar="FILE", help=text)
    which = command.add_argument_group("which decisions")
    for name in COLUMNS:
        which.add_argument(f"--{name}", metavar=_METAVARS.get(name, name.upper()), help=_HELP.get(name))
    which.add_argument(
        "--since", metavar="TIME|AGE", help="a time such as 2026-11-30T10:00Z, or an age: 90s, 30m, 1h, 2d"
    )
    which.add_argument("--until", metavar="TIME|AGE", help="the same; decisions of just then are left out")
    which.add_argument("--limit", type=int, metavar="N", help="the last N of them, or the N most frequent values")
    command.add_argument("--count-by", choices=tuple(COLUMNS), help="count them by this instead")
    command.add_argument("--format", choices=("text", "json", "jsonl"), default="text")
