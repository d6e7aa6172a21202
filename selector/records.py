"""Decisions read back from what they were written as, and made again with other rules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pydantic import ValidationError

from selector.config import AttentionSpec, pydantic_faults, spec_faults
from selector.configuring import Choices
from selector.decision import Decision, Failure, Inputs, Outdated
from selector.facts import Request
from selector.faults import Fault, Path, place
from selector.log_lines import deciding_row
from selector.resolve import resolve
from selector.rules.problems import Place, Problem, ProblemsError
from selector.rules.vocabulary import Value, Vocabulary
from selector.ruleset import RuleSet
from selector.schemas.decisions import DecisionRecord, ErrorRecord, InputsRecord
from selector.serving import invalid
from selector.structure import schema_faults

_FORM_ALONE: Mapping[str, None] = {"rules": None}  # the rules that it was made with are not at hand


class DecisionError(ProblemsError):
    """Data that is no decision."""


def read_decision(data: object) -> Decision:
    """Read what `Decision.to_dict` gave: the same decision, without the rules, which `explain` and `replay` are given.

    Raises `DecisionError`, a `ValueError`, with everything that is wrong at its path. The problems behind an error
    are not written: the error itself stands for them.
    """
    try:
        record = DecisionRecord.model_validate(data, context=_FORM_ALONE)
    except ValidationError as refusal:
        faults = schema_faults("decision", data) or list(pydantic_faults(refusal, ()))
        raise DecisionError(place(faults, "decision")) from refusal
    error = record.error
    return Decision(
        backend=record.backend, source=record.source, origin=record.origin, rule=record.rule, log=record.log,
        warnings=tuple(record.warnings),
        error=None if error is None else _failure(error),
        digest=record.digest, policy=record.policy, role=record.role, role_category=record.role_category,
        facts=record.facts, provider=record.provider, build=record.build,
        considered=tuple(record.considered), transform=record.transform, spec=record.spec,
        recorded_missing=tuple(record.missing), recorded_origins=record.origins,
        outdated=None if record.outdated is None else Outdated(**record.outdated.model_dump()),
        inputs=None if record.inputs is None else _inputs(record.inputs),
    )  # fmt: skip


def _failure(record: ErrorRecord) -> Failure:
    problem = Problem(Place("decision", path=record.path or ""), record.code, record.message)
    return Failure(record.code, record.message, record.path, () if record.code == "refused" else (problem,))


def _inputs(record: InputsRecord) -> Inputs:
    request, choices = record.request, record.choices
    return Inputs(
        record.machine,
        Request(request.role, request.category, request.model, request.facts, request.call),
        Choices(choices.per_role, choices.default, choices.default_origin, tuple(choices.unread)),
        record.policy,
        tuple(record.absent),
        record.origins,
    )


# --- deciding again -----------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """One field of a decision that is not what it was, as plain data."""

    field: str
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Replay:
    """A decision and what other rules make of the same inputs.

    `rows` names the row that decided before and the one that decides now, also where that one refuses; None where it
    is not known (a refusal that was read back) or where there is none (inputs that the rules do not accept).
    """

    before: Decision
    after: Decision
    differences: tuple[Difference, ...]
    rows: tuple[str | None, str | None]

    @property
    def changed(self) -> bool:
        """Whether anything of the answer differs."""
        return bool(self.differences)


def replay(decision: Decision, rules: RuleSet) -> Replay:
    """Decide again, from the decision's own inputs, with other rules.

    What these rules do not know or accept of the inputs makes the new decision `invalid`. Raises `ValueError` when the
    decision has no inputs, as one whose input was not valid.
    """
    inputs = decision.inputs
    if inputs is None:
        raise ValueError("wanted a decision with its inputs, got one whose input was not valid")
    faults = [*_unread(inputs.choices, rules), *_misfits(inputs, rules.vocabulary)]
    after = invalid(faults, rules, inputs.policy, "inputs") if faults else resolve(inputs, rules)
    told = _told(after)
    differences = tuple(
        Difference(field, value, told[field]) for field, value in _told(decision).items() if value != told[field]
    )
    return Replay(decision, after, differences, (deciding_row(decision), deciding_row(after)))


def _unread(choices: Choices, rules: RuleSet) -> Iterator[Fault]:
    """Find entries that these rules do not accept: a backend they do not know, a block that it no longer reads."""
    entries: list[tuple[Path, AttentionSpec | None]] = [(("default",), choices.default)]
    entries += [(("per_role", role), spec) for role, spec in choices.per_role.items()]
    for path, spec in entries:
        for fault in () if spec is None else spec_faults(spec, rules):
            yield fault._replace(path=("choices", *path, *fault.path))


def _misfits(inputs: Inputs, vocabulary: Vocabulary) -> Iterator[Fault]:
    """Find values that are none of their fact in this vocabulary."""
    given: Mapping[str, Mapping[str, Value]] = {
        "machine": inputs.machine, "request": inputs.request.facts, "call": inputs.request.call or {},
    }  # fmt: skip
    for name, facts in given.items():
        for key, value in facts.items():
            fact = vocabulary.facts.get(key)
            misfit = None if fact is None or value is None else fact.misfit(value)
            if misfit is not None:
                yield Fault((name, key), "bad-value", misfit.message, misfit.hint)


def _told(decision: Decision) -> dict[str, object]:
    """Give the fields of the answer, as plain data; facts and digest differ without anything being different."""
    spec = decision.spec
    return {
        **decision.answer(), "provider": decision.provider, "transform": decision.transform,
        "spec": None if spec is None else spec.model_dump(exclude_none=True, exclude_unset=True),
        "role_category": decision.role_category,
    }  # fmt: skip
