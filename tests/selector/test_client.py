"""A selector whose rules come from a service: newer ones reach it; whatever goes wrong, the last good ones serve."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import structlog
import uvicorn

from selector import fetching
from selector.client import RemoteError, RemoteSelector
from selector.rules.problems import ConfigError, TableError
from selector.ruleset import load_rules, shipped
from selector.selecting import Selector
from selector.service.answers import rule_set
from selector.service.app import make_app
from selector.service.settings import Settings
from tests.certificates import certificate
from tests.selector.conftest import FA2, cuda

EDIT = """\
table: platform_default
edits:
- {id: ours, before: hopper-flash-attn, when: {arch: sm_90}, use: CUDNN_ATTN, because: Measured.}
"""
OWN = "table: ours\nnew: true\nrows:\n- {id: all, use: anything, because: x}\n"
HOPPER = cuda("sm_90", FA2)
LAYER: dict[str, Any] = {"role": "self", "head_dim": 128, "mask_free": True}
JSON = {"content-type": "application/json"}
Write = Callable[[BaseHTTPRequestHandler], None]


class Service:
    """A service in a thread, on a port that stays its own when it is started again."""

    def __init__(self, folder: Path) -> None:
        """Take note of its rules."""
        self.folder, self.port = folder, 0
        self.server: uvicorn.Server | None = None
        self.thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self, **more: Any) -> None:  # noqa: ANN401 - of `uvicorn.Config`
        """Start it, and wait until it answers."""
        app = make_app(Settings(folders=(str(self.folder),), watch=False))
        config = uvicorn.Config(app, port=self.port, log_level="critical", ws="none", lifespan="on", **more)
        self.server, self.served = uvicorn.Server(config), app.state.service.served
        self.thread = threading.Thread(target=self.server.run)
        self.thread.start()
        while not self.server.started:
            time.sleep(0.005)
        self.port = self.server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Stop it."""
        if self.server is not None and self.thread is not None:
            self.server.should_exit = True
            self.thread.join()
            self.server = None

    def write(self, text: str) -> str:
        """Let other rules serve; gives their digest."""
        (self.folder / "ours.yaml").write_text(text, encoding="utf-8")
        return str(self.served.reload().digest)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Give a service whose rules are those of a folder."""
    folder = tmp_path / "rules"
    folder.mkdir()
    (folder / "ours.yaml").write_text(EDIT, encoding="utf-8")
    found = Service(folder)
    found.start()
    try:
        yield found
    finally:
        found.stop()


@pytest.fixture
def remote(request: pytest.FixtureRequest) -> Iterator[Callable[..., RemoteSelector]]:
    """Give what makes selectors of a service, which end with the test; they refresh by hand unless they are told."""
    with ExitStack() as kept:

        def made(url: str, **more: Any) -> RemoteSelector:  # noqa: ANN401 - of `RemoteSelector`
            given = {"facts": HOPPER, "environment": {}, "refresh_seconds": None, **more}
            return kept.enter_context(RemoteSelector(url, **given))

        yield made


Make = Callable[..., RemoteSelector]


def until(true: Callable[[], object]) -> None:
    """Wait for something, for ten seconds at most."""
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def answering(write: Write) -> Iterator[tuple[str, list[Write]]]:
    """Give the address of a server that answers as the last entry of a list says, and the list."""
    answers = [write]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers[-1](self)

        def log_message(self, *_: object) -> None:
            """Tell nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", answers
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def answer(status: int, body: bytes = b"", length: int | None = None, **headers: str) -> Write:
    """Give what writes an answer; `length` is the one that it claims to have."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("content-length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return write


def dripping(handler: BaseHTTPRequestHandler) -> None:
    """Answer a letter at a time, each well within any limit of one."""
    handler.send_response(200)
    handler.send_header("content-length", "100000")
    handler.end_headers()
    try:
        for _ in range(2000):
            handler.wfile.write(b" ")
            time.sleep(0.02)
    except OSError:
        return


def dripping_head(handler: BaseHTTPRequestHandler) -> None:
    """Answer with a head that does not end."""
    try:
        for letter in [*b"HTTP/1.1 200 OK\r\nx: ", *b" " * 2000]:
            handler.wfile.write(bytes([letter]))
            time.sleep(0.02)
    except OSError:
        return


def no_http(handler: BaseHTTPRequestHandler) -> None:
    """Answer as another protocol does."""
    handler.wfile.write(b"SSH-2.0-x\r\n\r\n")


def nothing(_: BaseHTTPRequestHandler) -> None:
    """Hang up."""


def slow(_: BaseHTTPRequestHandler) -> None:
    """Hang up after a while."""
    time.sleep(0.4)


WHOLE = json.dumps(rule_set(shipped())).encode()
TAG = f'"{shipped().digest}"'
GOOD = answer(200, WHOLE, etag=TAG, content_type="application/json")
OTHER = f'"{"0" * 64}"'


# --- the same as a selector ---------------------------------------------------------------------------------------


def test_it_decides_as_a_selector_with_the_rules_of_the_service(service: Service, remote: Make) -> None:
    """By every call that a selector has, with the same digest."""
    selector = remote(service.url, config={"per_role": {"cross": "TORCH_SDPA"}})
    other = Selector(rules=service.folder, facts=HOPPER, environment={}, config={"per_role": {"cross": "TORCH_SDPA"}})

    assert isinstance(selector, Selector)
    assert selector.rules.digest == load_rules([service.folder]).digest
    for role in ("self", "cross"):
        found, wanted = selector.decide(role, head_dim=128), other.decide(role, head_dim=128)
        assert found.answer() == wanted.answer()
        assert found.outdated is None
    assert selector.select(**LAYER).backend == "CUDNN_ATTN"
    assert selector.on(other.machine).decide(**LAYER).answer() == other.decide(**LAYER).answer()


def test_a_table_of_the_services_own_arrives_too(service: Service, remote: Make) -> None:
    """With the digest that it has there."""
    digest = service.write(OWN)

    selector = remote(service.url)

    assert "ours" in selector.rules.tables
    assert selector.rules.digest == digest


def test_copies_decide_and_refresh_by_hand(service: Service, remote: Make) -> None:
    """Those of a pickle too; what `on` gave does not refresh."""
    selector = remote(service.url, refresh_seconds=0.05)
    copies = [copy.deepcopy(selector), pickle.loads(pickle.dumps(selector))]  # noqa: S301 - our own
    digest = service.write(OWN)

    for one in copies:
        assert one.decide(**LAYER).backend == "CUDNN_ATTN"
        assert one.refresh().outcome == "swapped"
        assert one.rules.digest == digest
    with pytest.raises(ValueError, match="what it gave is not refreshed"):
        selector.on(selector.machine).reload()


@pytest.mark.parametrize(
    "url",
    ["", "127.0.0.1:8320", "ftp://h", "file:///etc/passwd", "http://", "http://u:p@h", "http://h/?a", "http://h:x",
     "http://h:0", "http://[", "http://h\r\nx: y"],
)  # fmt: skip
def test_what_is_no_address_is_refused(url: str) -> None:
    """Before anything is asked."""
    with pytest.raises(ValueError, match="wanted an address such as"):
        RemoteSelector(url)


@pytest.mark.parametrize("given", [{"timeout": 0}, {"refresh_seconds": -1}, {"refresh_seconds": float("nan")}])
def test_times_are_numbers_over_nothing(given: dict[str, Any]) -> None:
    """None is no time to wait, and is taken for the refresh alone."""
    with pytest.raises(ValueError, match="wanted a number of seconds over 0"):
        RemoteSelector("http://127.0.0.1:1", **given)


def test_certificates_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """By their file."""
    for content in (None, "nothing"):
        path = tmp_path / "ca.pem"
        if content is not None:
            path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=r"`ca`: cannot read certificates of `.*ca.pem`"):
            RemoteSelector("https://127.0.0.1:1", ca=path)


# --- newer rules --------------------------------------------------------------------------------------------------


def test_newer_rules_reach_it(service: Service, remote: Make) -> None:
    """By hand, from the next decision on; nothing changed is an answer too, and changes nothing."""
    selector = remote(service.url)
    serving, epoch = selector.serving, selector.epoch
    assert selector.refresh().outcome == "unchanged"
    assert (selector.serving, selector.epoch) == (serving, epoch)
    digest = service.write(EDIT.replace("CUDNN_ATTN", "TORCH_SDPA"))

    result = selector.refresh()

    assert (result.outcome, result.digest) == ("swapped", digest)
    assert (selector.decide(**LAYER).backend, selector.decide(**LAYER).digest) == ("TORCH_SDPA", digest)


def test_newer_rules_reach_it_by_themselves(service: Service, remote: Make) -> None:
    """Until it is closed, and again when it is started."""
    selector = remote(service.url, refresh_seconds=0.02)
    digest = service.write(OWN)
    until(lambda: selector.rules.digest == digest)

    selector.close()
    newer = service.write(EDIT)
    time.sleep(0.1)

    assert selector.rules.digest == digest
    selector.start()
    selector.start()
    until(lambda: selector.rules.digest == newer)


def test_newer_rules_decide_in_the_shadow_first(service: Service, remote: Make) -> None:
    """While some do, those that the thread brings do so as well; what was counted is kept."""
    selector = remote(service.url)
    before = selector.rules.digest
    digest = service.write(EDIT.replace("CUDNN_ATTN", "TORCH_SDPA"))

    assert selector.reload(shadow=True).outcome == "shadowed"
    assert selector.decide(**LAYER).digest == before
    assert selector.reload(shadow=True).outcome == "shadowed"
    assert selector.shadow is not None
    assert selector.shadow.differing == 1

    selector._every = 0.02
    selector.start()
    newest = service.write(OWN)
    until(lambda: selector.shadow is not None and selector.shadow.serving.rules.digest == newest)
    assert (selector.rules.digest, digest != newest) == (before, True)
    selector.close()
    assert selector.switch().digest == newest
    service.write(EDIT)
    assert selector.reload(shadow=True).outcome == "shadowed"
    service.write(OWN)
    assert selector.reload(shadow=True).outcome == "unchanged"
    assert selector.shadow is None


def test_rules_that_do_not_suit_the_config_are_refused(service: Service, remote: Make) -> None:
    """At the start by an error, later by serving on."""
    with pytest.raises(ConfigError):
        remote(service.url, config={"default": "MINE"})
    (service.folder / "backends.yaml").write_text("backends: {MINE: {about: x}}", encoding="utf-8")
    service.served.reload()
    selector = remote(service.url, config={"default": "MINE"})
    (service.folder / "backends.yaml").unlink()
    service.served.reload()

    result = selector.refresh()

    assert (result.outcome, [one.code for one in result.problems]) == ("refused", ["unknown-backend"])
    assert selector.decide(**LAYER).backend == "MINE"
    assert selector.decide(**LAYER).outdated is not None


# --- what goes wrong ----------------------------------------------------------------------------------------------

BROKEN: dict[str, tuple[Write, str]] = {
    "500": (answer(500, b"{}", etag=TAG), "bad-answer: wanted rules, got status 500"),
    "404": (answer(404, b"no"), "bad-answer: wanted rules, got status 404"),
    "no-content": (answer(204), "bad-answer: wanted rules, got status 204"),
    "html": (answer(200, b"<html>", etag=OTHER, content_type="text/html"), "wanted application/json, got `text/html`"),
    "html-as-json": (answer(200, b"<html>", etag=OTHER, content_type="application/json"), "rules:1:1: json-syntax"),
    "no-tag": (answer(200, WHOLE, content_type="application/json"), "wanted the digest of the rules as ETag"),
    "other-tag": (answer(200, WHOLE, etag='"1"', content_type="application/json"), 'as ETag, got `"1"`'),
    "wrong-digest": (answer(200, WHOLE, etag=OTHER, content_type="application/json"), "wrong-digest: wanted rules of"),
    "cut": (answer(200, WHOLE[:900], etag=OTHER, content_type="application/json"), "json-syntax"),
    "broken-off": (
        answer(200, WHOLE[:900], len(WHOLE), etag=OTHER, content_type="application/json"),
        f"breaks off {len(WHOLE) - 900} bytes before its end",
    ),
    "empty-object": (answer(200, b"{}", etag=OTHER, content_type="application/json"), "wanted a rule set"),
    "part": (answer(200, b'{"tables": {}}', etag=OTHER, content_type="application/json"), "got one without vocabulary"),
    "list": (answer(200, b"[1]", etag=OTHER, content_type="application/json"), "wanted a rule set"),
    "deep": (answer(200, b"[" * 99999, etag=OTHER, content_type="application/json"), "too-deep"),
    "large": (answer(200, b" " * (9 << 20), etag=OTHER, content_type="application/json"), "wanted at most 8388608"),
    "no-http": (no_http, "no answer: ssh-2.0-x"),
    "nothing": (nothing, "no answer: remote end closed connection without response"),
    "slow": (slow, "no whole answer within 0.2 seconds"),
    "dripping": (dripping, "no whole answer within 0.2 seconds"),
    "dripping-head": (dripping_head, "no whole answer within 0.2 seconds"),
    "elsewhere": (answer(302, location="http://evil.example/v1/rules"), "redirected to `http://evil.example/v1/rules`"),
    "other-port": (answer(307, location="http://127.0.0.1:1/v1/rules"), "which is another origin"),
    "file": (answer(302, location="file:///etc/passwd"), "which is another origin"),
    "no-place": (answer(302, location="http://["), "which is another origin"),
    "round": (answer(302, location="/v1/rules"), "redirected more than 3 times"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_leaves_the_last_good_rules(remote: Make, name: str) -> None:
    """Every decision says since when and what is wrong; it is logged once, and over with the next good answer."""
    write, said = BROKEN[name]
    with answering(GOOD) as (url, answers), structlog.testing.capture_logs() as logged:
        selector = remote(url, timeout=0.2 if "0.2" in said else 5)
        answers.append(write)
        start = time.monotonic()

        result, again = selector.refresh(), selector.refresh()

        assert time.monotonic() - start < 5
        decision = selector.decide(**LAYER)
        assert (result.outcome, again.outcome, decision.backend) == ("refused", "refused", "FLASH_ATTN")
        assert decision.outdated is not None
        assert said in decision.outdated.problem
        assert decision.outdated.problem.startswith(f"{url}/v1/rules")
        assert decision.digest == shipped().digest
        assert len([one for one in logged if one["log_level"] == "warning"]) == 1
        answers.append(GOOD)
        assert selector.refresh().outcome == "unchanged"
        assert selector.decide(**LAYER).outdated is None


@pytest.mark.parametrize("name", BROKEN)
def test_a_service_that_answers_nonsense_is_no_start(name: str) -> None:
    """Its own error says what came instead; nothing runs on."""
    write, said = BROKEN[name]
    before = threading.active_count()
    with answering(write) as (url, _), pytest.raises((RemoteError, ValueError)) as caught:
        RemoteSelector(url, facts=HOPPER, environment={}, timeout=0.2 if "0.2" in said else 5)

    assert said in str(caught.value)
    until(lambda: threading.active_count() <= before)


def test_what_is_not_modified_since_nothing_is_no_answer() -> None:
    """A first answer must have rules."""
    with answering(answer(304)) as (url, _), pytest.raises(RemoteError, match="wanted rules, got status 304"):
        RemoteSelector(url)


def test_a_redirect_within_the_origin_is_followed(remote: Make) -> None:
    """With its query."""

    def write(handler: BaseHTTPRequestHandler) -> None:
        (GOOD if handler.path == "/else?x=1" else answer(301, location="/else?x=1"))(handler)

    with answering(write) as (url, _):
        assert remote(f"{url}/base/").rules.digest == shipped().digest


@pytest.mark.parametrize("seed", range(8))
def test_damaged_rules_are_told_and_never_fail_otherwise(seed: int) -> None:
    """Whatever value stands where another one is wanted."""
    import random

    dice = random.Random(seed)
    for _ in range(10):
        value: Any = json.loads(WHOLE)
        here: Any = value
        key: Any = None
        while isinstance(here, (dict, list)) and here and (key is None or dice.random() < 0.8):
            at, key = here, dice.choice(list(here) if isinstance(here, dict) else range(len(here)))
            here = here[key]
        at[key] = dice.choice([None, 1, "x", [], {}, [1], {"a": 1}, True, {"rows": None}, -1.5])
        try:
            fetching.rules_of(json.dumps(value).encode(), "x")
        except TableError:
            continue


def test_a_service_that_is_away_is_told_until_it_is_back(service: Service, remote: Make) -> None:
    """By the thread too; what changed meanwhile arrives then."""
    selector = remote(service.url, refresh_seconds=0.02)
    service.stop()
    until(lambda: selector.decide(**LAYER).outdated)
    first = selector.decide(**LAYER)
    assert first.backend == "CUDNN_ATTN"
    assert first.outdated is not None
    assert "unreachable: no answer: connection refused" in first.outdated.problem
    time.sleep(0.1)
    again = selector.decide(**LAYER).outdated
    assert again is not None
    assert again.since == first.outdated.since
    (service.folder / "ours.yaml").write_text(EDIT.replace("CUDNN_ATTN", "TORCH_SDPA"), encoding="utf-8")

    service.start()

    until(lambda: selector.decide(**LAYER).backend == "TORCH_SDPA")
    assert selector.decide(**LAYER).outdated is None


def test_no_decision_has_half_of_two_sets(service: Service, remote: Make) -> None:
    """Threads that decide while it refreshes get the backend that belongs to the digest."""
    texts = {name: EDIT.replace("CUDNN_ATTN", name) for name in ("CUDNN_ATTN", "TORCH_SDPA", "FLASH_ATTN")}
    belongs = {service.write(text): name for name, text in texts.items()}
    selector = remote(service.url, refresh_seconds=0.002)
    seen: list[set[tuple[str, str | None]]] = [set() for _ in range(4)]
    over = threading.Event()

    def ask(found: set[tuple[str, str | None]]) -> None:
        while not over.is_set():
            decision = selector.decide(**LAYER)
            found.add((decision.digest, decision.backend))
            time.sleep(0.0002)  # what serves and refreshes is in this process too

    threads = [threading.Thread(target=ask, args=(one,)) for one in seen]
    for thread in threads:
        thread.start()
    for text in [*texts.values()] * 2:
        digest = service.write(text)
        until(lambda digest=digest: selector.rules.digest == digest)  # type: ignore[misc]
    over.set()
    for thread in threads:
        thread.join()

    pairs = set().union(*seen)
    assert pairs <= set(belongs.items())
    assert len(pairs) > 1


# --- the cache ----------------------------------------------------------------------------------------------------


def test_without_the_service_it_starts_on_what_was_fetched_last(service: Service, remote: Make, tmp_path: Path) -> None:
    """Outdated, until the service is back; the file is a rule set for `Selector` too."""
    cache = tmp_path / "cache.json"
    digest = service.write(OWN)
    remote(service.url, cache=cache)
    newer = service.write(EDIT)
    earlier = remote(service.url, cache=cache)
    service.stop()

    selector = remote(service.url, cache=cache)

    assert earlier.rules.digest == selector.rules.digest == newer != digest
    found = selector.decide(**LAYER)
    assert found.backend == "CUDNN_ATTN"
    assert found.outdated is not None
    assert "unreachable" in found.outdated.problem
    assert Selector(rules=cache, facts=HOPPER, environment={}).rules.digest == newer
    service.start()
    assert selector.refresh().outcome == "unchanged"
    assert selector.decide(**LAYER).outdated is None
    service.write(OWN)
    selector.refresh()
    assert load_rules([cache]).digest == digest


def test_without_service_and_cache_there_is_no_start(service: Service, tmp_path: Path) -> None:
    """Nor with a cache that is broken, which is told as well."""
    service.stop()
    cache = tmp_path / "cache.json"
    for content, said in ((None, "connection refused"), ("{", "cache.json:1:2: json-syntax(.|\n)*connection refused")):
        if content is not None:
            cache.write_text(content, encoding="utf-8")
        with pytest.raises(RemoteError, match=said):
            RemoteSelector(service.url, cache=cache)


def test_a_cache_that_cannot_be_written_is_told_and_the_rules_serve(
    service: Service, remote: Make, tmp_path: Path
) -> None:
    """By a warning in the log."""
    with structlog.testing.capture_logs() as logged:
        selector = remote(service.url, cache=tmp_path / "none" / "cache.json")

    assert selector.decide(**LAYER).outdated is None
    assert [one["log_level"] for one in logged] == ["warning"]
    assert "the rules are not kept" in logged[0]["event"]


# --- TLS, threads and processes -----------------------------------------------------------------------------------


def test_a_certificate_must_be_trusted(service: Service, remote: Make, tmp_path: Path) -> None:
    """By the system or by the file that is given; plain HTTP is no answer to it."""
    with pytest.raises(RemoteError, match="unreachable: no answer: "):
        remote(service.url.replace("http:", "https:"))
    service.stop()
    cert, key = certificate(tmp_path)
    service.start(ssl_certfile=cert, ssl_keyfile=key)
    url = service.url.replace("http:", "https:")

    with pytest.raises(RemoteError, match="the certificate is not trusted: self-signed certificate"):
        remote(url)
    assert remote(url, ca=cert).decide(**LAYER).backend == "CUDNN_ATTN"


def test_a_handshake_that_does_not_end_is_given_up() -> None:
    """As any other answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            accepted, _ = server.accept()
            with accepted, contextlib.suppress(OSError):
                accepted.sendall(b"\x16\x03\x03\x40\x00")  # a record that is longer than what follows
                for _ in range(500):
                    accepted.sendall(b"\x02")
                    time.sleep(0.02)

        thread = threading.Thread(target=drip)
        thread.start()
        start = time.monotonic()
        with pytest.raises(RemoteError, match=r"no whole answer within 0\.2 seconds"):
            RemoteSelector(f"https://127.0.0.1:{server.getsockname()[1]}", timeout=0.2)
        taken = time.monotonic() - start
        thread.join()

    assert taken < 3


def test_its_thread_ends_with_it(service: Service) -> None:
    """Where nobody closed it, too."""

    def running() -> int:
        return sum(thread.name == "attention-selector-refresh" for thread in threading.enumerate())

    before = running()
    selector = RemoteSelector(service.url, facts=HOPPER, environment={}, refresh_seconds=0.02)
    assert running() == before + 1

    del selector

    until(lambda: running() == before)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork.*:DeprecationWarning")
def test_a_forked_process_refreshes_too(service: Service, remote: Make) -> None:
    """With a thread of its own."""
    selector = remote(service.url, refresh_seconds=0.05)
    digest = load_rules([service.folder]).digest
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.write(writing, b"x")
            end = time.monotonic() + 10
            while selector.rules.digest == digest and time.monotonic() < end:
                time.sleep(0.02)
            code = 0 if selector.rules.digest != digest else 2
        finally:
            os._exit(code)
    os.read(reading, 1)
    service.write(OWN)

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.close(reading)
    os.close(writing)
