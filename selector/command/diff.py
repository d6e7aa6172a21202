"""`attention-selector diff`: in which situations two rule sets decide differently."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from selector.analysis.diff import Change, Diff, diff
from selector.analysis.machines import narrowed, on_machine
from selector.command.usage import UsageError
from selector.facts import read_machine
from selector.faults import place
from selector.rendering import differences
from selector.rule_files import FILES, TABLES
from selector.rules.problems import FactsError, Place, Problem, ProblemsError, reason_of, shown
from selector.rules.text import read_file
from selector.ruleset import RuleSet, load_rules, shipped

SHIPPED = "shipped"


def run(options: argparse.Namespace) -> int:
    """Write what changes; the status is 1 when anything does."""
    if options.steps < 1:
        raise UsageError(f"`--steps`: wanted a number of at least 1, got {options.steps}")
    with contextlib.ExitStack() as kept:
        old, new = (_loaded(name, kept) for name in (options.old, options.new))
    found = diff(old, new, options.steps)
    machines = {name: _concerning(name, found, new) for name in options.fleet} if options.fleet else None
    if machines is not None:
        found = narrowed(found, [change for changes in machines.values() for change in changes])
    sys.stdout.write(_written(found, machines, options.format))
    return 1 if found.changed else 0


def _written(found: Diff, machines: Mapping[str, Sequence[Change]] | None, form: str) -> str:
    if form == "json":
        return json.dumps(differences.as_data(found, machines), indent=2) + "\n"
    return (differences.as_markdown if form == "markdown" else differences.as_text)(found, machines)


def _loaded(name: str, kept: contextlib.ExitStack) -> RuleSet:
    """Load the rules that a word stands for: a folder or file, `shipped`, or a revision of git with a path."""
    path = Path(name)
    if path.exists():
        return _load(path)
    if name == SHIPPED:
        return shipped()
    revision, colon, inner = name.partition(":")
    if not colon:
        message = "no such folder or file, and no revision with a path (`HEAD~1:rules`)"
        raise ProblemsError([Problem(Place(shown(name, 4096)), "unreadable", message)])
    folder = Path(kept.enter_context(tempfile.TemporaryDirectory(prefix="attention-selector-")))
    _check_out(revision, inner, folder, name)
    return _load(folder / inner)


def _load(path: Path) -> RuleSet:
    """Load a folder: laid over the shipped rules, or by itself where it holds everything."""
    return load_rules(base=path) if is_whole(path) else load_rules([path])


def is_whole(path: Path) -> bool:
    """Whether a folder holds every kind of file that a rule set has, each under its usual name."""
    return path.is_dir() and all((path / f"{name}.yaml").is_file() for name in (*FILES, *TABLES))


def _check_out(revision: str, inner: str, folder: Path, name: str) -> None:
    """Write a path of a revision into a folder."""
    command = ["git", "archive", "--format=tar", revision, "--", inner or "."]
    if revision.startswith("-"):
        raise UsageError(f"`{shown(name)}` is no revision")
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except OSError as error:
        problem = Problem(Place(shown(name)), "no-git", f"git cannot be run: {reason_of(error)}")
        raise ProblemsError([problem]) from error
    if done.returncode:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason"]
        raise ProblemsError([Problem(Place(shown(name)), "no-revision", f"git says: {shown(said[0], 200)}")])
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        archive.extractall(folder, filter="data")


def _concerning(name: str, found: Diff, rules: RuleSet) -> list[Change]:
    """Give the changes that concern a machine, of whatever device of it."""
    node = read_file(Path(name))
    value = node.plain()
    devices = value.get("devices") if isinstance(value, dict) else None
    count = len(devices) if isinstance(devices, list) and devices else 1
    changes: list[Change] = []
    for device in range(count):
        faults, machine = read_machine(value, rules.vocabulary, device)
        if faults:
            raise FactsError(place(faults, name, node))
        changes += [one for table in found.tables for one in on_machine(table, machine, rules.vocabulary)]
    return list({id(change): change for change in changes}.values())
