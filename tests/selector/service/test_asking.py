"""Explaining, checking and comparing over HTTP."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selector import Selector
from selector.ruleset import load_rules, shipped
from tests.browser.serving import EDIT
from tests.selector.conftest import CPU, FA2, cuda
from tests.selector.service.conftest import Serve

if TYPE_CHECKING:
    from starlette.testclient import TestClient

LAYER = {"role": "self", "head_dim": 128, "mask_free": True}


def test_an_explanation_is_that_of_the_decision(client: TestClient) -> None:
    """With the trace, what remains possible, and where the rules are."""
    decision = Selector(facts=cuda("sm_90", FA2), environment={}).decide(**LAYER)  # type: ignore[arg-type]

    told = client.post("/v1/explain", json={"facts": cuda("sm_90", FA2), "request": LAYER}).json()

    assert told["trace"] == json.loads(json.dumps(decision.explain().to_dict()))
    assert {name: told[name] for name in decision.answer()} == json.loads(json.dumps(decision.answer()))
    assert told["outdated"] is None
    assert told["remaining"]["fact"] == "dtype"
    assert "why_not" not in told
    assert "what_if" not in told


def test_why_not_and_what_if_are_answered_where_they_are_asked(client: TestClient) -> None:
    """Of the config that was given, too."""
    body = {"facts": cuda("sm_90", FA2), "request": LAYER, "config": {"default": "TORCH_SDPA"}}

    told = client.post("/v1/explain", json={**body, "why_not": "flash_attn", "what_if": {"arch": "sm_100"}}).json()

    assert told["why_not"]["backend"] == "FLASH_ATTN"
    assert told["why_not"]["chosen"] is False
    assert told["why_not"]["decision"]["backend"] == "TORCH_SDPA"
    assert told["what_if"]["changed"] == {"arch": "sm_100"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"why_not": "FLASH_ATN"}, "no backend `FLASH_ATN`"),
        ({"why_not": 1}, "wanted a backend name"),
        ({"what_if": {"archh": 1}}, "archh"),
        ({"what_if": []}, "wanted a mapping of facts"),
        ({"facts": {"platfrm": 1}}, "no key `platfrm` here"),
        ({"whynot": "X"}, "no key `whynot` here"),
        ({"why_not": "CUDNN_ATTN", "any": 1}, "wanted true or false"),
    ],
)
def test_what_cannot_be_explained_is_refused(client: TestClient, more: dict[str, object], said: str) -> None:
    """With what was wrong."""
    found = client.post("/v1/explain", json={"facts": CPU, "request": LAYER, **more})

    assert found.status_code == 422
    assert said in found.json()["detail"]


def test_texts_are_checked_with_the_place_of_each_problem(client: TestClient) -> None:
    """Of all texts at once; the config by the rules that are proposed."""
    told = client.post(
        "/v1/validate",
        json={"rules": EDIT.replace("arch:", "arc:"), "config": "default: TORCH_SDP\n", "facts": "platform: cudda\n"},
    ).json()

    assert told["valid"] is False
    assert [(one["file"], one["line"], one["column"], one["code"]) for one in told["problems"]] == [
        ("proposed.yaml", 5, 10, "unknown-fact"),
        ("facts", 1, 11, "bad-value"),
        ("config", 1, 10, "unknown-backend"),
    ]
    assert told["problems"][0]["hint"] == "did you mean `arch`?"


@pytest.mark.parametrize("name", ["rules", "config", "facts"])
@pytest.mark.parametrize("value", [{}, 1, ["x"], True])
def test_what_is_no_text_is_not_checked(client: TestClient, name: str, value: object) -> None:
    """The request is refused, and says where."""
    found = client.post("/v1/validate", json={name: value})

    assert found.status_code == 422
    assert [(one["file"], one["path"]) for one in found.json()["problems"]] == [("body", name)]
    assert client.post("/v1/validate", json={name: None}).status_code == 200


def test_what_is_well_is_said_to_be(client: TestClient) -> None:
    """With the digest that the rules would have."""
    assert client.post("/v1/validate", json={}).json() == {
        "valid": True, "problems": [], "digest": shipped().digest,
    }  # fmt: skip
    told = client.post("/v1/validate", json={"rules": EDIT, "config": "default: cudnn_attn\n"}).json()
    assert told["valid"] is True
    assert told["digest"] != shipped().digest


def test_proposed_rules_are_compared_with_those_that_serve(client: TestClient) -> None:
    """As `diff` does, in its words."""
    told = client.post("/v1/diff", json={"rules": {"ours.yaml": EDIT}}).json()

    assert told["changed"] is True
    assert told["old"] == shipped().digest
    assert "use FLASH_ATTN" in told["text"] or "FLASH_ATTN" in told["text"]
    assert client.post("/v1/diff", json={"rules": EDIT}).json()["new"] == told["new"]


@pytest.mark.parametrize("rules", [None, 1, {}, {"a.yaml": 1}, "table: [", "rows: []", EDIT.replace("before", "befor")])
def test_rules_that_do_not_load_are_refused(client: TestClient, rules: object) -> None:
    """Nothing of them is compared."""
    found = client.post("/v1/diff", json={"rules": rules})

    assert found.status_code == 422
    assert found.json()["code"] == "invalid"


def test_a_whole_rule_set_may_be_proposed(client: TestClient) -> None:
    """What `/v1/rules` gives changes nothing."""
    text = client.get("/v1/rules", headers={"accept": "application/yaml"}).text

    told = client.post("/v1/diff", json={"rules": text}).json()

    assert (told["changed"], told["new"]) == (False, shipped().digest)


@pytest.mark.parametrize(("accept", "suffix"), [("application/json", "json"), ("application/yaml", "yaml")])
def test_the_rules_that_are_given_load_to_the_same_digest(
    serve: Serve, tmp_path: Path, accept: str, suffix: str
) -> None:
    """In either form, overlays included."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "ours.yaml").write_text(EDIT, encoding="utf-8")
    client = serve(folders=(str(folder),))

    found = client.get("/v1/rules", headers={"accept": accept})

    copied = tmp_path / f"copy.{suffix}"
    copied.write_bytes(found.content)
    assert f'"{load_rules([copied]).digest}"' == found.headers["etag"]
    assert load_rules([copied]).digest == load_rules([folder]).digest


def test_a_caller_that_has_the_rules_gets_them_not_again(client: TestClient) -> None:
    """Whole, and each table."""
    for path in ("/v1/rules", "/v1/rules/call", "/v1/rules/vocabulary"):
        tag = client.get(path).headers["etag"]
        for known in (tag, f'"x", W/{tag}', "*"):
            found = client.get(path, headers={"if-none-match": known})
            assert (found.status_code, found.content, found.headers["etag"]) == (304, b"", tag)
        assert client.get(path, headers={"if-none-match": '"x"'}).status_code == 200


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/rules/platform_defalt", "did you mean `platform_default`?"),
        ("/v1/schemas/confg", "did you mean `config`?"),
        ("/v1/schemas/..%2f..%2fpyproject", "no endpoint of that name"),
        ("/v1/nothing", "no endpoint of that name"),
    ],
)
def test_a_name_that_is_not_there_is_answered_with_the_nearest(client: TestClient, path: str, said: str) -> None:
    """As a problem."""
    found = client.get(path)

    assert found.status_code == 404
    assert said in found.json()["detail"]


def test_schemas_and_backends_are_given(client: TestClient) -> None:
    """Each schema as it is shipped, and every backend."""
    for name in client.get("/v1/schemas").json()["schemas"]:
        assert client.get(f"/v1/schemas/{name}").json() == client.get(f"/v1/schemas/{name}.schema.json").json()
    told = client.get("/v1/backends").json()
    assert [one["name"] for one in told["backends"]] == list(shipped().backends)
