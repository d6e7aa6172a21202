"""`attention-selector schema`: the JSON Schemas by which editors complete and check rule files."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping

from selector.command import given
from selector.command.usage import UsageError
from selector.rules.problems import nearest, shown


def run(options: argparse.Namespace) -> int:
    """Write one schema, with the names that the rules in use know, or list all."""
    from selector.schemas.build import NAMES, schemas  # pydantic only where it is needed

    name = options.name
    if name is not None and name not in NAMES:
        hint = nearest(name, NAMES) or f"schemas: {', '.join(NAMES)}"
        raise UsageError(f"no schema `{shown(name)}`; {hint}")
    built = schemas(given.rules(options))
    if name is None:
        sys.stdout.write(_listing(built))
    else:
        sys.stdout.write(json.dumps(built[name], indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    return 0


def _listing(built: Mapping[str, Mapping[str, object]]) -> str:
    width = max(map(len, built))
    return "".join(f"{name:<{width}}  {schema['title']}\n" for name, schema in built.items())
