"""Running the application with uvicorn, in one process or several."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import signal
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import uvicorn

from selector.service.app import SETTINGS_VARIABLE
from selector.service.metrics import FOLDER_VARIABLE
from selector.service.protocol import Protocol
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
        kept.enter_context(_ended_well())
        _open_many_files()
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
            http=Protocol,
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=_DRAIN_SECONDS,
        )


@contextlib.contextmanager
def _ended_well() -> Iterator[None]:
    """Let SIGTERM be a way to end well: uvicorn answers what is under way, and then asks for the signal once more."""

    def end(*_: object) -> None:
        raise SystemExit(0)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _open_many_files() -> None:
    """Take as many open connections as the system allows: what most begin with are 1,024."""
    if importlib.util.find_spec("resource") is not None:  # not on Windows, which has no such limit
        import resource

        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


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
