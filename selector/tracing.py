"""The trace of a decision: every table that was walked, every row, every test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from selector.configuring import BACKEND_VARIABLE, Choices, Origin, choose
from selector.origins import State, state_of
from selector.rules.conditions import Result
from selector.rules.vocabulary import Value, Vocabulary
from selector.rules.walk import Step, code

if TYPE_CHECKING:
    from selector.decision import Inputs, Source
    from selector.ruleset import RuleSet

Said = Literal["decided", "not asked", "not configured", "not read"]


@dataclass(frozen=True, slots=True)
class Walk:
    """One table walked for one subject (a backend that was named, a role, or nothing).

    `origins` says where each of the facts came from by then.
    """

    table: str
    subject: str | None
    facts: Mapping[str, Value]
    steps: tuple[Step, ...]
    origins: Mapping[str, str] = field(default_factory=dict)
    vocabulary: Vocabulary | None = None

    @property
    def chosen(self) -> Step | None:
        """The step that won."""
        return next((step for step in self.steps if step.outcome == "chosen"), None)

    def missing(self) -> list[str]:
        """Name the facts that were not known and could have changed this walk."""
        names = []
        for step in self.steps:
            if step.outcome == "undetermined":
                names += [result.fact for result in step.blamed if not result.known or _open(result)]
            elif step.outcome == "chosen":
                names += [result.fact for result in step.results if not result.known]
        return names

    def to_dict(self) -> dict[str, object]:
        """Give the walk as plain data."""
        return {"table": self.table, "subject": self.subject, "rows": [self._row(step) for step in self.steps]}

    def state(self, fact: str) -> State | None:
        """Say of a fact that is not known, or of which there is none, which of the two it is."""
        return None if self.vocabulary is None else state_of(fact, self.facts, self.vocabulary)

    def _row(self, step: Step) -> dict[str, object]:
        row = step.row
        told: dict[str, object] = {
            "row": row.id, "outcome": step.outcome, "action": row.action, "target": row.target, "file": row.place.file,
            "line": row.place.line, "conditions": [self._condition(step, result) for result in step.results],
        }  # fmt: skip
        if step.blamed:
            told["blamed"] = [code(row, result) for result in step.blamed]
        return told

    def _condition(self, step: Step, result: Result) -> dict[str, object]:
        state = None if result.origin == "engine" else self.state(result.fact)
        origin = f"row {step.row.name}" if result.origin == "engine" else self.origins.get(result.fact)
        within = f"{result.origin}{'.' + result.group.rstrip('.') if result.group else ''}"
        return {
            "fact": result.fact, "value": result.got, "known": result.known, "origin": origin,
            **({} if state is None else {"state": state}), "wanted": result.wanted, "held": result.held,
            "negated": result.negated, "in": within, "code": code(step.row, result), "file": result.place.file,
            "line": result.place.line,
        }  # fmt: skip


def _open(result: Result) -> bool:
    """Whether a known value still leaves its test undetermined (a symbolic size)."""
    return result.held is None


@dataclass(frozen=True, slots=True)
class Layer:
    """One place that may say what runs, and what would run if nothing above it spoke.

    `state` is ``decided`` for the layer that spoke, ``not asked`` for one below it, ``not configured`` for one that
    says nothing, and ``not read`` for a variable of the environment that a flag or the config hides. `key` is the entry
    of ``per_role``; `names` is what the layer names. `backend`, `rule` and `error` are those of the decision that would
    stand, all null for a layer that is not configured.
    """

    name: Source
    origin: Origin
    state: Said
    key: str | None = None
    names: str | None = None
    backend: str | None = None
    rule: str | None = None
    error: str | None = None

    @property
    def decided(self) -> bool:
        """Whether the layer is the one that spoke."""
        return self.state == "decided"

    def to_dict(self) -> dict[str, object]:
        """Give the layer as plain data."""
        return {
            "layer": self.name, "origin": self.origin, "state": self.state, "decided": self.decided, "key": self.key,
            "names": self.names, "backend": self.backend, "rule": self.rule, "error": self.error,
        }  # fmt: skip


@dataclass(slots=True)
class Trace:
    """Every walk in the order in which it was made, and where each fact of the decision came from.

    `source` is the layer that spoke, also where no decision came of it; None where none was asked.
    """

    walks: list[Walk] = field(default_factory=list)
    origins: Mapping[str, str] = field(default_factory=dict)
    inputs: Inputs | None = field(default=None, repr=False)
    rules: RuleSet | None = field(default=None, repr=False)
    source: Source | None = None
    category: str | None = None

    @property
    def layers(self) -> tuple[Layer, ...]:
        """The layers from the highest to the lowest; each that is asked for is decided for itself."""
        if self.inputs is None or self.rules is None:
            return ()
        return tuple(_Layers(self.inputs, self.rules, self.source, self.category).found())

    def states(self) -> dict[str, State]:
        """Say of each fact that a table asked for and that was not known at last whether anybody looked for it."""
        if not self.walks:
            return {}
        asked = dict.fromkeys(result.fact for walk in self.walks for step in walk.steps for result in step.results)
        last = {fact: state for fact in asked if (state := self.walks[-1].state(fact)) is not None}
        return {fact: state for fact, state in last.items() if fact not in self.origins}

    def missing(self) -> list[str]:
        """Name the facts that were not known and could change the decision, once each."""
        return list(dict.fromkeys(name for walk in self.walks for name in walk.missing()))

    def to_dict(self) -> list[dict[str, object]]:
        """Give the trace as plain data."""
        return [walk.to_dict() for walk in self.walks]


@dataclass(frozen=True, slots=True)
class _Layers:
    """What each layer says: the decision is made again with the layers above it taken away."""

    inputs: Inputs
    rules: RuleSet
    source: Source | None
    category: str | None

    def found(self) -> Iterator[Layer]:
        choices, role, category = self.inputs.choices, self.inputs.request.role, self.category
        yield self._layer("role", "config", choices, role)
        own = choices if category == role else self._without(role)
        yield self._layer("category", "config", own, category)
        below = self._without(role, category)
        yield self._layer("default", choices.default_origin, below, None)
        for name in choices.unread:
            yield self._unread(name, below)
        yield self._layer("platform", "platform", replace(below, default=None), None)

    def _without(self, *keys: str | None) -> Choices:
        choices = self.inputs.choices
        return replace(choices, per_role={key: spec for key, spec in choices.per_role.items() if key not in keys})

    def _layer(self, name: Source, origin: Origin, choices: Choices, key: str | None) -> Layer:
        spec = choices.default if name == "default" else choices.per_role.get(key or "")
        if spec is None and name != "platform":
            return Layer(name, origin, "not configured", key)
        state: Said = "decided" if self.source == name else "not asked"
        return self._decided(Layer(name, origin, state, key, spec.backend if spec is not None else None), choices)

    def _unread(self, name: str, below: Choices) -> Layer:
        """Say what the variable of the environment would give if it were read, with the config's own blocks."""
        layer = Layer("default", "env", "not read", None, name)
        hidden = below.default if below.default_origin == "flag" else None
        config = {"default": hidden.blocks()} if hidden is not None and hidden.blocks() else None
        faults, choices = choose(config, None, {BACKEND_VARIABLE: name}, self.rules)
        if faults:
            return replace(layer, error=faults[0].message)
        return self._decided(layer, replace(choices, per_role=below.per_role))

    def _decided(self, layer: Layer, choices: Choices) -> Layer:
        from selector.resolve import resolve  # resolve imports this module

        decision = resolve(replace(self.inputs, choices=choices), self.rules)
        error = decision.error.message if decision.error is not None else None
        return replace(layer, backend=decision.backend, rule=decision.rule, error=error)
