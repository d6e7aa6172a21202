"""What is answered where no endpoint answers: a problem for every refusal and failure (RFC 9457)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from selector.service.problems import ServiceError, problem

if TYPE_CHECKING:
    from fastapi import FastAPI
    from starlette.responses import Response


def route(app: FastAPI) -> None:
    """Answer every error of the application with a problem."""
    app.add_exception_handler(ServiceError, _refused)
    app.add_exception_handler(HTTPException, _unknown)
    app.add_exception_handler(RequestValidationError, _unknown)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _failed)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, ServiceError)  # noqa: S101 - what it is registered for
    return error.response()


async def _unknown(request: Request, error: Exception) -> Response:
    status = error.status_code if isinstance(error, HTTPException) else 422
    details: Mapping[int, tuple[str, str]] = {
        404: ("not-found", "no endpoint of that name; /openapi.json lists them"),
        405: ("method", f"`{request.method}` is not what this endpoint answers"),
    }
    code, detail = details.get(status, ("refused", "the request is not one that is answered here"))
    headers: Any = getattr(error, "headers", None)
    return problem(status, code, detail, headers=headers)


async def _gone(_: Request, __: Exception) -> Response:
    return problem(400, "disconnected", "the caller went away before its body was whole")


async def _failed(_: Request, __: Exception) -> Response:
    return problem(500, "failed", "the service failed; its log on standard error says how")
