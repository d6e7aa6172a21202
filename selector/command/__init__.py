"""The command line: `attention-selector`."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from selector.command.options import parse
from selector.command.usage import UsageError
from selector.rules.problems import ProblemsError, reason_of

DONE, FOUND, WRONG_INPUT, REFUSED = 0, 1, 2, 3
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status.

    0: done; 1: a check found something; 2: the input is wrong; 3: the selection was refused. What is wrong goes to
    standard error, never as a traceback. A reader that closes the pipe early ends the command quietly.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    if sys.stdout is None:  # closed by who started us: nobody reads
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open as long as the process
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        options = parse(arguments)
        status: int = options.run(options)
        sys.stdout.flush()
    except UsageError as error:
        return complain(f"usage: {error}\n  hint: attention-selector --help")
    except ProblemsError as error:
        return complain(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    except OSError as error:
        return complain(f"standard output: cannot be written: {reason_of(error)}")
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def complain(text: str) -> int:
    """Write what is wrong with the input to standard error."""
    with contextlib.suppress(OSError, AttributeError):  # nobody listens; the exit status still tells
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    return WRONG_INPUT
