"""Resolution: facts, config and request walk the tables until a backend stands, or a reason why none does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from selector.catalog import ModelRole
from selector.configuring import Origin
from selector.decision import Decision, Failure, Inputs, Source, Told, ordered
from selector.facts import derive
from selector.rules.problems import Place, Problem, listing, nearest, shown
from selector.rules.tables import Row, fields, fill
from selector.rules.vocabulary import Value
from selector.rules.walk import first, walk
from selector.ruleset import RuleSet
from selector.tracing import Trace, Walk

if TYPE_CHECKING:
    from selector.config import AttentionSpec

_SUPPLIED_PAIR = ("num_heads", "num_kv_heads")


def resolve(inputs: Inputs, rules: RuleSet) -> Decision:
    """Decide. The decision holds its error when there is no backend; nothing is raised."""
    return _Resolution(inputs, rules).decide()


def resolve_told(inputs: Inputs, rules: RuleSet) -> Told:
    """Decide, and say for which other requests the decision may stand."""
    path = _Resolution(inputs, rules)
    return Told(path.decide(), frozenset(path.shown), path.met)


def trace(inputs: Inputs, rules: RuleSet) -> Trace:
    """Decide again with every step recorded."""
    recorded = Trace(inputs=inputs, rules=rules)
    path = _Resolution(inputs, rules, recorded)
    path.decide()
    recorded.source, recorded.category = path.source, path.category
    recorded.origins = path.origins(recorded.walks)
    return recorded


class _Refused(Exception):  # noqa: N818 - the end of a path through the tables, answered as data
    """A row refused; the message says which need was not met."""


class _MissingFact(Exception):  # noqa: N818
    """A table requires a fact that is not known."""


@dataclass(slots=True)
class _Resolution:
    """One pass through the tables. With `recorded`, every walk is kept step by step."""

    inputs: Inputs
    rules: RuleSet
    recorded: Trace | None = None
    warnings: list[str] = field(default_factory=list)
    facts: dict[str, Value] = field(default_factory=dict)
    category: str | None = None
    source: Source | None = None
    origin: Origin | None = None
    spec: AttentionSpec | None = None
    backend: str | None = None
    default_backend: str | None = None
    rule: str | None = None
    log: str | None = None
    transform: str | None = None
    met: bool = False
    shown: set[str] = field(default_factory=set)
    last: Row | None = None
    refusals: list[Row | None] = field(default_factory=list)

    # --- the path ---

    def decide(self) -> Decision:
        error = None
        provider = None
        try:
            self.layer()
            self.check_call()
            self.entry()
            self.select()
            if self.inputs.request.call is not None:
                self.meet(dict(self.inputs.request.call))
            provider = self.provider()
        except _Refused as refusal:
            error = Failure("refused", str(refusal))
        except _MissingFact as missing:
            name = str(missing)
            message = f"the fact `{name}` is not known, and no decision is made without it"
            groups = {"machine": "facts", "call": "request.call"}
            path = f"{groups.get(self.rules.vocabulary.facts[name].group, 'request')}.{name}"
            error = Failure("invalid", message, path, (Problem(Place("facts", path=path), "missing-fact", message),))
        return self.decision(error, provider)

    def decision(self, error: Failure | None, provider: str | None) -> Decision:
        good = error is None
        known = self.source is not None and (good or error.code == "refused")  # type: ignore[union-attr]
        decision: Decision = object.__new__(Decision)
        vars(decision).update(  # as the constructor does, but with a call for each field that costs more than a table
            backend=self.backend if good else None,
            source=self.source if known else None,
            origin=self.origin if known else None,
            rule=self.rule if good else None,
            log=self.log_line() if good else None,
            warnings=ordered(self.warnings) if self.warnings else (),
            error=error,
            digest=self.rules.digest,
            policy=self.inputs.policy,
            role=self.inputs.request.role,
            role_category=self.category,
            facts=self.facts,
            provider=provider,
            transform=self.transform if good else None,
            spec=self.spec if good else None,
            last_row=self.last_row(),
            inputs=self.inputs,
            rules=self.rules,
        )
        return decision

    def last_row(self) -> str | None:
        """Name the row at which it ended: of a call the first that refused, whatever was tried instead of it."""
        row = self.refusals[0] if self.refusals else self.last
        return None if row is None else row.name

    def log_line(self) -> str:
        if self.source != "platform":
            return f"Using diffusion attention backend '{self.backend}'"
        name = self.rules.backends[str(self.backend)].default_name
        return f"Defaulting to diffusion attention backend {name}{' ' + self.log if self.log else ''}"

    # --- what is known of the layer ---

    def layer(self) -> None:
        """Put the facts of machine, model and request together; what the request says goes before the model."""
        request, rules = self.inputs.request, self.rules
        model = rules.models.get(request.model) if request.model is not None else None
        role = model.roles.get(request.role) if model is not None else None
        self.category = request.category or (role.category if role else None) or rules.roles.category(request.role)
        facts = self.facts = dict(self.inputs.machine)
        for name in self.inputs.absent:
            facts[name] = None
        if model is not None:
            facts |= model.facts
        if role is not None:
            facts |= self.supplied(role)
        facts |= request.facts
        facts["role"], facts["policy"] = request.role, self.inputs.policy
        if self.category is not None:
            facts["role_category"] = self.category
        if request.model is not None:
            facts["model"] = request.model
            self.model_warnings(request.model)
        derive(facts, rules.vocabulary)
        self.standing_warnings()

    def check_call(self) -> None:
        """Ask for what the call table requires of a call before anything is decided: invalid goes before refused."""
        call = self.inputs.request.call
        if call is None:
            return
        for fact in self.rules.prepared.required_of_calls:
            if fact not in call:
                raise _MissingFact(fact)

    def supplied(self, role: ModelRole) -> dict[str, Value]:
        """Give what a model's role supplies; head counts come as a pair, or not at all."""
        given = self.inputs.request.facts
        facts = dict(role.facts)
        if given.get("compile") is True:
            facts |= role.compiled
        if any(name in given for name in _SUPPLIED_PAIR):
            facts = {name: value for name, value in facts.items() if name not in _SUPPLIED_PAIR}
        return facts

    def model_warnings(self, name: str) -> None:
        """Warn of a model nobody knows, and of config entries that no role of the model would read."""
        model = self.rules.models.get(name)
        if model is None:
            hint = nearest(name, self.rules.models)
            self.warnings.append(
                f"no model `{shown(name)}` in the models table, so it supplies no facts" + (f"; {hint}" if hint else "")
            )
            return
        read = {
            *model.roles,
            *(role.category for role in model.roles.values()),
            *map(self.rules.roles.category, model.roles),
        }
        read |= {self.inputs.request.role, self.category}  # what this request asks for itself is read
        for key in self.inputs.choices.per_role:
            if key not in read:
                roles = listing([*model.roles])
                hint = nearest(key, model.roles)
                text = f"`per_role.{shown(key)}` matches no role of {name}, which has {roles}"
                self.warnings.append(text + (f"; {hint}" if hint else ""))

    def standing_warnings(self) -> None:
        for caution in self.rules.prepared.standing(self.facts):
            self.warnings.append(self.fill(caution.warn))

    def fill(self, template: str) -> str:
        self.shown |= fields(template)
        return fill(template, self.facts, self.rules.vocabulary)

    # --- the tables ---

    def visit(self, name: str, subject: str | None = None, without: Sequence[str] = ()) -> Row | None:
        """Walk one table and give the row that wins."""
        decider = self.rules.decider(name)
        table = decider.table
        for fact in table.requires:
            if fact not in self.facts:
                raise _MissingFact(fact)
        if self.recorded is None:
            row = first(table, self.facts, decider.abilities, without) if without else decider.first(self.facts)
            self.last = row
            return row
        walked = walk(table, self.facts, decider.abilities, without) if without else decider.steps(self.facts)
        steps = tuple(walked)
        origins = self.origins(self.recorded.walks)
        found = Walk(name, subject, dict(self.facts), steps, origins, self.rules.vocabulary)
        self.recorded.walks.append(found)
        return found.chosen.row if found.chosen else None

    def origins(self, walks: Sequence[Walk]) -> dict[str, str]:
        """Say of every fact where it comes from; asked for a trace alone."""
        from selector.origins import Standing

        standing = Standing(self.inputs, self.rules, self.category, self.origin, self.met, walks)
        return standing.origins(self.facts)

    def entry(self) -> None:
        """Find which entry of the config speaks for the role."""
        request, choices = self.inputs.request, self.inputs.choices
        self.facts |= choices.facts(request.role, self.category)
        row = self.visit("role_fallback", request.role)
        name = row.target if row is not None else "platform"
        self.spec, self.origin = choices.entry(name, request.role, self.category)
        if self.spec is None:
            name, self.origin = "platform", "platform"
        self.source = name  # type: ignore[assignment]

    def select(self) -> None:
        self.configure()
        if self.spec is not None and self.spec.backend is not None:
            self.explicit(self.spec.backend)
        else:
            self.default(())

    def configure(self) -> None:
        """Add the facts of the chosen entry, and what follows from them."""
        prepared, found = self.rules.prepared, self.spec_facts()
        self.facts |= found
        if found is not prepared.unconfigured or not prepared.apart:
            derive(self.facts, self.rules.vocabulary)

    def spec_facts(self) -> Mapping[str, Value]:
        """Give the facts that the chosen entry's blocks stand for; a field that is not written is null."""
        blocks = self.spec.blocks() if self.spec is not None else {}
        if not blocks:
            return self.rules.prepared.unconfigured
        facts: dict[str, Value] = {}
        for fact in self.rules.vocabulary.group["config"]:
            block, _, name = fact.name.partition(".")
            if fact.type == "boolean" and "." not in fact.name:
                facts[fact.name] = fact.name in blocks
            elif name and fact.null:
                facts[fact.name] = blocks.get(block, {}).get(name)
        return facts

    def explicit(self, name: str) -> None:
        """Ask whether a named backend may run, following substitutions."""
        while True:
            self.facts["backend"] = name
            row = self.visit("explicit", name)
            if row is None or row.action == "refuse":
                raise _Refused(self.refusal(row, "explicit"))
            if row.action == "use":
                break
            self.substitution_allowed(row)
            name = row.target_for(self.facts)
        self.take(row, row.target_for(self.facts))

    def take(self, row: Row, backend: str) -> None:
        """Let a backend stand as the answer, with what is unverified about it."""
        self.backend, self.rule = backend, row.name
        self.facts["backend"] = backend
        self.drop_blocks(backend)
        if row.warn:
            self.warnings.append(self.fill(row.warn))
        self.caution(backend)

    def caution(self, backend: str) -> None:
        """Warn of what is unverified about a backend for these facts."""
        for caution in self.rules.prepared.unverified(backend, self.facts):
            self.warnings.append(self.fill(caution.warn))

    def drop_blocks(self, backend: str) -> None:
        """Leave out, with a warning, the blocks that were meant for a backend that another one stands in for."""
        if self.spec is None or self.spec.backend == backend:
            return
        blocks = self.spec.blocks()
        if blocks:
            self.warnings.append(
                f"{backend} does not read {listing([*blocks])}, which the config gives to {self.spec.backend}"
            )
        self.spec = self.spec.model_copy(update={"backend": backend, **dict.fromkeys(blocks)})
        self.configure()

    def substitution_allowed(self, row: Row) -> None:
        """Warn of a substitution, or refuse it where the policy is strict and the choice the user's."""
        target = row.target_for(self.facts)
        if self.inputs.policy == "strict" and self.source != "platform":
            raise _Refused(
                f"{self.refusal(None, row.table)}; the policy is strict, so {target} does not take its place"
            )
        told = (
            self.fill(row.warn) if row.warn else f"{self.facts['backend']} cannot run here, so {target} takes its place"
        )
        self.warnings.append(told + self.unmet(row.table))

    def refusal(self, row: Row | None, table: str) -> str:
        """Say why a backend does not run: the row's own words, and each need that is not met."""
        text = self.fill(row.target) if row is not None else f"{self.facts['backend']} cannot run here"
        return text + self.unmet(table)

    def unmet(self, table: str) -> str:
        """Give the needs of the backend that are not met, in brackets, or nothing."""
        prepared = self.rules.prepared
        reasons = prepared.unmet(table, self.facts)
        self.shown.update(prepared.asked_by(table, str(self.facts["backend"])))
        return f" ({'; '.join(reasons)})" if reasons else ""

    def default(self, without: Sequence[str]) -> None:
        """Let the machine decide; `without` are backends that refused this call already."""
        self.facts.pop("backend", None)
        row = self.visit("platform_default", None, without)
        if row is None:
            raise _Refused("no row of platform_default is left that could run this call")
        self.too_old(row)
        self.default_backend = row.target_for(self.facts)
        self.take(row, self.default_backend)
        self.log = self.fill(row.log) if row.log else None

    def too_old(self, winner: Row) -> None:
        """Warn when an earlier row would have won with a newer version of a package."""
        found = self.rules.prepared.newer(winner, self.facts)
        if found is not None:
            row, old = found
            reasons = "; ".join(result.reason() for result in old)
            self.shown.update(result.fact for result in old)
            self.warnings.append(f"{row.target_for(self.facts)} would run here with a newer package ({reasons})")

    def provider(self) -> str | None:
        """Find which build of the backend's kernel runs; None when there is only one, or none fits."""
        if self.backend is None or not self.rules.backends[self.backend].providers:
            return None
        row = self.visit("provider", self.backend)
        return row.target_for(self.facts) if row is not None and row.action == "use" else None

    # --- the call ---

    def meet(self, call: dict[str, Value]) -> None:
        """Meet real tensors: run, substitute or refuse; a default that is refused is decided again."""
        before = dict(self.facts)
        refused: list[str] = []
        first_refusal: _Refused | None = None
        while True:
            self.facts, self.met = derive(self.facts | call, self.rules.vocabulary), True
            try:
                refusal = self.call()
            except _Refused as error:
                raise first_refusal or error from None
            if refusal is None:
                return
            first_refusal = first_refusal or _Refused(self.refusal(refusal, "call"))
            if self.source != "platform":
                raise first_refusal
            self.decide_again(refusal, before, refused, first_refusal)

    def decide_again(self, refusal: Row, before: dict[str, Value], refused: list[str], reason: _Refused) -> None:
        refused += [str(self.backend), str(self.default_backend)]
        if refusal.warn:
            self.warnings.append(self.fill(refusal.warn))
        before |= refusal.redecide
        self.facts, self.met = dict(before), False
        try:
            self.default(refused)
        except _Refused:
            raise reason from None

    def call(self) -> Row | None:
        """Walk the call table, following substitutions; gives the row that refuses, or None when the call runs."""
        substituted = None
        while True:
            row = self.visit("call", self.backend)
            if row is None or row.action == "refuse":
                self.refusals.append(row)
                return row
            if row.action == "use":
                self.transform = self.fill(row.transform) if row.transform else None
                self.rule = substituted or self.rule
                self.caution(str(self.backend))
                return None
            self.substitution_allowed(row)
            self.log = None
            substituted = row.name
            self.explicit(row.target_for(self.facts))


def without_packages(inputs: Inputs, facts: Sequence[str]) -> Inputs:
    """Give the inputs with some facts taken as absent, as after a kernel that failed to bind."""
    return replace(inputs, absent=(*inputs.absent, *facts))
