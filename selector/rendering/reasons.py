"""What stands in a row's way, with the alternatives kept apart, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from selector.rendering.layout import Note
from selector.rendering.text import Word, words
from selector.rules.conditions import Condition, Either, Facts, Not, Result, Test, distance, results
from selector.rules.walk import Abilities, Step, ability_of

_ORIGIN: Mapping[str, str] = {"when": "", "ability": "ability ", "engine": "ruled out before, "}


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Alternatives: to remove one of them is enough."""

    alternatives: tuple[tuple[Obstacle, ...], ...]


Obstacle: TypeAlias = "Result | AnyOf"


def obstacles(step: Step, facts: Facts, abilities: Abilities) -> tuple[Obstacle, ...]:
    """Give what is to be blamed for a step, as the conditions group it: `flat` of it is ``step.blamed``."""
    if any(result.origin == "engine" for result in step.blamed):
        return step.blamed
    ability = ability_of(step.row, facts, abilities)
    return (*_faults(step.row.when, facts, "when"), *_faults(ability, facts, "ability"))


def _faults(
    condition: Condition, facts: Facts, origin: Literal["when", "ability"], *, wanted: bool = True
) -> tuple[Obstacle, ...]:
    if condition.holds(facts) is wanted:
        return ()
    if isinstance(condition, Test):
        return tuple(results(condition, facts, origin, negated=not wanted))
    if isinstance(condition, Not):
        return _faults(condition.part, facts, origin, wanted=not wanted)
    parts = [_faults(part, facts, origin, wanted=wanted) for part in condition.parts]
    if isinstance(condition, Either) is not wanted:
        return tuple(found for part in parts for found in part)
    costs = [distance(part, facts, wanted=wanted) for part in condition.parts]
    nearest = tuple(part for part, cost in zip(parts, costs, strict=True) if cost == min(costs))
    return nearest[0] if len(nearest) == 1 else (AnyOf(nearest),)


def flat(found: Sequence[Obstacle]) -> Iterator[Result]:
    """Give every test among the obstacles, in order."""
    for one in found:
        if isinstance(one, AnyOf):
            for alternative in one.alternatives:
                yield from flat(alternative)
        else:
            yield one


def missing(found: Sequence[Obstacle]) -> list[str]:
    """Name the facts that leave a test open, once each: not known, or known only as a word (a symbolic size)."""
    return list(dict.fromkeys(result.fact for result in flat(found) if not result.known or result.held is None))


def notes(found: Sequence[Obstacle]) -> list[Note]:
    """Give a note for each obstacle: wanted and got, then the file and line of every condition that asks for it."""
    places: dict[str, list[str]] = {}
    for one in found:
        if isinstance(one, Result):
            places.setdefault(one.reason(), []).append(_place(one))
    told = [Note([*words(reason), *_source(at)]) for reason, at in places.items()]
    for one in found:
        if isinstance(one, AnyOf):
            told.append(Note(words("one of:")))
            told += [Note([*words("-"), *_joined(alternative)], indent=1) for alternative in one.alternatives]
    return told


def _place(result: Result) -> str:
    return f"{_ORIGIN[result.origin]}{result.place.file}:{result.place.line}"


def _source(places: Sequence[str]) -> list[Word]:
    return words(f"({', '.join(dict.fromkeys(places))})", "quiet")


def _joined(found: Sequence[Obstacle]) -> list[Word]:
    """Join obstacles that must all be removed into one line of words."""
    line: list[Word] = []
    for one in found:
        if line:
            line += words("and")
        if isinstance(one, Result):
            line += [*words(one.reason()), *_source([_place(one)])]
            continue
        for index, alternative in enumerate(one.alternatives):
            line += [*words("or" if index else "either"), *_joined(alternative)]
    return line


def sentence(found: Sequence[Obstacle]) -> str:
    """Say all obstacles in one line, without their places."""
    return "; ".join(_clause(one) for one in found)


def _clause(one: Obstacle) -> str:
    if isinstance(one, Result):
        return one.reason()
    return f"one of ({' | '.join(sentence(alternative) for alternative in one.alternatives)})"
