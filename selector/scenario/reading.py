"""Reading scenario files: everything that is wrong with all of them is told at once, each with its place."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from selector.configuring import choose, read_policy
from selector.decision import Inputs
from selector.facts import read_machine, read_request
from selector.faults import Fault, Path, place, wrong_type
from selector.origins import policy_origin
from selector.rules.nodes import Node, Plain, follow
from selector.rules.problems import Place, Problem, ProblemsError, nearest, shown
from selector.rules.text import read_file
from selector.ruleset import RuleSet
from selector.scenario.coverage import WHAT_CONDITIONS_DO, WHAT_ROWS_DO, Coverage, Item, Point
from selector.scenario.expecting import Names
from selector.scenario.files import ScenarioPath
from selector.structure import MOST_FAULTS, schema_faults

_GIVEN = ("facts", "request", "config", "backend", "env", "policy")
_NEVER = (*WHAT_ROWS_DO, *WHAT_CONDITIONS_DO)
_NOT_VALID = ("invalid", "mutually_exclusive")


@dataclass(frozen=True, slots=True)
class Scenario:
    """A situation and what must come out of it. `faults` are those of an input that is wrong on purpose."""

    id: str
    about: str | None
    place: Place
    inputs: Inputs
    faults: tuple[Fault, ...]
    expect: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A point that no scenario can show, with the reason."""

    point: Point
    because: str
    place: Place


@dataclass(frozen=True, slots=True)
class Scenarios:
    """All that was read, in the order of the files."""

    scenarios: tuple[Scenario, ...]
    unreachable: tuple[Unreachable, ...]


def read_scenarios(paths: Iterable[ScenarioPath], rules: RuleSet) -> Scenarios:
    """Read scenario files against the rules that they are about.

    Raises `ProblemsError` with every problem of every file: what is no scenario, an input that is wrong where no error
    is expected, a name in `expect` or `unreachable` that the rules do not have, an id that stands twice.
    """
    reader = _Reader(rules, Names.of(rules), Coverage(rules).items)
    for name, path in paths:
        try:
            node = read_file(path, name)
        except ProblemsError as error:
            reader.problems += error.problems
        else:
            reader.file(name, node)
    if reader.problems:
        raise ProblemsError(reader.problems)
    return Scenarios(tuple(reader.scenarios), tuple(reader.unreachable))


@dataclass(slots=True)
class _Reader:
    rules: RuleSet
    names: Names
    items: Mapping[str, Item]
    problems: list[Problem] = field(default_factory=list)
    scenarios: list[Scenario] = field(default_factory=list)
    unreachable: list[Unreachable] = field(default_factory=list)
    seen: dict[str, Place] = field(default_factory=dict)

    def file(self, name: str, node: Node) -> None:
        """Read one file. Its frame is the schema's business, what is given that of those who read it for `decide`."""
        content = node.plain()
        faults = schema_faults("scenarios", _frame(content))
        for path, item in _entries(content):
            if len(faults) > MOST_FAULTS:
                message = f"there are more than {MOST_FAULTS} faults, and the rest is left out"
                faults.append(Fault((), "too-many", message))
                break
            read = self.scenario if path[0] == "scenarios" else self.never
            faults += read(item, path, name, node)
        self.problems += place(faults, name, node)

    def scenario(self, item: Mapping[str, Plain], path: Path, name: str, node: Node) -> list[Fault]:
        """Read one scenario; give what is wrong with it."""
        expect = item.get("expect")
        expect = expect if isinstance(expect, dict) else {}
        inputs, wrong = self.inputs(item, path)
        faults = [*itertools.islice(self.names.faults(expect, (*path, "expect")), MOST_FAULTS)]
        if item.get("expect") == {}:
            faults.append(Fault((*path, "expect"), "empty-expect", "wanted at least one thing that must come out"))
        if "facts" not in item:
            faults.append(Fault(path, "missing-key", "wanted the key `facts`, which is not there"))
        identity, about = item.get("id"), item.get("about")
        at = follow(node, path).at(name)
        if isinstance(identity, str):
            faults += self.again(identity, path, follow(node, (*path, "id")).at(name))
        on_purpose = expect.get("error") in _NOT_VALID
        told = about if isinstance(about, str) else None
        kept = tuple(wrong) if on_purpose else ()
        self.scenarios.append(Scenario(str(identity), told, at, inputs, kept, expect))
        return faults if on_purpose else [*faults, *wrong]

    def again(self, identity: str, path: Path, at: Place) -> list[Fault]:
        """Say when an id stands twice, in whichever file."""
        first = self.seen.setdefault(identity, at)
        if first is at:
            return []
        message = f"scenario `{shown(identity)}` stands twice"
        return [Fault((*path, "id"), "duplicate-scenario", message, f"the first is {first}")]

    def inputs(self, item: Mapping[str, Plain], path: Path) -> tuple[Inputs, list[Fault]]:
        """Read what is given, as `decide` reads it, and give what is wrong with it."""
        vocabulary = self.rules.vocabulary
        env, faults = item.get("env"), []
        if env is not None and not isinstance(env, dict):
            faults.append(wrong_type((*path, "env"), "a mapping of variables", env))
        variables = env if isinstance(env, dict) else {}
        found, machine = read_machine(item.get("facts", {}), vocabulary, 0, (*path, "facts"))
        more, request = read_request(item.get("request"), vocabulary, (*path, "request"))
        wrong, choices = choose(item.get("config"), item.get("backend"), variables, self.rules, path)
        of_policy, policy = read_policy(item.get("policy"), variables, path)
        origins = {"policy": policy_origin(item.get("policy"), variables)}
        return Inputs(machine, request, choices, policy, origins=origins), [*faults, *found, *more, *wrong, *of_policy]

    def near(self, code: str) -> str | None:
        """Give the nearest condition of the row that a code names, or else the nearest row, ability or warning."""
        subject = code.partition(":")[0]
        same = [known for known in self.items if known.partition(":")[0] == subject]
        return nearest(code, same) if same else nearest(subject, {known.partition(":")[0] for known in self.items})

    def never(self, item: Mapping[str, Plain], path: Path, name: str, node: Node) -> list[Fault]:
        """Read what no scenario can show."""
        code, never, because = (item.get(key) for key in ("code", "never", "because"))
        if not isinstance(code, str) or not isinstance(never, str):
            return []  # the schema says so
        if code not in self.items:
            hint = self.near(code)
            return [Fault((*path, "code"), "unknown-code", f"no row or condition `{shown(code, 120)}`", hint)]
        wanted = self.items[code].wanted
        if never in _NEVER and never not in wanted:
            message = f"`never`: wanted one of {', '.join(wanted)} for `{code}`, got `{shown(never)}`"
            return [Fault((*path, "never"), "bad-value", message)]
        self.unreachable.append(Unreachable(Point(code, never), str(because), follow(node, path).at(name)))
        return []


def _list(value: Plain) -> list[Plain]:
    return value if isinstance(value, list) else []


def _entries(content: Plain) -> Iterator[tuple[Path, Mapping[str, Plain]]]:
    """Give every scenario, and everything that is said to be unreachable, with the path to it."""
    for key in ("scenarios", "unreachable"):
        for index, item in enumerate(_list(content.get(key)) if isinstance(content, dict) else ()):
            if isinstance(item, dict):
                yield (key, index), item


def _frame(content: Plain) -> Plain:
    """Give a file without what its scenarios are given."""
    if not isinstance(content, dict) or not isinstance(content.get("scenarios"), list):
        return content
    scenarios: list[Plain] = [
        {key: value for key, value in item.items() if key not in _GIVEN} if isinstance(item, dict) else item
        for item in _list(content["scenarios"])
    ]
    return {**content, "scenarios": scenarios}
