"""The distribution: what a wheel built from the sdist holds, and that its command works far from the source tree."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("backends", "rules", "schemas", "selector")
FILES = ("LICENSE", "README.md", "pyproject.toml")
DATA = ("rules", "schemas")
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
METADATA = f"attention_selector-{VERSION}.dist-info"
LEFT_BEHIND = shutil.ignore_patterns("__pycache__", ".*", "*~")
LINE = {
    "id": 1,
    "facts": {"platform": "cpu", "arch": None, "cudnn": None, "packages": {}},
    "request": {"role": "self"},
}


def run(*command: str | Path, cwd: Path, stdin: str = "") -> str:
    """Run a command without this process's environment; give its output, or fail with all that it printed."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "PYTHONUTF8": "1"}
    done = subprocess.run(
        command, cwd=cwd, env=environment, input=stdin, capture_output=True, encoding="utf-8", timeout=120, check=False
    )

    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def contents(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder, by its path from the folder's parent."""
    return {
        path.relative_to(folder.parent).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy what a build reads, and nothing else, so that a build cannot lean on anything else."""
    copy = tmp_path_factory.mktemp("tree")
    for name in FILES:
        shutil.copy(ROOT / name, copy)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, copy / name, ignore=LEFT_BEHIND)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the sdist from the tree and the wheel from the sdist, with the hatchling that is installed here."""
    dist = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", dist, tree, cwd=dist)
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel into a new environment that finds its dependencies, but not this tree, where they are here.

    Paths that a ``.pth`` file names come after the environment's own, and ``.pth`` files there are not read: so an
    editable install of this tree stays out of sight, and nothing is fetched.
    """
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False, symlinks=True)
    python = scripts(home) / "python"
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=home).strip()
    here = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    Path(site, "dependencies.pth").write_text("\n".join(sorted(here)) + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    run(*pip, "--no-warn-script-location", cwd=home)
    return home


def scripts(home: Path) -> Path:
    """Find the folder in which an environment keeps its commands."""
    return Path(sysconfig.get_path("scripts", scheme="venv", vars={"base": str(home)}))


def test_the_wheel_owns_two_top_level_packages(wheel: Path) -> None:
    """A wheel installs `selector`, `backends` and its own metadata: no `rules`, `schemas` or `tests` of anyone else."""
    with ZipFile(wheel) as archive:
        top = {name.split("/")[0] for name in archive.namelist()}

    assert top == {"selector", "backends", METADATA}


@pytest.mark.parametrize("folder", DATA)
def test_every_data_file_is_inside(wheel: Path, tree: Path, folder: str) -> None:
    """Each file of a data folder is in the wheel as it is in the tree, and the folder is not empty."""
    wanted = {f"selector/_data/{name}": content for name, content in contents(tree / folder).items()}

    with ZipFile(wheel) as archive:
        got = {
            name: archive.read(name)
            for name in archive.namelist()
            if name.startswith(f"selector/_data/{folder}/") and not name.endswith("/")
        }

    assert wanted
    assert got == wanted


@pytest.mark.parametrize("package", ["selector", "backends"])
def test_every_module_is_inside_and_typed(wheel: Path, tree: Path, package: str) -> None:
    """Each file of a package is in the wheel, with the marker that tells type checkers to read it."""
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())

    assert contents(tree / package).keys() <= names
    assert f"{package}/py.typed" in names


def test_the_licence_is_inside(wheel: Path) -> None:
    """The licence's text travels with the wheel."""
    with ZipFile(wheel) as archive:
        licence = archive.read(f"{METADATA}/licenses/LICENSE")

    assert licence == (ROOT / "LICENSE").read_bytes()


def test_the_packages_come_from_the_wheel(environment: Path, tmp_path: Path) -> None:
    """In the new environment both packages are the wheel's own, not this tree's."""
    program = "import backends, selector; print(backends.__file__); print(selector.__file__)"

    origins = run(scripts(environment) / "python", "-c", program, cwd=tmp_path).splitlines()

    assert [Path(origin).is_relative_to(environment) for origin in origins] == [True, True]


def test_the_command_decides_from_another_folder(environment: Path, tmp_path: Path) -> None:
    """The installed command answers a line with the rules that it brought, wherever it is called."""
    command = scripts(environment) / "attention-selector"

    answer = json.loads(run(command, "decide", cwd=tmp_path, stdin=json.dumps(LINE) + "\n"))

    assert (answer["id"], answer["error"], answer["backend"]) == (1, None, "TORCH_SDPA")
    assert answer["source"] == answer["origin"] == "platform"
