"""A service in a thread, a browser, and the page as tests and screenshots use it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import uvicorn

from selector.service.app import make_app
from selector.service.settings import Settings

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext, Locator

_NAMES = ("chromium", "chromium-browser", "google-chrome")
EDIT = """\
table: platform_default
edits:
- id: ours
  before: hopper-flash-attn
  when: {arch: sm_90}
  use: CUDNN_ATTN
  because: Measured.
"""
FULL = urlencode({
    "machine": "h100", "request.model": "WanPipeline", "request.role": "cross", "request.causal": "bottom_right",
    "call.mask": "key_padding", "config": "per_role:\n  self: TORCH_SDPA\n", "why_not": "SAGE_ATTN", "any": "true",
    "if": "arch=sm_120", "edit": EDIT.replace("arch", "arhc"),
})  # fmt: skip
"""A state in which every part of the page has something to show."""
CHROMIUM_VARIABLE = "ATTENTION_SELECTOR_CHROMIUM"
"""Names the browser's program where it is not on the path."""


def chromium() -> str | None:
    """Give the path of Chromium, or None where there is none."""
    named = os.environ.get(CHROMIUM_VARIABLE)
    return named or next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)


@contextlib.contextmanager
def serving(port: int = 0, **settings: Any) -> Iterator[tuple[str, int]]:  # noqa: ANN401 - of `Settings`
    """Serve the shipped rules from a thread, or those of the settings; give the address and the port."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", port))
    port = listening.getsockname()[1]
    app = make_app(Settings(watch=False, **settings))
    config = uvicorn.Config(app, log_level="error", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/", port
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listening.close()


class Page:
    """The page, opened at an address with a state."""

    def __init__(self, context: BrowserContext, address: str) -> None:
        """Make a window; `open` goes to the page."""
        self.window = context.new_page()
        self.address = address
        self.complaints: list[str] = []
        self.window.on("console", lambda message: self._heard(message.type, message.text))
        self.window.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _heard(self, kind: str, text: str) -> None:
        # A refusal is an answer of the service; that the browser notes its status is no fault of the page.
        if kind in ("error", "warning") and "the server responded with a status of 422" not in text:
            self.complaints.append(text)

    def open(self, state: str = "") -> Page:
        """Go to the page with a state, and wait until it has answered."""
        self.window.goto(f"{self.address}#{state}" if state else self.address)
        self.window.wait_for_function("() => !/^Asking/.test(document.getElementById('headline').textContent)")
        return self

    def fill(self, label: str, value: str) -> None:
        """Type into the control of a label, or choose there."""
        control = self.window.get_by_label(label, exact=True)
        if control.evaluate("one => one.tagName") == "SELECT":
            control.select_option(value)
        else:
            control.fill(value)

    def shows(self, text: str, where: str = "#headline") -> None:
        """Wait until a text stands somewhere."""
        self.window.locator(where).filter(has_text=text).first.wait_for()

    def row(self, name: str, table: str = "platform_default") -> Locator:
        """Give the row of a table that was walked."""
        walk = self.window.locator("article.walk", has=self.window.get_by_role("heading", name=table, exact=True))
        return walk.get_by_role("row").filter(has=self.window.get_by_role("rowheader", name=name, exact=True))
