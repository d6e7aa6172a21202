"""What a selector serves at one moment: rules, machine and config that belong together, swapped whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from selector.configuring import BACKEND_VARIABLE, POLICY_VARIABLE, Choices, choose, read_policy
from selector.decision import Decision, Failure, Inputs, Outdated
from selector.facts import Request, device_numbers, read_machine, read_request
from selector.faults import Fault, dotted, place
from selector.origins import file_origins, policy_origin
from selector.resolve import resolve, without_packages
from selector.rules.nodes import Node
from selector.rules.problems import ConfigError, FactsError, Problem, ProblemsError
from selector.rules.text import read_file
from selector.rules.vocabulary import Value, Vocabulary
from selector.ruleset import RuleSet

if TYPE_CHECKING:
    from selector.config import AttentionConfig

_MOST_TOLD = 20
_VARIABLES = (BACKEND_VARIABLE, POLICY_VARIABLE)
_SETTINGS = {"backend": "--diffusion-attention-backend", "policy": "--policy"}


class Sourced(NamedTuple):
    """A config with the text it was read from, so that what is wrong with it has a place."""

    name: str
    node: Node


@dataclass(frozen=True, slots=True)
class Serving:
    """Rules, machine and config that were checked against each other. Threads may share it; nothing of it changes.

    `machines` are the GPUs of the machine by their numbers, `sources` say where the facts of each come from. `plans`
    holds what `selector.dispatch` decided by call signature, `kernels` what it bound, and `ready` what runs calls like
    those that it has run; that is never carried into another `Serving`. `outdated` says since when
    newer rules are refused, while these go on serving. `first_use_check` says whether a kernel is checked before its
    first call: always, never, or (None) where it is unverified.
    """

    rules: RuleSet
    machines: Mapping[int, Mapping[str, Value]]
    sources: Mapping[int, Mapping[str, str]]
    machine: Mapping[str, Value]
    choices: Choices
    policy: str
    origins: Mapping[str, str]
    outdated: Outdated | None = None
    first_use_check: bool | None = None
    plans: dict[object, object] = field(default_factory=dict, repr=False)
    kernels: dict[object, object] = field(default_factory=dict, repr=False)
    ready: dict[object, list[Any]] = field(default_factory=dict, repr=False, compare=False, init=False)

    def decide(self, role: str | None, call: Mapping[str, object] | None, request: Mapping[str, object]) -> Decision:
        """Decide for one layer; facts that are not valid are answered in the decision."""
        faults, read = read_request({"role": role, **request, "call": call}, self.rules.vocabulary)
        return invalid(faults, self.rules, self.policy, "request") if faults else self.resolve(read)

    def resolve(
        self, request: Request, absent: Sequence[str] = (), origins: Mapping[str, str] | None = None
    ) -> Decision:
        """Decide for a request that is checked already; facts named in `absent` are taken as null.

        `origins` says where facts of the request come from, if not from the request itself (see `selector.origins`).
        """
        told = {**self.origins, **origins} if origins else self.origins
        inputs = Inputs(self.machine, request, self.choices, self.policy, origins=told)
        decision = resolve(without_packages(inputs, absent) if absent else inputs, self.rules)
        return decision if self.outdated is None else replace(decision, outdated=self.outdated)

    def on(self, machine: Mapping[str, Value]) -> Serving:
        """Give the same for another machine's facts."""
        number = next((number for number, known in self.machines.items() if known is machine), None)
        found = {} if number is None else self.sources[number]
        origins = {**found, "policy": self.origins["policy"]}
        return replace(self, machine=dict(machine), origins=origins, plans={}, kernels={})

    def kept(self, outdated: Outdated | None) -> Serving:
        """Give the same rules, with what is said of newer ones; decisions are made anew, so that they say it too."""
        return replace(self, outdated=outdated, plans={})


@dataclass(slots=True)
class Given:
    """What a selector was made with, kept so that it can be served with other rules."""

    facts: Mapping[str, object] | str | Path | None
    device: int
    config: AttentionConfig | Mapping[str, object] | str | Path | Sourced | None
    backend: str | None
    policy: str | None
    environment: Mapping[str, str]
    first_use_check: bool | None = None
    probed: Mapping[str, object] | None = None
    probed_origins: Mapping[str, str] = field(default_factory=dict)
    text: tuple[str, Node] | None = None

    def serve(self, rules: RuleSet) -> Serving:
        """Check machine and config against the rules. Raises `FactsError` or `ConfigError`."""
        machines, sources = self.machines(rules.vocabulary)
        choices, policy = self.choices(rules)
        origins = {**sources[self.device], "policy": policy_origin(self.policy, self.environment)}
        machine, check = machines[self.device], self.first_use_check
        return Serving(rules, machines, sources, machine, choices, policy, origins, first_use_check=check)

    def machines(self, vocabulary: Vocabulary) -> tuple[dict[int, dict[str, Value]], dict[int, Mapping[str, str]]]:
        """Read the facts once for each device that they list, and so for the chosen one, with where they come from."""
        name, node, value = self.raw(vocabulary)
        faults, machine = read_machine(value, vocabulary, self.device)
        if faults:
            raise FactsError(place(faults, name, node))
        others = device_numbers(value) if isinstance(value, Mapping) else []
        machines = {other: read_machine(value, vocabulary, other)[1] for other in others} | {self.device: machine}
        return machines, {
            number: self.probed_origins if node is None else file_origins(found, number, name, node)
            for number, found in machines.items()
        }

    def raw(self, vocabulary: Vocabulary) -> tuple[str, Node | None, object]:
        """Give the facts as they were written, and the text that they stand in."""
        if self.facts is None:
            return "facts", None, self.probe(vocabulary)
        if not isinstance(self.facts, str | Path):
            return "facts", None, self.facts
        if self.text is None:
            self.text = (str(self.facts), read_file(Path(self.facts)))
        name, node = self.text
        return name, node, node.plain()

    def probe(self, vocabulary: Vocabulary) -> object:
        """Read this machine once; again only for packages that other rules have made known, and for these alone."""
        known = self.probed["packages"] if self.probed is not None else None
        if isinstance(known, dict) and vocabulary.packages.keys() <= known.keys():
            packages = {key: version for key, version in known.items() if key in vocabulary.packages}
            return {**(self.probed or {}), "packages": packages}
        from selector.probe import probe_machine  # only when the machine is asked

        found, origins = probe_machine(tuple(vocabulary.packages.values()))
        packages = {**found["packages"], **(known or {})}  # type: ignore[dict-item]
        self.probed = {**found, **(self.probed or {}), "packages": packages}
        self.probed_origins = {**origins, **self.probed_origins}
        return {**self.probed, "packages": {key: packages[key] for key in vocabulary.packages}}

    def choices(self, rules: RuleSet) -> tuple[Choices, str]:
        """Read the config, the flags and the environment."""
        name, node, value = "config", None, self.config
        if isinstance(value, str | Path):
            self.config = value = Sourced(str(value), read_file(Path(value)))
        if isinstance(value, Sourced):
            from selector.structure import config_file_faults  # jsonschema only where a text is read

            name, node = value
            value = node.plain()  # type: ignore[assignment]
            faults = config_file_faults(value, rules)
            if faults:
                raise ConfigError(place(faults, name, node))
        variables = {key: self.environment[key] for key in _VARIABLES if key in self.environment}
        faults, choices = choose(value, self.backend, variables, rules)
        more, policy = read_policy(self.policy, variables, ())
        if faults or more:
            raise ConfigError(_placed([*faults, *more], name, node))
        return choices, policy


def _placed(faults: Sequence[Fault], name: str, node: Node | None) -> list[Problem]:
    """Place what is wrong with the config in its text, and what is wrong with a flag or variable at its name."""
    problems = []
    for fault in faults:
        step, *rest = fault.path
        if step == "config":
            problems += place([fault._replace(path=tuple(rest))], name, node)
        else:
            setting = str(rest[-1]) if rest else _SETTINGS.get(str(step), str(step))
            problems += place([fault._replace(path=())], setting)
    return problems


def refusing(error: ProblemsError, before: Outdated | None) -> Outdated:
    """Say that newer rules are refused, since now or since they were refused before, and why."""
    since = before.since if before else _now()
    return Outdated(since, str(error.problems[0]), len(error.problems))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def invalid(faults: Sequence[Fault], rules: RuleSet, policy: str, name: str) -> Decision:
    """Give the decision that says that the input is not valid, with every fault."""
    problems = tuple(place(faults, name))
    exclusive = next((fault for fault in faults if fault.code == "mutually_exclusive"), None)
    fault = exclusive or faults[0]
    told = [exclusive] if exclusive else faults[:_MOST_TOLD]
    rest = 0 if exclusive else len(faults) - len(told)
    message = "; ".join([*map(_sentence, told), *([f"and {rest} more problems"] if rest else [])])
    failure = Failure("mutually_exclusive" if exclusive else "invalid", message, dotted(fault.path) or None, problems)
    return Decision(None, None, None, None, None, (), failure, rules.digest, policy, "", None, {})


def _sentence(fault: Fault) -> str:
    return f"{fault.message} ({fault.hint})" if fault.hint else fault.message
