"""The commands of the examples as README, docs and the examples' own help show them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[3]
RANDOM = "--random-weights"
_BLOCK = re.compile(
    r"(?:<!-- file (?P<name>\S+) -->\n)?```(?P<language>\w+)\n(?P<text>.*?)```(?:\n\n```text\n(?P<output>.*?)```)?",
    re.DOTALL,
)
_SCRIPT = re.compile(r"(?:python )?examples/(text_to_\w+\.py)")


@dataclass(frozen=True)
class Command:
    """A command: its page, what it sets in the environment, the script, its flags, and what the page says it tells.

    `files` are those that the page shows before it.
    """

    page: str
    environment: Mapping[str, str]
    script: str
    flags: tuple[str, ...]
    files: Mapping[str, str]
    told: str | None

    def value(self, flag: str) -> str:
        """Give what stands after a flag."""
        return self.flags[self.flags.index(flag) + 1]

    def __str__(self) -> str:
        return f"{self.page}:{self.value('--model')}"


def commands() -> list[Command]:
    """Find every command, in the order of the pages."""
    pages = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("examples/**/*.md"))]
    scripts = sorted((ROOT / "examples").glob("text_to_*.py"))
    return [one for page in (*pages, *scripts) for one in _of(page)]


def _of(page: Path) -> Iterator[Command]:
    text, files = page.read_text(encoding="utf-8"), dict[str, str]()
    if page.suffix == ".py":
        yield from _in(page, text.split('"""')[1], files, None)
        return
    for block in _BLOCK.finditer(text):
        if block["name"]:
            files[block["name"]] = block["text"]
        elif block["language"] in {"sh", "bash", "console"}:
            yield from _in(page, block["text"], dict(files), block["output"])


def _in(page: Path, text: str, files: Mapping[str, str], told: str | None) -> Iterator[Command]:
    for line in text.replace("\\\n", " ").splitlines():
        found = _SCRIPT.search(line)
        if found is None:
            continue
        before, after = shlex.split(line[: found.start()].removeprefix("$ ")), shlex.split(line[found.end() :])
        pairs = (word.partition("=") for word in before)
        environment = {name: value for name, _, value in pairs}
        yield Command(page.name, environment, found[1], tuple(after), files, told)
