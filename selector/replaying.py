"""A decision log decided again with other rules: which decisions would change, and by which row."""

from __future__ import annotations

import collections
import functools
import hashlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import re
import signal
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from selector.config import spec_faults
from selector.decision import Decision, Inputs
from selector.json_lines import Line
from selector.log_lines import answer_of, deciding_row
from selector.logged import TIME, LineError, Logged, read_line
from selector.records import replay
from selector.resolve import resolve
from selector.rules.problems import Place, Problem, ProblemsError
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet
from selector.selecting import rules_from

_MOST_REMEMBERED = 1 << 14
_SHORT = 64  # letters of a value that is remembered
_CHUNK_LINES, _CHUNK_BYTES = 256, 1 << 20
_ALONE = 8  # chunks that are done before a process would have started
_AHEAD = 3  # chunks for each process that are read and not yet told
_Key = TypeVar("_Key", bound=Hashable)
_HEAD = re.compile(rb'\{"at": "' + TIME.encode() + rb'", ')


@dataclass(frozen=True, slots=True)
class Change:
    """A decision that would be another: both answers as plain data, the rows that decide, and the fields that differ.

    A row is None where none decides, as for inputs that the rules do not accept.
    """

    line: int
    role: str
    model: str | None
    before: Mapping[str, object]
    after: Mapping[str, object]
    rows: tuple[str | None, str | None]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Damage:
    """A line that could not be read, with what is wrong with it."""

    line: int
    problems: tuple[Problem, ...]


class Replayed(NamedTuple):
    """What became of some lines: how many there were, and those that are told."""

    read: int
    told: tuple[Change | Damage, ...]


class Replayer:
    """Decides lines again with one rule set. It remembers which it saw lately: a log repeats itself."""

    def __init__(self, rules: RuleSet) -> None:
        """Hold the rules."""
        self.rules = rules
        self._fitting: set[tuple[str, type, Value]] = set()
        self._unchanged: set[bytes] = set()

    def change(self, line: Line, name: str) -> Change | None:
        """Give the change of one line, None when its decision stays. Raises `LineError` when it is damaged."""
        content = _content(line.raw)
        if content in self._unchanged:
            return None
        change = self.compare(read_line(line, name), line.number)
        if change is None and content is not None:
            _remember(self._unchanged, content)
        return change

    def compare(self, logged: Logged, number: int) -> Change | None:
        """Decide again, and compare with the answer of that time."""
        after = self.decide(logged.inputs)
        told = answer_of(after)
        if told == logged.answer:
            return None
        request = logged.inputs.request
        fields = tuple(name for name, value in told.items() if value != logged.answer[name])
        rows = (logged.row, deciding_row(after))
        return Change(number, request.role, request.model, logged.answer, told, rows, fields)

    def decide(self, inputs: Inputs) -> Decision:
        """Decide from checked inputs; what these rules do not accept of them makes the decision `invalid`."""
        if self.accepts(inputs):
            return resolve(inputs, self.rules)
        nothing = Decision(
            None, None, None, None, None, (), None, "", inputs.policy, inputs.request.role, None, {}, inputs=inputs
        )
        return replay(nothing, self.rules).after

    def accepts(self, inputs: Inputs) -> bool:
        """Whether the rules know what the config names, and every value is one of its fact."""
        choices = inputs.choices
        specs = [*choices.per_role.values(), *([] if choices.default is None else [choices.default])]
        if any(True for spec in specs for _ in spec_faults(spec, self.rules)):
            return False
        request = inputs.request
        groups = (inputs.machine, request.facts, request.call or {})
        return all(self.fits(name, value) for facts in groups for name, value in facts.items())

    def fits(self, name: str, value: Value) -> bool:
        """Whether a value is one of the fact; what was found before is not worked out again."""
        fact = self.rules.vocabulary.facts.get(name)
        if fact is None or value is None:
            return True
        key = (name, type(value), value)
        if key in self._fitting:
            return True
        if fact.misfit(value) is not None:
            return False
        if not isinstance(value, str) or len(value) <= _SHORT:
            _remember(self._fitting, key)
        return True


def _remember(known: set[_Key], key: _Key) -> None:
    """Add to what is known; a set that is full begins again."""
    if len(known) >= _MOST_REMEMBERED:
        known.clear()
    known.add(key)


def _content(raw: bytes | None) -> bytes | None:
    """Name what a line says besides its time, None for a line that is not written as the log writes it."""
    head = None if raw is None else _HEAD.match(raw)
    return hashlib.blake2b(raw[head.end() :], digest_size=16).digest() if raw and head else None


# --- many lines ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """What every process must know: the name of the log, and where the rules come from, with their digest."""

    name: str
    source: tuple[str, ...] | None
    digest: str


def replayed(lines: Iterable[Line], work: Work, rules: RuleSet, processes: int) -> Iterator[Replayed]:
    """Replay lines in their order, holding few at a time; a short log is done here, a longer one by processes.

    Raises `ProblemsError` when a process ends before its time, or finds other rules than these.
    """
    chunks = _chunks(lines)
    first = list(itertools.islice(chunks, _ALONE))
    if processes > 1 and len(first) == _ALONE:
        yield from _by_processes(itertools.chain(first, chunks), work, processes)
        return
    replayer = Replayer(rules)
    for chunk in itertools.chain(first, chunks):
        yield _replay(chunk, work.name, replayer)


def _chunks(lines: Iterable[Line]) -> Iterator[list[Line]]:
    chunk: list[Line] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line.raw or b"")
        if len(chunk) >= _CHUNK_LINES or size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _replay(chunk: Sequence[Line], name: str, replayer: Replayer) -> Replayed:
    told: list[Change | Damage] = []
    for line in chunk:
        try:
            change = replayer.change(line, name)
        except LineError as error:
            told.append(Damage(line.number, error.problems))
        else:
            told += [] if change is None else [change]
    return Replayed(len(chunk), tuple(told))


def _by_processes(chunks: Iterable[list[Line]], work: Work, processes: int) -> Iterator[Replayed]:
    context = multiprocessing.get_context("spawn")
    pending: collections.deque[Future[Replayed | None]] = collections.deque()
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_begin)
    try:
        for chunk in chunks:
            pending.append(pool.submit(_in_process, chunk, work))
            if len(pending) > processes * _AHEAD:
                yield _result(pending.popleft(), work)
        while pending:
            yield _result(pending.popleft(), work)
    except BrokenProcessPool as error:
        message = "a process that replayed lines ended before its time"
        raise ProblemsError([Problem(Place(work.name), "process-ended", message, "try --processes 1")]) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _result(future: Future[Replayed | None], work: Work) -> Replayed:
    result = future.result()
    if result is None:
        message = f"the rules are not those of the digest {work.digest[:12]} any more"
        raise ProblemsError([Problem(Place("rules"), "rules-changed", message, "replay again")])
    return result


def _begin() -> None:
    """Leave interrupts to the parent, and end when it ends, however it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    multiprocessing.connection.wait([sentinel])
    os._exit(1)


def _in_process(chunk: list[Line], work: Work) -> Replayed | None:
    replayer = _replayer(work)
    return None if replayer is None else _replay(chunk, work.name, replayer)


@functools.lru_cache(maxsize=1)
def _replayer(work: Work) -> Replayer | None:
    """Load the rules in this process, once; None when they are not those that the parent read."""
    try:
        rules = rules_from(work.source, os.environ)
    except ProblemsError:
        return None
    return Replayer(rules) if rules.digest == work.digest else None
