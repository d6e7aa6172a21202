"""The service holds what its OpenAPI document says, by schemathesis: cases drawn from the document, all of its checks.

After a change that is meant, write the page of the last full run again:
GOLDEN=write pytest tests/selector/service/test_schemathesis.py
"""

from __future__ import annotations

import copy
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import load
from benchmarks.environment import heading
from selector.service import openapi

PAGE = Path(__file__).parents[3] / "docs" / "benchmarks" / "schemathesis.md"
COMMAND = "GOLDEN=write pytest tests/selector/service/test_schemathesis.py"
TOKEN = "secret"  # noqa: S105 - of these tests
# What a schema cannot say (whether a fact is known, whether a text holds rules) is answered by 422, as documented.
CONFIG = "".join(
    f'[[operations]]\ninclude-path = "{path}"\nchecks.positive_data_acceptance.expected-statuses = ["2xx", 422]\n'
    for path in ("/v1/decide", "/v1/explain", "/v1/diff")
)
# Their conditions are more than its generator understands; without them more is allowed, which 422 answers.
LOOSENED = ("default-entry", "nested-roles", "role-entry", "spec")
CONDITIONS = ("allOf", "else", "if", "not", "then")


def loosened() -> dict[str, Any]:
    """Give the document as it can be drawn from."""
    found = copy.deepcopy(openapi.document())
    schemas = found["components"]["schemas"]
    for name in LOOSENED:
        schemas[name] = {key: value for key, value in schemas[name].items() if key not in CONDITIONS}
    return found


def checked(folder: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    """Check a service of its own."""
    (folder / "openapi.json").write_text(json.dumps(loosened()), encoding="utf-8")
    (folder / "schemathesis.toml").write_text(CONFIG, encoding="utf-8")
    command = [str(Path(sys.executable).with_name("schemathesis")), "--config-file", "schemathesis.toml"]
    with load.serving("--no-watch", ATTENTION_SELECTOR_TOKEN=TOKEN) as (port, _):
        place = ["run", "openapi.json", "--url", f"http://127.0.0.1:{port}", "-H", f"Authorization: Bearer {TOKEN}"]
        return subprocess.run(
            [*command, *place, "--no-color", "--generation-deterministic", *flags],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=folder,
        )  # fmt: skip


def test_examples_and_a_few_cases_hold(tmp_path: Path) -> None:
    """Those of the document, and some that are drawn from it, valid and not."""
    done = checked(tmp_path, "--phases", "examples,fuzzing", "--max-examples", "2")

    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_many_cases_hold(tmp_path: Path) -> None:
    """In all phases: examples, every keyword of every schema, cases at random, and cases after each other."""
    done = checked(tmp_path, "--max-examples", "200")
    if os.environ.get("GOLDEN") == "write":
        said = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8320", done.stdout.replace(str(tmp_path), "."))
        text = "\n".join(line.rstrip() for line in said.strip().splitlines())
        head = heading("The service against its OpenAPI document").replace("python -m benchmarks", COMMAND)
        PAGE.write_text(f"{head}\n```text\n{text}\n```\n", encoding="utf-8")

    assert done.returncode == 0, done.stdout
    assert "No issues found" in done.stdout
