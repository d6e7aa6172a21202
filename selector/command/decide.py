"""`attention-selector decide`: JSON lines in, one decision a line out, never stopping at a bad one."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import sys
from collections.abc import Mapping
from typing import NamedTuple

from selector.command import given
from selector.configuring import choose, read_policy
from selector.decision import Decision, Inputs
from selector.decision_log import DecisionLog
from selector.facts import read_machine, read_request
from selector.faults import Fault, unknown_keys, wrong_type
from selector.json_lines import STANDARD_INPUT, lines_of, opened, strict_value, text_of
from selector.origins import policy_origin
from selector.resolve import resolve
from selector.rules.nodes import MOST_BYTES, TextError
from selector.rules.problems import Place, Problem, ProblemsError, shown
from selector.ruleset import RuleSet
from selector.serving import invalid
from selector.tracing import Trace

_KEYS = ("id", "facts", "request", "config", "backend", "env", "policy", "expect")


def run(options: argparse.Namespace) -> int:
    """Answer every line of the file, or of standard input."""
    rules = given.rules(options)
    with contextlib.ExitStack() as open_files:
        log = None if options.log is None else open_files.enter_context(_log(options.log))
        lines = Lines(rules, options.device, trace=options.trace, log=log)
        stream = open_files.enter_context(opened(options.file))
        for line in lines_of(stream, options.file):
            sys.stdout.write(lines.answer(line.raw) + "\n")
            if options.file == STANDARD_INPUT:
                sys.stdout.flush()
    if log is not None and log.dropped:
        raise _unlogged(log)
    return 0


def _log(name: str) -> DecisionLog:
    try:
        return DecisionLog(name)
    except (OSError, ValueError) as error:
        said = (getattr(error, "strerror", None) or str(error)).lower()
        problem = Problem(Place(shown(name, 4096)), "unwritable", f"cannot write the log: {said}")
        raise ProblemsError([problem]) from error


def _unlogged(log: DecisionLog) -> ProblemsError:
    said = str(log.last_error.strerror).lower() if log.last_error else "for no known reason"
    message = f"{log.dropped} decisions could not be written to the log: {said}"
    return ProblemsError([Problem(Place(shown(str(log.path), 4096)), "unwritable", message)])


class Lines:
    """Answers lines with one rule set; this machine's own facts are read once, when a line asks for them."""

    def __init__(self, rules: RuleSet, device: int = 0, *, trace: bool = False, log: DecisionLog | None = None) -> None:
        """Hold what all lines share."""
        self.rules = rules
        self.device = device
        self.trace = trace
        self.log = log

    def answer(self, raw: bytes | None) -> str:
        """Give the answer to one line as one line."""
        given, faults = _parse(raw)
        identity = given.get("id")
        decision = self.unreadable(given, faults) if faults else self.decide(given)
        if self.log is not None:
            self.log.write(decision)
        answer: dict[str, object] = {"id": identity, **decision.answer()}
        if self.trace:
            trace = decision.explain() if decision.inputs is not None else Trace()
            answer["trace"] = trace.to_dict()
            answer |= {"layers": [layer.to_dict() for layer in trace.layers], "origins": dict(trace.origins)}
        return json.dumps(answer, allow_nan=False)

    def decide(self, given: Mapping[str, object]) -> Decision:
        """Decide for one parsed line."""
        rules = self.rules
        faults = unknown_keys((), given, _KEYS)
        env = given.get("env")
        if env is not None and not isinstance(env, Mapping):
            faults.append(wrong_type(("env",), "a mapping of variables", env))
            env = None
        probed: Mapping[str, str] = {}
        if "facts" in given:
            found, machine = read_machine(given["facts"], rules.vocabulary, self.device, ("facts",))
        else:
            found, machine, probed = self.own_machine
        more, request = read_request(given.get("request"), rules.vocabulary, ("request",))
        wrong, choices = choose(given.get("config"), given.get("backend"), env or {}, rules)
        policy_faults, policy = read_policy(given.get("policy"), env or {}, ())
        faults += [*found, *more, *wrong, *policy_faults]
        if faults:
            return invalid(faults, rules, policy, "line")
        origins = {**probed, "policy": policy_origin(given.get("policy"), env or {})}
        return resolve(Inputs(machine, request, choices, policy, origins=origins), rules)

    def unreadable(self, given: Mapping[str, object], faults: list[Fault]) -> Decision:
        """Answer a line that is not valid JSON as far as it can be understood: what excludes itself goes first."""
        found, _ = choose(given.get("config"), given.get("backend"), {}, self.rules)
        exclusive = [fault for fault in found if fault.code == "mutually_exclusive"]
        return invalid([*exclusive, *faults], self.rules, "fallback", "line")

    @functools.cached_property
    def own_machine(self) -> tuple[list[Fault], dict[str, str | int | bool | None], Mapping[str, str]]:
        """The facts of this machine, and where each comes from."""
        from selector.probe import probe_machine  # only when a line brings no facts

        facts, origins = probe_machine(tuple(self.rules.vocabulary.packages.values()))
        return *read_machine(facts, self.rules.vocabulary, self.device, ("facts",)), origins


class _Parsed(NamedTuple):
    given: Mapping[str, object]
    faults: list[Fault]


def _parse(raw: bytes | None) -> _Parsed:
    """Read one line as a JSON object; what is wrong with it comes as a fault with its column."""
    if raw is None:
        return _Parsed({}, [Fault((), "too-large", f"the line is too long: wanted at most {MOST_BYTES} bytes")])
    try:
        value = strict_value(text_of(raw), "line")
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


def _text_fault(error: TextError) -> Fault:
    problem = error.problems[0]
    return Fault((), problem.code, f"{problem.message} at column {problem.place.column}", problem.hint)
