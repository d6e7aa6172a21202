"""How values of a fact compare, each order by its name in the vocabulary."""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version

Compare = Callable[[object], bool]

_SIGNS: Mapping[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge, "<=": operator.le, "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt,
}  # fmt: skip
_CLAUSE = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([^\s,<>=!]+)\s*")


@dataclass(frozen=True, slots=True)
class Order:
    """An order of the values of facts of one `type`.

    `read` turns a bound as written in a rule into a key, `key` does it for a value of the fact. Both raise `ValueError`
    on what they cannot read, and `key` gives None for a value that stands outside the order (an architecture of another
    maker): such a value fails every comparison.
    """

    name: str
    type: str
    example: str
    read: Callable[[str], object]
    key: Callable[[object], object | None]

    def comparison(self, text: str) -> Compare:
        """Compile ``">=a,<b"``; raises `ValueError` when it is not such a list of bounds."""
        clauses = []
        for part in text.split(","):
            match = _CLAUSE.fullmatch(part)
            if match is None:
                raise ValueError(part.strip())
            clauses.append((_SIGNS[match[1]], self.read(match[2])))

        def holds(value: object) -> bool:
            key = self.key(value)
            return key is not None and all(sign(key, bound) for sign, bound in clauses)

        return holds


_PEP440_CLAUSE = re.compile(r"\s*(~=|==|!=|<=|>=|<|>)\s*([0-9]+!)?[^\s<>=!~]+\s*")


@dataclass(frozen=True, slots=True)
class _Pep440(Order):
    def comparison(self, text: str) -> Compare:
        """Compile a PEP 440 specifier set; pre-releases take part."""
        return _specified(text)


@functools.lru_cache(maxsize=1024)
def _specified(text: str) -> Compare:
    """Compile a specifier set, once for all who ask it; what it said of a version is remembered."""
    if not all(_PEP440_CLAUSE.fullmatch(part) for part in text.split(",")):
        raise ValueError(text)
    try:
        bounds = SpecifierSet(text)
    except InvalidSpecifier as error:
        raise ValueError(text) from error
    return functools.lru_cache(maxsize=256)(functools.partial(_contained, bounds))


def _contained(bounds: SpecifierSet, value: object) -> bool:
    return bounds.contains(str(value), prereleases=True)


def _version(text: object) -> Version:
    try:
        return Version(str(text))
    except InvalidVersion as error:
        raise ValueError(text) from error


_CAPABILITY = re.compile(r"sm_([1-9][0-9]?)([0-9])\Z")
_CAPABILITY_PATTERN = re.compile(r"sm_([1-9][0-9]?)x\Z")


def _capability(text: str) -> tuple[int, int]:
    match = _CAPABILITY.match(text)
    if match is None:
        raise ValueError(text)
    return int(match[1]), int(match[2])


def _capability_key(value: object) -> tuple[int, int] | None:
    match = _CAPABILITY.match(str(value))
    return (int(match[1]), int(match[2])) if match else None


def capability_pattern(text: str) -> Compare | None:
    """Compile ``sm_10x`` (every minor of major 10), or give None when the text is no such pattern."""
    match = _CAPABILITY_PATTERN.match(text)
    if match is None:
        return None
    return functools.partial(has_major, int(match[1]))


def has_major(major: int, value: object) -> bool:
    """Whether a value is an architecture of that major version."""
    key = _capability_key(value)
    return key is not None and key[0] == major


_CUDNN = re.compile(r"([0-9]+)\.([0-9]+)(?:\.([0-9]+))?\Z")
_CUDNN_MAJOR_SCALE_CHANGED = 9


def _cudnn(text: str) -> int:
    """Pack major.minor.patch as cuDNN does: 9.5 is 90500, 8.9.7 is 8907 (the scale changed with version 9)."""
    match = _CUDNN.match(text)
    if match is None:
        raise ValueError(text)
    major, minor, patch = int(match[1]), int(match[2]), int(match[3] or 0)
    return major * (10_000 if major >= _CUDNN_MAJOR_SCALE_CHANGED else 1_000) + minor * 100 + patch


def _integer(text: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise ValueError(text)
    return int(text)


def _same(value: object) -> object:
    return value


ORDERS: Mapping[str, Order] = {
    order.name: order
    for order in (
        Order("number", "integer", ">=64", _integer, _same),
        Order("capability", "string", ">=sm_80", _capability, _capability_key),
        Order("cudnn", "integer", ">=9.5", _cudnn, _same),
        _Pep440("pep440", "version", ">=0.6.16rc1", _version, _version),
    )
}
