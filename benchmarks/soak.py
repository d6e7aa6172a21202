"""The service under a mixed load for some minutes, while its rules change every second and a third of them are broken.

``python -m benchmarks.soak [--minutes 5] [--markdown FILE]``. Callers ask for single decisions and batches, each
again once it is answered; others for explanations, rules and metrics, and send what is no request at all. It fails
where a status of 500 or above is answered (503 of the stated limit aside), where a digest is none of the good rule
sets or a decision is not the one of its digest, where a batch does not answer each request, where the log could not
take a decision, and where the memory of the service at the end is over that after the first 30 seconds by more than 5
%.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from benchmarks import load
from benchmarks.environment import heading
from selector.lines import Lines
from selector.ruleset import RuleSet, load_rules

SETTLED = 30.0
"""Seconds after which the memory is held to."""
GROWTH = 1.05
_SEED = 20_264
_EDIT = """\
table: platform_default
edits:
- {id: ours, before: hopper-flash-attn, when: {arch: sm_90}, use: TARGET, because: Measured.}
"""
GOOD = tuple(_EDIT.replace("TARGET", name) for name in ("CUDNN_ATTN", "TORCH_SDPA"))
BROKEN = (_EDIT.replace("arch", "arhc"), "table: [", _EDIT.replace("TARGET", "NOTHING"))
NONSENSE = (
    b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET /healthz HTTP/1.1\r\nhost: a b\r\n\r\n",
    load.request("/v1/decide", b"{"), load.request("/v1/decide", b"[" * 5000), load.request("/v1/decide", b"\xff"),
    load.request("/v1/decide", b"{}", content_type="text/html"), load.request("/v1/nothing", method="GET"),
    load.request("/v1/decide", method="DELETE"), load.request("/v1/decide", b'{"facts": {"platform": 1}}'),
    load.request("/v1/decide", b"{}", host="evil.example"), load.request("/v1/rules/reload"),
    load.request("/v1/diff", b'{"rules": "rows: []"}'), load.request("/v1/explain", b'{"why_not": 1}'),
)  # fmt: skip
TOKEN = "soak"  # noqa: S105 - of this run
_READ = (
    "/v1/rules", "/v1/rules/call", "/v1/schemas", "/v1/backends", "/healthz", "/readyz", "/metrics", "/openapi.json",
)  # fmt: skip
_OVERLOADED = 503
_OK = 200
_FAILED = 500


@dataclass
class Soak:
    """What was answered, and what was wrong with it."""

    port: int
    process: int
    folder: Path
    lines: Sequence[dict[str, Any]]
    batches: Sequence[dict[str, Any]]
    known: Mapping[str, Lines]
    end: float
    statuses: Counter[str] = field(default_factory=Counter)
    digests: Counter[str] = field(default_factory=Counter)
    reloads: Counter[str] = field(default_factory=Counter)
    decisions: int = 0
    faults: list[str] = field(default_factory=list)
    memory: list[tuple[float, float]] = field(default_factory=list)
    slowest: float = 0.0
    dropped: int = 0

    def note(self, what: str, answer: load.Answered) -> bool:
        """Count an answer; gives whether it is one of 200."""
        self.statuses[f"{what}: {answer.status}"] += 1
        self.slowest = max(self.slowest, answer.seconds)
        if answer.status >= _FAILED and answer.status != _OVERLOADED:
            self.faults.append(f"{what}: {answer.status}: {answer.body[:200].decode(errors='replace')}")
        return answer.status == _OK

    def held(self, asked: Mapping[str, Any], told: Mapping[str, Any], digest: str) -> None:
        """Hold a decision to the rules whose digest it names."""
        self.decisions += 1
        lines = self.known.get(digest)
        if lines is None:
            self.faults.append(f"a digest of no good rules: {digest}")
            return
        wanted = lines.decide(asked)
        if (wanted.backend, wanted.rule) != (told["backend"], told["rule"]):
            self.faults.append(f"{json.dumps(asked)}: wanted {wanted.backend} by {wanted.rule}, got {told}")

    # --- callers ---

    async def singles(self, seed: int) -> None:
        """Ask for one decision after the other."""
        async for asked, told in self._decided("decide", self.lines, seed):
            self.held(asked, told, told["digest"])

    async def many(self, seed: int) -> None:
        """Ask for batches, and see that each is of one rule set."""
        async for asked, told in self._decided("decide, a batch", self.batches, seed):
            if len(told["decisions"]) != len(asked["requests"]):
                self.faults.append(f"a batch of {len(asked['requests'])} has {len(told['decisions'])} answers")
            for request, one in zip(asked["requests"], told["decisions"], strict=False):
                self.held({"facts": asked["facts"], "request": request}, one, told["digest"])
                await asyncio.sleep(0)

    async def _decided(
        self, what: str, questions: Sequence[Mapping[str, Any]], seed: int
    ) -> AsyncIterator[tuple[Mapping[str, Any], dict[str, Any]]]:
        """Ask one question after the other, and give those that are answered with their answers."""
        caller, dice = load.Caller(self.port), Random(_SEED + seed)  # noqa: S311 - no secret
        while time.monotonic() < self.end:
            asked = dice.choice(questions)
            answer = await caller.send(load.request("/v1/decide", json.dumps(asked).encode()))
            if self.note(what, answer):
                told = json.loads(answer.body)
                self.digests[told["digest"]] += 1
                yield asked, told
        caller.close()

    async def explained(self) -> None:
        """Ask for explanations, and what else keeps a processor busy."""
        caller, dice = load.Caller(self.port), Random(_SEED)  # noqa: S311 - no secret
        while time.monotonic() < self.end:
            asked = {key: value for key, value in dice.choice(self.lines).items() if key not in ("id", "expect")}
            self.note("explain", await caller.send(load.request("/v1/explain", json.dumps(asked).encode())))
            text = json.dumps({"rules": dice.choice([*GOOD, *BROKEN]), "config": "default: TORCH_SDPA\n"}).encode()
            self.note("validate", await caller.send(load.request("/v1/validate", text)))
            await asyncio.sleep(0.2)
        caller.close()

    async def reading(self) -> None:
        """Ask for everything that is only read."""
        caller = load.Caller(self.port)
        for path in itertools.cycle(_READ):
            if time.monotonic() >= self.end:
                break
            self.note("read", await caller.send(load.request(path, method="GET")))
            await asyncio.sleep(0.02)
        caller.close()

    async def nonsense(self) -> None:
        """Send what is wrong in all ways, half requests among it."""
        for raw in itertools.cycle([*NONSENSE, b"POST /v1/dec", load.request("/v1/decide", b"{}")[:-1]]):
            if time.monotonic() >= self.end:
                break
            caller = load.Caller(self.port)
            try:
                answer = await asyncio.wait_for(caller.send(raw), 0.5)
            except (TimeoutError, asyncio.IncompleteReadError, ConnectionError):
                self.statuses["nonsense: hung up"] += 1
            else:
                self.note("nonsense", answer)
                if answer.status == _OK:
                    self.faults.append(f"nonsense is answered: {raw!r}")
            caller.close()
            await asyncio.sleep(0.02)

    async def changing(self) -> None:
        """Change the rules every second, and let them be read again; a third of them is broken."""
        caller, dice = load.Caller(self.port), Random(_SEED)  # noqa: S311 - no secret
        raw = load.request("/v1/rules/reload", b"", authorization=f"Bearer {TOKEN}")
        for at in itertools.count():
            if time.monotonic() >= self.end:
                break
            text = dice.choice(BROKEN) if at % 3 == 2 else GOOD[at % 2]  # noqa: PLR2004 - each third
            beside = self.folder / "ours.tmp"
            beside.write_text(text, encoding="utf-8")
            beside.replace(self.folder / "ours.yaml")
            answer = await caller.send(raw)
            self.reloads[json.loads(answer.body).get("outcome", str(answer.status))] += 1
            await asyncio.sleep(1)
        caller.close()

    async def weighing(self) -> None:
        """Take note of the memory of the service."""
        start = time.monotonic()
        while time.monotonic() < self.end:
            self.memory.append((time.monotonic() - start, load.memory(self.process)))
            await asyncio.sleep(1)

    async def all_of_it(self) -> None:
        """Let all of them go on together."""
        callers: list[Callable[[], Any]] = [self.explained, self.reading, self.nonsense, self.changing, self.weighing]
        await asyncio.gather(
            *(one() for one in callers), *(self.singles(at) for at in range(4)), *(self.many(at) for at in (10, 11))
        )

    def grown(self) -> tuple[float, float]:
        """Give the memory after the first half minute and at the end, each a median of ten seconds."""
        after = [size for at, size in self.memory if at >= min(SETTLED, self.memory[-1][0] / 2)]
        return sorted(after[:10])[len(after[:10]) // 2], sorted(after[-10:])[len(after[-10:]) // 2]


def run(minutes: float) -> Soak:
    """Run all of it."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "rules"
        folder.mkdir()
        known: dict[str, Lines] = {}
        for text in reversed(GOOD):
            (folder / "ours.yaml").write_text(text, encoding="utf-8")
            rules: RuleSet = load_rules([folder])
            known[rules.digest] = Lines(rules)
        flags = ("--rules", str(folder), "--log", str(Path(name) / "log.jsonl"))
        some = [load.batch(count, count) for count in (10, 100, 500)]
        with load.serving(*flags, ATTENTION_SELECTOR_TOKEN=TOKEN) as (port, process):
            soak = Soak(port, process, folder, load.lines(5_000), some, known, time.monotonic() + 60 * minutes)
            asyncio.run(soak.all_of_it())
            soak.dropped = load.dropped(port)
        if soak.dropped:
            soak.faults.append(f"the log could not take {soak.dropped:,} decisions")
    before, after = soak.grown()
    if after > before * GROWTH:
        soak.faults.append(f"memory: {before:.1f} MiB after {SETTLED:g} seconds, {after:.1f} MiB at the end")
    return soak


def page(soak: Soak, minutes: float) -> str:
    """Write what came of it."""
    before, after = soak.grown()
    rows = [
        ("minutes", f"{minutes:g}"),
        ("requests", f"{sum(soak.statuses.values()):,}, {sum(soak.statuses.values()) / minutes / 60:,.0f} a second"),
        ("decisions, each held to the rules of its digest", f"{soak.decisions:,}"),
        ("digests", ", ".join(f"{digest[:12]} {count:,} times" for digest, count in soak.digests.items())),
        ("reloads", ", ".join(f"{count} {name}" for name, count in sorted(soak.reloads.items()))),
        ("memory after half a minute, at the end", f"{before:.1f}, {after:.1f} MiB ({after / before - 1:+.1%})"),
        ("decisions that the log could not take", f"{soak.dropped:,}"),
        ("slowest answer", f"{soak.slowest:.2f} s"),
        ("faults", str(len(soak.faults))),
    ]  # fmt: skip
    table = "\n".join(f"| {name} | {value} |" for name, value in rows)
    statuses = "\n".join(f"| {name} | {count:,} |" for name, count in sorted(soak.statuses.items()))
    return f"| what | |\n|---|---|\n{table}\n\n| what was asked: status | answers |\n|---|---|\n{statuses}\n"


def main() -> int:
    """Run the command; gives the exit status."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description="The service under a mixed load")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--markdown", metavar="FILE", help="write what came of it as a page")
    options = parser.parse_args()
    busy = os.getloadavg()[0]
    soak = run(options.minutes)
    found = page(soak, options.minutes)
    print(found)
    if options.markdown:
        cores = f"- cores: {len(os.sched_getaffinity(0))}, of which other work kept {busy:.1f} busy before\n"
        text = f"{heading('The service under a mixed load')}{cores}\n{found}"
        Path(options.markdown).write_text(text, encoding="utf-8")
    for fault in soak.faults[:50]:
        print(fault, file=sys.stderr)
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
