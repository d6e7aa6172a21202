"""What `/metrics` tells: requests, decisions, reloads, and the log, for Prometheus."""

from __future__ import annotations

import os
import threading
from collections import Counter as Counts
from collections.abc import Iterable
from operator import attrgetter
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

if TYPE_CHECKING:
    from selector.decision import Decision
    from selector.queued_log import QueuedLog
    from selector.reloading import Reload

FOLDER_VARIABLE = "PROMETHEUS_MULTIPROC_DIR"
"""Where worker processes share what they count; each of them answers for all then."""
_OUTCOME = attrgetter("backend", "source", "error")
_PREFIX = "attention_selector_"
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Counts of one service, in a registry of its own."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.registry = CollectorRegistry()
        self._log: QueuedLog | None = None
        self._dropped = 0  # of the log, and counted already
        self._looking = threading.Lock()
        self.requests = self._counter("requests", "Requests that were answered.", "method", "path", "status")
        self.decisions = self._counter("decisions", "Decisions that were made.", "backend", "source", "error")
        self.reloads = self._counter("reloads", "Times that the rules were read again.", "outcome")
        self.dropped = self._counter("log_dropped", "Decisions that the log could not take.")
        self.queued = Gauge(
            f"{_PREFIX}log_queued",
            "Decisions that wait to be written to the log.",
            multiprocess_mode="livesum",
            registry=self.registry,
        )
        self.seconds = Histogram(
            f"{_PREFIX}request_seconds",
            "Time from a request's head to its answer.",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.outdated = Gauge(
            f"{_PREFIX}rules_outdated",
            "1 while newer rules are refused.",
            multiprocess_mode="max",
            registry=self.registry,
        )

    def _counter(self, name: str, about: str, *labels: str) -> Counter:
        return Counter(f"{_PREFIX}{name}", about, labels, registry=self.registry)

    def decided(self, decisions: Iterable[Decision]) -> None:
        """Count some decisions."""
        for (backend, source, error), count in Counts(map(_OUTCOME, decisions)).items():
            self.decisions.labels(backend or "none", source or "none", error.code if error else "none").inc(count)
        self._look_at_log()

    def reloaded(self, reload: Reload) -> None:
        """Count a reload."""
        self.reloads.labels(reload.outcome).inc()
        self.outdated.set(reload.outcome == "refused")

    def watch_log(self, log: QueuedLog) -> None:
        """Tell of a log whenever this is asked."""
        self._log = log

    def _look_at_log(self) -> None:
        log = self._log
        if log is None:
            return
        with self._looking:
            dropped = log.dropped
            self.dropped.inc(dropped - self._dropped)
            self._dropped = dropped
        self.queued.set(log.queued)

    def text(self) -> bytes:
        """Give all of it as Prometheus reads it, of every worker process where there are several."""
        self._look_at_log()
        if FOLDER_VARIABLE not in os.environ:
            return generate_latest(self.registry)
        registry = CollectorRegistry()
        MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
