"""`diff`: in which situations two rule sets decide differently, as boxes that do not overlap."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from selector.analysis.beside import beside
from selector.analysis.boxes import Budget, BudgetError, meet, merged, minus
from selector.analysis.lint import written
from selector.analysis.regions import Regions, Where, asked_by, needs_of, regions_of, told, witness
from selector.analysis.space import Box, Space, known_in, make_space, size
from selector.analysis.values import TooManyError
from selector.analysis.winners import Wins, joint
from selector.rules.conditions import Test
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Fact, Value, Vocabulary
from selector.rules.walk import Abilities
from selector.ruleset import RuleSet

STEPS = 200_000
_STEPS_OF_A_ROW = 20_000
_CHOOSING = "explicit"
_NAMED = "backend"
_Pair = tuple[int | None, int | None]
"""The row that wins before and the one that wins after, None for no row."""


@dataclass(frozen=True, slots=True)
class Change:
    """Situations in which a table answers otherwise: where (in words and as a box), by which rows, and an example.

    `before` and `after` are what the rows do (``use CUDNN_ATTN``), or None where no row holds. `cells` counts classes
    of situations that no test of either set can tell apart. Where a row wins in too many regions to tell each, `cells`
    is None, `box` lies around all of them, and the other side may be several rows that do the same.
    """

    table: str
    where: str
    before: str | None
    after: str | None
    rows: tuple[str | None, str | None]
    cells: int | None
    example: Mapping[str, Value]
    box: Box

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {
            "table": self.table, "where": self.where, "before": self.before, "after": self.after,
            "rows": list(self.rows), "cells": self.cells, "example": dict(self.example),
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableDiff:
    """What changes in one table; `open` says why the answer is not complete, where it is not."""

    table: str
    changes: tuple[Change, ...]
    space: Space | None = field(default=None, compare=False, repr=False)
    open: str | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """What changes between two rule sets. `beside` names what else differs: models, roles and warnings."""

    tables: tuple[TableDiff, ...]
    beside: tuple[str, ...]
    digests: tuple[str, str]

    @property
    def changed(self) -> bool:
        """Whether anything decides otherwise, may do so, or is said otherwise."""
        return bool(self.beside) or any(table.changes or table.open for table in self.tables)


def diff(old: RuleSet, new: RuleSet, steps: int = STEPS) -> Diff:
    """Compare two rule sets over every situation."""
    names = list(dict.fromkeys([*old.tables, *new.tables]))
    tables = tuple(_table(name, old, new, steps) for name in names)
    return Diff(tables, tuple(beside(old, new)), (old.digest, new.digest))


# --- one table ----------------------------------------------------------------------------------------------------


def _table(name: str, old: RuleSet, new: RuleSet, steps: int) -> TableDiff:
    before, after = old.tables.get(name), new.tables.get(name)
    if before is None or after is None:
        return TableDiff(name, (), open="the table is new" if before is None else "the table is gone")
    try:
        return _compared(before, after, old, new, steps)
    except (TooManyError, BudgetError) as error:
        why = str(error) or f"the answer takes more than {steps} steps"
        return TableDiff(name, (), open=why)


def _compared(before: Table, after: Table, old: RuleSet, new: RuleSet, steps: int) -> TableDiff:
    asking = [(table, rules.abilities.get(table.targets, {})) for rules, table in ((old, before), (new, after))]
    signed = [_signed(table, able) for table, able in asking]
    stays = _stable(*signed)
    if all(len(stays) == len(rows) for rows in signed) and before.requires == after.requires:
        return TableDiff(before.name, ())
    words = _union(old.vocabulary, new.vocabulary)
    asked = [test for table, able in asking for test in asked_by(table, able, words)]
    known = known_in(before, old.vocabulary) & known_in(after, new.vocabulary)
    space = make_space(asked, words, known, engine=False)
    sides = [regions_of(table, able, words, space) for table, able in asking]
    wins = list(_edited(sides, signed, stays, [able for _, able in asking]))
    budget, found, whole = Budget(steps), dict[_Pair, list[Box]](), list[Wins]()
    for one in wins:
        try:
            pieces = list(one.pieces(budget.part(_STEPS_OF_A_ROW)))
        except BudgetError:
            whole.append(one)
            continue
        for winner, part in pieces:
            pair = (one.row, winner) if one.own is sides[0] else (winner, one.row)
            if _outcome(before, pair[0]) != _outcome(after, pair[1]):
                found.setdefault(pair, []).append(part)
    questions: list[str] = []
    changes = [*_changes(found, sides, space), *_as_wholes(whole, sides, questions)]
    return TableDiff(before.name, tuple(changes), space, "; ".join(dict.fromkeys(questions)) or None)


def _edited(
    sides: Sequence[Regions], signed: Sequence[list[object]], stays: set[object], abilities: Sequence[Abilities]
) -> Iterator[Wins]:
    """Give the wins of each row that was edited: where winners differ, one of the two is such a row.

    For rows that stay stand in the same order in both tables. Where two edited rows win, the older one tells it.
    """
    edited = [[at for at, row in enumerate(rows) if row not in stays] for rows in signed]
    for here, passed in ((0, []), (1, edited[0])):
        own, other = sides[here], sides[1 - here]
        both = joint(own.index, other.index)
        for at in edited[here]:
            boxes = _differing(own, other, at, signed[here], signed[1 - here])
            yield Wins(
                own, other, at, tuple(_told_here(boxes, sides[0].table, abilities, own.space)), both, set(passed)
            )


def _differing(own: Regions, other: Regions, at: int, mine: Sequence[object], theirs: Sequence[object]) -> list[Box]:
    """Give where a row holds, without what the same row of the other table surely wins where this one wins.

    That is where it holds too and none holds of the rows that stand before it there and not here.
    """
    row = own.table.rows[at]
    same = (to for to, it in enumerate(other.table.rows) if it.id == row.id and _does(it) == _does(row))
    to = next(same, None)
    if to is None:
        return list(own.held[at])
    before = set(mine[:at])
    ahead = [box for at, it in enumerate(theirs[:to]) if it not in before for box in other.held[at]]
    found = [piece for box in own.held[at] for piece in _outside(box, other.held[to])]
    found += [shared for box in own.held[at] for one in ahead if (shared := meet(box, one)) is not None]
    return found


def _outside(box: Box, taken: Iterable[Box]) -> list[Box]:
    rest = [box]
    for other in taken:
        rest = [piece for part in rest for piece in minus(part, other)]
    return rest


def _as_wholes(whole: Iterable[Wins], sides: Sequence[Regions], questions: list[str]) -> Iterator[Change]:
    """Tell wins in too many regions by an example for each outcome; what is not found out is added to the questions."""
    for one in whole:
        mine, theirs = one.own.table, one.other.table
        row, is_old = mine.rows[one.row], one.own is sides[0]
        questions.append(f"the regions in which {row.id} wins are too many to tell each")
        winners: dict[object, list[int | None]] = {}
        for at in (*range(len(theirs.rows)), None):
            if at not in one.passed and _outcome(theirs, at) != _does(row):
                winners.setdefault(_outcome(theirs, at), []).append(at)
        for some in winners.values():
            try:
                box = _first(one, some)
            except BudgetError:
                words = _words(None if some[0] is None else theirs.rows[some[0]]) or "no row"
                questions.append(f"whether it is {row.id} against {words} anywhere takes too long to tell")
                continue
            if box is None:
                continue
            does = _words(row), _words(None if some[0] is None else theirs.rows[some[0]])
            before, after = does if is_old else does[::-1]
            where = f"{told(one.around(), one.own.space)}, as far as {row.id} wins"
            ids = (row.id, None) if is_old else (None, row.id)
            yield Change(mine.name, where, before, after, ids, None, witness(box, sides[1]), one.around())


def _first(wins: Wins, winners: Iterable[int | None]) -> Box | None:
    """Find an example for the first of these rows that has one. Raises `BudgetError` when none was found in time."""
    late: BudgetError | None = None
    for winner in winners:
        try:
            found = wins.example(winner, Budget())
        except BudgetError as error:
            late = error
            continue
        if found is not None:
            return found
    if late is not None:
        raise late
    return None


def _told_here(domain: Sequence[Box], table: Table, abilities: Sequence[Abilities], space: Space) -> Iterator[Box]:
    """Leave out, for tables in which a row runs whatever backend was chosen, what changes who can be chosen.

    That is told where it is chosen; here only situations count in which both sets let the backend run. A table that
    only asks which backend it is (that of the providers) is told whole.
    """
    where, able = Where(space), list[Box]()
    names = [test for test in space.tests if test.fact == _NAMED and not test.place.file]
    if table.name == _CHOOSING:  # a backend that one set alone knows is told beside, as nobody else could name it
        alone = [box for test in names if _known_to_one(test, abilities) for box in where.holds(test)]
        yield from (piece for box in domain for piece in _outside(box, alone))
        return
    if not names or not all(abilities) or _NAMED not in table.requires:
        yield from domain
        return
    for test in names:
        needs = [side[name] for side in abilities for name in [str(test.mentions[0])] if name in side]
        if len(needs) == len(abilities):
            found = where.holds(test)
            for need in needs:
                found = where.both(found, where.holds(need))
            able += found
    yield from where.both(domain, able)


def _known_to_one(test: Test, abilities: Sequence[Abilities]) -> bool:
    """Whether only one of two sets knows the backend that a test names."""
    name = str(test.mentions[0])
    return (name in abilities[0]) != (name in abilities[1])


def _signed(table: Table, abilities: Abilities) -> list[object]:
    """Give what makes a row what it is: its id, what it does, when, and what its target needs."""
    return [
        (row.id, _does(row), written(row.when), tuple(map(written, needs_of(row, abilities)))) for row in table.rows
    ]


def _does(row: Row) -> tuple[object, ...]:
    target = None if row.action == "refuse" else row.target  # the words of a refusal are no other decision
    return (row.action, target, row.transform, tuple(sorted(row.redecide.items())))


def _stable(old: Sequence[object], new: Sequence[object]) -> set[object]:
    """Give the rows that are the same and stand in the same order: a longest such series."""
    place = {row: at for at, row in enumerate(new)}
    common = [row for row in old if row in place]
    tails: list[int] = []
    last: list[object] = []
    before: dict[object, object] = {}
    for row in common:
        at = bisect.bisect_left(tails, place[row])
        if at:
            before[row] = last[at - 1]
        tails[at:at + 1], last[at:at + 1] = [place[row]], [row]  # fmt: skip
    found: set[object] = set()
    here = last[-1] if last else None
    while here is not None:
        found.add(here)
        here = before.get(here)
    return found


def _outcome(table: Table, row: int | None) -> object:
    return None if row is None else _does(table.rows[row])


def _changes(
    found: Mapping[tuple[int | None, int | None], list[Box]], sides: Sequence[Regions], space: Space
) -> Iterator[Change]:
    """Join and sort the parts, and tell each."""
    before, after = sides[0].table, sides[1].table
    for one, two in sorted(found, key=lambda rows: [[] if row is None else [row] for row in rows]):
        for box in sorted(merged(found[one, two]), reverse=True):
            rows = tuple(None if at is None else table.rows[at] for table, at in ((before, one), (after, two)))
            yield Change(
                before.name, told(box, space), _words(rows[0]), _words(rows[1]),
                (rows[0].id if rows[0] else None, rows[1].id if rows[1] else None),
                size(box), witness(box, sides[1]), box,
            )  # fmt: skip


def _words(row: Row | None) -> str | None:
    """Say what a row does."""
    if row is None:
        return None
    return "refuse" if row.action == "refuse" else f"{row.action} {row.target}"


def _union(old: Vocabulary, new: Vocabulary) -> Vocabulary:
    """Give the words of both sets; a fact that both know takes the values of both."""
    facts: dict[str, Fact] = dict(old.facts)
    for name, fact in new.facts.items():
        known = facts.get(name)
        values = tuple(dict.fromkeys([*known.values, *fact.values])) if known and known.values and fact.values else ()
        facts[name] = replace(fact, values=values) if values else fact
    derived = {one.name: one for one in (*old.derived, *new.derived)}
    return Vocabulary(facts, {**old.sets, **new.sets}, {**old.packages, **new.packages}, tuple(derived.values()))
