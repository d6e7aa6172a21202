"""The selector: rules, a machine and a config held together, asked once per layer."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from selector.configuring import BACKEND_VARIABLE, POLICY_VARIABLE, Choices, choose, read_policy
from selector.decision import Decision, Failure, Inputs
from selector.facts import Request, device_numbers, read_machine, read_request
from selector.faults import Fault, dotted, place
from selector.resolve import resolve, without_packages
from selector.rules.nodes import Node
from selector.rules.problems import ConfigError, FactsError, Problem
from selector.rules.text import read_file
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, load_rules, shipped

if TYPE_CHECKING:
    from selector.config import AttentionConfig

RULES_VARIABLE = "ATTENTION_SELECTOR_RULES"
_MOST_TOLD = 20
_VARIABLES = (BACKEND_VARIABLE, POLICY_VARIABLE)


class Sourced(NamedTuple):
    """A config with the text it was read from, so that what is wrong with it has a place."""

    name: str
    node: Node


class Selector:
    """Decides which attention backend runs.

    `rules` is a rule set, or folders whose files go before the shipped ones (default: the shipped rules and those of
    ``ATTENTION_SELECTOR_RULES``). `facts` is a mapping or a YAML or JSON file (default: this machine is read, without
    importing a kernel); `device` picks one of several GPUs. `config` is an `AttentionConfig`, a mapping, or a file;
    `backend` the shorthand for its default. `policy` is ``fallback`` or ``strict``. `environment` is where
    ``DIFFUSION_ATTENTION_BACKEND`` and ``ATTENTION_SELECTOR_POLICY`` are looked up (default: the process's).

    Raises `TableError`, `FactsError` or `ConfigError` with every problem at once. A selector never changes; threads
    may share it.
    """

    def __init__(
        self,
        *,
        rules: RuleSet | str | Path | Sequence[str | Path] | None = None,
        facts: Mapping[str, object] | str | Path | None = None,
        device: int = 0,
        config: AttentionConfig | Mapping[str, object] | str | Path | Sourced | None = None,
        backend: str | None = None,
        policy: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Read and check everything, so that `select` has only the tables left to walk."""
        env = os.environ if environment is None else environment
        self.rules = rules_from(rules, env)
        self.machines = self._machines(facts, device)
        self.machine = self.machines[device]
        self.choices, self.policy = self._choices(config, backend, policy, env)
        self.plans: dict[object, object] = {}  # what `selector.dispatch` decided, by call signature
        self.kernels: dict[object, object] = {}  # and what it bound

    def _machines(self, facts: Mapping[str, object] | str | Path | None, device: int) -> dict[int, dict[str, Value]]:
        """Read the facts once for each device that they list, and so for the chosen one, by its number."""
        name, node, value = "facts", None, facts
        if facts is None:
            from selector.probe import read_machine as probe  # only when the machine is asked

            value = probe(tuple(self.rules.vocabulary.packages.values()))
        elif isinstance(facts, str | Path):
            name, node = str(facts), read_file(Path(facts))
            value = node.plain()  # type: ignore[assignment]
        faults, machine = read_machine(value, self.rules.vocabulary, device)
        if faults:
            raise FactsError(place(faults, name, node))
        others = device_numbers(value) if isinstance(value, Mapping) else []
        return {other: read_machine(value, self.rules.vocabulary, other)[1] for other in others} | {device: machine}

    def _choices(
        self, config: AttentionConfig | Mapping[str, object] | str | Path | Sourced | None, backend: str | None,
        policy: str | None, env: Mapping[str, str],
    ) -> tuple[Choices, str]:  # fmt: skip
        name, node, value = "config", None, config
        if isinstance(config, str | Path):
            config = Sourced(str(config), read_file(Path(config)))
        if isinstance(config, Sourced):
            from selector.structure import config_file_faults  # jsonschema only where a text is read

            name, node = config
            value = node.plain()  # type: ignore[assignment]
            faults = config_file_faults(value, self.rules)
            if faults:
                raise ConfigError(place(faults, name, node))
        variables = {key: env[key] for key in _VARIABLES if key in env}
        faults, choices = choose(value, backend, variables, self.rules)
        more, checked = read_policy(policy, variables, ())
        if faults or more:
            raise ConfigError(_placed([*faults, *more], name, node))
        return choices, checked

    def other_machines(self) -> Iterator[tuple[int, Mapping[str, Value]]]:
        """Give the other GPUs of this machine whose facts differ, each with its number."""
        for device, machine in self.machines.items():
            if machine != self.machine:
                yield device, machine

    def on(self, machine: Mapping[str, Value]) -> Selector:
        """Give the same selector for another machine's facts."""
        other = copy.copy(self)
        other.machine = dict(machine)
        other.plans, other.kernels = {}, {}
        return other

    def select(
        self, role: str | None = None, *, call: Mapping[str, object] | None = None, **request: object
    ) -> Decision:
        """Decide for one layer; facts of the request go by name (`head_dim=128`, `model="WanPipeline"`, …).

        Raises `SelectionRefusedError` when the rules refuse, `InvalidSelectionError` when the request is not valid;
        both carry the decision. The log line is written once for each distinct decision.
        """
        decision = self.decide(role, call=call, **request).ensure()
        from selector.logs import announce  # structlog only where something is logged

        announce(decision)
        return decision

    def decide(
        self, role: str | None = None, *, call: Mapping[str, object] | None = None, **request: object
    ) -> Decision:
        """Decide like `select`, but answer with the error in the decision, and log nothing."""
        faults, read = read_request({"role": role, **request, "call": call}, self.rules.vocabulary)
        if faults:
            return invalid(faults, self.rules, self.policy, "request")
        return self.resolve(read)

    def resolve(self, request: Request, absent: Sequence[str] = ()) -> Decision:
        """Decide for a request that is checked already; facts named in `absent` are taken as null."""
        inputs = Inputs(self.machine, request, self.choices, self.policy)
        return resolve(without_packages(inputs, absent) if absent else inputs, self.rules)


def rules_from(rules: RuleSet | str | Path | Sequence[str | Path] | None, environment: Mapping[str, str]) -> RuleSet:
    """Give the rule set: the one given, or the shipped rules with the given folders or those of the environment."""
    if isinstance(rules, RuleSet):
        return rules
    if rules is None:
        folders: Sequence[str | Path] = [
            folder for folder in environment.get(RULES_VARIABLE, "").split(os.pathsep) if folder
        ]
    else:
        folders = [rules] if isinstance(rules, str | Path) else rules
    return load_rules(folders) if folders else shipped()


_SETTINGS = {"backend": "--diffusion-attention-backend", "policy": "--policy"}


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
