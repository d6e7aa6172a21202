"""For one fact, values enough to stand for all: between them they answer every test that is asked in every way."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from packaging.version import InvalidVersion, Version

from selector.rules.conditions import Test
from selector.rules.orders import ORDERS
from selector.rules.vocabulary import Fact, Value

MOST_PERIOD = 4096
NEIGHBOURS = 3
"""How many values next to each bound are tried, so that two facts may be equal or differ within one class."""
_BOUND = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([^\s,]+)")
_SM = re.compile(r"sm_([1-9][0-9]?)([0-9x])\Z")


class TooManyError(Exception):
    """The classes of a fact are more than are enumerated; the message says why."""


def candidates(fact: Fact, tests: Iterable[Test]) -> list[Value]:
    """Give values of a fact so that every way in which its tests can be answered together is answered by one of them.

    Unknown and null are not among them. Values that a test mentions come first, and plain ones before odd ones, so that
    the first of a class is a good example of it. Raises `TooManyError` where divisors have no small common multiple.
    """
    asked = [test for test in tests if test.fact == fact.name]
    mentioned = [value for test in asked for value in _mentioned(test)]
    found = _BY_TYPE[fact.type](fact, asked, mentioned)
    return [value for value in dict.fromkeys(_typed(found)) if fact.misfit(value) is None]


def _typed(values: Iterable[Value]) -> Iterator[Value]:
    """Drop true and false where numbers are meant: `True == 1`, so a dict would take one for the other."""
    seen: set[tuple[type, Value]] = set()
    for value in values:
        if (type(value), value) not in seen:
            seen.add((type(value), value))
            yield value


def _mentioned(test: Test) -> Iterator[Value]:
    """Give the values and bounds that a test mentions, without the signs of comparison."""
    for value in test.mentions:
        bounds = _BOUND.findall(value) if isinstance(value, str) else []
        if bounds and test.op in ("compare", "min", "max"):
            yield from (bound for _, bound in bounds)
        elif isinstance(value, str) and test.op in ("min", "max"):
            yield value.lstrip("<>=")
        elif test.op != "multiple_of":
            yield value


def _booleans(fact: Fact, tests: list[Test], mentioned: list[Value]) -> list[Value]:  # noqa: ARG001 - one signature
    return [True, False]


def _integers(fact: Fact, tests: list[Test], mentioned: list[Value]) -> list[Value]:
    """Give each bound with its neighbours, and beyond each bound one period of the divisors."""
    read = ORDERS[fact.order].read if fact.order else int
    marks = {mark for value in mentioned if value not in fact.special for mark in _number(value, read)}
    divisors = [
        value for test in tests if test.op == "multiple_of" for value in test.mentions if isinstance(value, int)
    ]
    period = math.lcm(*divisors)
    if period > MOST_PERIOD:
        raise TooManyError(f"the divisors of `{fact.name}` have no common multiple below {MOST_PERIOD}")
    least = fact.minimum if fact.minimum is not None else min(marks, default=0) - NEIGHBOURS
    starts = sorted({least, *marks, *(mark + 1 for mark in marks)})
    reach = max(period, NEIGHBOURS)
    values: list[Value] = [*sorted(marks), *fact.special]
    for start, end in zip(starts, [*starts[1:], None], strict=True):
        values += range(start, start + reach if end is None else min(end, start + reach))
    if fact.minimum is None:
        values += range(least - reach, least)
    return [value for value in values if isinstance(value, str) or fact.minimum is None or value >= fact.minimum]  # type: ignore[operator]


def _number(value: Value, read: Callable[[str], object]) -> Iterator[int]:
    if isinstance(value, int) and not isinstance(value, bool):
        yield value
    elif isinstance(value, str):
        try:
            yield int(str(read(value)))
        except ValueError:
            return


def _versions(fact: Fact, tests: list[Test], mentioned: list[Value]) -> list[Value]:  # noqa: ARG001 - one signature
    """Give each version with those just below and above it, as PEP 440 orders them."""
    marks = sorted({version for value in mentioned for version in _version(value)})
    found: list[str] = [str(mark) for mark in marks]
    for mark in marks:
        found += _around(mark)
    if not marks:
        return ["1.0"]
    return [*found, "0.dev0", f"{marks[-1].epoch}!{marks[-1].release[0] + 1}" if marks[-1].epoch else _next(marks[-1])]


def _next(version: Version) -> str:
    return f"{version.release[0] + 1}.0"


def _around(mark: Version) -> Iterator[str]:
    """Give neighbours of a version: later ones of its release and series, and the pre-releases on its way."""
    base, head = mark.base_version, f"{mark.epoch}!" if mark.epoch else ""
    *series, last = mark.release
    up = ".".join(map(str, [*series, last + 1]))
    yield f"{head}{up}"
    if series:
        yield f"{head}{'.'.join(map(str, [*series[:-1], series[-1] + 1]))}"
        yield f"{head}{'.'.join(map(str, series))}"
    yield from (f"{base}{end}" for end in (".0.1", ".post1", ".dev0", "a0", ""))
    yield f"{mark.public}+local"
    yield f"{head}{up}rc1"
    yield from _in_series(mark, base)


def _in_series(mark: Version, base: str) -> Iterator[str]:
    """Give neighbours among pre-, post- and development releases."""
    if mark.pre:
        letter, number = mark.pre
        yield from (f"{base}{letter}{number}{end}" for end in (".dev0", ".post1"))
        yield from (f"{base}{letter}{near}" for near in (number + 1, number - 1) if near >= 0)
    if mark.dev is not None:
        yield f"{mark.public.rsplit('.dev', 1)[0]}.dev{mark.dev + 1}"
    if mark.post is not None:
        yield f"{base}.post{mark.post + 1}"


def _version(value: Value) -> Iterator[Version]:
    try:
        yield Version(str(value).removesuffix(".*"))
    except InvalidVersion:
        return


def _strings(fact: Fact, tests: list[Test], mentioned: list[Value]) -> list[Value]:
    """Give the declared values, or those mentioned and one that nobody mentions."""
    if fact.values:
        return list(fact.values)
    if fact.order == "capability":
        return [*_capabilities(mentioned), *_others(mentioned, tests)]
    return [*(value for value in mentioned if isinstance(value, str)), *_others(mentioned, tests)]


def _others(mentioned: list[Value], tests: list[Test]) -> Iterator[str]:  # noqa: ARG001 - one signature
    """Give a string that no test mentions."""
    other = "other"
    while other in mentioned:
        other += "_"
    yield other


def _capabilities(mentioned: list[Value]) -> Iterator[Value]:
    """Give every mention, each minor of a family, and the capabilities next to each."""
    keys: set[tuple[int, int]] = set()
    families: set[int] = set()
    for value in mentioned:
        match = _SM.match(value) if isinstance(value, str) else None
        if match is None:
            if isinstance(value, str):
                yield value
        elif match[2] == "x":
            families.add(int(match[1]))
        else:
            keys.add((int(match[1]), int(match[2])))
    yield from (f"sm_{major}{minor}" for major, minor in sorted(keys))
    for major in sorted(families):
        yield from (f"sm_{major}{minor}" for minor in range(10))
    edges = keys | {(major, minor) for major in families for minor in (0, 9)}
    for major, minor in sorted(edges):
        for near in (major * 10 + minor + 1, major * 10 + minor - 1):
            yield f"sm_{near}"
    yield "sm_10"
    yield "sm_999"


_BY_TYPE: Mapping[str, Callable[[Fact, list[Test], list[Value]], list[Value]]] = {
    "boolean": _booleans, "integer": _integers, "string": _strings, "version": _versions,
}  # fmt: skip
