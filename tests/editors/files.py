"""The YAML files that are shipped, with the schemas that their first lines name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from selector import data

RULES = data.folder("rules")
SCHEMAS = data.folder("schemas")
HEADER = "# yaml-language-server: $schema="
SUFFIX = ".schema.json"


def rule_files() -> list[Path]:
    """Give every shipped rule file, those of the starter too; facts of machines and tests of rules are none."""
    return sorted([*RULES.glob("*.yaml"), *RULES.glob("starter/*.yaml")])


def named_schema(path: Path) -> str:
    """Give the path of the schema that the first line names, or nothing."""
    first = path.read_text(encoding="utf-8").partition("\n")[0]
    return first.removeprefix(HEADER) if first.startswith(HEADER) else ""


def schema_name(path: Path) -> str:
    """Give the name of the schema that the first line names."""
    return Path(named_schema(path)).name.removesuffix(SUFFIX)


def by_schema() -> Iterator[tuple[str, list[Path]]]:
    """Give the shipped rule files by their schemas, and the facts of machines."""
    names = sorted({schema_name(path) for path in rule_files()})
    for name in names:
        yield name, [path for path in rule_files() if schema_name(path) == name]
    yield "facts", sorted((RULES / "machines").glob("*.yaml"))
