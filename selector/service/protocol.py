"""HTTP/1.1 as uvicorn speaks it, with bounds that it lacks: on the head of a request, and on answers nobody reads."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from selector.service.limits import HEADERS
from selector.service.problems import problem

if TYPE_CHECKING:
    from starlette.responses import Response
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

HEAD_SECONDS = 10.0
"""How long a connection may take to send a request's head, and how long one may read nothing of its answer."""
MOST_HEAD = 64 << 10
"""How many bytes a head may have, beside what it begins in."""


class Protocol(HttpToolsProtocol):
    """One connection. A head that does not arrive in time is answered by 408, one that is too large by 431."""

    def __init__(self, *given: Any, **more: Any) -> None:  # noqa: ANN401 - whatever uvicorn gives
        """Begin with the head of the first request."""
        super().__init__(*given, **more)
        self._in_head, self._size = False, 0
        self._late: asyncio.TimerHandle | None = None
        self._stuck: asyncio.TimerHandle | None = None

    # --- heads ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for a head, so long and no longer."""
        super().connection_made(transport)
        self._late = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def data_received(self, data: bytes) -> None:
        """Read on; what ends no head is counted, and waited for. What a head begins in may hold a body before it."""
        began_before = self._in_head
        super().data_received(data)
        if self._in_head and not self.transport.is_closing():
            self._size += len(data) if began_before else 0
            if self._size > MOST_HEAD:
                self._refuse(problem(431, "head-too-large", f"wanted a head of at most {MOST_HEAD} bytes, got more"))
            elif self._late is None:
                self._late = self.loop.call_later(HEAD_SECONDS, self._too_slow)

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._in_head = False
        self._cancel()
        super().on_headers_complete()

    def on_message_begin(self) -> None:
        """Begin with a head."""
        super().on_message_begin()
        self._in_head, self._size = True, 0

    def _too_slow(self) -> None:
        self._late = None
        cycle: RequestResponseCycle | None = self.cycle  # none before the first request
        if cycle is not None and not cycle.response_complete:  # an earlier request is being answered
            self._late = self.loop.call_later(HEAD_SECONDS, self._too_slow)
            return
        self._refuse(problem(408, "too-slow", f"wanted the head of a request within {HEAD_SECONDS:g} seconds"))

    def _refuse(self, answer: Response) -> None:
        self._cancel()
        answer.headers.update({**HEADERS, "connection": "close"})
        head = b"".join(b"%s: %s\r\n" % one for one in answer.raw_headers)
        phrase = b"Request Timeout" if answer.status_code == 408 else b"Request Header Fields Too Large"  # noqa: PLR2004
        self.transport.write(b"HTTP/1.1 %d %s\r\n%s\r\n%s" % (answer.status_code, phrase, head, bytes(answer.body)))
        self.transport.close()

    def _cancel(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    # --- answers ---

    def pause_writing(self) -> None:
        """Wait for a reader who is slower than what is written, for as long as it reads at all."""
        super().pause_writing()
        self._watch(self.transport.get_write_buffer_size())

    def _watch(self, size: int) -> None:
        self._stuck = self.loop.call_later(HEAD_SECONDS, self._look, size)

    def _look(self, before: int) -> None:
        size = self.transport.get_write_buffer_size()
        if size < before:
            self._watch(size)
        else:
            self.transport.abort()

    def resume_writing(self) -> None:
        """Write on."""
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._cancel()
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None
        super().connection_lost(exc)
