"""The examples of `deploy/`: well formed by the tools that know, and true of the product that they start."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from selector.command import serve
from selector.command.options import parse
from selector.ruleset import load_rules

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
MANIFEST = DEPLOY / "kubernetes" / "attention-selector.yaml"
UNIT = DEPLOY / "systemd" / "attention-selector.service"


def ran(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Run a command, and give what it said."""
    return subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, cwd=cwd)


def tool(name: str) -> Path:
    """Give a tool that is installed beside this Python."""
    return Path(sys.executable).with_name(name)


def resources() -> dict[str, Any]:
    """Give what the manifest holds, by kind."""
    return {one["kind"]: one for one in yaml.safe_load_all(MANIFEST.read_text(encoding="utf-8"))}


def container() -> Any:  # noqa: ANN401 - a part of a manifest
    """Give the one container."""
    (one,) = resources()["Deployment"]["spec"]["template"]["spec"]["containers"]
    return one


def test_the_dockerfile_is_one_that_hadolint_finds_nothing_in() -> None:
    """With all of its rules."""
    done = ran(tool("hadolint"), DEPLOY / "Dockerfile")

    assert (done.returncode, done.stdout) == (0, "")


def test_what_the_image_is_built_of_is_all_that_it_takes(tmp_path: Path) -> None:
    """A wheel is built of the files that are copied, which are those that the ignore file lets through."""
    copied = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    sources = [name for line in copied for name in line.split()[:-1]]
    for name in sources:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, tmp_path / name)

    done = ran(sys.executable, "-m", "build", "--wheel", "--no-isolation", ".", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == set(sources)


def test_the_image_starts_a_command_that_is_there() -> None:
    """As nobody in particular, with a check of its health."""
    entry = re.search(r"^ENTRYPOINT \[(.+)\]$", DOCKERFILE, re.MULTILINE)
    assert entry is not None
    name, *arguments = [word.strip().strip('"') for word in entry[1].split(",")]
    options = parse(arguments)

    assert name == "attention-selector"
    assert options.run.__name__ == parse(["serve"]).run.__name__
    assert f"EXPOSE {options.port}\n" in DOCKERFILE
    assert f"127.0.0.1:{options.port}/healthz" in DOCKERFILE
    assert "USER 10001:10001" in DOCKERFILE


def test_the_manifest_is_valid() -> None:
    """By the schemas of Kubernetes."""
    done = ran(tool("kubernetes-validate"), "--strict", MANIFEST)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_rules_of_the_manifest_load(tmp_path: Path) -> None:
    """And change something."""
    for name, text in resources()["ConfigMap"]["data"].items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    assert load_rules([tmp_path]).digest != load_rules().digest


def test_the_pod_starts_a_command_that_is_there_and_is_asked_by_a_name_that_it_knows() -> None:
    """Each probe by a host that is allowed, at an endpoint that answers; nothing is writable but its scratch folder."""
    options = parse(["serve", *container()["args"]])
    hosts = serve._hosts(options)

    assert resources()["Service"]["metadata"]["name"] in hosts
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        asked = container()[probe]["httpGet"]
        assert next(header["value"] for header in asked["httpHeaders"]) in hosts
        assert asked["path"] in ("/healthz", "/readyz")
    assert container()["ports"] == [{"name": "http", "containerPort": options.port}]
    assert container()["securityContext"]["readOnlyRootFilesystem"] is True
    mounts = {mount["mountPath"]: mount.get("readOnly", False) for mount in container()["volumeMounts"]}
    assert mounts == {"/rules": True, "/tmp": False}  # noqa: S108 - in the pod
    assert "ATTENTION_SELECTOR_CACHE=/tmp/" in DOCKERFILE


def test_the_unit_starts_a_command_that_is_there() -> None:
    """With flags that it takes."""
    start = re.search(r"^ExecStart=(\S+) (.+)$", UNIT.read_text(encoding="utf-8"), re.MULTILINE)
    assert start is not None

    options = parse(shlex.split(start[2]))

    assert start[1].endswith("/bin/attention-selector")
    assert options.rules == ["/etc/attention-selector/rules"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_the_unit_is_one_that_systemd_understands(tmp_path: Path) -> None:
    """With a command in place of ours, which is not installed where this runs."""
    text = UNIT.read_text(encoding="utf-8").replace("/opt/attention-selector/bin/attention-selector", "/bin/true")
    unit = tmp_path / UNIT.name
    unit.write_text(text, encoding="utf-8")

    done = ran("systemd-analyze", "verify", unit)

    assert (done.returncode, done.stderr) == (0, "")
