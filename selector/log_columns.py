"""What a decision log is asked by: values of a line that have a name of their own, the same for every kind of log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "role": ("request", "role"), "category": ("request", "category"), "model": ("request", "model"),
    "backend": ("decision", "backend"), "provider": ("decision", "provider"), "source": ("decision", "source"),
    "origin": ("decision", "origin"), "rule": ("decision", "row"), "error": ("decision", "error", "code"),
    "policy": ("policy",), "digest": ("digest",), "arch": ("facts", "arch"), "platform": ("facts", "platform"),
}  # fmt: skip
"""By its name, where each value stands in a line. `rule` is the row that decided, also where it refused."""


def columns_of(line: Mapping[str, object], names: Iterable[str] = COLUMNS) -> tuple[str | None, ...]:
    """Give these values of a line, None for what is not there or is no string."""
    return tuple(_text_at(line, COLUMNS[name]) for name in names)


def _text_at(line: object, path: tuple[str, ...]) -> str | None:
    for key in path:
        line = line.get(key) if isinstance(line, Mapping) else None
    return line if isinstance(line, str) else None
