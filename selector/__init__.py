"""Which attention kernel should run here, and why: a decision from ordered YAML rule tables.

``from selector import Selector, attention`` is enough for most uses; every name is loaded when it is first used, so
that importing the package costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from selector.config import AttentionConfig, AttentionSpec, AttnQuantSpec, SkipSoftmaxSpec
    from selector.decision import Decision, InvalidSelectionError, SelectionError, SelectionRefusedError
    from selector.dispatch import attention, use_backends
    from selector.dispatch.layer import Attention
    from selector.rules.problems import ConfigError, FactsError, Problem, ProblemsError, TableError
    from selector.ruleset import RuleSet, load_rules
    from selector.selecting import Selector

__version__ = "0.1.0"
__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionSpec",
    "AttnQuantSpec",
    "ConfigError",
    "Decision",
    "FactsError",
    "InvalidSelectionError",
    "Problem",
    "ProblemsError",
    "RuleSet",
    "SelectionError",
    "SelectionRefusedError",
    "Selector",
    "SkipSoftmaxSpec",
    "TableError",
    "attention",
    "load_rules",
    "use_backends",
]

_HOMES = {
    "selector.config": ("AttentionConfig", "AttentionSpec", "AttnQuantSpec", "SkipSoftmaxSpec"),
    "selector.decision": ("Decision", "InvalidSelectionError", "SelectionError", "SelectionRefusedError"),
    "selector.dispatch": ("attention", "use_backends"),
    "selector.dispatch.layer": ("Attention",),
    "selector.rules.problems": ("ConfigError", "FactsError", "Problem", "ProblemsError", "TableError"),
    "selector.ruleset": ("RuleSet", "load_rules"),
    "selector.selecting": ("Selector",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module `selector` has no attribute `{name}`")
    value = getattr(importlib.import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Name everything public."""
    return sorted(__all__)
