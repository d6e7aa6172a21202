"""What the endpoints answer, as functions of plain data: nothing here knows of HTTP."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

from selector.alike import Decided
from selector.analysis.diff import diff
from selector.analysis.remaining import remaining
from selector.decision import Decision, Outdated
from selector.facts import read_machine
from selector.faults import place, unknown_keys, wrong_type
from selector.lines import KEYS
from selector.proposed import UNNAMED, overlaid
from selector.rendering import differences
from selector.rendering.whatif import what_if
from selector.rendering.whynot import why_not_of
from selector.rule_files import FILES, TABLES
from selector.rules.problems import FactsError, Place, Problem, ProblemsError, nearest
from selector.rules.text import parsed
from selector.ruleset import RuleSet
from selector.selecting import Selector
from selector.service.problems import ServiceError, invalid, told
from selector.service.settings import MOST_REQUESTS
from selector.serving import Sourced

if TYPE_CHECKING:
    from selector.rules.nodes import Node
    from selector.service.served import Now

Given = Mapping[str, object]
_EXPLAINED = {**KEYS, "why_not": None, "what_if": None, "any": None}
_BATCH = {**KEYS, "requests": None}


def fields(given: Given, known: Mapping[str, None]) -> None:
    """Raise `ServiceError` for a key that is not known here, with the nearest one that is."""
    faults = unknown_keys((), given, known)
    if faults:
        raise invalid(ProblemsError(place(faults, "body")))


def outdated(found: Outdated | None) -> dict[str, object] | None:
    """Tell since when newer rules are refused, or give None."""
    return None if found is None else asdict(found)


# --- decide -------------------------------------------------------------------------------------------------------


def decided(given: Given, now: Now) -> Decision:
    """Decide for one line. Raises `ServiceError` where it is not valid."""
    decision = now.lines.decide(given)
    error = decision.error
    if error is not None and error.code != "refused":
        raise ServiceError(422, error.code, error.message, error.problems)
    return decision


def all_decided(given: Given, now: Now) -> Iterator[Decided]:
    """Decide for each of many requests; one that is not valid is answered by its own decision.

    Raises `ServiceError` where what they share is not valid.
    """
    requests = given["requests"]
    fields(given, _BATCH)
    if "request" in given:
        raise ServiceError(422, "invalid", "wanted `request` or `requests`, got both")
    if not isinstance(requests, list):
        raise invalid(ProblemsError(place([wrong_type(("requests",), "a list of requests", requests)], "body")))
    if len(requests) > MOST_REQUESTS:
        raise ServiceError(422, "too-many", f"wanted at most {MOST_REQUESTS} requests, got {len(requests)}")
    shared = {key: value for key, value in given.items() if key != "requests"}
    decided(shared, now)  # so that what is wrong with them all is told once
    return now.lines.decide_each(shared, requests)


# --- explain ------------------------------------------------------------------------------------------------------


def explained(given: Given, now: Now) -> dict[str, object]:
    """Explain one line as `explain --format json` does. Raises `ServiceError` where it is not valid."""
    fields(given, _EXPLAINED)
    changes = given.get("what_if")
    if changes is not None and not isinstance(changes, Mapping):
        raise invalid(ProblemsError(place([wrong_type(("what_if",), "a mapping of facts", changes)], "body")))
    backend = given.get("why_not")
    if backend is not None and not isinstance(backend, str):
        raise invalid(ProblemsError(place([wrong_type(("why_not",), "a backend name", backend)], "body")))
    any_fact = given.get("any")
    if any_fact is not None and not isinstance(any_fact, bool):
        raise invalid(ProblemsError(place([wrong_type(("any",), "true or false", any_fact)], "body")))
    decision = decided({key: value for key, value in given.items() if key in KEYS}, now)
    trace = decision.explain()
    found = decision.to_dict() | {"layers": [layer.to_dict() for layer in trace.layers], "trace": trace.to_dict()}
    possible = remaining(decision)
    found["remaining"] = None if possible is None else possible.to_dict()
    found["outdated"] = outdated(now.outdated)
    try:
        if backend is not None:
            found["why_not"] = why_not_of(decision, backend, now.rules, any_fact=any_fact is True).to_dict()
        if changes is not None:
            found["what_if"] = what_if(decision, [(str(name), value) for name, value in changes.items()]).to_dict()
    except ProblemsError as error:
        raise invalid(error) from None
    return found


# --- validate and diff --------------------------------------------------------------------------------------------


def validated(given: Given, now: Now) -> dict[str, object]:
    """Check a config, facts or rules, or several of them; each is a text, in which every problem has its place.

    `parsed` holds what the texts of facts and config that are valid say, as data, where there are such.
    """
    fields(given, {"rules": None, "config": None, "facts": None})
    problems: list[Problem] = []
    values: dict[str, object] = {}
    rules = now.rules
    try:  # what is no text at all is wrong with the request, and not with what is checked
        texts = {name: _text(given[name], name) for name in ("facts", "config") if given.get(name) is not None}
        files = None if given.get("rules") is None else texts_of(given["rules"])
    except ProblemsError as error:
        raise invalid(error) from None
    try:
        if files is not None:
            rules = overlaid(now.rules, files)
    except ProblemsError as error:
        problems += error.problems
    for name, check in (("facts", _facts_of), ("config", _config_of)):
        try:
            if name in texts:
                node = parsed(texts[name], ".yaml", name)
                check(name, node, rules)
                values[name] = node.plain()
        except ProblemsError as error:
            problems += error.problems
    found = {"valid": not problems, "problems": [told(one) for one in problems], "digest": rules.digest}
    return {**found, "parsed": values} if values else found


def _text(value: object, name: str) -> bytes:
    if not isinstance(value, str):
        raise ProblemsError([Problem(Place("body", path=name), "wrong-type", f"`{name}`: wanted a text, as a string")])
    return _encoded(value, name)


def _encoded(text: str, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        problem = Problem(Place(name), "not-utf-8", "wanted text that can be written as UTF-8, got a lone surrogate")
        raise ProblemsError([problem]) from None


def _facts_of(name: str, node: Node, rules: RuleSet) -> None:
    faults, _ = read_machine(node.plain(), rules.vocabulary)
    if faults:
        raise FactsError(place(faults, name, node))


def _config_of(name: str, node: Node, rules: RuleSet) -> None:
    Selector(rules=rules, facts={"platform": "cpu"}, config=Sourced(name, node), environment={})


def texts_of(given: object) -> dict[str, bytes]:
    """Give proposed rules by the names of their files: one text, or several. Raises `ProblemsError` for none."""
    files = {UNNAMED: given} if isinstance(given, str) else given
    texts: dict[str, bytes] = {}
    problems = []
    for name, text in files.items() if isinstance(files, Mapping) else ():
        if isinstance(text, str):
            texts[str(name)] = _encoded(text, str(name))
        else:
            problems.append(Problem(Place("body", path=f"rules.{name}"), "wrong-type", "wanted a text, as a string"))
    if problems or not texts:
        message = "`rules`: wanted a text, or a mapping of file names to texts"
        raise ProblemsError(problems or [Problem(Place("body", path="rules"), "wrong-type", message)])
    return texts


def compared(given: Given, now: Now) -> dict[str, object]:
    """Tell in which situations proposed rules decide otherwise. Raises `ServiceError` where they do not load."""
    fields(given, {"rules": None})
    if given.get("rules") is None:
        raise ServiceError(422, "invalid", "`rules`: wanted a text, or a mapping of file names to texts, got none")
    try:
        newer = overlaid(now.rules, texts_of(given["rules"]))
    except ProblemsError as error:
        raise invalid(error) from None
    found = diff(now.rules, newer)
    return {
        "changed": found.changed, "old": now.rules.digest, "new": newer.digest,
        "text": differences.as_text(found), **differences.as_data(found),
    }  # fmt: skip


# --- rules --------------------------------------------------------------------------------------------------------


def rule_set(rules: RuleSet) -> dict[str, object]:
    """Give a rule set as one document, which loads to the same digest."""
    kinds = {kind: rules.content[kind].plain() for kind in FILES}
    return {**kinds, "tables": {name: _table(rules, name) for name in rules.tables}}


def _table(rules: RuleSet, name: str) -> dict[str, object]:
    """Give a table without its name; one of the user's own says that it is new, without which it would not load."""
    content = rules.content[name].plain()
    own = {} if name in TABLES else {"new": True}
    return own | {key: value for key, value in content.items() if key != "table"} if isinstance(content, dict) else {}


def one_of_rules(rules: RuleSet, name: str) -> object:
    """Give one table, or one of the files beside them. Raises `ServiceError` for a name of neither."""
    known = [*rules.tables, *FILES]
    if name not in known:
        hint = nearest(name, known)
        raise ServiceError(404, "unknown-table", f"no table or file of that name{f'; {hint}' if hint else ''}")
    return rules.content[name].plain()


def backends(rules: RuleSet) -> list[dict[str, object]]:
    """Give every backend: what it is, what it is called by default, its builds, and the config blocks that it reads."""
    return [
        {
            "name": name,
            "about": one.about,
            "default_name": one.default_name,
            "providers": list(one.providers),
            "reads": {block: _lists(known) for block, known in one.reads.items()},
        }
        for name, one in rules.backends.items()
    ]


def _lists(known: Mapping[str, tuple[object, ...]]) -> dict[str, list[object]]:
    return {name: list(values) for name, values in known.items()}
