"""A small set of scenarios made by itself: for each row a situation that it wins, and one beside it for each condition.

Where a row asks several things, the situation beside it differs in the one alone and has another outcome.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from selector import data
from selector.analysis.boxes import Budget, BudgetError, meet
from selector.analysis.regions import Regions, Where, asked_by, regions_of
from selector.analysis.space import Box, Space, bits, make_space
from selector.analysis.values import TooManyError
from selector.configuring import choose, read_policy
from selector.decision import Decision, Inputs
from selector.facts import derive, read_machine, read_request
from selector.resolve import resolve
from selector.rule_files import TABLES
from selector.rules.conditions import Both, Condition, Test, tests
from selector.rules.tables import Row
from selector.rules.vocabulary import PACKAGE_PREFIX, Value, Vocabulary
from selector.rules.walk import code
from selector.rules.yaml_writing import as_yaml
from selector.ruleset import RuleSet

_MOST_PARTS = 60
_STEPS = 20_000
_CHOSEN_FIRST = ("explicit", "provider", "call")
_AFTER_CHOICE = ("provider", "call")
_SAID_BY_CALLS = ("dtype", "seq_len_q", "seq_len_kv", "causal", "causal_alignment")
_ROLE, _CATEGORY = "generated.role", "cross"
Facts = Mapping[str, Value]
Line = dict[str, object]


@dataclass(frozen=True, slots=True)
class Generated:
    """The scenarios, and the rows and conditions for which no situation was found."""

    scenarios: tuple[Line, ...]
    missed: tuple[str, ...]

    def to_dict(self, rules: RuleSet) -> dict[str, object]:
        """Give the content of a file of scenarios."""
        told = f"Made by `attention-selector test --generate` for the rules {rules.digest[:12]}; not written by hand."
        return {"description": told, "scenarios": list(self.scenarios)}


def written(made: Generated, rules: RuleSet, path: Path) -> str:
    """Give the text of the file: one scenario under another, what belongs to it on lines of its own."""
    shipped = data.folder("rules").absolute() in path.absolute().parents
    head = "# yaml-language-server: $schema=../../schemas/scenarios.schema.json\n" if shipped else ""
    return head + as_yaml(made.to_dict(rules), flow=None)


def generate(rules: RuleSet) -> Generated:
    """Make the scenarios for every table that decisions walk."""
    maker = _Maker(rules)
    for name in TABLES:
        maker.table(name)
    return Generated(tuple(maker.made), tuple(maker.missed))


class _Maker:
    def __init__(self, rules: RuleSet) -> None:
        self.rules = rules
        self.made: list[Line] = []
        self.missed: list[str] = []
        self.able: list[Box] | None = None

    def table(self, name: str) -> None:
        table, rules = self.rules.table(name), self.rules
        own = rules.abilities.get(table.targets, {})
        try:
            asked = [*asked_by(table, own, rules.vocabulary), *self.choosing(name)]
            space = make_space(asked, rules.vocabulary, table.requires)
            regions = regions_of(table, own, rules.vocabulary, space)
            self.able = self.able_in(space) if name in _AFTER_CHOICE else None
        except (TooManyError, BudgetError):
            self.missed.append(name)
            return
        for at, row in enumerate(table.rows):
            won = next(self.winning(regions, at), None)
            if won is None:
                self.missed.append(row.name)
                continue
            facts, line = won
            self.add(f"{row.table}-{row.id}-wins".replace("_", "-"), f"`{row.name}` wins.", line)
            self.beside(regions, row, facts)

    def choosing(self, table: str) -> Iterator[Test]:
        """Give the tests of what decides who can be named, for tables that are asked after that."""
        if table in _AFTER_CHOICE:
            chosen = self.rules.table("explicit")
            yield from asked_by(chosen, self.rules.abilities[chosen.targets], self.rules.vocabulary)

    def able_in(self, space: Space) -> list[Box]:
        """Give where a backend that is named can run."""
        where, found = Where(space), dict[str, list[Box]]()
        for test in space.tests:
            name = str(test.mentions[0]) if test.mentions else ""
            if test.fact == "backend" and test.op == "equals" and not test.place.file and name not in found:
                found[name] = where.both(where.holds(test), where.holds(self.rules.abilities["backends"][name]))
        open_ = {space.index[name] for name in _SAID_BY_CALLS if name in space.index}
        full = space.full
        return [
            tuple(full[at] if at in open_ else mask for at, mask in enumerate(box))
            for boxes in found.values() for box in boxes
        ]  # fmt: skip

    def add(self, name: str, about: str, line: Line, blamed: str | None = None) -> None:
        """Take a scenario in, with what comes out of it."""
        decision = self.decided(line)
        assert decision is not None  # noqa: S101 - it was decided before
        expect: Line = {"backend": decision.backend, "rule": decision.rule}
        if decision.error is not None:
            expect = {"error": decision.error.code}
        if decision.provider is not None:
            expect["provider"] = decision.provider
        if blamed is not None:
            expect["blames"] = [blamed]
        self.made.append({"id": name, "about": about, **line, "expect": expect})

    # --- a situation that a row wins ---

    def winning(self, regions: Regions, at: int) -> Iterator[tuple[Facts, Line]]:
        """Give situations that a row wins, also at the end of all that is asked before its table."""
        row = regions.table.rows[at]
        try:
            left = regions.left(at, Budget(_STEPS))
            if self.able is not None:
                able = self.able
                left = (box for part in left for other in able if (box := meet(part, other)) is not None)
            parts = list(itertools.islice(left, _MOST_PARTS))
        except BudgetError:
            return
        for part in parts:
            for facts in _points(regions.space, part):
                line = self.line(row.table, facts)
                if line is not None and self.outcome(line, row.table) == row.id:
                    yield facts, line

    def beside(self, regions: Regions, row: Row, facts: Facts) -> None:
        """Add for each condition of a row a situation that differs in it alone, and that another row takes."""
        parts = row.when.parts if isinstance(row.when, Both) else (row.when,)
        for number, part in enumerate(parts):
            found = next(self.flipped(regions, row, part, facts), None)
            names = "-".join(dict.fromkeys(test.fact for test in tests(part)))
            if found is None:
                if names:
                    self.missed.append(f"{row.name}: {names}")
                continue
            line, blamed = found
            name = f"{row.table}-{row.id}-without-{number + 1}".replace("_", "-")
            self.add(name, f"`{row.name}` does not hold for its condition on {names.replace('-', ' ')}.", line, blamed)

    def flipped(self, regions: Regions, row: Row, part: Condition, facts: Facts) -> Iterator[tuple[Line, str | None]]:
        """Give situations in which a part of a row's condition no longer holds, and another row wins.

        Those in which the row is blamed for it come first; in the others a row before it wins.
        """
        taken: list[Line] = []
        for variable in dict.fromkeys(regions.space.index[test.fact] for test in tests(part)):
            members = [member for cell in regions.space.variables[variable].cells for member in cell.members[:4]]
            for member in members:
                kept = {name: value for name, value in facts.items() if regions.space.index[name] != variable}
                for other in self.repaired({**kept, **member}, regions.space, row):
                    if part.holds(derive(dict(other), self.rules.vocabulary)) is True:
                        continue
                    line = self.line(row.table, other)
                    if line is None or self.outcome(line, row.table) in (row.id, None):
                        continue
                    told = self.blamed(line, row, part)
                    if told is not None:
                        yield line, told
                    else:
                        taken.append(line)
        yield from ((line, None) for line in taken)

    def repaired(self, facts: Facts, space: Space, row: Row) -> Iterator[Facts]:
        """Give facts, and those in which another backend that is named can run, where the row asks of neither."""
        yield facts
        try:
            here = space.locate(derive(dict(facts), self.rules.vocabulary), self.rules.vocabulary)
        except LookupError:
            return
        asked = {space.index[test.fact] for test in tests(row.when)}
        for box in self.able or ():
            away = [at for at, (now, mask) in enumerate(zip(here, box, strict=True)) if not now & mask]
            if away and not asked & set(away):
                found = {name: value for name, value in facts.items() if space.index[name] not in away}
                for at in away:
                    members = [one for cell in bits(box[at]) for one in space.variables[at].cells[cell].members]
                    found.update(_best(members, _told_absent))
                yield found

    def blamed(self, line: Line, row: Row, part: Condition) -> str | None:
        """Give the code that the row is blamed with for a part of its condition, where its table is walked at all."""
        decision = self.decided(line)
        places = {test.place for test in tests(part)}
        for walk in decision.explain().walks if decision is not None else ():
            for step in walk.steps:
                if step.row.name != row.name:
                    continue
                for result in step.blamed:
                    if result.place in places:
                        return code(row, result)
        return None

    # --- lines ---

    def line(self, table: str, facts: Facts) -> Line | None:
        """Give the line of `decide` in which a table meets these facts; None where no line does."""
        if table not in _CHOSEN_FIRST and any(
            value not in (None, False)
            for name, value in facts.items()
            if name.partition(".")[0] in ("quant", "skip_softmax")
        ):
            return None
        found = _line(facts, self.rules.vocabulary, named=table in _CHOSEN_FIRST)
        return found if self.decided(found) is not None else None

    def decided(self, line: Mapping[str, object]) -> Decision | None:
        """Decide a line as `decide` does; None for one that is not valid."""
        rules = self.rules
        wrong, machine = read_machine(line["facts"], rules.vocabulary)
        more, request = read_request(line.get("request"), rules.vocabulary)
        faults, choices = choose(line.get("config"), line.get("backend"), {}, rules)
        rest, policy = read_policy(line.get("policy"), {}, ())
        if [*wrong, *more, *faults, *rest]:
            return None
        decision = resolve(Inputs(machine, request, choices, policy), rules)
        return None if decision.error is not None and decision.error.code == "invalid" else decision

    def outcome(self, line: Line, table: str) -> str | None:
        """Name the row that wins in the first walk of a table."""
        decision = self.decided(line)
        walks = decision.explain().walks if decision is not None else []
        chosen = next((walk.chosen for walk in walks if walk.table == table), None)
        return chosen.row.id if chosen is not None else None


def _points(space: Space, part: Box) -> Iterator[Facts]:
    """Give a few situations of a part: with what is absent said to be absent, and with as little known as can be."""
    for prefer in (_told_absent, _size):
        facts: dict[str, Value] = {}
        for variable, mask in zip(space.variables, part, strict=True):
            members = [member for at in bits(mask) for member in variable.cells[at].members]
            facts.update(_best(members, prefer))
        yield facts


def _best(members: Sequence[Facts], prefer: Callable[[Facts], tuple[int, int]]) -> Facts:
    ranked: list[tuple[tuple[int, int], int]] = [(prefer(member), at) for at, member in enumerate(members)]
    return members[min(ranked)[1]]


def _size(member: Facts) -> tuple[int, int]:
    return (len(member), 0)


def _told_absent(member: Facts) -> tuple[int, int]:
    """Prefer null, then what is not known, then values."""
    return (sum(1 for value in member.values() if value is not None), -len(member))


def _line(facts: Facts, vocabulary: Vocabulary, *, named: bool) -> Line:
    """Put facts into the places of a line in which they are read."""
    group = {name: vocabulary.facts[name].group for name in facts if name in vocabulary.facts}
    machine = {name: value for name, value in facts.items() if group.get(name) == "machine"}
    packages = {
        name.removeprefix(PACKAGE_PREFIX): value for name, value in machine.items() if name.startswith(PACKAGE_PREFIX)
    }
    others = {name: value for name, value in machine.items() if not name.startswith(PACKAGE_PREFIX)}
    plain: Line = {"platform": "cuda", **others}
    listed = {key: value for key, value in packages.items() if value is not None}
    line: Line = {"facts": {**plain, "packages": listed}}
    request = {name: value for name, value in facts.items() if group.get(name) == "request"}
    corner = request.pop("causal_alignment", "top_left" if request.get("causal") is True else None)
    call: Line = {name: value for name, value in facts.items() if group.get(name) == "call" and value is not None}
    if call:
        call |= {name: request.pop(name) for name in ("dtype", "seq_len_q", "seq_len_kv") if name in request}
        request.pop("causal", None)
        line["request"] = {**request, "call": {**call, **({"causal": corner} if corner is not None else {})}}
    elif request or corner is not None:
        line["request"] = {**request, **({"causal": corner} if corner is not None else {})}
    line |= _config(facts, named=named)
    return line


def _config(facts: Facts, *, named: bool) -> Line:
    """Give what the config says: the backend that is named with its blocks, or an entry for each layer."""
    found: Line = {}
    if "policy" in facts and facts["policy"] != "fallback":
        found["policy"] = facts["policy"]
    if named and facts.get("backend") is not None:
        quant = {name.partition(".")[2]: value for name, value in facts.items()
                 if name.startswith("quant.") and value is not None and name != "quant.equal_types"}  # fmt: skip
        if quant:
            found["config"] = {"default": {"backend": facts["backend"], "quant": quant}}
        else:
            found["backend"] = facts["backend"]
    return found | _layers(facts)


def _layers(facts: Facts) -> Line:
    """Give a config with the entries that the facts of the first table speak of."""
    if not any(name.startswith("configured.") for name in facts):
        return {}
    entry = "TORCH_SDPA"
    roles = {
        name: entry
        for name, asked in ((_ROLE, "configured.role"), (_CATEGORY, "configured.category")) if facts.get(asked) is True
    }  # fmt: skip
    config: Line = {"per_role": roles} if roles else {}
    if facts.get("configured.default") is True:
        config["default"] = entry
    return {"request": {"role": _ROLE, "role_category": _CATEGORY}, **({"config": config} if config else {})}
