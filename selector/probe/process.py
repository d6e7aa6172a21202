"""Run a command under a time limit and keep the end of what it prints."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import IO, Final

KEPT_BYTES: Final = 64 * 1024
_POLL_SECONDS: Final = 0.05
# How long a killed process may take to go: one in an uninterruptible driver call never does.
_GRACE_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Finished:
    """How a command ended.

    `status` is the exit status, minus the signal's number for a crash, and None when the command was stopped at its
    limit. `out` and `err` hold at most the last `KEPT_BYTES` of what it printed.
    """

    status: int | None
    out: bytes = b""
    err: bytes = b""


def never() -> bool:
    """The answer of a caller who does not stop a command early."""
    return False


def run(command: Sequence[str], timeout: float, stopped: Callable[[], bool] = never) -> Finished:
    """Run a command with no input for at most `timeout` seconds, or until `stopped()` is true.

    However it ends, every process of its group has been killed when this returns. What a process that left the group
    still prints is not waited for.

    Raises:
        OSError: the command cannot be started.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    out, err = bytearray(), bytearray()
    readers = [_follow(process.stdout, out), _follow(process.stderr, err)]
    try:
        status = _wait(process, time.monotonic() + timeout, stopped)
    finally:
        _kill_group(process)
    for reader in readers:
        reader.join(_GRACE_SECONDS)
    return Finished(status, bytes(out), bytes(err))


def _wait(process: subprocess.Popen[bytes], deadline: float, stopped: Callable[[], bool]) -> int | None:
    while not stopped():
        left = deadline - time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            return process.wait(min(_POLL_SECONDS, max(left, 0.0)))
        if left <= 0:
            break
    return None


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if sys.platform == "win32":
            process.kill()
        else:
            os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE_SECONDS)


def _follow(stream: IO[bytes] | None, kept: bytearray) -> Thread:
    reader = Thread(target=_keep_end, args=(stream, kept), daemon=True)
    reader.start()
    return reader


def _keep_end(stream: IO[bytes], kept: bytearray) -> None:
    with stream:
        while chunk := stream.read(KEPT_BYTES):
            kept += chunk
            del kept[:-KEPT_BYTES]
