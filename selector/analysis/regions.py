"""Where each row of a table holds, as boxes, and how a box is told to a person."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.analysis.boxes import Budget, BudgetError, Index, meet, within, without
from selector.analysis.cells import possible
from selector.analysis.space import Answers, Box, Space, Variable, bits, known_in, make_space
from selector.analysis.values import candidates
from selector.rules.conditions import ALWAYS, Condition, Either, Not, Test, tests
from selector.rules.problems import Place, shown
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Value, Vocabulary
from selector.rules.walk import Abilities

MOST_BOXES = 20_000
_MOST_SHOWN = 6
_MOST_JOINED = 3


@dataclass(frozen=True, slots=True)
class Regions:
    """A table over its space: for each row where it holds by itself, whatever stands before it.

    `wished` is where the row's own condition holds, `held` where its target can run as well.
    """

    table: Table
    space: Space
    wished: tuple[tuple[Box, ...], ...]
    held: tuple[tuple[Box, ...], ...]
    index: Index
    vocabulary: Vocabulary

    def left(self, row: int, budget: Budget, used: set[int] | None = None) -> Iterator[Box]:
        """Give where a row wins: what the rows before it leave of it, in boxes that do not overlap."""
        before = self.index.below(row)
        taken: list[Box] = []
        for box in self.held[row]:
            for part in self.index.uncovered(box, before, budget, used):
                yield from without(part, taken, budget)
            taken.append(box)


def conditions_of(table: Table, abilities: Abilities) -> Iterator[Condition]:
    """Give every condition that a table asks: those of its rows, and what their targets need."""
    for row in table.rows:
        yield row.when
        yield from needs_of(row, abilities)


def needs_of(row: Row, abilities: Abilities) -> list[Condition]:
    """Give what the target of a row needs; of a row that uses whatever was named, what each of them needs."""
    if row.action != "use":
        return []
    return list(abilities.values()) if row.read_from else [abilities.get(row.target, ALWAYS)]


def regions_of(table: Table, abilities: Abilities, vocabulary: Vocabulary, space: Space | None = None) -> Regions:
    """Work a table out over its space, or over a larger one that holds its tests."""
    if space is None:
        asked = list(asked_by(table, abilities, vocabulary))
        space = make_space(asked, vocabulary, known_in(table, vocabulary), engine=False)
    where = Where(space)
    wished = tuple(tuple(where.holds(row.when)) for row in table.rows)
    held = tuple(tuple(_held(where, row, wished[at], abilities)) for at, row in enumerate(table.rows))
    flat = [(at, box) for at, boxes in enumerate(held) for box in boxes]
    return Regions(table, space, wished, held, Index([box for _, box in flat], [at for at, _ in flat]), vocabulary)


def asked_by(table: Table, abilities: Abilities, vocabulary: Vocabulary) -> Iterator[Test]:
    """Give every test that a table asks, and one for each name that an open target may stand for."""
    for condition in conditions_of(table, abilities):
        yield from tests(condition)
    named = [str(row.read_from) for row in table.rows if row.read_from and row.action == "use"]
    yield from _names(named, abilities, vocabulary)


def _names(facts: Iterable[str], abilities: Abilities, vocabulary: Vocabulary) -> Iterator[Test]:
    """Give a test for each name that a fact may hold, so that those with needs of their own are told apart."""
    for name in dict.fromkeys(facts):
        for target in abilities:
            if target in vocabulary.facts[name].values:
                yield Test(name, "equals", target, _equal(target), False, None, frozenset(), Place(""), (target,))  # noqa: FBT003


def _equal(target: str) -> Callable[[object], bool]:
    def check(value: object) -> bool:
        return value == target

    return check


def _held(where: Where, row: Row, boxes: Sequence[Box], abilities: Abilities) -> Iterator[Box]:
    """Give where a row's target can run, of the boxes where its condition holds."""
    if row.action != "use" or not row.read_from:
        needs = abilities.get(row.target, ALWAYS) if row.action == "use" else ALWAYS
        yield from where.both(boxes, where.holds(needs))
        return
    named = _named(str(row.read_from), where.space, abilities)
    for name, test in named.items():
        yield from where.both(boxes, where.both(where.holds(test), where.holds(abilities[name])))
    others = where.holds(Either(tuple(named.values())), wanted=False)  # names of which nothing is known that they need
    yield from where.both(boxes, others)


def _named(fact: str, space: Space, abilities: Abilities) -> dict[str, Test]:
    """Give the test for each name that a fact may hold and that has needs."""
    found: dict[str, Test] = {}
    for test in space.tests:
        name = test.mentions[0] if test.mentions else None
        if test.fact == fact and test.op == "equals" and not test.place.file and name in abilities:
            found.setdefault(str(name), test)
    return found


@dataclass(frozen=True, slots=True)
class Where:
    """Finds where conditions hold."""

    space: Space

    def holds(self, condition: Condition, *, wanted: bool = True) -> list[Box]:
        """Give the boxes where a condition holds, or (not `wanted`) fails; undetermined is neither."""
        if isinstance(condition, Test):
            answers = self.space.of(condition)
            mask = answers.true if wanted else answers.false
            full = self.space.full
            return [(*full[: answers.variable], mask, *full[answers.variable + 1 :])] if mask else []
        if isinstance(condition, Not):
            return self.holds(condition.part, wanted=not wanted)
        if isinstance(condition, Either) is wanted:
            return _maximal(box for part in condition.parts for box in self.holds(part, wanted=wanted))
        found = [self.space.full]
        for part in condition.parts:
            found = self.both(found, self.holds(part, wanted=wanted))
        return found

    def both(self, some: Iterable[Box], others: Sequence[Box]) -> list[Box]:
        """Give what two sets share. Raises `BudgetError` when that are more boxes than are worked with."""
        shared = [box for one in some for other in others if (box := meet(one, other)) is not None]
        if len(shared) > MOST_BOXES:
            raise BudgetError
        return _maximal(shared)


def _maximal(boxes: Iterable[Box]) -> list[Box]:
    """Leave out boxes that lie in another one."""
    found: list[Box] = []
    for box in dict.fromkeys(boxes):
        if not any(within(box, other) for other in found):
            found = [other for other in found if not within(other, box)]
            found.append(box)
    return found


# --- telling ------------------------------------------------------------------------------------------------------


def told(box: Box, space: Space) -> str:
    """Tell a box in words: what each fact that matters must be."""
    parts = [
        variable_told(variable, mask, space, at)
        for at, (variable, mask) in enumerate(zip(space.variables, box, strict=True))
        if mask != variable.full
    ]
    return ", ".join(parts) or "everywhere"


def variable_told(variable: Variable, mask: int, space: Space, at: int) -> str:
    """Tell what one variable must be: by a test that says just that, by two of them, or by its values."""
    if (at, mask) not in space.told:
        space.told[at, mask] = _variable_told(variable, mask, space, at)
    return space.told[at, mask]


def _variable_told(variable: Variable, mask: int, space: Space, at: int) -> str:
    if at not in space.readings:
        found: dict[str, int] = {}
        for test in space.asked[at]:
            for text, where in _readings(test, space.of(test), variable.full) if test.place.file else ():
                found.setdefault(text, where)
        space.readings[at] = found
    options = space.readings[at]
    if not any(member for cell in bits(mask) for member in variable.cells[cell].members):
        return f"{variable.names[0]} not known"
    exact = next((text for text, where in options.items() if where == mask), None)
    return exact or _conjunction(options, mask, variable.full) or _values(variable, mask)


def _readings(test: Test, answers: Answers, full: int) -> Iterator[tuple[str, int]]:
    """Give what a test can be used to say of a variable: that it holds, that it fails, or no more than one of these."""
    yield f"{test.fact} {test.wanted}", answers.true
    yield f"{test.fact} not {test.wanted}", answers.false
    yield f"{test.fact} {test.wanted} or not known", full & ~answers.false
    yield f"{test.fact} not {test.wanted} or not known", full & ~answers.true


def _conjunction(options: Mapping[str, int], mask: int, full: int) -> str | None:
    """Say it by a few of these that all hold, where that is possible."""
    fits = sorted((where.bit_count(), text, where) for text, where in options.items() if not mask & ~where)
    here, chosen = full, list[tuple[str, int]]()
    for _, text, where in fits:
        if here & where != here:
            here &= where
            chosen.append((text, where))
        if here == mask:
            break
    else:
        return None
    needed = [one for one in chosen if _all(full, [where for other, where in chosen if other != one[0]]) != mask]
    if _all(full, [where for _, where in needed]) != mask or len(needed) > _MOST_JOINED:
        return None
    return " and ".join(text for text, _ in needed)


def _all(full: int, masks: Iterable[int]) -> int:
    for mask in masks:
        full &= mask
    return full


def _values(variable: Variable, mask: int) -> str:
    """Tell what one variable must be by a value of each class."""
    cells = [variable.cells[at].facts for at in bits(mask)]
    if len(variable.names) == 1 or all(len(cell) <= 1 for cell in cells):
        name = next((name for cell in cells for name in cell), variable.names[0])
        words = [shown(cell[name]) if name in cell else "not known" for cell in cells if not cell or name in cell]
        more = f" or {len(words) - _MOST_SHOWN} more" if len(words) > _MOST_SHOWN else ""
        return f"{name} {' or '.join(words[:_MOST_SHOWN])}{more}"
    words = [" with ".join(f"{name} {shown(value)}" for name, value in cell.items()) or "not known" for cell in cells]
    more = f" or {len(words) - _MOST_SHOWN} more" if len(words) > _MOST_SHOWN else ""
    return f"({' or '.join(words[:_MOST_SHOWN])}{more})"


def witness(box: Box, regions: Regions) -> dict[str, Value]:
    """Give the facts of one situation in a box, as few as there can be, and those without which nothing is decided."""
    facts = regions.space.facts(box)
    needed: dict[str, Value] = {}
    for name in regions.table.requires:
        if name not in facts:
            values = candidates(regions.vocabulary.facts[name], ())
            fits = (value for value in values if _fit({**facts, **needed, name: value}, regions.vocabulary))
            needed[name] = next(fits, values[0])
    return {**needed, **facts}


def _fit(facts: Mapping[str, Value], vocabulary: Vocabulary) -> bool:
    return possible(facts, [vocabulary.facts[name] for name in facts])
