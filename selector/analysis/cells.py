"""The classes of values of facts that depend on each other: every combination that can be, sorted by what tests say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.analysis.numbers import Stretch, TooManyError, divisible, indivisible, line_of
from selector.analysis.values import ALONE, Compared, candidates, marks_of
from selector.rules.conditions import Test, Truth
from selector.rules.vocabulary import Derived, Fact, Value, Vocabulary

Facts = Mapping[str, Value]
ALIGNED = ("causal", "causal_alignment")
MOST_COMBINATIONS = 400_000
_UNKNOWN: Value = "\0unknown"


@dataclass(frozen=True, slots=True)
class Cell:
    """One class of values of a variable: facts that stand for it, and more of its members."""

    facts: Facts
    members: tuple[Facts, ...]


def question(test: Test) -> Hashable:
    """Give what a test asks: tests that ask the same answer alike."""
    return test.fact, test.op, test.wanted, test.mentions, test.at_null, test.at_unknown, test.special


def with_derived(facts: Facts, made: Sequence[Derived]) -> Facts:
    """Add the facts that follow from others."""
    if not made:
        return facts
    found = dict(facts)
    for derived in made:
        value = derived.value(found)
        if value is not None:
            found[derived.name] = value
    return found


def possible(facts: Facts, base: Sequence[Fact]) -> bool:
    """Whether facts fit each other: the form that one has where another has a value, and causal with its corner."""
    for fact in base:
        form, value = fact.on, facts.get(fact.name)
        if form is None or form.fact is None or facts.get(form.fact) != form.value:
            continue
        if isinstance(value, str) and not form.regex.fullmatch(value):
            return False
    if not {fact.name for fact in base} >= set(ALIGNED):
        return True
    causal, corner = (facts.get(name, _UNKNOWN) for name in ALIGNED)
    if causal is True:
        return corner is not None
    return corner == (None if causal is False else _UNKNOWN)


def _plainest(value: Value) -> tuple[int, str]:
    """Sort values so that facts that are compared keep the same ones."""
    return (abs(value) if isinstance(value, int) else len(str(value))), str(value)


@dataclass(frozen=True, slots=True)
class Combinations:
    """The facts of one variable, with every test that is asked of them; facts in `known` are never unknown."""

    group: Sequence[str]
    tests: Sequence[Test]
    vocabulary: Vocabulary
    known: set[str]

    def classes(self) -> tuple[list[Cell], dict[Hashable, tuple[int, int]]]:
        """Sort the combinations by how the tests answer: the classes, and where each question holds and fails."""
        questions = {question(test): test for test in self.tests}
        made = self.made
        sorted_: dict[tuple[Truth, ...], list[Facts]] = {}
        for facts in self.facts():
            told = with_derived(facts, made)
            sorted_.setdefault(tuple([test.holds(told) for test in questions.values()]), []).append(facts)
        masks = dict.fromkeys(questions, (0, 0))
        for at, vector in enumerate(sorted_):
            for number, asked in enumerate(questions):
                held = vector[number]
                if held is not None:
                    true, false = masks[asked]
                    masks[asked] = (true | 1 << at, false) if held else (true, false | 1 << at)
        return [Cell(min(found, key=len), tuple(found)) for found in sorted_.values()], masks

    @property
    def made(self) -> list[Derived]:
        """The facts that follow from others of them."""
        return [derived for derived in self.vocabulary.derived if derived.name in self.group]

    @property
    def base(self) -> list[Fact]:
        """The facts that follow from nothing."""
        made = {derived.name for derived in self.made}
        return [self.vocabulary.facts[name] for name in self.group if name not in made]

    def facts(self) -> Iterator[Facts]:
        """Give combinations enough to stand for all that are possible."""
        base = self.base
        choices = [self.choices(fact) for fact in base]
        combinations = math.prod(map(len, choices))
        if combinations > MOST_COMBINATIONS:
            names = ", ".join(f"`{fact.name}`" for fact in base)
            message = f"{names} have {combinations} combinations, more than the {MOST_COMBINATIONS} that are tried"
            raise TooManyError(message)
        found = itertools.chain(itertools.product(*choices), self.divided())
        for values in found:
            facts = {fact.name: values[number] for number, fact in enumerate(base) if values[number] is not _UNKNOWN}
            if possible(facts, base):
                yield facts

    def choices(self, fact: Fact) -> list[Value]:
        """Give what a fact may be: unknown, null where that is a value, and values enough to stand for all."""
        compared = self.compared(fact)
        values = candidates(fact, self.tests, compared)
        if compared is not ALONE:
            values = list(self.few(fact, values, compared))
        return [*([] if fact.name in self.known else [_UNKNOWN]), *([None] if fact.null else []), *values]

    def compared(self, fact: Fact) -> Compared:
        """Tell what a fact is compared with, over however many relations."""
        names, base = {fact.name}, {fact.name: fact for fact in self.base}
        sides = [{derived.first, derived.second} for derived in self.made]
        pairs = [pair for pair in sides if pair <= set(base)]
        for _ in pairs:
            names = names.union(*(pair for pair in pairs if pair & names))
        if not any(pair & names for pair in pairs):
            return ALONE
        numbers = [base[name].minimum for name in names if base[name].type == "integer"]
        marks = frozenset({0, *(least for least in numbers if least is not None)} if numbers else ())
        others = names - {fact.name}
        tests = (test for test in self.tests if test.fact in others)
        return Compared(tuple(base[name] for name in base if name in others), tuple(tests), marks)

    def few(self, fact: Fact, values: Sequence[Value], compared: Compared) -> Iterator[Value]:
        """Leave out values of which there are enough that answer alike, whichever of the compared facts has them."""
        own = (test for test in self.tests if test.fact == fact.name)
        asked = list({question(test): test for test in (*own, *compared.tests)}.values())
        alike: dict[Hashable, list[Value]] = {}
        for value in values:
            fits = {fact.name, *(other.name for other in compared.facts if other.misfit(value) is None)}
            vector = tuple([test.holds({test.fact: value}) for test in asked if test.fact in fits])
            alike.setdefault((type(value), not value, frozenset(fits), vector), []).append(value)
        for found in alike.values():
            yield from sorted(found, key=_plainest)[: compared.copies]

    # --- numbers that divide each other -------------------------------------------------------------------------

    def divided(self) -> Iterator[tuple[Value, ...]]:
        """Give pairs of numbers of which one divides the other, or does not, for every two classes that have such."""
        pairs = [(made.first, made.second) for made in self.made if made.relation == "divisible"]
        relations = dict.fromkeys(pair for pair in pairs if pair[0] != pair[1])
        if not relations:
            return
        base = self.base
        (first, second), *more = relations
        if more or len(base) != 2:  # noqa: PLR2004 - two numbers that are compared with nothing else
            raise TooManyError(f"`{first}` and `{second}` are compared in more ways than are enumerated")
        marks, divisors = marks_of(self.tests)
        marks = marks.union(*(self.compared(fact).marks for fact in base))
        lines = [self.by_answers(self.vocabulary.facts[name], marks, divisors) for name in (first, second)]
        for ones, others in itertools.product(*lines):
            for relate in (divisible, indivisible):
                found = (relate(one, other) for one, other in itertools.product(ones, others))
                pair = next((pair for pair in found if pair is not None), None)
                if pair is not None:
                    yield pair if base[0].name == first else pair[::-1]

    def by_answers(self, fact: Fact, marks: set[int], divisors: set[int]) -> list[list[Stretch]]:
        """Sort the stretches of a fact's numbers by how its own tests answer."""
        tests = list({question(test): test for test in self.tests if test.fact == fact.name}.values())
        found: dict[tuple[Truth, ...], list[Stretch]] = {}
        for stretch in line_of(marks, divisors, fact.minimum):
            facts = {fact.name: next(iter(stretch))}
            found.setdefault(tuple(test.holds(facts) for test in tests), []).append(stretch)
        return list(found.values())
