"""What differs between two rule sets beside their tables."""

from __future__ import annotations

from collections.abc import Iterator

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
    node = rules.content[kind].value
    section = node.get(kind) if isinstance(node, dict) else None
    if section is None:
        return
    if isinstance(section.value, dict):
        yield from ((name, child.plain()) for name, child in section.value.items())
    elif isinstance(section.value, list):
        for at, child in enumerate(section.value):
            plain = child.plain()
            names = plain.get("names", [plain.get("id", at)]) if isinstance(plain, dict) else [at]
            yield from ((str(name), plain) for name in (names if isinstance(names, list) else [names]))


def _cautions(rules: RuleSet, name: str) -> object:
    backend = rules.backends.get(name)
    return None if backend is None else [(written(one.when), one.warn) for one in backend.unverified]
