"""`decide`: every line is answered, in order, whatever it holds."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from selector.lines import Lines
from selector.probe import Probed
from selector.rules.nodes import MOST_BYTES
from selector.ruleset import shipped
from selector.selecting import Selector
from tests.selector.command.runs import ROOT, ask, assert_bad_input, assert_in_bounds, environment, process
from tests.selector.conftest import ALL, BACKENDS, CPU, FA2, FI, cuda, overlay

KNOWN_KEYS = "id, facts, request, config, backend, env, policy, expect"
KEYS = ["id", "backend", "source", "origin", "rule", "log", "warnings", "error"]
NONE: dict[str, object] = {"backend": None, "source": None, "origin": None, "rule": None, "log": None, "warnings": []}
GOOD = {"facts": CPU}
SDPA: dict[str, object] = {
    "backend": "TORCH_SDPA",
    "source": "platform",
    "origin": "platform",
    "rule": "platform_default/torch-sdpa",
    "log": "Defaulting to diffusion attention backend SDPA",
    "warnings": [],
    "error": None,
}


def answer(line: bytes | str | Mapping[str, object] | None, **given: Any) -> dict[str, Any]:  # noqa: ANN401
    """Answer one line."""
    raw = json.dumps(line).encode() if isinstance(line, Mapping) else line
    told = Lines(shipped(), **given).answer(raw.encode() if isinstance(raw, str) else raw)
    assert "\n" not in told
    read: dict[str, Any] = json.loads(told)
    assert list(read)[: len(KEYS)] == KEYS
    return read


def error(line: bytes | str | Mapping[str, object] | None, **given: Any) -> tuple[str, str, str | None]:  # noqa: ANN401
    """Answer a line that is not well, and give its error."""
    told = answer(line, **given)
    assert {name: told[name] for name in NONE} == NONE
    found = told["error"]
    assert list(found) == ["code", "message", "path"]
    return found["code"], found["message"], found["path"]


def decided(
    capsys: pytest.CaptureFixture[str], path: Path, lines: Iterable[bytes], *options: str
) -> list[dict[str, Any]]:
    """Run the command on a file of lines."""
    path.write_bytes(b"".join(lines))
    ran = ask(capsys, "decide", str(path), *options)
    assert (ran.status, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


# --- a line that is well ---


def test_an_answer_has_the_keys_of_the_contract() -> None:
    """In their order, the id first."""
    assert answer(GOOD | {"id": "x"}) == {"id": "x"} | SDPA


@pytest.mark.parametrize("identity", [None, 0, -1, 1.5, "", "é\u2028\ud800", True, [], [1, {"a": None}], {"b": [2]}])
def test_an_id_is_anything_and_comes_back(identity: object) -> None:
    """Also beside what is wrong."""
    assert answer(GOOD | {"id": identity})["id"] == identity
    assert answer({"id": identity, "x": 1})["id"] == identity


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (b'{"id": 7, "x": 1, "x": 2}', 7),
        (b'{"id": [7], "x": NaN}', [7]),
        (b'{"x": 1e999, "id": "seven"}', "seven"),
        (b'{"id": 7, "id": 8}', 8),
        (b'{"id": NaN}', None),
        (b'{"id": 1e999, "x": 1, "x": 1}', None),
        (b'{"id": 7', None),
        (b'{"id": 7, "x": "\xff"}', None),
        (b"[" * 100_000, None),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_an_id_comes_back_where_the_line_can_be_understood(line: bytes, identity: object) -> None:
    """Though it is not valid."""
    told = answer(line)

    assert (told["id"], told["error"]["code"]) == (identity, "invalid")


def test_without_an_id_it_is_null() -> None:
    """The key is there all the same."""
    assert answer(GOOD)["id"] is None


def test_what_is_expected_is_carried_along_unread() -> None:
    """Whatever it says."""
    for expected in (None, {"backend": "X"}, [1], "zzz"):
        assert answer(GOOD | {"expect": expected})["backend"] == "TORCH_SDPA"


def test_a_line_has_every_source_of_a_config() -> None:
    """Config, flag, environment and policy are those of the line."""
    facts = cuda("sm_90", ALL)
    per_role = {"config": {"per_role": {"cross": "SAGE_ATTN"}}, "request": {"role": "cross"}}

    assert answer({"facts": facts} | per_role)["source"] == "role"
    assert answer({"facts": facts, "config": {"default": "SAGE_ATTN"}})["origin"] == "config"
    assert answer({"facts": facts, "backend": "sage_attn"})["origin"] == "flag"
    assert answer({"facts": facts, "env": {"DIFFUSION_ATTENTION_BACKEND": "SAGE_ATTN"}})["origin"] == "env"
    assert answer({"facts": facts, "env": {"OTHER": 5}})["origin"] == "platform"
    hub = {"facts": cuda("sm_90", FA2), "backend": "FLASH_ATTN_HUB"}
    assert answer(hub)["backend"] == "FLASH_ATTN"
    assert answer(hub | {"policy": "strict"})["error"]["code"] == "refused"
    assert answer(hub | {"env": {"ATTENTION_SELECTOR_POLICY": "strict"}})["error"]["code"] == "refused"


@pytest.mark.parametrize("name", ["request", "config", "backend", "env", "policy"])
def test_null_is_as_if_the_key_were_not_there(name: str) -> None:
    """For all but the facts, which are then asked of nobody."""
    assert answer(GOOD | {name: None})["backend"] == "TORCH_SDPA"
    assert error({"facts": None}) == ("invalid", "`facts`: wanted a mapping of facts, got null", "facts")


def test_no_variable_is_read_but_those_of_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a line means the same everywhere."""
    monkeypatch.setenv("DIFFUSION_ATTENTION_BACKEND", "SAGE_ATTN")
    monkeypatch.setenv("ATTENTION_SELECTOR_POLICY", "strict")

    assert answer(GOOD)["origin"] == "platform"
    assert answer({"facts": cuda("sm_90", FA2), "backend": "FLASH_ATTN_HUB"})["error"] is None


def test_without_facts_this_machine_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """For all lines together."""
    read: list[object] = []

    def probe(packages: tuple[object, ...]) -> Probed:
        read.append(packages)
        devices = [{"arch": "sm_90"}, {"arch": "sm_120"}]
        return Probed({"platform": "cuda", "cudnn": 91002, "packages": {}, "devices": devices}, {})

    monkeypatch.setattr("selector.probe.probe_machine", probe)
    lines = Lines(shipped(), 1)

    assert [json.loads(lines.answer(b"{}"))["backend"] for _ in range(3)] == ["CUDNN_ATTN"] * 3
    assert read == [tuple(shipped().vocabulary.packages.values())]


def test_this_machine_answers() -> None:
    """Whatever it is."""
    assert answer({})["backend"] is not None


def test_one_of_several_devices_is_asked() -> None:
    """The first, or the one that the flag names; a line without so many says so."""
    facts = {"platform": "cuda", "cudnn": 91002, "packages": {}, "devices": [{"arch": "sm_90"}, {"arch": "sm_120"}]}

    assert answer({"facts": facts})["backend"] == "TORCH_SDPA"
    assert answer({"facts": facts}, device=1)["backend"] == "CUDNN_ATTN"
    assert error({"facts": facts}, device=2)[2] == "facts.devices"


# --- a line that is not ---


@pytest.mark.parametrize(
    ("line", "begin", "column"),
    [
        (b"", "wanted a value, got", 1),
        (b"x", "wanted a value, got `x`", 1),
        (b"{", "wanted a key in double quotes", 2),
        (b'{"id": 1', "wanted `,` or `}`", 9),
        (b'{"id": 1}}', "wanted the end of the text", 10),
        (b'{"id": 1} {}', "wanted the end of the text", 11),
        (b"{'id': 1}", "wanted a key in double quotes", 2),
        (b'{"id": 1,}', "wanted a value after the comma, got `}`", 10),
        (b'{"id" 1}', "wanted `:` after the key", 7),
        (b'{"id": "\t"}', "", 9),
        (b'{"id": "x', "", 8),
        (b'{"id": NaN}', "wanted a value, got `NaN", 8),
        (b'{"id": -Infinity}', "wanted a value, got `-Infinity", 8),
        (b'{"id": 1e999}', "wanted a finite number, got 1e999", 8),
        (b'{"id": ' + b"9" * 5000 + b"}", "the number is too large: 5000 digits", 8),
        (b'{"id": 1, "id": 1}', "key `id` stands twice", 11),
        (b'{"a": {"b": 1, "b": 2}}', "key `b` stands twice", 16),
        (b'{"a": 1 // no\n}', "wanted `,` or `}`", 9),
        (b"[" * 65, "wanted at most 64 levels, got more", 65),
        (b'{"a":' * 100_000, "wanted at most 64 levels, got more", 321),
        (b"\x00", "wanted a value, got", 1),
        (b"\xef\xbb\xbf", "wanted a value, got", 1),
        (b'{"id": "\xff"}', "wanted UTF-8, got byte 0xff", 9),
        (b"\xff\xfe{\x00}\x00", "wanted UTF-8, got byte 0xff", 1),
        (b'{"id": "\xed\xa0\x80"}', "wanted UTF-8, got byte 0xed", 9),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_a_line_that_is_no_json(line: bytes, begin: str, column: int) -> None:
    """What was wanted, what is there, and the column."""
    code, message, path = error(line)

    assert (code, path) == ("invalid", None)
    assert message.startswith(begin)
    assert message.endswith(f" at column {column}")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[]", "wanted a JSON object, got a list"),
        (b"[{}]", "wanted a JSON object, got a list"),
        (b"5", "wanted a JSON object, got the number 5"),
        (b'"x"', "wanted a JSON object, got the string `x`"),
        (b"null", "wanted a JSON object, got null"),
        (b"true", "wanted a JSON object, got true"),
        (None, f"the line is too long: wanted at most {MOST_BYTES} bytes"),
    ],
)
def test_a_line_that_is_no_object(line: bytes | None, message: str) -> None:
    """What it is instead."""
    assert error(line) == ("invalid", message, None)


@pytest.mark.parametrize(
    ("line", "message", "path"),
    [
        ({"reqest": {}}, "no key `reqest` here (did you mean `request`?)", "reqest"),
        ({"zzz": 1}, f"no key `zzz` here (known here: {KNOWN_KEYS})", "zzz"),
        ({"config": 5}, "`config`: wanted a mapping with `default` and `per_role`, got the number 5", "config"),
        ({"config": {"default": "NOPE"}}, f"no backend `NOPE` (known: {', '.join(BACKENDS)})", "config.default"),
        ({"config": {"per_role": {"cross": {"backend": "sage_atn"}}}},
         "no backend `sage_atn` (did you mean `SAGE_ATTN`?)", "config.per_role.cross.backend"),
        ({"backend": 5}, "`backend`: wanted a backend name, got the number 5", "backend"),
        ({"backend": ""}, f"no backend `` (known: {', '.join(BACKENDS)})", "backend"),
        ({"env": []}, "`env`: wanted a mapping of variables, got a list", "env"),
        ({"env": "X=1"}, "`env`: wanted a mapping of variables, got the string `X=1`", "env"),
        ({"env": {"DIFFUSION_ATTENTION_BACKEND": 5}},
         "`DIFFUSION_ATTENTION_BACKEND`: wanted a backend name, got the number 5", "env.DIFFUSION_ATTENTION_BACKEND"),
        ({"policy": "lax"}, "`policy`: wanted one of fallback, strict, got `lax`", "policy"),
        ({"policy": True}, "`policy`: wanted a string, got true", "policy"),
        ({"request": []}, "`request`: wanted a mapping, got a list", "request"),
        ({"request": {"head_dim": 64.0}},
         "`head_dim`: wanted an integer or `symbolic`, got the number 64.0", "request.head_dim"),
        ({"request": {"call": {"mask": "x"}}}, None, "request.call.mask"),
        ({"request": {"call": {}}}, None, "request.call.mask"),
        ({"facts": 5}, "`facts`: wanted a mapping of facts, got the number 5", "facts"),
        ({"facts": {"arch": "sm_90"}}, "the fact `platform` is not known, and no decision is made without it",
         "facts.platform"),
        ({"facts": {"platform": "cuda", "packages": {"flash-attn": 2.1}}},
         "`packages.flash-attn`: wanted a version as a string, got the number 2.1 (quote it)",
         "facts.packages.flash-attn"),
        ({"facts": {"platform": "cuda", "devices": [{"arch": 90}]}},
         "`arch`: wanted a string, got the number 90", "facts.devices[0].arch"),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_a_line_whose_content_is_not_valid(line: dict[str, object], message: str | None, path: str) -> None:
    """The sentence, with its hint in brackets, and the path to what is wrong."""
    code, told, where = error(GOOD | line)

    assert (code, where) == ("invalid", path)
    assert message is None or told == message


def test_all_that_is_wrong_is_told_at_once() -> None:
    """In one message; the path is that of the first."""
    code, message, path = error(
        {"x": 1, "facts": {"platform": 5}, "request": {"rol": 1}, "backend": "NOPE", "policy": 5}
    )

    assert (code, path) == ("invalid", "x")
    assert [part.split(" (")[0] for part in message.split("; ")] == [
        "no key `x` here",
        "`platform`: wanted a string, got the number 5",
        "no key `rol` here",
        "no backend `NOPE`",
        "`policy`: wanted a string, got the number 5",
    ]


def test_two_defaults_exclude_each_other_whatever_else_is_wrong() -> None:
    """Of the codes, this is the first."""
    line = {"x": 1, "facts": 5, "config": {"default": "FLASH_ATTN", "y": 1}, "backend": "auto", "policy": 5, "env": 5}

    assert error(line) == (
        "mutually_exclusive",
        "the shorthand `auto` excludes `default.backend` of the config, which is FLASH_ATTN (leave one of the two out)",
        "backend",
    )


def test_two_defaults_exclude_each_other_in_a_line_that_is_no_json() -> None:
    """Where it can be understood."""
    line = b'{"config": {"default": "FLASH_ATTN"}, "backend": "SAGE_ATTN", "x": 1, "x": NaN}'

    assert error(line)[0] == "mutually_exclusive"


def test_what_is_not_valid_goes_before_what_is_refused() -> None:
    """A refusal is told where all else is well."""
    line = {"facts": CPU, "backend": "SAGE_ATTN"}
    refused = answer(line)

    assert refused["error"]["code"] == "refused"
    assert (refused["source"], refused["origin"], refused["error"]["path"]) == ("default", "flag", None)
    assert (refused["backend"], refused["rule"], refused["log"]) == (None, None, None)
    assert error(line | {"request": {"head_dim": 0}})[0] == "invalid"


@pytest.mark.parametrize(
    "line",
    [
        "{" + ",".join(f'"{i}":1' for i in range(5000)) + "}",
        json.dumps({"facts": CPU, "config": {"default": "SAGE_ATTN"}, "backend": "x" * 100_000}),
    ],
    ids=["keys", "flag"],
)
def test_an_answer_is_not_longer_than_its_line(line: str) -> None:
    """A message is for people to read."""
    assert len(json.dumps(answer(line))) < len(line)


# --- the trace ---


def test_without_the_flag_there_is_no_trace() -> None:
    """The answer is that of the contract alone."""
    assert list(answer(GOOD)) == KEYS


def test_the_trace_has_each_table_row_and_condition() -> None:
    """All rows of each table, with what became of them, and of each test what it wanted and got."""
    call = {"mask": "none", "dtype": "bfloat16"}
    line = {"facts": cuda("sm_120", FI, None), "request": {"head_dim": 64, "call": call}, "backend": "FLASH_ATTN"}

    trace = answer(line, trace=True)["trace"]

    assert [(walk["table"], walk["subject"]) for walk in trace] == [
        ("role_fallback", "self"),
        ("explicit", "FLASH_ATTN"),
        ("explicit", "TORCH_SDPA"),
        ("call", "TORCH_SDPA"),
    ]
    for walk in trace:
        assert [row["row"] for row in walk["rows"]] == [row.id for row in shipped().tables[walk["table"]].rows]
        for row in walk["rows"]:
            assert row["outcome"] in {"chosen", "rejected", "undetermined", "not_reached"}
            assert {"action", "target", "file", "line"} <= set(row)
            for condition in row["conditions"]:
                assert {"fact", "value", "wanted", "held", "code", "known", "negated"} <= set(condition)
                assert condition["code"].startswith(f"{walk['table']}/{row['row']}:{condition['fact']}.")
    chosen = [row["row"] for walk in trace for row in walk["rows"] if row["outcome"] == "chosen"]
    assert chosen == ["configured-default", "to-torch-sdpa", "able", "as-is"]


def test_the_trace_of_an_error() -> None:
    """A refusal has one, up to the row that refuses; an input that is not valid has none, whatever it lacks."""
    refused = answer({"facts": CPU, "backend": "SAGE_ATTN"}, trace=True)["trace"]
    missing = answer({"facts": {}}, trace=True)

    assert refused[-1]["rows"][-1] | {"conditions": None} == refused[-1]["rows"][-1] | {
        "outcome": "chosen",
        "conditions": None,
    }
    assert answer({"x": 1}, trace=True)["trace"] == []
    assert answer(b"x", trace=True)["trace"] == []
    assert [walk["table"] for walk in missing["trace"]] == ["role_fallback"]


# --- lines ---


def test_lines_are_answered_in_order(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The good and the bad, and a last one without an end; blank ones are no lines."""
    line = json.dumps(GOOD).encode()
    lines = [
        b'{"id": 1, "facts": {"platform": "cpu"}}\n', b"\n", b"   \t\r\n", b"x\n", b'{"id": 2, ' + line[1:] + b"\r\n",
        b"\xff\n", b"\xef\xbb\xbf" + b'{"id": 3, ' + line[1:] + b"\n", b'{"id": 4, ' + line[1:],
    ]  # fmt: skip

    answers = decided(capsys, tmp_path / "lines", lines)

    assert [(told["id"], told["error"] is None) for told in answers] == [
        (1, True), (None, False), (2, True), (None, False), (3, True), (4, True),
    ]  # fmt: skip


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize("more", [-1, 0, 1, 2, 3, MOST_BYTES, 3 * MOST_BYTES])
def test_a_line_has_a_mebibyte_at_most(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: int, end: bytes
) -> None:
    """Its end is not counted; one that is longer is answered, and the next is found."""
    begin, rest = b'{"facts": {"platform": "cpu"}, "expect": "', b'"}'
    line = begin + b"x" * (MOST_BYTES + more - len(begin) - len(rest)) + rest
    last = b'{"id": "last", "facts": {"platform": "cpu"}}\n' if end else b""

    answers = decided(capsys, tmp_path / "lines", [line, end, last])

    assert [told["error"] is None for told in answers] == [more <= 0, True][: 2 if end else 1]
    assert answers[-1]["id"] == ("last" if end else None)


@pytest.mark.parametrize("content", [b"", b"\n", b"\n \n\r\n"])
def test_a_file_without_lines_has_no_answers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes
) -> None:
    """And is no error."""
    assert decided(capsys, tmp_path / "lines", [content]) == []


def test_standard_input_is_read_without_a_file_or_with_a_dash(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Line by line."""
    for arguments in ((), ("-",), ("--trace", "-")):
        stdin = io.TextIOWrapper(io.BytesIO(json.dumps(GOOD).encode() + b"\nx\n"))
        monkeypatch.setattr(sys, "stdin", stdin)

        ran = ask(capsys, "decide", *arguments)

        assert ran.status == 0
        assert [json.loads(line)["backend"] for line in ran.out.splitlines()] == ["TORCH_SDPA", None]


def test_the_flags_reach_every_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rules, device and trace."""
    facts = {"platform": "cuda", "packages": {}, "devices": [{"arch": "sm_75"}, {"arch": "sm_90"}]}
    line = json.dumps({"facts": facts, "backend": "SAGE_ATTN"}).encode()
    rules = overlay(tmp_path / "o", {"explicit.yaml": [("[FLASH_ATTN, FLASH_ATTN_HUB", "[SAGE_ATTN, FLASH_ATTN_HUB")]})

    (told,) = decided(capsys, tmp_path / "lines", [line], "--rules", str(rules), "--device", "1", "--trace")

    assert told["backend"] == "TORCH_SDPA"
    assert "got sm_90" not in told["warnings"][0]
    assert told["trace"][1]["rows"][1]["conditions"][1]["value"] == "sm_90"


def test_the_rules_of_the_environment_are_those_of_the_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless others are given."""
    rules = overlay(tmp_path / "o", {"explicit.yaml": [("[FLASH_ATTN, FLASH_ATTN_HUB", "[SAGE_ATTN, FLASH_ATTN_HUB")]})
    monkeypatch.setenv("ATTENTION_SELECTOR_RULES", str(rules))

    (told,) = decided(capsys, tmp_path / "lines", [json.dumps(GOOD | {"backend": "SAGE_ATTN"}).encode()])

    assert told["backend"] == "TORCH_SDPA"


@pytest.mark.parametrize("kind", ["missing", "directory", "loop", "nul"])
def test_a_file_that_cannot_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    """Status 2, with its name and the reason."""
    path = str(tmp_path / kind)
    if kind == "directory":
        (tmp_path / kind).mkdir()
    if kind == "loop":
        (tmp_path / kind).symlink_to(kind)
    if kind == "nul":
        path = "a\0b"

    ran = ask(capsys, "decide", path)

    said = {"missing": "no such file or directory", "directory": "is a directory"}.get(kind, "")
    assert (ran.status, ran.out) == (2, "")
    name = path.replace("\0", "\\x00")  # a control character is never written as it is
    assert ran.err.startswith(f"{name}: unreadable: cannot read the file: {said}")


# --- processes ---


def lines_of(count: int) -> bytes:
    """Give many lines that are well."""
    return b"".join(json.dumps(GOOD | {"id": i}).encode() + b"\n" for i in range(count))


def test_an_answer_is_written_before_the_next_line_is_read() -> None:
    """So that a program can ask one after the other."""
    command = [sys.executable, "-m", "selector", "decide"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment(), cwd=ROOT
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for i in range(3):
            running.stdin.write(json.dumps(GOOD | {"id": i}).encode() + b"\n")
            running.stdin.flush()
            assert json.loads(running.stdout.readline())["id"] == i
        running.stdin.close()

        assert running.wait(30) == 0


@pytest.mark.parametrize("from_file", [True, False])
def test_a_reader_that_leaves_ends_it_quietly(tmp_path: Path, *, from_file: bool) -> None:
    """Status 0, and nothing on standard error."""
    path = tmp_path / "lines"
    path.write_bytes(lines_of(5000))
    command = [sys.executable, "-m", "selector", "decide", str(path) if from_file else "-"]
    with (
        path.open("rb") as stdin,
        subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(), cwd=ROOT
        ) as running,
    ):
        assert running.stdout is not None
        assert running.stderr is not None
        running.stdout.readline()
        running.stdout.close()
        said = running.stderr.read()

        assert (running.wait(30), said) == (0, b"")


def test_many_lines_need_little_memory() -> None:
    """They are not kept."""
    ran = process("decide", stdin=lines_of(5000))

    assert (ran.status, ran.err) == (0, "")
    assert [json.loads(line)["id"] for line in ran.out.splitlines()] == list(range(5000))
    assert ran.megabytes < 60


HUGE = {
    "one long line": b"x" * 10_000_000,
    "many brackets": b"[" * 1_000_000,
    "many objects": b'{"a":' * 150_000,
    "a long string": b'{"facts":{"platform":"' + b"x" * 1_000_000 + b'"}}',
    "a long key": b'{"' + b"platform" * 120_000 + b'":1}',
    "many digits": b'{"id":' + b"9" * 1_000_000 + b"}",
    "a long role": b'{"facts":{"platform":"cpu"},"request":{"role":"' + b"a." * 500_000 + b'"}}',
    "many roles": b'{"facts":{"platform":"cpu"},"config":{"per_role":{'
    + b",".join(b'"r%d":"auto"' % i for i in range(40_000)) + b"}}}",
    "many numbers": b'{"facts":{"platform":"cpu"},"expect":[' + b",".join([b"1"] * 500_000) + b"]}",
    "many lists": b'{"expect":[' + b",".join([b"[]"] * 340_000) + b"]}",
    "many devices": b'{"facts":{"devices":[' + b",".join([b'{"x":1}'] * 120_000) + b"]}}",
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_a_line_of_any_size_is_answered_in_bounds(name: str) -> None:
    """And the line behind it."""
    ran = process("decide", stdin=HUGE[name] + b'\n{"id": "next", "facts": {"platform": "cpu"}}\n')

    assert (ran.status, ran.err) == (0, "")
    assert json.loads(ran.out.splitlines()[1]) == {"id": "next"} | SDPA
    assert_in_bounds(ran)


def test_a_line_of_many_faults_is_answered_in_bounds() -> None:
    """As above."""
    assert_in_bounds(process("decide", stdin=b"{" + b",".join(b'"%d":1' % i for i in range(90_000)) + b"}"))


def test_a_missing_file_ends_the_process_with_status_2() -> None:
    """Without a traceback."""
    assert_bad_input(process("decide", "/nowhere/lines.jsonl"))


@pytest.mark.parametrize("encoding", ["ascii", "utf-8", "latin-1"])
def test_answers_are_ascii_whatever_the_terminal_is(encoding: str) -> None:
    """JSON escapes the rest."""
    ran = process(
        "decide", stdin=json.dumps(GOOD | {"id": "é\ud800"}).encode() + b"\n", variables={"PYTHONIOENCODING": encoding}
    )

    assert (ran.status, ran.err) == (0, "")
    assert ran.out.isascii()
    assert json.loads(ran.out)["id"] == "é\ud800"


def test_it_needs_no_home() -> None:
    """Nor any other variable."""
    command = [sys.executable, "-m", "selector", "decide"]

    done = subprocess.run(
        command, input=b'{"facts": {"platform": "cpu"}}\n', capture_output=True, env={"PYTHONPATH": str(ROOT)}, cwd="/",
        check=True, timeout=60,
    )  # fmt: skip

    assert json.loads(done.stdout)["backend"] == "TORCH_SDPA"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full here")  # noqa: PTH110
@pytest.mark.parametrize("from_file", [True, False])
def test_a_full_disk_is_told(tmp_path: Path, *, from_file: bool) -> None:
    """As what it is, and not as the fault of the input."""
    path = tmp_path / "lines"
    path.write_bytes(lines_of(1))
    command = [sys.executable, "-m", "selector", "decide", str(path) if from_file else "-"]
    with path.open("rb") as stdin, Path("/dev/full").open("wb") as out:
        done = subprocess.run(
            command,
            stdin=stdin,
            stdout=out,
            stderr=subprocess.PIPE,
            env=environment(),
            cwd=ROOT,
            check=False,
            timeout=60,
        )

    assert done.returncode != 0
    assert b"Traceback" not in done.stderr
    assert str(path).encode() not in done.stderr
    assert b"no space left" in done.stderr.lower()


@pytest.mark.parametrize(("closed", "status"), [("<&-", None), (">&-", None), ("2>&-", 2)])
def test_a_closed_stream_is_no_traceback(closed: str, status: int | None) -> None:
    """Neither input nor output nor the stream of errors has to be there."""
    name = "/nowhere" if closed == "2>&-" else "-"
    program = f'exec "$0" -m selector decide {name} {closed}'

    done = subprocess.run(
        ["/bin/sh", "-c", program, sys.executable], stdin=subprocess.DEVNULL, capture_output=True, env=environment(),
        cwd=ROOT, check=False, timeout=60,
    )  # fmt: skip

    assert b"Traceback" not in done.stderr
    assert done.returncode in ({status} if status is not None else {0, 2})


# --- laws ---

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
PARTS = ["facts", "request", "config", "backend", "env", "policy", "expect", "id"]


@given(line=st.dictionaries(st.sampled_from(PARTS), plain))
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_whatever_a_line_holds_it_is_answered(line: dict[str, object]) -> None:
    """With a backend or with an error."""
    told = answer(line, trace=True)

    assert (told["backend"] is None) is (told["error"] is not None)
    assert told["id"] == line.get("id")


@given(raw=st.binary(max_size=60))
@settings(max_examples=300, deadline=None)
def test_whatever_bytes_a_line_is_it_is_answered(raw: bytes) -> None:
    """With an error, unless it is an object by chance."""
    answer(raw.replace(b"\n", b""))


def test_a_line_and_a_selector_decide_alike() -> None:
    """The command is another door to the same room."""
    facts, request = cuda("sm_100", FI), {"head_dim": 128, "mask_free": True}
    chosen = Selector(facts=facts, environment={}).decide(**request)  # type: ignore[arg-type]

    assert answer({"facts": facts, "request": request}) == {"id": None, **chosen.answer()}
