"""What would have to change for a backend to be chosen: the smallest sets of facts, each of them enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from selector.analysis.boxes import Budget, BudgetError, merged
from selector.analysis.regions import Regions, regions_of, variable_told
from selector.analysis.space import Box, Space, bits
from selector.analysis.values import TooManyError
from selector.configuring import Choices
from selector.decision import Decision, Inputs
from selector.resolve import resolve
from selector.rules.problems import shown
from selector.rules.vocabulary import Value, Vocabulary
from selector.ruleset import RuleSet

_DEFAULTS = "platform_default"
_EXPLICIT = "explicit"
_STEPS = 20_000
_MOST = 8
_ABSENT: Value = "\0absent"


@dataclass(frozen=True, slots=True)
class Way:
    """One set of changes that is enough: for each fact what it must be, what it is, and a value that would do.

    `facts` are the values of the example.
    """

    wanted: tuple[str, ...]
    got: tuple[str, ...]
    facts: Mapping[str, Value]

    def __str__(self) -> str:
        """Tell it in one line."""
        return ", ".join(f"{wanted} ({got})" for wanted, got in zip(self.wanted, self.got, strict=True))

    def to_dict(self) -> dict[str, object]:
        """Give it as plain data."""
        return {"wanted": list(self.wanted), "got": list(self.got), "facts": dict(self.facts)}


@dataclass(frozen=True, slots=True)
class Wish:
    """A backend that is to be chosen: by the platform, or because the config names it for every role.

    Facts that nobody changes on a machine as it is stay as they are, unless `any_fact`.
    """

    backend: str
    named: bool = False
    any_fact: bool = False

    @property
    def table(self) -> str:
        """The table that must answer with the backend."""
        return _EXPLICIT if self.named else _DEFAULTS


def ways(decision: Decision, wish: Wish) -> list[Way]:
    """Find the smallest sets of changes after which the backend would be chosen, fewest changes first.

    Each way has been tried: deciding again with its example gives the backend. Empty where there is none, or where the
    question takes too long. Raises `ValueError` for a decision without inputs or rules.
    """
    if decision.inputs is None or decision.rules is None:
        raise ValueError("wanted a decision with its inputs and rules")
    rules, facts = decision.rules, {**decision.facts, "backend": wish.backend}
    table = rules.tables[wish.table]
    try:
        regions = regions_of(table, rules.abilities[table.targets], rules.vocabulary)
        here = regions.space.locate(facts, rules.vocabulary)
        sets = _smallest(_needed(regions, here, wish.backend))
    except (TooManyError, BudgetError, LookupError):
        return []
    told = [way for needed, boxes in sets.items() for way in _told(regions, needed, boxes, facts)]
    kept = [way for way in told if all(_open(name, rules.vocabulary, wish) for name in way.facts)]
    tried = [way for way in kept if _works(way, decision.inputs, rules, wish)]
    return sorted(tried, key=lambda way: (len(way.wanted), way.wanted))[:_MOST]


def _open(name: str, vocabulary: Vocabulary, wish: Wish) -> bool:
    """Whether a fact may be changed; what only the config says is another question."""
    fact = vocabulary.facts[name]
    return fact.group in ("machine", "request") and (wish.any_fact or not fact.fixed)


def _needed(regions: Regions, here: Box, backend: str) -> Iterator[tuple[frozenset[int], Box]]:
    """Give for every part of the backend's region the variables that stand in another class."""
    named = regions.space.index.get("backend")
    for at, row in enumerate(regions.table.rows):
        if row.action != "use" or (row.target != backend and row.read_from != "backend"):
            continue
        for part in regions.left(at, Budget(_STEPS)):
            if named is None or here[named] & part[named]:
                yield frozenset(number for number, mask in enumerate(part) if not here[number] & mask), part


def _smallest(found: Iterable[tuple[frozenset[int], Box]]) -> dict[frozenset[int], list[Box]]:
    """Leave out sets of changes that hold a smaller one."""
    kept: dict[frozenset[int], list[Box]] = {}
    for needed, part in sorted(found, key=lambda one: len(one[0])):
        if not needed:
            return {}
        if not any(other < needed for other in kept):
            kept.setdefault(needed, []).append(part)
    return kept


def _told(regions: Regions, needed: frozenset[int], parts: Sequence[Box], facts: Mapping[str, Value]) -> Iterator[Way]:
    """Tell what must change to get into one of the parts; what only differs in one variable is told together."""
    alone = [tuple((at in needed) * _known(regions.space, at, mask) for at, mask in enumerate(part)) for part in parts]
    for box in merged(alone):
        if all(box[at] for at in needed):
            yield _way(regions, needed, box, facts)


def _known(space: Space, at: int, mask: int) -> int:
    """Leave out classes in which something is not known: nobody forgets what is."""
    variable = space.variables[at]
    base = {name for cell in variable.cells for member in cell.members for name in member}
    known = [any(member.keys() >= base for member in cell.members) for cell in variable.cells]
    return sum(1 << cell for cell in bits(mask) if known[cell])


def _way(regions: Regions, needed: frozenset[int], box: Box, facts: Mapping[str, Value]) -> Way:
    """Tell one way, with an example that changes as little as it can."""
    wanted, got, values = [], [], dict[str, Value]()
    for at in sorted(needed):
        variable, mask = regions.space.variables[at], box[at]
        options = [member for cell in bits(mask) for member in variable.cells[cell].members if member]
        best = min(options, key=lambda member: _distance(member, facts))
        changed = [name for name in best if best[name] != facts.get(name, _ABSENT)]
        wanted.append(variable_told(variable, mask, regions.space, at))
        got.append("; ".join(f"{name} is {_now(name, facts)}" for name in changed))
        values |= {name: best[name] for name in changed}
    return Way(tuple(wanted), tuple(got), values)


def _distance(member: Mapping[str, Value], facts: Mapping[str, Value]) -> int:
    return sum(1 for name, value in member.items() if value != facts.get(name, _ABSENT))


def _now(name: str, facts: Mapping[str, Value]) -> str:
    return shown(facts[name]) if name in facts else "not known"


def _works(way: Way, inputs: Inputs, rules: RuleSet, wish: Wish) -> bool:
    """Whether the backend is then chosen, as the resolver decides."""
    from selector.config import AttentionSpec  # needs pydantic

    named = Choices(default=AttentionSpec.model_construct(backend=wish.backend)) if wish.named else Choices()
    then = with_facts(inputs, way.facts, rules.vocabulary)
    request = replace(then.request, call=None)
    return resolve(replace(then, choices=named, request=request), rules).backend == wish.backend


def with_facts(inputs: Inputs, facts: Mapping[str, Value], vocabulary: Vocabulary) -> Inputs:
    """Give inputs with other facts of the machine and the request."""
    machine, asked = dict(inputs.machine), dict(inputs.request.facts)
    for name, value in facts.items():
        (machine if vocabulary.facts[name].group == "machine" else asked)[name] = value
    return replace(inputs, machine=machine, request=replace(inputs.request, facts=asked))
