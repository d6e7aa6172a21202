"""What `decide` remembers of lines changes no answer, and is bounded."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import BinaryIO

import pytest

from selector import lines
from selector.command import decide, main
from selector.facts import read_machine
from selector.faults import Fault
from selector.json_lines import Line, lines_of
from selector.lines import Lines
from selector.rules.problems import Place, Problem, ProblemsError
from selector.rules.vocabulary import Value, Vocabulary
from selector.ruleset import shipped
from tests.selector.conftest import CPU, FI, cuda

CASES = Path(__file__).parents[2] / "conformance"
MORE: list[dict[str, object]] = [
    {}, {"backend": "TORCH_SDPA"}, {"policy": "strict"}, {"env": {"DIFFUSION_ATTENTION_BACKEND": "TORCH_SDPA"}},
    {"config": {"default": "TORCH_SDPA"}}, {"config": {}}, {"env": {}}, {"env": 1}, {"policy": 1}, {"extra": 1},
    {"expect": 1}, {"backend": "x"}, {"config": {"default": "x"}}, {"backend": None}, {"policy": "fallback"},
]  # fmt: skip
ALIKE: list[list[dict[str, object]]] = [
    [{"facts": cuda("sm_90"), "request": {"head_dim": value}} for value in (1, True, 1.0, "1", None, [1])],
    [{"facts": cuda("sm_90", cudnn=value)} for value in (1, True, 0, False)],
    [{"facts": CPU, "request": {"causal": value}} for value in (True, 1, "top_left", None)],
    [{"facts": None}, {"facts": {}}, {"facts": CPU}, {"facts": CPU, "request": None}, {"facts": CPU, "request": {}}],
    [{"facts": cuda(packages=FI), **more} for more in MORE],
]  # fmt: skip


@pytest.mark.parametrize("lines", ALIKE)
@pytest.mark.parametrize("trace", [True, False])
def test_lines_that_are_nearly_alike_are_told_apart(lines: list[dict[str, object]], trace: bool) -> None:
    """Each has the answer that it has alone, in whatever order they come, and again."""
    raws = [json.dumps(line).encode() for line in lines]
    alone = {raw: Lines(shipped(), trace=trace).answer(raw) for raw in raws}
    asked = Lines(shipped(), trace=trace)

    for raw in [*raws, *reversed(raws), *raws]:
        assert asked.answer(raw) == alone[raw]


def test_an_id_is_the_lines_own() -> None:
    """The same question has the same answer under another id."""
    asked = Lines(shipped())

    first, second = (json.loads(asked.answer(json.dumps({"id": at, "facts": CPU}).encode())) for at in (1, 2))

    assert (first.pop("id"), second.pop("id")) == (1, 2)
    assert first == second


def test_answers_do_not_depend_on_what_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Conformance lines in a random order, some of them several times, with next to nothing kept."""
    dice = Random(7)
    raws = [line for name in ("selection", "call") for line in (CASES / f"{name}.jsonl").read_bytes().splitlines()]
    some = dice.sample(raws, 150) * 2
    dice.shuffle(some)
    alone = {raw: Lines(shipped()).answer(raw) for raw in some}
    asked = Lines(shipped())
    monkeypatch.setattr(lines, "_MOST_KEPT", 3)
    few = Lines(shipped())

    for raw in some:
        assert asked.answer(raw) == few.answer(raw) == alone[raw]
    assert 0 < len(few.requests) <= 3
    assert 0 < len(few.configs) <= 3


def test_large_parts_are_not_kept() -> None:
    """What is kept has a bound, whatever lines hold."""
    asked = Lines(shipped())

    for at in range(3):
        line = {"facts": CPU, "request": {"model": "x" * 5000}, "config": {"per_role": {"y" * 5000: "auto"}}, "id": at}
        assert json.loads(asked.answer(json.dumps(line).encode()))["backend"] == "TORCH_SDPA"

    assert not asked.requests
    assert not asked.configs


def test_a_machine_is_read_once_for_lines_that_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one before is remembered, and no other."""
    seen: list[object] = []

    def read(
        value: object, vocabulary: Vocabulary, device: int, path: tuple[str | int, ...]
    ) -> tuple[list[Fault], dict[str, Value]]:
        seen.append(value)
        return read_machine(value, vocabulary, device, path)

    monkeypatch.setattr(lines, "read_machine", read)
    asked = Lines(shipped())

    for facts in (CPU, CPU, cuda("sm_90"), cuda("sm_90"), CPU):
        asked.answer(json.dumps({"facts": facts}).encode())

    assert seen == [CPU, cuda("sm_90"), CPU]


def test_garbage_is_collected_as_before(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command leaves the process as it was."""
    (tmp_path / "lines").write_text(json.dumps({"facts": CPU}), encoding="utf-8")
    before = gc.get_threshold(), gc.isenabled()

    assert main(["decide", str(tmp_path / "lines")]) == 0

    assert (gc.get_threshold(), gc.isenabled(), gc.get_freeze_count()) == (*before, 0)
    assert "TORCH_SDPA" in capsys.readouterr().out


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 100])
def test_answers_are_written_whatever_ends_the_reading(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """All that were made, in their order, though several are written at a time."""
    (tmp_path / "lines").write_text(
        "".join(f'{{"id": {at}, "facts": {{}}}}\n' for at in range(count)), encoding="utf-8"
    )
    asked = [str(tmp_path / "lines")]
    assert main(["decide", *asked]) == 0
    whole = capsys.readouterr().out

    def broken(stream: BinaryIO, name: str) -> Iterator[Line]:
        yield from lines_of(stream, name)
        raise ProblemsError([Problem(Place(name), "unreadable", "cannot read the file: input/output error")])

    monkeypatch.setattr(decide, "lines_of", broken)
    assert main(["decide", *asked]) == 2

    ended = capsys.readouterr()
    assert ended.out == whole
    assert [json.loads(line)["id"] for line in whole.splitlines()] == list(range(count))
    assert "input/output error" in ended.err
