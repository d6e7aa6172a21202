from __future__ import annotations

import dataclasses
import datetime as dt
import errno
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from selector.decision import Decision
from selector.decision_log import DecisionLog
from selector.json_lines import Line
from selector.log_columns import columns_of
from selector.log_lines import LineWriter, answer_of, deciding_row
from selector.logged import LineError, Logged, read_line
from selector.ruleset import load_rules
from tests.selector.command.runs import environment
from tests.selector.conftest import ALL, CPU, FI, cuda, decide, overlay
from tests.selector.logged_lines import conformance, decisions, line_of, read, value, write, write_in_threads

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
TRTLLM = {"per_role": {"cross": {"backend": "TRTLLM_ATTN", "skip_softmax": {"target_sparsity": 0.5}}}}
CALL = {"mask": "additive", "dtype": "bfloat16", "seq_len_q": 64, "seq_len_kv": 64}


def decision() -> Decision:
    """Give a decision with a config, a model and a call."""
    asked = {"role": "cross", "head_dim": 128, "model": "WanPipeline"}
    return decide(cuda(packages=FI), asked, config=TRTLLM)


def back(made: Decision, number: int = 1) -> Logged:
    """Write a decision as a line, and read it."""
    return read_line(Line(number, json.dumps(line_of(made, NOON)).encode()), "log")


def problems(raw: bytes | None, number: int = 7) -> list[str]:
    """Give what is said of a damaged line."""
    with pytest.raises(LineError) as caught:
        read_line(Line(number, raw), "log")
    return [str(problem) for problem in caught.value.problems]


# --- there and back ---


@pytest.mark.parametrize("name", ["selection", "call"])
def test_every_decision_comes_back(name: str) -> None:
    """What it was made from, what was answered, and the row, of every conformance line that decides."""
    made = list(conformance(name))

    for one in made:
        logged = back(one)
        assert logged.inputs == one.inputs
        assert logged.answer == answer_of(one)
        assert logged.row == deciding_row(one)
        assert logged.digest == one.digest
    assert len(made) > 100


def test_drawn_decisions_come_back() -> None:
    """Over the whole space of facts, requests and configs."""
    assert all(back(one)[:2] == (one.inputs, answer_of(one)) for one in decisions(7, 1000))


def test_a_line_is_written_as_json_writes_it_with_what_it_is_asked_by() -> None:
    """Also where parts of it are written once for many."""
    writer = LineWriter()
    for one in decisions(8, 1500):
        line = writer.line(one, NOON)
        value = json.loads(line.text)
        assert json.dumps(value) == line.text
        assert (value, line.at) == (line_of(one, NOON), value["at"])
        assert line.columns == columns_of(value)


def test_a_line_says_when_by_which_rules_from_what_and_what_came_of_it() -> None:
    """Under names that stay."""
    made = decide(cuda(packages=FI), {"role": "cross", "head_dim": 128}, config=TRTLLM)

    assert line_of(made, NOON) == {
        "at": "2026-01-31T12:00:00.000000Z",
        "digest": made.digest,
        "facts": {
            "platform": "cuda", "arch": "sm_100", "cudnn": 91002, "packages.flashinfer": "0.6.18",
            "packages.flash-attn": None, "packages.flash-attn-3": None, "packages.flash-attn-4": None,
            "packages.sageattention": None, "packages.sageattn3": None, "packages.kernels": None,
        },
        "request": {"role": "cross", "category": None, "model": None, "facts": {"head_dim": 128}, "call": None},
        "choices": {"per_role": TRTLLM["per_role"], "default": None, "default_origin": "config"},
        "policy": "fallback",
        "absent": [],
        "decision": {
            "backend": "TRTLLM_ATTN", "source": "role", "origin": "config", "rule": "explicit/able",
            "log": "Using diffusion attention backend 'TRTLLM_ATTN'", "warnings": [], "error": None, "provider": None,
            "transform": None, "row": "explicit/able",
        },
    }  # fmt: skip


def test_a_decision_without_inputs_has_no_line(tmp_path: Path) -> None:
    """There is nothing that could be decided again."""
    made = decide(CPU, {"head_dim": "x"})

    assert write(tmp_path / "log", [made]).read_bytes() == b""
    with pytest.raises(ValueError, match="wanted a decision with its inputs"):
        line_of(made, NOON)


# --- the row that decided ---


def test_a_refusal_names_the_row_that_refused() -> None:
    """Of the table that asked whether the named backend may run, and of the call's."""
    able = cuda(packages=ALL)
    masked = {"role": "self", "head_dim": 128, "call": CALL}

    assert deciding_row(decide(CPU, backend="SAGE_ATTN")) == "explicit/refuse"
    assert deciding_row(decide(able, masked, backend="TRTLLM_ATTN")) == "call/trtllm-mask"
    assert deciding_row(decide(able, {"head_dim": 128}, backend="FLASH_ATTN")) == "explicit/able"


def test_the_row_that_refused_is_that_of_the_trace() -> None:
    """Of a call the first one that did, whatever was tried instead of it; else the last one that was asked."""
    refused = [one for one in decisions(9, 3000) if one.error is not None and one.error.code == "refused"]

    assert len(refused) > 200
    for one in refused:
        chosen = [(walk.table, walk.chosen.row if walk.chosen else None) for walk in one.explain().walks]
        of_call = [row for table, row in chosen if table == "call" and (row is None or row.action == "refuse")]
        row = (of_call or [chosen[-1][1]])[0]
        assert deciding_row(one) == (row and row.name)


def test_a_strict_policy_names_the_row_that_would_have_substituted() -> None:
    """It is the row that the policy forbids."""
    assert deciding_row(decide(CPU, backend="FLASH_ATTN", policy="strict")) == "explicit/to-torch-sdpa"


def test_a_call_that_nothing_can_run_names_the_first_row_that_refused(tmp_path: Path) -> None:
    """Whatever was tried instead of it, as the message of the error does."""
    row = "  - {id: no-default, when: {mask: additive}, refuse: not so, because: A test.}\n"
    edits = {"call.yaml": [("  - id: heads-do-not-divide\n", f"{row}  - id: heads-do-not-divide\n")]}
    rules = load_rules([overlay(tmp_path / "rules", edits)])

    made = decide(cuda(packages=ALL), {"head_dim": 128, "call": CALL}, rules=rules)

    assert made.error is not None
    assert made.error.message.startswith("not so")
    assert deciding_row(made) == "call/no-default"


def test_a_fact_that_a_table_lacks_names_no_row() -> None:
    """No row was asked."""
    made = decide({"arch": "sm_90"}, {"head_dim": 128})

    assert made.inputs is not None
    assert made.error is not None
    assert deciding_row(made) is None


def test_a_refusal_without_its_rules_names_no_row() -> None:
    """As one that was read back."""
    made = decide(CPU, backend="SAGE_ATTN")

    assert deciding_row(dataclasses.replace(made, rules=None)) is None


# --- writing ---


def test_a_log_goes_on_where_it_ended(tmp_path: Path) -> None:
    """What is there stays."""
    made = decision()
    path = write(tmp_path / "log", [made])

    write(path, [made, made])

    assert [read_line(line, "log").answer for line in read(path)] == [answer_of(made)] * 3
    assert value(path)["at"] <= value(path, 3)["at"]


def test_a_line_that_was_torn_takes_no_other_with_it(tmp_path: Path) -> None:
    """A process that was killed while it wrote leaves half a line; the next one begins on its own."""
    path = write(tmp_path / "log", [decision()] * 2)
    path.write_bytes(path.read_bytes()[:-100])

    write(path, [decision()])

    first, torn, last = read(path)
    assert read_line(first, "log") == read_line(last, "log")
    assert "json-syntax" in problems(torn.raw)[0]


def test_threads_never_mix_their_lines(tmp_path: Path) -> None:
    """Eight threads, one log."""
    made = list(decisions(1, 100))
    log = DecisionLog(tmp_path / "log")

    write_in_threads(log, made, 8)
    log.close()

    assert log.dropped == 0
    assert len([read_line(line, "log") for line in read(log.path)]) == 8 * len(made)


def test_processes_never_mix_their_lines(tmp_path: Path) -> None:
    """Three processes, one file."""
    code = (
        "import sys; from selector import Selector; from selector.decision_log import DecisionLog\n"
        "made = Selector(facts={'platform': 'cpu'}).decide('self', head_dim=128); log = DecisionLog(sys.argv[1])\n"
        "for _ in range(400): log.write(made)\n"
    )
    path = tmp_path / "log"

    running = [subprocess.Popen([sys.executable, "-c", code, path], env=environment()) for _ in range(3)]

    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert len({json.dumps(read_line(line, "log").answer) for line in read(path)}) == 1
    assert len(read(path)) == 1200


def test_a_log_that_cannot_be_opened_is_told_at_once(tmp_path: Path) -> None:
    """Before any decision is made."""
    with pytest.raises(IsADirectoryError):
        DecisionLog(tmp_path)


def test_a_disk_that_is_full_breaks_no_decision() -> None:
    """Lines that are lost are counted, and the reason is kept."""
    with DecisionLog("/dev/full") as log:
        log.write(decision())
        log.write(decision())

    assert log.dropped == 2
    assert log.last_error is not None
    assert log.last_error.errno == errno.ENOSPC


def test_a_log_that_is_closed_drops_what_comes_later(tmp_path: Path) -> None:
    """It is no error to close it twice."""
    log = DecisionLog(tmp_path / "log")
    log.close()
    log.close()

    log.write(decision())

    assert log.dropped == 1
    assert (tmp_path / "log").read_bytes() == b""


def test_half_a_write_is_a_line_that_was_dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows it begins on a line of its own."""
    whole = os.write
    log = DecisionLog(tmp_path / "log")
    monkeypatch.setattr(os, "write", lambda file, data: whole(file, data[:50]))

    log.write(decision())

    monkeypatch.undo()
    log.write(decision())
    torn, last = read(log.path)
    log.close()
    assert log.dropped == 1
    assert torn.raw is not None
    assert len(torn.raw) == 51
    assert read_line(last, "log").answer == answer_of(decision())


def test_a_log_of_a_file_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written all the same."""
    path = write(tmp_path / "log", [decision()])

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError

    monkeypatch.setattr(Path, "open", refuse)
    write(path, [decision()])
    monkeypatch.undo()

    assert len(read(path)) == 2


# --- damaged lines ---

GOOD: Mapping[str, Any] = line_of(decision(), NOON)
TEXT = json.dumps(GOOD)
VALUES = "a string or an integer or true or false or null"


def column(text: str, wanted: str) -> int:
    """Give the column at which something stands."""
    return text.index(wanted) + 1


def changed(**changes: object) -> str:
    """Give a good line with other values under some keys."""
    return json.dumps({**GOOD, **changes})


@pytest.mark.parametrize(
    ("raw", "told"),
    [
        (TEXT[:500].encode(), "log:7:499: json-syntax: wanted a value, got `nu`"),
        (b"{}{}", "log:7:3: json-syntax: wanted the end of the text after the value"),
        (b"\xef\xbb\xbf[]", "log:7:1: wrong-type: wanted a mapping, got a list"),
        (b"null\r\n", "log:7:1: wrong-type: wanted a mapping, got null"),
        (TEXT.replace("128", "NaN").encode(), f"log:7:{column(TEXT, '128')}: json-syntax: wanted a value, got `NaN"),
        (TEXT.replace("128", "1e999").encode(), f"log:7:{column(TEXT, '128')}: number: wanted a finite number"),
        (b'{"a": "' + b"\xff" + b'"}', "log:7:8: not-utf-8: wanted UTF-8, got byte 0xff"),
        (None, "log:7:1: too-large: the line is too long: wanted at most 1048576 bytes"),
        (b"[" * 1000, "log:7:65: too-deep: wanted at most 64 levels, got more"),
        (b"[" + b"1," * 200_000 + b"1]", "log:7:200000: too-large: wanted at most 100000 values, got more"),
    ],
)
def test_a_text_that_is_damaged(raw: bytes | None, told: str) -> None:
    """Told with its line and its column, and nothing is raised but that."""
    assert problems(raw)[0].startswith(told)


def test_a_key_that_stands_twice_is_told() -> None:
    """JSON's own parser would take the last one."""
    text = TEXT.replace('"absent": []', '"absent": [], "absent": []')

    second = text.rindex('"absent"') + 1
    assert problems(text.encode()) == [f"log:7:{second}: duplicate-key: key `absent` stands twice"]


@pytest.mark.parametrize(
    ("changes", "found", "told"),
    [
        ({"at": "noon"}, '"noon"',
         "bad-value: `at`: wanted a time in UTC such as 2026-01-31T12:00:00.000000Z, got the string `noon`"),
        ({"digest": "4f"}, '"4f"', "bad-value: `digest`: wanted 64 hexadecimal digits, got the string `4f`"),
        ({"facts": {"platform": 1.5}}, "1.5", f"wrong-type: `platform`: wanted {VALUES}, got the number 1.5"),
        ({"facts": {"str": []}}, "[]", f"wrong-type: `str`: wanted {VALUES}, got a list"),
        ({"facts": 5}, '5, "request"', "wrong-type: `facts`: wanted a mapping, got the number 5"),
        ({"request": None}, 'null, "choices"', "wrong-type: `request`: wanted a mapping, got null"),
        ({"absent": "x"}, '"x"', "wrong-type: `absent`: wanted a list, got the string `x`"),
        ({"absent": [1]}, '1], "decision"', "wrong-type: wanted a string, got the number 1"),
        ({"policy": "mild"}, '"mild"',
         "bad-value: `policy`: wanted 'fallback' or 'strict', got the string `mild`"),
        ({"extra": 1}, '"extra"',
         f"unknown-key: no key `extra` here\n  hint: known here: {', '.join(GOOD)}"),
        ({"decision": {**GOOD["decision"], "rwo": 1}}, '"rwo"',
         "unknown-key: no key `rwo` here\n  hint: did you mean `row`?"),
        ({"decision": {**GOOD["decision"], "source": "rôle"}}, '"r\\u00f4le"',
         "bad-value: `source`: wanted 'role', 'category', 'default' or 'platform', got the string `rôle`"),
        ({"decision": {**GOOD["decision"], "warnings": None}}, 'null, "error"',
         "wrong-type: `warnings`: wanted a list, got null"),
        ({"choices": {"per_role": {}, "default": {"backend": "X", "quants": {}}, "default_origin": "flag"}},
         '"quants"', "unknown-key: no key `quants` here\n  hint: did you mean `quant`?"),
        ({"choices": {"per_role": {"a": {"quant": {"dtypeqk": 1}}}, "default": None, "default_origin": "flag"}},
         '"dtypeqk"', "unknown-key: no key `dtypeqk` here\n  hint: did you mean `dtype_qk`?"),
        ({"choices": {"per_role": {"a": {"skip_softmax": {"threshold": 1, "target_sparsity": 1}}}, "default": None,
                      "default_origin": "flag"}}, '{"threshold"',
         "bad-value: wanted one of `target_sparsity` and `threshold`, got both"),
    ],
)  # fmt: skip
def test_a_line_of_another_form(changes: Mapping[str, object], found: str, told: str) -> None:
    """Told where it stands in the line."""
    text = changed(**changes)

    assert problems(text.encode()) == [f"log:7:{column(text, found)}: {told}"]


def test_what_is_missing_is_told_at_its_mapping() -> None:
    """By its name."""
    text = json.dumps({key: item for key, item in GOOD.items() if key != "policy"})

    assert problems(text.encode()) == ["log:7:1: missing-key: wanted the key `policy`, which is not there"]


def test_everything_that_is_wrong_is_told_at_once() -> None:
    """And from twenty on it is counted."""
    text = changed(policy=5, digest=5, **{f"x{at:03}": 1 for at in range(100)})

    told = problems(text.encode())

    assert len(told) == 21
    assert told[0] == "log:7:1: too-many: and 82 more that is wrong with the line"


def test_more_values_than_are_read_is_told() -> None:
    """A line within its bytes may still hold too many."""
    text = changed(absent=[1] * 200_000)

    assert [problem.split(": ")[1] for problem in problems(text.encode())] == ["too-large"]


def test_no_line_however_it_is_cut_ends_in_a_traceback() -> None:
    """Every prefix of a line is damaged, and is told as such."""
    raw = TEXT.encode()

    assert all(problems(raw[:end])[0].startswith("log:7:") for end in range(1, len(raw), 3))
