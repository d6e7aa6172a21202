from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest

from selector.rules.problems import TableError
from selector.ruleset import load_rules, shipped
from tests.selector.rules.folders import explicit, file, refusals

_BACK = "substitution-cycle: substitutions lead back to where they began:"


def _to(name: str, target: str, more: str = "") -> str:
    row = f"{name}-{len(target + more)}".lower().replace("_", "-")
    return f"id: {row}, when: {{backend: {name}{more}}}, substitute: {target}"


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([_to("SAGE_ATTN", "SAGE_ATTN")], ["7:5", "SAGE_ATTN → SAGE_ATTN"]),
        ([_to("SAGE_ATTN", "SAGE_ATTN_3"), _to("SAGE_ATTN_3", "SAGE_ATTN")],
         ["8:5", "SAGE_ATTN → SAGE_ATTN_3 → SAGE_ATTN"]),
        (
            [_to("SAGE_ATTN_3", "FLASH_ATTN"), _to("FLASH_ATTN", "SAGE_ATTN"), _to("SAGE_ATTN", "SAGE_ATTN_3")],
            ["7:5", "FLASH_ATTN → SAGE_ATTN → SAGE_ATTN_3 → FLASH_ATTN"],
        ),
        (
            [_to("TRTLLM_ATTN", "SAGE_ATTN"), _to("SAGE_ATTN", "SAGE_ATTN_3"), _to("SAGE_ATTN_3", "SAGE_ATTN")],
            ["9:5", "SAGE_ATTN → SAGE_ATTN_3 → SAGE_ATTN"],
        ),
        (
            ["id: many, when: {backend: [FLASH_ATTN, FLASH_ATTN_HUB]}, substitute: FLASH_ATTN_HUB"],
            ["7:5", "FLASH_ATTN_HUB → FLASH_ATTN_HUB"],
        ),
        (["id: any, when: {platform: cuda}, substitute: TORCH_SDPA"], ["7:5", "TORCH_SDPA → TORCH_SDPA"]),
        (
            ["id: a, when: {not: {backend: [SAGE_ATTN, TORCH_SDPA]}}, substitute: SAGE_ATTN_3"],
            ["7:5", "SAGE_ATTN_3 → SAGE_ATTN_3"],
        ),
    ],
    ids=["itself", "two", "three", "behind another", "one of many", "without a backend", "not"],
)  # fmt: skip
def test_substitutions_that_lead_back_are_found_when_the_tables_load(
    tmp_path: Path, rows: list[str], said: list[str]
) -> None:
    """A cycle is told once, with its path and the row that closes it."""
    explicit(tmp_path, *rows)

    assert refusals(tmp_path) == [f"explicit.yaml:{said[0]}: {_BACK} {said[1]}"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [_to("SAGE_ATTN", "SAGE_ATTN_3"), _to("SAGE_ATTN_3", "FLASH_ATTN"), _to("FLASH_ATTN", "TORCH_SDPA")],
        [
            _to("SAGE_ATTN", "TORCH_SDPA"),
            _to("SAGE_ATTN", "FLASH_ATTN", ", platform: cuda"),
            _to("FLASH_ATTN", "TORCH_SDPA"),
        ],
        ["id: a, when: {not: {backend: [TORCH_SDPA, SAGE_ATTN]}}, substitute: SAGE_ATTN"],
    ],
    ids=["none", "a chain", "two ways", "not"],
)
def test_substitutions_that_end_are_no_cycle(tmp_path: Path, rows: list[str]) -> None:
    """Chains, and two ways to the same end, load."""
    explicit(tmp_path, *rows)

    assert len(load_rules([tmp_path]).table("explicit").rows) == len(rows) + 2


def test_a_cycle_over_two_tables_is_found(tmp_path: Path) -> None:
    """What the call table puts in a backend's place is asked for in the explicit table again."""
    explicit(tmp_path, _to("FLASH_ATTN", "SAGE_ATTN"))
    call = """\
table: call
targets: backends
requires: [platform, backend, policy, mask]
rows:
  - {id: back, when: {backend: SAGE_ATTN, mask: additive}, substitute: FLASH_ATTN, because: x}
  - {id: last, refuse: no, because: x}
"""
    file(tmp_path, "call.yaml", call)

    assert refusals(tmp_path) == [f"call.yaml:5:5: {_BACK} FLASH_ATTN → SAGE_ATTN → FLASH_ATTN"]


def test_two_cycles_are_two_problems(tmp_path: Path) -> None:
    """One cycle does not hide another."""
    explicit(tmp_path, _to("SAGE_ATTN", "SAGE_ATTN"), _to("FLASH_ATTN", "FLASH_ATTN"))

    assert [one.split(": ")[0] for one in refusals(tmp_path)] == ["explicit.yaml:7:5", "explicit.yaml:8:5"]


def test_a_backend_that_is_put_in_its_own_place_is_a_cycle(tmp_path: Path) -> None:
    """The fact `backend` names the backend that the row stands in for."""
    explicit(tmp_path, 'id: a, when: {backend: SAGE_ATTN}, substitute: "{backend}"')

    assert len(refusals(tmp_path)) == 1


def _calls_while_loading(folder: Path) -> int:
    """Count the calls of functions of the rule set while rules load."""
    count = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.endswith("ruleset.py")

    sys.setprofile(seen)
    try:
        with pytest.raises(TableError):
            load_rules([folder])
    finally:
        sys.setprofile(None)
    return count


def test_the_search_for_cycles_does_not_grow_with_the_number_of_paths(tmp_path: Path) -> None:
    """Seven backends that each may stand in for every other have thousands of paths, and few rows."""
    names = [name for name in shipped().backends if name not in {"TORCH_SDPA", "TRTLLM_ATTN"}]
    several = ", ".join([*names, "TRTLLM_ATTN"])
    explicit(
        tmp_path,
        *(f"id: r{n}, when: {{backend: [{several}]}}, substitute: {name}" for n, name in enumerate(names)),
    )

    assert _calls_while_loading(tmp_path) < 5000
