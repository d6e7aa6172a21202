"""Write the schemas, or say which have drifted from what they are generated from."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from selector import data
from selector.ruleset import shipped
from selector.schemas.annotations import Json
from selector.schemas.build import schemas

_MOST_LINES = 20


def main(argv: Sequence[str] | None = None) -> int:
    """Write every schema; with ``--check`` write nothing, and give 1 when a file is not what would be written."""
    parser = argparse.ArgumentParser(prog="python -m selector.schemas", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only say which files have drifted")
    options = parser.parse_args(argv)
    return run(data.folder("schemas"), check=options.check)


def run(folder: Path, *, check: bool) -> int:
    """Write or check the files of a folder."""
    texts = {f"{name}.schema.json": text(schema) for name, schema in schemas(shipped()).items()}
    if check:
        told = [line for name, wanted in texts.items() for line in _difference(folder / name, wanted)]
        told += [f"{path.name}: nothing generates this file" for path in _others(folder, texts)]
        sys.stdout.write("".join(f"{line}\n" for line in told))
        return 1 if told else 0
    folder.mkdir(exist_ok=True)
    for name, wanted in texts.items():
        (folder / name).write_text(wanted, encoding="utf-8", newline="\n")
    return 0


def text(schema: Json) -> str:
    """Write a schema as it is checked in."""
    return json.dumps(schema, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _others(folder: Path, known: Sequence[str] | dict[str, str]) -> list[Path]:
    return sorted(path for path in folder.glob("*.schema.json") if path.name not in known)


def _difference(path: Path, wanted: str) -> Iterator[str]:
    """Say how a file differs, in a few lines."""
    if not path.is_file():
        yield f"{path.name}: is not there"
        return
    got = path.read_text(encoding="utf-8")
    if got == wanted:
        return
    yield f"{path.name}: is not what the models give"
    lines = list(
        difflib.unified_diff(got.splitlines(), wanted.splitlines(), "checked in", "generated", lineterm="", n=1)
    )
    yield from (f"  {line}" for line in lines[:_MOST_LINES])
    if len(lines) > _MOST_LINES:
        yield f"  … and {len(lines) - _MOST_LINES} lines more"


if __name__ == "__main__":
    sys.exit(main())
