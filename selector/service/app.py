"""The application: endpoints, what wraps them, and what starts and ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import hmac
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request  # noqa: TC002 - FastAPI reads it from the signatures
from starlette.responses import Response

from selector import __version__, data
from selector.alike import Decided
from selector.json_lines import writer
from selector.merged import as_yaml
from selector.rules.problems import nearest
from selector.service import answers, bodies, describing, failures, openapi, pages
from selector.service.limits import Limits
from selector.service.metrics import Metrics
from selector.service.problems import ServiceError, told
from selector.service.served import Now, Served
from selector.service.settings import Settings

if TYPE_CHECKING:
    from selector.queued_log import QueuedLog
    from selector.reloading import Reload

SETTINGS_VARIABLE = "ATTENTION_SELECTOR_SERVE"
TOKEN_VARIABLE = "ATTENTION_SELECTOR_TOKEN"  # noqa: S105 - the name of a variable
_MOST_QUEUED = 15_000
"""How many decisions may wait to be written: what takes less than a second, also where it is an SQLite file."""
_MOST_AT_WORK = 2
"""How many explanations and comparisons are made at a time: each keeps a processor busy."""
_COLLECTED = (25_000, 10, 10)
"""When garbage is looked for: a batch makes ten thousands of objects that live as long as it does."""
_written = writer()


def from_environment() -> FastAPI:
    """Make the application of a worker process, which is its own."""
    gc.set_threshold(*_COLLECTED)
    return make_app(Settings.from_json(os.environ[SETTINGS_VARIABLE], os.environ.get(TOKEN_VARIABLE)))


def make_app(settings: Settings) -> FastAPI:
    """Make the application. Raises `TableError` when the rules do not load."""
    metrics = Metrics()
    served = Served(settings.folders, metrics.reloaded)
    service = _Service(settings, metrics, served)

    @contextlib.asynccontextmanager
    async def running(_: FastAPI) -> AsyncIterator[None]:
        service.begin()
        try:
            yield
        finally:
            await run_in_threadpool(service.end)

    app = FastAPI(
        title="attention-selector",
        version=__version__,
        summary="Which attention kernel should run here, and why.",
        lifespan=running,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,
    )
    service.route(app)
    app.add_middleware(Limits, settings=settings, metrics=metrics)
    app.state.service = service
    return app


class _Service:
    """The endpoints, over what is served."""

    def __init__(self, settings: Settings, metrics: Metrics, served: Served) -> None:
        self.settings, self.metrics, self.served = settings, metrics, served
        self.log: QueuedLog | None = None
        self.at_work = asyncio.Semaphore(_MOST_AT_WORK)

    def begin(self) -> None:
        """Open the log, and watch the rules."""
        if self.settings.log is not None:
            from selector.decision_logs import log_at
            from selector.queued_log import QueuedLog

            self.log = QueuedLog(log_at(self.settings.log), _MOST_QUEUED)
            self.metrics.watch_log(self.log)
        if self.settings.watch:
            self.served.watch()

    def end(self) -> None:
        """Write what is left of the log, and watch no more."""
        self.served.close()
        if self.log is not None:
            self.log.close()

    def route(self, app: FastAPI) -> None:
        """Add every endpoint, and what answers where none does."""
        for method, path, endpoint in (
            ("POST", "/v1/decide", self.decide),
            ("POST", "/v1/explain", self.explain),
            ("POST", "/v1/validate", self.validate),
            ("POST", "/v1/diff", self.diff),
            ("GET", "/v1/rules", self.rules),
            ("POST", "/v1/rules/reload", self.reload),
            ("GET", "/v1/rules/{table}", self.table),
            ("GET", "/v1/schemas", self.schemas),
            ("GET", "/v1/schemas/{name}", self.schema),
            ("GET", "/v1/backends", self.backends),
            ("GET", "/v1/machines", self.machines),
            ("GET", "/healthz", self.healthy),
            ("GET", "/readyz", self.ready),
            ("GET", "/metrics", self.measured),
            ("GET", "/openapi.json", self.described),
            ("GET", "/docs", self.documented),
            ("GET", "/", pages.home),
            ("GET", "/page/{name}", pages.file),
        ):
            app.add_api_route(path, endpoint, methods=[method], include_in_schema=False)
        failures.route(app)

    # --- decisions ---

    async def decide(self, request: Request) -> Response:
        """Answer one line, or up to 10,000 requests that share the rest."""
        given = await bodies.read(request, self.settings)
        now = self.served.now()
        if "requests" in given:
            return await run_in_threadpool(self._all_decided, given, now)
        decision = answers.decided(given, now)
        self._heard([Decided(decision)])
        answer = {"id": given.get("id"), **decision.answer(), "provider": decision.provider}
        return _json({**answer, "digest": now.rules.digest, "outdated": answers.outdated(now.outdated)})

    def _all_decided(self, given: Mapping[str, object], now: Now) -> Response:
        decided = list(answers.all_decided(given, now))
        self._heard(decided)
        texts: dict[int, str] = {}
        told = []
        for one, *_ in decided:
            text = texts.get(id(one))
            if text is None:
                text = texts[id(one)] = _written({**one.answer(), "provider": one.provider})
            told.append(text)
        head = _written({"digest": now.rules.digest, "outdated": answers.outdated(now.outdated)}).removesuffix("}")
        body = f'{head}, "decisions": [{", ".join(told)}]}}'
        return Response(body, media_type="application/json")

    def _heard(self, decided: Sequence[Decided]) -> None:
        self.metrics.decided(one.first for one in decided)
        if self.log is not None:
            self.log.write_all(decided)

    async def explain(self, request: Request) -> Response:
        """Explain one line."""
        return await self._worked_out(request, answers.explained)

    async def validate(self, request: Request) -> Response:
        """Check a config, facts or rules."""
        return await self._worked_out(request, answers.validated)

    async def diff(self, request: Request) -> Response:
        """Compare proposed rules with those that are served."""
        return await self._worked_out(request, answers.compared)

    async def _worked_out(
        self, request: Request, work: Callable[[Mapping[str, object], Now], dict[str, object]]
    ) -> Response:
        given = await bodies.read(request, self.settings)
        async with self.at_work:
            return _json(await run_in_threadpool(work, given, self.served.now()))

    # --- rules ---

    async def rules(self, request: Request) -> Response:
        """Give the whole rule set, as JSON or (`Accept: application/yaml`) as YAML with the place of every entry."""
        rules = self.served.now().rules
        if _is_known(request, rules.digest):
            return Response(status_code=304, headers=_tagged(rules.digest))
        if "yaml" in request.headers.get("accept", ""):
            text = await run_in_threadpool(as_yaml, rules)
            return Response(text, headers=_tagged(rules.digest), media_type="application/yaml")
        return _json(await run_in_threadpool(answers.rule_set, rules), _tagged(rules.digest))

    async def table(self, request: Request) -> Response:
        """Give one table, or one of the files beside them."""
        rules = self.served.now().rules
        found = answers.one_of_rules(rules, request.path_params["table"])
        if _is_known(request, rules.digest):
            return Response(status_code=304, headers=_tagged(rules.digest))
        return _json(found, _tagged(rules.digest))

    async def reload(self, request: Request) -> Response:
        """Read the rules again, for who has the token."""
        self._admitted(request)
        result = await run_in_threadpool(self.served.reload)
        return _reloaded(result)

    def _admitted(self, request: Request) -> None:
        token = self.settings.token
        if not token:
            detail = f"this is closed: the service was started without {TOKEN_VARIABLE}"
            raise ServiceError(403, "closed", detail)
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not hmac.compare_digest(given.strip().encode(), token.encode()):
            headers = {"www-authenticate": "Bearer"}
            raise ServiceError(401, "unauthorized", "wanted the bearer token of the service", headers=headers)

    async def backends(self) -> Response:
        """Give every backend."""
        rules = self.served.now().rules
        return _json({"digest": rules.digest, "backends": answers.backends(rules)})

    async def machines(self) -> Response:
        """Give the machines that ship with the rules."""
        return _json({"machines": await run_in_threadpool(pages.machines)})

    async def schemas(self) -> Response:
        """Name every schema."""
        return _json({"schemas": _schema_names()})

    async def schema(self, request: Request) -> Response:
        """Give one schema."""
        name = request.path_params["name"].removesuffix(".schema.json")
        known = _schema_names()
        if name not in known:
            hint = nearest(name, known)
            raise ServiceError(404, "unknown-schema", f"no schema of that name{f'; {hint}' if hint else ''}")
        text = await run_in_threadpool((data.folder("schemas") / f"{name}.schema.json").read_bytes)
        return Response(text, media_type="application/schema+json")

    # --- the service itself ---

    async def healthy(self) -> Response:
        """Say that the process answers."""
        return _json({"status": "ok"})

    async def ready(self) -> Response:
        """Say which rules serve; they serve on where newer ones are broken, which is told."""
        now = self.served.now()
        return _json({"status": "ready", "digest": now.rules.digest, "outdated": answers.outdated(now.outdated)})

    async def measured(self) -> Response:
        """Give the metrics."""
        text = await run_in_threadpool(self.metrics.text)
        return Response(text, media_type="text/plain; version=0.0.4")

    async def described(self) -> Response:
        """Give the OpenAPI document."""
        return _json(await run_in_threadpool(openapi.document))

    async def documented(self) -> Response:
        """Give the same as a page to read."""
        policy = "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; frame-ancestors 'none'"
        text = await run_in_threadpool(describing.page)
        return Response(text, headers={"content-security-policy": policy}, media_type="text/html")


# --- answers ------------------------------------------------------------------------------------------------------


def _json(value: object, headers: Mapping[str, str] | None = None) -> Response:
    return Response(_written(value), headers=dict(headers or {}), media_type="application/json")


def _tagged(digest: str) -> dict[str, str]:
    return {"etag": f'"{digest}"', "cache-control": "no-cache", "vary": "accept"}


def _is_known(request: Request, digest: str) -> bool:
    """Whether the caller has this very content (RFC 9110, weakly compared)."""
    given = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
    return f'"{digest}"' in given or given == ["*"]


def _reloaded(result: Reload) -> Response:
    body = {
        "outcome": result.outcome,
        "digest": result.digest,
        "problems": [told(one) for one in result.problems],
        "notices": [told(one) for one in result.notices],
    }
    return Response(json.dumps(body), 409 if result.outcome == "refused" else 200, media_type="application/json")


def _schema_names() -> list[str]:
    return sorted(path.name.removesuffix(".schema.json") for path in data.folder("schemas").glob("*.schema.json"))
