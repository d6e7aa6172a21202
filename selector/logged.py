"""Lines of a decision log read back, each with its place where it is damaged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, Literal, NamedTuple

from pydantic import BaseModel, Field, ValidationError

from selector.config import SPEC_KEYS, AttentionSpec, AttnQuantSpec, SkipSoftmaxSpec
from selector.configuring import Choices, Origin
from selector.decision import Inputs, Source
from selector.facts import Request
from selector.faults import Fault, Path, place, typed, unknown_key, wrong_type
from selector.json_lines import Line, strict_value, text_of
from selector.rules.json_text import read_json
from selector.rules.nodes import MOST_BYTES, TextError
from selector.rules.problems import Place, Problem, ProblemsError
from selector.schemas.decisions import Digest, ErrorRecord, FactValues, Record, RequestRecord

TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?Z"
_FORM_ALONE: Mapping[str, None] = {"rules": None}  # the rules that it was made with are not at hand
_MOST_TOLD = 20


class EntriesRecord(Record):
    """What the user chose."""

    per_role: dict[str, AttentionSpec]
    default: AttentionSpec | None
    default_origin: Origin


class AnswerRecord(Record):
    """What was answered, and the row that decided, also where it refused."""

    backend: str | None
    source: Source | None
    origin: Origin | None
    rule: str | None
    log: str | None
    warnings: list[str]
    error: ErrorRecord | None
    provider: str | None
    transform: str | None
    row: str | None


class LineRecord(Record):
    """One line: every key is there, and no other."""

    at: Annotated[str, Field(pattern=f"^{TIME}$")]
    digest: Digest
    facts: FactValues
    request: RequestRecord
    choices: EntriesRecord
    policy: Literal["fallback", "strict"]
    absent: list[str]
    decision: AnswerRecord


class Logged(NamedTuple):
    """A decision as it was logged: what it was made from, the answer as plain data, the row, and the rules' digest."""

    inputs: Inputs
    answer: Mapping[str, object]
    row: str | None
    digest: str


class LineError(ProblemsError):
    """A line that is no line of a decision log."""


def read_line(line: Line, name: str) -> Logged:
    """Read one line of the log of that name. Raises `LineError` with what is wrong, at its line and column."""
    text = _text(line, name)
    try:
        value = strict_value(text, name)
        record = LineRecord.model_validate(value, context=_FORM_ALONE)
    except TextError as error:
        raise _at(line, error.problems) from error
    except ValidationError as refusal:
        raise _misshapen(line, name, text, refusal) from refusal
    answer = dict(value["decision"])  # type: ignore[index]  # the record says that it is a mapping
    return Logged(_inputs(record), answer, answer.pop("row"), record.digest)


def _inputs(record: LineRecord) -> Inputs:
    request, choices = record.request, record.choices
    return Inputs(
        record.facts,
        Request(request.role, request.category, request.model, request.facts, request.call),
        Choices(choices.per_role, choices.default, choices.default_origin),
        record.policy,
        tuple(record.absent),
    )


# --- what is wrong with a line ------------------------------------------------------------------------------------


def _text(line: Line, name: str) -> str:
    if line.raw is None:
        message = f"the line is too long: wanted at most {MOST_BYTES} bytes"
        raise LineError([Problem(Place(name, line.number, 1), "too-large", message)])
    try:
        return text_of(line.raw)
    except UnicodeDecodeError as error:
        message = f"wanted UTF-8, got byte 0x{line.raw[error.start]:02x}"
        problem = Problem(Place(name, line.number, error.start + 1), "not-utf-8", message)
        raise LineError([problem]) from error


def _at(line: Line, problems: tuple[Problem, ...]) -> LineError:
    """Put problems of a text that is one line where that line stands."""
    return LineError([replace(one, place=replace(one.place, line=line.number)) for one in problems])


def _misshapen(line: Line, name: str, text: str, refusal: ValidationError) -> LineError:
    """Say everything that pydantic found, where it stands in the line."""
    try:
        node = read_json(text, name)
    except TextError as error:  # more values than are read with their places
        return _at(line, error.problems)
    faults = list({(fault.path, fault.code): fault for fault in _faults(refusal)}.values())
    rest = len(faults) - _MOST_TOLD
    if rest > 0:
        faults = [*faults[:_MOST_TOLD], Fault((), "too-many", f"and {rest} more that is wrong with the line")]
    return _at(line, tuple(place(faults, name, node)))


_TYPES: Mapping[str, str] = {
    "string_type": "a string", "bool_type": "true or false", "int_type": "an integer", "int_from_float": "an integer",
    "float_type": "a number", "list_type": "a list", "dict_type": "a mapping", "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}  # fmt: skip
_PATTERNS: Mapping[object, str] = {
    "at": "a time in UTC such as 2026-01-31T12:00:00.000000Z",
    "digest": "64 hexadecimal digits",
}
_FACTS: tuple[Path, ...] = (("facts",), ("request", "facts"), ("request", "call"))
_MODELS: Mapping[Path, type[BaseModel]] = {
    (): LineRecord, ("request",): RequestRecord, ("choices",): EntriesRecord, ("decision",): AnswerRecord,
    ("decision", "error"): ErrorRecord,
}  # fmt: skip
_BLOCKS: Mapping[object, type[BaseModel]] = {"skip_softmax": SkipSoftmaxSpec, "quant": AttnQuantSpec}


def _faults(refusal: ValidationError) -> Iterator[Fault]:
    for item in refusal.errors(include_url=False):
        path, kind, value = item["loc"], item["type"], item.get("input")
        group = next((facts for facts in _FACTS if path[: len(facts)] == facts and len(path) > len(facts)), None)
        if group is not None:  # said once for each type that it might have had
            wanted = "a string or an integer or true or false or null"
            yield wrong_type(path[: len(group) + 1], wanted, value)
        elif kind == "missing":
            yield Fault(path[:-1], "missing-key", f"wanted the key `{path[-1]}`, which is not there")
        elif kind == "extra_forbidden":
            yield unknown_key(path[:-1], path[-1], _known(path[:-1]))
        elif kind in _TYPES:
            yield wrong_type(path, _TYPES[kind], value)
        elif kind == "string_pattern_mismatch":
            yield Fault(path, "bad-value", f"`{path[-1]}`: wanted {_PATTERNS[path[-1]]}, got {typed(value)}")
        elif kind == "literal_error":
            yield Fault(path, "bad-value", f"`{path[-1]}`: wanted {item['ctx']['expected']}, got {typed(value)}")
        else:
            yield Fault(path, "bad-value", item["msg"].removeprefix("Value error, "))


def _known(path: Path) -> list[str]:
    """Name the keys that a mapping may have: those of its record, or of an entry of the config."""
    if path in _MODELS:
        return list(_MODELS[path].model_fields)
    return list(_BLOCKS[path[-1]].model_fields if path[-1] in _BLOCKS else SPEC_KEYS)
