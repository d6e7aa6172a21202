"""The page's files and what it asks for, without a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from starlette.testclient import TestClient

from selector import data
from selector.service.app import make_app
from selector.service.settings import Settings

FOLDER = Path(__file__).parents[2] / "selector" / "service" / "page"
MEDIA = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    """Give the client of a service with the shipped rules."""
    with TestClient(make_app(Settings(watch=False)), "http://localhost") as found:
        yield found


@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir() if path.suffix in MEDIA))
def test_each_file_is_served_with_its_type_and_a_strict_policy(client: TestClient, name: str) -> None:
    """As it is on the disk."""
    found = client.get(f"/page/{name}")

    assert (found.status_code, found.content) == (200, (FOLDER / name).read_bytes())
    assert found.headers["content-type"].startswith(MEDIA[Path(name).suffix])
    policy = found.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'" in policy
    assert "unsafe" not in policy


def test_the_page_is_served_at_the_root(client: TestClient) -> None:
    """Without a script or a style in it, and without an address of anybody else."""
    found = client.get("/")

    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert found.text == (FOLDER / "index.html").read_text(encoding="utf-8")
    assert re.findall(r"<style|\sstyle=|\son\w+=|<script(?![^>]*src=)", found.text) == []
    assert re.findall(r"(?:https?:)?//\w", found.text) == []


@pytest.mark.parametrize("name", ["index.html", "app.jss", "..%2fpages.py", "%2e%2e"])
def test_no_other_file_is_served(client: TestClient, name: str) -> None:
    """Whatever its name."""
    assert client.get(f"/page/{name}").status_code == 404


def test_a_file_that_is_not_there_is_answered_with_the_nearest(client: TestClient) -> None:
    """As a problem."""
    assert client.get("/page/stile.css").json()["detail"] == "no file of that name; did you mean `style.css`?"


def test_no_data_becomes_markup() -> None:
    """The page makes elements, and never reads a text as one."""
    for path in FOLDER.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function", text) == []


def test_the_machines_are_those_that_ship_with_the_rules(client: TestClient) -> None:
    """Each with the facts that its file says."""
    told = client.get("/v1/machines").json()["machines"]

    files = sorted((data.folder("rules") / "machines").glob("*.yaml"))
    assert told == [{"name": path.stem, "facts": yaml.safe_load(path.read_text(encoding="utf-8"))} for path in files]


def test_texts_that_are_valid_are_given_as_data(client: TestClient) -> None:
    """Facts and config; not those that are wrong."""
    body = {"facts": "platform: cpu\npackages: {}\n", "config": "default: TORCH_SDPA\n"}
    assert client.post("/v1/validate", json=body).json()["parsed"] == {
        "facts": {"platform": "cpu", "packages": {}}, "config": {"default": "TORCH_SDPA"},
    }  # fmt: skip

    told = client.post("/v1/validate", json={**body, "facts": "platform: cudda\n"}).json()

    assert (told["valid"], told["parsed"]) == (False, {"config": {"default": "TORCH_SDPA"}})
