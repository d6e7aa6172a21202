"""What the probe says of where its facts come from."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from selector.origins import word_of
from selector.probe import Probed, probe_machine, read_machine
from selector.probe.deep import DeepReport
from tests.selector.probe.machines import Entry, Machine
from tests.selector.probe.test_machine import MI300, TWO_B200

FRESH = {"build": "cuda", "version": "2.11.0", "cudnn": 91002, "devices": [{"index": 0, "name": "x", "arch": "sm_90"}]}


def torch_module(**parts: object) -> ModuleType:
    """Give a torch that this process has imported."""
    torch = ModuleType("torch")
    torch.__dict__.update(parts)
    return torch


def deep(monkeypatch: pytest.MonkeyPatch, machine: Machine, torch: Mapping[str, object]) -> Probed:
    """Probe deeply, with the report that a subprocess gives of torch."""
    monkeypatch.setattr("selector.probe.machine.import_all", lambda *_: DeepReport(torch, {}))
    return probe_machine([], deep=True, system=machine.system())


@pytest.mark.parametrize(
    ("machine", "platform", "origin"),
    [
        (Machine(driver=TWO_B200), "cuda", "device query"),
        (Machine(files=MI300), "rocm", "device query"),
        (Machine(), "cpu", "device query"),
        (Machine(installed={"torch": "2.11.0+rocm6.4"}), "rocm", "package metadata"),
        (Machine(installed={"torch-npu": "2.11.0"}), "npu", "package metadata"),
        (Machine(files={"/dev/davinci_manager": ""}, installed={"torch-npu": "2.11.0"}), "npu", "device query"),
        (Machine(loaded={"torch": torch_module(version=SimpleNamespace(xpu="2025.1"))}), "xpu", "torch"),
    ],
)
def test_the_platform_is_told_by_what_tells_it(machine: Machine, platform: str, origin: str) -> None:
    """A device, what is installed, or the torch that is imported."""
    facts, origins = probe_machine([], system=machine.system())

    assert (facts["platform"], origins["platform"]) == (platform, origin)
    assert origins["arch"] == "device query"


def test_what_a_subprocess_finds_is_a_deep_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch's own devices and cuDNN; a torch that is imported here goes before it."""
    loaded = torch_module(_C=SimpleNamespace(_cudnn=SimpleNamespace(getVersionInt=lambda: 91900)))

    _, fresh = deep(monkeypatch, Machine(), FRESH)
    facts, both = deep(monkeypatch, Machine(loaded={"torch": loaded}), FRESH)

    assert fresh == {"platform": "deep probe", "arch": "deep probe", "cudnn": "deep probe"}
    assert both == {"platform": "deep probe", "arch": "deep probe", "cudnn": "torch"}
    assert facts["cudnn"] == 91900


def test_that_a_build_has_no_cudnn_is_told_by_what_tells_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metadata say so of a CPU build beside a GPU, or a subprocess that imported it."""
    machine = Machine(driver=TWO_B200, installed={"torch": "2.11.0+cpu"})

    plain = probe_machine([], system=machine.system())
    tried = deep(monkeypatch, machine, {"build": "cpu", "version": "2.11.0"})

    assert (plain.facts["cudnn"], plain.origins["cudnn"]) == (None, "package metadata")
    assert (tried.facts["cudnn"], tried.origins["cudnn"]) == (None, "deep probe")


@pytest.mark.parametrize(
    "machine", [Machine(), Machine(driver=TWO_B200), Machine(files=MI300)], ids=["", "cuda", "rocm"]
)
def test_saved_facts_are_as_they_were(machine: Machine) -> None:
    """Origins stand beside the facts and not in them; each begins with a word of the list."""
    entries: list[Any] = [Entry("kernels", ("kernels",)), Entry("flash-attn", ("flash-attn",))]

    facts, origins = probe_machine(entries, system=machine.system())

    assert facts == read_machine(entries, system=machine.system())
    assert "origins" not in facts
    assert set(origins) == {"platform", "arch", "cudnn", "packages.kernels", "packages.flash-attn"}
    assert all(map(word_of, origins.values()))
