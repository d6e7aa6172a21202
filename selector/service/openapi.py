"""The OpenAPI document: the schemas of the product, and for each endpoint a question with the answer that it gets."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from typing import Any

from selector import __version__, data
from selector.lines import Lines
from selector.rules.problems import ProblemsError
from selector.ruleset import shipped
from selector.selecting import Selector
from selector.service import answers
from selector.service.problems import MEDIA_TYPE, ServiceError, invalid, problem_body
from selector.service.served import BODY, Now
from selector.service.settings import MOST_REQUESTS

Json = dict[str, Any]
_MACHINE: Json = {"platform": "cuda", "arch": "sm_100", "cudnn": 91002, "packages": {"flashinfer": "0.6.18"}}
_LAYER: Json = {"role": "self", "head_dim": 128, "mask_free": True}
_LINE: Json = {"id": 1, "facts": _MACHINE, "request": _LAYER, "config": {"per_role": {"cross": "TORCH_SDPA"}}}
_BATCH: Json = {"facts": _MACHINE, "requests": [_LAYER, {"role": "cross", "head_dim": 128, "mask_free": False}]}
_EXPLAINED: Json = {"facts": _MACHINE, "request": _LAYER, "why_not": "CUDNN_ATTN", "what_if": {"arch": "sm_90"}}
_RULES = """\
table: platform_default
edits:
- {id: ours, before: hopper-flash-attn, when: {arch: sm_90}, use: CUDNN_ATTN, because: Measured on our models.}
"""
_SHARED = {"request": "request", "id": "id"}
_ERRORS: Mapping[int, str] = {
    400: "The body is no JSON, or not as strict as it must be.",
    403: "The endpoint is closed.",
    401: "The token is missing or wrong.",
    404: "There is none of that name.",
    408: "The body took too long to arrive.",
    409: "The newer rules are refused; the old ones go on serving.",
    413: "The body is too large.",
    415: "The body is no JSON by its media type.",
    421: "The service is not known by that host.",
    422: "What was given is not valid; every problem of it is told.",
    503: "Too many requests are under way.",
}
_OF_BODIES = (400, 408, 413, 415, 421, 422, 503)


@functools.lru_cache(maxsize=1)
def document() -> Json:
    """Give the document. Answers of the examples are made with the shipped rules."""
    serving = Selector(rules=shipped(), facts={"platform": "cpu"}, environment={}).serving
    now = Now(serving, Lines(serving.rules, name=BODY))
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "attention-selector",
            "version": __version__,
            "summary": "Which attention kernel should run here, and why.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _paths(now),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


# --- paths --------------------------------------------------------------------------------------------------------


def _paths(now: Now) -> Json:
    decision = {"id": 1, **answers.decided(_LINE, now).answer()}
    many = [one.first.answer() for one in answers.all_decided(_BATCH, now)]
    digest = now.rules.digest
    decided: Json = {
        "one": {"summary": "One layer.", "value": {**decision, "digest": digest, "outdated": None}},
        "many": {"summary": "Several.", "value": {"digest": digest, "outdated": None, "decisions": many}},
    }
    asked: Json = {"one": {"summary": "One layer.", "value": _LINE}, "many": {"summary": "Several.", "value": _BATCH}}
    return {
        "/v1/decide": {
            "post": _posting(
                "Decide for one layer, or for up to 10,000 that share the rest.",
                {"oneOf": [_ref("decide-line"), _ref("decide-batch")]},
                asked,
                {"oneOf": [_ref("answer"), _ref("answers")]},
                decided,
            )
        },
        "/v1/explain": _explained("Explain one layer: the trace, why not another backend, what other facts would give.",
                                  _ref("explain"), _EXPLAINED, answers.explained, now),
        "/v1/validate": _explained("Check texts of rules, a config or facts; every problem has its place.",
                                   _ref("texts"), {"config": "default: TORCH_SDP\n"}, answers.validated, now),
        "/v1/diff": _explained("Tell in which situations proposed rules decide otherwise.",
                               _ref("proposal"), {"rules": _RULES}, answers.compared, now),
        "/v1/rules": {"get": _getting("The whole rule set.", _ref("rule-set"), tagged=True)},
        "/v1/rules/{table}": {"get": _getting("One table, or one of the files beside them.", {"type": "object"},
                                              "table", "platform_default", tagged=True)},
        "/v1/rules/reload": {"post": _reloading()},
        "/v1/schemas": {"get": _getting("The names of all schemas.", {"type": "object"})},
        "/v1/schemas/{name}": {"get": _getting("One JSON Schema.", {"type": "object"}, "name", "config",
                                               media="application/schema+json")},
        "/v1/backends": {"get": _getting("Every backend.", {"type": "object"})},
        "/v1/machines": {"get": _getting("Machines whose facts ship with the rules.", {"type": "object"})},
        "/healthz": {"get": _getting("Whether the process answers.", {"type": "object"})},
        "/readyz": {"get": _getting("Which rules serve, and whether newer ones are refused.", {"type": "object"})},
        "/metrics": {"get": _getting("Counts, as Prometheus reads them.", {"type": "string"}, media="text/plain")},
        "/openapi.json": {"get": _getting("This document.", {"type": "object"})},
        "/docs": {"get": _getting("This document as a page to read.", {"type": "string"}, media="text/html")},
        "/": {"get": _getting("The page for people.", {"type": "string"}, media="text/html")},
        "/page/{name}": {"get": _getting("A file of the page.", {"type": "string"}, "name", "app.js",
                                         media="text/javascript")},
    }  # fmt: skip


def _posting(about: str, body: Json, asked: Json, answer: Json, answered: Json) -> Json:
    return {
        "summary": about,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body, "examples": asked}}},
        "responses": {
            "200": {
                "description": "The answer.",
                "content": {"application/json": {"schema": answer, "examples": answered}},
            },
            **_refusals(*_OF_BODIES),
        },
    }  # fmt: skip


def _explained(
    about: str, body: Json, asked: Json, answer: Callable[[Mapping[str, object], Now], dict[str, object]], now: Now
) -> Json:
    example = {"example": {"value": asked}}
    return {"post": _posting(about, body, example, {"type": "object"}, {"example": {"value": answer(asked, now)}})}


def _getting(
    about: str,
    answer: Json,
    name: str | None = None,
    value: str | None = None,
    *,
    media: str = "application/json",
    tagged: bool = False,
) -> Json:
    parameters = [] if name is None else [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "example": value}
    ]  # fmt: skip
    if tagged:
        tag = {"name": "If-None-Match", "in": "header", "required": False, "schema": {"type": "string"}}
        parameters.append(tag)
    headers = {"ETag": {"description": "The digest of the rules.", "schema": {"type": "string"}}} if tagged else {}
    found: Json = {"description": "The answer.", "headers": headers, "content": {media: {"schema": answer}}}
    if tagged:
        found["content"]["application/yaml"] = {"schema": {"type": "string"}}
    not_modified = {"304": {"description": "The caller has this very content."}} if tagged else {}
    return {
        "summary": about,
        "parameters": parameters,
        "responses": {"200": found, **not_modified, **_refusals(421, 503, *([] if name is None else [404]))},
    }


def _reloading() -> Json:
    return {
        "summary": "Read the rules again, now.",
        "security": [{"token": []}],
        "responses": {
            "200": {"description": "What came of it.", "content": {"application/json": {"schema": {"type": "object"}}}},
            "409": {"description": _ERRORS[409], "content": {"application/json": {"schema": {"type": "object"}}}},
            **_refusals(401, 403, 421, 503),
        },
    }


def _refusals(*statuses: int) -> Json:
    return {
        str(status): {"description": _ERRORS[status], "content": {MEDIA_TYPE: {"schema": _ref("problem")}}}
        for status in statuses
    }


# --- schemas ------------------------------------------------------------------------------------------------------


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _schemas() -> Json:
    """Give the product's schemas, whose definitions stand beside them here, and those of HTTP alone."""
    found: Json = {}
    for name in ("decide-line", "rule-set"):
        written = (data.folder("schemas") / f"{name}.schema.json").read_text(encoding="utf-8")
        schema = json.loads(written.replace('"#/$defs/', '"#/components/schemas/'))
        found |= schema.pop("$defs", {})
        found[name] = {key: value for key, value in schema.items() if key not in ("$schema", "$id", "examples")}
    line = found["decide-line"]["properties"]
    shared = {name: schema for name, schema in line.items() if name not in _SHARED}
    text: Json = {"type": "string"}
    perhaps: Json = {"type": ["string", "null"]}
    files: Json = {"type": "object", "additionalProperties": text, "minProperties": 1}
    one: Json = {  # what is not valid is answered in its place, so that anything may stand there
        "anyOf": [line["request"], {"description": "What is not valid is answered by an `error` of its own."}]
    }
    answer = _answer()
    problem: Json = {"type": "object", "required": ["type", "title", "status", "detail", "code", "problems"]}
    return {
        **found,
        "decide-batch": _object(
            {**shared, "requests": {"type": "array", "maxItems": MOST_REQUESTS, "items": one}}, "requests"
        ),
        "explain": _object(
            {
                **line,
                "why_not": perhaps,
                "what_if": {"type": ["object", "null"]},
                "any": {"type": ["boolean", "null"]},
            }
        ),
        "texts": _object({"rules": {"anyOf": [perhaps, files]}, "config": perhaps, "facts": perhaps}),
        "proposal": _object({"rules": {"anyOf": [text, files]}}, "rules"),
        "answer": answer,
        "answers": {"type": "object", "required": ["digest", "outdated", "decisions"]},
        "problem": {**problem, "examples": [_problem()]},
    }


def _object(properties: Json, *required: str) -> Json:
    return {
        "type": "object", "properties": properties, "additionalProperties": False,
        **({"required": [*required]} if required else {}),
    }  # fmt: skip


def _answer() -> Json:
    names = ("id", "backend", "source", "origin", "rule", "log", "warnings", "error", "digest", "outdated")
    return {"type": "object", "required": [*names]}


def _problem() -> Json:
    try:
        raise invalid(_misspelt())
    except ServiceError as error:
        return problem_body(error.status, error.code, error.detail, error.problems)


def _misspelt() -> ProblemsError:
    try:
        Selector(rules=shipped(), facts={"platform": "cpu"}, config={"default": "TORCH_SDP"}, environment={})
    except ProblemsError as error:
        return error
    raise AssertionError("the example is refused")
