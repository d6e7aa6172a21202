"""For one fact, values enough to stand for all: between them they answer every test that is asked in every way."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from selector.analysis.numbers import TooManyError, line_of, members
from selector.analysis.versions import spelt, versions
from selector.rules.conditions import Test
from selector.rules.orders import ORDERS
from selector.rules.vocabulary import Fact, Value

__all__ = ["ALONE", "Compared", "TooManyError", "candidates", "marks_of"]

_BOUND = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([^\s,]+)")
_SM = re.compile(r"sm_([1-9][0-9]?)([0-9x])\Z")
_SIGNS = "0123456789abcdefghijklmnopqrstuvwxyz_-."


@dataclass(frozen=True, slots=True)
class Compared:
    """The facts that a fact is compared with, their tests, and numbers that must stand apart.

    With as many values of each class as facts are compared (`copies`), any of them can be equal or differ.
    """

    facts: tuple[Fact, ...] = ()
    tests: tuple[Test, ...] = ()
    marks: frozenset[int] = frozenset()

    @property
    def copies(self) -> int:
        """How many values of each class are wanted."""
        return 1 + len(self.facts)


ALONE = Compared()


def candidates(fact: Fact, tests: Iterable[Test], compared: Compared = ALONE) -> list[Value]:
    """Give values of a fact so that every way in which its tests can be answered together is answered by one of them.

    Unknown and null are not among them. Values that a test mentions come first, and plain ones before odd ones, so that
    the first of a class is a good example of it. What tests of facts mention that this one is compared with is told
    apart too. Raises `TooManyError` where divisors have no small common multiple.
    """
    asked = [*(test for test in tests if test.fact == fact.name), *compared.tests]
    found = _BY_TYPE[fact.type](fact, asked, compared)
    return [value for value in _typed(found) if fact.misfit(value) is None]


def _typed(values: Iterable[Value]) -> Iterator[Value]:
    """Give each value once. True is not 1 here, though `True == 1`."""
    seen: set[tuple[type, Value]] = set()
    for value in values:
        if (type(value), value) not in seen:
            seen.add((type(value), value))
            yield value


def _mentioned(tests: Iterable[Test]) -> Iterator[Value]:
    """Give the values and bounds that tests mention, without the signs of comparison."""
    for test in tests:
        for value in test.mentions:
            if test.op in ("compare", "min", "max") and isinstance(value, str):
                yield from (bound for _, bound in _BOUND.findall(value))
            elif test.op != "multiple_of":
                yield value


def _booleans(fact: Fact, tests: Sequence[Test], compared: Compared) -> Iterable[Value]:  # noqa: ARG001 - one signature
    return (True, False)


# --- integers -----------------------------------------------------------------------------------------------------


def _integers(fact: Fact, tests: Sequence[Test], compared: Compared) -> Iterator[Value]:
    """Give each bound, the special words, and members of each stretch between bounds for each pattern of divisors."""
    marks, divisors = marks_of(tests)
    yield from sorted(marks)
    yield from fact.special
    for stretch in line_of(marks | compared.marks, divisors, fact.minimum):
        yield from members(stretch, compared.copies)


def marks_of(tests: Iterable[Test]) -> tuple[set[int], set[int]]:
    """Give the numbers at which tests change their answer, and those that they divide by."""
    asked = list(tests)
    divisors = {
        value for test in asked if test.op == "multiple_of" for value in test.mentions if isinstance(value, int)
    }
    return {mark for value in _mentioned(asked) for mark in _numbers(value)}, divisors


def _numbers(value: Value) -> Iterator[int]:
    """Read a bound: a plain number, or one of cuDNN's versions."""
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, str):
        for read in (int, ORDERS["cudnn"].read):
            try:
                yield int(str(read(value)))
            except ValueError:
                continue
            return


# --- texts --------------------------------------------------------------------------------------------------------


def _texts(fact: Fact, tests: Sequence[Test], compared: Compared) -> Iterator[Value]:
    """Give the declared values, or those mentioned with their neighbours and some that nobody mentions."""
    if fact.values:
        yield from fact.values
        return
    facts, copies = (fact, *compared.facts), compared.copies
    mentioned = [str(value) for value in _mentioned(tests) if isinstance(value, str)]
    taken = {*mentioned, *(word for one in facts for word in (*one.values, *one.special))}
    if fact.order != "capability":
        yield from mentioned
    for one in facts:
        yield from _like(one, mentioned, copies)
    yield from (word for one in facts for word in (*one.values, *one.special))
    yield from _others(taken, copies)
    for one in facts:
        yield from _forms(one, taken, copies)


def _like(fact: Fact, mentioned: list[str], copies: int) -> Iterator[str]:
    """Give what the order of a fact's values has near those that are mentioned."""
    if fact.order == "capability":
        yield from _capabilities(mentioned, copies)
    elif fact.type == "version":
        found = list(versions(mentioned)) if fact.order else ["1.0", "2.0"]
        yield from found
        for version in found:
            yield from spelt(version, set(mentioned), copies - 1 if fact.order else copies)


def _others(mentioned: set[str], copies: int) -> Iterator[str]:
    """Give strings that no test mentions."""
    other = "other"
    for _ in range(copies):
        while other in mentioned:
            other += "_"
        yield other
        other += "_"


def _forms(fact: Fact, mentioned: set[str], copies: int) -> Iterator[str]:
    """Give values of the form that a fact has where another one has a value: the example, and some that are like it."""
    pattern = fact.on
    if pattern is None:
        return
    text = pattern.example
    like = [text, *(f"{text[:at]}{sign}{text[at + 1 :]}" for at in reversed(range(len(text))) for sign in _SIGNS)]
    like += [*(f"{text}{sign}" for sign in _SIGNS), *(text[:at] + text[at + 1 :] for at in range(len(text)))]
    fits = (one for one in dict.fromkeys(like) if one not in mentioned and pattern.regex.fullmatch(one))
    yield from itertools.islice(fits, copies)


def _capabilities(mentioned: list[str], copies: int) -> Iterator[str]:
    """Give every mention, each minor of a family, and the capabilities next to each."""
    matches = {value: _SM.match(value) for value in mentioned}
    yield from (value for value, match in matches.items() if match is None)
    found = [match for match in matches.values() if match is not None]
    keys = {int(match[1]) * 10 + int(match[2]) for match in found if match[2] != "x"}
    yield from (f"sm_{key}" for key in sorted(keys))
    for major in sorted({int(match[1]) for match in found if match[2] == "x"}):
        family = range(major * 10, major * 10 + 10)
        yield from (f"sm_{key}" for key in family)
        keys |= {family[0], family[-1]}
    least, most = 10, 999
    near = (key + step * sign for key in sorted(keys) for step in range(1, copies + 1) for sign in (1, -1))
    ends = (end for step in range(copies) for end in (least + step, most - step))
    yield from (f"sm_{key}" for key in (*near, *ends) if least <= key <= most)


_BY_TYPE: Mapping[str, Callable[[Fact, Sequence[Test], Compared], Iterable[Value]]] = {
    "boolean": _booleans, "integer": _integers, "string": _texts, "version": _texts,
}  # fmt: skip
