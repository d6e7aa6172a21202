"""Ask the NVIDIA driver through `nvidia-smi`, where NVML's Python bindings are missing or do not work."""

import re
from typing import Final

from selector.probe.child import one_line
from selector.probe.gpus import Driver, Gpu, ProbeError
from selector.probe.process import Finished
from selector.probe.system import System

SMI_SECONDS: Final = 10.0
COMMAND: Final = (
    "nvidia-smi",
    "--query-gpu=index,uuid,name,compute_cap,memory.total,driver_version",
    "--format=csv,noheader,nounits",
)
_LINE: Final = re.compile(
    r"(?P<index>[0-9]{1,4}), *(?P<uuid>[^,]+), *(?P<name>.+), *"
    r"(?P<capability>[^,]+), *(?P<memory>[^,]+), *(?P<driver>[^,]+)"
)
# What the driver cannot say it prints as a word in brackets.
_CAPABILITY: Final = re.compile(r"([0-9]{1,3})\.([0-9]{1,2})")
_MEMORY: Final = re.compile(r"[0-9]{1,12}")
_MIB: Final = 1024 * 1024


class NoCommandError(ProbeError):
    """There is no `nvidia-smi` to ask, which is what a machine without an NVIDIA driver looks like."""


def read_smi(system: System) -> Driver:
    """The driver and every GPU on this machine, whatever this process may see of them.

    Raises:
        NoCommandError: the command cannot be started.
        ProbeError: it hangs, fails, or prints something else.
    """
    try:
        finished = system.run(COMMAND, SMI_SECONDS)
    except OSError as error:
        raise NoCommandError(one_line(f"cannot be started: {error.strerror or error}")) from error
    lines = [line for line in finished.out.decode("utf-8", "replace").splitlines() if line.strip()]
    _check_end(finished, lines)
    rows = sorted((_row(line) for line in lines), key=lambda row: row[0])
    if not rows:
        raise ProbeError("lists no GPU")
    return Driver(rows[0][1], tuple(gpu for _, _, gpu in rows))


def _check_end(finished: Finished, lines: list[str]) -> None:
    if finished.status is None:
        raise ProbeError(f"no answer within {SMI_SECONDS:g} s")
    if finished.status != 0:
        said = one_line(lines[0] if lines else "nothing")
        raise ProbeError(f"exit status {finished.status}, it said: {said}")


def _row(line: str) -> tuple[int, str, Gpu]:
    cells = _LINE.fullmatch(line.strip())
    if cells is None:
        raise ProbeError(f"unreadable line: {one_line(line, 100)}")
    capability = _CAPABILITY.fullmatch(cells["capability"])
    gpu = Gpu(
        name=one_line(cells["name"]),
        arch=f"sm_{capability[1]}{capability[2]}" if capability else None,
        memory=int(cells["memory"]) * _MIB if _MEMORY.fullmatch(cells["memory"]) else None,
        uuid=cells["uuid"],
    )
    return int(cells["index"]), one_line(cells["driver"]), gpu
