"""The codes of reasons, whole, against `codes.txt`: what logs and dashboards count does not change unseen.

After a change that is meant, write them again: GOLDEN=write pytest tests/selector/test_codes.py
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from selector.ruleset import shipped
from tests.selector.rendering.cases import CASES, Case

FILE = Path(__file__).parent / "codes.txt"
CODE = re.compile(r"[a-z_]+/[a-z0-9]+(-[a-z0-9]+)*:[a-z0-9_.-]+\.[a-z_]+")


def blamed(case: Case) -> Iterator[tuple[str, str]]:
    """Give the subject of each walk of a case with each code that is blamed in it, once each."""
    decision = case.decide()
    walks: list[Any] = decision.explain().to_dict() if decision.inputs is not None else []
    found = ((walk["subject"] or "-", code) for walk in walks for row in walk["rows"] for code in row.get("blamed", ()))
    yield from dict.fromkeys(found)


def text() -> str:
    """Write case, subject and code of every reason."""
    return "".join(
        f"{name} {subject} {code}\n"
        for name, case in CASES.items()
        if name != "hostile-role"
        for subject, code in blamed(case)
    )


def test_codes_are_the_ones_that_are_committed() -> None:
    """All of them, with whom they are about, in the order in which the tables are walked."""
    if os.environ.get("GOLDEN") == "write":
        FILE.write_text(text(), encoding="utf-8")

    assert text() == FILE.read_text(encoding="utf-8")


def test_a_code_has_its_form() -> None:
    """``table/row-id:fact.matcher``: it names a row, a fact of the vocabulary and a matcher, and no line or value."""
    codes = {line.rsplit(" ", 1)[1] for line in text().splitlines()}
    rows = {row.name for table in shipped().tables.values() for row in table.rows}

    assert len(codes) > 30
    assert all(CODE.fullmatch(code) for code in codes)
    assert {code.split(":")[0] for code in codes} <= rows
    assert {code.split(":")[1].rpartition(".")[0] for code in codes} <= {*shipped().vocabulary.facts}


def test_a_code_does_not_depend_on_where_a_row_stands_or_what_it_compares_with() -> None:
    """The same reason on another machine has the same code."""
    b200, other = CASES["b200-mask-unknown"], CASES["sm120-flash-attn-3-hub"]
    smaller = Case(b200.facts, {"head_dim": 72, "mask_free": True, "dtype": "bfloat16"})
    larger = Case(b200.facts, {"head_dim": 256, "mask_free": True, "dtype": "bfloat16"})

    assert [*blamed(smaller)] == [*blamed(larger)]
    assert [*blamed(smaller)] != [*blamed(other)]
