"""Backends by name, from entry points given as values."""

from __future__ import annotations

import re
import sys
import types
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING

import pytest

from backends.interface import BindError
from backends.registry import GROUP, available, installed, load

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Plugin:
    """A backend in shape alone."""

    def __init__(self, name: str) -> None:
        self.name = name

    def bind(self) -> None:
        """Never called."""

    def __repr__(self) -> str:
        return "Plugin"


@pytest.fixture(scope="module", autouse=True)
def plugins() -> Iterator[None]:
    """A module with backends, importable while these tests run."""
    module = types.ModuleType("imaginary_plugins")
    module.__dict__.update(GOOD=Plugin("GOOD"), MISNAMED=Plugin("OTHER"), NUMBER=7)
    sys.modules[module.__name__] = module
    yield
    del sys.modules[module.__name__]


class Home(metadata.Distribution):
    """An installed distribution that has a name and nothing else."""

    def __init__(self, name: str) -> None:
        self.text = f"Name: {name}\nVersion: 1\n"

    def read_text(self, filename: str) -> str | None:
        """Its metadata."""
        return self.text if filename == "METADATA" else None

    def locate_file(self, path: object) -> Path:
        """Nowhere."""
        raise NotImplementedError


def point(name: str, value: str, home: str | None = "kernels-of-mine") -> EntryPoint:
    """An entry point as an installed distribution would have it."""
    entry = EntryPoint(name, value, GROUP)
    if home is not None:
        vars(entry)["dist"] = Home(home)
    return entry


POINTS = [
    point("GOOD", "imaginary_plugins:GOOD"),
    point("MISNAMED", "imaginary_plugins:MISNAMED"),
    point("NUMBER", "imaginary_plugins:NUMBER"),
    point("ABSENT", "imaginary_plugins:ABSENT"),
    point("MISSING", "no_such_module_anywhere:BACKEND"),
    point("TWICE", "imaginary_plugins:GOOD", "kernels-of-yours"),
    point("TWICE", "imaginary_plugins:GOOD"),
]


def test_load_gives_the_object() -> None:
    """The one that the entry point names."""
    assert repr(load("GOOD", POINTS)) == "Plugin"


FAULTS = [
    ("GODO", "backend `GODO`: wanted the name of an installed backend, got none; the nearest is `GOOD`"),
    ("good", "backend `good`: wanted the name of an installed backend, got none; the nearest is `GOOD`"),
    (
        "TWICE",
        "backend `TWICE`: wanted one distribution that offers it, got `kernels-of-mine` and `kernels-of-yours`",
    ),
    (
        "MISSING",
        (
            "backend `MISSING` of `kernels-of-mine` does not load: ModuleNotFoundError: No module named "
            "'no_such_module_anywhere'"
        ),
    ),
    (
        "ABSENT",
        (
            "backend `ABSENT` of `kernels-of-mine` does not load: AttributeError: module 'imaginary_plugins' has no "
            "attribute 'ABSENT'"
        ),
    ),
    (
        "MISNAMED",
        (
            "backend `MISNAMED` of `kernels-of-mine`: wanted an object with `bind` and the name `MISNAMED`, got Plugin "
            "with the name `OTHER`"
        ),
    ),
    (
        "NUMBER",
        (
            "backend `NUMBER` of `kernels-of-mine`: wanted an object with `bind` and the name `NUMBER`, got 7 with the "
            "name `None`"
        ),
    ),
]


@pytest.mark.parametrize(("name", "message"), FAULTS)
def test_what_cannot_be_loaded(name: str, message: str) -> None:
    """The message names the backend, its distribution where there is one, and the cause."""
    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        load(name, POINTS)


def test_the_cause_is_chained() -> None:
    """The plug-in's own traceback is kept."""
    with pytest.raises(BindError) as raised:
        load("MISSING", POINTS)

    assert isinstance(raised.value.__cause__, ModuleNotFoundError)


def test_nothing_installed() -> None:
    """Then there is no nearest name."""
    with pytest.raises(BindError, match=r"^backend `GOOD`: wanted the name of an installed backend, got none$"):
        load("GOOD", [])


def test_available_imports_nothing() -> None:
    """Names with their distributions, in order, whether they load or not."""
    points = [point("Z", "no_such_module_anywhere:Z"), point("A", "a:b", "other"), point("B", "c:d", home=None)]

    assert available(points) == {"A": "other", "B": "c:d", "Z": "kernels-of-mine"}


def test_available_names_both_who_take_one_name() -> None:
    """A conflict is not hidden in a listing."""
    with pytest.raises(BindError, match=r"got `kernels-of-mine` and `kernels-of-yours`$"):
        available(POINTS)


def test_the_installed_ones_are_looked_up_once() -> None:
    """And are those of the group."""
    assert installed() is installed()
    assert {entry.group for entry in installed()} <= {GROUP}
    assert set(available()) == {entry.name for entry in installed()}
