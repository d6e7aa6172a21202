"""The page of installation has what a reader needs of every kernel that is not torch's own, and of no other."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping

import pytest

from selector.rules.conditions import tests as conditions_of
from selector.ruleset import shipped
from tests.doc_examples import ROOT

PACKAGE = "packages."


def sections() -> Mapping[str, str]:
    """Give the text of each section, by its heading."""
    page = (ROOT / "docs/installing.md").read_text(encoding="utf-8")
    parts = re.split(r"^## (.*)$", page, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def named(heading: str) -> list[str]:
    """Give the builds and backends that a section is about."""
    return re.findall(r"`([^`]+)`", heading)


def optional() -> Iterator[str]:
    """Name what the rules let run on some machines alone: each build, and each backend that has no builds."""
    for backend in shipped().backends.values():
        if list(conditions_of(backend.ability)):
            yield from backend.providers or [backend.name]


def packages(name: str) -> set[str]:
    """Name the packages that a build or backend asks for."""
    rules = shipped()
    ability = (rules.providers[name] if name in rules.providers else rules.backends[name]).ability
    return {test.fact.removeprefix(PACKAGE) for test in conditions_of(ability) if test.fact.startswith(PACKAGE)}


SECTIONS = sections()
sectioned = pytest.mark.parametrize("heading", SECTIONS)


def test_every_optional_build_has_a_section_and_no_other_has() -> None:
    """Once each."""
    assert sorted(name for heading in SECTIONS for name in named(heading)) == sorted(optional())


@sectioned
def test_a_section_has_all_its_parts(heading: str) -> None:
    """Each package by its name, how it is installed, two checks, and what is said without it."""
    text = SECTIONS[heading]
    wanted = set().union(*(packages(name) for name in named(heading)))

    assert [package for package in wanted if f"`{package}`" not in text] == []
    assert re.search(r"^(pip install|python setup.py install)", text, re.MULTILINE)
    assert "attention-selector selftest --backend " in text
    assert "$ attention-selector explain --facts " in text
    assert " cannot run here" in text


@sectioned
def test_quick_checks_import_what_facts_would(heading: str) -> None:
    """The modules of the vocabulary, and torch, which brings cuDNN."""
    known = {module for name in named(heading) for package in packages(name) for module in modules(package)}
    checked = set(re.findall(r'python -c "(?:import|from) (\S+?)[; ]', SECTIONS[heading]))

    assert checked
    assert {module.removesuffix(".prefill") for module in checked} <= (known or {"torch"})


def modules(package: str) -> tuple[str, ...]:
    """Give the modules of a package of the vocabulary."""
    return tuple(shipped().vocabulary.packages[package].modules)


def test_extras_of_the_page_exist() -> None:
    """And every extra that brings a kernel is on the page."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named_there = set(re.findall(r"attention-selector\[(\w+)\]", "".join(SECTIONS.values())))

    assert named_there <= set(project["optional-dependencies"])
    assert named_there >= {"fa2", "fa3", "fa4", "flashinfer", "sage", "hub"}
