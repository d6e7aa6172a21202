"""Lines answered: what `decide` and the service do with a question, whether it is well formed or not."""

from __future__ import annotations

import functools
import json
import marshal
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from selector.configuring import Choices, choose, read_policy
from selector.decision import Decision, Inputs, Told
from selector.facts import Request, read_machine, read_request
from selector.faults import Fault, unknown_keys, wrong_type
from selector.json_lines import strict_value, text_of, writer
from selector.origins import policy_origin
from selector.resolve import resolve, resolve_told
from selector.rules.nodes import MOST_BYTES, TextError
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet
from selector.serving import invalid
from selector.tracing import Trace

if TYPE_CHECKING:
    from selector.alike import Decided
    from selector.decision_logs import Log

_written = writer()
KEYS = dict.fromkeys(("id", "facts", "request", "config", "backend", "env", "policy", "expect"))

_MOST_KEPT = 512
_MOST_KEY = 2_048  # bytes

Made = TypeVar("Made")


_Machine = tuple[list[Fault], dict[str, Value], Mapping[str, str]]
"""What is wrong with the facts of a machine, the facts, and where each that was probed comes from."""


_Layer = tuple[list[Fault], Request]
"""What is wrong with a request, and the request."""


class _Config(NamedTuple):
    """What a line says beside facts and request, and what is wrong with it."""

    of_env: list[Fault]
    faults: list[Fault]
    choices: Choices
    policy: str
    origin: str


class _Shared(NamedTuple):
    """What a line says beside its request: keys that are not known, the machine, the rest."""

    unknown: list[Fault]
    machine: _Machine
    config: _Config


class _Recent(dict[bytes, Made]):
    """What was made of values by what tells them, for as many of them as are kept; of large ones it is not."""

    def keep(self, key: bytes, made: Made) -> Made:
        """Keep what was made of the value that the key tells."""
        if len(key) <= _MOST_KEY:
            if len(self) >= _MOST_KEPT:
                self.clear()
            self[key] = made
        return made


def _told(value: Any) -> bytes:  # noqa: ANN401 - whatever JSON holds
    """Give what tells a value from others; 1, 1.0 and true are three."""
    return marshal.dumps(value, 2)


class Lines:
    """Answers lines with one rule set; this machine's own facts are read once, when a line asks for them.

    What was read of requests and configs is remembered, within bounds. Of machines, of which there may be as many as
    lines, that of the line before is.
    """

    def __init__(
        self, rules: RuleSet, device: int = 0, *, trace: bool = False, log: Log | None = None, name: str = "line"
    ) -> None:
        """Hold what all lines share; `name` is what a line is called in places."""
        self.rules = rules
        self.device = device
        self.trace = trace
        self.log = log
        self.name = name
        self.last: tuple[object, _Machine] | None = None
        self.requests: _Recent[_Layer] = _Recent()
        self.configs: _Recent[_Config] = _Recent()

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
        return _written(answer)

    def decide(self, given: Mapping[str, object]) -> Decision:
        """Decide for one parsed line."""
        request = given.get("request")
        key = _told(request)
        layer = self.requests.get(key) or self.requests.keep(key, self.request(request))
        inputs = self.inputs(self.shared(given), layer)
        return inputs if isinstance(inputs, Decision) else resolve(inputs, self.rules)

    def decide_each(self, shared: Mapping[str, object], requests: Iterable[object]) -> Iterator[Decided]:
        """Decide for each of many requests to which the rest of a line is common."""
        from selector.alike import Alike  # only for many requests at once

        rest = self.shared(shared)

        def decide(request: object) -> Told:
            inputs = self.inputs(rest, self.request(request))
            return Told(inputs) if isinstance(inputs, Decision) else resolve_told(inputs, self.rules)

        return map(Alike(self.rules.prepared.numbers, decide).decide, requests)

    def shared(self, given: Mapping[str, object]) -> _Shared:
        """Read what a line says beside its request."""
        get = given.get
        unknown = [] if given.keys() <= KEYS.keys() else unknown_keys((), given, KEYS)
        machine = self.machine(get("facts")) if "facts" in given else self.own_machine
        key = _told([get("config"), get("backend"), get("env"), get("policy")])
        return _Shared(unknown, machine, self.configs.get(key) or self.configs.keep(key, self.config(given)))

    def inputs(self, shared: _Shared, layer: _Layer) -> Inputs | Decision:
        """Put together what a line says, or give the decision that tells what is wrong with it."""
        unknown, machine, config = shared
        if unknown or config.of_env or machine[0] or layer[0] or config.faults:
            faults = [*unknown, *config.of_env, *machine[0], *layer[0], *config.faults]
            return invalid(faults, self.rules, config.policy, self.name)
        origins = {**machine[2], "policy": config.origin}
        return Inputs(machine[1], layer[1], config.choices, config.policy, origins=origins)

    def request(self, given: object) -> _Layer:
        """Read the request of a line."""
        return read_request(given, self.rules.vocabulary, ("request",))

    def machine(self, given: object) -> _Machine:
        """Read the facts of a line."""
        last = self.last
        if last is not None and last[0] == given and _told(last[0]) == _told(given):
            return last[1]
        faults, facts = read_machine(given, self.rules.vocabulary, self.device, ("facts",))
        self.last = (given, (faults, facts, {}))
        return self.last[1]

    def config(self, given: Mapping[str, object]) -> _Config:
        """Read the config of a line in all its forms."""
        env = given.get("env")
        wrong = [] if env is None or isinstance(env, Mapping) else [wrong_type(("env",), "a mapping of variables", env)]
        variables = env if isinstance(env, Mapping) else {}
        faults, choices = choose(given.get("config"), given.get("backend"), variables, self.rules)
        more, policy = read_policy(given.get("policy"), variables, ())
        return _Config(wrong, [*faults, *more], choices, policy, policy_origin(given.get("policy"), variables))

    def unreadable(self, given: Mapping[str, object], faults: list[Fault]) -> Decision:
        """Answer a line that is not valid JSON as far as it can be understood: what excludes itself goes first."""
        found, _ = choose(given.get("config"), given.get("backend"), {}, self.rules)
        exclusive = [fault for fault in found if fault.code == "mutually_exclusive"]
        return invalid([*exclusive, *faults], self.rules, "fallback", self.name)

    @functools.cached_property
    def own_machine(self) -> _Machine:
        """The facts of this machine, and where each comes from."""
        from selector.probe import probe_machine  # only when a line brings no facts

        facts, origins = probe_machine(tuple(self.rules.vocabulary.packages.values()))
        return *read_machine(facts, self.rules.vocabulary, self.device, ("facts",)), origins


_Parsed = tuple[Mapping[str, object], list[Fault]]
"""What a line holds, and what is wrong with it."""


def _parse(raw: bytes | None) -> _Parsed:
    """Read one line as a JSON object; what is wrong with it comes as a fault with its column."""
    if raw is None:
        return {}, [Fault((), "too-large", f"the line is too long: wanted at most {MOST_BYTES} bytes")]
    try:
        value = strict_value(text_of(raw), "line")
    except UnicodeDecodeError as error:
        message = f"wanted UTF-8, got byte 0x{raw[error.start]:02x} at column {error.start + 1}"
        return {}, [Fault((), "not-utf-8", message)]
    except TextError as error:
        return _guess(raw), [_text_fault(error)]
    return (value, []) if isinstance(value, dict) else ({}, [wrong_type((), "a JSON object", value)])


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
