from __future__ import annotations

import re
from typing import Any

from hypothesis import given, settings

from selector.config import read_config
from selector.facts import read_machine
from selector.faults import dotted
from selector.lines import Lines
from selector.ruleset import shipped
from selector.schemas.unsaid import UNSAID
from selector.structure import schema_faults
from tests.selector.schemas.documents import CONFIGS, FACTS, LINES

Found = list[tuple[str, str]]  # codes with paths


def agree(name: str, document: object, found: Found) -> None:
    """Hold that a schema accepts what the models accept, and refuses what they refuse but for what it cannot say."""
    told = schema_faults(name, document)
    if not found:
        assert not told, f"the schema alone refuses {document!r}"
    if not told:
        left = [one for one in found if not unsaid(name, *one)]
        assert not left, f"the models alone refuse {document!r}"


def unsaid(name: str, code: str, path: str) -> bool:
    """Whether the schema is not held to say this."""
    return any(one.code == code and re.fullmatch(one.where, path, re.DOTALL) for one in UNSAID[name])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(document=CONFIGS)
def test_config(document: object) -> None:
    """Schema and models accept the same configs."""
    faults, _ = read_config(document, shipped())

    agree("config", document, [(fault.code, dotted(fault.path)) for fault in faults])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(document=FACTS)
def test_facts(document: object) -> None:
    """Schema and models accept the same facts."""
    faults, _ = read_machine(document, shipped().vocabulary)

    agree("facts", document, [(fault.code, dotted(fault.path)) for fault in faults])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(line=LINES)
def test_lines(line: dict[str, Any]) -> None:
    """Schema and models accept the same lines; a refusal, or a fact that a decision needs, is no fault of the line."""
    error = Lines(shipped()).decide(line).error
    problems = () if error is None else error.problems

    agree("decide-line", line, [(item.code, item.place.path) for item in problems if item.code != "missing-fact"])
