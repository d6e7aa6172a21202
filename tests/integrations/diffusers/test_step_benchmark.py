"""The benchmark of a denoising step runs, on small models, and tells what it timed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import diffusers_step

pytestmark = pytest.mark.filterwarnings("ignore")  # models warn of what they use themselves


def _run(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr(sys, "argv", ["diffusers_step", "--small", "--repeats", "2", *flags])
    return diffusers_step.main()


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(name, marks=[] if name == "qwen_image_pair" else [pytest.mark.slow])
        for name in diffusers_step.STEPS
    ],
)
def test_each_way_is_timed(
    diffusers: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    model: str,
) -> None:
    """Stock, the machine's default, and what is asked for; outputs agree, and the backend that ran is told."""
    step = diffusers_step.STEPS[model]
    if not hasattr(diffusers, step.cls):
        pytest.skip(f"diffusers {diffusers.__version__} has no {step.cls}")

    assert _run(monkeypatch, "--model", model, "--backend", "TORCH_SDPA", "--json", str(tmp_path / "out.json")) == 0

    lines = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))["lines"]
    assert [line["way"] for line in lines] == ["stock", "apply, the machine's default", "apply, TORCH_SDPA"]
    assert {line["model"] for line in lines} == {step.about}
    assert all(line["difference"] < 0.02 and line["median"] > 0 for line in lines)
    assert all("TORCH_SDPA" in line["ran"] for line in lines[1:])
    assert step.about in capsys.readouterr().out


@pytest.mark.usefixtures("diffusers")
def test_one_repeat_is_too_few(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """There are no quartiles of one number."""
    with pytest.raises(SystemExit):
        _run(monkeypatch, "--repeats", "1")

    assert "wanted at least 2" in capsys.readouterr().err
