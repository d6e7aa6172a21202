"""Rules over HTTP: fetched from a service within bounds of time and size, and checked against its digest."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import ssl
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from selector.linking import link_content
from selector.rule_files import FILES, TABLES, Finder
from selector.rules.nodes import Bounds
from selector.rules.problems import Place, Problem, ProblemsError, TableError, listing, shown
from selector.rules.text import parsed
from selector.ruleset import RuleSet

BOUNDS = Bounds(8 << 20, 400_000)
"""Of a document of rules."""
_PATH = "/v1/rules"
_MOST_REDIRECTS = 3
_REDIRECTS = (301, 302, 303, 307, 308)
_TAG = re.compile(r'(?:W/)?"([0-9a-f]{64})"')


class RemoteError(ProblemsError):
    """A service that does not answer, or does not answer with rules."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """Rules that a service answered with, and their text."""

    rules: RuleSet
    text: bytes


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    headers: http.client.HTTPMessage
    text: bytes


@dataclass(frozen=True, slots=True)
class Remote:
    """Where rules are fetched from: `url` is that of the rules, `timeout` is for one answer to its last byte."""

    url: urllib.parse.SplitResult
    timeout: float
    ca: str | Path | None = None

    @classmethod
    def at(cls, url: str, timeout: float, ca: str | Path | None = None) -> Self:
        """Read the address of a service. Raises `ValueError` for what is none, and for unreadable certificates."""
        wanted = f"wanted an address such as `https://rules.example:8320`, got `{shown(url)}`"
        try:
            parts = urllib.parse.urlsplit(url)
            well = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError as error:
            raise ValueError(wanted) from error
        if not well or parts.username is not None or parts.query or parts.fragment or not url.isprintable():
            raise ValueError(wanted)
        if ca is not None:
            try:
                ssl.create_default_context(cafile=ca)
            except OSError as error:
                raise ValueError(f"`ca`: cannot read certificates of `{shown(str(ca), 4096)}`: {error}") from error
        return cls(parts._replace(path=parts.path.rstrip("/") + _PATH), timeout, ca)

    def whole(self) -> Fetched:
        """Fetch the rules. Raises `RemoteError` where no rules are answered, `ProblemsError` where they do not load."""
        return self._checked(self._answer({}))

    def newer(self, digest: str) -> Fetched | None:
        """Fetch the rules, or None where they still have that digest. Raises as `whole` does."""
        answer = self._answer({"If-None-Match": f'"{digest}"'})
        return None if answer.status == http.HTTPStatus.NOT_MODIFIED else self._checked(answer)

    def _checked(self, answer: _Answer) -> Fetched:
        if answer.status != http.HTTPStatus.OK:
            raise self._error("bad-answer", f"wanted rules, got status {answer.status}")
        media, tag = answer.headers.get_content_type(), answer.headers.get("etag")
        if media != "application/json":
            raise self._error("bad-answer", f"wanted application/json, got `{shown(media)}`")
        wanted = _TAG.fullmatch(tag or "")
        if wanted is None:
            raise self._error("bad-answer", f"wanted the digest of the rules as ETag, got `{shown(tag)}`")
        rules = rules_of(answer.text, self.url.geturl())
        if rules.digest != wanted[1]:
            raise self._error("wrong-digest", f"wanted rules of the digest {wanted[1]}, got {rules.digest}")
        return Fetched(rules, answer.text)

    def _error(self, code: str, message: str) -> RemoteError:
        return RemoteError([Problem(Place(self.url.geturl()), code, message)])

    # --- HTTP ---

    def _answer(self, headers: Mapping[str, str]) -> _Answer:
        """Get an answer, redirected within the same origin at most."""
        url = self.url
        for _ in range(_MOST_REDIRECTS + 1):
            answer = self._asked(url, {**headers, "Accept": "application/json"})
            if answer.status not in _REDIRECTS:
                return answer
            location = answer.headers.get("location", "")
            try:
                there = urllib.parse.urlsplit(urllib.parse.urljoin(url.geturl(), location))
            except ValueError:
                there = urllib.parse.urlsplit("")
            if (there.scheme, there.netloc) != (url.scheme, url.netloc):
                raise self._error("redirected", f"redirected to `{shown(location, 200)}`, which is another origin")
            url = there
        raise self._error("redirected", f"redirected more than {_MOST_REDIRECTS} times")

    def _asked(self, url: urllib.parse.SplitResult, headers: Mapping[str, str]) -> _Answer:
        """Ask once, in so many seconds in all."""
        made = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
        path = url.path + (f"?{url.query}" if url.query else "")
        deadline = _Deadline(self.timeout)
        try:
            with deadline, contextlib.closing(made(str(url.hostname), url.port, timeout=self.timeout)) as connection:
                self._connect(connection, deadline, secure=url.scheme == "https")
                connection.request("GET", path, headers=dict(headers))
                with connection.getresponse() as response:
                    text = response.read(BOUNDS.bytes + 1)
                    missing = response.length
                deadline.check()
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise self._error("unreachable", self._said(error, late=deadline.over)) from error
        if len(text) > BOUNDS.bytes:
            raise self._error("too-large", f"wanted at most {BOUNDS.bytes} bytes, got more")
        if missing:
            raise self._error("bad-answer", f"the answer breaks off {missing} bytes before its end")
        return _Answer(response.status, response.headers, text)

    def _connect(self, connection: http.client.HTTPConnection, deadline: _Deadline, *, secure: bool) -> None:
        """Connect, so that the deadline has a socket to end from then on."""
        sock = socket.create_connection((connection.host, connection.port), self.timeout)
        connection.sock = sock
        deadline.holds(sock)
        if secure:
            context = ssl.create_default_context(cafile=self.ca)
            shaken = context.wrap_socket(sock, server_hostname=connection.host, do_handshake_on_connect=False)
            connection.sock = shaken
            deadline.holds(shaken)
            shaken.do_handshake()

    def _said(self, error: Exception, *, late: bool) -> str:
        if late or isinstance(error, TimeoutError):
            return f"no whole answer within {self.timeout:g} seconds"
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"the certificate is not trusted: {error.verify_message}"
        said = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return f"no answer: {shown(said, 200).lower()}"


class _Deadline:
    """A timer that ends a connection which only drips, however little comes at a time."""

    def __init__(self, seconds: float) -> None:
        self.over = False
        self._sock: socket.socket | None = None
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def holds(self, sock: socket.socket) -> None:
        """Take note of what is to be ended; the connection forgets it once the head of an answer is read."""
        self._sock = sock
        self.check()

    def check(self) -> None:
        """Raise `TimeoutError` where the time is over."""
        if self.over:
            raise TimeoutError

    def _end(self) -> None:
        """End the socket under whoever reads from it; closing it would not wake them."""
        self.over = True
        if self._sock is not None:
            with contextlib.suppress(OSError):  # gone already
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # that of TLS would say goodbye, and wait


# --- rules --------------------------------------------------------------------------------------------------------


def rules_of(text: bytes, name: str) -> RuleSet:
    """Give the rule set of a document as `/v1/rules` gives it. Raises `ProblemsError` with what is wrong with it.

    Nothing of it is laid over the rules that are shipped here: it is the service's whole.
    """
    finder = Finder([], set(TABLES))
    node = parsed(text, ".json", name, BOUNDS)
    content = {file.kind: file.node for file in finder.rule_set(node, name)}
    missing = [kind for kind in (*FILES, *TABLES) if kind not in content]
    if missing and not finder.problems:
        finder.note(Place(name), "missing-key", f"wanted a whole rule set, got one without {listing(missing)}")
    if finder.problems:
        raise TableError(finder.problems)
    return link_content(content, (), ())
