from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from selector.probe import child

TOTAL = 1000


def test_a_reason_is_one_printable_line_of_bounded_length() -> None:
    """Line breaks, colours and signs that no file can hold become blanks, and the end of a long text is cut."""
    assert child.one_line(" a\n\tb\x1b[31m\ud800c ") == "a b [31m c"
    assert child.one_line("x" * 400) == "x" * 299 + "…"
    assert child.one_line("x" * 300) == "x" * 300
    assert child.sentence_of(AssertionError()) == "AssertionError"
    assert child.sentence_of(FileNotFoundError(2, "gone")) == "FileNotFoundError: [Errno 2] gone"


@pytest.mark.parametrize(
    ("symbol", "failure"),
    [
        ("json:loads", None),
        ("json", None),
        ("json:JSONDecoder.decode", None),
        ("json:missing", "AttributeError: module 'json' has no attribute 'missing'"),
        ("no_such_module_here:name", "ModuleNotFoundError: No module named 'no_such_module_here'"),
        (
            "json.tool.missing:name",
            "ModuleNotFoundError: No module named 'json.tool.missing'; 'json.tool' is not a package",
        ),
    ],
)
def test_a_symbol_works_or_says_why_not(symbol: str, failure: str | None) -> None:
    """The module and then the attribute, which may have several parts."""
    assert child.failure_of(symbol) == failure


def test_symbols_are_told_one_by_one_up_to_the_first_that_works() -> None:
    """What was tried before a crash is known that way."""
    told: list[object] = []

    child.answer({"path": list(sys.path), "symbols": ["json:missing", "json:loads", "json:dumps"]}, told.append)

    assert told == ["AttributeError: module 'json' has no attribute 'missing'", None]


@pytest.mark.parametrize(
    ("build", "properties", "device"),
    [
        ("cuda", {"major": 12, "minor": 1}, {"arch": "sm_121"}),
        ("rocm", {"gcnArchName": "gfx942:sramecc+:xnack-"}, {"arch": "gfx942"}),
        ("xpu", {}, {}),
    ],
)
def test_devices_are_listed_as_torch_numbers_them(
    build: str, properties: dict[str, object], device: dict[str, object]
) -> None:
    """An arch on CUDA and ROCm; an Intel GPU has a name only."""
    torch = ModuleType("torch")
    named = SimpleNamespace(name="some GPU", total_memory=TOTAL, **properties)
    library = SimpleNamespace(device_count=lambda: 1, get_device_properties=lambda _: named)
    setattr(torch, "xpu" if build == "xpu" else "cuda", library)

    assert child.list_devices(torch, build) == [{"index": 0, "name": "some GPU", "memory": TOTAL} | device]


def report_of(folder: Path, source: str) -> dict[str, object]:
    """What the subprocess reports of a torch of this source."""
    (folder / "torch.py").write_text(source)
    asked = json.dumps({"path": [str(folder)], "torch": True})
    finished = subprocess.run((sys.executable, "-P", child.__file__, asked), capture_output=True, check=True)
    report = json.loads(finished.stdout)
    assert isinstance(report, dict)
    return report


@pytest.mark.parametrize(
    ("source", "report"),
    [
        (
            "raise OSError('libtorch.so: cannot open')",
            {"failure": "OSError: libtorch.so: cannot open", "missing": False},
        ),
        ("import gone", {"failure": "ModuleNotFoundError: No module named 'gone'", "missing": False}),
        (
            "__version__ = '2.0'; import types; version = types.SimpleNamespace()",
            {
                "version": "2.0",
                "build": "cpu",
                "switches": {},
                "devices_failure": "AttributeError: module 'torch' has no attribute 'cuda'",
            },
        ),
    ],
)
def test_torch_reports_what_it_can_or_why_not(tmp_path: Path, source: str, report: dict[str, object]) -> None:
    """A torch that cannot be imported, and one that cannot list its devices, each say why."""
    assert report_of(tmp_path, source) == report


def told_of_torch(torch: ModuleType | None, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What is told where this torch, or none, is what an import finds."""
    told: list[object] = []
    monkeypatch.setitem(sys.modules, "torch", torch)
    child.answer({"path": None, "torch": True}, told.append)
    return told


def test_a_missing_torch_is_told_from_a_broken_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the module itself missing counts as missing."""
    [report] = told_of_torch(None, monkeypatch)

    assert isinstance(report, dict)
    assert report["missing"] is True


def test_devices_are_part_of_the_report_or_the_reason_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """What torch cannot say is left out, and an answer that JSON cannot hold too."""
    torch = ModuleType("torch")
    vars(torch)["are_deterministic_algorithms_enabled"] = lambda: 0.5
    failure = "AttributeError: module 'torch' has no attribute 'cuda'"

    assert told_of_torch(torch, monkeypatch) == [{"switches": {}, "devices_failure": failure}]

    vars(torch)["cuda"] = SimpleNamespace(device_count=lambda: 0)

    assert told_of_torch(torch, monkeypatch) == [{"switches": {}, "devices": []}]


def test_only_the_answers_stand_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    """From the start of the child on, whatever else is printed goes to standard error."""
    kept = os.dup(1)
    try:
        child.main(json.dumps({"path": list(sys.path), "symbols": ["json:missing", "json:loads"]}))
        os.write(1, b"noise\n")
    finally:
        os.dup2(kept, 1)
        os.close(kept)

    out, err = capfd.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [
        "AttributeError: module 'json' has no attribute 'missing'",
        None,
    ]
    assert err == "noise\n"
