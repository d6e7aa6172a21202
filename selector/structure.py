"""Plain data against the schemas, with everything that is wrong as faults in our words."""

from __future__ import annotations

import functools
import itertools
import json
import math
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from selector import data
from selector.faults import Fault, Path
from selector.rules.nodes import MOST_LEVELS, MOST_NODES
from selector.ruleset import RuleSet

if TYPE_CHECKING:
    from jsonschema import ValidationError

    from selector.schemas.explaining import Error

MOST_FAULTS = 200
_MOST_BITS = 4096  # Python writes no integer of more than 4,300 digits in decimal


def schema_faults(name: str, value: object) -> list[Fault]:
    """Validate plain data (mappings, lists, scalars) with the schema of that name; gives every fault at once.

    Numbers that are not finite are no numbers, and 16.0 is no integer. More than 64 levels or 100,000 values are
    refused, and past 200 faults the rest is left out, which a last fault says. Nothing is raised.
    """
    return _faults(name, value, of_rules=True)


def config_file_faults(value: object, rules: RuleSet) -> list[Fault]:
    """Give what is wrong with the form of a config, and what the models find beside it, so that all is said at once.

    Gives nothing when the form is right: the models then have the word alone. What depends on the rules in use (which
    backend reads which block) is theirs too.
    """
    found = _faults("config", value, of_rules=False)
    if not found or found[-1].code in _NOT_READ:
        return found
    from selector.config import read_config  # pydantic only where it is needed

    told = [fault.path for fault in found]
    more, _ = read_config(_plain(value), rules)
    return [*found, *(fault for fault in more if not any(_overlap(fault.path, path) for path in told))]


def _overlap(one: Path, other: Path) -> bool:
    least = min(len(one), len(other))
    return one[:least] == other[:least]


_NOT_READ = ("too-deep", "too-large", "too-many")


def _faults(name: str, value: object, *, of_rules: bool) -> list[Fault]:
    from selector.schemas.explaining import faults_of

    try:
        plain = _plain(value)
    except _BoundError as error:
        return [error.fault]
    errors: Iterator[Error] = _validator(name, of_rules=of_rules).iter_errors(plain)
    found = _once(fault for error in errors for fault in faults_of(error))
    try:
        first = list(itertools.islice(found, MOST_FAULTS + 1))
    except RecursionError:  # the caller left less of the stack than some levels need
        return [Fault((), "too-deep", "wanted fewer levels, got more than fit on the stack")]
    if len(first) <= MOST_FAULTS:
        return first
    message = f"there are more than {MOST_FAULTS} faults, and the rest is left out"
    return [*first[:MOST_FAULTS], Fault((), "too-many", message)]


def _once(faults: Iterator[Fault]) -> Iterator[Fault]:
    """Leave out what says the same of a value again, and all else of a value of a wrong type."""
    seen: set[tuple[Path, str, str]] = set()
    mistyped: set[Path] = set()
    for fault in faults:
        said = (fault.path, fault.code, fault.message if fault.code == "missing-key" else "")
        if said in seen or fault.path in mistyped:
            continue
        seen.add(said)
        if fault.code == "wrong-type":
            mistyped.add(fault.path)
        yield fault


# --- plain data ---------------------------------------------------------------------------------------------------


class _BoundError(Exception):
    """The data is larger than any file may be."""

    def __init__(self, code: str, message: str) -> None:
        self.fault = Fault((), code, message)
        super().__init__(message)


class _Long(int):
    """An integer too long to be written out, which messages must not try."""

    def __repr__(self) -> str:
        return f"{'-' if self < 0 else ''}{hex(abs(self))[:12]}… of {self.bit_length()} bits"


def _plain(value: object) -> object:
    """Copy the data with strings as keys, within bounds, and so that every value in it can be written."""
    count = itertools.count(1)

    def copy(item: Any, level: int) -> object:  # noqa: ANN401 - whatever stands in a text
        if level > MOST_LEVELS:
            raise _BoundError("too-deep", f"wanted at most {MOST_LEVELS} levels, got more")
        if next(count) > MOST_NODES:
            raise _BoundError("too-large", f"wanted at most {MOST_NODES} values, got more")
        if isinstance(item, dict):
            return {str(key): copy(child, level + 1) for key, child in item.items()}
        if isinstance(item, list):
            return [copy(child, level + 1) for child in item]
        return _Long(item) if type(item) is int and item.bit_length() > _MOST_BITS else item

    return copy(value, 1)


# --- the validator ------------------------------------------------------------------------------------------------


@functools.cache
def _validator(name: str, *, of_rules: bool) -> Any:  # noqa: ANN401 - jsonschema makes the class as it runs
    """Build the validator of a schema once; without `of_rules` it lacks what follows from the shipped rules alone."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    from selector.schemas.annotations import RULES_MARK

    schema = json.loads((data.folder("schemas") / f"{name}.schema.json").read_bytes())
    if not of_rules:
        spec = schema["$defs"]["spec"]
        spec["allOf"] = [part for part in spec["allOf"] if RULES_MARK not in part]
    types = Draft202012Validator.TYPE_CHECKER.redefine_many({"integer": _is_integer, "number": _is_number})
    keywords = {"pattern": _pattern, "additionalProperties": _additional_properties}
    return extend(Draft202012Validator, validators=keywords, type_checker=types)(schema)  # type: ignore[no-untyped-call]


def _is_integer(_checker: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(checker: object, value: object) -> bool:
    if _is_integer(checker, value):
        try:
            float(value)  # type: ignore[arg-type]
        except OverflowError:
            return False
        return True
    return isinstance(value, float) and math.isfinite(value)


def _pattern(_validator: object, pattern: str, value: object, _schema: object) -> Iterator[ValidationError]:
    """Match as JSON Schema does, where `$` is the end of the text alone."""
    from jsonschema import ValidationError

    if isinstance(value, str) and not _compiled(pattern).search(value):
        yield ValidationError(f"does not match {pattern}")


def _additional_properties(validator: Any, other: Any, value: object, schema: Any) -> Iterator[ValidationError]:  # noqa: ANN401
    """Go in the order of the text, where jsonschema's own keyword goes in that of a set."""
    from jsonschema import ValidationError

    if not isinstance(value, dict):
        return
    known = schema.get("properties", {})
    extra = [key for key in value if key not in known]
    if extra and other is False:
        yield ValidationError("unknown keys")
    elif other is not False:
        for key in extra:
            yield from validator.descend(value[key], other, path=key)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.removesuffix("$") + r"\Z" if pattern.endswith("$") else pattern)
