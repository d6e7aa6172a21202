"""The examples of README and docs: each command is run, each Python block executed, and the output compared.

Comments in a page that nobody sees say more of what follows them:

- ``<!-- in an empty folder -->``: the rest of the page runs in a folder of its own, which is empty at first;
- ``<!-- file NAME -->``: the block is written to a file there, for the examples after it;
- ``<!-- shown PATH -->``: the block is that file of this tree.

Times in outputs are all the same. ``python -m tests.doc_examples`` writes the present output into the files (`make
generate` does so).
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINES = r"(?:(?!```).*\n)*?"
_FORMS: Mapping[str, str] = {
    "folder": r"<!-- in an empty folder -->",
    "file": rf"<!-- file (?P<name>\S+) -->\n```\w+\n(?P<content>{_LINES})```",
    "shown": rf"<!-- shown (?P<path>\S+) -->\n```(?P<language>\w+)\n{_LINES}```",
    "table": r"<!-- backends -->\n(?:.*\n)*?<!-- end -->",
    "console": rf"```console\n(?P<commands>{_LINES})```",
    "python": rf"```python\n(?P<code>{_LINES})```\n\n```output\n{_LINES}```",
}
_BLOCK = re.compile("|".join(f"(?P<{form}>{pattern})" for form, pattern in _FORMS.items()))
_COLUMNS = "100"
_TIME = re.compile(r"\b20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{6})?Z")


@dataclass(frozen=True, slots=True)
class Example:
    """One block: its file, where it begins, the text as it stands, and as it should be."""

    file: Path
    start: int
    written: str
    present: str


def documents() -> list[Path]:
    """Give README and every page of docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def examples(file: Path) -> Iterator[Example]:
    """Run every example of a file, in the order of the page."""
    text = file.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as empty:
        run = _Run(ROOT, Path(empty).resolve())
        for match in _BLOCK.finditer(text):
            yield Example(file, match.start(), match[0], run.present(match))


@dataclass(slots=True)
class _Run:
    """Runs the examples of one page; `folder` is where."""

    folder: Path
    empty: Path

    def present(self, block: re.Match[str]) -> str:
        """Give a block as it should be."""
        form = str(block.lastgroup if block.lastgroup in _FORMS else next(name for name in _FORMS if block[name]))
        make: Mapping[str, Callable[[re.Match[str]], str]] = {
            "folder": self.moved, "file": self.saved, "shown": _shown, "table": _table, "console": self.console,
            "python": self.python,
        }  # fmt: skip
        return make[form](block)

    def moved(self, block: re.Match[str]) -> str:
        """Go on in the empty folder."""
        self.folder = self.empty
        return block[0]

    def saved(self, block: re.Match[str]) -> str:
        """Write a file for the examples after it."""
        path = self.empty / block["name"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(block["content"], encoding="utf-8")
        return block[0]

    def console(self, block: re.Match[str]) -> str:
        """Run commands, each in a shell."""
        commands = [line[2:] for line in block["commands"].splitlines() if line.startswith("$ ")]
        return "```console\n" + "".join(f"$ {command}\n{_shell(command, self.folder)}" for command in commands) + "```"

    def python(self, block: re.Match[str]) -> str:
        """Run a program."""
        return f"```python\n{block['code']}```\n\n```output\n{_python(block['code'], self.folder)}```"


def _shown(block: re.Match[str]) -> str:
    text = (ROOT / block["path"]).read_text(encoding="utf-8")
    return f"<!-- shown {block['path']} -->\n```{block['language']}\n{text}```"


def _table(block: re.Match[str]) -> str:
    """Make the table of backends from the rules: what each is, what it needs, and what it reads."""
    from selector.rules.conditions import tests
    from selector.ruleset import shipped

    lines = ["| backend | what it is | builds | asks about | config blocks |", "|---|---|---|---|---|"]
    for backend in shipped().backends.values():
        asked = ", ".join(f"`{fact}`" for fact in dict.fromkeys(test.fact for test in tests(backend.ability)))
        builds = ", ".join(f"`{name}`" for name in backend.providers)
        blocks = ", ".join(f"`{block}`" for block in backend.reads)
        lines.append(f"| `{backend.name}` | {backend.about} | {builds or '–'} | {asked or '–'} | {blocks or '–'} |")
    return "<!-- backends -->\n" + "\n".join(lines) + "\n<!-- end -->"


def _shell(command: str, folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {"PATH": path, "COLUMNS": _COLUMNS, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "HOME": str(ROOT)}
    environment["ATTENTION_SELECTOR_CACHE"] = os.devnull
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=60,
        check=False,
    )
    return _anywhere(done.stdout.decode(), folder)


def _python(code: str, folder: Path) -> str:
    out = io.StringIO()
    here = Path.cwd()
    try:
        os.chdir(folder)
        with contextlib.redirect_stdout(out):
            exec(compile(code, "<example>", "exec"), {"__name__": "example"})  # noqa: S102 - as above
    finally:
        os.chdir(here)
    lines = out.getvalue().splitlines(keepends=True)
    return _anywhere("".join(line for line in lines if "[info" not in line and "[warning" not in line), folder)


def _anywhere(text: str, folder: Path) -> str:
    """Give an output without what differs from place to place and from time to time."""
    for path in (folder, ROOT):
        text = text.replace(f"{path}/", "")
    return _TIME.sub(lambda time: f"2026-01-31T12:00:00{'.000000' if time[1] else ''}Z", text)


def update() -> None:
    """Write the present output of every example into its file."""
    for file in documents():
        text = file.read_text(encoding="utf-8")
        for example in reversed(list(examples(file))):
            end = example.start + len(example.written)
            text = text[: example.start] + example.present + text[end:]
        file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    update()
