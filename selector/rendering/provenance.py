"""Where a decision and its facts come from, as branches of the tree: the layers, the origins, and what is not known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from selector.configuring import BACKEND_VARIABLE
from selector.origins import STATES, word_of
from selector.rendering.layout import Branch
from selector.rendering.text import words
from selector.rules.vocabulary import PACKAGE_PREFIX, Vocabulary
from selector.tracing import Layer, Trace

_LINE = re.compile(r"(.+):([0-9]+)")
_NAMES: Mapping[str, str] = {
    "config": "config", "flag": "flag", "env": BACKEND_VARIABLE, "platform": "platform",
}  # fmt: skip


def layers(trace: Trace) -> Iterator[Branch]:
    """Give a line for the layers: which one decided, and what those below it would have said."""
    told = [_clause(layer) for layer in trace.layers if layer.state != "not configured"]
    if len(told) == 1:
        told.append("nothing is configured for this role")
    if told:
        yield Branch(words(f"layers: {'; '.join(told)}"))


def _clause(layer: Layer) -> str:
    name, gives = _name(layer), layer.backend or "no backend"
    says, differs = layer.names or gives, layer.names not in (None, layer.backend)
    if layer.backend is None and layer.name == "platform":
        return f"{name} {'gives' if layer.decided else 'would have given'} no backend{' (decided)' * layer.decided}"
    if layer.decided:
        return f"{name} says {says} (decided{f', and gives {gives}' if differs else ''})"
    if layer.state == "not read":
        return f"{name} says {says} (not read{f', would have given {gives}' if differs else ''})"
    return f"{name} would have said {says}{f' and given {gives}' if differs else ''}"


def _name(layer: Layer) -> str:
    if layer.key is not None:
        return f"config for {layer.key}"
    return _NAMES[layer.origin]


def origins(trace: Trace, vocabulary: Vocabulary) -> Iterator[Branch]:
    """Give a line for everything that facts come from, and one for those that nobody looked for or gave."""
    found = {name: origin for name, origin in trace.origins.items() if _is_shown(name, vocabulary)}
    groups: dict[str, list[str]] = {}
    for name, origin in found.items():
        groups.setdefault(_source(origin), []).append(name)
    lines = [f"{_spanned(source, names, found)}: {_listed(names, found)}" for source, names in groups.items()]
    if lines:
        yield Branch(words("facts from"), branches=[Branch(words(line)) for line in lines])
    yield from _unknown(trace, vocabulary)


def _is_shown(name: str, vocabulary: Vocabulary) -> bool:
    """Whether a fact is one that the tree shows: of the config only the policy, the rest is told by the layers."""
    names = next(((one.first, one.second) for one in vocabulary.derived if one.name == name), (name,))
    return name == "policy" or all(vocabulary.facts[one].group != "config" for one in names if one in vocabulary.facts)


def _source(origin: str) -> str:
    """Give what facts are grouped by: a file without its line, and derived facts all together."""
    word = word_of(origin)
    if word == "file" and (match := _LINE.fullmatch(origin)):
        return match[1]
    return "derived" if word == "derived" else origin


def _spanned(source: str, names: list[str], found: Mapping[str, str]) -> str:
    """Add the lines of a file from which facts come."""
    matches = [_LINE.fullmatch(found[name]) for name in names if word_of(found[name]) == "file"]
    lines = sorted(int(match[2]) for match in matches if match)
    if not lines:
        return source
    return f"{source}:{lines[0]}" + (f"-{lines[-1]}" if lines[-1] != lines[0] else "")


def _listed(names: list[str], found: Mapping[str, str]) -> str:
    """Join names; where all packages come from one source, they are told in one word."""
    packages = [name for name in names if name.startswith(PACKAGE_PREFIX)]
    if len(packages) > 1 and len(packages) == sum(name.startswith(PACKAGE_PREFIX) for name in found):
        names = [*(name for name in names if name not in packages), "packages"]
    return ", ".join(names)


def _unknown(trace: Trace, vocabulary: Vocabulary) -> Iterator[Branch]:
    """Name the facts that a table asked for in vain, apart by whether anybody looked; those behind a derived one."""
    behind = {one.name: (one.first, one.second) for one in vocabulary.derived}
    states = trace.states()
    for state in STATES:
        asked = (name for name, said in states.items() if said == state)
        names = dict.fromkeys(source for name in asked for source in behind.get(name, (name,)))
        unknown = [name for name in names if name not in trace.origins]
        if unknown:
            yield Branch(words(f"{state}: {', '.join(unknown)}", "quiet"))
