"""Names that rules declare and nothing uses, and rows that have outlived what they wait for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import date

from selector.analysis.findings import Finding
from selector.rules.conditions import Condition, tests
from selector.rules.nodes import Node
from selector.rules.problems import shown
from selector.rules.tables import Row
from selector.rules.vocabulary import PACKAGE_PREFIX, Value
from selector.ruleset import ENGINE_FACTS, RuleSet

_FIELD = re.compile(r"\{([^{}]*)\}")
_UNTIL = re.compile(r"(?P<fact>\S+)\s+(?P<comparison>[<>=!~].*)")


def lint_names(rules: RuleSet) -> Iterator[Finding]:
    """Find facts, sets, packages and providers that nothing uses."""
    facts, content = set(_facts_used(rules)), rules.content["vocabulary"]
    packages = {fact.removeprefix(PACKAGE_PREFIX) for fact in facts if fact.startswith(PACKAGE_PREFIX)}
    for section, kind, used in (
        ("facts", "fact", facts), ("sets", "set", set(_sets_used(rules))), ("packages", "package", packages),
    ):  # fmt: skip
        for name, node in _entries(content, section).items():
            if name not in used:
                place = node.key_at("vocabulary", f"{section}.{name}")
                yield Finding(f"unused-{kind}", place, f"nothing uses the {kind} `{name}`")
    listed = {name for backend in rules.backends.values() for name in backend.providers}
    targets = {row.target for table in rules.tables.values() if table.targets == "providers" for row in table.rows}
    for provider in rules.providers.values():
        if provider.name not in listed & targets:
            missing = "no backend lists it" if provider.name not in listed else "no row uses it"
            yield Finding("unused-provider", provider.place, f"the provider `{provider.name}` never runs: {missing}")


def _entries(node: Node, section: str) -> dict[str, Node]:
    found = node.value.get(section) if isinstance(node.value, dict) else None
    return found.value if found is not None and isinstance(found.value, dict) else {}


def _facts_used(rules: RuleSet) -> Iterator[str]:
    yield from ENGINE_FACTS
    for condition in _conditions(rules):
        yield from (test.fact for test in tests(condition))
    for table in rules.tables.values():
        yield from table.requires
        for row in table.rows:
            yield from row.redecide
            for text in filter(None, (row.target, row.log, row.warn, row.transform)):
                yield from _FIELD.findall(text)
    for backend in rules.backends.values():
        yield str(backend.unbound)
        yield from (f"{block}.{field}" for block, fields in backend.reads.items() for field in fields)
        yield from backend.reads
        for caution in backend.unverified:
            yield from _FIELD.findall(caution.warn)
    yield from (str(provider.unbound) for provider in rules.providers.values())
    for derived in rules.vocabulary.derived:
        yield from (derived.first, derived.second)
    yield from (str(fact.on.fact) for fact in rules.vocabulary.facts.values() if fact.on is not None)
    for caution in rules.warnings:
        yield from _FIELD.findall(caution.warn)


def _conditions(rules: RuleSet) -> Iterator[Condition]:
    for table in rules.tables.values():
        yield from (row.when for row in table.rows)
    for abilities in rules.abilities.values():
        yield from abilities.values()
    for backend in rules.backends.values():
        yield from (caution.when for caution in backend.unverified)
    yield from (caution.when for caution in rules.warnings)


def _sets_used(rules: RuleSet) -> Iterator[str]:
    """Give what stands after `in:` anywhere."""
    waiting = [node for kind, node in rules.content.items() if kind != "vocabulary"]
    while waiting:
        node = waiting.pop()
        if isinstance(node.value, dict):
            name = node.value.get("in")
            if name is not None and isinstance(name.value, str):
                yield name.value
            waiting += node.value.values()
        elif isinstance(node.value, list):
            waiting += node.value


# --- until --------------------------------------------------------------------------------------------------------


def lint_until(rules: RuleSet, facts: Mapping[str, Value], today: date) -> Iterator[Finding]:
    """Find rows whose `until` has passed: a date (``2027-06-30``), or a fact with a comparison (``packages.x >=2``)."""
    for table in rules.tables.values():
        for row in table.rows:
            if row.until is not None:
                yield from _until(row, row.until, rules, facts, today)


def _until(row: Row, until: str, rules: RuleSet, facts: Mapping[str, Value], today: date) -> Iterator[Finding]:
    try:
        passed = date.fromisoformat(until) <= today
        got = f"today is {today}"
    except ValueError:
        match = _UNTIL.fullmatch(until)
        fact = rules.vocabulary.facts.get(match["fact"]) if match else None
        order = fact.ordering() if fact is not None else None
        compare = None
        if match is not None and order is not None:
            with suppress(ValueError):
                compare = order.comparison(match["comparison"])
        if compare is None or fact is None:
            message = f"row `{row.id}`: `until` says `{shown(until)}`: wanted a date or a fact with a comparison"
            yield Finding("unclear-until", row.place, message, rows=(row.name,))
            return
        value = facts.get(fact.name)
        passed = value is not None and compare(value)
        got = f"{fact.name} is {shown(value)}"
    if passed:
        message = f"row `{row.id}` was to stand until {until}, and {got}"
        yield Finding("until-passed", row.place, message, rows=(row.name,))
