"""Tables compiled to Python: a decision tree that asks each test once, and answers as the walker does.

`walk.first` is the definition, and asks the tests row by row. Here the rows are turned into one function of nested
`if`s: what an answer says about later tests (``sm_major`` is 10, so it is not 9) is used, so that no test is asked that
is already answered. Reading one value and comparing it is all that is done at run time; that is why this is source
code and not a walk over a tree of objects, which costs three times as much.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import NamedTuple, TypeVar

from selector.rules.conditions import ALWAYS, UNKNOWN, Condition, Either, Facts, Not, Test
from selector.rules.tables import Row, Table
from selector.rules.vocabulary import Fact, Vocabulary
from selector.rules.walk import Abilities

Answer = TypeVar("Answer")
Decide = Callable[[Facts], Answer | None]
MOST_LINES = 1_500
_MOST_WAYS = 32
_MOST_DEEP = 40


class TooLargeError(Exception):
    """A table needs more code than is worth it."""


@dataclass(frozen=True, slots=True)
class _Literal:
    """A test, and the answer that is wanted of it; tests that ask the same make the same literal."""

    test: Test = field(compare=False)
    wanted: bool
    asked: Hashable


class _Way(NamedTuple):
    """One way in which a row holds: all of these literals are so."""

    literals: tuple[_Literal, ...]
    row: int


class Guard(NamedTuple):
    """What a function does that looks at its facts before it believes them.

    `others` is called with facts that are not evidently right. `known` has for each fact of type string or version the
    values that are right.
    """

    others: Callable[[Facts], object]
    known: Mapping[str, set[object]]


def compiled(
    table: Table,
    abilities: Abilities,
    vocabulary: Vocabulary,
    answers: Sequence[Answer],
    *,
    named: str | None = None,
    guard: Guard | None = None,
) -> Decide[Answer]:
    """Make a function that gives the answer of the first row that holds, None where none does.

    `answers` has one for each row. The facts must be such as the vocabulary allows, with all that the table requires;
    with a `guard` the function sees to that. For tables with rows that use whatever a fact names (``{backend}``),
    `named` is what it names. Raises `TooLargeError` for tables that need too much code.
    """
    ways = [way for at, row in enumerate(table.rows) for way in _ways(row, at, abilities, named)]
    return _Writer(table, vocabulary, ways).function(answers, guard)


# --- rows as ways to hold -----------------------------------------------------------------------------------------


def question(test: Test) -> Hashable:
    """Give what a test asks: tests that ask the same answer alike."""
    return test.fact, test.op, test.wanted, test.mentions, test.at_null, test.at_unknown, test.special


def needs(row: Row, abilities: Abilities, named: str | None) -> Condition:
    """Give what a row's target needs; of a row that uses what a fact names, what `named` needs."""
    if row.action != "use":
        return ALWAYS
    return abilities.get(str(named) if row.read_from else row.target, ALWAYS)


def _ways(row: Row, at: int, abilities: Abilities, named: str | None) -> list[_Way]:
    able = _forms(needs(row, abilities, named))
    return [_Way(tuple(dict.fromkeys((*one, *two))), at) for one in _forms(row.when) for two in able]


def _forms(condition: Condition, *, wanted: bool = True) -> list[list[_Literal]]:
    """Give the ways in which a condition is `wanted`, each as tests with their answers (its disjunctive form)."""
    if isinstance(condition, Test):
        return [[_Literal(condition, wanted, question(condition))]]
    if isinstance(condition, Not):
        return _forms(condition.part, wanted=not wanted)
    parts = [_forms(part, wanted=wanted) for part in condition.parts]
    if isinstance(condition, Either) is wanted:
        return _few([way for ways in parts for way in ways])
    found: list[list[_Literal]] = [[]]
    for ways in parts:
        found = _few([[*one, *two] for one in found for two in ways])
    return found


def _few(ways: list[list[_Literal]]) -> list[list[_Literal]]:
    if len(ways) > _MOST_WAYS:
        raise TooLargeError
    return ways


# --- what is known on the way -------------------------------------------------------------------------------------

_OTHER = "\0"
"""Stands for every text that no test mentions."""
_LEAST = -(10**5000)
"""Less than every number that may be written."""


class _Values(NamedTuple):
    """The values of one fact that its plain tests tell apart: one of each class."""

    many: Sequence[object]
    """Those that stand for others too, which a test of another kind may answer either way."""
    single: Sequence[object]

    def all(self) -> list[object]:
        return [*self.many, *self.single]


def _values(fact: Fact, tests: Iterable[Test], *, known: bool) -> _Values:
    plain = [test for test in tests if _is_plain(test, fact)]
    single = [*fact.special, *([None] if fact.null else []), *([] if known else [UNKNOWN])]
    if fact.type == "boolean":
        return _Values([True, False], single)
    if fact.type == "integer":
        return _Values(_numbers(plain, _LEAST if fact.minimum is None else fact.minimum), single)
    if fact.values and fact.order is None:
        return _Values(fact.values, single)
    mentioned = dict.fromkeys(value for test in plain for value in test.mentions if value not in fact.special)
    return _Values([*mentioned, _OTHER], single)


def _is_plain(test: Test, fact: Fact) -> bool:
    """Whether a test compares with values that are written, so that a value of each class says how it answers."""
    if test.op in ("equals", "in"):
        return fact.order != "capability" and fact.type != "version"
    if test.op in ("min", "max"):
        return test.wanted.startswith("at ")  # and not by the order of the fact
    return test.op in ("present", "absent")


def _numbers(tests: Iterable[Test], least: int) -> list[int]:
    """Give the least number of each stretch in which no answer changes."""
    mentioned = {number for test in tests for number in _mentioned(test)}
    return sorted({least} | {max(least, start) for number in mentioned for start in (number, number + 1)})


def _mentioned(test: Test) -> list[int]:
    if test.op in ("min", "max"):
        return [_bound(test)]
    return [mention for mention in test.mentions if isinstance(mention, int)]


def _bound(test: Test) -> int:
    """Give the number of `min` or `max`, which is mentioned as a comparison."""
    return int(str(test.mentions[0])[2:])


def _answers(test: Test, value: object) -> bool | None:
    return test.holds({} if value is UNKNOWN else {test.fact: value})  # type: ignore[dict-item]


# --- the source code ----------------------------------------------------------------------------------------------


class _Known(NamedTuple):
    """What is known at one place of the function: for each fact its possible values, literals, and what was read."""

    values: Mapping[str, frozenset[object]]
    told: Mapping[_Literal, bool]
    read: frozenset[str]


@dataclass(slots=True)
class _Writer:
    """Writes the function of one table."""

    table: Table
    vocabulary: Vocabulary
    ways: Sequence[_Way]
    values: dict[str, list[object]] = field(default_factory=dict)
    sure: dict[_Literal, tuple[frozenset[object], frozenset[object]]] = field(default_factory=dict)
    """For each literal the values of its fact with which it is so, and with which it is not."""
    names: dict[str, object] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Sort the values of each fact."""
        literals = dict.fromkeys(literal for way in self.ways for literal in way.literals)
        of_fact: dict[str, list[_Literal]] = {}
        for literal in literals:
            of_fact.setdefault(literal.test.fact, []).append(literal)
        for name, some in of_fact.items():
            fact = self.vocabulary.facts[name]
            values = _values(fact, [literal.test for literal in some], known=name in self.table.requires)
            self.values[name] = values.all()
            for literal in some:
                self.sure[literal] = _sure(literal, values.all() if _is_plain(literal.test, fact) else values.single)

    def function(self, answers: Sequence[Answer], guard: Guard | None) -> Decide[Answer]:
        """Write, compile and give it."""
        self.names = {f"r{at}": answer for at, answer in enumerate(answers)} | {"unknown": UNKNOWN}
        read = self.guard(guard) if guard is not None else frozenset()
        known = _Known({name: frozenset(values) for name, values in self.values.items()}, {}, read)
        ways = self.ways
        for name in self.values:
            ways = self.left(ways, known, name)
        self.write(ways, known, 1)
        source = "\n".join(["def decide(facts):", *self.lines])
        exec(compile(source, f"<table {self.table.name}>", "exec"), self.names)  # noqa: S102 - written above
        return self.names["decide"]  # type: ignore[return-value]

    def guard(self, guard: Guard) -> frozenset[str]:
        """Write what looks at every fact that the table requires, and at there being no more; gives those it reads."""
        self.names["others"] = guard.others
        required = dict.fromkeys((*self.table.requires, *self.values))
        checks = [f"len(facts) == {len(self.table.requires)}"]
        self.line(1, "try:")
        for at, name in enumerate(required):
            if name not in self.table.requires:
                raise TooLargeError  # what may be missing is looked at by `others` alone
            fact, variable = self.vocabulary.facts[name], self.variable(name)
            self.names[f"k{at}"] = guard.known.get(name)
            self.line(2, f"{variable} = facts[{name!r}]")
            checks.append(_evident(fact, variable, f"k{at}"))
        self.line(2, f"right = {' and '.join(checks)}")
        self.line(1, "except (KeyError, TypeError):")
        self.line(2, "right = False")
        self.line(1, "if not right:")
        self.line(2, "return others(facts)")
        return frozenset(required)

    def write(self, ways: Sequence[_Way], known: _Known, deep: int) -> None:
        """Write the code that decides between these ways, all of them open; it always returns."""
        if len(self.lines) > MOST_LINES or deep > _MOST_DEEP:
            raise TooLargeError
        if not ways or not ways[0].literals:
            self.line(deep, f"return r{ways[0].row}" if ways else "return None")
            return
        literal = self.next(ways)
        fact = literal.test.fact
        if fact not in known.read:
            self.line(deep, self.reading(fact))
            known = known._replace(read=known.read | {fact})
        self.line(deep, f"if {self.asked(literal, known)}:")
        yes, no = self.after(known, literal, so=True), self.after(known, literal, so=False)
        self.write(self.left(ways, yes, fact), yes, deep + 1)
        self.write(self.left(ways, no, fact), no, deep)

    def line(self, deep: int, text: str) -> None:
        self.lines.append(" " * deep + text)

    def left(self, ways: Iterable[_Way], known: _Known, fact: str) -> list[_Way]:
        """Give the ways that are open, with the literals that are; none after one that is sure.

        Only literals of this fact are looked at: those of others are as open as they were before more was known of it.
        """
        found: list[_Way] = []
        for way in ways:
            still: list[_Literal] = []
            for literal in way.literals:
                so = None
                if literal.test.fact == fact:
                    so = self.truth(literal, known)
                if so is False:
                    break
                if so is None:
                    still.append(literal)
            else:
                found.append(_Way(tuple(still), way.row))
                if not still:
                    break
        return found

    def truth(self, literal: _Literal, known: _Known) -> bool | None:
        yes, no = self.sure[literal]
        possible = known.values[literal.test.fact]
        return True if possible <= yes else False if possible <= no else known.told.get(literal)

    def after(self, known: _Known, literal: _Literal, *, so: bool) -> _Known:
        """Add what the answer to a literal tells."""
        yes, no = self.sure[literal]
        fact = literal.test.fact
        values = {**known.values, fact: known.values[fact] - (no if so else yes)}
        told = {**known.told, literal: so}
        if so:
            told[replace(literal, wanted=not literal.wanted)] = False
        return _Known(values, told, known.read)

    def next(self, ways: Sequence[_Way]) -> _Literal:
        """Choose what to ask: of what the first way needs, the literal that most other ways ask too."""
        facts = Counter(literal.test.fact for way in ways for literal in way.literals)
        return max(ways[0].literals, key=lambda literal: facts[literal.test.fact])

    def reading(self, name: str) -> str:
        variable = self.variable(name)
        if name in self.table.requires:
            return f"{variable} = facts[{name!r}]"
        return f"{variable} = facts.get({name!r}, unknown)"

    def variable(self, name: str) -> str:
        return self.variables.setdefault(name, f"v{len(self.variables)}")

    def asked(self, literal: _Literal, known: _Known) -> str:
        """Write a literal as an expression, or as a call of its test where it is none."""
        test, variable = literal.test, self.variable(literal.test.fact)
        fact = self.vocabulary.facts[test.fact]
        given = test.fact in self.table.requires
        if literal.wanted and test.at_unknown is not True and _is_plain(test, fact):
            if test.op in ("equals", "in"):
                truth = fact.type == "boolean" and given and not fact.null
                return _compared(variable, self.open(test, known), truth=truth)
            if test.op in ("present", "absent") and not fact.special:
                return _null(variable, present=test.op == "present", given=given)
            if test.op in ("min", "max"):
                number = "" if given and not fact.null and not fact.special else f"{variable}.__class__ is int and "
                return f"{number}{variable} {'>=' if test.op == 'min' else '<='} {_bound(test)}"
        name = f"t{len(self.names)}"
        self.names[name] = _asking(test, literal.wanted)
        return f"{name}({variable})"

    def open(self, test: Test, known: _Known) -> list[object]:
        """Give the values of which a test asks, without those that are known not to be."""
        possible = known.values[test.fact]
        return [value for value in self.values[test.fact] if value in possible and _answers(test, value)]


def _compared(variable: str, values: Sequence[object], *, truth: bool) -> str:
    if truth and len(values) == 1:
        return variable if values[0] else f"not {variable}"
    if len(values) == 1:
        return f"{variable} == {values[0]!r}"
    return f"{variable} in {{{', '.join(map(repr, values))}}}"


def _null(variable: str, *, present: bool, given: bool) -> str:
    if not present:
        return f"{variable} is None"
    return f"{variable} is not None" + ("" if given else f" and {variable} is not unknown")


def _evident(fact: Fact, variable: str, known: str) -> str:
    """Write that a value is one of a fact, as far as that is cheap to see."""
    if fact.type == "boolean":
        right = f"{variable}.__class__ is bool"
    elif fact.type == "integer":
        least = f" and {variable} >= {fact.minimum}" if fact.minimum is not None else ""
        right = f"{variable}.__class__ is int{least}"
    else:
        right = f"{variable} in {known}"
    return f"({variable} is None or {right})" if fact.null else right


def _sure(literal: _Literal, values: Iterable[object]) -> tuple[frozenset[object], frozenset[object]]:
    """Give the values with which a literal is so, and those with which it is not."""
    answers = {value: _answers(literal.test, value) is literal.wanted for value in values}
    yes = frozenset(value for value, so in answers.items() if so)
    return yes, frozenset(answers) - yes


def _asking(test: Test, wanted: bool) -> Callable[[object], bool]:  # noqa: FBT001 - positional for the cache
    """Make a function of the value that asks a test; answers are kept, for the values of a fact are few."""

    @lru_cache(maxsize=1024, typed=True)
    def ask(value: object) -> bool:
        return _answers(test, value) is wanted

    return ask
