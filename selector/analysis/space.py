"""The space of situations: variables, each with the classes of values that no test of the rules can tell apart."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from selector.analysis.cells import ALIGNED, Cell, Combinations, Facts, question, with_derived
from selector.rule_files import TABLES
from selector.rules.conditions import Test
from selector.rules.tables import Table
from selector.rules.vocabulary import Value, Vocabulary

Box = tuple[int, ...]
"""For each variable the classes it may be in, one bit each: a product of sets of classes."""
_MOST_BITS = 512


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
    full: int = field(init=False)
    """All classes."""

    def __post_init__(self) -> None:
        """Count the classes once."""
        object.__setattr__(self, "full", (1 << len(self.cells)) - 1)


@dataclass(frozen=True, slots=True)
class Space:
    """All variables that the tests of some rules ask about. Facts that no test asks about are no part of it."""

    variables: tuple[Variable, ...]
    answers: Mapping[int, Answers]
    tests: tuple[Test, ...]
    index: Mapping[str, int] = field(default_factory=dict)
    told: dict[tuple[int, int], str] = field(default_factory=dict, repr=False, compare=False)
    """What was said of a variable and some of its classes, so that it is worked out once."""
    readings: dict[int, Mapping[str, int]] = field(default_factory=dict, repr=False, compare=False)
    """What the tests of a variable can be used to say of it, each with the classes where that is so."""
    full: Box = field(init=False)
    """Every situation."""
    asked: tuple[tuple[Test, ...], ...] = field(init=False, repr=False)
    """For each variable its tests; of those that ask the same, the first."""

    def __post_init__(self) -> None:
        """Sort the tests by variable once."""
        asked: list[dict[Hashable, Test]] = [{} for _ in self.variables]
        for test in self.tests:
            asked[self.of(test).variable].setdefault((question(test), bool(test.place.file)), test)
        object.__setattr__(self, "asked", tuple(tuple(found.values()) for found in asked))
        object.__setattr__(self, "full", tuple(variable.full for variable in self.variables))

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
        """Give the box of the one class that each variable is in for these facts.

        Raises `LookupError` for facts that cannot be together, or lack one that must be known.
        """
        told = with_derived(facts, vocabulary.derived)
        box = list(self.full)
        for test in self.tests:
            answers = self.of(test)
            held = test.holds(told)
            neither = ~(answers.true | answers.false)
            box[answers.variable] &= neither if held is None else answers.true if held else answers.false
        for at, mask in enumerate(box):
            if not mask:
                raise LookupError(f"no class of {', '.join(self.variables[at].names)} answers as these facts do")
        return tuple(box)


def bits(mask: int) -> Iterator[int]:
    """Give the numbers of the bits that are set."""
    if mask.bit_length() > _MOST_BITS:  # each step below would copy all of a long mask
        yield from (at for at, bit in enumerate(reversed(f"{mask:b}")) if bit == "1")
        return
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def lowest(mask: int) -> int:
    """Give the number of the lowest bit that is set, quickly however long the mask is."""
    return (mask ^ (mask - 1)).bit_length() - 1


def _length(facts: Mapping[str, Value]) -> int:
    return len(facts)


def size(box: Box) -> int:
    """Count the situations in a box."""
    return math.prod(mask.bit_count() for mask in box)


# --- making it ----------------------------------------------------------------------------------------------------


def make_space(
    tests: Sequence[Test], vocabulary: Vocabulary, known: Iterable[str] = (), *, engine: bool = True
) -> Space:
    """Make the space of these tests; facts in `known` are never unknown, nor those that the engine sets (`engine`).

    Facts that follow from others, and facts whose values must fit each other, share a variable. Raises `TooManyError`
    when the classes are more than can be enumerated.
    """
    known = {*known, *(_set_by_the_engine(vocabulary) if engine else ())}
    of_fact: dict[str, list[Test]] = {}
    for test in tests:
        of_fact.setdefault(test.fact, []).append(test)
    variables: list[Variable] = []
    answers: dict[int, Answers] = {}
    index: dict[str, int] = {}
    for group in _groups(set(of_fact), vocabulary):
        asked = [test for name in group for test in of_fact.get(name, ())]
        cells, masks = Combinations(group, asked, vocabulary, known).classes()
        answers |= {id(test): Answers(len(variables), *masks[question(test)]) for test in asked}
        index |= dict.fromkeys(group, len(variables))
        variables.append(Variable(tuple(group), tuple(cells)))
    return Space(tuple(variables), answers, tuple(tests), index)


def known_in(table: Table, vocabulary: Vocabulary) -> set[str]:
    """Name the facts that are never unknown where a table is asked: those that it requires or the engine sets.

    Nobody but its owner knows what is set before a table of a user's own; of those what it requires is known.
    """
    known = set(table.requires)
    if table.name not in TABLES:
        return known
    found = set(_set_by_the_engine(vocabulary))
    if table.name == TABLES[0]:  # the entry of the config is not chosen yet, so its blocks say nothing
        found -= set(_blocks(vocabulary))
    return known | found | (set(ALIGNED) if table.name == "call" else set())


def _set_by_the_engine(vocabulary: Vocabulary) -> Iterator[str]:
    """Name the facts that the engine itself sets for every decision."""
    yield from ("role", "policy", "configured.role", "configured.category", "configured.default")
    yield from _blocks(vocabulary)


def _blocks(vocabulary: Vocabulary) -> Iterator[str]:
    """Name the facts that stand for the blocks of the config's entry."""
    for fact in vocabulary.group.get("config", ()):
        if (fact.type == "boolean" and "." not in fact.name) or ("." in fact.name and fact.null):
            yield fact.name


def _groups(names: set[str], vocabulary: Vocabulary) -> list[list[str]]:
    """Join facts that are asked about with those that they depend on."""
    made = {derived.name: derived for derived in vocabulary.derived}
    reached, waiting = set(names), [made[name] for name in names if name in made]
    links: list[set[str]] = [{name} for name in names]
    while waiting:
        derived = waiting.pop()
        sources = {derived.first, derived.second}
        links.append({derived.name, *sources})
        waiting += [made[name] for name in sources - reached if name in made]
        reached |= sources
    forms = ((name, vocabulary.facts[name].on) for name in reached)
    links += [{name, form.fact} for name, form in forms if form is not None and form.fact in reached]
    links.append(reached & set(ALIGNED))
    groups: list[set[str]] = []
    for link in links:
        touched = [group for group in groups if group & link]
        groups = [group for group in groups if not group & link]
        groups += [set().union(link, *touched)] if link else []
    order = {name: at for at, name in enumerate(vocabulary.facts)}
    return sorted((sorted(group, key=order.__getitem__) for group in groups), key=lambda group: order[group[0]])
