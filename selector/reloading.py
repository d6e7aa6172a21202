"""Newer rules for a selector that is serving: taken whole, refused whole, or run beside the old ones first."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from selector.decision import Decision
from selector.rule_files import SUFFIXES
from selector.rules.problems import Place, Problem, TableError
from selector.ruleset import RuleSet, load_rules
from selector.serving import Serving

_TRIES = 5
_MOST_KINDS = 1000
Stamp = tuple[tuple[str, int, int, int], ...]


@dataclass(frozen=True, slots=True)
class Reload:
    """What came of one reload: the rules that serve now, and why newer ones do not, if they do not.

    `outcome` is `swapped`, `unchanged`, `shadowed` (the newer rules decide beside the old ones) or `refused`.
    """

    outcome: str
    digest: str
    newer: str | None = None
    problems: tuple[Problem, ...] = ()
    notices: tuple[Problem, ...] = ()

    def __str__(self) -> str:
        """Tell it in a line, and each problem in one more."""
        told = {
            "swapped": f"rules {self.digest[:12]} serve now",
            "unchanged": f"rules {self.digest[:12]} serve on: nothing has changed",
            "shadowed": f"rules {str(self.newer)[:12]} decide beside {self.digest[:12]}, which serve on",
            "refused": f"rules {self.digest[:12]} serve on: the newer ones are refused",
        }[self.outcome]
        return "\n".join([told, *map(str, self.problems)])


def stamp(folders: Sequence[str | Path]) -> Stamp:
    """Tell the state of all rule files: names, numbers, times and sizes; equal states have equal files."""
    found = []
    for path in map(Path, folders):
        try:
            inner = [path] if not path.is_dir() else [one for one in path.iterdir() if one.suffix.lower() in SUFFIXES]
        except (OSError, ValueError):
            inner = []
        for one in inner:
            try:
                state = one.stat()
            except (OSError, ValueError):
                continue
            found.append((str(one), state.st_ino, state.st_mtime_ns, state.st_size))
    return tuple(sorted(found))


def load_settled(folders: Sequence[str | Path]) -> RuleSet:
    """Load rules from files that did not change meanwhile, so that no set is half old and half new.

    Raises `TableError` for rules that do not load, and when the files kept changing.
    """
    for _ in range(_TRIES):
        before = stamp(folders)
        try:
            rules = load_rules(folders)
        except TableError:
            if stamp(folders) == before:
                raise
            continue
        if stamp(folders) == before:
            return rules
    where = Place(", ".join(map(str, folders)))
    raise TableError([Problem(where, "changing", f"the files changed while they were read, {_TRIES} times in a row")])


@dataclass(slots=True)
class Shadow:
    """Newer rules that decide beside those that serve, and how their answers differ.

    `kinds` counts the differences by the rows that decided: ``(before, after)``. Threads may use it together.
    """

    serving: Serving
    decided: int = 0
    differing: int = 0
    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    examples: dict[tuple[str, str], tuple[Decision, Decision]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def watch(self, decision: Decision, ask: Callable[[Serving], Decision]) -> None:
        """Ask the newer rules what was just decided, and count it."""
        other = ask(self.serving)
        kind = (_row(decision), _row(other))
        differs = decision.answer() != other.answer() or decision.provider != other.provider
        with self.lock:
            self.decided += 1
            if not differs:
                return
            self.differing += 1
            if kind in self.kinds or len(self.kinds) < _MOST_KINDS:
                self.kinds[kind] += 1
                self.examples.setdefault(kind, (decision, other))

    def __str__(self) -> str:
        """Tell how many decisions differ, and by which rows, most frequent first."""
        with self.lock:
            lines = [f"{self.differing} of {self.decided} decisions differ"]
            for (before, after), count in self.kinds.most_common():
                old, new = self.examples[before, after]
                asked = f"{old.role}{f' of {model}' if (model := _model(old)) else ''}"
                lines.append(f"  {count} × {old.backend} ({before}) → {new.backend} ({after}), such as for {asked}")
        return "\n".join(lines)


def _model(decision: Decision) -> str | None:
    return None if decision.inputs is None else decision.inputs.request.model


def _row(decision: Decision) -> str:
    return decision.rule or (decision.error.code if decision.error else "none")
