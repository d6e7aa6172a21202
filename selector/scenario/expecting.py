"""What a scenario expects: the names that may stand in it, and how a decision differs from it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.decision import Decision
from selector.faults import Fault, Path
from selector.rule_files import TABLES
from selector.rules.conditions import tests
from selector.rules.problems import nearest, shown
from selector.rules.tables import Row
from selector.rules.walk import Abilities, code
from selector.ruleset import RuleSet
from selector.tracing import Trace, Walk

_BLAMES = "blames"


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that came out otherwise than was wanted."""

    field: str
    wanted: object
    got: object

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {"field": self.field, "wanted": self.wanted, "got": self.got}


# --- names --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Names:
    """The names that an expectation may use; `codes` are those of each row."""

    backends: Collection[str]
    providers: Collection[str]
    codes: Mapping[str, Collection[str]]

    @classmethod
    def of(cls, rules: RuleSet) -> Names:
        """Take them from the rules."""
        rows = [
            (row, rules.abilities.get(table.targets, {})) for table in map(rules.table, TABLES) for row in table.rows
        ]
        return cls(rules.backends, rules.providers, {row.name: tuple(_codes(row, needed)) for row, needed in rows})

    def faults(self, expect: Mapping[str, object], path: Path) -> Iterator[Fault]:
        """Say of every name that nothing in the rules has it."""
        for key, known in {"backend": self.backends, "provider": self.providers, "rule": self.codes}.items():
            yield from _unknown(expect.get(key), known, (*path, key), "row" if key == "rule" else key)
        blames = expect.get(_BLAMES)
        for index, name in enumerate(blames if isinstance(blames, list) else ()):
            if isinstance(name, str):
                of_row = self.codes.get(name.partition(":")[0])
                yield from _unknown(name, self.codes if of_row is None else of_row, (*path, _BLAMES, index), "code")


def _unknown(name: object, known: Collection[str], path: Path, kind: str) -> Iterator[Fault]:
    if isinstance(name, str) and name not in known:
        yield Fault(path, f"unknown-{kind}", f"no {kind} `{shown(name, 120)}`", nearest(name, known))


def _codes(row: Row, abilities: Abilities) -> Iterator[str]:
    """Give every code that a row can be blamed with: its own tests, those of whatever it may use, and the engine's."""
    asked = [row.when]
    if row.action == "use":
        asked += abilities.values() if row.read_from else [abilities[row.target]]
        yield f"{row.name}:backend.excluded"
    yield from (f"{row.name}:{test.fact}.{test.op}" for condition in asked for test in tests(condition))


# --- differences --------------------------------------------------------------------------------------------------


def differences(expect: Mapping[str, object], decision: Decision, trace: Trace) -> list[Difference]:
    """Compare every key of an expectation with what came out."""
    got = {**decision.answer(), "provider": decision.provider, "transform": decision.transform}
    got["error"] = None if decision.error is None else decision.error.code
    found = [
        Difference(key, wanted, got[key])
        for key, wanted in expect.items()
        if key != _BLAMES and not _agrees(wanted, got[key])
    ]
    blames = expect.get(_BLAMES)
    return [*found, *_unblamed(blames if isinstance(blames, list) else [], trace)]


def _agrees(wanted: object, got: object) -> bool:
    """Whether a value is the one that was wanted; warnings may be wanted by their number."""
    if isinstance(got, list) and isinstance(wanted, int):
        return len(got) == wanted
    return wanted == got


def _unblamed(wanted: Sequence[str], trace: Trace) -> Iterator[Difference]:
    """Say of each code that was not blamed what became of its row."""
    blamed = {code(step.row, result) for walk in trace.walks for step in walk.steps for result in step.blamed}
    for name in wanted:
        if name not in blamed:
            yield Difference(_BLAMES, name, _fate(name.partition(":")[0], trace.walks))


def _fate(row: str, walks: Sequence[Walk]) -> list[str]:
    """Give what became of a row: what it was blamed with, else its outcome, for each walk of its table."""
    told: list[str] = []
    for walk in walks:
        for step in walk.steps:
            if step.row.name == row:
                told += [code(step.row, result) for result in step.blamed] or [step.outcome.replace("_", " ")]
    return list(dict.fromkeys(told)) or ["table not walked"]
