"""The service as a process of its own: how it starts, ends, and holds out."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from selector.ruleset import load_rules
from tests.certificates import certificate
from tests.selector.conftest import CPU, FA2, cuda

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="it is ended by signals here")
ROOT = Path(__file__).parents[3]
EDIT = """\
table: platform_default
edits:
- {id: ours, before: hopper-flash-attn, when: {arch: sm_90}, use: CUDNN_ATTN, because: Measured.}
"""
NEWER = EDIT.replace("CUDNN_ATTN", "TORCH_SDPA")
BODY = json.dumps({"facts": cuda("sm_90", FA2), "request": {"head_dim": 128}}).encode()
HEAD = b"POST /v1/decide HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_STARTED = re.compile(r"Uvicorn running on https?://127\.0\.0\.1:(\d+)")


@dataclass
class Running:
    """A service that runs, what it says on standard error, and the port that it has."""

    process: subprocess.Popen[str]
    said: list[str]
    port: int

    def ask(
        self, method: str, path: str, body: bytes | None = None, context: ssl.SSLContext | None = None
    ) -> tuple[int, Any]:
        """Ask something; gives the status, and the answer as JSON or text."""
        if context is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        else:
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=20, context=context)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            text = response.read().decode()
        return response.status, json.loads(text) if "json" in str(response.headers["content-type"]) else text

    def decided(self) -> Any:  # noqa: ANN401 - JSON
        """Ask for a decision."""
        status, told = self.ask("POST", "/v1/decide", BODY)
        assert status == 200
        return told

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), 20)

    def end(self) -> int:
        """Send SIGTERM, and give the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)


Start = Callable[..., Running]


@pytest.fixture
def start() -> Iterator[Start]:
    """Give what starts a service on a free port and waits until it listens."""
    with contextlib.ExitStack() as kept:

        def started(*flags: str, workers: int = 1, **variables: str) -> Running:
            said: list[str] = []
            process = subprocess.Popen(
                [sys.executable, "-m", "selector", "serve", "--port", "0", "--workers", str(workers), *flags],
                stderr=subprocess.PIPE,
                text=True,
                cwd=ROOT,
                env={**os.environ, **variables},
            )
            reading = threading.Thread(target=lambda: said.extend(iter(process.stderr.readline, "")))  # type: ignore[union-attr]
            reading.start()
            kept.callback(_ended, process, reading)
            until(lambda: "".join(said).count("startup complete") == workers or process.poll() is not None)
            until(lambda: _STARTED.search("".join(said)) or process.poll() is not None)
            found = _STARTED.search("".join(said))
            assert found, "".join(said)
            return Running(process, said, int(found[1]))

        yield started


def _ended(process: subprocess.Popen[str], reading: threading.Thread) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    reading.join()
    if process.stderr is not None:
        process.stderr.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder of rules."""
    found = tmp_path / "rules"
    found.mkdir()
    (found / "ours.yaml").write_text(EDIT, encoding="utf-8")
    return found


def until(true: Callable[[], object], seconds: float = 20) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def read(sock: socket.socket) -> bytes:
    """Read one answer to its end, as its length says."""
    text = b""
    while b"\r\n\r\n" not in text:
        part = sock.recv(65_536)
        if not part:
            return text
        text += part
    head, _, body = text.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head.lower())
    while found and len(body) < int(found[1]):
        part = sock.recv(65_536)
        if not part:
            break
        body += part
    return head + b"\r\n\r\n" + body


# --- ending -------------------------------------------------------------------------------------------------------


def test_what_is_under_way_is_answered_before_it_ends(start: Start, tmp_path: Path) -> None:
    """With exit status 0, everything in the log, and nobody new let in."""
    service = start("--no-watch", "--log", str(tmp_path / "log.jsonl"))
    service.decided()
    with service.connect() as sock:
        sock.sendall(HEAD % len(BODY) + BODY[:10])
        time.sleep(0.2)
        service.process.send_signal(signal.SIGTERM)
        until(lambda: any("Shutting down" in line for line in service.said))
        sock.sendall(BODY[10:])

        told = read(sock)

    assert b" 200 OK" in told.split(b"\r\n")[0]
    assert service.process.wait(20) == 0
    with pytest.raises(OSError, match="refused"):
        service.connect()
    lines = (tmp_path / "log.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["decision"]["backend"] for line in lines] == ["FLASH_ATTN"] * 2
    assert "Traceback" not in "".join(service.said)


@pytest.mark.slow
def test_what_does_not_end_is_given_up(start: Start) -> None:
    """After some seconds, with exit status 0 all the same."""
    service = start("--no-watch")
    with service.connect() as sock:
        sock.sendall(HEAD % len(BODY) + BODY[:10])
        time.sleep(0.2)
        before = time.monotonic()

        status = service.end()

    assert status == 0
    assert time.monotonic() - before < 15


# --- starting -----------------------------------------------------------------------------------------------------


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    command = [sys.executable, "-m", "selector", "serve", "--port", "0", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=30)


def test_broken_rules_are_no_start(folder: Path) -> None:
    """They are told with their place, and the exit status is 2."""
    (folder / "ours.yaml").write_text(EDIT.replace("arch:", "arhc:"), encoding="utf-8")

    done = run("--rules", str(folder))

    assert done.returncode == 2
    assert f"{folder / 'ours.yaml'}:3:48: unknown-fact: no fact `arhc`" in done.stderr
    assert "hint: did you mean `arch`?" in done.stderr
    assert "Uvicorn" not in done.stderr


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    """Which packages are missing, and the command; here a Python without what is installed beside the product."""
    code = (
        "import importlib.util as u, sys; real = u.find_spec; "
        "u.find_spec = lambda name, *more: None if name in ('fastapi', 'uvicorn') else real(name, *more); "
        "from selector.command import main; sys.exit(main(['serve']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)

    assert done.returncode == 2
    assert "missing-package: wanted the packages of the extra `serve`, got no fastapi, uvicorn" in done.stderr
    assert "pip install 'attention-selector[serve]'" in done.stderr


def test_tls_is_spoken_with_the_certificate_that_is_given(start: Start, tmp_path: Path) -> None:
    """And nothing else."""
    cert, key = certificate(tmp_path)
    service = start("--no-watch", "--tls-cert", cert, "--tls-key", key)

    status, told = service.ask("POST", "/v1/decide", BODY, ssl.create_default_context(cafile=cert))

    assert (status, told["backend"]) == (200, "FLASH_ATTN")
    with pytest.raises(ssl.SSLCertVerificationError):
        service.ask("GET", "/healthz", context=ssl.create_default_context())
    with pytest.raises((http.client.HTTPException, OSError)):
        service.ask("GET", "/healthz")
    assert service.end() == 0


# --- rules --------------------------------------------------------------------------------------------------------


def test_an_edit_is_served_within_two_seconds_and_a_broken_one_is_not(start: Start, folder: Path) -> None:
    """The last good rules serve on, which `/readyz` tells."""
    service = start("--rules", str(folder))
    assert service.decided()["backend"] == "CUDNN_ATTN"

    (folder / "ours.yaml").write_text(NEWER, encoding="utf-8")
    until(lambda: service.decided()["backend"] == "TORCH_SDPA", 2)
    digest = service.decided()["digest"]
    (folder / "ours.yaml").write_text(EDIT.replace("arch:", "arhc:"), encoding="utf-8")
    until(lambda: service.ask("GET", "/readyz")[1]["outdated"], 2)

    told = service.decided()
    assert (told["backend"], told["digest"]) == ("TORCH_SDPA", digest)
    status, ready = service.ask("GET", "/readyz")
    assert (status, ready["status"], ready["digest"]) == (200, "ready", digest)
    assert "no fact `arhc`" in ready["outdated"]["problem"]
    (folder / "ours.yaml").write_text(EDIT, encoding="utf-8")
    until(lambda: service.decided()["backend"] == "CUDNN_ATTN", 2)
    assert service.decided()["outdated"] is None


def test_workers_count_together_and_serve_the_same(start: Start, folder: Path) -> None:
    """After an edit too; a signal ends all of them."""
    service = start("--rules", str(folder), workers=2)
    for _ in range(40):
        service.decided()

    def count() -> float:
        text = service.ask("GET", "/metrics")[1]
        found = re.findall(r'^attention_selector_requests_total\{.*path="/v1/decide".*\} (.*)$', text, re.MULTILINE)
        return sum(map(float, found))

    assert {count() for _ in range(8)} == {40}
    (folder / "ours.yaml").write_text(NEWER, encoding="utf-8")
    wanted = load_rules([folder]).digest
    time.sleep(2)
    assert {service.decided()["digest"] for _ in range(40)} == {wanted}
    children = [int(found[1]) for line in service.said if (found := re.search(r"Started server process \[(\d+)", line))]
    assert len(children) == 2

    assert service.end() == 0

    for child in children:
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)


# --- callers that misbehave ---------------------------------------------------------------------------------------


@contextlib.contextmanager
def many(service: Running, count: int, first: bytes) -> Iterator[list[socket.socket]]:
    """Open so many connections, and send something on each."""
    with contextlib.ExitStack() as kept:
        found = [kept.enter_context(service.connect()) for _ in range(count)]
        for sock in found:
            if first:
                sock.sendall(first)
        yield found


@pytest.mark.parametrize(
    ("count", "first"),
    [
        (300, b""), (300, b"POST /v1/decide HTT"),
        pytest.param(3000, b"", marks=pytest.mark.slow), pytest.param(3000, b"GET /", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_connections_that_ask_nothing_stop_nobody(start: Start, count: int, first: bytes) -> None:
    """Nor those that began to ask; requests alone count for `--max-connections`."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] < count + 200:
        pytest.skip(f"no more than {limits[1]} files may be open here")
    service = start("--no-watch", "--max-connections", "4")
    resource.setrlimit(resource.RLIMIT_NOFILE, (limits[1], limits[1]))
    try:
        with many(service, count, first):
            start_ = time.monotonic()
            for _ in range(20):
                assert service.decided()["backend"] == "FLASH_ATTN"
            assert time.monotonic() - start_ < 10
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)


def test_requests_that_are_half_there_count_until_they_end(start: Start) -> None:
    """More than `--max-connections` are refused by 503, all but those about health; then it goes on."""
    service = start("--no-watch", "--max-connections", "4")
    with many(service, 4, HEAD % len(BODY)) as socks:
        until(lambda: service.ask("GET", "/v1/schemas")[0] == 503)
        assert service.ask("POST", "/v1/decide", BODY)[0] == 503
        assert service.ask("GET", "/healthz")[0] == 200
        for sock in socks:
            sock.sendall(BODY)
            assert b" 200 OK" in read(sock)
        assert service.decided()["backend"] == "FLASH_ATTN"


def test_a_head_without_end_is_refused(start: Start) -> None:
    """By 431, before much of it is kept."""
    service = start("--no-watch")
    with service.connect() as sock:
        with contextlib.suppress(OSError):
            sock.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: " + b"a" * 1_000_000)

        with contextlib.suppress(ConnectionError):
            told = read(sock)
            assert told.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
            assert json.loads(told.partition(b"\r\n\r\n")[2])["code"] == "head-too-large"
    assert service.decided()["backend"] == "FLASH_ATTN"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "drop", "said"),
    [
        (HEAD % 100_000, b" ", "wanted the whole body within 10 seconds"),
        (b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx: ", b"a", "wanted the head of a request within 10 seconds"),
    ],
)
def test_who_drips_is_cut_off(start: Start, first: bytes, drop: bytes, said: str) -> None:
    """By 408 after ten seconds, while others are answered."""
    service = start("--no-watch", "--max-connections", "4")
    with many(service, 3, first) as socks:
        begin = time.monotonic()
        longest = 0.0
        while time.monotonic() - begin < 9.5:
            for sock in socks:
                sock.sendall(drop)
            asked = time.monotonic()
            assert service.decided()["backend"] == "FLASH_ATTN"
            longest = max(longest, time.monotonic() - asked)
            time.sleep(0.1)
        told = [read(sock) for sock in socks]

        assert 9 < time.monotonic() - begin < 14
    assert longest < 2
    for one in told:
        head, _, body = one.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert b"connection: close" in head
        assert json.loads(body)["detail"] == said


@pytest.mark.slow
def test_who_reads_nothing_of_its_answers_is_cut_off(start: Start) -> None:
    """So that what waits to be read does not stay in memory."""
    service = start("--no-watch")
    batch = json.dumps({"facts": CPU, "requests": [None] * 10_000}).encode()
    with service.connect() as sock:
        sock.sendall(HEAD % len(batch) + batch)
        whole = len(read(sock))
        for _ in range(8):
            sock.sendall(HEAD % len(batch) + batch)
        time.sleep(22)
        size = 0
        with contextlib.suppress(ConnectionResetError):
            while part := sock.recv(1 << 20):
                size += len(part)

    assert size < 8 * whole
    assert service.decided()["backend"] == "FLASH_ATTN"


def test_a_conversation_goes_on_over_one_connection(start: Start) -> None:
    """Requests one after the other, several sent at once, and a body that comes later than its head."""
    service = start("--no-watch")
    with service.connect() as sock:
        for _ in range(5):
            sock.sendall(HEAD % len(BODY))
            time.sleep(0.02)
            sock.sendall(BODY)
            assert b" 200 OK" in read(sock)
        sock.sendall((HEAD % len(BODY) + BODY) * 3)
        text = b""
        while text.count(b'"outdated": null}') < 3:
            text += sock.recv(65_536)
        large = json.dumps({"facts": CPU, "requests": [{"head_dim": at} for at in range(1, 9_000)]}).encode()
        for _ in range(2):
            sock.sendall(HEAD % len(large) + large)
            assert b" 200 OK" in read(sock)
        sock.sendall(b"nonsense\r\n\r\n")
        assert read(sock).startswith(b"HTTP/1.1 400 Bad Request\r\n")
        assert sock.recv(1) == b""

    assert text.count(b"HTTP/1.1 200 OK") == 3
