"""Bodies of requests: read within bounds of size, time and depth, and as strictly as any other text."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from selector.json_lines import strict_value, text_of
from selector.rules.nodes import Bounds, TextError
from selector.rules.problems import Place, Problem, shown
from selector.service.problems import ServiceError

if TYPE_CHECKING:
    from starlette.requests import Request

    from selector.service.settings import Settings

_MOST_VALUES = 1_000_000
_JSON = ("application/json", "text/json")


async def read(request: Request, settings: Settings) -> dict[str, object]:
    """Read a body that is a JSON object. Raises `ServiceError` with what is wrong, and where."""
    media = request.headers.get("content-type", "application/json").partition(";")[0].strip().lower()
    if media not in _JSON and not media.endswith("+json"):
        raise ServiceError(415, "media-type", f"wanted application/json, got `{shown(media)}`")
    return parsed(await _bytes(request, settings), settings.most_body)


async def _bytes(request: Request, settings: Settings) -> bytes:
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length[:20]) > settings.most_body:
        raise _too_large(settings.most_body)
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.most_seconds):
            async for part in request.stream():
                size += len(part)
                if size > settings.most_body:
                    raise _too_large(settings.most_body)
                parts.append(part)
    except TimeoutError:
        message = f"wanted the whole body within {settings.most_seconds:g} seconds"
        raise ServiceError(408, "too-slow", message, headers={"connection": "close"}) from None
    return b"".join(parts)


def _too_large(most: int) -> ServiceError:
    message = f"wanted a body of at most {most} bytes, got more"
    return ServiceError(413, "too-large", message, headers={"connection": "close"})


def parsed(raw: bytes, most: int) -> dict[str, object]:
    """Parse a body. Raises `ServiceError` with the place of what is wrong."""
    try:
        value = strict_value(text_of(raw), "body", Bounds(most, _MOST_VALUES))
    except UnicodeDecodeError as error:
        message = f"wanted UTF-8, got byte 0x{raw[error.start]:02x}"
        raise ServiceError(400, "not-utf-8", message, (Problem(Place("body"), "not-utf-8", message),)) from None
    except TextError as error:
        found = error.problems[0]
        raise ServiceError(400, found.code, f"{found.message} at {_at(found.place)}", error.problems) from None
    if not isinstance(value, dict):
        message = "wanted a JSON object"
        raise ServiceError(422, "invalid", message, (Problem(Place("body"), "wrong-type", message),))
    return value


def _at(place: Place) -> str:
    return f"line {place.line}, column {place.column}"
