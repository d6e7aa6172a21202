"""The selector: rules, a machine and a config held together, asked once per layer."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from selector.decision import Decision, Outdated
from selector.facts import Request
from selector.reloading import Reload, Shadow, load_settled
from selector.rules.problems import ProblemsError
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, load_rules, shipped
from selector.serving import Given, Serving, Sourced, refusing

if TYPE_CHECKING:
    from selector.config import AttentionConfig
    from selector.configuring import Choices
    from selector.decision_logs import Log

RULES_VARIABLE = "ATTENTION_SELECTOR_RULES"
Rules = RuleSet | str | Path | Sequence[str | Path] | None


class Selector:
    """Decides which attention backend runs.

    `rules` is a rule set, or folders and files that are laid over the shipped rules (default: those of
    ``ATTENTION_SELECTOR_RULES``). `facts` is a mapping or a YAML or JSON file (default: this machine is read, without
    importing a kernel); `device` picks one of several GPUs. `config` is an `AttentionConfig`, a mapping, or a file;
    `backend` the shorthand for its default. `policy` is ``fallback`` or ``strict``. `environment` is where
    ``DIFFUSION_ATTENTION_BACKEND`` and ``ATTENTION_SELECTOR_POLICY`` are looked up (default: the process's). `log`
    takes every decision: a log, or the path of one (`decision_logs.log_at`). `first_use_check` says whether a kernel
    gets a small check before its first call, which it must pass to run: always, never, or (None) where it is
    unverified or comes from another distribution.

    Raises `TableError`, `FactsError` or `ConfigError` with every problem at once. Threads may share a selector; what it
    serves changes by `reload`, `switch` and `drop` alone, and then as a whole.
    """

    def __init__(  # noqa: PLR0913 - what a selector is made of, each with a meaning of its own
        self,
        *,
        rules: Rules = None,
        facts: Mapping[str, object] | str | Path | None = None,
        device: int = 0,
        config: AttentionConfig | Mapping[str, object] | str | Path | Sourced | None = None,
        backend: str | None = None,
        policy: str | None = None,
        environment: Mapping[str, str] | None = None,
        log: Log | str | Path | None = None,
        first_use_check: bool | None = None,
    ) -> None:
        """Read and check everything, so that `select` has only the tables left to walk."""
        env = dict(os.environ if environment is None else environment)
        self.folders = None if isinstance(rules, RuleSet) else folders_from(rules, env)
        self.shadow: Shadow | None = None
        self._given = Given(facts, device, config, backend, policy, env, first_use_check)
        self._reloading = threading.RLock()
        self.epoch = 0  # counts what has been served, so that compiled code can tell that it is outdated
        self.serving = self._given.serve(rules_from(rules, env))
        self.chooser: object = None  # what `selector.dispatch` chooses with for compiled code
        self.log = _opened(log) if isinstance(log, str | Path) else log  # the last, as all the rest may be refused

    def prepare(self, make: Callable[[Selector], object]) -> bool:
        """Make what compiled code chooses with; traced code runs this and does not trace it."""
        if self.chooser is None:
            self.chooser = make(self)
        return True

    prepare._dynamo_marked_constant = True  # type: ignore[attr-defined]  # noqa: SLF001 - what torch's decorator sets

    def __setattr__(self, name: str, value: object) -> None:
        """Count every change of what is served."""
        super().__setattr__(name, value)
        if name == "serving":
            super().__setattr__("epoch", self.epoch + 1)

    @property
    def rules(self) -> RuleSet:
        """The rules that serve now."""
        return self.serving.rules

    @property
    def machine(self) -> Mapping[str, Value]:
        """The facts of the machine, as the rules ask about them."""
        return self.serving.machine

    @property
    def machines(self) -> Mapping[int, Mapping[str, Value]]:
        """The facts of each GPU, by its number."""
        return self.serving.machines

    @property
    def choices(self) -> Choices:
        """What the config, the flag and the environment chose."""
        return self.serving.choices

    @property
    def policy(self) -> str:
        """``fallback`` or ``strict``."""
        return self.serving.policy

    def other_machines(self) -> Iterator[tuple[int, Mapping[str, Value]]]:
        """Give the other GPUs of this machine whose facts differ, each with its number."""
        for device, machine in self.machines.items():
            if machine != self.machine:
                yield device, machine

    def on(self, machine: Mapping[str, Value]) -> Selector:
        """Give the same selector for another machine's facts; it is not reloaded with this one."""
        other = copy.copy(self)
        other.folders, other.shadow, other.chooser = None, None, None
        other.serving = self.serving.on(machine)
        return other

    # --- deciding ---

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
        """Decide like `select`, but answer with the error in the decision, and announce nothing."""
        return self._asked(self.serving, lambda serving: serving.decide(role, call, request))

    def resolve(
        self,
        request: Request,
        absent: Sequence[str] = (),
        origins: Mapping[str, str] | None = None,
        serving: Serving | None = None,
    ) -> Decision:
        """Decide for a request that is checked already, with what is served or was served before; see `Serving`."""
        return self._asked(serving or self.serving, lambda served: served.resolve(request, absent, origins))

    def _asked(self, serving: Serving, ask: Callable[[Serving], Decision]) -> Decision:
        """Decide; the log and the newer rules in the shadow hear of it."""
        decision = ask(serving)
        shadow = self.shadow
        if shadow is not None:
            shadow.watch(decision, ask)
        if self.log is not None:
            self.log.write(decision)
        return decision

    # --- newer rules ---

    def reload(self, *, shadow: bool = False) -> Reload:
        """Read the rule files again and, if all of them are well, let them serve from the next decision on.

        Rules that do not load, or do not suit the machine's facts or the config, are refused whole: the old ones go on
        serving, and say so in every decision (`Decision.outdated`) until a reload succeeds. With `shadow`, the newer
        rules only decide beside the old ones; `shadow` counts the differences, `switch` lets the newer ones serve and
        `drop` forgets them. Raises `ValueError` for a selector that was made with a rule set and not with files.
        """
        self._see_that_it_reloads()
        with self._reloading:
            old = self.serving
            try:
                newer = self._newest()
            except ProblemsError as error:
                return self._refused(error)
            self._say(None)
            digest, notices = newer.rules.digest, newer.rules.notices
            if digest == old.rules.digest:
                self.shadow = None
                return Reload("unchanged", digest, notices=notices)
            newer = replace(newer, kernels=old.kernels)
            if not shadow:
                self.serving, self.shadow = newer, None
                return self._told(Reload("swapped", digest, digest, notices=notices))
            result = Reload("shadowed", old.rules.digest, digest, notices=notices)
            if self.shadow is not None and self.shadow.serving.rules.digest == digest:
                return result  # it goes on counting
            self.shadow = Shadow(newer)
            return self._told(result)

    def _see_that_it_reloads(self) -> None:
        """Raise `ValueError` where there is nothing to read rules from."""
        if self.folders is None:
            raise ValueError("wanted a selector whose rules are read from files, got one with a rule set of its own")

    def _newest(self) -> Serving:
        """Give what would serve with the rules as they are now. Raises `ProblemsError`."""
        return self._given.serve(load_settled(self.folders or ()))

    def _refused(self, error: ProblemsError) -> Reload:
        """Serve on, and say in every decision that newer rules are refused."""
        self._say(refusing(error, self.serving.outdated))
        return self._told(Reload("refused", self.rules.digest, problems=error.problems))

    def _say(self, outdated: Outdated | None) -> None:
        """Say this of newer rules; set only where it changes, for compiled code looks whether anything did."""
        if outdated != self.serving.outdated:
            self.serving = self.serving.kept(outdated)

    def switch(self) -> Reload:
        """Let the rules in the shadow serve. Raises `ValueError` when there are none."""
        with self._reloading:
            if self.shadow is None:
                raise ValueError("wanted newer rules in the shadow, got none: `reload(shadow=True)` puts them there")
            self.serving, self.shadow = self.shadow.serving, None
            return self._told(Reload("swapped", self.rules.digest, self.rules.digest))

    def drop(self) -> None:
        """Forget the rules in the shadow, if there are any."""
        with self._reloading:
            self.shadow = None

    @staticmethod
    def _told(reload: Reload) -> Reload:
        from selector.logs import announce_reload

        announce_reload(reload)
        return reload

    def __getstate__(self) -> dict[str, object]:
        """Give what can be copied: everything but the lock, the shadow, and what was planned and bound."""
        fresh = replace(self.serving, plans={}, kernels={})
        return {**self.__dict__, "serving": fresh, "shadow": None, "log": None, "chooser": None, "_reloading": None}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Take what was copied, with a lock of its own."""
        self.__dict__.update(state)
        self._reloading = threading.RLock()


def _opened(path: str | Path) -> Log:
    from selector.decision_logs import log_at  # only where something is logged

    return log_at(path)


def folders_from(rules: str | Path | Sequence[str | Path] | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Give the folders and files that were given, or those of the environment."""
    if rules is None:
        return tuple(folder for folder in environment.get(RULES_VARIABLE, "").split(os.pathsep) if folder)
    return tuple(map(str, [rules] if isinstance(rules, str | Path) else rules))


def rules_from(rules: Rules, environment: Mapping[str, str]) -> RuleSet:
    """Give the rule set: the one given, or the shipped rules with the given folders or those of the environment."""
    if isinstance(rules, RuleSet):
        return rules
    folders = folders_from(rules, environment)
    return load_rules(folders) if folders else shipped()
