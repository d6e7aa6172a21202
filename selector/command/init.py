"""`attention-selector init`: a folder of rules to start from, with three worked edits."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from selector import data
from selector.rules.problems import Place, Problem, ProblemsError, shown

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
        _write(folder)
    except (OSError, ValueError) as error:
        said = (getattr(error, "strerror", None) or str(error)).lower()
        problem = Problem(Place(shown(str(folder), 4096)), "unwritable", f"cannot write the folder: {said}")
        raise ProblemsError([problem]) from error
    sys.stdout.write(_ADVICE.format(folder=options.folder))
    return 0


def _write(folder: Path) -> None:
    """Put the files together beside the folder and move them there; what is there already is never touched."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        message = "wanted a folder that is not there yet, or is empty"
        raise ProblemsError([Problem(Place(shown(str(folder), 4096)), "not-empty", message)])
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".attention-selector-") as beside:
        made = Path(beside) / "rules"
        made.mkdir()
        for path in sorted(data.folder("rules").joinpath("starter").glob("*.yaml")):
            shutil.copyfile(path, made / path.name)
        (made / _SCHEMAS).mkdir()
        for path in sorted(data.folder("schemas").glob("*.json")):
            shutil.copyfile(path, made / _SCHEMAS / path.name)
        made.replace(folder)
