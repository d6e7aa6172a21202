"""What every request passes first: names, numbers and headers, each looked at cheaply, and counted at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from starlette.datastructures import MutableHeaders

from selector.rules.problems import shown
from selector.service.problems import problem

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from selector.service.metrics import Metrics
    from selector.service.settings import Settings

HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    "cache-control": "no-store",
}
"""On every answer that does not say otherwise itself."""
_UNCOUNTED = ("/healthz", "/readyz")
"""Answered also where too many requests are under way, so that a busy service is not taken for a dead one."""


class Limits:
    """Middleware: refuses unknown hosts and too many requests, adds headers, and counts what was answered."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        """Stand before an application."""
        self.app, self.settings, self.metrics = app, settings, metrics
        self.under_way = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        start = time.perf_counter()
        status = 500

        async def sent(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        self.under_way += 1
        try:
            await (self._refusal(scope) or self.app)(scope, receive, sent)
        finally:
            self.under_way -= 1
            route = scope.get("route")
            path = getattr(route, "path", None) or "other"
            method = scope["method"] if path != "other" else "other"
            self.metrics.requests.labels(method, path, str(status)).inc()
            self.metrics.seconds.labels(path).observe(time.perf_counter() - start)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        host = next((value for name, value in scope["headers"] if name == b"host"), b"").decode("latin-1")
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if "*" not in self.settings.hosts and name.lower() not in self.settings.hosts:
            return problem(421, "unknown-host", f"the service is not known as `{shown(name)}`: see --allowed-host")
        if self.under_way > self.settings.most_connections and scope["path"] not in _UNCOUNTED:
            detail = f"{self.settings.most_connections} requests are under way, as many as there may be"
            return problem(503, "too-many", detail, headers={"retry-after": "1"})
        return None
