"""`validate`: every problem of rules, facts and config, each with its place; and what is well."""

from __future__ import annotations

from pathlib import Path

import pytest

from selector.ruleset import load_rules, shipped
from tests.selector.command.runs import ask
from tests.selector.conftest import overlay

CONFIG, BACKEND = "--diffusion-attention-config", "--diffusion-attention-backend"
RULES = f"rules: well formed, digest {shipped().digest[:12]}\n"


@pytest.fixture
def good(tmp_path: Path) -> str:
    """Give a file of facts that are well."""
    path = tmp_path / "good.yaml"
    path.write_text("platform: cuda\narch: sm_90\n", encoding="utf-8")
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    """Give a file of facts with two problems."""
    path = tmp_path / "bad.yaml"
    path.write_text("platform: cuda\narch: sm90\npackages:\n  kernels: 0.14\n", encoding="utf-8")
    return str(path)


def test_the_shipped_rules_are_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments that is what is checked."""
    assert ask(capsys, "validate") == (0, RULES, "")


def test_what_is_well_is_said(capsys: pytest.CaptureFixture[str], good: str) -> None:
    """Each input on a line."""
    ran = ask(capsys, "validate", "--facts", good, f"{CONFIG}.default", "SAGE_ATTN")

    assert ran == (0, f"{RULES}facts {good}: well formed\nconfig: well formed\n", "")


@pytest.mark.parametrize(
    "flags",
    [
        [CONFIG, '{"default": "TORCH_SDPA"}'],
        [BACKEND, "trtllm_attn"],
        [BACKEND, "auto"],
        ["--policy", "strict"],
        [f"{CONFIG}.per_role.cross.backend=SAGE_ATTN", BACKEND, "FLASH_ATTN"],
    ],
)
def test_the_config_is_checked_where_any_of_it_is_given(capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    """Whether its backends could run somewhere is another question."""
    assert ask(capsys, "validate", *flags) == (0, f"{RULES}config: well formed\n", "")


def test_every_problem_of_every_input_is_told(capsys: pytest.CaptureFixture[str], good: str, bad: str) -> None:
    """At once, each with its place, and what is well all the same."""
    flags = [
        "--facts",
        bad,
        "--facts",
        good,
        "--facts",
        "/nowhere/x.yaml",
        f"{CONFIG}.default",
        "NOPE",
        "--policy",
        "lax",
    ]

    ran = ask(capsys, "validate", *flags)

    assert (ran.status, ran.out) == (2, f"{RULES}facts {good}: well formed\n")
    lines = [line.split(": ")[:2] for line in ran.err.splitlines() if not line.startswith("  hint")]
    assert sorted(lines) == sorted([
        [f"{bad}:2:7", "bad-value"],
        [f"{bad}:4:12", "bad-value"],
        ["/nowhere/x.yaml", "unreadable"],
        [f"{CONFIG} (default)", "unknown-backend"],
        ["--policy", "bad-value"],
    ])  # fmt: skip


def test_a_config_that_cannot_be_read_is_a_problem_like_others(capsys: pytest.CaptureFixture[str], bad: str) -> None:
    """It does not hide those of the facts."""
    ran = ask(capsys, "validate", "--facts", bad, CONFIG, "{")

    assert ran.status == 2
    assert ran.err.count(bad) == 2
    assert f"{CONFIG}:1:2: json-syntax" in ran.err


def test_the_device_is_checked(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Against what each file lists."""
    path = tmp_path / "two.yaml"
    path.write_text("platform: cuda\ndevices: [{arch: sm_90}, {arch: sm_100}]\n", encoding="utf-8")

    assert ask(capsys, "validate", "--facts", str(path), "--device", "1").status == 0
    assert "no-device" in ask(capsys, "validate", "--facts", str(path), "--device", "2").err


def test_rules_are_checked_first(capsys: pytest.CaptureFixture[str], tmp_path: Path, bad: str) -> None:
    """Without them nothing else can be; several files tell all their problems."""
    folder = overlay(
        tmp_path / "o",
        {"roles.yaml": [("roles:", "rules:")], "explicit.yaml": [("policy: strict", "policy: strikt")]},
    )

    ran = ask(capsys, "validate", "--rules", str(folder), "--facts", bad)

    assert (ran.status, ran.out) == (2, "")
    assert f"{folder / 'roles.yaml'}:" in ran.err
    assert f"{folder / 'explicit.yaml'}:11:" in ran.err
    assert bad not in ran.err


def test_the_digest_is_that_of_the_rules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """With those of the user."""
    folder = overlay(tmp_path / "o", {"roles.yaml": [("cosmos3.gen: cross", "cosmos3.gen: self")]})

    ran = ask(capsys, "validate", "--rules", str(folder))

    assert ran.out == f"rules: well formed, digest {load_rules([folder]).digest[:12]}\n"
    assert ran.out != RULES


def test_the_config_is_checked_against_those_rules(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Which say what each backend reads."""
    edit = (
        "    providers: [fa4, fa3, fa2]\n",
        "    providers: [fa4, fa3, fa2]\n    reads: {skip_softmax: [threshold]}\n",
    )
    folder = overlay(tmp_path / "o", {"backends.yaml": [edit]})
    flags = [f"{CONFIG}.default.backend=FLASH_ATTN", f"{CONFIG}.default.skip_softmax.threshold=1.0"]

    assert ask(capsys, "validate", *flags).status == 2
    assert ask(capsys, "validate", *flags, "--rules", str(folder)).status == 0


def test_the_environment_is_checked_with_the_config(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it would be read."""
    monkeypatch.setenv("DIFFUSION_ATTENTION_BACKEND", "NOPE")

    assert ask(capsys, "validate", "--policy", "strict").err.startswith(
        "DIFFUSION_ATTENTION_BACKEND: unknown-backend: "
    )
    assert ask(capsys, "validate", BACKEND, "auto").status == 0
