"""A change of what is decided is an edit of YAML: each test edits a copy of the shipped rules, and no Python."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from selector import data
from selector.rules.text import read_file
from selector.ruleset import load_rules, shipped
from tests.selector.conftest import FI, cuda, decide

_SOURCES = Path(__file__).resolve().parents[3]
_WAN: Mapping[str, object] = {"head_dim": 128, "mask_free": True}


def _edit(folder: Path, name: str, change: Callable[[Any], object]) -> None:
    """Change one file of a copy of the rules as plain data."""
    path = folder / name
    content = read_file(path).plain()
    change(content)
    path.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _row(content: Any, name: str) -> int:  # noqa: ANN401 - what YAML holds
    return next(index for index, row in enumerate(content["rows"]) if row["id"] == name)


def test_writing_the_rules_anew_changes_nothing(rules_copy: Path) -> None:
    """An edit as plain data leaves what it does not touch as it was."""
    for path in rules_copy.iterdir():
        _edit(rules_copy, path.name, lambda content: content)

    assert load_rules([rules_copy]).digest == shipped().digest


def test_swapping_two_rows_changes_what_is_chosen(rules_copy: Path) -> None:
    """The order of rows is the preference: with cuDNN before TRTLLM_ATTN, a datacenter Blackwell gets cuDNN."""
    machine = cuda("sm_100", FI)

    def swap(content: Any) -> None:  # noqa: ANN401 - what YAML holds
        first, second = (_row(content, name) for name in ("blackwell-datacenter-trtllm", "blackwell-cudnn"))
        rows = content["rows"]
        rows[first], rows[second] = rows[second], rows[first]

    before = decide(machine, _WAN)
    _edit(rules_copy, "platform_default.yaml", swap)
    after = decide(machine, _WAN, rules=load_rules([rules_copy]))

    assert (before.backend, before.rule) == ("TRTLLM_ATTN", "platform_default/blackwell-datacenter-trtllm")
    assert (after.backend, after.rule) == ("CUDNN_ATTN", "platform_default/blackwell-cudnn")
    assert before.digest != after.digest


def test_a_new_generation_is_a_set_and_a_row(rules_copy: Path) -> None:
    """A GPU that nobody knew gets a backend of its own by a set of architectures and a row that asks for it."""
    machine = cuda("sm_130")
    row = {
        "id": "next-cudnn",
        "when": {"platform": "cuda", "arch": {"in": "next_generation"}, "cudnn": ">=9.5"},
        "use": "CUDNN_ATTN",
        "log": "(next {arch}, cuDNN {cudnn})",
        "because": "It is tried before the others.",
    }

    before = decide(machine, _WAN)
    _edit(
        rules_copy,
        "vocabulary.yaml",
        lambda c: c["sets"].update(next_generation={"fact": "arch", "values": ["sm_13x"]}),
    )
    _edit(rules_copy, "platform_default.yaml", lambda c: c["rows"].insert(_row(c, "torch-sdpa"), row))
    rules = load_rules([rules_copy])
    after = decide(machine, _WAN, rules=rules)

    assert (before.backend, before.rule) == ("TORCH_SDPA", "platform_default/torch-sdpa")
    assert (after.backend, after.rule) == ("CUDNN_ATTN", "platform_default/next-cudnn")
    assert after.log == "Defaulting to diffusion attention backend CUDNN_ATTN (next sm_130, cuDNN 91002)"
    assert decide(cuda("sm_120"), _WAN, rules=rules).backend == decide(cuda("sm_120"), _WAN).backend


def test_a_new_generation_joins_an_old_one_by_a_set_alone(rules_copy: Path) -> None:
    """Where the rows fit, one word in a set is all."""
    machine = cuda("sm_130", FI, None)

    before = decide(machine, _WAN)
    _edit(rules_copy, "vocabulary.yaml", lambda c: c["sets"]["blackwell_class"]["values"].append("sm_13x"))
    after = decide(machine, _WAN, rules=load_rules([rules_copy]))

    assert (before.backend, after.backend) == ("TORCH_SDPA", "FLASHINFER_ATTN")
    assert len(after.warnings) == len(before.warnings) + 1


def test_tightening_a_need_changes_every_row_that_uses_the_backend(rules_copy: Path) -> None:
    """What a backend can run is said once: a higher minimum moves the default and refuses the name."""
    machine = cuda("sm_120", cudnn=90500)

    def tighten(content: Any) -> None:  # noqa: ANN401 - what YAML holds
        content["backends"]["CUDNN_ATTN"]["ability"]["cudnn"] = {"min": "9.10", "unknown": "match"}

    _edit(rules_copy, "backends.yaml", tighten)
    rules = load_rules([rules_copy])

    assert decide(machine, _WAN).backend == "CUDNN_ATTN"
    assert decide(machine, _WAN, backend="CUDNN_ATTN").backend == "CUDNN_ATTN"
    assert decide(machine, _WAN, rules=rules).backend == "TORCH_SDPA"
    assert decide(machine, _WAN, backend="CUDNN_ATTN", rules=rules).backend is None


# --- and Python holds none of it ---


def _choices(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Give every text that a piece of Python compares with, matches, looks up or sorts by, with its line."""
    for found in ast.walk(tree):
        parts: list[ast.expr | ast.pattern | None] = []
        if isinstance(found, ast.Compare):
            parts = [found.left, *found.comparators]
        elif isinstance(found, ast.Dict):
            parts = list(found.keys)
        elif isinstance(found, ast.match_case):
            parts = [found.pattern]
        elif isinstance(found, ast.Subscript):
            parts = [found.slice]
        elif isinstance(found, ast.Call) and isinstance(found.func, ast.Attribute) and found.func.attr in _LOOK_UPS:
            parts = list(found.args)
        for text in (inner for part in parts if part is not None for inner in ast.walk(part)):
            if isinstance(text, ast.Constant) and isinstance(text.value, str | bytes | int):
                yield text.lineno, str(text.value)


_LOOK_UPS = {
    "startswith",
    "endswith",
    "get",
    "removeprefix",
    "match",
    "fullmatch",
    "search",
    "index",
    "count",
    "find",
    "pop",
}


def _is_choice(text: str) -> bool:
    names = {name.casefold() for name in shipped().backends}
    return text.casefold() in names or re.search(r"sm_?[0-9]", text, re.IGNORECASE) is not None


@pytest.mark.parametrize("package", ["selector", "backends"])
def test_python_compares_with_no_backend_and_no_architecture(package: str) -> None:
    """No condition, look-up or key in Python names a backend or an architecture: rules alone decide on them."""
    found = [
        f"{path.relative_to(_SOURCES)}:{line}: {text}"
        for path in sorted((_SOURCES / package).rglob("*.py"))
        for line, text in _choices(ast.parse(path.read_text(encoding="utf-8")))
        if _is_choice(text)
    ]

    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "x == 'CUDNN_ATTN'", "'sm_100' <= arch", "x in ('a', 'torch_sdpa')", "x not in {'SM90'}", "{'SAGE_ATTN': 1}",
        "d['sm_90']",
        "match x:\n case 'TRTLLM_ATTN': pass", "match x:\n case {'a': 'sm_120' | 'b'}: pass",
        "arch.startswith('sm_10')", "d.get('FLASH_ATTN')",
    ],
)  # fmt: skip
def test_a_choice_in_python_would_be_seen(code: str) -> None:
    """Each way of choosing by a name is one that the search above finds."""
    assert [text for _, text in _choices(ast.parse(code)) if _is_choice(text)] != []


@pytest.mark.parametrize(
    "code", ["name = 'CUDNN_ATTN'", "f'sm_{major}{minor}'", "x == 'sm_'", "log('TORCH_SDPA')", "x == 'attention'"]
)
def test_a_name_that_decides_nothing_is_let_be(code: str) -> None:
    """A kernel may say its own name."""
    assert [text for _, text in _choices(ast.parse(code)) if _is_choice(text)] == []


def test_the_shipped_rules_lie_where_the_sources_are() -> None:
    """In a checkout the rules beside the sources are the ones that are read."""
    assert data.folder("rules") == _SOURCES / "rules"
