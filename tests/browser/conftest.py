"""The page in a real browser: Chromium, over a service on a port of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.serving import Page, chromium, serving

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Give the address of a service with the shipped rules."""
    with serving() as (found, _):
        yield found


@pytest.fixture(scope="module")  # playwright's event loop must not stay on in tests that run one of their own
def browser() -> Iterator[Browser]:
    """Give the browser of this machine; nothing is downloaded."""
    path = chromium()
    if path is None:
        pytest.skip("no chromium on this machine")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """Give a window of somebody who was never here."""
    made = browser.new_context(viewport={"width": 1280, "height": 900})
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def page(context: BrowserContext, address: str) -> Iterator[Page]:
    """Give the page; whatever its console complains of fails the test."""
    found = Page(context, address)
    yield found
    assert found.complaints == []
