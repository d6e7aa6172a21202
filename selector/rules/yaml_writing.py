"""Writing plain data as YAML that the strict reader reads back as it was."""

from __future__ import annotations

import yaml

from selector.rules.yaml_text import scalar_of

WIDTH = 120
_LONGEST_PLAIN = 1000


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - the signature is PyYAML's
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    """Quote what would be read as something else, and what has signs that cannot be seen."""
    plain = text.isprintable() and len(text) < _LONGEST_PLAIN and isinstance(scalar_of(text), str)
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=None if plain else '"')


_Dumper.add_representer(str, _text)


def as_yaml(value: object, width: int = WIDTH, *, flow: bool | None = False) -> str:
    """Write a value; with `flow` None, mappings and lists that hold no others stand on one line."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=width, default_flow_style=flow
    )
    return text
