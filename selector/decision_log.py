"""The decision log: one JSON line for each decision, with all that is needed to decide again."""

from __future__ import annotations

import datetime as dt
import itertools
import threading
from collections.abc import Iterable
from pathlib import Path

from selector.closing import Closing
from selector.decision import Decision
from selector.forks import hold_still
from selector.line_files import CutOffError, LineFile, RotatedFile
from selector.log_lines import LineWriter, LogLine


class DecisionLog(Closing):
    """Appends decisions to a file of JSON lines; threads may share it, and processes the file.

    Lines are added to the end of the file by one write, so that they never mix where the file system appends as POSIX
    says (a local one). With `most_bytes` the file is put aside as ``.1`` before it grows larger, the one before as
    ``.2``, and so on; `kept` of them are kept. All processes that write to the file must then say so.

    Making it raises `OSError` when the file cannot be opened. Afterwards nothing is raised: a line that cannot be
    written is counted in `dropped`, and `last_error` says why, or why the file could not be put aside.
    """

    def __init__(self, path: str | Path, *, most_bytes: int | None = None, kept: int = 5) -> None:
        """Open the file, or make it. Raises `ValueError` for bounds that leave nothing."""
        for name, bound in (("most_bytes", most_bytes), ("kept", kept)):
            if bound is not None and bound < 1:
                raise ValueError(f"`{name}`: wanted an integer of at least 1, got {bound}")
        self.path = Path(path)
        self.dropped = 0
        self.last_error: OSError | None = None
        self._lock = threading.Lock()
        self._writer = LineWriter()
        self._file = (
            LineFile(self.path) if most_bytes is None else RotatedFile(self.path, most_bytes, kept, self._failed)
        )
        hold_still(self)

    def _failed(self, error: OSError) -> None:
        self.last_error = error

    def write(self, decision: Decision) -> None:
        """Write one line, unless the decision has no inputs (what was asked was not valid): it cannot be made again."""
        if decision.inputs is not None:
            self.write_lines([self._writer.line(decision, dt.datetime.now(tz=dt.UTC))])

    def write_lines(self, lines: Iterable[LogLine]) -> None:
        """Write lines that were made already."""
        rest = iter(lines)
        while some := list(itertools.islice(rest, self._file.together)):
            data = "".join([f"{line.text}\n" for line in some]).encode()
            with self._lock:
                try:
                    self._file.append(data)
                except OSError as error:
                    self.dropped += len(some) - (error.whole if isinstance(error, CutOffError) else 0)
                    self._failed(error)

    def close(self) -> None:
        """Close the file; what is written later is dropped."""
        with self._lock:
            self._file.close()

    def before_fork(self) -> None:
        """Hold still."""
        self._lock.acquire()

    def after_fork(self, *, child: bool) -> None:  # noqa: ARG002 - a child goes on as its parent does
        """Go on."""
        self._lock.release()
