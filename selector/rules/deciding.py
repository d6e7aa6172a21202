"""Tables that decide fast and explain fast; what they say is what `walk` says, which is the definition.

A table answers its first questions by walking: making it fast costs more than they do. Then it is compiled
(`selector.rules.compiled`), or laid out by columns where the code would be too large (`selector.rules.columns`). What a
row said for some values of its facts is remembered for the next trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from selector.rules.conditions import ALWAYS, UNKNOWN, Condition, Facts, tests
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Vocabulary
from selector.rules.walk import Abilities, Step, explain_row, first

if TYPE_CHECKING:
    from selector.rules.compiled import Decide, Guard

Answer = TypeVar("Answer")
WALKED = 64
"""How many questions a table answers by walking."""
MOST_COMPILED = 40
"""How many rows a table may have to be compiled."""
MOST_STEPS = 20_000
"""How many steps of traces are remembered."""


class Decider:
    """One table, ready to be asked. Threads may share it.

    The facts that it is asked about must be such as the vocabulary allows, with all that the table requires.
    """

    def __init__(self, table: Table, abilities: Abilities, vocabulary: Vocabulary) -> None:
        """Take a table with what its targets need."""
        self.table, self.abilities, self.vocabulary = table, abilities, vocabulary
        named = {row.read_from for row in table.rows if row.action == "use" and row.read_from}
        self._several = len(named) > 1
        self._named = named.pop() if len(named) == 1 else None
        self._asked = 0
        self._first: Decide[Row] | None = None
        self._traces: _Traces | None = None

    # --- the first row that holds ---

    def first(self, facts: Facts) -> Row | None:
        """Give the first row that holds, None where none does."""
        if self._first is not None:
            return self._first(facts)
        if self._asked < WALKED:
            self._asked += 1
            return first(self.table, facts, self.abilities)
        self._first = self.bind(self.table.rows)
        return self._first(facts)

    def bind(self, answers: Sequence[Answer], guard: Guard | None = None) -> Decide[Answer]:
        """Make a function that gives the answer, one for each row, of the first row that holds; None where none does.

        A `guard` looks at the facts first: `selector.tables.bind` has one.
        """
        if self._named is None:
            return self._made(answers, None, guard)
        fact = self._named
        made: dict[str, Decide[Answer]] = {}

        def decide(facts: Facts) -> Answer | None:
            named = str(facts[fact])
            if named not in made:
                made[named] = self._made(answers, named, None)
            return made[named](facts)

        return decide if guard is None else _looking(guard)

    def _made(self, answers: Sequence[Answer], named: str | None, guard: Guard | None) -> Decide[Answer]:
        from selector.rules.columns import Columns, by_columns  # commands that decide once need neither
        from selector.rules.compiled import TooLargeError, compiled

        if not self._several and len(self.table.rows) <= MOST_COMPILED:
            try:
                return compiled(self.table, self.abilities, self.vocabulary, answers, named=named, guard=guard)
            except TooLargeError:
                pass
        return _looking(guard) if guard is not None else by_columns(Columns(self.table, self.abilities), answers)

    # --- the trace ---

    def steps(self, facts: Facts) -> tuple[Step, ...]:
        """Give a step for every row, as `walk.walk` does."""
        return self._made_traces().steps(facts)

    def lazily(self, facts: Facts) -> Iterator[Step]:
        """Give the same steps one by one, each found out when it is asked for."""
        return self._made_traces().lazily(facts)

    def forget(self) -> None:
        """Forget every step, so that the next trace is found out anew."""
        self._made_traces().forget()

    def _made_traces(self) -> _Traces:
        if self._traces is None:
            self._traces = _Traces(self.table, self.abilities)
        return self._traces


def _looking(guard: Guard) -> Decide[Answer]:
    """Make what leaves all facts to the guard."""
    others: Decide[Answer] = guard.others  # type: ignore[assignment]  # which answers as it is bound
    return others


class _Traces:
    """Steps of rows, remembered by the values of the facts that a row asks about."""

    def __init__(self, table: Table, abilities: Abilities) -> None:
        """Prepare every row."""
        self.abilities = abilities
        self.rows = [_Remembered(row, abilities) for row in table.rows]
        self.unreached = tuple(Step(row, "not_reached") for row in table.rows)
        self.kept = 0

    def steps(self, facts: Facts) -> tuple[Step, ...]:
        found = []
        for row in self.rows:
            step = row.memo.get(key := row.key(facts)) or self.explained(row, key, facts)
            found.append(step)
            if step.outcome == "chosen":
                break
        return (*found, *self.unreached[len(found) :])

    def lazily(self, facts: Facts) -> Iterator[Step]:
        for at, row in enumerate(self.rows):
            step = row.memo.get(key := row.key(facts)) or self.explained(row, key, facts)
            yield step
            if step.outcome == "chosen":
                yield from self.unreached[at + 1 :]
                return

    def forget(self) -> None:
        self.kept = 0
        for row in self.rows:
            row.memo.clear()

    def explained(self, row: _Remembered, key: object, facts: Facts) -> Step:
        if self.kept >= MOST_STEPS:
            self.forget()
        self.kept += 1
        step = row.memo[key] = explain_row(row.row, facts, self.abilities)
        return step


class _Remembered:
    """A row, how its key is read off facts, and its steps by that key."""

    __slots__ = ("key", "memo", "row")

    def __init__(self, row: Row, abilities: Abilities) -> None:
        """Prepare the key: the values of all facts that the row asks about, given or not."""
        self.row = row
        self.memo: dict[object, Step] = {}
        named = row.read_from if row.action == "use" else None
        if named is not None:
            self.key = _key_by_name(named, row.when, abilities)
        elif row.action == "use":
            self.key = _key(row.when, abilities.get(row.target, ALWAYS))
        else:
            self.key = _key(row.when)


def _key(*conditions: Condition) -> Callable[[Facts], object]:
    """Make what reads the values of the facts that these ask about."""
    names = dict.fromkeys(test.fact for condition in conditions for test in tests(condition))
    if not names:
        return lambda _: ()
    every = itemgetter(*names)

    def key(facts: Facts) -> object:
        try:
            return every(facts)
        except KeyError:
            return tuple([facts.get(name, UNKNOWN) for name in names])

    return key


def _key_by_name(named: str, when: Condition, abilities: Abilities) -> Callable[[Facts], object]:
    """Make what reads them where another fact names the target, and so what is needed."""
    keys: dict[str, Callable[[Facts], object]] = {}

    def key(facts: Facts) -> object:
        target = str(facts[named])
        if target not in keys:
            keys[target] = _key(when, abilities.get(target, ALWAYS))
        return target, keys[target](facts)

    return key
