"""The OpenAPI document says what is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate
from starlette.routing import Route

from selector.service import openapi

if TYPE_CHECKING:
    from starlette.testclient import TestClient


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    """Give the document."""
    return openapi.document()


def test_it_is_valid(document: dict[str, Any]) -> None:
    """As OpenAPI 3.1."""
    validate(document)


def test_every_endpoint_is_in_it(document: dict[str, Any], client: TestClient) -> None:
    """And no other."""
    routes = {
        (route.path, method.lower())
        for route in client.app.routes  # type: ignore[attr-defined]
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }

    assert routes == {(path, method) for path, methods in document["paths"].items() for method in methods}
    assert client.get("/openapi.json").json() == document


def test_examples_are_answered_as_they_say(document: dict[str, Any], client: TestClient) -> None:
    """Each question with its answer, and both of the form that is promised."""
    schemas = document["components"]
    count = 0
    for path, methods in document["paths"].items():
        body = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json")
        if body is None:
            continue
        answer = methods["post"]["responses"]["200"]["content"]["application/json"]
        for name, example in body["examples"].items():
            told = client.post(path, json=example["value"]).json()
            wanted = answer["examples"][name]["value"]
            assert {key: told[key] for key in wanted if key != "decisions"} == {
                key: value for key, value in wanted.items() if key != "decisions"
            }
            for schema, value in ((body["schema"], example["value"]), (answer["schema"], told)):
                Draft202012Validator({**schema, "components": schemas}).validate(value)
            count += 1

    assert count == 5
