"""Machines, requests and questions that many tests ask, as plain values."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from selector import data
from selector.decision import Decision
from selector.ruleset import RuleSet, shipped
from selector.selecting import Selector

BACKENDS = (
    "TORCH_SDPA",
    "CUDNN_ATTN",
    "FLASHINFER_ATTN",
    "FLASH_ATTN",
    "SAGE_ATTN",
    "SAGE_ATTN_3",
    "FLASH_ATTN_HUB",
    "FLASH_ATTN_3_HUB",
    "TRTLLM_ATTN",
)
FI = {"flashinfer": "0.6.18"}
FA2 = {"flash-attn": "2.8.3"}
FA3 = {"flash-attn-3": "0.0.3"}
FA4 = {"flash-attn-4": "4.0.0b18"}
SAGE1 = {"sageattention": "1.0.6"}
SAGE2 = {"sageattention": "2.2.0"}
SAGE3 = {"sageattn3": "1.0.0"}
HUB = {"kernels": "0.14.1"}
ALL = FI | FA2 | FA3 | FA4 | SAGE2 | SAGE3 | HUB
CPU: Mapping[str, object] = {"platform": "cpu", "arch": None, "cudnn": None, "packages": {}}
VARIABLES = ("DIFFUSION_ATTENTION_BACKEND", "ATTENTION_SELECTOR_POLICY", "ATTENTION_SELECTOR_RULES")


def cuda(
    arch: str | None = "sm_100", packages: Mapping[str, object] | None = None, cudnn: int | None = 91002
) -> dict[str, object]:
    """Give the facts of a CUDA machine; packages that are not named are absent."""
    return {"platform": "cuda", "arch": arch, "cudnn": cudnn, "packages": dict(packages or {})}


def without(facts: Mapping[str, object], *names: str) -> dict[str, object]:
    """Give facts with some left out, and so unknown."""
    return {name: value for name, value in facts.items() if name not in names}


def decide(
    facts: Mapping[str, object],
    request: Mapping[str, object] | None = None,
    *,
    config: Mapping[str, object] | None = None,
    backend: str | None = None,
    env: Mapping[str, str] | None = None,
    policy: str | None = None,
    rules: RuleSet | None = None,
) -> Decision:
    """Decide for one layer of one machine, with no environment but the one that is given."""
    chosen = Selector(
        rules=rules or shipped(), facts=facts, config=config, backend=backend, policy=policy, environment=env or {}
    )
    return chosen.decide(**(request or {}))  # type: ignore[arg-type]


def overlay(folder: Path, edits: Mapping[str, Sequence[tuple[str, str]]]) -> Path:
    """Copy shipped rule files into a folder, with texts replaced; each of the texts must be there."""
    folder.mkdir(exist_ok=True)
    for name, changes in edits.items():
        text = (data.folder("rules") / name).read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text, f"{name} does not say {old!r}"
            text = text.replace(old, new)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the variables of whoever runs the tests out of the answers."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def rules() -> RuleSet:
    """Give the shipped rules."""
    return shipped()


@pytest.fixture
def rules_copy(tmp_path: Path) -> Path:
    """Give a copy of all shipped rule files, to be edited."""
    folder = tmp_path / "rules"
    folder.mkdir()
    for path in data.folder("rules").glob("*.yaml"):
        shutil.copy(path, folder)
    return folder
