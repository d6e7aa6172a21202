"""Lines of a decision log as they are written: with all that is needed to decide again, and nothing else."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from selector.json_lines import writer

if TYPE_CHECKING:
    from selector.alike import Decided
    from selector.config import AttentionSpec
    from selector.configuring import Choices
    from selector.decision import Decision, Inputs
    from selector.facts import Request

_MOST_ANSWERS, _MOST_FORMS = 1_024, 512
_written = writer()
_Of = TypeVar("_Of")


class LogLine(NamedTuple):
    """A line: when it was decided (UTC), the line as JSON, and the values by which it is asked for."""

    at: str
    text: str
    columns: tuple[str | None, ...]
    """Those of `selector.log_columns`, in their order."""


class _Last(Generic[_Of]):
    """The text of the last of some values that do not change: lines that follow each other often have the same one."""

    def __init__(self) -> None:
        self._last: tuple[_Of, str] | None = None

    def get(self, value: _Of) -> str | None:
        last = self._last
        return last[1] if last is not None and last[0] is value else None

    def keep(self, value: _Of, text: str) -> str:
        self._last = (value, text)
        return text


class _Room(str):
    """JSON with room for numbers."""

    __slots__ = ()


class _Form(NamedTuple):
    """The line of a decision and of those like it, and the names of the numbers that it has room for."""

    first: Decision
    text: str
    numbers: tuple[str, ...]
    of_call: tuple[str, ...]
    columns: tuple[str | None, ...]


class LineWriter:
    """Writes the lines of decisions; what many of them have in common is written once. Threads may share it."""

    def __init__(self) -> None:
        """Begin with nothing written."""
        self._machines: _Last[Mapping[str, object]] = _Last()
        self._choices: _Last[Choices] = _Last()
        self._times: _Last[dt.datetime] = _Last()
        self._answers: dict[object, str] = {}
        self._forms: dict[int, _Form] = {}

    def line(self, decision: Decision, at: dt.datetime) -> LogLine:
        """Give the line of a decision; `at` is a time in UTC. Raises `ValueError` without inputs."""
        inputs, when, row = _inputs(decision), self._when(at), deciding_row(decision)
        before, after = self._around(decision, inputs, row)
        text = f'{{"at": "{when}{before}{_written(_asked(inputs.request))}{after}'
        return LogLine(when, text, _columns(decision, inputs, row))

    def line_of(self, decided: Decided, at: dt.datetime) -> LogLine:
        """Give the line of what was decided, as `line` gives that of its decision. Raises `ValueError` as it does."""
        first, numbers, of_call, _ = decided
        if not (numbers or of_call):
            return self.line(first, at)
        form = self._forms.get(id(first))
        if form is None or form.first is not first:
            if len(self._forms) >= _MOST_FORMS:
                self._forms.clear()
            form = self._forms[id(first)] = self._form(decided)
        when = self._when(at)
        said = (when, *[numbers[name] for name in form.numbers], *[of_call[name] for name in form.of_call])
        return LogLine(when, form.text % said, form.columns)

    def _form(self, decided: Decided) -> _Form:
        """Write the line with room for its time and its numbers."""
        first, inputs, row = decided.first, _inputs(decided.first), deciding_row(decided.first)
        before, after = self._around(first, inputs, row)
        asked = _asked(inputs.request)
        numbers, asked["facts"] = _with_room(inputs.request.facts, decided.numbers)
        of_call, asked["call"] = _with_room(inputs.request.call, decided.of_call)
        written = ", ".join(
            f"{_written(key)}: {value if isinstance(value, _Room) else _escaped(_written(value))}"
            for key, value in asked.items()
        )
        text = f'{{"at": "%s{_escaped(before)}{{{written}}}{_escaped(after)}'
        return _Form(first, text, numbers, of_call, _columns(first, inputs, row))

    def _when(self, at: dt.datetime) -> str:
        return self._times.get(at) or self._times.keep(at, f"{at.isoformat(timespec='microseconds')[:-6]}Z")

    def _around(self, decision: Decision, inputs: Inputs, row: str | None) -> tuple[str, str]:
        """Write what stands between the time and the request of a line, and what stands behind them."""
        machine, choices = inputs.machine, inputs.choices
        facts = self._machines.get(machine) or self._machines.keep(machine, _written(dict(machine)))
        chosen = self._choices.get(choices) or self._choices.keep(choices, _written(_choices(choices)))
        absent = _written(list(inputs.absent)) if inputs.absent else "[]"
        before = f'", "digest": "{decision.digest}", "facts": {facts}, "request": '
        after = f', "choices": {chosen}, "policy": "{inputs.policy}", "absent": {absent}, "decision": '
        return before, f"{after}{self._answer(decision, row)}}}"

    def _answer(self, decision: Decision, row: str | None) -> str:
        key = (
            decision.backend, decision.source, decision.origin, decision.rule, decision.log, decision.warnings,
            decision.error, decision.provider, decision.transform, row,
        )  # fmt: skip
        found = self._answers.get(key)
        if found is None:
            if len(self._answers) >= _MOST_ANSWERS:
                self._answers.clear()
            found = self._answers[key] = _written({**answer_of(decision), "row": row})
        return found


def _inputs(decision: Decision) -> Inputs:
    if decision.inputs is None:
        raise ValueError("wanted a decision with its inputs, got one whose input was not valid")
    return decision.inputs


def _columns(decision: Decision, inputs: Inputs, row: str | None) -> tuple[str | None, ...]:
    request, error = inputs.request, decision.error
    arch, platform = inputs.machine.get("arch"), inputs.machine.get("platform")
    return (
        request.role, request.category, request.model, decision.backend, decision.provider, decision.source,
        decision.origin, row, error.code if error else None, inputs.policy, decision.digest,
        arch if isinstance(arch, str) else None, platform if isinstance(platform, str) else None,
    )  # fmt: skip


def _with_room(facts: Mapping[str, object] | None, said: Mapping[str, object]) -> tuple[tuple[str, ...], _Room | None]:
    """Write facts with room for the numbers among those that are said, and name these in their order."""
    if facts is None:
        return (), None
    names = tuple(name for name in facts if isinstance(said.get(name), int))
    written = (
        f"{_escaped(_written(name))}: {'%d' if name in names else _escaped(_written(value))}"
        for name, value in facts.items()
    )
    return names, _Room(f"{{{', '.join(written)}}}")


def _escaped(text: str) -> str:
    return text.replace("%", "%%")


def _asked(request: Request) -> dict[str, object]:
    return {
        "role": request.role, "category": request.category, "model": request.model, "facts": dict(request.facts),
        "call": None if request.call is None else dict(request.call),
    }  # fmt: skip


def _choices(choices: Choices) -> dict[str, object]:
    return {
        "per_role": {role: _spec(spec) for role, spec in choices.per_role.items()},
        "default": None if choices.default is None else _spec(choices.default),
        "default_origin": choices.default_origin,
    }


def _spec(spec: AttentionSpec) -> dict[str, object]:
    return spec.model_dump(exclude_none=True, exclude_unset=True)


def answer_of(decision: Decision) -> dict[str, object]:
    """Give what a decision answers as plain data: what is compared when it is made again."""
    return {**decision.answer(), "provider": decision.provider, "transform": decision.transform}


def deciding_row(decision: Decision) -> str | None:
    """Name the row that decided, also where it refused (``table/row-id``).

    None where no row did: a fact that a table requires was not known, or no row was left; and for a refusal that was
    read back, whose rules are not at hand.
    """
    error = decision.error
    if error is None:
        return decision.rule
    if error.code != "refused" or decision.rules is None or decision.inputs is None:
        return None
    return decision.last_row
