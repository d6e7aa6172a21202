"""The examples run with random weights, offline, and write real files."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")  # pipelines warn of what they use themselves
ROOT = Path(__file__).parents[3]
CONFIG = "--diffusion-attention-config"
IMAGE = ("text_to_image.py", "--random-weights", "--prompt", "a cat", "--height", "64", "--width", "48")
VIDEO = (
    "text_to_video.py", "--random-weights", "--prompt", "a cat", "--height", "32", "--width", "48", "--num-frames", "5",
)  # fmt: skip


class Done(NamedTuple):
    """How an example ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(
    diffusers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Give what runs an example of two steps in this process and an empty folder: libraries are long to load."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv("DIFFUSION_ATTENTION_BACKEND", raising=False)

    def ran(script: str, *flags: str) -> Done:
        status = importlib.import_module(script.removesuffix(".py")).main(["--num-inference-steps", "2", *flags])
        return Done(status, *capsys.readouterr())

    return ran


@pytest.mark.slow
def test_an_example_is_a_command(diffusers: ModuleType, tmp_path: Path) -> None:
    """Run by its path, from another folder."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": ""}
    script, *flags = IMAGE
    command = [
        sys.executable,
        str(ROOT / "examples" / script),
        *flags,
        "--model",
        "Qwen-Image",
        "--num-inference-steps",
        "1",
    ]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=environment, check=False, timeout=300
    )

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "image.png"), done.stderr
    assert (tmp_path / "image.png").stat().st_size > 100


@pytest.mark.parametrize(
    ("model", "choice"),
    [
        ("Qwen/Qwen-Image", ("--diffusion-attention-backend", "TORCH_SDPA")),
        pytest.param("stable-diffusion-3", (CONFIG, '{"per_role": {"joint": "TORCH_SDPA"}}'), marks=pytest.mark.slow),
    ],
)
def test_a_picture_is_written(run: Callable[..., Done], tmp_path: Path, model: str, choice: tuple[str, ...]) -> None:
    """With the backend named for all roles, and in JSON."""
    from PIL import Image

    done = run(*IMAGE, "--model", model, "--output", "cat.png", *choice)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "cat.png"), done.stderr
    assert "joint → 2 modules of transformer" in done.stderr
    assert "→ TORCH_SDPA – explicit/able: Using diffusion attention backend 'TORCH_SDPA'" in done.stderr
    with Image.open(tmp_path / "cat.png") as picture:
        assert (picture.format, picture.size) == ("PNG", (48, 64))
        assert len(picture.convert("L").getcolors(64 * 48)) > 10


def test_a_video_is_written(run: Callable[..., Done], tmp_path: Path) -> None:
    """With a dotted flag for one role; the other role is the machine's."""
    from PIL import Image

    choice = (f"{CONFIG}.per_role.cross.backend", "TORCH_SDPA")
    done = run(*VIDEO, "--model", "Wan-AI/Wan2.2-TI2V-5B-Diffusers", "--output", "cat.gif", *choice)

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "cat.gif"), done.stderr
    assert "→ TORCH_SDPA – explicit/able" in done.stderr
    assert "→ TORCH_SDPA – platform_default/torch-sdpa" in done.stderr
    with Image.open(tmp_path / "cat.gif") as video:
        assert (video.format, video.size, video.n_frames) == ("GIF", (48, 32), 5)


@pytest.mark.parametrize(
    ("choice", "status", "told"),
    [
        ((f"{CONFIG}.per_role.joint", "TORCH_SDPA"), 2, "role `joint` is configured and matches no module"),
        (("--diffusion-attention-backend", "TORCH_SPDA"), 2, "did you mean `TORCH_SDPA`?"),
        (("--diffusion-attention-backend", "CUDNN_ATTN"), 3, "CUDNN_ATTN cannot run here"),
    ],
)
def test_a_wrong_choice_is_told(
    run: Callable[..., Done], tmp_path: Path, choice: tuple[str, ...], status: int, told: str
) -> None:
    """And nothing is written; the exit status is that of the command."""
    done = run(*VIDEO, "--model", "wan", "--output", "cat.gif", *choice)

    assert done.returncode == status, done.stderr
    assert told in done.stderr
    assert not list(tmp_path.iterdir())
