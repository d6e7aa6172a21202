"""Texts made to cost: each is answered within a second and 150 MiB, measured in a process of its own."""

from __future__ import annotations

import sys

import pytest

from tests.selector.rules.texts import cost

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is read from /proc")

_BOMB = '"a0: &a0 x\\n" + "".join(f"a{n}: &a{n} [" + f"*a{n - 1}," * 10 + "]\\n" for n in range(1, 11))'
_CHAIN = '"- &a0 [x]\\n" + "".join(f"- &a{n} [*a{n - 1}]\\n" for n in range(1, 9000))'
_WIDE = '"- &a [" + "x," * 9000 + "]\\n" + "- *a\\n" * 90000'


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ('"[" * 1_000_000', ("too-deep", "yaml-syntax")),
        ('"[\\n" * 500_000', ("too-deep",)),
        ('"{" * 1_000_000', ("too-deep", "yaml-syntax")),
        ('"[a," * 250_000', ("too-deep",)),
        ('"- " * 500_000', ("too-deep",)),
        ('"".join(" " * n + "a:\\n" for n in range(1400))', ("too-deep",)),
        ('"? " * 500_000', ("key-type",)),
        (_BOMB, ("too-large",)),
        (_CHAIN, ("too-deep",)),
        (_WIDE, ("too-large",)),
        ('"[" + "1," * 500_000 + "]"', ("too-large",)),
        ('"[" + "[]," * 340_000 + "]"', ("too-large",)),
        ('"[" + "1," * 99_998 + "1]"', ("read",)),
        ('"".join(f"{n}x: 1\\n" for n in range(49_999))', ("read",)),
        ('"[" + ",".join(f"&a{n} 1" for n in range(99_000)) + "]"', ("read",)),
        ('"9" * 1_000_000', ("number",)),
        ('"0x" + "f" * 1_000_000', ("read", "number")),
        ('"1." + "1" * 1_000_000', ("read",)),
        ('"1e" + "9" * 1_000_000', ("read", "number")),
        ('"x" * 1_000_000', ("read",)),
        ("'\"' + '\\\\x41' * 250_000 + '\"'", ("read", "yaml-syntax")),
        ('"|\\n" + " a\\n" * 340_000', ("read",)),
        ('"a\\n" * 500_000', ("read",)),
        ('"#\\n" * 500_000', ("empty",)),
        ('"\\n" * 1_000_000', ("empty",)),
        ('" " * 1_000_000', ("empty",)),
        ('"\\t" * 1_000_000', ("yaml-syntax",)),
        ('"%a\\n" * 340_000', ("yaml-syntax",)),
        ('":" * 1_000_000', ("yaml-syntax",)),
        ('": " * 500_000', ("yaml-syntax",)),
        ('"," * 1_000_000', ("yaml-syntax",)),
        ('"---\\n" * 260_000', ("several-documents",)),
        ('"\'" * 1_000_000', ("read", "yaml-syntax")),
        ('"a: b" * 250_000', ("yaml-syntax", "read")),
        ('"x" * 10_000_000', ("too-large",)),
    ],
)
def test_yaml_is_read_or_refused_within_bounds(expression: str, outcome: tuple[str, ...]) -> None:
    """No text of 1 MiB takes more than a second or 150 MiB, whatever stands in it."""
    found = cost("yaml", expression)

    assert found.outcome in outcome
    assert found.seconds < 1
    assert found.mib < 150


@pytest.mark.parametrize(
    ("expression", "outcome"),
    [
        ('"[" * 1_000_000', ("too-deep",)),
        ("'{\"\":' * 200_000", ("too-deep",)),
        ('"[" + "1," * 520_000 + "1]"', ("too-large",)),
        ('"[" + "1," * 99_000 + "1]"', ("read",)),
        ("'{' + ','.join('\"%x\":1' % n for n in range(90_000)) + '}'", ("read",)),
        ('"9" * 1_000_000', ("number",)),
        ('"1e" + "9" * 1_000_000', ("number",)),
        ("'\"' + 'a' * 1_000_000 + '\"'", ("read",)),
        ("'\"' + '\\\\u0041' * 170_000 + '\"'", ("read", "json-syntax")),
        ("'\"' * 1_000_000", ("json-syntax",)),
        ('" " * 1_000_000', ("json-syntax",)),
        ('"\\n" * 1_000_000 + "1"', ("read",)),
        ('"," * 1_000_000', ("json-syntax",)),
        ('"x" * 10_000_000', ("too-large",)),
    ],
)
def test_json_is_read_or_refused_within_bounds(expression: str, outcome: tuple[str, ...]) -> None:
    """No text of 1 MiB takes more than a second or 150 MiB, whatever stands in it."""
    found = cost("json", expression)

    assert found.outcome in outcome
    assert found.seconds < 1
    assert found.mib < 150


@pytest.mark.parametrize("item", ["[]", "{}", '{"":1}', "[[]]"])
def test_a_million_small_lists_stay_within_memory(item: str) -> None:
    """The dearest values that fit into 1 MiB, with their places and as plain values, take less than 150 MiB."""
    found = cost("json", f"'[' + {item + ','!r} * ((1 << 20) // {len(item) + 1} - 2) + '1]'")

    assert found.outcome in {"read", "too-large"}
    assert found.mib < 150
