"""Running the application with uvicorn, in one process or several."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import uvicorn

from selector.service.app import SETTINGS_VARIABLE
from selector.service.metrics import FOLDER_VARIABLE
from selector.service.settings import Settings

_DRAIN_SECONDS = 10
"""How long requests that are under way have when a signal ends the service."""


@dataclass(frozen=True, slots=True)
class Listening:
    """Where to listen, with how many processes, and whether every request is told."""

    host: str
    port: int
    workers: int = 1
    access_log: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None


def run(settings: Settings, listening: Listening) -> None:
    """Serve until a signal ends it; what is under way then is answered first."""
    variables = {SETTINGS_VARIABLE: settings.to_json()}
    with contextlib.ExitStack() as kept:
        if listening.workers > 1:
            folder = tempfile.TemporaryDirectory(prefix="attention-selector-", ignore_cleanup_errors=True)
            variables[FOLDER_VARIABLE] = kept.enter_context(folder)
        kept.enter_context(_set(variables))
        uvicorn.run(
            "selector.service.app:from_environment",
            factory=True,
            host=listening.host,
            port=listening.port,
            workers=listening.workers,
            access_log=listening.access_log,
            ssl_certfile=listening.tls_cert,
            ssl_keyfile=listening.tls_key,
            server_header=False,
            proxy_headers=False,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )


@contextlib.contextmanager
def _set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables of the environment, which worker processes read, and put back what was there."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
