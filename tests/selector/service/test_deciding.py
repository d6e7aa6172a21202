"""Decisions over HTTP are those of the command line."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from selector.command import main
from selector.lines import Lines
from selector.ruleset import shipped
from selector.service.settings import MOST_REQUESTS
from tests.selector.conftest import CPU, FA2, cuda
from tests.selector.service.conftest import Serve

if TYPE_CHECKING:
    from starlette.testclient import TestClient

CASES = Path(__file__).parents[2] / "conformance"
LINES = [
    line
    for name in ("selection", "call")
    for line in (CASES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
]
LAYER = {"role": "self", "head_dim": 128, "mask_free": True}


def test_every_conformance_line_is_answered_as_by_the_command(client: TestClient) -> None:
    """The same fields with the same words; what is not valid is a problem that says the same."""
    lines = Lines(shipped())
    for line in LINES:
        wanted = json.loads(lines.answer(line.encode()))
        found = client.post("/v1/decide", content=line, headers={"content-type": "application/json"})
        told = found.json()
        if wanted["error"] is None or wanted["error"]["code"] == "refused":
            assert found.status_code == 200
            assert {name: told[name] for name in wanted} == wanted
        else:
            assert found.status_code == 422
            assert (told["code"], told["detail"]) == (wanted["error"]["code"], wanted["error"]["message"])
            assert told["problems"]


def test_an_answer_names_the_rules_and_the_build(client: TestClient) -> None:
    """Beside what a line's answer has."""
    told = client.post("/v1/decide", json={"id": [1], "facts": cuda("sm_90", FA2), "request": LAYER}).json()

    assert (told["id"], told["backend"], told["provider"]) == ([1], "FLASH_ATTN", "fa2")
    assert told["digest"] == shipped().digest
    assert told["outdated"] is None


def test_requests_of_a_batch_are_decided_each_as_alone(client: TestClient) -> None:
    """In their order, equal ones too; one that is not valid says so in its place."""
    shared: dict[str, Any] = {"facts": cuda("sm_90", FA2), "config": {"per_role": {"cross": "TORCH_SDPA"}}}
    requests: list[Any] = [LAYER, {"role": "cross"}, {"head_dim": 0}, LAYER, None, {"head_dim": 64}, {"headdim": 1}, 3]

    told = client.post("/v1/decide", json={**shared, "requests": requests}).json()

    assert told["digest"] == shipped().digest
    for request, one in zip(requests, told["decisions"], strict=True):
        line = json.loads(Lines(shipped()).answer(json.dumps({**shared, "request": request}).encode()))
        assert {**one, "id": None} == {**line, "provider": one["provider"]}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"facts": {"platform": "cudda"}}, "facts.platform"),
        ({"config": {"default": "X"}}, "config.default"),
        ({"requests": {}}, "requests"),
        ({"request": {}}, None),
        ({"reqests": []}, "reqests"),
    ],
)
def test_what_a_batch_shares_is_refused_once(client: TestClient, change: dict[str, Any], path: str | None) -> None:
    """With its place."""
    found = client.post("/v1/decide", json={"facts": CPU, "requests": [LAYER, LAYER], **change})

    assert found.status_code == 422
    assert found.headers["content-type"] == "application/problem+json"
    if path is not None:
        assert [one["path"] for one in found.json()["problems"]] == [path]


def test_a_batch_has_a_bound(client: TestClient) -> None:
    """10,000 are answered; one more is refused."""
    body = {"facts": CPU, "requests": [None] * MOST_REQUESTS}
    assert len(client.post("/v1/decide", json=body).json()["decisions"]) == MOST_REQUESTS

    found = client.post("/v1/decide", json={**body, "requests": [None] * (MOST_REQUESTS + 1)})

    assert found.status_code == 422
    assert found.json()["detail"] == "wanted at most 10000 requests, got 10001"


def test_without_facts_the_machine_of_the_service_is_asked(client: TestClient) -> None:
    """As by the command."""
    wanted = json.loads(Lines(shipped()).answer(json.dumps({"request": LAYER}).encode()))

    assert client.post("/v1/decide", json={"request": LAYER}).json()["rule"] == wanted["rule"]


def test_decisions_are_counted(client: TestClient) -> None:
    """By backend, source and error; requests by endpoint and status, whatever was asked for."""
    client.post("/v1/decide", json={"facts": CPU, "requests": [None, None, {"head_dim": 0}]})
    client.post("/v1/decide", json={"facts": CPU, "backend": "SAGE_ATTN"})
    client.get("/nowhere/at/all")

    told = client.get("/metrics").text

    for line in (
        'attention_selector_decisions_total{backend="TORCH_SDPA",error="none",source="platform"} 2.0',
        'attention_selector_decisions_total{backend="none",error="invalid",source="none"} 1.0',
        'attention_selector_decisions_total{backend="none",error="refused",source="default"} 1.0',
        'attention_selector_requests_total{method="POST",path="/v1/decide",status="200"} 2.0',
        'attention_selector_requests_total{method="other",path="other",status="404"} 1.0',
    ):
        assert line in told


@pytest.mark.parametrize("name", ["log.jsonl", "log.sqlite"])
def test_a_log_has_each_decision(serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """One line for each that could be made, which can be replayed."""
    client = serve(log=str(tmp_path / name))

    client.post("/v1/decide", json={"facts": CPU, "requests": [None, {"head_dim": 0}, None]})
    client.post("/v1/decide", json={"facts": CPU})
    client.__exit__(None, None, None)

    assert main(["log", str(tmp_path / name), "--format", "jsonl"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [json.loads(line)["decision"]["backend"] for line in lines] == ["TORCH_SDPA"] * 3


def test_what_the_log_cannot_take_is_counted(serve: Serve, tmp_path: Path) -> None:
    """And answered all the same."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    (tmp_path / "log").symlink_to("/dev/full")
    client = serve(log=str(tmp_path / "log"))

    for _ in range(3):
        assert client.post("/v1/decide", json={"facts": CPU}).status_code == 200

    for _ in range(100):
        told = client.get("/metrics").text
        if "attention_selector_log_dropped_total 3.0" in told:
            break
        time.sleep(0.05)
    assert "attention_selector_log_dropped_total 3.0" in told
    assert "attention_selector_log_queued 0.0" in told
