"""`attention-selector decide`: JSON lines in, one decision a line out, never stopping at a bad one."""

from __future__ import annotations

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator

from selector.command import given
from selector.decision_logs import Log
from selector.json_lines import STANDARD_INPUT, lines_of, opened
from selector.lines import Lines
from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown

_THRESHOLDS = (20_000, 20, 20)
_TOGETHER = 32
"""How many answers are written at a time."""


def run(options: argparse.Namespace) -> int:
    """Answer every line of the file, or of standard input."""
    rules = given.rules(options)
    with contextlib.ExitStack() as open_files:
        open_files.enter_context(_seldom_collecting())
        log = None if options.log is None else open_files.enter_context(given.log(options.log))
        lines = Lines(rules, options.device, trace=options.trace, log=log)
        stream = open_files.enter_context(opened(options.file))
        # Somebody may wait for the answer to one line before writing the next.
        write = _write_at_once if options.file == STANDARD_INPUT else open_files.enter_context(_written_together())
        for line in lines_of(stream, options.file):
            write(lines.answer(line.raw))
    if log is not None and log.dropped:
        raise _unlogged(log, options.log)
    return 0


def _write_at_once(answer: str) -> None:
    sys.stdout.write(answer + "\n")
    sys.stdout.flush()


@contextlib.contextmanager
def _written_together() -> Iterator[Callable[[str], None]]:
    """Give what writes answers, several at a time, for a write costs more than what it writes; the last at the end."""
    waiting: list[str] = []

    def write(answer: str) -> None:
        waiting.append(answer)
        if len(waiting) >= _TOGETHER:
            let_go()

    def let_go() -> None:
        some = "\n".join([*waiting, ""])
        waiting.clear()
        sys.stdout.write(some)

    try:
        yield write
    finally:
        let_go()


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
    said = reason_of(log.last_error) if log.last_error else "for no known reason"
    message = f"{log.dropped} decisions could not be written to the log: {said}"
    return ProblemsError([Problem(Place(shown(name, 4096)), "unwritable", message)])
