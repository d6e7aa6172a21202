"""What differs between two rule sets beside their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from selector.analysis.lint import written
from selector.ruleset import RuleSet

_KINDS = ("models", "roles", "warnings")


def beside(old: RuleSet, new: RuleSet) -> Iterator[str]:
    """Name entries that differ: models, roles, warnings, backends, and what is unverified about these."""
    for kind in _KINDS:
        before, after = (dict(_entries(rules, kind)) for rules in (old, new))
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                how = "new" if name not in before else "gone" if name not in after else "changed"
                yield f"{kind}: {name} ({how})"
    for name in dict.fromkeys([*old.backends, *new.backends]):
        if (name in old.backends) != (name in new.backends):
            yield f"backends: {name} ({'new' if name in new.backends else 'gone'})"
        elif _cautions(old, name) != _cautions(new, name):
            yield f"backends: what is unverified about {name} (changed)"


def _entries(rules: RuleSet, kind: str) -> Iterator[tuple[str, object]]:
    """Give what there is of a kind by its names; a warning without an id goes by its number."""
    content: Any = rules.content[kind].plain()
    entries = content[kind]
    if isinstance(entries, dict):
        yield from entries.items()
        return
    for at, entry in enumerate(entries):
        for name in entry.get("names", [entry.get("id", str(at))]):
            yield name, entry


def _cautions(rules: RuleSet, name: str) -> object:
    return [(written(one.when), one.warn) for one in rules.backends[name].unverified]
