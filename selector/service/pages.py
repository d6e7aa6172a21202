"""The page for people, whose files stand beside this module, and the machines that it offers."""

from __future__ import annotations

import functools
from pathlib import Path

from starlette.requests import Request  # noqa: TC002 - FastAPI reads the annotation
from starlette.responses import Response

from selector import data
from selector.rules.problems import nearest
from selector.rules.text import read_file
from selector.service.problems import ServiceError

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""What the page may load: its own files, and the answers of the service."""
_FOLDER = Path(__file__).parent / "page"
_HOME = "index.html"
_MEDIA = {".css": "text/css", ".html": "text/html", ".js": "text/javascript", ".svg": "image/svg+xml"}


def home() -> Response:
    """Give the page."""
    return _answer(_HOME)


def file(request: Request) -> Response:
    """Give a file of the page. Raises `ServiceError` for a name of none."""
    name = request.path_params["name"]
    known = _names()
    if name not in known:
        hint = nearest(name, known)
        raise ServiceError(404, "unknown-file", f"no file of that name{f'; {hint}' if hint else ''}")
    return _answer(name)


@functools.lru_cache(maxsize=1)
def machines() -> list[dict[str, object]]:
    """Give each machine that ships with the rules: its name, and its facts as they are written."""
    files = sorted((data.folder("rules") / "machines").glob("*.yaml"))
    return [{"name": path.stem, "facts": read_file(path).plain()} for path in files]


@functools.lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.name for path in _FOLDER.iterdir() if path.suffix in _MEDIA and path.name != _HOME))


@functools.lru_cache(maxsize=64)
def _content(name: str) -> bytes:
    return (_FOLDER / name).read_bytes()


def _answer(name: str) -> Response:
    headers = {"content-security-policy": POLICY}
    return Response(_content(name), headers=headers, media_type=_MEDIA[Path(name).suffix])
