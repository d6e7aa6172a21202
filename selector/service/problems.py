"""What is wrong with a request, as `application/problem+json` (RFC 9457), with the problems of the command line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from starlette.responses import Response

from selector.json_lines import writer
from selector.rules.problems import Problem, ProblemsError

MEDIA_TYPE = "application/problem+json"
_MOST_TOLD = 100
_written = writer()


@dataclass
class ServiceError(Exception):
    """A request that is not answered as it was meant to be: the status, a stable code, and one sentence."""

    status: int
    code: str
    detail: str
    problems: tuple[Problem, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    def response(self) -> Response:
        """Give the answer that tells it."""
        return problem(self.status, self.code, self.detail, self.problems, self.headers)


def problem(
    status: int,
    code: str,
    detail: str,
    problems: Iterable[Problem] = (),
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Give an answer that says what is wrong; `problems` are told each with its place."""
    body = problem_body(status, code, detail, tuple(problems))
    return Response(_written(body), status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def problem_body(status: int, code: str, detail: str, problems: tuple[Problem, ...] = ()) -> dict[str, object]:
    """Give the object of RFC 9457; past a hundred problems the rest is counted."""
    return {
        "type": f"urn:attention-selector:{code}",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "code": code,
        "problems": [told(one) for one in problems[:_MOST_TOLD]],
        "more_problems": max(0, len(problems) - _MOST_TOLD),
    }


def told(one: Problem) -> dict[str, object]:
    """Give a problem as plain data: where it is, its code, its sentence, and the hint."""
    place = one.place
    return {
        "file": place.file,
        "line": place.line or None,
        "column": place.column or None,
        "path": place.path or None,
        "code": one.code,
        "message": one.message,
        "hint": one.hint,
    }


def invalid(error: ProblemsError) -> ServiceError:
    """Say that what was given is not valid, with every problem of it."""
    first = error.problems[0]
    more = len(error.problems) - 1
    rest = f" (and {more} more problems)" if more else ""
    return ServiceError(422, "invalid", f"{first.message}{rest}", error.problems)
