"""Finding scenario files: those that are named, those of a folder, and those that stand beside rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from selector import data
from selector.rule_files import SUFFIXES
from selector.rules.problems import Place, Problem, ProblemsError, reason_of, shown

FOLDER = "tests"
_MOST_LETTERS = 4096


class ScenarioPath(NamedTuple):
    """A file and what it is called in messages."""

    name: str
    path: Path


def named(paths: Sequence[str]) -> list[ScenarioPath]:
    """Give the files that are named, and for a folder those directly in it, each once.

    Raises `ProblemsError` for a folder that cannot be read or holds none; a file is read later.
    """
    found: dict[Path, ScenarioPath] = {}
    problems: list[Problem] = []
    for text in paths:
        try:
            files = _of(Path(text))
        except (OSError, ValueError) as error:
            problems.append(
                Problem(Place(shown(text, _MOST_LETTERS)), "unreadable", f"cannot read the folder: {reason_of(error)}")
            )
            continue
        if not files:
            message = "the folder holds no scenario file (*.yaml)"
            problems.append(Problem(Place(shown(text, _MOST_LETTERS)), "no-scenarios", message))
        for path in files:
            found.setdefault(path.absolute(), ScenarioPath(shown(str(path), _MOST_LETTERS), path))
    if problems:
        raise ProblemsError(problems)
    return list(found.values())


def beside(folders: Sequence[str]) -> list[ScenarioPath]:
    """Give the files below ``tests/`` of each folder of rules that has one, or the shipped ones where none is given.

    Other rules are meant to decide otherwise than the shipped ones, so that those scenarios say nothing about them.
    """
    if not folders:
        return list(_shipped())
    own = [Path(folder, FOLDER) for folder in folders]
    return named([str(path) for path in own if path.is_dir()])


def _of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(inner for inner in path.iterdir() if inner.suffix.lower() in SUFFIXES)


def _shipped() -> Iterator[ScenarioPath]:
    folder = data.folder("rules") / FOLDER
    for path in sorted(folder.glob("*.yaml")):
        yield ScenarioPath(f"rules/{FOLDER}/{path.name}", path)
