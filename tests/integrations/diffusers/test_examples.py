"""The examples run with random weights, offline, and write real files; so does every command that a page shows."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest

from tests.integrations.diffusers.documented import RANDOM, ROOT, Command, commands

pytestmark = pytest.mark.filterwarnings("ignore")  # pipelines warn of what they use themselves
CONFIG = "--diffusion-attention-config"
BACKEND = "--diffusion-attention-backend"
ENVIRONMENT = "DIFFUSION_ATTENTION_BACKEND"
IMAGE = ("text_to_image.py", RANDOM, "--prompt", "a cat", "--model", "Qwen/Qwen-Image")
VIDEO = ("text_to_video.py", RANDOM, "--prompt", "a cat", "--model", "wan")
LTX2 = ("text_to_video.py", RANDOM, "--prompt", "a cat", "--model", "Lightricks/LTX-2")
COMMANDS = commands()


class Done(NamedTuple):
    """How an example ended, and what it wrote."""

    returncode: int
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def run(
    diffusers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Run]:
    """Give what runs an example in this process and an empty folder: libraries are long to load."""
    monkeypatch.syspath_prepend(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    verbosity = diffusers.utils.logging.get_verbosity()
    diffusers.utils.logging.set_verbosity_error()

    def ran(script: str, *flags: str) -> Done:
        capsys.readouterr()
        status = importlib.import_module(script.removesuffix(".py")).main(flags)
        return Done(status, *capsys.readouterr())

    yield ran
    diffusers.utils.logging.set_verbosity(verbosity)


def lacks(diffusers: ModuleType, model: str) -> str | None:
    """Give what is told where this version of diffusers has no pipeline of a model."""
    if "LTX" in model and not hasattr(diffusers, "LTX2Pipeline"):
        return f"diffusers {diffusers.__version__} has no LTX2Pipeline: this model needs a newer version\n"
    return None


class Held(NamedTuple):
    """What a file of a picture or video holds: width, height, frames, seconds of sound."""

    size: tuple[int, int]
    frames: int
    sound: float


def held(path: Path) -> Held:
    """Read a file back; one that is the same colour everywhere shows nothing."""
    if path.suffix == ".mp4":
        return _held_by_mp4(path)
    image = importlib.import_module("PIL.Image")
    with image.open(path) as picture:
        assert picture.format == path.suffix[1:].upper()
        assert len(picture.convert("L").getcolors(1 << 20)) > 10
        return Held(picture.size, getattr(picture, "n_frames", 1), 0.0)


def _held_by_mp4(path: Path) -> Held:
    av = importlib.import_module("av")
    with av.open(str(path)) as file:
        frames = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    assert all(frame.std() > 1 for frame in frames)
    with av.open(str(path)) as file:
        pieces = list(file.decode(audio=0)) if file.streams.audio else []
        seconds = sum(piece.samples / piece.sample_rate for piece in pieces)
        assert not pieces or max(abs(piece.to_ndarray()).max() for piece in pieces) > 0
    return Held(frames[0].shape[1::-1], len(frames), seconds)


# --- what pages show ---


@pytest.mark.parametrize("command", COMMANDS, ids=str)
def test_a_command_of_a_page_does_what_the_page_says(
    run: Run, diffusers: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """It writes the file that it names, of the size that it names, and tells what the page shows.

    One for real weights is run with random ones.
    """
    for name, text in command.files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name, text in command.environment.items():
        monkeypatch.setenv(name, text)
    flags = command.flags if RANDOM in command.flags else (*command.flags, RANDOM)

    done = run(command.script, *flags)

    lacking = lacks(diffusers, command.value("--model"))
    if lacking is not None:
        assert done == Done(2, "", lacking)
        return
    if command.told is not None:
        assert told(done) == command.told
    output = command.value("--output")
    if done.returncode == 0:
        assert done.stdout.splitlines()[-1] == output
        assert held(tmp_path / output)[:2] == asked(command)
    else:
        assert command.told is not None, done.stderr
        assert not (tmp_path / output).exists()


def told(done: Done) -> str:
    """Give what an example told, without the log, which tells each thing once in a process."""
    lines = done.stdout.splitlines(keepends=True)
    return done.stderr + "".join(line for line in lines if "[info" not in line and "[warning" not in line)


def asked(command: Command) -> tuple[tuple[int, int], int]:
    """Give the size and number of frames that a command asks for."""
    width, height, frames = (
        int(command.value(flag)) if flag in command.flags else default
        for flag, default in (("--width", 64), ("--height", 64), ("--num-frames", 9))
    )
    return (width, height), frames if "video" in command.script else 1


def test_the_pages_show_every_family_and_every_way_of_the_config(run: Run) -> None:
    """No small pipeline without a command, and no form of the config."""
    families = [
        *importlib.import_module("small_images").IMAGES,
        *importlib.import_module("small_videos").VIDEOS,
    ]
    models = ["".join(c for c in one.value("--model").lower() if c.isalnum()) for one in COMMANDS]
    after = [one.value(CONFIG) for one in COMMANDS if CONFIG in one.flags]

    assert [family for family in families if not any(family in model for model in models)] == []
    assert any(one.startswith("{") for one in after)
    assert any(one.endswith(".yaml") for one in after)
    assert any(flag.startswith(f"{CONFIG}.per_role") for one in COMMANDS for flag in one.flags)
    assert any(BACKEND in one.flags for one in COMMANDS)
    assert any(ENVIRONMENT in one.environment for one in COMMANDS)


# --- what they do besides ---


@pytest.mark.slow
def test_an_example_is_a_command(diffusers: ModuleType, tmp_path: Path) -> None:
    """Run by its path, from another folder."""
    offline = {"PYTHONWARNINGS": "ignore", "HF_HUB_OFFLINE": "1", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    script, *flags = IMAGE
    command = [sys.executable, str(ROOT / "examples" / script), *flags]

    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env=os.environ | offline, check=False, timeout=300
    )

    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "image.png"), done.stderr
    assert held(tmp_path / "image.png").size == (64, 64)


def test_the_backend_of_each_role_is_told(run: Run, tmp_path: Path) -> None:
    """One role was named, and the other is the machine's."""
    done = run(*VIDEO, "--output", "cat.gif", f"{CONFIG}.per_role.cross.backend", "TORCH_SDPA")

    assert done.returncode == 0, done.stderr
    assert [(line.split(" → ")[0], line.split(" – ")[1].split(":")[0]) for line in done.stderr.splitlines()] == [
        ("self", "platform_default/torch-sdpa"),
        ("cross", "explicit/able"),
    ]
    assert held(tmp_path / "cat.gif").frames == 9


def test_sound_is_written_beside_the_video(run: Run, diffusers: ModuleType, tmp_path: Path) -> None:
    """As long as the video, but for a piece that the encoder fills up; what makes none has none."""
    silent = run(*VIDEO, "--output", "silent.mp4")
    done = run(*LTX2, "--output", "cat.mp4", "--fps", "12")

    assert silent.returncode == 0, silent.stderr
    assert held(tmp_path / "silent.mp4") == ((64, 64), 9, 0.0)
    if lacks(diffusers, "LTX") is None:
        assert done.returncode == 0, done.stderr
        assert held(tmp_path / "cat.mp4")[:2] == ((64, 64), 9)
        assert held(tmp_path / "cat.mp4").sound == pytest.approx(9 / 12, abs=0.1)


def test_sound_that_a_file_cannot_hold_is_told(run: Run, diffusers: ModuleType) -> None:
    """A gif has none."""
    done = run(*LTX2, "--output", "cat.gif")

    assert done.stderr.endswith(
        lacks(diffusers, "LTX") or "cat.gif: 0.53 s of sound are left out, for a gif has none; an mp4 takes them\n"
    )


def test_guidance_is_that_of_the_flag(run: Run, tmp_path: Path) -> None:
    """Where the pipeline's call takes it, and where its guider does."""
    for model in ("wan", "HunyuanVideo-1.5"):
        pictures = []
        for scale in ("1.5", "9.0"):
            done = run(*VIDEO, "--model", model, "--output", "cat.gif", "--num-frames", "5", "--guidance-scale", scale)
            assert done.returncode == 0, done.stderr
            pictures.append((tmp_path / "cat.gif").read_bytes())
        assert pictures[0] != pictures[1]


WRONG = {
    "a role without modules": (
        (*VIDEO, f"{CONFIG}.per_role.joint", "TORCH_SDPA"),
        (2, "role `joint` is configured and matches no module; there are cross, self"),
    ),
    "a backend that is none": ((*VIDEO, BACKEND, "TORCH_SPDA"), (2, "did you mean `TORCH_SDPA`?")),
    "a backend that this machine lacks": ((*VIDEO, BACKEND, "CUDNN_ATTN"), (3, "CUDNN_ATTN cannot run here")),
    "a file of the config that is not there": ((*VIDEO, CONFIG, "none.yaml"), (2, "none.yaml")),
    "a model of no family": (
        (*VIDEO, "--model", "Qwen/Qwen-Image"),
        (2, "--model Qwen/Qwen-Image: with --random-weights wanted a name with one of these in it: wan, hunyuan"),
    ),
    "a file of no kind": (
        (*VIDEO, "--output", "cat.webm"),
        (2, "--output cat.webm: wanted a name that ends in .mp4 or .gif"),
    ),
}


@pytest.mark.parametrize(("flags", "wanted"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told(run: Run, tmp_path: Path, flags: tuple[str, ...], wanted: tuple[int, str]) -> None:
    """And nothing is written; the exit status is that of the command."""
    done = run(*flags)

    assert done.returncode == wanted[0], done.stderr
    assert wanted[1] in done.stderr
    assert not list(tmp_path.iterdir())


def test_an_mp4_needs_its_library(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked for before the pipeline runs."""
    monkeypatch.setitem(sys.modules, "av", None)

    done = run(*VIDEO, "--output", "cat.mp4")

    assert done == Done(2, "", "--output cat.mp4: an mp4 needs PyAV; pip install av, or name a gif\n")
