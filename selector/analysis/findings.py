"""What a check of rules found: data first, with a stable code, a place and a situation that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from selector.rules.problems import Place
from selector.rules.vocabulary import Value

Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")

CODES: Mapping[str, tuple[Level, str]] = {
    "never-fires": ("error", "No situation meets the row: its conditions contradict each other, or its target's."),
    "shadowed": ("error", "Rows before it take every situation that meets it, so that it never fires."),
    "missing-row": ("error", "A scenario names a row that there is not."),
    "same-when": ("warning", "Two rows have the same condition and the same needs; the later one never decides by it."),
    "unused-set": ("warning", "No condition asks about the set."),
    "unused-fact": ("warning", "No condition, template or derived fact uses the fact, and the engine does not either."),
    "unused-package": ("warning", "No condition asks about the package."),
    "unused-provider": ("warning", "No row of the provider table uses the provider, or no backend lists it."),
    "until-passed": ("warning", "What the row was to wait for has come."),
    "unclear-until": ("warning", "`until` is neither a date nor a fact with a comparison: it never passes."),
    "changed-twice": ("warning", "Two overlays change the same thing; the later one wins."),
    "partly-shadowed": ("note", "Rows before it take some of the situations that meet it."),
    "implied-condition": ("note", "The condition changes nothing: others in the row, or the rows before it, imply it."),
    "cannot-run": ("note", "In some situations that the row admits its target cannot run, and the row is passed over."),
    "open-question": ("note", "The answer took more steps than were allowed, so it is not known."),
}  # fmt: skip
"""Every code with its level and one sentence on what it means."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was found. `witness` are facts that show it, as few as there can be."""

    code: str
    place: Place
    message: str
    witness: Mapping[str, Value] | None = None
    rows: tuple[str, ...] = ()

    @property
    def level(self) -> Level:
        """How bad it is."""
        return CODES[self.code][0]

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {
            "code": self.code, "level": self.level, "file": self.place.file, "line": self.place.line,
            "column": self.place.column, "message": self.message, "rows": list(self.rows),
            "witness": None if self.witness is None else dict(self.witness),
        }  # fmt: skip
