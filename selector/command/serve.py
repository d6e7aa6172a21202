"""`attention-selector serve`: decisions over HTTP."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

from selector.command import given
from selector.command.usage import UsageError
from selector.rules.problems import Place, Problem, ProblemsError, shown
from selector.selecting import folders_from

_PACKAGES = ("fastapi", "httptools", "prometheus_client", "uvicorn", "watchfiles")
_MOST_PORT = 65_535


def run(options: argparse.Namespace) -> int:
    """Serve until a signal ends it; what is under way then is answered first."""
    _check(options)
    given.rules(options)  # what is wrong with them is told here, and not by a worker
    from selector.service.app import TOKEN_VARIABLE
    from selector.service.running import Listening
    from selector.service.running import run as serve
    from selector.service.settings import Settings

    if options.log is not None:
        with given.log(options.log):
            pass  # what keeps it from being written is told here, and not by a worker
    settings = Settings(
        folders=folders_from(options.rules, os.environ),
        watch=options.watch,
        token=os.environ.get(TOKEN_VARIABLE) or None,
        log=options.log,
        hosts=_hosts(options),
        most_connections=options.max_connections,
    )
    where = Listening(
        options.host, options.port, options.workers, options.access_log, options.tls_cert, options.tls_key
    )
    serve(settings, where)
    return 0


def _check(options: argparse.Namespace) -> None:
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        message = f"wanted the packages of the extra `serve`, got no {', '.join(missing)}"
        hint = "pip install 'attention-selector[serve]'"
        raise ProblemsError([Problem(Place("serve"), "missing-package", message, hint)])
    for flag, value, least, most in (
        ("--port", options.port, 0, _MOST_PORT),
        ("--workers", options.workers, 1, 1024),
        ("--max-connections", options.max_connections, 1, 1_000_000),
    ):
        if not least <= value <= most:
            raise UsageError(f"`{flag}`: wanted an integer from {least} to {most}, got {value}")
    if (options.tls_cert is None) != (options.tls_key is None):
        raise UsageError("`--tls-cert` and `--tls-key` go together")
    for name in (options.tls_cert, options.tls_key):
        if name is not None and not Path(name).is_file():
            raise ProblemsError([Problem(Place(shown(name, 4096)), "unreadable", "no such file")])


def _hosts(options: argparse.Namespace) -> tuple[str, ...]:
    """Give the names by which the service may be called: its own address, and those that were given."""
    own = {"127.0.0.1", "localhost", "[::1]", options.host if ":" not in options.host else f"[{options.host}]"}
    return tuple(sorted({name.lower() for name in {*own, *(options.allowed_host or ())}}))
