"""`attention-selector init`: a folder of rules to start from, with three worked edits."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from selector import data
from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown

_SCHEMAS = ".schemas"
_ADVICE = """\
{folder} holds three worked edits of the shipped rules; keep what you need and delete the rest:
  10-*  a new GPU generation: its architecture joins a set
  20-*  another order on Blackwell: a row is moved
  30-*  a backend of your own: its package, what it can run, its row, what it does not take
Try them:
  attention-selector validate --rules {folder}
  attention-selector rules --rules {folder}
  attention-selector explain --rules {folder}
"""


def run(options: argparse.Namespace) -> int:
    """Write the folder whole, or leave everything as it was."""
    folder = Path(options.folder)
    try:
        problem = _obstacle(folder)
        if problem is None:
            _write(folder)
    except (OSError, ValueError) as error:
        problem = f"cannot write the folder: {reason_of(error)}"
    if problem is not None:
        raise ProblemsError([Problem(Place(shown(str(folder), 4096)), "unwritable", problem)])
    sys.stdout.write(_ADVICE.format(folder=options.folder))
    return 0


def _obstacle(folder: Path) -> str | None:
    """Say why nothing is written: what is there already is never touched."""
    if folder.is_dir():
        return "wanted an empty folder, or a new one: it holds files" if any(folder.iterdir()) else None
    if folder.exists():
        return "wanted an empty folder, or a new one: it is a file"
    return None


def _write(folder: Path) -> None:
    """Put the files together in a folder inside, and move them to their places once all of them are there."""
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".attention-selector-") as inside:
            made = Path(inside)
            _fill(made)
            for path in sorted(made.iterdir()):
                path.rename(folder / path.name)
    except BaseException:
        if new:
            shutil.rmtree(folder, ignore_errors=True)
        raise


def _fill(folder: Path) -> None:
    for path in sorted(data.folder("rules").joinpath("starter").glob("*.yaml")):
        shutil.copyfile(path, folder / path.name)
    (folder / _SCHEMAS).mkdir()
    for path in sorted(data.folder("schemas").glob("*.json")):
        shutil.copyfile(path, folder / _SCHEMAS / path.name)
