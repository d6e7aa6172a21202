"""The service as a process, callers that keep it busy over plain sockets, and what they ask."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from benchmarks.start import ROOT, different_lines
from selector.lines import Lines
from selector.ruleset import RuleSet, shipped

CONNECTIONS = 16
_SEED = 20_263
_PORT = re.compile(rb"Uvicorn running on http://127\.0\.0\.1:(\d+)")
# A route that does what every endpoint does at the least: read a JSON body, write a JSON answer.
_BARE = """
import json
import uvicorn
from fastapi import FastAPI, Request, Response
app = FastAPI()
@app.post("/v1/decide")
async def route(request: Request) -> Response:
    return Response(json.dumps({"id": json.loads(await request.body()).get("id")}), media_type="application/json")
uvicorn.run(app, port=0, access_log=False)
"""


class Answered(NamedTuple):
    """An answer: its status and body, and how long it took from the first byte sent."""

    status: int
    body: bytes
    seconds: float


class Caller:
    """One connection that is kept alive."""

    def __init__(self, port: int) -> None:
        """Take note of where."""
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, raw: bytes) -> Answered:
        """Send a request as it is, and read the answer; a connection that the other side closed is opened again."""
        start = time.perf_counter()
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 20)
        reader, writer = self.streams
        writer.write(raw)
        head = await reader.readuntil(b"\r\n\r\n")
        lower = head.lower()
        found = re.search(rb"\r\ncontent-length: (\d+)", lower)
        body = await reader.readexactly(int(found[1])) if found else b""
        if b"\r\nconnection: close" in lower:
            self.close()
        return Answered(int(head[9:12]), body, time.perf_counter() - start)

    def close(self) -> None:
        """Hang up."""
        if self.streams is not None:
            self.streams[1].close()
            self.streams = None


def request(path: str, body: bytes | None = None, method: str = "POST", **headers: str) -> bytes:
    """Write a request."""
    told = {"host": "localhost", "content_type": "application/json", "content_length": str(len(body or b"")), **headers}
    head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in told.items())
    return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + (body or b"")


@contextlib.contextmanager
def serving(*flags: str, **variables: str) -> Iterator[tuple[int, int]]:
    """Give the port and the process of a service with one worker, which ends afterwards."""
    with _started([sys.executable, "-m", "selector", "serve", "--port", "0", *flags], variables) as found:
        yield found


@contextlib.contextmanager
def bare() -> Iterator[tuple[int, int]]:
    """Give the port and the process of the bare route."""
    with _started([sys.executable, "-c", _BARE], {}) as found:
        yield found


@contextlib.contextmanager
def _started(command: Sequence[str], variables: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    process = subprocess.Popen(command, stdout=write, stderr=write, cwd=ROOT, env={**os.environ, **variables})
    os.close(write)
    try:
        said = b""
        while not (found := _PORT.search(said)):
            part = os.read(read, 65_536)
            if not part:
                raise SystemExit(said.decode())
            said += part
        threading.Thread(target=_drained, args=(read,), daemon=True).start()
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait()


def _drained(read: int) -> None:
    """Let a process say what it likes, which would wait otherwise until somebody has read it."""
    while os.read(read, 65_536):
        pass
    os.close(read)


# --- what is asked ------------------------------------------------------------------------------------------------


def lines(count: int, rules: RuleSet | None = None) -> list[dict[str, Any]]:
    """Give so many valid lines of the conformance cases with facts drawn at random, no two of which ask the same."""
    answers = Lines(rules or shipped())
    found: list[dict[str, Any]] = []
    for line in different_lines(10 * count):
        error = answers.decide(line).error
        if error is None or error.code == "refused":
            found.append(line)
            if len(found) == count:
                break
    return found


def batch(count: int, seed: int = 0) -> dict[str, Any]:
    """Give one machine and so many requests of the conformance cases with sizes drawn at random, all different."""
    dice = Random(_SEED + seed)  # noqa: S311 - no secret
    cases = [line for line in lines(500) if isinstance(line.get("request"), dict)]
    answers = Lines(shipped())
    facts = dice.choice(cases)["facts"]
    found: dict[str, dict[str, Any]] = {}
    while len(found) < count:
        asked = json.loads(json.dumps(dice.choice(cases)["request"]))
        asked["head_dim"] = 8 * dice.randrange(1, 65)
        if isinstance(asked.get("call"), dict):
            asked["call"] |= {name: dice.randrange(1, 100_000) for name in ("seq_len_q", "seq_len_kv")}
        else:
            asked["num_heads"] = asked["num_kv_heads"] = dice.randrange(1, 5_000)
        error = answers.decide({"facts": facts, "request": asked}).error
        if error is None or error.code == "refused":
            found[json.dumps(asked)] = asked
    return {"facts": facts, "requests": [*found.values()]}


def dropped(port: int) -> int:
    """Give how many decisions the log of a service could not take."""
    return metric(port, "log_dropped_total")


def metric(port: int, name: str) -> int:
    """Give a count of a service's metrics."""
    metrics = asyncio.run(Caller(port).send(request("/metrics", method="GET"))).body.decode()
    found = re.findall(rf"^attention_selector_{name} (\S+)$", metrics, re.MULTILINE)
    return int(sum(map(float, found)))


def memory(process: int) -> float:
    """Give the MiB of memory that a process holds."""
    text = Path(f"/proc/{process}/status").read_text(encoding="utf-8")
    return int(re.findall(r"VmRSS:\s+(\d+) kB", text)[0]) / 1024
