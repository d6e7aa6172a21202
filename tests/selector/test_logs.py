"""The log lines: through structlog, each distinct decision once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import structlog

from selector import logs
from tests.selector.conftest import CPU, FA2, HUB, SAGE2, cuda, decide


@pytest.fixture(autouse=True)
def lines() -> Iterator[list[MutableMapping[str, Any]]]:
    """Collect what is logged, with nothing remembered from before."""
    logs.forget()
    with structlog.testing.capture_logs() as captured:
        yield captured
    logs.forget()


def test_a_decision_is_a_line_and_its_warnings(lines: list[MutableMapping[str, Any]]) -> None:
    """The line at `info`, each warning at `warning`, with the facts of where they come from."""
    decision = decide(
        cuda("sm_120", HUB), {"role": "ltx2.audio_to_video"}, config={"per_role": {"cross": "FLASH_ATTN_HUB"}}
    )

    logs.announce(decision)

    assert lines == [
        {
            "event": "Using diffusion attention backend 'FLASH_ATTN_HUB'",
            "log_level": "info",
            "role": "ltx2.audio_to_video",
            "source": "category",
            "origin": "config",
            "rule": "explicit/able",
        },
        {
            "event": decision.warnings[0],
            "log_level": "warning",
            "role": "ltx2.audio_to_video",
            "backend": "FLASH_ATTN_HUB",
        },
    ]


def test_an_equal_decision_is_logged_once(lines: list[MutableMapping[str, Any]]) -> None:
    """Not once per layer, nor once per role that gets the same."""
    for role in ("self", "cross", "self"):
        logs.announce(decide(CPU, {"role": role}))

    assert [line["event"] for line in lines] == ["Defaulting to diffusion attention backend SDPA"]


def test_another_decision_is_another_line(lines: list[MutableMapping[str, Any]]) -> None:
    """By another row, from another entry, by another build, with other warnings or other rules."""
    decision = decide(cuda("sm_90", FA2))
    for changed in (
        {},
        {"rule": "platform_default/other"},
        {"source": "role"},
        {"provider": "fa3"},
        {"warnings": ("careful",)},
        {"digest": "0"},
        {"log": "Another line"},
    ):
        logs.announce(dataclasses.replace(decision, **changed))

    assert [line["event"] for line in lines] == [decision.log] * 5 + ["careful", decision.log, "Another line"]


def test_an_error_is_not_logged(lines: list[MutableMapping[str, Any]]) -> None:
    """It is raised or written instead."""
    logs.announce(decide(CPU, backend="SAGE_ATTN"))
    logs.announce(decide(CPU, {"head_dim": 0}))

    assert lines == []


def test_what_is_forgotten_is_logged_again(lines: list[MutableMapping[str, Any]]) -> None:
    """All of it at once, or the oldest when there are too many."""
    decision = decide(CPU)

    logs.announce(decision)
    logs.forget()
    logs.announce(decision)

    assert len(lines) == 2


def test_the_memory_is_bounded(lines: list[MutableMapping[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was announced longest ago goes first; hearing of one again counts as announcing it."""
    monkeypatch.setattr(logs, "_MOST_REMEMBERED", 2)
    first, second, third = (decide(cuda(arch, SAGE2), backend="SAGE_ATTN") for arch in ("sm_80", "sm_86", "sm_89"))
    first, second, third = (
        dataclasses.replace(decision, log=name) for decision, name in ((first, "1"), (second, "2"), (third, "3"))
    )

    for decision in (first, second, first, third, first, second):
        logs.announce(decision)

    assert [line["event"] for line in lines] == ["1", "2", "3", "2"]


def test_threads_log_a_decision_once(lines: list[MutableMapping[str, Any]]) -> None:
    """However many of them announce it."""
    decision = decide(CPU)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(logs.announce, [decision] * 64))

    assert len(lines) == 1
