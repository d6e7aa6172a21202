"""What is drawn, whole, against files in `golden/`.

After a change that is meant, write them again and read the difference:

    GOLDEN=write pytest tests/selector/rendering/test_golden.py && git diff tests/selector/rendering/golden

Line numbers of rule files and the digest of the rules are the same in every file, so that moving a row changes nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import pytest

from selector.decision import Decision
from selector.rendering.mermaid import render_mermaid
from selector.rendering.tree import render_tree
from selector.rendering.whynot import render_why_not, why_not
from selector.tracing import Trace
from tests.selector.rendering.cases import CASES

GOLDEN = Path(__file__).parent / "golden"
WIDTHS = (40, 80, 120)
WHY_NOT = {
    "b200-mask-unknown": ("TRTLLM_ATTN", "FLASHINFER_ATTN", "CUDNN_ATTN"),
    "b200-declaration-wrong": ("TRTLLM_ATTN", "FLASH_ATTN"),
    "sm120-flash-attn-3-hub": ("FLASH_ATTN", "CUDNN_ATTN", "SAGE_ATTN_3"),
    "sm90-call-substituted": ("FLASH_ATTN",),
    "no-platform": ("TORCH_SDPA",),
}


def trace_of(decision: Decision) -> Trace:
    """Give the trace; a decision on an input that could not be read has none."""
    return Trace() if decision.inputs is None else decision.explain()


def tree(name: str, *, width: int = 80, colour: bool = False, ascii: bool = False) -> str:  # noqa: A002
    """Draw a case."""
    decision = CASES[name].decide()
    return render_tree(decision, trace_of(decision), width=width, colour=colour, ascii=ascii)


def mermaid(name: str) -> str:
    """Chart a case."""
    decision = CASES[name].decide()
    return render_mermaid(decision, trace_of(decision))


def why(name: str) -> str:
    """Ask a case why not, for each of its backends."""
    case = CASES[name]
    answers = [why_not(case.selector(), case.request, backend) for backend in WHY_NOT[name]]
    return "\n".join(render_why_not(answer, width=80, colour=False) for answer in answers)


def drawings() -> Iterator[tuple[str, Callable[[], str]]]:
    """Give every golden file with what is drawn into it."""
    for name in CASES:
        for width in WIDTHS:
            yield f"{name}.{width}.txt", partial(tree, name, width=width)
    for name in WHY_NOT:
        yield f"{name}.why-not.txt", partial(why, name)
    for name in ("sm120-flash-attn-3-hub", "hostile-role", "request-invalid"):
        yield f"{name}.mermaid.txt", partial(mermaid, name)
    yield "b200-mask-unknown.colour.txt", partial(tree, "b200-mask-unknown", colour=True)
    yield "sm90-trtllm-refused.colour.txt", partial(tree, "sm90-trtllm-refused", colour=True)
    yield "hostile-role.ascii.txt", partial(tree, "hostile-role", ascii=True)


DRAWINGS: Mapping[str, Callable[[], str]] = dict(drawings())


def normalised(text: str) -> str:
    """Write every line number of a rule file, and the digest of the rules, in the same way."""
    return re.sub(r"rules [0-9a-f]{12}\b", "rules 000000000000", re.sub(r"(\.yaml):\d+", r"\1:NN", text))


@pytest.mark.parametrize("name", DRAWINGS)
def test_drawing_is_the_golden_one(name: str) -> None:
    """A drawing is, character by character, what the golden file holds."""
    drawn = normalised(DRAWINGS[name]())
    if os.environ.get("GOLDEN") == "write":
        (GOLDEN / name).write_bytes(drawn.encode())

    assert drawn == (GOLDEN / name).read_bytes().decode()


def test_every_golden_file_is_drawn() -> None:
    """No golden file is left over from a case that is gone."""
    assert {path.name for path in GOLDEN.iterdir()} == set(DRAWINGS)


def test_shipped_rules_are_named_by_relative_paths() -> None:
    """A place in a shipped rule file reads the same on every machine."""
    plain = [draw() for name, draw in DRAWINGS.items() if ".colour." not in name]
    files = {file for text in plain for file in re.findall(r"[\w./-]+\.yaml", text)}

    assert files
    assert all(re.fullmatch(r"rules/\w+\.yaml", file) for file in files)
