"""What the tests of texts share: reading what must not be read, and reading in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from selector.rules.json_text import read_json
from selector.rules.nodes import Node, TextError
from selector.rules.yaml_text import read_yaml

Reader = Callable[[str, str], Node]
READERS: dict[str, Reader] = {"json": read_json, "yaml": read_yaml}

_CHILD = """\
import resource, sys, time
from selector.rules.nodes import TextError
from selector.rules.{language}_text import read_{language} as read

resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
text = {expression}
start = time.process_time()
try:
    read(text, "f").plain()
    print("read")
except TextError as error:
    print(error.problems[0].code, len(str(error)))
print(time.process_time() - start)
status = open("/proc/self/status").read()
print(int(status.split("VmHWM:")[1].split()[0]) / 1024)
"""


@dataclass(frozen=True)
class Cost:
    """What reading a text came to: its outcome (`read`, or the code of the problem), CPU seconds, and MiB at the peak.

    `said` is how long the message is.
    """

    outcome: str
    said: int
    seconds: float
    mib: float


def refusal(read: Reader, text: str, file: str = "f") -> str:
    """Read a text that must be refused, and give all that is said about it."""
    with pytest.raises(TextError) as caught:
        read(text, file)
    return str(caught.value)


def cost(language: str, expression: str) -> Cost:
    """Read the text that a Python expression makes in a new process, whose peak of memory is all its own."""
    child = _CHILD.format(language=language, expression=expression)
    done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True, timeout=60)
    outcome, seconds, mib = done.stdout.splitlines()
    code, _, said = outcome.partition(" ")
    return Cost(code, int(said or 0), float(seconds), float(mib))


def nested(level: int, opens: str, closes: str, inner: str = "") -> str:
    """Put brackets into each other."""
    return opens * level + inner + closes * level


def same(found: object, wanted: object) -> bool:
    """Whether two plain values are equal with their types (true is not 1, and nan is nan)."""
    return repr(found) == repr(wanted)


def short(value: object) -> str:
    """Name a case by the beginning of what it holds; a backslash would be another name each time it is collected."""
    return ascii(value)[:40].replace("\\", "/")
