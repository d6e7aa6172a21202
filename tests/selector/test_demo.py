"""The demonstration: decisions for a model here and on three other machines, and attention computed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from selector import Selector, demo
from selector.catalog import ModelRole, Shape
from selector.ruleset import shipped

ROOT = Path(__file__).parents[2]


def test_the_demonstration_of_two_models() -> None:
    """Each role of each, on four machines, with the error of what was computed."""
    models = ["WanPipeline", "LTX2Pipeline"]
    command = [sys.executable, "-m", "selector.demo", *[part for model in models for part in ("--model", model)]]

    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False, timeout=120)

    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    for model in models:
        for role in shipped().models[model].roles:
            assert len(re.findall(rf"^    {re.escape(role)} ", done.stdout, re.MULTILINE)) >= 4
    for machine in ("this machine", "b200", "h100", "rtx-pro-6000"):
        assert done.stdout.count(f"  {machine}\n") == len(models)
    assert "TRTLLM_ATTN" in done.stdout
    errors = [float(found) for found in re.findall(r"largest error (\S+)", done.stdout)]
    assert errors
    assert max(errors) < 0.05


def test_a_model_that_nobody_knows_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before anything is printed."""
    monkeypatch.setattr(sys, "argv", ["demo", "--model", "WanPipeline", "--model", "Nobody"])

    with pytest.raises(SystemExit) as end:
        demo.main()

    out, err = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert "no model 'Nobody'" in err


def test_the_demonstration_in_this_process(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Status 0, as no error is larger than half precision explains; 1 if one were."""
    monkeypatch.setattr(sys, "argv", ["demo", "--model", "HunyuanVideo15Pipeline"])

    assert demo.main() == 0
    assert "key_and_query_padding" in capsys.readouterr().out
    monkeypatch.setattr(demo, "_HALF_PRECISION", 0.0)
    assert demo.main() == 1


def test_a_refusal_and_its_reason_are_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a backend is configured that a machine does not have."""
    monkeypatch.setenv("DIFFUSION_ATTENTION_BACKEND", "TRTLLM_ATTN")

    lines = list(demo._decisions(Selector(facts={"platform": "cpu"}), "WanPipeline"))

    assert all("none: TRTLLM_ATTN cannot run here" in line for line in lines)


def test_warnings_are_lines_below_their_role(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each on one of its own, and the build of a kernel beside its name."""
    monkeypatch.setenv("DIFFUSION_ATTENTION_BACKEND", "FLASH_ATTN_HUB")
    facts = {"platform": "cuda", "arch": "sm_90", "packages": {"flash-attn": "2.8.3"}}

    first, second, *_ = demo._decisions(Selector(facts=facts), "WanPipeline")

    assert first.split() == ["self", "FLASH_ATTN", "(fa2)", "explicit/able"]
    assert second.split()[:3] == ["!", "FLASH_ATTN_HUB", "needs"]


@pytest.mark.parametrize(
    ("lengths", "scaled"),
    [((75600, 75600), (635, 635)), ((34, 1024), (17, 512)), ((5, 5), (5, 5)), ((1, 99999), (1, 636))],
)
def test_lengths_are_scaled_together(lengths: tuple[int, int], scaled: tuple[int, int]) -> None:
    """By what brings the longer one to a size that a CPU computes at once; neither becomes zero."""
    assert demo._scaled(Shape("x", *lengths)) == scaled


@pytest.mark.parametrize(
    ("heads", "scaled"),
    [((48, 12), (8, 2)), ((40, 40), (8, 8)), ((2, 2), (8, 8)), ((64, 1), (64, 1)), ((0, 0), (8, 8))],
)
def test_heads_are_scaled_in_their_ratio(heads: tuple[int, int], scaled: tuple[int, int]) -> None:
    """As many share a KV head as before."""
    facts = {"num_heads": heads[0], "num_kv_heads": heads[1]} if heads[0] else {}

    assert demo._heads(ModelRole(None, facts, {}, None, None, ())) == scaled
