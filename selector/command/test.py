"""`attention-selector test`: scenarios against rules, and how much of the rules they show."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from selector.command import given
from selector.command.usage import UsageError
from selector.rules.problems import Place, Problem, ProblemsError
from selector.ruleset import RuleSet
from selector.scenario import files
from selector.scenario.reading import read_scenarios
from selector.scenario.running import Run, run_scenarios
from selector.whole_files import write_whole

PASSED, FAILED = 0, 1
_ALL = 100


def run(options: argparse.Namespace) -> int:
    """Run the scenarios; the status is 1 when one fails or the coverage is too small, 2 when the input is wrong."""
    from selector.scenario.report import too_little  # the tree is loaded only where it is drawn

    least = options.min_coverage
    if least is not None and not 0 <= least <= _ALL:
        raise UsageError(f"`--min-coverage`: wanted a number from 0 to {_ALL}, got {least:g}")
    rules = given.rules(options)
    if options.generate is not None:
        return _generate(Path(options.generate), rules)
    found = run_scenarios(read_scenarios(_paths(options, rules), rules), rules)
    if options.junit is not None:
        from selector.scenario.junit import write_junit

        write_junit(options.junit, found, least)
    sys.stdout.write(_FORMATS[options.format](found, least, coverage=options.coverage))
    enough = least is None or too_little(found.coverage, least) is None
    return PASSED if found.passed and enough else FAILED


def _generate(path: Path, rules: RuleSet) -> int:
    """Write a small set of scenarios for the rules, or nothing where that cannot be done."""
    from selector.scenario.generating import generate, written

    made = generate(rules)
    write_whole(str(path), written(made, rules, path))
    sys.stdout.write(f"{path}: {len(made.scenarios)} scenarios\n")
    sys.stdout.write("".join(f"no situation found for {name}\n" for name in made.missed))
    return PASSED


def _paths(options: argparse.Namespace, rules: RuleSet) -> list[files.ScenarioPath]:
    paths = files.named(options.paths) if options.paths else files.beside(rules.folders)
    if not paths:
        message = "no scenario files stand beside the rules"
        raise ProblemsError([Problem(Place("rules"), "no-scenarios", message, "name a file or a folder")])
    return paths


def _text(found: Run, least: float | None, *, coverage: bool) -> str:
    return "".join(_pieces(found, least, coverage=coverage))


def _pieces(found: Run, least: float | None, *, coverage: bool) -> Iterator[str]:
    from selector.rendering import terminal
    from selector.scenario import report

    stream, environ = sys.stdout, os.environ
    look = report.Look(
        terminal.terminal_width(stream, environ),
        terminal.use_colour(stream, environ),
        terminal.use_ascii(stream),
    )
    yield from (report.failure(outcome, look) for outcome in found.failed)
    yield from (f"{report.contradiction(one)}\n" for one in found.shown)
    if coverage:
        yield from (f"{line}\n" for line in report.every(found.coverage))
    yield from (f"{line}\n" for line in report.summary(found))
    said = None if least is None else report.too_little(found.coverage, least)
    if said is not None or coverage:
        yield from (f"{line}\n" for line in report.missing(found.coverage))
    if said is not None:
        yield f"{said}\n"


def _json(found: Run, least: float | None, *, coverage: bool) -> str:
    from selector.scenario import report

    told = report.as_data(found, least)
    if coverage:
        told["items"] = report.items_data(found.coverage)
    return json.dumps(told, indent=2, allow_nan=False) + "\n"


_FORMATS = {"text": _text, "json": _json}
