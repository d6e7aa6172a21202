"""The OpenAPI document as a page to read: every endpoint, with a question and its answer. Needs no script."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

Json = Mapping[str, Any]
_HEAD = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>attention-selector: endpoints</title>
<link rel="icon" href="/page/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/page/docs.css">
</head>
<body>
<main>
"""


@functools.lru_cache(maxsize=1)
def page() -> str:
    """Write the page."""
    from selector.service.openapi import document

    return written(document())


def written(document: Json) -> str:
    """Write an OpenAPI document as HTML; everything in it is text, and escaped."""
    return _HEAD + "\n".join(_lines(document)) + "\n</main>\n</body>\n</html>\n"


def _lines(document: Json) -> Iterator[str]:
    info, paths = document["info"], document["paths"]
    yield f"<h1>{escape(info['title'])} {escape(info['version'])}</h1>"
    yield f"<p>{escape(info['summary'])} <a href='/openapi.json'>openapi.json</a>, <a href='/'>the page</a></p>"
    operations = [(path, method, told) for path, methods in paths.items() for method, told in methods.items()]
    yield "<nav aria-label='Endpoints'><ul>"
    for path, method, told in operations:
        link = f"<a href='#{_anchor(method, path)}'><code>{_name(method, path)}</code></a>"
        yield f"<li>{link} {escape(told['summary'])}</li>"
    yield "</ul></nav>"
    for path, method, told in operations:
        yield from _operation(path, method, told)


def _operation(path: str, method: str, told: Json) -> Iterator[str]:
    anchor = _anchor(method, path)
    yield f"<section aria-labelledby='{anchor}'>"
    yield f"<h2 id='{anchor}'><code>{_name(method, path)}</code></h2>"
    yield f"<p>{escape(told['summary'])}</p>"
    answers = _examples(told["responses"].get("200", {}))
    for name, example in _examples(told.get("requestBody", {})).items():
        title = escape(example.get("summary", "For example"))
        yield f"<h3>{title}</h3>"
        yield _block("asked", example["value"])
        if name in answers:
            yield _block("answered", answers[name]["value"])
    yield "<table><caption>Answers</caption>"
    yield "<thead><tr><th scope='col'>status</th><th scope='col'>says</th></tr></thead><tbody>"
    for status, answer in told["responses"].items():
        yield f"<tr><th scope='row'>{escape(status)}</th><td>{escape(answer['description'])}</td></tr>"
    yield "</tbody></table>"
    yield "</section>"


def _examples(body: Json) -> dict[str, Json]:
    content = body.get("content", {}).get("application/json", {})
    found: dict[str, Json] = content.get("examples", {})
    return found


def _block(word: str, value: object) -> str:
    text = escape(json.dumps(value, indent=2, ensure_ascii=False))
    return f"<details><summary>{word}</summary><pre tabindex='0'>{text}</pre></details>"


def _name(method: str, path: str) -> str:
    return escape(f"{method.upper()} {path}")


def _anchor(method: str, path: str) -> str:
    letters = [letter if letter.isalnum() else "-" for letter in f"{method}{path}"]
    return "".join(letters).rstrip("-")
