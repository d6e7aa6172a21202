"""Writing files whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown

_MOST_LETTERS = 4096


def write_whole(name: str, text: str) -> None:
    """Write a file so that a reader never sees half of it. Raises `ProblemsError` where it cannot be written."""
    path = Path(name)
    beside = path.with_name(f".{path.name}.{os.getpid()}.tmp") if path.name else path
    try:
        try:
            with beside.open("x", encoding="utf-8") as file:
                file.write(text)
            beside.replace(path)
        finally:
            beside.unlink(missing_ok=True)
    except (OSError, ValueError) as error:
        problem = Problem(Place(shown(name, _MOST_LETTERS)), "unwritable", f"cannot write the file: {reason_of(error)}")
        raise ProblemsError([problem]) from error
