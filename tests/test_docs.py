"""README and docs say what the product does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.doc_examples import ROOT, documents, examples


@pytest.mark.parametrize("file", documents(), ids=lambda file: file.name)
def test_examples_show_what_happens(file: Path) -> None:
    """Each example in README and docs is run, and its output is the one that is written there."""
    for example in examples(file):
        assert example.written == example.present


@pytest.mark.parametrize("file", documents(), ids=lambda file: file.name)
def test_links_lead_somewhere(file: Path) -> None:
    """A relative link in README or docs names a file that exists, and a heading of it."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", prose(file)) if not link.startswith("http")]

    assert [link for link in links if not leads_somewhere(file, link)] == []


def prose(file: Path) -> str:
    """Give a page without its blocks."""
    return re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)


def leads_somewhere(file: Path, link: str) -> bool:
    """Whether a link names a file that is there and, after `#`, a heading of it."""
    name, _, heading = link.partition("#")
    target = file.parent / name if name else file
    if not heading or not target.is_file():
        return target.exists()
    headings = re.findall(r"^#+ (.*)$", prose(target), re.MULTILINE)
    return heading in {re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-") for text in headings}


def test_a_comment_says_more_of_the_block_after_it(tmp_path: Path) -> None:
    """Files are written for the examples after them, in a folder of their own; times are all the same."""
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- in an empty folder -->\n<!-- file a/b.txt -->\n```text\n2031-02-03T04:05:06Z\n```\n\n"
        "```console\n$ ls\nold\n$ cat a/b.txt\n```\n\n```python\nimport pathlib\n"
        "print(pathlib.Path('a/b.txt').read_text(), end='')\n```\n\n"
        "```output\n```\n\n<!-- shown LICENSE -->\n```text\n```\n",
        encoding="utf-8",
    )

    found = [example.present for example in examples(page)]

    assert found[2] == "```console\n$ ls\na\n$ cat a/b.txt\n2026-01-31T12:00:00Z\n```"
    assert found[3].endswith("```output\n2026-01-31T12:00:00Z\n```")
    assert found[4] == f"<!-- shown LICENSE -->\n```text\n{(ROOT / 'LICENSE').read_text(encoding='utf-8')}```"
