"""Really import what is installed, each package in a subprocess of its own under a time limit."""

import json
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from selector.probe import child
from selector.probe.child import one_line
from selector.probe.process import Finished
from selector.probe.system import System

AT_ONCE: Final = 2
_QUOTED: Final = 120


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of importing one package.

    `failure` is why none of its symbols works, or None. `untried` is why nothing could be tried, or None.
    """

    failure: str | None = None
    untried: str | None = None


@dataclass(frozen=True, slots=True)
class DeepReport:
    """torch as a fresh process sees it (see `child.report_torch`), and a trial per package key."""

    torch: Mapping[str, object]
    trials: Mapping[str, Trial]


NOT_DEEP: Final = DeepReport({}, {})


def import_all(system: System, symbols: Mapping[str, Sequence[str]], timeout: float) -> DeepReport:
    """Import torch and, per key, the first of the symbols that works; two subprocesses at a time.

    Each subprocess lives for at most `timeout` seconds. An interrupt ends them all and is raised again.
    """
    over = threading.Event()
    importer = _Importer(system, timeout, over.is_set)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        torch = pool.submit(importer.describe_torch)
        trials = {key: pool.submit(importer.try_symbols, tried) for key, tried in symbols.items()}
        try:
            return DeepReport(torch.result(), {key: trial.result() for key, trial in trials.items()})
        except BaseException:
            over.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@dataclass(frozen=True, slots=True)
class _Importer:
    system: System
    timeout: float
    stopped: Callable[[], bool]

    def describe_torch(self) -> Mapping[str, object]:
        try:
            finished = self._run({"torch": True})
        except OSError as error:
            return {"untried": _cannot_start(error)}
        report = next(iter(_answers(finished)), None)
        return report if isinstance(report, dict) else {"failure": self._end(finished)}

    def try_symbols(self, symbols: Sequence[str]) -> Trial:
        """A symbol that ends the subprocess is followed by a new subprocess for the symbols after it."""
        failures: list[str] = []
        while left := symbols[len(failures) :]:
            try:
                finished = self._run({"symbols": list(left)})
            except OSError as error:
                return Trial(untried=_cannot_start(error))
            answers = _answers(finished)[: len(left)]
            if None in answers:
                return Trial()
            failures += [f"{symbol}: {one_line(str(said))}" for symbol, said in zip(left, answers, strict=False)]
            if len(answers) < len(left):
                failures.append(f"{left[len(answers)]}: {self._end(finished)}")
        return Trial(failure="; ".join(failures) or None)

    def _run(self, request: dict[str, object]) -> Finished:
        asked = json.dumps({"path": list(self.system.search_path())} | request)
        command = (self.system.python(), "-P", str(Path(child.__file__)), asked)
        return self.system.run(command, self.timeout, self.stopped)

    def _end(self, finished: Finished) -> str:
        """Say how a subprocess ended that gave no answer."""
        if finished.status is None:
            return f"no answer within {self.timeout:g} s"
        said = [line for line in finished.err.decode("utf-8", "replace").splitlines() if line.strip()]
        last = f" (last line: {one_line(said[-1], _QUOTED)})" if said else ""
        if finished.status < 0:
            return f"crashed with {_signal_name(-finished.status)}{last}"
        return f"ended the process with exit status {finished.status}{last}"


def _answers(finished: Finished) -> list[object]:
    """The JSON values that the subprocess got to tell, in order."""
    values: list[object] = []
    for line in finished.out.splitlines():
        try:
            values.append(json.loads(line))
        except ValueError:
            break
    return values


def _cannot_start(error: OSError) -> str:
    return one_line(f"the subprocess cannot be started: {error.strerror or error}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
