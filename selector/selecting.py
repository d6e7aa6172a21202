"""The selector: rules, a machine and a config held together, asked once per layer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selector.configuring import BACKEND_VARIABLE, POLICY_VARIABLE, Choices, choose, read_policy
from selector.decision import Decision, Failure, Inputs
from selector.facts import Request, read_machine, read_request
from selector.faults import Fault, place
from selector.resolve import resolve, without_packages
from selector.rules.problems import ConfigError, FactsError
from selector.rules.text import read_file
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, load_rules, shipped

if TYPE_CHECKING:
    from selector.config import AttentionConfig

RULES_VARIABLE = "ATTENTION_SELECTOR_RULES"
_VARIABLES = (BACKEND_VARIABLE, POLICY_VARIABLE)


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

    def __init__(  # noqa: PLR0913 - each is one independent setting
        self,
        *,
        rules: RuleSet | str | Path | Sequence[str | Path] | None = None,
        facts: Mapping[str, object] | str | Path | None = None,
        device: int = 0,
        config: AttentionConfig | Mapping[str, object] | str | Path | None = None,
        backend: str | None = None,
        policy: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Read and check everything, so that `select` has only the tables left to walk."""
        env = os.environ if environment is None else environment
        self.rules = _rules(rules, env)
        self.machine = self._machine(facts, device)
        self.choices, self.policy = self._choices(config, backend, policy, env)

    def _machine(self, facts: Mapping[str, object] | str | Path | None, device: int) -> dict[str, Value]:
        name, node = "facts", None
        if facts is None:
            from selector.probe import read_machine as probe  # noqa: PLC0415 - only when the machine is asked

            facts = probe(tuple(self.rules.vocabulary.packages.values()))
        elif isinstance(facts, str | Path):
            name, node = str(facts), read_file(Path(facts))
            facts = node.plain()  # type: ignore[assignment]
        faults, machine = read_machine(facts, self.rules.vocabulary, device)
        if faults:
            raise FactsError(place(faults, name, node))
        return machine

    def _choices(
        self,
        config: AttentionConfig | Mapping[str, object] | str | Path | None,
        backend: str | None,
        policy: str | None,
        env: Mapping[str, str],
    ) -> tuple[Choices, str]:
        name, node, value = "config", None, config
        if isinstance(config, str | Path):
            from selector.structure import config_file_faults  # noqa: PLC0415

            name, node = str(config), read_file(Path(config))
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

    def select(self, role: str | None = None, *, call: Mapping[str, object] | None = None, **request: object) -> Decision:
        """Decide for one layer; facts of the request go by name (`head_dim=128`, `model="WanPipeline"`, …).

        Raises `SelectionRefusedError` when the rules refuse, `InvalidSelectionError` when the request is not valid;
        both carry the decision. The log line is written once for each distinct decision.
        """
        decision = self.decide(role, call=call, **request).ensure()
        from selector.logs import announce  # noqa: PLC0415 - structlog only where something is logged

        announce(decision)
        return decision

    def decide(self, role: str | None = None, *, call: Mapping[str, object] | None = None, **request: object) -> Decision:
        """Decide like `select`, but answer with the error in the decision, and log nothing."""
        faults, read = read_request({"role": role, **request, "call": call}, self.rules.vocabulary)
        if faults:
            return invalid(faults, self.rules, self.policy, "request")
        return self.resolve(read)

    def resolve(self, request: Request, absent: Sequence[str] = ()) -> Decision:
        """Decide for a request that is checked already; facts named in `absent` are taken as null."""
        inputs = Inputs(self.machine, request, self.choices, self.policy)
        return resolve(without_packages(inputs, absent) if absent else inputs, self.rules)


def _rules(rules: RuleSet | str | Path | Sequence[str | Path] | None, env: Mapping[str, str]) -> RuleSet:
    if isinstance(rules, RuleSet):
        return rules
    if rules is None:
        folders: Sequence[str | Path] = [folder for folder in env.get(RULES_VARIABLE, "").split(os.pathsep) if folder]
    else:
        folders = [rules] if isinstance(rules, str | Path) else rules
    return load_rules(folders) if folders else shipped()


def _placed(faults: list[Fault], name: str, node: object) -> list[object]:  # type: ignore[type-arg]
    config = [fault._replace(path=fault.path[1:]) for fault in faults if fault.path[:1] == ("config",)]
    others = [fault for fault in faults if fault.path[:1] != ("config",)]
    return [*place(config, name, node), *(problem for fault in others for problem in place([fault], dotted_name(fault)))]


def dotted_name(fault: Fault) -> str:
    """Name the setting that a fault is about, as a person would look for it."""
    return str(fault.path[-1]) if fault.path else "config"


def invalid(faults: Sequence[Fault], rules: RuleSet, policy: str, name: str) -> Decision:
    """Give the decision that says that the input is not valid, with every fault."""
    problems = tuple(place(faults, name))
    exclusive = next((fault for fault in faults if fault.code == "mutually_exclusive"), None)
    fault = exclusive or faults[0]
    message = "; ".join(_sentence(item) for item in ([exclusive] if exclusive else faults))
    from selector.faults import dotted  # noqa: PLC0415

    failure = Failure("mutually_exclusive" if exclusive else "invalid", message, dotted(fault.path), problems)
    return Decision(None, None, None, None, None, (), failure, rules.digest, policy, "", None, {})


def _sentence(fault: Fault) -> str:
    return f"{fault.message} ({fault.hint})" if fault.hint else fault.message
