"""The decision log: one JSON line for each decision, with all that is needed to decide again."""

from __future__ import annotations

import datetime as dt
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selector.closing import Closing
from selector.decision import Decision
from selector.forks import hold_still
from selector.line_files import LineFile, RotatedFile
from selector.tracing import Walk

if TYPE_CHECKING:
    from selector.config import AttentionSpec


class DecisionLog(Closing):
    """Appends decisions to a file of JSON lines; threads may share it, and processes the file.

    Each line is one write to the end of the file, so that lines never mix where the file system appends as POSIX says
    (a local one). With `most_bytes` the file is put aside as ``.1`` before it grows larger, the one before as ``.2``,
    and so on; `kept` of them are kept. All processes that write to the file must then say so.

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
        self._file = (
            LineFile(self.path) if most_bytes is None else RotatedFile(self.path, most_bytes, kept, self._failed)
        )
        hold_still(self)

    def _failed(self, error: OSError) -> None:
        self.last_error = error

    def write(self, decision: Decision) -> None:
        """Write one line, unless the decision has no inputs (what was asked was not valid): it cannot be made again."""
        if decision.inputs is not None:
            self.write_lines([line_of(decision, dt.datetime.now(tz=dt.UTC))])

    def write_lines(self, lines: Iterable[Mapping[str, object]]) -> None:
        """Write lines that were made already."""
        for line in lines:
            text = json.dumps(line, allow_nan=False)
            with self._lock:
                try:
                    self._file.append(text.encode() + b"\n")
                except OSError as error:
                    self.dropped += 1
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


def line_of(decision: Decision, at: dt.datetime) -> dict[str, object]:
    """Give the line of a decision as plain data; `at` is a time in UTC. Raises `ValueError` without inputs."""
    inputs = decision.inputs
    if inputs is None:
        raise ValueError("wanted a decision with its inputs, got one whose input was not valid")
    request, choices = inputs.request, inputs.choices
    return {
        "at": at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        "digest": decision.digest,
        "facts": dict(inputs.machine),
        "request": {
            "role": request.role, "category": request.category, "model": request.model, "facts": dict(request.facts),
            "call": None if request.call is None else dict(request.call),
        },
        "choices": {
            "per_role": {role: _written(spec) for role, spec in choices.per_role.items()},
            "default": None if choices.default is None else _written(choices.default),
            "default_origin": choices.default_origin,
        },
        "policy": inputs.policy,
        "absent": list(inputs.absent),
        "decision": {**answer_of(decision), "row": deciding_row(decision)},
    }  # fmt: skip


def _written(spec: AttentionSpec) -> dict[str, object]:
    return spec.model_dump(exclude_none=True, exclude_unset=True)


def answer_of(decision: Decision) -> dict[str, object]:
    """Give what a decision answers as plain data: what is compared when it is made again."""
    return {**decision.answer(), "provider": decision.provider, "transform": decision.transform}


def deciding_row(decision: Decision) -> str | None:
    """Name the row that decided, also where it refused (``table/row-id``).

    None where no row did: a fact that a table requires was not known, or no row was left; and for a refusal that was
    read back, whose rules are not at hand.
    """
    error = decision.error
    if error is None:
        return decision.rule
    if error.code != "refused" or decision.rules is None or decision.inputs is None:
        return None
    return _refusing(decision.explain().walks)


def _refusing(walks: Sequence[Walk]) -> str | None:
    """Find the row that refused: of a call the first one that did, whatever was tried instead of it."""
    for walk in walks:
        chosen = walk.chosen
        if walk.table == "call" and (chosen is None or chosen.row.action == "refuse"):
            return chosen.row.name if chosen else None
    last = walks[-1].chosen if walks else None
    return last.row.name if last else None
