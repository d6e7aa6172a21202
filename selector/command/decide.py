"""`attention-selector decide`: JSON lines in, one decision a line out, never stopping at a bad one."""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, NamedTuple, TextIO

from selector.configuring import choose, read_policy
from selector.decision import Decision, Inputs
from selector.facts import read_machine, read_request
from selector.faults import Fault, unknown_keys, wrong_type
from selector.resolve import resolve
from selector.rules.json_text import read_json
from selector.rules.nodes import MOST_BYTES, MOST_LEVELS, TextError
from selector.rules.problems import Place, Problem, ProblemsError, shown
from selector.ruleset import RuleSet
from selector.selecting import invalid, rules_from

_KEYS = ("id", "facts", "request", "config", "backend", "env", "policy", "expect")


def run(options: argparse.Namespace) -> int:
    """Answer every line of the file, or of standard input."""
    rules = rules_from(options.rules, os.environ)
    lines = Lines(rules, options.device, trace=options.trace)
    if options.file == "-":
        if sys.stdin is None:
            raise ProblemsError([Problem(Place("standard input"), "unreadable", "it is closed")])
        _answer(sys.stdin.buffer, sys.stdout, lines, flush=True)
        return 0
    with _opened(options.file) as stream:
        _answer(stream, sys.stdout, lines, flush=False)
    return 0


def _opened(name: str) -> BinaryIO:
    """Open the file of lines, and see that it can be read."""
    try:
        stream = Path(name).open("rb")  # noqa: SIM115 - the caller closes it
        stream.peek(1)
    except (OSError, ValueError) as error:
        said = (getattr(error, "strerror", None) or str(error)).lower()
        raise ProblemsError(
            [Problem(Place(shown(name, 4096)), "unreadable", f"cannot read the file: {said}")]
        ) from error
    return stream


def _answer(stream: BinaryIO, out: TextIO, lines: Lines, *, flush: bool) -> None:
    for raw in _lines(stream):
        out.write(lines.answer(raw) + "\n")
        if flush:
            out.flush()


def _lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Give every line that is not blank; one that is too long is None, and is not kept in memory."""
    while line := stream.readline(MOST_BYTES + 2):
        if len(line.rstrip(b"\r\n")) > MOST_BYTES:
            while line and not line.endswith(b"\n"):
                line = stream.readline(MOST_BYTES)
            yield None
        elif line.strip():
            yield line


class _DuplicateError(ValueError):
    """An object that has a key twice."""


class Lines:
    """Answers lines with one rule set; this machine's own facts are read once, when a line asks for them."""

    def __init__(self, rules: RuleSet, device: int = 0, *, trace: bool = False) -> None:
        """Hold what all lines share."""
        self.rules = rules
        self.device = device
        self.trace = trace

    def answer(self, raw: bytes | None) -> str:
        """Give the answer to one line as one line."""
        given, faults = _parse(raw)
        identity = given.get("id")
        decision = self.unreadable(given, faults) if faults else self.decide(given)
        answer: dict[str, object] = {"id": identity, **decision.answer()}
        if self.trace:
            answer["trace"] = decision.explain().to_dict() if decision.inputs is not None else []
        return json.dumps(answer, allow_nan=False)

    def decide(self, given: Mapping[str, object]) -> Decision:
        """Decide for one parsed line."""
        rules = self.rules
        faults = unknown_keys((), given, _KEYS)
        env = given.get("env")
        if env is not None and not isinstance(env, Mapping):
            faults.append(wrong_type(("env",), "a mapping of variables", env))
            env = None
        if "facts" in given:
            found, machine = read_machine(given["facts"], rules.vocabulary, self.device, ("facts",))
        else:
            found, machine = self.own_machine
        more, request = read_request(given.get("request"), rules.vocabulary, ("request",))
        wrong, choices = choose(given.get("config"), given.get("backend"), env or {}, rules)
        policy_faults, policy = read_policy(given.get("policy"), env or {}, ())
        faults += [*found, *more, *wrong, *policy_faults]
        if faults:
            return invalid(faults, rules, policy, "line")
        return resolve(Inputs(machine, request, choices, policy), rules)

    def unreadable(self, given: Mapping[str, object], faults: list[Fault]) -> Decision:
        """Answer a line that is not valid JSON as far as it can be understood: what excludes itself goes first."""
        found, _ = choose(given.get("config"), given.get("backend"), {}, self.rules)
        exclusive = [fault for fault in found if fault.code == "mutually_exclusive"]
        return invalid([*exclusive, *faults], self.rules, "fallback", "line")

    @functools.cached_property
    def own_machine(self) -> tuple[list[Fault], dict[str, str | int | bool | None]]:
        """The facts of this machine."""
        from selector.probe import read_machine as probe  # only when a line brings no facts

        facts = probe(tuple(self.rules.vocabulary.packages.values()))
        return read_machine(facts, self.rules.vocabulary, self.device, ("facts",))


class _Parsed(NamedTuple):
    given: Mapping[str, object]
    faults: list[Fault]


def _parse(raw: bytes | None) -> _Parsed:
    """Read one line as a JSON object; what is wrong with it comes as a fault with its column."""
    if raw is None:
        return _Parsed({}, [Fault((), "too-large", f"the line is too long: wanted at most {MOST_BYTES} bytes")])
    try:
        value = _value(raw.decode("utf-8-sig").strip("\r\n"))
    except UnicodeDecodeError as error:
        message = f"wanted UTF-8, got byte 0x{raw[error.start]:02x} at column {error.start + 1}"
        return _Parsed({}, [Fault((), "not-utf-8", message)])
    except TextError as error:
        return _Parsed(_guess(raw), [_text_fault(error)])
    return _Parsed(value, []) if isinstance(value, dict) else _Parsed({}, [wrong_type((), "a JSON object", value)])


def _guess(raw: bytes) -> Mapping[str, object]:
    """Read what a lenient parser makes of a line (a key that stands twice, a number too large), for its id alone."""
    try:
        value = json.loads(raw)
        json.dumps(value.get("id") if isinstance(value, dict) else None, allow_nan=False)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _value(text: str) -> object:
    """Read a JSON value; the standard library's parser goes first, ours says where it failed, or reads deep texts."""
    if text.count("{") + text.count("[") <= MOST_LEVELS:
        try:
            return _loads(text)
        except ValueError:
            pass  # read again below, which fails with the place
    return read_json(text, "line").plain()


def _text_fault(error: TextError) -> Fault:
    problem = error.problems[0]
    return Fault((), problem.code, f"{problem.message} at column {problem.place.column}", problem.hint)


def _loads(text: str) -> object:
    return json.loads(text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant, parse_float=_finite)


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _DuplicateError
    return found


def _no_constant(name: str) -> object:
    raise ValueError(name)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    return number
