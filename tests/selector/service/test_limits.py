"""What is refused before anything is decided, and what every answer has."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from selector.service.app import make_app
from selector.service.settings import Settings
from tests.selector.conftest import CPU
from tests.selector.service.conftest import Serve

if TYPE_CHECKING:
    from starlette.testclient import TestClient

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize(
    ("content", "headers", "status", "code", "said"),
    [
        (b"", JSON, 400, "json-syntax", "wanted a value, got the end of the text at line 1, column 1"),
        (b'{"facts": {},}', JSON, 400, "json-syntax", "line 1, column 14"),
        (b'{"a": 1,\n "a": 2}', JSON, 400, "duplicate-key", "key `a` stands twice at line 2, column 2"),
        (b'{"a": NaN}', JSON, 400, "json-syntax", "column 7"),
        (b'{"a": 1e999}', JSON, 400, "number", "wanted a finite number"),
        (b'{"a": "\xff"}', JSON, 400, "not-utf-8", "got byte 0xff"),
        (b"[" * 100_000, JSON, 400, "too-deep", "wanted at most 64 levels"),
        (b'{"config": ' + b"[" * 64 + b"]" * 64 + b"}", JSON, 400, "too-deep", "wanted at most 64 levels"),
        (b"[]", JSON, 422, "invalid", "wanted a JSON object"),
        (b"{}", {"content-type": "text/plain"}, 415, "media-type", "wanted application/json, got `text/plain`"),
    ],
)
def test_a_body_is_read_strictly(
    client: TestClient, content: bytes, headers: dict[str, str], status: int, code: str, said: str
) -> None:
    """With the place of what is wrong."""
    for path in ("/v1/decide", "/v1/explain", "/v1/validate", "/v1/diff"):
        found = client.post(path, content=content, headers=headers)

        assert found.headers["content-type"] == "application/problem+json"
        assert (found.status_code, found.json()["status"], found.json()["code"]) == (status, status, code)
        assert said in found.json()["detail"]


def test_a_large_body_is_refused_by_its_head_or_on_the_way(serve: Serve) -> None:
    """Without reading the rest."""
    client = serve(most_body=1000)
    body = json.dumps({"facts": CPU, "request": {"model": "x" * 2000}}).encode()

    def in_parts() -> Any:  # noqa: ANN401 - bytes, one part after the other
        for start in range(0, len(body), 100):
            yield body[start : start + 100]

    for content in (body, in_parts()):
        found = client.post("/v1/decide", content=content, headers=JSON)
        assert found.status_code == 413
        assert found.json()["detail"] == "wanted a body of at most 1000 bytes, got more"


def test_a_slow_body_is_given_up() -> None:
    """After so many seconds in all, however little comes at a time."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost"), (b"content-type", b"application/json")]
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": "/v1/decide", "raw_path": b"/v1/decide", "query_string": b"", "root_path": "", "headers": headers,
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
    }  # fmt: skip
    asyncio.run(make_app(Settings(watch=False, most_seconds=0.1))(scope, receive, send))  # type: ignore[arg-type]

    assert sent[0]["status"] == 408
    assert json.loads(sent[1]["body"])["code"] == "too-slow"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200), ("LOCALHOST:8320", 200), ("127.0.0.1:1", 200), ("[::1]:8320", 200), ("[::1]", 200),
        ("evil.example", 421), ("localhost.evil.example", 421), ("", 421), ("evil.example:localhost", 421),
    ],
)  # fmt: skip
def test_unknown_hosts_are_refused(client: TestClient, host: str, status: int) -> None:
    """Names that are not the service's own, which a page of somebody else may use."""
    assert client.get("/healthz", headers={"host": host}).status_code == status


def test_any_host_may_be_allowed(serve: Serve) -> None:
    """By a star."""
    assert serve(hosts=("*",)).get("/healthz", headers={"host": "any.example"}).status_code == 200


def test_too_many_requests_are_refused_and_health_is_told_all_the_same(serve: Serve) -> None:
    """With a time after which to come again."""
    client = serve(most_connections=0)

    found = client.post("/v1/decide", json={"facts": CPU})

    assert (found.status_code, found.json()["code"], found.headers["retry-after"]) == (503, "too-many", "1")
    assert client.get("/healthz").status_code == 200
    assert client.get("/readyz").status_code == 200


@pytest.mark.parametrize("path", ["/v1/decide", "/healthz", "/nowhere", "/v1/rules", "/metrics", "/openapi.json"])
def test_every_answer_has_the_headers_of_security(client: TestClient, path: str) -> None:
    """Errors too; nobody else may read them from a page."""
    headers = client.get(path, headers={"origin": "https://evil.example"}).headers

    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["referrer-policy"] == "no-referrer"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "access-control-allow-origin" not in headers


def test_a_method_that_is_not_answered_is_a_problem(client: TestClient) -> None:
    """Which names what is."""
    found = client.get("/v1/decide")

    assert (found.status_code, found.json()["code"], found.headers["allow"]) == (405, "method", "POST")


def test_a_failure_is_a_problem_without_its_inside(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is told on standard error alone."""
    client = serve()
    monkeypatch.setattr("selector.service.answers.backends", lambda rules: rules.nothing)

    found = client.get("/v1/backends")

    assert (found.status_code, found.json()["code"]) == (500, "failed")
    assert "nothing" not in found.text
