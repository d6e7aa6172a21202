"""The page of endpoints says what the OpenAPI document says, and nothing in it is taken for markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

from selector.service import openapi
from selector.service.describing import written

if TYPE_CHECKING:
    from starlette.testclient import TestClient

_VOID = {"meta", "link"}


class Outline(HTMLParser):
    """Reads a page; `open` are the elements that are not closed, which at the end are none."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of it."""
        self.seen.add(tag)
        given = dict(attrs)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name in ("href", "src") if (value := given.get(name))]
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        """It closes the one that was opened last."""
        assert self.open.pop() == tag


def read(text: str) -> Outline:
    """Read a page."""
    outline = Outline()
    outline.feed(text)
    outline.close()
    assert outline.open == []
    return outline


def test_every_endpoint_has_a_section(client: TestClient) -> None:
    """To which the list at the top leads; nothing comes from elsewhere, and nothing is a script."""
    found = client.get("/docs")
    outline = read(found.text)
    endpoints = [(path, method) for path, methods in openapi.document()["paths"].items() for method in methods]

    assert found.headers["content-type"] == "text/html; charset=utf-8"
    assert "script" not in found.headers["content-security-policy"]
    assert len(outline.ids) == len(set(outline.ids)) == len(endpoints)
    assert {link[1:] for link in outline.links if link.startswith("#")} == set(outline.ids)
    assert {link for link in outline.links if not link.startswith("#")} == {
        "/", "/openapi.json", "/page/docs.css", "/page/icon.svg",
    }  # fmt: skip
    assert "script" not in outline.seen
    for path, method in endpoints:
        assert f"<code>{method.upper()} {path}</code>" in found.text


def test_examples_stand_with_their_answers(client: TestClient) -> None:
    """As many as the document has."""
    text = client.get("/docs").text

    assert (
        len(re.findall("<summary>asked</summary>", text)) == len(re.findall("<summary>answered</summary>", text)) == 5
    )
    assert "hopper-flash-attn" in text


def test_what_is_written_is_no_markup() -> None:
    """Whatever the document holds."""
    evil = "<script>alert('x')</script>"
    operation = {
        "summary": evil,
        "requestBody": {"content": {"application/json": {"examples": {"a": {"summary": evil, "value": {evil: evil}}}}}},
        "responses": {"200": {"description": evil}, evil: {"description": evil}},
    }
    document = {"info": {"title": evil, "version": evil, "summary": evil}, "paths": {f"/{evil}": {"get": operation}}}

    text = written(document)

    assert "<script" not in text
    assert "script" not in read(text).seen


def test_its_style_is_there(client: TestClient) -> None:
    """As a file of the service."""
    found = client.get("/page/docs.css")

    assert (found.status_code, found.headers["content-type"]) == (200, "text/css; charset=utf-8")
