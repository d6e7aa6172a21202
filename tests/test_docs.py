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
    """A relative link in README or docs names a file that exists."""
    text = re.sub(r"```.*?```", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)

    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if not target.startswith("http")]

    assert [target for target in targets if not (file.parent / target).exists()] == []
    assert ROOT.exists()
