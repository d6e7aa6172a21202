"""What differs between two rule sets beside their tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from selector.analysis.lint import written
from selector.ruleset import RuleSet

_KINDS = ("models", "roles", "warnings")
_FIELDS = ("providers", "reads", "takes", "unbound", "default_name")
"""What is said of a backend, beside its needs, that tells in what a decision ends."""


def beside(old: RuleSet, new: RuleSet) -> Iterator[str]:
    """Name entries that differ: models, roles, warnings, backends and their builds, and what is said of these."""
    for kind in _KINDS:
        before, after = (dict(_entries(rules, kind)) for rules in (old, new))
        for name in dict.fromkeys([*before, *after]):
            if before.get(name) != after.get(name):
                how = "new" if name not in before else "gone" if name not in after else "changed"
                yield f"{kind}: {name} ({how})"
    yield from _backends(old, new)
    yield from _builds(old, new)


def _backends(old: RuleSet, new: RuleSet) -> Iterator[str]:
    for name in dict.fromkeys([*old.backends, *new.backends]):
        if (name in old.backends) != (name in new.backends):
            yield f"backends: {name} ({'new' if name in new.backends else 'gone'})"
            continue
        one, other = old.backends[name], new.backends[name]
        for field in _FIELDS:
            if getattr(one, field) != getattr(other, field):
                yield f"backends: `{field}` of {name} (changed)"
        if _cautions(old, name) != _cautions(new, name):
            yield f"backends: what is unverified about {name} (changed)"


def _builds(old: RuleSet, new: RuleSet) -> Iterator[str]:
    for name in dict.fromkeys([*old.providers, *new.providers]):
        if (name in old.providers) != (name in new.providers):
            yield f"providers: {name} ({'new' if name in new.providers else 'gone'})"
        elif old.providers[name].unbound != new.providers[name].unbound:
            yield f"providers: `unbound` of {name} (changed)"


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
