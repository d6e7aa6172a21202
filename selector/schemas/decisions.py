"""A decision as a model: what `Decision.to_dict` gives, and what reads it back."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from selector.config import AttentionSpec
from selector.configuring import Origin
from selector.decision import Code, Source
from selector.schemas.annotations import Says, wanted

Digest = Annotated[str, Field(pattern="^[0-9a-f]{64}$"), Says(wanted("64 hexadecimal digits"))]
FactValue = str | int | bool | None
FactValues = dict[str, FactValue]
Origins = dict[str, str]


class Record(BaseModel):
    """Part of a decision: every key is there, and no other."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class ErrorRecord(Record):
    """Why there is no backend."""

    code: Code = Field(description="Stable code.")
    message: str = Field(description="One sentence that says what was wanted and what was got.")
    path: str | None = Field(description="Path of what is wrong in the input, where there is one.")


class RequestRecord(Record):
    """The layer that was asked about."""

    role: str = Field(description="What the layer does in the model.")
    category: str | None = Field(description="The category that the request gave.")
    model: str | None = Field(description="The model that the request named.")
    facts: FactValues = Field(description="Facts that the request gave.")
    call: FactValues | None = Field(description="Facts of one call; null when none was asked about.")


class ChoicesRecord(Record):
    """What the user chose."""

    per_role: dict[str, AttentionSpec] = Field(description="Entries by role.")
    default: AttentionSpec | None = Field(description="The default entry.")
    default_origin: Origin = Field(description="Where the default entry came from.")
    unread: list[str] = Field(description="What the environment names where a flag or the config went before it.")


class InputsRecord(Record):
    """Everything that the decision depends on besides the rules."""

    machine: FactValues = Field(description="Facts of the machine.")
    request: RequestRecord = Field(description="The layer, and the call.")
    choices: ChoicesRecord = Field(description="What the user chose.")
    policy: str = Field(description="The policy it was made under.")
    absent: list[str] = Field(description="Facts that were taken as null, as after a kernel that failed to bind.")
    origins: Origins = Field(description="Where each fact comes from that was given; `call.` before those of the call.")


class OutdatedRecord(Record):
    """Newer rules are refused, and older ones serve in their place."""

    since: str = Field(description="Since when, in UTC.", examples=["2026-11-29T20:30:00Z"])
    problem: str = Field(description="The first thing that is wrong with the newer rules.")
    problems: int = Field(description="How many things are wrong with them.")


class DecisionRecord(Record):
    """What runs and why, with everything that is needed to decide again."""

    model_config = ConfigDict(title="Decision")

    backend: str | None = Field(description="The backend that runs; null when there is an error.")
    source: Source | None = Field(description="Which entry of the config spoke for the role.")
    origin: Origin | None = Field(description="Where that entry came from.")
    rule: str | None = Field(description="The row that decided, as `table/row-id`.", examples=["explicit/able"])
    log: str | None = Field(description="The log line.")
    warnings: list[str] = Field(description="What is unverified, was substituted, or could run with a newer package.")
    error: ErrorRecord | None = Field(description="Why there is no backend; null when there is one.")
    provider: str | None = Field(description="The build of the kernel, where the backend has several.")
    build: str | None = Field(description="The code that was bound, once a kernel was.")
    considered: list[str] = Field(description="Of every build that was looked at, why it fits or not.")
    transform: str | None = Field(description="How the call is changed without changing its result.")
    spec: AttentionSpec | None = Field(description="The config's entry that spoke for the role.")
    role: str = Field(description="The role that was asked about.")
    role_category: str | None = Field(description="The category of the role.")
    policy: str = Field(description="The policy it was made under.")
    facts: FactValues = Field(description="All facts that were used.")
    origins: Origins = Field(description="Where each of these facts comes from.")
    missing: list[str] = Field(description="Facts that were not known and could change the answer.")
    digest: Digest = Field(description="Names the content of the rules.")
    outdated: OutdatedRecord | None = Field(description="That newer rules are refused, while these serve on.")
    inputs: InputsRecord | None = Field(description="What it was decided from; null when the input was not valid.")
