"""Newer rules for a service: swapped whole, refused whole, and by whom."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.conftest import FA2, cuda
from tests.selector.service.conftest import Serve

EDIT = """\
table: platform_default
edits:
- {id: ours, before: hopper-flash-attn, when: {arch: sm_90}, use: CUDNN_ATTN, because: Measured.}
"""
BODY = {"facts": cuda("sm_90", FA2), "request": {"head_dim": 128}}
SECRET = "secret"  # noqa: S105 - of these tests
TOKEN = {"authorization": f"Bearer {SECRET}"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder of rules that change a table."""
    (tmp_path / "ours.yaml").write_text(EDIT, encoding="utf-8")
    return tmp_path


def test_newer_rules_serve_after_a_reload(serve: Serve, folder: Path) -> None:
    """From the next decision on."""
    client = serve(folders=(str(folder),), token=SECRET)
    assert client.post("/v1/decide", json=BODY).json()["backend"] == "CUDNN_ATTN"
    (folder / "ours.yaml").write_text(EDIT.replace("CUDNN_ATTN", "TORCH_SDPA"), encoding="utf-8")
    assert client.post("/v1/decide", json=BODY).json()["backend"] == "CUDNN_ATTN"

    found = client.post("/v1/rules/reload", headers=TOKEN)

    assert (found.status_code, found.json()["outcome"]) == (200, "swapped")
    told = client.post("/v1/decide", json=BODY).json()
    assert (told["backend"], told["digest"]) == ("TORCH_SDPA", load_rules([folder]).digest)
    assert client.post("/v1/rules/reload", headers=TOKEN).json()["outcome"] == "unchanged"


def test_old_rules_do_not_stay_in_memory(serve: Serve, folder: Path) -> None:
    """However many there were; they hold each other, so that somebody must look for them."""

    def count() -> int:
        return sum(type(one) is RuleSet for one in gc.get_objects())

    client = serve(folders=(str(folder),), token=SECRET)
    gc.collect()
    before = count()
    for at in range(8):
        name = "TORCH_SDPA" if at % 2 == 0 else "CUDNN_ATTN"
        (folder / "ours.yaml").write_text(EDIT.replace("CUDNN_ATTN", name), encoding="utf-8")
        assert client.post("/v1/rules/reload", headers=TOKEN).json()["outcome"] == "swapped"
        client.post("/v1/decide", json=BODY)

    assert count() <= before + 2


def test_broken_rules_are_refused_and_the_last_good_ones_serve_on(serve: Serve, folder: Path) -> None:
    """Every answer says so until they are mended."""
    client = serve(folders=(str(folder),), token=SECRET)
    digest = load_rules([folder]).digest
    (folder / "ours.yaml").write_text(EDIT.replace("arch", "arhc"), encoding="utf-8")

    found = client.post("/v1/rules/reload", headers=TOKEN)

    assert (found.status_code, found.json()["outcome"], found.json()["digest"]) == (409, "refused", digest)
    assert [one["hint"] for one in found.json()["problems"]] == ["did you mean `arch`?"]
    told = client.post("/v1/decide", json=BODY).json()
    assert (told["backend"], told["digest"]) == ("CUDNN_ATTN", digest)
    assert "arhc" in told["outdated"]["problem"]
    many = client.post("/v1/decide", json={"facts": BODY["facts"], "requests": [BODY["request"]]}).json()
    assert many["outdated"] == told["outdated"]
    assert client.get("/readyz").json()["outdated"] == told["outdated"]
    assert "attention_selector_rules_outdated 1.0" in client.get("/metrics").text
    (folder / "ours.yaml").write_text(EDIT, encoding="utf-8")
    assert client.post("/v1/rules/reload", headers=TOKEN).json()["outcome"] == "unchanged"
    assert client.post("/v1/decide", json=BODY).json()["outdated"] is None
    assert "attention_selector_rules_outdated 0.0" in client.get("/metrics").text


@pytest.mark.parametrize(
    "headers",
    [
        {}, {"authorization": "secret"}, {"authorization": "Bearer"}, {"authorization": "Bearer secre"},
        {"authorization": "Bearer secret2"}, {"authorization": "Basic secret"}, {"authorization": "Bearer sécret"},
    ],
)  # fmt: skip
def test_a_reload_needs_the_token(serve: Serve, folder: Path, headers: dict[str, str]) -> None:
    """Whole and exact; the rules stay as they are."""
    client = serve(folders=(str(folder),), token=SECRET)
    (folder / "ours.yaml").unlink()

    found = client.post("/v1/rules/reload", headers={name: value.encode() for name, value in headers.items()})  # type: ignore[arg-type]

    assert (found.status_code, found.headers["www-authenticate"]) == (401, "Bearer")
    assert client.post("/v1/decide", json=BODY).json()["backend"] == "CUDNN_ATTN"


@pytest.mark.parametrize("token", [None, ""])
def test_without_a_token_nothing_is_changed_over_http(serve: Serve, token: str | None) -> None:
    """The endpoint is closed, to an empty token too."""
    client = serve(token=token)

    for headers in ({}, {"authorization": "Bearer "}, TOKEN):
        found = client.post("/v1/rules/reload", headers=headers)
        assert (found.status_code, found.json()["code"]) == (403, "closed")


def test_rules_that_do_not_load_at_the_start_are_an_error(serve: Serve, folder: Path) -> None:
    """A service does not begin with other rules than it was given."""
    (folder / "ours.yaml").write_text("table: nothing\nrows: []\n", encoding="utf-8")

    with pytest.raises(ValueError, match="nothing"):
        serve(folders=(str(folder),))


def test_the_shipped_rules_serve_without_a_folder(serve: Serve) -> None:
    """And a reload finds nothing newer."""
    client = serve(token=SECRET)

    assert client.post("/v1/rules/reload", headers=TOKEN).json() == {
        "outcome": "unchanged", "digest": shipped().digest, "problems": [], "notices": [],
    }  # fmt: skip


def test_the_token_is_told_nowhere(serve: Serve) -> None:
    """Not where settings are written, and not to a worker by its arguments."""
    from selector.service.settings import Settings

    settings = Settings(token=SECRET, folders=("a",))

    assert "secret" not in repr(settings)
    assert "secret" not in settings.to_json()
    assert Settings.from_json(settings.to_json(), "secret") == settings
    assert "secret" not in serve(token=SECRET).get("/metrics").text
