"""check-jsonschema, which pre-commit hooks and CI run: it accepts what is shipped, and tells where a file is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from selector.schemas.build import NAMES
from selector.schemas.examples import EXAMPLES
from tests.editors.files import SCHEMAS, SUFFIX, by_schema


def check(schema: str, *files: Path) -> subprocess.CompletedProcess[str]:
    """Run check-jsonschema on files of one schema."""
    command = [sys.executable, "-m", "check_jsonschema", "-o", "json", "--schemafile"]
    paths = [str(path) for path in (SCHEMAS / f"{schema}{SUFFIX}", *files)]
    return subprocess.run([*command, *paths], capture_output=True, text=True, check=False)


def places(done: subprocess.CompletedProcess[str]) -> dict[str, set[str]]:
    """Give the paths that it names, by file; what stands deepest among alternatives counts too."""
    found: dict[str, set[str]] = {}
    for error in json.loads(done.stdout)["errors"]:
        deeper = [error.get("best_match"), error.get("best_deep_match"), error]
        told = {item["path"].removeprefix("$").removeprefix(".") for item in deeper if item}
        found.setdefault(Path(error["filename"]).stem, set()).update(told)
    return found


@pytest.mark.parametrize(
    ("schema", "files"), list(by_schema()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_accepts_every_shipped_file(schema: str, files: list[Path]) -> None:
    """Rule files, the starter, and the facts of machines."""
    done = check(schema, *files)

    assert files
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("schema", NAMES)
def test_accepts_the_examples(schema: str, tmp_path: Path) -> None:
    """Each example that a schema brings."""
    files = [tmp_path / f"{number}.json" for number, _ in enumerate(EXAMPLES[schema])]
    for path, example in zip(files, EXAMPLES[schema], strict=True):
        path.write_text(json.dumps(example), encoding="utf-8")

    done = check(schema, *files)

    assert done.returncode == 0, done.stdout + done.stderr


_ROW = "{id: a, use: TORCH_SDPA, because: b}"
BROKEN: dict[str, dict[str, tuple[str, str]]] = {
    "rule-table": {
        "misspelt key": ("table: call\nrows:\n  - {id: a, uses: TORCH_SDPA, because: b}\n", "rows[0]"),
        "no because": ("table: call\nrows:\n  - {id: a, use: TORCH_SDPA}\n", "rows[0]"),
        "wrong type": ("table: call\nrows:\n  - {id: a, use: TORCH_SDPA, because: 5}\n", "rows[0].because"),
        "two actions": ("table: call\nrows:\n  - {id: a, use: X, refuse: no, because: b}\n", "rows[0]"),
        "no action": ("table: call\nrows:\n  - {id: a, because: b}\n", "rows[0]"),
        "unknown table": (f"table: cal\nrows: [{_ROW}]\n", "table"),
        "unknown value": (
            "table: call\nrows:\n  - {id: a, use: X, because: b, when: {mask: nnone}}\n",
            "rows[0].when.mask",
        ),
        "unknown matcher": (
            "table: call\nrows:\n  - {id: a, use: X, because: b, when: {head_dim: {multipleof: 8}}}\n",
            "rows[0].when.head_dim",
        ),
        "neither": ("table: call\n", ""),
        "rows and edits": (f"table: call\nrows: [{_ROW}]\nedits: [{_ROW}]\n", ""),
        "targets beside edits": (f"table: call\ntargets: backends\nedits: [{_ROW}]\n", ""),
        "edit without id": ("table: call\nedits:\n  - {disable: true, because: b}\n", "edits[0]"),
        "edit without because": ("table: call\nedits:\n  - {id: a, disable: true}\n", "edits[0]"),
        "edit without change": ("table: call\nedits:\n  - {id: a, because: b}\n", "edits[0]"),
        "edit with two places": ("table: call\nedits:\n  - {id: a, before: b, after: c, because: d}\n", "edits[0]"),
        "edit disabled and more": (f"table: call\nedits:\n  - {_ROW[:-1]}, disable: true}}\n", "edits[0]"),
        "move with a condition": (
            "table: call\nedits:\n  - {id: a, before: b, when: {mask: none}, because: d}\n",
            "edits[0]",
        ),
        "own table without new": (f"table: house_batches\nrows: [{_ROW}]\n", "table"),
    },
    "vocabulary": {
        "nothing": ("{}\n", ""),
        "unknown section": ("fact: {}\n", ""),
        "add beside values": ("sets: {s: {add: [1], values: [2], fact: head_dim}}\n", "sets.s"),
        "half a set": ("sets: {s: {fact: head_dim}}\n", "sets.s"),
        "wrong type": ("facts: {f: {type: text, group: call, about: a}}\n", "facts.f.type"),
    },
    "backends": {
        "backend of a wrong type": ("backends: {X: yes}\n", "backends.X"),
        "provider without backend": ("providers: {x: {about: a}}\n", "providers.x"),
    },
    "roles": {"category of a wrong type": ("roles: {a: 1}\n", "roles.a")},
    "models": {"model without roles": ("models: [{names: [M], mask_free: true}]\n", "models[0]")},
    "warnings": {"disabled without id": ("warnings: [{disable: true}]\n", "warnings[0]")},
    "rule-set": {
        "unknown part": ("table: {}\n", ""),
        "new table without new": (f"tables: {{mine: {{rows: [{_ROW}]}}}}\n", "tables.mine"),
        "broken row": ("tables: {call: {rows: [{id: a, use: X}]}}\n", "tables.call.rows[0]"),
    },
}


@pytest.mark.parametrize("schema", BROKEN)
def test_rejects_broken_files(schema: str, tmp_path: Path) -> None:
    """Each of them, with the place of the slip."""
    for name, (text, _) in BROKEN[schema].items():
        (tmp_path / f"{name}.yaml").write_text(text, encoding="utf-8")

    done = check(schema, *sorted(tmp_path.iterdir()))

    told = places(done)
    assert done.returncode == 1
    missed = {name: told.get(name) for name, (_, place) in BROKEN[schema].items() if place not in told.get(name, ())}
    assert missed == {}
