"""`attention-selector decide`: JSON lines in, one decision a line out, never stopping at a bad one."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Iterator

from selector.command import given
from selector.decision_logs import Log
from selector.json_lines import STANDARD_INPUT, lines_of, opened
from selector.lines import Lines
from selector.rules.problems import Place, Problem, ProblemsError, shown

_THRESHOLDS = (20_000, 20, 20)


def run(options: argparse.Namespace) -> int:
    """Answer every line of the file, or of standard input."""
    rules = given.rules(options)
    with contextlib.ExitStack() as open_files:
        open_files.enter_context(_seldom_collecting())
        log = None if options.log is None else open_files.enter_context(given.log(options.log))
        lines = Lines(rules, options.device, trace=options.trace, log=log)
        stream = open_files.enter_context(opened(options.file))
        for line in lines_of(stream, options.file):
            sys.stdout.write(lines.answer(line.raw) + "\n")
            if options.file == STANDARD_INPUT:
                sys.stdout.flush()
    if log is not None and log.dropped:
        raise _unlogged(log, options.log)
    return 0


@contextlib.contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Look for garbage less often, and not among the rules: a line leaves next to none."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _unlogged(log: Log, name: str) -> ProblemsError:
    said = given.said(log.last_error) if log.last_error else "for no known reason"
    message = f"{log.dropped} decisions could not be written to the log: {said}"
    return ProblemsError([Problem(Place(shown(name, 4096)), "unwritable", message)])
