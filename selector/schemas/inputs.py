"""What the product is asked with, as models: facts of a machine, a request, a line of `decide`, scenarios."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import ConfigDict, Field

from selector.configuring import BACKEND_VARIABLE, POLICIES, POLICY_VARIABLE, Origin
from selector.decision import Code, Source
from selector.scenario.coverage import WHAT_CONDITIONS_DO, WHAT_ROWS_DO
from selector.schemas.annotations import Def, Document, Json, Says, Text, fault, nullable, optional, wanted

FACTS_MARK = "x-facts"  # the facts, by group or name, that become properties; others pass, as overlays may declare them

_VERSION = Says(
    fault(
        "wrong-type",
        "`{key}`: wanted a version as a string, got {typed}",
        "quote it",
        told="wanted a version in quotes",
    )
)
_COUNT: Json = {"type": ["integer", "null"], "minimum": 0, **wanted("an integer of at least 0")}
_NAME: Json = {"type": ["string", "null"], **wanted("a string")}
_ANY_MAPPING: Json = {"type": ["object", "null"], **wanted("a mapping")}
_ONCE: Json = {
    "enum": [None],
    **fault("given-twice", "`arch` and `devices` both say what the GPU is", "leave one of them out"),
}
_TWICE: Json = {
    "if": {"required": ["devices"], "properties": {"devices": {"type": "array"}}},
    "then": {"properties": {"arch": _ONCE}},
}

# --- facts --------------------------------------------------------------------------------------------------------


class Device(Document):
    """One GPU of a machine, with the facts that are its own."""

    model_config = ConfigDict(json_schema_extra={FACTS_MARK: ["machine"], **wanted("a mapping")})

    index: Annotated[object, Says(_COUNT)] = optional("Number of the GPU, as `--device` takes it.", examples=[0])
    name: Annotated[object, Says(_NAME)] = optional("Name of the GPU.", examples=["NVIDIA H200"])
    memory: Annotated[object, Says(_COUNT)] = optional("Memory in bytes.", examples=[150_754_820_096])


class Facts(Document):
    """What is known of a machine. A fact that is null or left out is unknown, except where null is a value of it."""

    model_config = ConfigDict(
        title="Facts",
        json_schema_extra={
            FACTS_MARK: ["machine"],
            **wanted("a mapping of facts"),
            "allOf": [_TWICE],
        },
    )

    driver: Annotated[str | None, _VERSION] = optional("Version of the GPU's driver.", examples=["580.65.06"])
    torch: Annotated[str | None, _VERSION] = optional("Version of torch.", examples=["2.9.1"])
    packages: Annotated[object, Def("packages")] = optional(
        "Versions by package. Null or not listed: absent; `unknown`, or no mapping at all: not looked for."
    )
    switches: Annotated[object, Says(_ANY_MAPPING)] = optional("torch's own switches for its attention kernels.")
    devices: Annotated[list[Device] | None, Says(wanted("a list of mappings"))] = optional(
        "The GPUs, where there may be several; one of them lends its own facts."
    )
    notes: Any = optional("Remarks of the probe; nothing reads them.")
    unusable: Annotated[object, Says(_ANY_MAPPING)] = optional("Packages that are there and cannot be used, and why.")


# --- a request ----------------------------------------------------------------------------------------------------

_CAUSAL = "Whether a query sees only the keys up to its own position, or the corner that the diagonal starts from."
_CALL_FACTS: Json = {FACTS_MARK: ["call", "dtype", "seq_len_q", "seq_len_kv"]}


class Call(Document):
    """One call: what its tensors show."""

    model_config = ConfigDict(json_schema_extra=_CALL_FACTS)

    causal: Annotated[object, Def("call-causal")] = optional(
        "The corner that the causal diagonal starts from; null when the call is not causal."
    )


class Request(Document):
    """One attention layer, and under `call` one call of it. What is null or left out is unknown."""

    model_config = ConfigDict(json_schema_extra={FACTS_MARK: ["request"], **wanted("a mapping")})

    causal: Annotated[object, Def("causal")] = optional(_CAUSAL)
    call: Call | None = optional("One call, which walks the call table too.")


# --- lines and scenarios ------------------------------------------------------------------------------------------

_ONE_POLICY: Json = {
    "type": ["string", "null"],
    "enum": [*POLICIES, None],
    **wanted(f"one of {', '.join(POLICIES)}"),
}
_POLICY = "Whether a row may put another backend in the place of a configured one; left out, the environment's."


class DecideLine(Document):
    """One line that `attention-selector decide` reads: everything that a decision depends on besides the rules."""

    model_config = ConfigDict(title="Line of decide")

    id: Any = optional("Anything; the answer carries it.")
    facts: Annotated[object, Def("facts")] = optional("The machine; left out, this machine is read.")
    request: Annotated[object, nullable(Def("request"))] = optional("The layer.")
    config: Annotated[object, nullable(Def("config"))] = optional("The attention config.")
    backend: Annotated[object, nullable(Def("backend-name")), Says(wanted("a backend name"))] = optional(
        "The shorthand flag for the config's default backend, exclusive with it."
    )
    env: Annotated[object, Def("environment")] = optional("Environment variables; left out, none is read.")
    policy: Annotated[object, Says(_ONE_POLICY)] = optional(_POLICY)
    expect: Any = optional("Carried along unread.")


ENVIRONMENT: Json = {
    "description": "Environment variables by name; only these are read.",
    "type": ["object", "null"],
    **wanted("a mapping of variables"),
    "properties": {
        BACKEND_VARIABLE: {
            "description": "Default backend where config and flag name none.",
            "examples": ["CUDNN_ATTN"],
        },
        POLICY_VARIABLE: {"description": "Policy where none is given.", "examples": list(POLICIES)},
    },
}


class Expectation(Document):
    """What must come out; what is left out is not compared."""

    backend: Annotated[object, nullable(Def("listed-backend"))] = optional("The backend that runs; null for none.")
    source: Annotated[object, Says({"enum": [*get_args(Source), None]})] = optional("Which entry spoke for the role.")
    origin: Annotated[object, Says({"enum": [*get_args(Origin), None]})] = optional("Where that entry came from.")
    rule: Annotated[object, Says({"type": ["string", "null"]})] = optional(
        "The row that decided.", examples=["platform_default/torch-sdpa"]
    )
    provider: Annotated[object, Says({"type": ["string", "null"]})] = optional("The build of the kernel.")
    transform: Annotated[object, Says({"type": ["string", "null"]})] = optional("How the call is changed.")
    log: Annotated[object, Says({"type": ["string", "null"]})] = optional("The log line.")
    warnings: int | list[Text] = optional("How many warnings there are, or their texts.", examples=[0, 1])
    error: Annotated[object, Says({"enum": [*get_args(Code), None]})] = optional("The error's code; null for none.")
    blames: list[Text] = optional(
        "Stable codes of conditions, each of which kept its row from firing.",
        examples=[["platform_default/blackwell-cudnn:head_dim.multiple_of"]],
    )


_BAD_ID = "scenario id `{got}` is not kebab-case (small letters, digits and single hyphens)"
ScenarioId = Annotated[
    Text, Says({"pattern": r"^[a-z0-9]+(-[a-z0-9]+)*$", **fault("bad-id", _BAD_ID, told="wanted a name in kebab-case")})
]


class Scenario(DecideLine):
    """A situation and what must come out of it."""

    id: ScenarioId = Field(description="Name of the scenario: kebab-case, stable, used once.")
    about: Text = optional("What the scenario shows.")
    expect: Expectation = Field(description="What must come out.")


class Unreachable(Document):
    """Something that no scenario can show, with the reason; the run fails when one shows it after all."""

    code: Text = Field(
        description="A row, or a condition of one, as the coverage names it.",
        examples=["call/cannot", "backends/CUDNN_ATTN:arch.compare"],
    )
    never: Annotated[str, Says({"enum": [*WHAT_ROWS_DO, *WHAT_CONDITIONS_DO]})] = Field(
        description="What it never does: a row wins or loses, a condition holds or fails."
    )
    because: Text = Field(description="Why that is so.")


class ScenariosFile(Document):
    """Situations with what the rules must decide in each."""

    model_config = ConfigDict(title="Scenarios")

    description: Text = optional("What the scenarios have in common.")
    unreachable: list[Unreachable] = optional("What no scenario can show, so that the coverage does not ask for it.")
    scenarios: list[Scenario] = Field(description="The scenarios.")
