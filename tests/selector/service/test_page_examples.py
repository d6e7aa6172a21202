"""The questions and answers of `docs/service.md` are those of the service."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from selector.service import openapi

if TYPE_CHECKING:
    from starlette.testclient import TestClient

PAGE = (Path(__file__).parents[3] / "docs" / "service.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"<!-- POST (\S+) -->\n```json\n(.*?)```\n\n```json\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("path", "asked", "answered"), EXAMPLES, ids=[example[0] for example in EXAMPLES])
def test_an_example_is_answered_as_the_page_says(client: TestClient, path: str, asked: str, answered: str) -> None:
    """Digests, which change with the rules, aside."""
    told = client.post(path, json=json.loads(asked)).json()
    if "digest" in told:
        told["digest"] = "…"

    assert json.loads(answered) == told


def test_every_endpoint_of_the_service_stands_on_the_page() -> None:
    """In its table, or in the sentence above it; and there are examples at all."""
    for path in openapi.document()["paths"]:
        assert f"{path}`" in PAGE, path
    assert len(EXAMPLES) == 3
