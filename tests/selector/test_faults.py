"""Faults: paths as people read them, places from a text, and sentences for keys and types."""

from __future__ import annotations

import pytest

from selector.faults import Fault, Path, dotted, place, typed, unknown_key, wrong_type
from selector.rules.problems import Place
from selector.rules.yaml_text import read_yaml

TEXT = read_yaml("default:\n  backend: NOPE\ndevices:\n  - {arch: 5}\n", "file")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("config",), "config"),
        (("config", "per_role", "cross"), "config.per_role.cross"),
        (("devices", 0, "arch"), "devices[0].arch"),
        ((0, "a"), "[0].a"),
        (("a", ""), "a."),
        (("\udc80",), "\\udc80"),
        (("x" * 300,), "x" * 199 + "…"),
    ],
)
def test_a_path_is_written_with_dots(path: Path, text: str) -> None:
    """Numbers in brackets; what cannot be printed is written out, what is endless is cut."""
    assert dotted(path) == text


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(("default", "backend"), "c", "m"), Place("file", 2, 12, "default.backend")),
        (Fault(("default", "backend"), "c", "m", on_key=True), Place("file", 2, 3, "default.backend")),
        (Fault(("devices", 0, "arch"), "c", "m"), Place("file", 4, 12, "devices[0].arch")),
        (Fault(("default", "quant", "x"), "c", "m"), Place("file", 2, 3, "default.quant.x")),
        (Fault(("devices", 7), "c", "m"), Place("file", 4, 3, "devices[7]")),
        (Fault((), "c", "m"), Place("file", 1, 1, "")),
    ],
)
def test_a_fault_is_placed_in_its_text(fault: Fault, expected: Place) -> None:
    """At the value, at the key where the key is wrong, or at the last that exists on the way."""
    (problem,) = place([fault], "file", TEXT)

    assert problem.place == expected


def test_without_a_text_the_path_is_the_place() -> None:
    """Code, sentence and hint stay as they are."""
    (problem,) = place([Fault(("a", 1), "code", "sentence", "hint")], "facts")

    assert str(problem) == "facts (a[1]): code: sentence\n  hint: hint"


def test_an_unknown_key_names_the_nearest() -> None:
    """Or else all that are known here; a key that is no string is written as one."""
    assert unknown_key(("a",), "bakend", ["backend", "quant"]) == Fault(
        ("a", "bakend"), "unknown-key", "no key `bakend` here", "did you mean `backend`?", on_key=True
    )
    assert unknown_key((), 5, iter(["backend"])) == Fault(
        ("5",), "unknown-key", "no key `5` here", "known here: backend", on_key=True
    )


def test_a_wrong_type_names_both() -> None:
    """What was wanted, and the value with its type."""
    assert wrong_type(("a", "b"), "a list", {}).message == "`b`: wanted a list, got a mapping"
    assert wrong_type((), "a list", "x").message == "wanted a list, got the string `x`"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({}, "a mapping"),
        ([], "a list"),
        ((), "a list"),
        (None, "null"),
        (True, "true"),
        ("x", "the string `x`"),
        (5, "the number 5"),
        (1.5, "the number 1.5"),
    ],
)
def test_values_in_a_sentence(value: object, text: str) -> None:
    """As YAML and JSON call them."""
    assert typed(value) == text
