"""What models say to the schemas beyond their types: definitions taken from the rules, keywords, words for faults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from selector.rules.vocabulary import Fact

if TYPE_CHECKING:
    from pydantic import GetJsonSchemaHandler
    from pydantic_core import CoreSchema

Json = dict[str, Any]
PLACEHOLDER = "x-def"
RULES_MARK = "x-rules"  # what follows from the rules alone, and may be otherwise under others
NOT_BLANK = r"\S"
SCALARS = ["string", "integer", "boolean"]


@dataclass(frozen=True, slots=True)
class Def:
    """Stands for the definition of that name, which is built from the rules."""

    name: str

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        """Leave a mark that the builder turns into a reference (pydantic knows no definitions but its own)."""
        return {PLACEHOLDER: self.name}


@dataclass(frozen=True, slots=True)
class Says:
    """Adds keywords to the schema of a type."""

    keywords: Mapping[str, object] = field(hash=False)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        """Give the type's own schema with the keywords."""
        return {**handler(schema), **self.keywords}


@dataclass(frozen=True, slots=True)
class Nullable:
    """Stands for one of several definitions, or null."""

    of: tuple[Def, ...]

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> Json:
        """Leave the marks of the definitions."""
        return {"anyOf": [*({PLACEHOLDER: one.name} for one in self.of), {"type": "null"}]}


def nullable(*of: Def) -> Nullable:
    """Allow null beside definitions."""
    return Nullable(of)


def value_name(fact: Fact) -> str:
    """Name the definition of a fact's values."""
    return f"fact.{fact.name}"


def ref(name: str) -> Json:
    """Refer to a definition of the same schema."""
    return {"$ref": f"#/$defs/{name}"}


def wanted(text: str) -> Json:
    """Say what a value should be, for editors and for the message of a wrong type."""
    return {"errorMessage": f"wanted {text}"}


def fault(
    code: str, message: str, hint: str | None = None, *, near: Sequence[str] = (), told: str | None = None
) -> Json:
    """Say which fault it is when a keyword beside this one fails (its `type` aside).

    In the message ``{key}``, ``{got}`` and ``{typed}`` stand for the last key, the value, and the value with its type,
    ``{role}`` for the keys below `per_role` joined with dots.
    The hint names the nearest of `near`, where one is near. Editors show `told` (default: message and hint).
    """
    words: Json = {"code": code, "message": message}
    if hint is not None:
        words["hint"] = hint
    if near:
        words["near"] = list(near)
    return {"errorMessage": told or (f"{message}; {hint}" if hint else message), "x-fault": words}


def named(known: Sequence[str]) -> Json:
    """Offer the known names and let any other pass, which an overlay may declare."""
    return {"anyOf": [{"type": "string", "pattern": NOT_BLANK}, {"enum": list(known)}]}


class Document(BaseModel):
    """A mapping whose keys are all known."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def optional(description: str | None = None, *, examples: list[Any] | None = None) -> Any:  # noqa: ANN401 - as Field
    """Make a field that may be left out, though null is no value of it."""
    return Field(default=None, description=description, examples=examples)


Text = Annotated[str, Says({"pattern": NOT_BLANK, **wanted("a string")})]
