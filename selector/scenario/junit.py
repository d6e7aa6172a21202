"""A run as JUnit XML: a suite for each file, a case for each scenario, and a suite for what was to be shown."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from selector.scenario import report
from selector.scenario.report import Look
from selector.scenario.running import Outcome, Run
from selector.whole_files import write_whole

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n'


def write_junit(name: str, run: Run, least: float | None) -> None:
    """Write the file whole or not at all: a reader never sees half of it. Raises `ProblemsError` where it cannot be."""
    write_whole(name, as_xml(run, least))


def as_xml(run: Run, least: float | None) -> str:
    """Write a run as JUnit XML."""
    by_file: dict[str, list[Outcome]] = {}
    for outcome in run.outcomes:
        by_file.setdefault(outcome.scenario.place.file, []).append(outcome)
    suites = [_suite(file, [*map(_case, outcomes)]) for file, outcomes in by_file.items()]
    suites.append(_suite("coverage", [*_coverage_cases(run, least)]))
    inner = "".join(text for text, _, _ in suites)
    counts = f"tests={_attribute(sum(tests for _, tests, _ in suites))}"
    counts += f" failures={_attribute(sum(failures for _, _, failures in suites))}"
    return f'{_HEAD}<testsuites name="attention-selector test" {counts} errors="0">\n{inner}</testsuites>\n'


_Case = tuple[str, bool]


def _suite(name: str, cases: Sequence[_Case]) -> tuple[str, int, int]:
    failures = sum(failed for _, failed in cases)
    counts = f'tests="{len(cases)}" failures="{failures}" errors="0" skipped="0"'
    inner = "".join(text for text, _ in cases)
    return f"  <testsuite name={_attribute(name)} {counts}>\n{inner}  </testsuite>\n", len(cases), failures


def _case(outcome: Outcome) -> _Case:
    scenario = outcome.scenario
    place = f"file={_attribute(scenario.place.file)} line={_attribute(scenario.place.line)}"
    names = f"classname={_attribute(Path(scenario.place.file).stem)} name={_attribute(scenario.id)} {place}"
    if outcome.passed:
        return f"    <testcase {names}/>\n", False
    fields = ", ".join(dict.fromkeys(difference.field for difference in outcome.differences))
    return _failed(names, f"differs: {fields}", report.failure(outcome, Look())), True


def _coverage_cases(run: Run, least: float | None) -> Iterator[_Case]:
    """Give a case for each thing that is said to be unreachable, and one for the share that is wanted."""
    told = {one.unreachable: report.contradiction(one) for one in run.shown}
    for one in run.unreachable:
        name = f'classname="unreachable" name={_attribute(f"{one.point.code} never {one.point.does}")}'
        if one in told:
            yield _failed(name, "shown all the same", told[one]), True
        else:
            yield f"    <testcase {name}/>\n", False
    if least is not None:
        name = f'classname="coverage" name={_attribute(f"at least {least:g} %")}'
        said = report.too_little(run.coverage, least)
        if said is None:
            yield f"    <testcase {name}/>\n", False
        else:
            yield _failed(name, said, "\n".join(report.missing(run.coverage))), True


def _failed(names: str, message: str, text: str) -> str:
    body = escape(_allowed(text))
    return (
        f'    <testcase {names}>\n      <failure type="failed" message={_attribute(message)}>{body}</failure>\n'
        "    </testcase>\n"
    )


def _attribute(value: object) -> str:
    return quoteattr(_allowed(str(value)))


def _allowed(text: str) -> str:
    """Write out what XML 1.0 cannot hold."""
    return _NOT_IN_XML.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)
