"""Requests that no rule tells apart: what was decided for one of them is the decision of the others too.

Rules ask of a number whether it is within bounds, whether it is one of a few, or how it is related to another one, and
of most numbers nothing at all. So of many requests for one machine and config few are new: the others have the same
words as one that was decided, and numbers of which every test in the rules says the same. What is decided for them then
differs in the numbers alone. Where a text shows a number, in a warning or a reason, that number has to be the same.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from types import MappingProxyType, NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

from selector.decision import Decision, Inputs, Told
from selector.facts import Request
from selector.kinds import Kinds, Numbers

if TYPE_CHECKING:
    from selector.rules.vocabulary import Derived

MOST_KNOWN = 4_096
_WORDS, _NUMBERS = frozenset((str, bool, NoneType)), frozenset((int, str))

_Said = Mapping[str, Any]
"""Numbers by the names of their facts, and words that stand for one."""
NOTHING: _Said = MappingProxyType({})
_Key = tuple[object, ...]


class Decided(NamedTuple):
    """What was decided for a request: all that `first` is, which was decided for another one, but for the numbers.

    `numbers` are those of the layer and `of_call` those of the call by the names of their facts; where there are none
    `first` is the decision itself. `met` says whether the facts of the decision have those of the call.
    """

    first: Decision
    numbers: _Said = NOTHING
    of_call: _Said = NOTHING
    met: bool = False

    def decision(self) -> Decision:
        """Give the decision."""
        first, numbers, of_call, met = self
        inputs = first.inputs
        if inputs is None or not (numbers or of_call):
            return first
        layer, facts = inputs.request, {**first.facts, **numbers}
        if met:
            facts |= of_call
        call = {**layer.call, **of_call} if layer.call is not None else None
        request = Request(layer.role, layer.category, layer.model, {**layer.facts, **numbers}, call, layer.unsaid)
        own = Inputs(inputs.machine, request, inputs.choices, inputs.policy, inputs.absent, inputs.origins)
        decision: Decision = object.__new__(Decision)
        vars(decision).update(vars(first), facts=facts, inputs=own)
        return decision


class _Known(NamedTuple):
    """A decision that stands for others, and whether its facts have those of the call."""

    decision: Decision
    met: bool


class _Fields:
    """Facts in the order in which they are said: words and numbers."""

    def __init__(self, kinds: Mapping[str, Kinds], names: Iterable[str]) -> None:
        """Part the numbers from the words."""
        self.names = tuple(names)
        self.words = _reader([name for name in self.names if name not in kinds])
        self.numbers = tuple(name for name in self.names if name in kinds)
        self.kinds = tuple(kinds[name] for name in self.numbers)
        self.read = _reader(self.numbers)

    def key(self, given: Mapping[str, Any]) -> list[object] | None:
        """Give the words, and the kind of each number; None for what is neither."""
        words, numbers = self.words(given), self.read(given)
        if not (_WORDS.issuperset(map(type, words)) and _NUMBERS.issuperset(map(type, numbers))):
            return None
        key = [*words]
        for kinds, number in zip(self.kinds, numbers, strict=True):
            if kinds.checks or type(number) is str:
                key.append(kinds[number])
            elif number < kinds.least:
                return None
            else:
                key.append(0)  # as every other number
        return key

    def said(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Give the numbers by their names."""
        return dict(zip(self.numbers, self.read(given), strict=True))


def _reader(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Make what reads these values of a mapping."""
    if not names:
        return lambda _: ()
    if len(names) == 1:
        one = names[0]
        return lambda given: (given[one],)
    return itemgetter(*names)


class _Shape:
    """Requests that say the same facts in the same order."""

    def __init__(self, numbers: Numbers, names: Sequence[str], called: Sequence[str]) -> None:
        """Look which of the facts are numbers, and which of them are related."""
        self.layer = _Fields(numbers.kinds, [name for name in names if name != "call"])
        self.call = _Fields(numbers.kinds, called)
        layer, call = self.layer.names, self.call.names
        self.related = tuple(_related(numbers.derived, layer, layer))
        self.related_in_call = tuple(_related(numbers.derived, {*layer, *call}, call))
        self.shown: dict[_Key, tuple[str, ...]] = {}
        self.known: dict[_Key, _Known] = {}

    def key(self, request: Mapping[str, Any], call: Mapping[str, Any]) -> _Key | None:
        """Give what a request has in common with those that no rule tells from it.

        None where that cannot be said, and so for many a request that is not valid.
        """
        key = self.layer.key(request)
        if key is None:
            return None
        if call:
            of_call = self.call.key(call)
            if of_call is None:
                return None
            key += of_call
        for relation in self.related:
            key.append(relation(request))
        if self.related_in_call:
            both = {**request, **call}
            for relation in self.related_in_call:
                key.append(relation(both))
        return tuple(key)


def _related(
    derived: Iterable[Derived], names: Container[str], new: Container[str]
) -> Iterator[Callable[[Mapping[str, Any]], object]]:
    """Give what tells how two facts are related of which one at least is new; the value of one that stands alone."""
    for one in derived:
        pair = [name for name in (one.first, one.second) if name in names]
        if any(name in new for name in pair):
            yield _relation(one) if len(pair) == 2 else itemgetter(pair[0])  # noqa: PLR2004 - a relation of two


def _relation(derived: Derived) -> Callable[[Mapping[str, Any]], object]:
    """Give what tells how two facts are related; what is known of each by itself stands in the key already."""
    first, second = derived.first, derived.second
    return (lambda facts: facts[first] == facts[second]) if derived.relation == "equal" else derived.value


class Alike:
    """Decides for many requests to which the rest of a line is common. Threads may share it."""

    def __init__(self, numbers: Numbers, decide: Callable[[object], Told]) -> None:
        """Take what decides for one request."""
        self._numbers = numbers
        self._decide = decide
        self._shapes: dict[object, _Shape] = {}
        self._kept = 0

    def decide(self, request: object) -> Decided:
        """Say what is decided for a request."""
        call = request.get("call") if type(request) is dict else None
        if type(request) is not dict or not (call is None or type(call) is dict):
            return Decided(self._decide(request).decision)
        shape = self._shape(request, call or {})
        key = shape.key(request, call or {})
        if key is None:
            return Decided(self._decide(request).decision)
        numbers = shape.layer.said(request)
        of_call = shape.call.said(call) if call else NOTHING
        shown = shape.shown.get(key)
        if shown is not None:
            known = shape.known.get(_exactly(key, shown, numbers, of_call))
            if known is not None:
                return Decided(known.decision, numbers, of_call, known.met)
        told = self._decide(request)
        if told.shown is not None and _stands(told, numbers, of_call):
            shown = tuple(name for name in {**numbers, **of_call} if name in told.shown)
            self._keep(shape, key, _exactly(key, shown, numbers, of_call), shown, told)
        return Decided(told.decision)

    def _shape(self, request: Mapping[str, object], call: Mapping[str, object]) -> _Shape:
        names = (tuple(request), tuple(call))
        shape = self._shapes.get(names)
        if shape is None:
            self._make_room()
            shape = self._shapes[names] = _Shape(self._numbers, *names)
        return shape

    def _keep(self, shape: _Shape, key: _Key, exactly: _Key, shown: tuple[str, ...], told: Told) -> None:
        self._make_room()
        shape.shown[key] = shown
        shape.known[exactly] = _Known(told.decision, told.met)

    def _make_room(self) -> None:
        self._kept += 1
        if self._kept > MOST_KNOWN:
            self._shapes.clear()
            self._kept = 1


def _exactly(key: _Key, shown: Sequence[str], numbers: _Said, of_call: _Said) -> _Key:
    """Add to a key the numbers that a text shows."""
    return (*key, *map(numbers.get, shown), *map(of_call.get, shown)) if shown else key


def _stands(told: Told, numbers: _Said, of_call: _Said) -> bool:
    """Whether a decision holds the numbers of its request as they were given, so that others can take their place."""
    inputs, facts = told.decision.inputs, told.decision.facts
    if inputs is None or not numbers.items() <= inputs.request.facts.items():
        return False
    if of_call and (inputs.request.call is None or not of_call.items() <= inputs.request.call.items()):
        return False
    return ({**numbers, **of_call} if told.met else numbers).items() <= facts.items()
