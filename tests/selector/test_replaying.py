from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from selector import replaying
from selector.json_lines import Line
from selector.logged import Logged
from selector.records import replay
from selector.replaying import Change, Damage, Replayer, Work, replayed
from selector.rules.problems import ProblemsError
from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.command.runs import Process, process
from tests.selector.conftest import ALL, CPU, FA2, cuda, decide, overlay
from tests.selector.logged_lines import ROW, conformance, decisions, read, value, write

ABLE = "  - id: able\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with rules under which no default is CUDNN_ATTN."""
    return overlay(tmp_path / "rules", {"platform_default.yaml": [ROW]})


def changes(lines: Iterable[Line], rules: RuleSet) -> list[Change]:
    """Replay lines in this process."""
    replayer = Replayer(rules)
    found = (replayer.change(line, "log") for line in lines)
    return [change for change in found if change is not None]


def told(lines: Iterable[Line], rules: RuleSet, work: Work, processes: int) -> list[Change | Damage]:
    """Replay lines by processes, and give what is told."""
    return [one for some in replayed(lines, work, rules, processes) for one in some.told]


# --- what stays and what changes ---


@pytest.mark.parametrize("name", ["selection", "call"])
def test_the_same_rules_change_nothing(name: str, tmp_path: Path) -> None:
    """Of every conformance line that decides, also of those that are refused."""
    lines = read(write(tmp_path / "log", conformance(name)))

    assert changes(lines, shipped()) == []
    assert len(lines) > 100


def test_the_same_rules_change_nothing_of_drawn_lines(tmp_path: Path) -> None:
    """Over the whole space of facts, requests and configs."""
    assert changes(read(write(tmp_path / "log", decisions(11, 3000))), shipped()) == []


def test_an_edited_row_changes_what_it_decided(folder: Path, tmp_path: Path) -> None:
    """And nothing else; each change names both rows, both answers, and the fields that differ."""
    made = [
        decide(cuda("sm_120"), {"head_dim": 128}),
        decide(cuda("sm_90", FA2), {"head_dim": 128}),
        decide(cuda("sm_100"), {"role": "cross", "head_dim": 64, "model": "WanPipeline"}),
        decide(CPU, {"head_dim": 128}),
    ]

    first, second = changes(read(write(tmp_path / "log", made)), load_rules([folder]))

    assert (first.line, first.role, first.model) == (1, "self", None)
    assert first.rows == ("platform_default/blackwell-cudnn", "platform_default/torch-sdpa")
    assert (first.before["backend"], first.after["backend"]) == ("CUDNN_ATTN", "TORCH_SDPA")
    assert first.fields == ("backend", "rule", "log")
    assert (second.line, second.role, second.model) == (3, "cross", "WanPipeline")


@pytest.mark.parametrize("name", ["selection", "call"])
def test_a_replay_of_lines_agrees_with_that_of_decisions(name: str, folder: Path, tmp_path: Path) -> None:
    """The same decisions change, in the same fields."""
    made, rules = list(conformance(name)), load_rules([folder])

    found = changes(read(write(tmp_path / "log", made)), rules)

    wanted = [(number, replay(one, rules)) for number, one in enumerate(made, 1)]
    assert [(one.line, one.fields) for one in found] == [
        (number, tuple(item.field for item in again.differences if item.field in one_of_the_answer()))
        for number, again in wanted
        if again.changed
    ]
    assert found


def one_of_the_answer() -> list[str]:
    """Give the fields that a log has."""
    return ["backend", "source", "origin", "rule", "log", "warnings", "error", "provider", "transform"]


def test_a_row_that_refuses_is_named(tmp_path: Path) -> None:
    """Though a refusal has no rule, both where it comes and where it goes."""
    row = "  - {id: nothing-here, when: {backend: TORCH_SDPA}, refuse: not here, because: A test.}\n"
    refusing = load_rules([overlay(tmp_path / "rules", {"explicit.yaml": [(ABLE, row + ABLE)]})])
    allowed = write(tmp_path / "allowed", [decide(CPU, backend="TORCH_SDPA")])
    refused = write(tmp_path / "refused", [decide(CPU, backend="TORCH_SDPA", rules=refusing)])

    there, back = changes(read(allowed), refusing), changes(read(refused), shipped())

    assert there[0].rows == ("explicit/able", "explicit/nothing-here")
    assert there[0].fields == ("backend", "rule", "log", "error")
    assert back[0].rows == ("explicit/nothing-here", "explicit/able")


def test_a_backend_that_the_rules_do_not_know_is_invalid(tmp_path: Path) -> None:
    """It counts as changed, and no row decides."""
    added = "backends:\n  NEW_ATTN:\n    about: New.\n"
    rules = load_rules([overlay(tmp_path / "rules", {"backends.yaml": [("backends:\n", added)]})])
    made = decide(CPU, {"role": "cross"}, config={"default": "NEW_ATTN"}, rules=rules)

    (change,) = changes(read(write(tmp_path / "log", [made])), shipped())

    assert change.rows == ("explicit/able", None)
    assert change.after["error"] == {
        "code": "invalid", "message": "no backend `NEW_ATTN` (did you mean `SAGE_ATTN`?)",
        "path": "choices.default.backend",
    }  # fmt: skip


def test_a_value_that_the_rules_do_not_know_is_invalid(tmp_path: Path) -> None:
    """As of a fact whose words are others now; `true` is not the number 1."""
    path = write(tmp_path / "log", [decide(cuda(packages=ALL), {"head_dim": 1}) for _ in range(2)])
    line = value(path)
    line["request"]["facts"]["head_dim"] = True
    path.write_text(f"{path.read_text('utf-8')}{json.dumps(line)}\n", "utf-8")

    (change,) = changes(read(path), shipped())

    assert change.line == 3
    assert change.rows[1] is None
    assert change.after["backend"] is None


def test_what_fits_is_remembered_by_its_type(tmp_path: Path) -> None:
    """In either order."""
    replayer = Replayer(shipped())

    assert [replayer.fits("head_dim", one) for one in (1, True, 1, "symbolic", "wide", None)] == [
        True, False, True, True, False, True,
    ]  # fmt: skip
    assert replayer.fits("no_such_fact", "x")
    assert replayer.fits("arch", "x" * 100)


def test_a_line_that_comes_again_is_not_decided_again(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its time differs. What would change is told each time."""
    made = [decide(CPU, {"head_dim": 128}), decide(cuda("sm_120"), {"head_dim": 128})]
    lines = read(write(tmp_path / "log", made * 3))
    asked: list[object] = []
    replayer = Replayer(load_rules([folder]))
    whole = replayer.compare

    def counted(_: Replayer, logged: Logged, number: int) -> Change | None:
        asked.append(number)
        return whole(logged, number)

    monkeypatch.setattr(Replayer, "compare", counted)

    found = [replayer.change(line, "log") for line in lines]

    assert asked == [1, 2, 4, 6]
    assert [one.line for one in found if one is not None] == [2, 4, 6]


def test_what_is_remembered_has_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is forgotten when it is full, and nothing is answered otherwise for it."""
    monkeypatch.setattr(replaying, "_MOST_REMEMBERED", 5)
    replayer = Replayer(shipped())

    for line in read(write(tmp_path / "log", decisions(2, 100))):
        assert replayer.change(line, "log") is None

    assert len(replayer._unchanged) <= 5
    assert len(replayer._fitting) <= 5


def test_a_line_that_somebody_wrote_is_read_too(tmp_path: Path) -> None:
    """Its keys may stand in any order."""
    path = write(tmp_path / "log", [decide(CPU, {"head_dim": 128})])
    line = dict(reversed(value(path).items()))
    path.write_text(json.dumps(line, separators=(",", ":")), "utf-8")

    assert changes(read(path), shipped()) == []


# --- many lines ---


def long(path: Path, count: int) -> list[Line]:
    """Give a log that is long enough for processes, some of its lines damaged."""
    lines = read(write(path, decisions(5, count)))
    return [line._replace(raw=b"{}") if line.number % 1000 == 7 else line for line in lines]


def test_processes_tell_the_same_in_the_same_order(folder: Path, tmp_path: Path) -> None:
    """As one process does."""
    rules, lines = load_rules([folder]), long(tmp_path / "log", 4000)
    work = Work("log", (str(folder),), rules.digest)

    one, two = (told(lines, rules, work, processes) for processes in (1, 2))

    assert one == two
    assert [item.line for item in one] == sorted(item.line for item in one)
    assert sum(isinstance(item, Damage) for item in one) == 4
    assert sum(isinstance(item, Change) for item in one) > 10


def test_a_short_log_starts_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be done before they had begun."""
    monkeypatch.setattr(replaying, "ProcessPoolExecutor", None)
    lines = read(write(tmp_path / "log", decisions(5, 100)))

    assert told(lines, shipped(), Work("log", None, shipped().digest), 2) == []


def test_few_lines_are_held_at_a_time(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are read as fast as they are told."""
    rules, lines = load_rules([folder]), long(tmp_path / "log", 4000)
    monkeypatch.setattr(replaying, "_CHUNK_LINES", 32)
    taken = 0

    def counted() -> Iterator[Line]:
        nonlocal taken
        for line in lines:
            taken += 1
            yield line

    done = most = 0
    for some in replayed(counted(), Work("log", (str(folder),), rules.digest), rules, 2):
        most = max(most, taken - done)
        done += some.read

    assert done == len(lines)
    assert most <= 32 * (2 * 3 + 1 + 8)


def test_long_lines_make_short_chunks() -> None:
    """So that what is held is bounded in bytes too."""
    lines = [Line(number, b"x" * (1 << 19)) for number in range(1, 8)]

    assert [len(chunk) for chunk in replaying._chunks(lines)] == [2, 2, 2, 1]


def test_rules_that_changed_meanwhile_are_told(folder: Path, tmp_path: Path) -> None:
    """A process that reads the folder later must not answer by other rules."""
    rules, lines = load_rules([folder]), long(tmp_path / "log", 4000)
    work = Work("log", (str(folder),), rules.digest)
    (folder / "platform_default.yaml").write_text("{}", "utf-8")

    with pytest.raises(ProblemsError, match=r"the rules are not those of the digest .* any more"):
        told(lines, rules, work, 2)


def test_other_rules_are_told_too(tmp_path: Path) -> None:
    """Which load, and have another digest."""
    work = Work("log", None, "0" * 64)

    with pytest.raises(ProblemsError, match="rules-changed"):
        told(long(tmp_path / "log", 4000), shipped(), work, 2)


def test_a_process_that_dies_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what may help."""
    monkeypatch.setattr(replaying, "_begin", os.abort)
    lines = long(tmp_path / "log", 4000)

    with pytest.raises(ProblemsError, match="a process that replayed lines ended before its time"):
        told(lines, shipped(), Work("log", None, shipped().digest), 2)


def test_a_process_loads_its_rules_once(folder: Path, tmp_path: Path) -> None:
    """And answers as the one that started it."""
    rules = load_rules([folder])
    chunk = read(write(tmp_path / "log", decisions(5, 50)))
    work = Work("log", (str(folder),), rules.digest)

    assert replaying._in_process(chunk, work) == replaying._replay(chunk, "log", Replayer(rules))
    assert replaying._replayer(work) is replaying._replayer(dataclasses.replace(work))
    assert replaying._in_process(chunk, dataclasses.replace(work, digest="0" * 64)) is None


# --- memory ---


@pytest.mark.slow
def test_memory_does_not_grow_with_the_log(tmp_path: Path) -> None:
    """Three times as many distinct lines take no more than a few hundred kB of what the allocator keeps."""
    path = write(tmp_path / "log", [decide(CPU, {"head_dim": 100_000})])

    few, many = (replayed_alone(numbered(path, count), path.with_name(str(count))) for count in (20_000, 60_000))

    assert (few.status, many.status) == (0, 0)
    assert many.out == "60000 lines: 60000 unchanged, 0 changed, 0 damaged\n"
    assert many.megabytes < few.megabytes + 2


def numbered(path: Path, count: int) -> bytes:
    """Give one line many times, each with a head size of its own."""
    raw = path.read_bytes()
    return b"".join(raw.replace(b"100000", b"%d" % (100_000 + at)) for at in range(count))


def replayed_alone(log: bytes, path: Path) -> Process:
    """Replay a log in one process, and measure it."""
    path.write_bytes(log)
    return process("replay", str(path), "--processes", "1")
