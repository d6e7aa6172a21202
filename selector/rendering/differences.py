"""What changes between two rule sets, as text, Markdown or plain data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from selector.analysis.diff import Change, Diff
from selector.rules.problems import shown
from selector.rules.vocabulary import Value

_NOTHING = "no decision changes"
_DIGEST = 12


def as_text(found: Diff, machines: Mapping[str, Sequence[Change]] | None = None) -> str:
    """Tell it in lines: each pair of rows with the situations in which the one gives way to the other."""
    return "".join(f"{line}\n" for line in _lines(found, machines))


def _lines(found: Diff, machines: Mapping[str, Sequence[Change]] | None) -> Iterator[str]:
    old, new = found.digests
    yield f"{old[:_DIGEST]} → {new[:_DIGEST]}: {_summary(found)}"
    for table in found.tables:
        if table.open:
            yield f"{table.table}: left open: {table.open}"
        for pair, changes in _pairs(table.changes):
            yield f"{table.table}: {pair}"
            for change in changes:
                yield f"  where {change.where}"
            yield f"  such as: {_facts(changes[0].example)}"
    for line in found.beside:
        yield f"also: {line}"
    for name, some in (machines or {}).items():
        yield f"{name}: {_concerned(some)}"


def as_markdown(found: Diff, machines: Mapping[str, Sequence[Change]] | None = None) -> str:
    """Tell it as a comment for a reviewer."""
    return "".join(f"{line}\n" for line in _markdown(found, machines))


def _markdown(found: Diff, machines: Mapping[str, Sequence[Change]] | None) -> Iterator[str]:
    old, new = found.digests
    yield "### Attention rules"
    yield ""
    yield f"`{old[:_DIGEST]}` → `{new[:_DIGEST]}`: {_summary(found)}."
    changes = [change for table in found.tables for change in table.changes]
    if changes:
        yield ""
        yield "| table | before | after | where | such as |"
        yield "|---|---|---|---|---|"
    for change in changes:
        before, after = (_cell(*side) for side in zip((change.before, change.after), change.rows, strict=True))
        yield f"| {change.table} | {before} | {after} | {_plain(change.where)} | `{_plain(_facts(change.example))}` |"
    rest = [f"{table.table}: left open: {table.open}" for table in found.tables if table.open]
    rest += [*found.beside, *(f"{name}: {_concerned(some)}" for name, some in (machines or {}).items())]
    if rest:
        yield ""
    yield from (f"- {_plain(line)}" for line in rest)


def as_data(found: Diff, machines: Mapping[str, Sequence[Change]] | None = None) -> dict[str, object]:
    """Give it as plain data that JSON can hold."""
    told: dict[str, object] = {
        "old": found.digests[0], "new": found.digests[1], "changed": found.changed,
        "changes": [change.to_dict() for table in found.tables for change in table.changes],
        "open": {table.table: table.open for table in found.tables if table.open}, "beside": list(found.beside),
    }  # fmt: skip
    if machines is not None:
        told["machines"] = {name: [change.to_dict() for change in changes] for name, changes in machines.items()}
    return told


def _summary(found: Diff) -> str:
    changes = [change for table in found.tables for change in table.changes]
    if not found.changed:
        return _NOTHING
    parts = [f"{len(changes)} regions in which a decision changes"] if changes else [_NOTHING]
    if len(changes) == 1:
        parts = ["1 region in which a decision changes"]
    parts += [f"{len(found.beside)} other entries differ"] if found.beside else []
    parts += ["some questions are left open"] if any(table.open for table in found.tables) else []
    return ", ".join(parts)


def _pairs(changes: Sequence[Change]) -> Iterator[tuple[str, list[Change]]]:
    """Join changes of the same two rows, which stand one after the other."""
    for (rows, before, after), some in groupby(changes, key=lambda one: (one.rows, one.before, one.after)):
        pair = list(some)
        counted = [change.cells for change in pair if change.cells is not None]
        cells = f"{sum(counted):,}" if counted else "uncounted"
        sides = [
            f"{does or 'no row'}{f' ({row})' if row else ''}" for does, row in zip((before, after), rows, strict=True)
        ]
        yield f"{sides[0]} → {sides[1]}, in {cells} classes of situations", pair


def _facts(facts: Mapping[str, Value]) -> str:
    return ", ".join(f"{name} {shown(value)}" for name, value in facts.items())


def _concerned(changes: Sequence[Change]) -> str:
    if not changes:
        return "nothing changes"
    pairs = dict.fromkeys(f"{change.before or 'no row'} → {change.after or 'no row'}" for change in changes)
    return "; ".join(pairs)


def _cell(does: str | None, row: str | None) -> str:
    return f"{_plain(does or 'no row')}{f'<br>`{row}`' if row else ''}"


def _plain(text: str) -> str:
    """Keep a text from being taken for the signs of a table."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")
