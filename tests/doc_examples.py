"""The examples of README and docs: each command is run, each Python block executed, and the output compared.

``python -m tests.doc_examples`` writes the present output into the files (`make generate` does so).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_PYTHON = re.compile(r"```python\n(.*?)```\n\n```output\n(.*?)```", re.DOTALL)
_COLUMNS = "100"
_TABLE = re.compile(r"<!-- backends -->\n(.*?)<!-- end -->", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Example:
    """One block: its file, the text as it stands, and as it should be."""

    file: Path
    written: str
    present: str


def documents() -> list[Path]:
    """Give README and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples(file: Path) -> Iterator[Example]:
    """Run every example of a file."""
    text = file.read_text(encoding="utf-8")
    for match in _CONSOLE.finditer(text):
        yield Example(file, match[0], f"```console\n{_console(match[1])}```")
    for match in _TABLE.finditer(text):
        yield Example(file, match[0], f"<!-- backends -->\n{_backends()}<!-- end -->")
    for match in _PYTHON.finditer(text):
        present = f"```python\n{match[1]}```\n\n```output\n{_python(match[1])}```"
        yield Example(file, match[0], present)


def _backends() -> str:
    """Make the table of backends from the rules: what each is, what it needs, and what it reads."""
    from selector.rules.conditions import tests
    from selector.ruleset import shipped

    lines = ["| backend | what it is | builds | asks about | config blocks |", "|---|---|---|---|---|"]
    for backend in shipped().backends.values():
        asked = ", ".join(f"`{fact}`" for fact in dict.fromkeys(test.fact for test in tests(backend.ability)))
        builds = ", ".join(f"`{name}`" for name in backend.providers)
        blocks = ", ".join(f"`{block}`" for block in backend.reads)
        lines.append(f"| `{backend.name}` | {backend.about} | {builds or '–'} | {asked or '–'} | {blocks or '–'} |")
    return "\n".join(lines) + "\n"


def _console(block: str) -> str:
    commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
    return "".join(f"$ {command}\n{_shell(command)}" for command in commands)


def _shell(command: str) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "COLUMNS": _COLUMNS, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "HOME": str(ROOT)}
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return done.stdout.decode().replace(f"{ROOT}/", "")


def _python(code: str) -> str:
    out = io.StringIO()
    here = Path.cwd()
    try:
        os.chdir(ROOT)
        with contextlib.redirect_stdout(out):
            exec(compile(code, "<example>", "exec"), {"__name__": "example"})  # noqa: S102 - as above
    finally:
        os.chdir(here)
    lines = out.getvalue().splitlines(keepends=True)
    return "".join(line for line in lines if "[info" not in line and "[warning" not in line)


def update() -> None:
    """Write the present output of every example into its file."""
    for file in documents():
        text = file.read_text(encoding="utf-8")
        for example in examples(file):
            text = text.replace(example.written, example.present)
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    update()
