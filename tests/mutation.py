"""Hold what `mutmut run` found to the list of changes that no test can notice, and write docs/mutation.md.

``python -m tests.mutation`` (`make mutation` runs both) fails on a change that no test notices and that is not in
``mutation.yaml``, and on one of that list that is noticed, or is not made any more. For pytest it is a plugin: mutmut
takes tests that could not be started for tests that noticed the change, and so it is told otherwise; and it tries every
change in a copy of one process, which remembers what was found out without the change. Of many random tables it takes
the first ones.
"""

from __future__ import annotations

import datetime as dt
import functools
import os
import platform
import re
import subprocess
import sys
import textwrap
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "mutation.yaml"
PAGE = ROOT / "docs" / "mutation.md"
_WIDTH = 120
_TOOLS = ("mutmut", "pytest", "hypothesis")
_NOTICED = "killed"
_ENDLESS = "timeout"
_MISSED = ("survived", "no tests")
_NOT_STARTED = 35  # the exit status that mutmut calls suspicious
_CACHED = type(functools.cache(len))
_MOST_SEEDS = 60  # of hundreds, which take long to collect for every change
_FORGETTING = ("selector.rules.", "tests.selector.rules.")  # the shipped rules take long to read again
_RESULT = re.compile(r"\s+(?P<name>(?P<module>\S+)\.x_?(?P<function>[^\s.]+)__mutmut_\d+): (?P<status>.+)")
_INTRODUCTION = """\
# Which changes of the code no test notices

`make mutation` changes the code below in one place at a time: another sign, another constant, an argument left out. It
runs the tests that come by that place, and a change that none of them notices is a gap in the tests, unless nobody
could notice it. It takes half an hour or more on one core, so CI does not make it. `tests/mutation.yaml` lists the
changes that nobody can notice, each with the reason; one that is missing there, or is there and is noticed, is a
failure. `tests/mutation.py` writes this page. Files that are not in the table are not tried.
"""


def pytest_sessionstart() -> None:
    """Forget what was found out without the change: texts that were read, comparisons that were compiled."""
    if _is_changed():
        for name, module in list(sys.modules.items()):
            if name.startswith(_FORGETTING):
                for value in vars(module).values():
                    if isinstance(value, _CACHED):
                        value.cache_clear()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave out most random tables."""
    items[:] = [item for item in items if _seed(item) < _MOST_SEEDS]


def _seed(item: pytest.Item) -> int:
    """Give the number that a test draws from, 0 where there is none."""
    called = getattr(item, "callspec", None)
    return 0 if called is None else int(called.params.get("seed", 0))


def pytest_sessionfinish(exitstatus: int) -> None:
    """End the process of a change whose tests were not found, so that nobody takes this for a failed test."""
    if exitstatus == pytest.ExitCode.USAGE_ERROR and _is_changed():
        os._exit(_NOT_STARTED)


def _is_changed() -> bool:
    return "__mutmut_" in os.environ.get("MUTANT_UNDER_TEST", "")


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """A change of one function, as the lines that it takes out and puts in; its number moves with every edit."""

    file: str
    function: str
    lines: str

    def __str__(self) -> str:
        """Write it for a terminal."""
        return f"{self.file}, {self.function}\n{self.lines}"


@dataclass(frozen=True, slots=True)
class Listed:
    """Changes of one function that cannot be noticed, all for one reason."""

    file: str
    function: str
    changes: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one change."""

    name: str
    file: str
    function: str
    status: str


def results(text: str) -> Iterator[Result]:
    """Read what `mutmut results --all true` prints."""
    for line in text.splitlines():
        match = _RESULT.fullmatch(line)
        if match is not None:
            function = match["function"].strip("ǁ").replace("ǁ", ".")
            yield Result(match["name"], match["module"].replace(".", "/") + ".py", function, match["status"])


def changed(text: str) -> str:
    """Give the lines that a unified diff of one place takes out and puts in, without their indentation."""
    _, _, body = text.partition("\n@@")
    lines = [line for line in body.splitlines()[1:] if line.startswith(("-", "+"))]
    return "\n".join(f"{line[0]} {line[1:].strip()}" for line in lines)


def read_list(text: str) -> list[Listed]:
    """Read the list of what cannot be noticed."""
    return [
        Listed(entry["file"], entry["function"], tuple(change.strip() for change in entry["changes"]), entry["reason"])
        for entry in yaml.safe_load(text) or []
    ]


def difference(missed: Iterable[Change], listed: Iterable[Listed]) -> tuple[list[Change], list[Change]]:
    """Give the changes that are missed and not listed, and those that are listed and not missed."""
    found = Counter(missed)
    expected = Counter(Change(entry.file, entry.function, change) for entry in listed for change in entry.changes)
    return sorted((found - expected).elements()), sorted((expected - found).elements())


def page(tried: Sequence[Result], listed: Sequence[Listed], missing: Sequence[Change], day: dt.date) -> str:
    """Write docs/mutation.md."""
    tools = ", ".join(f"{name} {version(name)}" for name in _TOOLS)
    tools = f"Python {platform.python_version()}, {tools}"
    run = f"The last run (`mutmut run` and `python -m tests.mutation`): {day}, {tools}."
    counted = f"The tests that count: {_selection()}; of random tables with a seed each, the first {_MOST_SEEDS}."
    parts = [
        _INTRODUCTION,
        _prose(run) + "\n" + _prose(counted) + "\n",
        "\n".join(_table(tried)) + "\n",
        "## Not noticed, and not listed\n\n" + (_blocks(missing) or "None.\n"),
        "## Not noticed, because nobody can\n" if listed else "",
    ]
    for entry in listed:
        parts += [_prose(f"In `{entry.function}` of `{entry.file}`: {entry.reason.strip()}") + "\n"]
        parts += [_diff("\n".join(_apart(entry.changes)))]
    return "\n".join(part for part in parts if part)


def _prose(text: str) -> str:
    return textwrap.fill(text, _WIDTH, break_long_words=False, break_on_hyphens=False)


def _table(tried: Sequence[Result]) -> Iterator[str]:
    yield "| file | changes | noticed | without end | not noticed |"
    yield "|---|---|---|---|---|"
    counts = {file: Counter(one.status for one in tried if one.file == file) for file in _in_order(tried)}
    for name, count in [*((f"`{file}`", count) for file, count in counts.items()), ("all", sum_of(counts.values()))]:
        missed = sum(count[status] for status in _MISSED)
        yield f"| {name} | {count.total()} | {count[_NOTICED]} | {count[_ENDLESS]} | {missed} |"


def sum_of(counts: Iterable[Counter[str]]) -> Counter[str]:
    """Add counters up."""
    whole: Counter[str] = Counter()
    for count in counts:
        whole.update(count)
    return whole


def _selection() -> str:
    """Name the tests that are run."""
    content = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    return ", ".join(f"`{name}`" for name in content["tool"]["mutmut"]["pytest_add_cli_args_test_selection"])


def _in_order(tried: Sequence[Result]) -> list[str]:
    return sorted({one.file for one in tried})


def _blocks(changes: Iterable[Change]) -> str:
    return "\n".join(f"In `{one.function}` of `{one.file}`:\n\n{_diff(one.lines)}" for one in changes)


def _diff(lines: str) -> str:
    return f"```diff\n{lines}\n```\n"


def _apart(changes: Sequence[str]) -> Iterator[str]:
    """Write the line that several changes in a row take out once."""
    before = ""
    for change in changes:
        old = "\n".join(line for line in change.splitlines() if line.startswith("-"))
        new = "\n".join(line for line in change.splitlines() if line.startswith("+"))
        yield from [part for part in ("" if old == before else old, new) if part]
        before = old


def _mutmut(*arguments: str) -> str:
    command = [str(Path(sys.executable).parent / "mutmut"), *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def main() -> int:
    """Compare, write the page, and tell what differs."""
    tried = list(results(_mutmut("results", "--all", "true")))
    unfinished = [one.name for one in tried if one.status not in {_NOTICED, _ENDLESS, *_MISSED}]
    if unfinished or not tried:
        sys.stderr.write("\n".join(["not every change was tried:", *unfinished, ""]))
        return 1
    missed = [
        Change(one.file, one.function, changed(_mutmut("show", one.name))) for one in tried if one.status in _MISSED
    ]
    listed = read_list(LIST.read_text(encoding="utf-8"))
    missing, gone = difference(missed, listed)
    PAGE.write_text(page(tried, listed, missing, dt.datetime.now(tz=dt.UTC).date()), encoding="utf-8")
    for title, changes in (("no test notices, and the list does not have", missing), ("the list has too much", gone)):
        sys.stderr.writelines(f"{title}: {change}\n\n" for change in changes)
    return 1 if missing or gone else 0


if __name__ == "__main__":
    sys.exit(main())
