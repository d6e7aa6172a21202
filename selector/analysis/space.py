"""The space of situations: variables, each with the classes of values that no test of the rules can tell apart."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from selector.analysis.values import TooManyError, candidates
from selector.rules.conditions import Test, Truth
from selector.rules.vocabulary import Derived, Fact, Value, Vocabulary

Facts = Mapping[str, Value]
Box = tuple[int, ...]
"""For each variable the classes it may be in, one bit each: a product of sets of classes."""
MOST_COMBINATIONS = 400_000
_ALIGNED = ("causal", "causal_alignment")


@dataclass(frozen=True, slots=True)
class Cell:
    """One class of values of a variable: facts that stand for it, and more of its members."""

    facts: Facts
    members: tuple[Facts, ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """Where a test holds and where it fails, as bits of its variable's classes; elsewhere it is undetermined."""

    variable: int
    true: int
    false: int


@dataclass(frozen=True, slots=True)
class Variable:
    """Facts that depend on each other (most often one alone), with their classes."""

    names: tuple[str, ...]
    cells: tuple[Cell, ...]

    @property
    def full(self) -> int:
        """All classes."""
        return (1 << len(self.cells)) - 1


@dataclass(frozen=True, slots=True)
class Space:
    """All variables that the tests of some rules ask about. Facts that no test asks about are no part of it."""

    variables: tuple[Variable, ...]
    answers: Mapping[int, Answers]
    tests: tuple[Test, ...]
    index: Mapping[str, int] = field(default_factory=dict)

    @property
    def full(self) -> Box:
        """Every situation."""
        return tuple(variable.full for variable in self.variables)

    def of(self, test: Test) -> Answers:
        """Give where a test of these rules holds and fails."""
        return self.answers[id(test)]

    def facts(self, box: Box) -> dict[str, Value]:
        """Give the facts of one situation in a box, as few as there can be."""
        found: dict[str, Value] = {}
        for variable, mask in zip(self.variables, box, strict=True):
            smallest: Facts = min((variable.cells[at].facts for at in bits(mask)), key=_length)
            found.update(smallest)
        return found

    def locate(self, facts: Facts, vocabulary: Vocabulary) -> Box:
        """Give the box of the one class that each variable is in for these facts."""
        box = []
        for at, variable in enumerate(self.variables):
            asked = [test for test in self.tests if self.of(test).variable == at]
            vector = tuple(test.holds(facts) for test in asked)
            cell = next(
                number
                for number, cell in enumerate(variable.cells)
                if tuple(test.holds(_derived(cell.facts, vocabulary.derived)) for test in asked) == vector
            )
            box.append(1 << cell)
        return tuple(box)


def bits(mask: int) -> Iterator[int]:
    """Give the numbers of the bits that are set."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _length(facts: Mapping[str, Value]) -> int:
    return len(facts)


def size(box: Box) -> int:
    """Count the situations in a box."""
    return math.prod(mask.bit_count() for mask in box)


# --- making it ----------------------------------------------------------------------------------------------------


def make_space(tests: Sequence[Test], vocabulary: Vocabulary, known: Iterable[str] = ()) -> Space:
    """Make the space of these tests; facts in `known` are never unknown.

    Facts that follow from others, and facts whose values must fit each other, share a variable. Raises `TooManyError`
    when the classes are more than can be enumerated.
    """
    known = {*known, *_always_known(vocabulary)}
    variables: list[Variable] = []
    answers: dict[int, Answers] = {}
    index: dict[str, int] = {}
    for group in _groups({test.fact for test in tests}, vocabulary):
        asked = [test for test in tests if test.fact in group]
        cells, masks = _cells(group, asked, vocabulary, known)
        for test, (true, false) in zip(asked, masks, strict=True):
            answers[id(test)] = Answers(len(variables), true, false)
        index |= dict.fromkeys(group, len(variables))
        variables.append(Variable(tuple(group), tuple(cells)))
    return Space(tuple(variables), answers, tuple(tests), index)


def _always_known(vocabulary: Vocabulary) -> Iterator[str]:
    """Name the facts that the engine itself sets for every decision."""
    yield "role"
    yield from (fact.name for fact in vocabulary.group.get("config", ()) if fact.name != "backend")


def _groups(names: set[str], vocabulary: Vocabulary) -> list[list[str]]:
    """Join facts that are asked about with those that they depend on."""
    links: list[set[str]] = [{name} for name in sorted(names, key=list(vocabulary.facts).index)]
    links += [{made.name, made.first, made.second} for made in vocabulary.derived if made.name in names]
    for name in names:
        form = vocabulary.facts[name].on
        if form is not None and form.fact in names:
            links.append({name, form.fact})
    if names & set(_ALIGNED):
        links.append(names & set(_ALIGNED))
    groups: list[set[str]] = []
    for link in links:
        touched = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link]
        groups.append(set().union(link, *touched))
    order = list(vocabulary.facts)
    return sorted((sorted(group, key=order.index) for group in groups), key=lambda group: order.index(group[0]))


def _cells(
    group: list[str], tests: list[Test], vocabulary: Vocabulary, known: set[str]
) -> tuple[list[Cell], list[tuple[int, int]]]:
    """Sort the combinations of values of a group into classes by how the tests answer."""
    made = [derived for derived in vocabulary.derived if derived.name in group]
    base = [vocabulary.facts[name] for name in group if name not in {derived.name for derived in made}]
    choices = [_choices(fact, tests, known, linked=len(base) > 1) for fact in base]
    combinations = math.prod(map(len, choices))
    if combinations > MOST_COMBINATIONS:
        names = ", ".join(f"`{fact.name}`" for fact in base)
        raise TooManyError(
            f"{names} have {combinations} combinations, more than the {MOST_COMBINATIONS} that are tried"
        )
    classes: dict[tuple[Truth, ...], list[dict[str, Value]]] = {}
    for values in itertools.product(*choices):
        facts = {fact.name: value for fact, value in zip(base, values, strict=True) if value is not _UNKNOWN}
        if not _possible(facts, base):
            continue
        told = _derived(facts, made)
        classes.setdefault(tuple(test.holds(told) for test in tests), []).append(facts)
    cells = [Cell(min(members, key=len), tuple(members)) for members in classes.values()]
    vectors = list(classes)
    return cells, [
        (
            sum(1 << at for at, vector in enumerate(vectors) if vector[column] is True),
            sum(1 << at for at, vector in enumerate(vectors) if vector[column] is False),
        )
        for column in range(len(tests))
    ]


_UNKNOWN: Value = "\0unknown"


def _choices(fact: Fact, tests: list[Test], known: set[str], *, linked: bool) -> list[Value]:
    """Give what a fact may be: unknown, null where that is a value, and values enough to stand for all."""
    values = candidates(fact, tests)
    if linked and fact.type == "integer":
        values = [*values, *(number for number in range(max(1, fact.minimum or 1), 7) if number not in values)]
    return [*([] if fact.name in known else [_UNKNOWN]), *([None] if fact.null else []), *values]


def _derived(facts: Facts, made: Sequence[Derived]) -> Facts:
    """Add the facts that follow."""
    if not made:
        return facts
    found = dict(facts)
    for derived in made:
        value = derived.value(found)
        if value is not None:
            found[derived.name] = value
    return found


def _possible(facts: Facts, base: Sequence[Fact]) -> bool:
    """Whether the facts fit each other: the form that one has where another has a value, and causal with its corner."""
    for fact in base:
        form, value = fact.on, facts.get(fact.name)
        if form is None or form.fact is None or facts.get(form.fact) != form.value:
            continue
        if isinstance(value, str) and not form.regex.fullmatch(value):
            return False
    if not {fact.name for fact in base} >= set(_ALIGNED):
        return True
    causal, corner = (facts.get(name, _UNKNOWN) for name in _ALIGNED)
    if causal is True:
        return corner is not None
    return corner == (None if causal is False else _UNKNOWN)
