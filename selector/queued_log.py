"""A decision log off the path of requests: handing a decision over costs next to nothing, and a thread writes it."""

from __future__ import annotations

import atexit
import collections
import datetime as dt
import functools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence

from selector.alike import Decided
from selector.closing import Closing
from selector.decision import Decision
from selector.decision_logs import Log
from selector.forks import hold_still
from selector.log_lines import LineWriter, LogLine

_BATCH = 1_000
_TOGETHER = 25
_Entry = tuple[Decided, dt.datetime]
_now = functools.partial(dt.datetime.now, dt.UTC)


class QueuedLog(Closing):
    """Hands decisions to a thread that writes them to another log; any number of threads may write.

    `write` never waits and never raises: it puts the decision itself on a queue of at most `most`, and its line is made
    by the thread, which writes what there is every `flush` seconds, and sooner where the queue fills. `dropped` counts
    what found the queue full, what the log could not write, and what `close` had no time for.

    The log given is the queue's to write and to close. A process that forks keeps its queue; its child begins with an
    empty one.
    """

    def __init__(self, log: Log, most: int = 10_000, *, flush: float = 0.5) -> None:
        """Hold the log; the thread begins with the first decision. Raises `ValueError` where nothing could be held."""
        if most < 1:
            raise ValueError(f"`most`: wanted an integer of at least 1, got {most}")
        self.log = log
        self.most = most
        self.interval = flush
        self._failure: Exception | None = None
        self._lost = 0
        self._writer = LineWriter()
        self._closing = False
        self._ended = False
        self._begin_again()
        hold_still(self)

    def _begin_again(self) -> None:
        self._queue: collections.deque[_Entry] = collections.deque()
        self._writing = 0  # decisions that the thread took and has not written yet
        self._counting = threading.Lock()
        self._wake = threading.Event()
        self._thread: threading.Thread | None = None

    # --- what callers meet ---

    def write(self, decision: Decision) -> None:
        """Hand a decision over, unless it has no inputs (what was asked was not valid): it cannot be made again."""
        self.write_all([Decided(decision)])

    def write_all(self, decided: Iterable[Decided]) -> None:
        """Hand over what was decided at one time; what has no inputs is left out."""
        queue, at = self._queue, _now()
        some = [(one, at) for one in decided if one.first.inputs is not None]
        room = 0 if self._closing else max(self.most - len(queue), 0)
        queue.extend(some[:room])
        if len(some) > room:
            self._lose(len(some) - room)
        if not room or not some:
            return
        if self._thread is None:
            self._begin()
        elif self._ended:
            self._lose_rest()
        if 2 * len(queue) >= self.most and not self._wake.is_set():
            self._wake.set()

    def write_lines(self, lines: Iterable[LogLine]) -> None:
        """Write lines that were made already, at once and not by the thread."""
        self.log.write_lines(lines)

    @property
    def queued(self) -> int:
        """How many decisions are not written yet."""
        return len(self._queue) + self._writing

    @property
    def dropped(self) -> int:
        """How many decisions have no line in the log, and will have none."""
        return self._lost + self.log.dropped

    @property
    def last_error(self) -> Exception | None:
        """Why the last line was not written that the log or the thread failed at."""
        return self._failure or self.log.last_error

    def close(self, timeout: float = 5.0) -> int:
        """Write what is queued, for so many seconds at most, and close the log; give how many were left.

        Where some are left the log did not answer in time: those on the queue are dropped, those that the thread holds
        may still be written, and the thread closes the log afterwards.
        """
        self._closing = True
        self._wake.set()
        atexit.unregister(self.close)
        if self._thread is None:
            self._end()
        else:
            self._thread.join(timeout)
        return self._writing + self._lose_rest()

    def _lose(self, count: int) -> None:
        with self._counting:
            self._lost += count

    def _begin(self) -> None:
        with self._counting:
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="decision log queue", daemon=True)
                self._thread.start()
                atexit.register(self.close)

    def _lose_rest(self) -> int:
        left = len(self._take(len(self._queue)))
        self._lose(left)
        return left

    # --- the thread ---

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(self.interval)
            self._wake.clear()
            self._drain()
        self._drain()  # what came while closing was set
        self._end()

    def _end(self) -> None:
        try:
            self.log.close()
        except Exception as error:  # noqa: BLE001 - a log that breaks its word must not break the process
            self._failure = error
        self._ended = True
        self._lose_rest()

    def _drain(self) -> None:
        while batch := self._take(_BATCH):
            self._writing = len(batch)
            try:
                self.log.write_lines(self._lines(batch))
            except Exception as error:  # noqa: BLE001 - the same
                self._failure = error
                self._lose(len(batch))
            self._writing = 0

    def _take(self, most: int) -> Sequence[_Entry]:
        taken: list[_Entry] = []
        try:
            while len(taken) < most:
                taken.append(self._queue.popleft())
        except IndexError:  # it is empty, or somebody else took the rest
            pass
        return taken

    def _lines(self, batch: Sequence[_Entry]) -> Iterator[LogLine]:
        """Make lines; while few wait, who decides goes first: the interpreter is let go after some of them."""
        for place, (decided, at) in enumerate(batch):
            try:
                line = self._writer.line_of(decided, at)
            except Exception as error:  # noqa: BLE001 - one decision that cannot be written costs no other its line
                self._failure = error
                self._lose(1)
            else:
                yield line
            if place % _TOGETHER == 0 and 4 * len(self._queue) < self.most:
                time.sleep(0)

    # --- forks ---

    def before_fork(self) -> None:
        """Hold still."""
        self._counting.acquire()

    def after_fork(self, *, child: bool) -> None:
        """Go on; what is queued is the parent's to write."""
        self._counting.release()
        if child:
            self._begin_again()
