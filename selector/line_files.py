"""Files to whose end lines are added, by several processes at a time, and that are rotated by their size."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from pathlib import Path

_FLAGS = os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class CutOffError(OSError):
    """Not all was written that should have been; so many lines of it are whole."""

    def __init__(self, written: int, of: int, whole: int) -> None:
        """Say how many bytes were written."""
        super().__init__(errno.EIO, f"wrote {written} of {of} bytes")
        self.whole = whole


class LineFile:
    """A file to whose end lines are added, `together` of them at most by one write.

    Making it raises `OSError` when it cannot be opened.
    """

    together = 1_000

    def __init__(self, path: Path) -> None:
        """Open the file, or make it."""
        self.path = path
        self._file: int | None = os.open(path, os.O_WRONLY | _FLAGS, 0o666)
        self._torn = _ends_within_a_line(path, self._file)

    def append(self, lines: bytes) -> None:
        """Add lines, each with its end. Raises `OSError` where not all was written; the next ones then begin anew."""
        if self._file is None:
            raise OSError(errno.EBADF, "the log is closed")
        data = b"\n" + lines if self._torn else lines
        written = os.write(self._file, data)
        if written < len(data):
            begun = self._torn
            self._torn = begun if not written else data[written - 1 : written] != b"\n"
            at_end = written > begun and data[written : written + 1] == b"\n"  # a line that lacks its end alone
            raise CutOffError(written, len(data), max(data.count(b"\n", 0, written) - begun, 0) + at_end)
        self._torn = False

    def close(self) -> None:
        """Close the file; what is added later raises."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _ends_within_a_line(path: Path, file: int) -> bool:
    """Whether someone who wrote to the file was cut off; the next line must not be lost with the torn one."""
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return False
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            stream.seek(max(size - 1, 0))
            return stream.read(1) not in (b"", b"\n")
    except OSError:  # it may be written and not read
        return False


class RotatedFile(LineFile):
    """A file that is put aside as ``.1``, and begun again, before a line would make it larger than `most_bytes`.

    Lines are added one by one. `kept` files are kept, the oldest with the highest number. Every process that adds lines
    must rotate: each holds the file's lock while it does, and looks first whether the file that it has open is still
    the one of that name. Where a file cannot be put aside, `tell` hears why, and lines go on being added to it.
    """

    together = 1

    def __init__(self, path: Path, most_bytes: int, kept: int, tell: Callable[[OSError], None]) -> None:
        """Open the file, or make it."""
        self.path = path
        self._most = most_bytes
        self._kept = kept
        self._tell = tell
        self._torn = False
        self._process = os.getpid()
        self._file: int | None = self._opened()

    def append(self, lines: bytes) -> None:
        """Add a line with its end. Raises `OSError` where not all was written; the next one then begins anew."""
        if self._file is None:
            raise OSError(errno.EBADF, "the log is closed")
        if self._process != os.getpid():  # a child shares its parent's lock, which would hold neither of them back
            self._process = os.getpid()
            self._file = self._again(self._file)
        self._file = self._locked(self._file)
        try:
            size = os.fstat(self._file).st_size
            while size and size + len(lines) > self._most and self._rotate():
                self._file = self._locked(self._file)
                size = os.fstat(self._file).st_size
            self._torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
            super().append(lines)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)

    def _opened(self) -> int:
        return os.open(self.path, os.O_RDWR | _FLAGS, 0o666)

    def _again(self, file: int) -> int:
        """Open what has the name now."""
        newer = self._opened()
        os.close(file)
        return newer

    def _locked(self, file: int) -> int:
        """Give the file that has the name now, locked."""
        while True:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_at(file, self.path):
                return file
            self._file = file = self._again(file)

    def _rotate(self) -> bool:
        """Put the file aside, which is locked; a number that is free, as after a process was killed here, is filled."""
        free = 1
        while free < self._kept and self._numbered(free).exists():
            free += 1
        try:
            for number in range(free, 0, -1):
                self._numbered(number - 1).replace(self._numbered(number))
        except FileNotFoundError:  # somebody else took the file away: it is made again
            return True
        except OSError as error:
            self._tell(error)
            return False
        return True

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}") if number else self.path


def _is_at(file: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(file), path.stat())
    except FileNotFoundError:
        return False
