"""The shipped rules with small tables in place of some and with few needs, so that each answer can be told by heart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import yaml

from selector.rules.fields import Source
from selector.rules.tables import Table, TableReader
from selector.rules.vocabulary import Vocabulary
from selector.rules.when import Reader
from selector.rules.yaml_text import read_yaml
from selector.ruleset import RuleSet, shipped
from tests.selector.analysis.random_tables import read_when


def table_of(name: str, rows: Sequence[str], words: Vocabulary | None = None) -> Table:
    """Read a table that asks for what the shipped one of that name asks for; its first row stands in line 5."""
    like = shipped().tables[name]
    source = Source(f"{name}.yaml")
    text = f"table: {name}\ntargets: {like.targets}\nrequires: [{', '.join(like.requires)}]\nrows:\n"
    text += "".join(f"  - {{{row}, because: x}}\n" for row in rows)
    found = TableReader(Reader(words or shipped().vocabulary, source)).read(read_yaml(text, source.file))
    assert source.problems == []
    assert found is not None
    return found


def rules_of(
    rows: Sequence[str], needs: Mapping[str, str], words: Vocabulary | None = None, **tables: Sequence[str]
) -> RuleSet:
    """Give rules with this table of platform defaults, other tables by name, and what backends need."""
    words = words or shipped().vocabulary
    found = {name: table_of(name, some, words) for name, some in {"platform_default": rows, **tables}.items()}
    abilities = {name: read_when(words, yaml.safe_load(need), "needs.yaml") for name, need in needs.items()}
    return replace(
        shipped(), vocabulary=words, tables={**shipped().tables, **found},
        abilities={**shipped().abilities, "backends": abilities},
    )  # fmt: skip
