"""A decision: what runs and why, frozen, with the way to JSON and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from selector.configuring import Choices, Origin
from selector.facts import Request
from selector.rules.problems import Problem, ProblemsError
from selector.rules.vocabulary import Value

if TYPE_CHECKING:
    from selector.config import AttentionSpec
    from selector.ruleset import RuleSet
    from selector.tracing import Trace

Source = Literal["role", "category", "default", "platform"]
Code = Literal["refused", "invalid", "mutually_exclusive"]


@dataclass(frozen=True, slots=True)
class Failure:
    """Why there is no backend: a code of the contract, one sentence, and the path of what is wrong."""

    code: Code
    message: str
    path: str | None = None
    problems: tuple[Problem, ...] = field(default=(), compare=False)


class SelectionError(ValueError):
    """There is no backend for the request; `decision` says why, with its trace."""

    decision: Decision

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the decision be pickled, without the rules, which hold functions."""
        return type(self), (replace(self.decision, rules=None),)


class SelectionRefusedError(SelectionError):
    """The rules refuse what was asked for."""

    def __init__(self, decision: Decision) -> None:
        """Take the message of the decision's failure."""
        self.decision = decision
        super().__init__(decision.error.message if decision.error else "no backend")


class InvalidSelectionError(ProblemsError, SelectionError):
    """The facts, the request or the config are not valid; `problems` has every one of them."""

    def __init__(self, decision: Decision) -> None:
        """Take the problems of the decision's failure."""
        self.decision = decision
        super().__init__(decision.error.problems if decision.error else ())

    __reduce__ = SelectionError.__reduce__


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything a decision depends on besides the rules.

    `origins` says of facts where they come from (`selector.origins`; facts of the call go by ``call.`` and their name),
    where that is neither a mapping of facts nor the request. No decision depends on it.
    """

    machine: Mapping[str, Value]
    request: Request = field(default_factory=Request)
    choices: Choices = field(default_factory=Choices)
    policy: str = "fallback"
    absent: tuple[str, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Outdated:
    """Newer rules are refused, and older ones serve in their place: since when (UTC), and what is wrong with them."""

    since: str
    problem: str
    problems: int = 1


@dataclass(frozen=True)
class Decision:
    """What runs and why.

    `backend` is null when `error` says why nothing runs. `provider` is the build of the kernel, null where the backend
    has one alone or none fits; `build` names the code that was bound, once a kernel was, and `considered` says of every
    build that was looked at why it fits or not. `rule` is ``table/row-id`` of
    the row that decided; `transform` says how the call is changed without changing its result. `facts` are all facts
    that were used, `missing` those that were not known and could change the answer. Equal `digest` and facts give an
    equal decision. `last_row` is the row at which the walk ended, of a call that was refused the first that did it.
    `outdated` says so where the rules served on because newer ones are broken.
    """

    backend: str | None
    source: Source | None
    origin: Origin | None
    rule: str | None
    log: str | None
    warnings: tuple[str, ...]
    error: Failure | None
    digest: str
    policy: str
    role: str
    role_category: str | None
    facts: Mapping[str, Value]
    provider: str | None = None
    transform: str | None = None
    build: str | None = None
    considered: tuple[str, ...] = ()
    spec: AttentionSpec | None = None
    outdated: Outdated | None = None
    recorded_missing: tuple[str, ...] | None = field(default=None, repr=False, compare=False)
    recorded_origins: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    last_row: str | None = field(default=None, repr=False, compare=False)
    inputs: Inputs | None = field(default=None, repr=False, compare=False)
    rules: RuleSet | None = field(default=None, repr=False, compare=False)

    @property
    def missing(self) -> tuple[str, ...]:
        """The facts that were not known and could change the answer."""
        if self.recorded_missing is not None:
            return self.recorded_missing
        return () if self.inputs is None or self.rules is None else tuple(self.explain().missing())

    @property
    def origins(self) -> Mapping[str, str]:
        """Where each of the facts comes from, in the words of `selector.origins`; the tables are walked for it."""
        if self.recorded_origins is not None:
            return self.recorded_origins
        return {} if self.inputs is None or self.rules is None else self.explain().origins

    def explain(self, rules: RuleSet | None = None) -> Trace:
        """Walk the tables again and give every step; the result names the same rows as the decision does.

        A decision read from JSON needs the rules it was made with: give them, or `ValueError` is raised.
        """
        from selector.resolve import trace  # resolve imports this module

        rules = rules or self.rules
        if rules is None or self.inputs is None:
            raise ValueError("wanted the rules that the decision was made with, got none")
        if rules.digest != self.digest:
            raise ValueError(f"wanted rules with the digest {self.digest[:12]}, got {rules.digest[:12]}")
        return trace(self.inputs, rules)

    def ensure(self) -> Decision:
        """Give the decision itself, or raise what its error stands for."""
        if self.error is None:
            return self
        raise (SelectionRefusedError if self.error.code == "refused" else InvalidSelectionError)(self)

    def answer(self) -> dict[str, object]:
        """Give the contract's short form: what `attention-selector decide` writes, without the id."""
        error = self.error
        told = None if error is None else {"code": error.code, "message": error.message, "path": error.path}
        return {
            "backend": self.backend, "source": self.source, "origin": self.origin, "rule": self.rule, "log": self.log,
            "warnings": list(self.warnings), "error": told,
        }  # fmt: skip

    def to_dict(self) -> dict[str, object]:
        """Give all of it as plain data that JSON can hold."""
        inputs = self.inputs
        missing, origins = _of_facts(self)
        return {
            **self.answer(), "provider": self.provider, "build": self.build, "considered": list(self.considered),
            "transform": self.transform,
            "spec": _spec(self.spec), "role": self.role, "role_category": self.role_category, "policy": self.policy,
            "facts": dict(self.facts), "origins": dict(origins),
            "missing": list(missing), "digest": self.digest,
            "outdated": None if self.outdated is None else asdict(self.outdated),
            "inputs": None if inputs is None else _inputs(inputs),
        }  # fmt: skip

    def to_json(self) -> str:
        """Give all of it as one line of JSON."""
        return json.dumps(self.to_dict(), allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Decision:
        """Read what `to_json` wrote; the rules are not in it (only their digest)."""
        return cls.from_dict(json.loads(text))

    @classmethod
    def from_dict(cls, data: Mapping[str, object]) -> Decision:
        """Read what `to_dict` gave. Raises `ValueError` when it is not such a mapping."""
        from selector.records import read_decision  # needs pydantic

        return read_decision(data)


class Told(NamedTuple):
    """A decision, and what it says: the facts whose values its texts show, and whether it looked at the call.

    `shown` is None where it stands for no other decision.
    """

    decision: Decision
    shown: frozenset[str] | None = None
    met: bool = False


def _of_facts(decision: Decision) -> tuple[Sequence[str], Mapping[str, str]]:
    """Give what is missing and where the facts come from, by one walk where both are still to be found."""
    recorded = decision.recorded_missing is not None or decision.recorded_origins is not None
    if recorded or decision.inputs is None or decision.rules is None:
        return decision.missing, decision.origins
    trace = decision.explain()
    return trace.missing(), trace.origins


def _spec(spec: AttentionSpec | None) -> dict[str, object] | None:
    return None if spec is None else spec.model_dump(exclude_none=True, exclude_unset=True)


def _inputs(inputs: Inputs) -> dict[str, object]:
    from selector.origins import given_origins  # only where all is written

    request, choices = inputs.request, inputs.choices
    return {
        "machine": dict(inputs.machine),
        "request": {
            "role": request.role, "category": request.category, "model": request.model, "facts": dict(request.facts),
            "call": None if request.call is None else dict(request.call),
        },
        "choices": {
            "per_role": {role: _spec(spec) for role, spec in choices.per_role.items()},
            "default": _spec(choices.default), "default_origin": choices.default_origin,
            "unread": list(choices.unread),
        },
        "policy": inputs.policy,
        "absent": list(inputs.absent),
        "origins": given_origins(inputs),
    }  # fmt: skip


def ordered(names: Sequence[str]) -> tuple[str, ...]:
    """Give the names once each, in the order of their first appearance."""
    return tuple(dict.fromkeys(names))
