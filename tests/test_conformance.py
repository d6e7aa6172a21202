"""The conformance lines: `decide` agrees with every key of every `expect`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from selector.command import main

FILES = sorted((Path(__file__).parent / "conformance").glob("*.jsonl"))
KEYS = ["id", "backend", "source", "origin", "rule", "log", "warnings", "error"]


def told(key: str, answer: dict[str, Any]) -> object:
    """Give what a key of `expect` is compared with: of an error its code, of warnings whether there are any."""
    if key == "error":
        return (answer["error"] or {}).get("code")
    return bool(answer["warnings"]) if key == "warnings" else answer[key]


@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
@pytest.mark.parametrize("flags", [[], ["--trace"]], ids=["", "traced"])
def test_every_line_agrees(path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """In the order of the file; the answer has the contract's keys and is the same when it is traced."""
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]

    status = main(["decide", str(path), *flags])

    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert status == 0
    assert [answer["id"] for answer in answers] == [line["id"] for line in lines]
    wrong = [
        (line["id"], key, expected, told(key, answer))
        for line, answer in zip(lines, answers, strict=True)
        for key, expected in line["expect"].items()
        if told(key, answer) != (bool(expected) if key == "warnings" else expected)
    ]
    assert wrong == []
    assert all(list(answer) == [*KEYS, *(["trace", "layers", "origins"] if flags else [])] for answer in answers)


def test_the_files_are_there() -> None:
    """With some hundred lines, of every outcome."""
    lines = [json.loads(line) for path in FILES for line in path.read_text(encoding="utf-8").splitlines()]

    assert len(lines) > 500
    assert {line["expect"].get("error") for line in lines} == {None, "refused", "invalid", "mutually_exclusive"}


def test_an_error_leaves_nothing_that_could_be_taken_for_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """No backend, rule or log line; source and origin where a backend was refused."""
    for path in FILES:
        main(["decide", str(path)])
        for answer in map(json.loads, capsys.readouterr().out.splitlines()):
            if answer["error"] is None:
                assert None not in (
                    answer["backend"],
                    answer["rule"],
                    answer["log"],
                    answer["source"],
                    answer["origin"],
                )
            else:
                assert (answer["backend"], answer["rule"], answer["log"]) == (None, None, None)
                assert (answer["source"] is not None) is (answer["error"]["code"] == "refused")
