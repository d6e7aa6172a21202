"""What was wrong, where, what was expected and the nearest valid name: errors as data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

_MOST_BITS = 4096
_MOST_TOLD = 100


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A position in a text: file (or a name such as ``--config``), 1-based line and column, and the path of keys."""

    file: str
    line: int = 0
    column: int = 0
    path: str = ""

    def __str__(self) -> str:
        """``file:line:column``, or as much of it as is known, then the path in brackets when there is no line."""
        if self.line:
            return f"{self.file}:{self.line}:{self.column}"
        return f"{self.file} ({self.path})" if self.path else self.file


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong. `code` is stable; `message` is one lower-case sentence; `hint` stands apart."""

    place: Place
    code: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        """Two lines at most: ``place: code: message`` and the hint."""
        text = f"{self.place}: {self.code}: {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text


class ProblemsError(ValueError):
    """All problems of one input at once, in the order in which they stand in it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        """Keep the problems sorted by file, line and column."""
        self.problems: tuple[Problem, ...] = tuple(sorted(problems, key=lambda problem: problem.place))
        told = [str(problem) for problem in self.problems[:_MOST_TOLD]]
        rest = len(self.problems) - len(told)
        super().__init__("\n".join([*told, f"and {rest} more problems"] if rest else told))

    def __reduce__(self) -> tuple[Any, ...]:
        """Let the problems, and not the text made of them, be what is pickled."""
        return type(self), (self.problems,)


class TableError(ProblemsError):
    """A rule file that does not load."""


class ConfigError(ProblemsError):
    """A configuration that is not valid."""


class FactsError(ProblemsError):
    """Facts, or a request, that are not valid."""


class MissingFactError(FactsError):
    """A fact without which a table gives no answer."""


def nearest(name: object, known: Iterable[str]) -> str | None:
    """Give the hint that names the most similar known name, or None when nothing is similar."""
    if not isinstance(name, str):
        return None
    import difflib  # only where something is misspelt

    names = list(known)
    folded = {candidate.casefold(): candidate for candidate in names}
    close = difflib.get_close_matches(name.casefold(), list(folded), n=1, cutoff=0.6)
    return f"did you mean `{folded[close[0]]}`?" if close else None


def listing(names: Sequence[str], most: int = 12) -> str:
    """Join names for a sentence; past `most` the rest is counted, so that a message stays readable."""
    shown = ", ".join(names[:most])
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown


def _number(value: int) -> str:
    """Write an integer; one with more digits than Python prints is told by its size."""
    bits = value.bit_length()
    return str(value) if bits < _MOST_BITS else f"{'-' if value < 0 else ''}{hex(abs(value))[:12]}… of {bits} bits"


def reason_of(error: Exception) -> str:
    """Give what an error says, in small letters; one of the system says it in the system's words."""
    return (getattr(error, "strerror", None) or str(error)).lower()


def shown(value: object, most: int = 60) -> str:
    """Write a value as YAML and JSON spell it (`true`, `null`), cut to `most` characters."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value if isinstance(value, str) else _number(value) if isinstance(value, int) else repr(value)
    text = text[: most + 1]
    if not text.isprintable():
        text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) <= most else text[: most - 1] + "…"
