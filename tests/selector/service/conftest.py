"""A service without a process of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from starlette.testclient import TestClient

from selector.service.app import make_app
from selector.service.settings import Settings

Serve = Callable[..., TestClient]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Give what starts a service with some settings, and gives its client."""
    with ExitStack() as kept:

        def started(**settings: Any) -> TestClient:  # noqa: ANN401 - of `Settings`
            app = make_app(Settings(**{"watch": False, **settings}))
            return kept.enter_context(TestClient(app, "http://localhost", raise_server_exceptions=False))

        yield started


@pytest.fixture
def client(serve: Serve) -> TestClient:
    """Give the client of a service with the shipped rules."""
    return serve()
