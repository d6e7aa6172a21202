"""Facts: a machine and a request as plain mappings, checked against the vocabulary and made flat for the tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from selector.faults import Fault, Path, typed, unknown_key, unknown_keys, wrong_type
from selector.rules.problems import nearest, shown
from selector.rules.vocabulary import Fact, Value, Vocabulary, is_version

UNKNOWN = "unknown"
_BESIDE = ("driver", "torch", "packages", "switches", "devices", "notes", "unusable")
_PACKAGES = {"packages"}
_DEVICE = ("index", "name", "memory")
_CAUSAL = ("top_left", "bottom_right")
_NOT_PLAIN = ("causal", "causal_alignment")
_UNSAID_ROLE: tuple[str, ...] = ("role",)
_UNSAID_CAUSAL = ("call.causal", "call.causal_alignment")


@dataclass(frozen=True, slots=True)
class Request:
    """One attention layer, and the call it makes where one is asked about. Facts that are not given are not there.

    `unsaid` are the facts (``call.`` before those of the call) whose value stands for nothing having been said.
    """

    role: str = "self"
    category: str | None = None
    model: str | None = None
    facts: Mapping[str, Value] = field(default_factory=dict)
    call: Mapping[str, Value] | None = None
    unsaid: tuple[str, ...] = field(default=(), compare=False, repr=False)


def read_machine(
    value: object, vocabulary: Vocabulary, device: int = 0, path: Path = ()
) -> tuple[list[Fault], dict[str, Value]]:
    """Check the facts of a machine and make them flat; one of its devices lends its own facts.

    A fact that is null or missing is unknown, except where null is a value of it. A package that is not listed is
    absent; the string `unknown` means that it was not looked for, and so does a missing `packages`.
    """
    if not isinstance(value, dict) and not isinstance(value, Mapping):
        return [wrong_type(path, "a mapping of facts", value)], {}
    own = vocabulary.own
    faults: list[Fault] = []
    flat, of_device = _values(value, own, path, faults), dict[str, Value]()
    beside = value.keys() - own.keys()
    more_than_facts = bool(device) or bool(beside and beside != _PACKAGES)
    if more_than_facts:
        more, of_device = _read_devices(value, vocabulary, device, path)
        faults = [*unknown_keys(path, value, [*own, *_BESIDE]), *faults, *more]
        flat |= of_device
    if value.get("packages") is not None:
        faults += _read_packages(value["packages"], vocabulary, (*path, "packages"), flat)
    if more_than_facts:
        faults += _other_faults(value, path)
    others = {name: item for name, item in flat.items() if name not in of_device} if of_device else flat
    faults += pattern_faults(others, vocabulary, path)
    return faults, flat


def plain_facts(
    value: object, vocabulary: Vocabulary, required: Iterable[str] = ()
) -> tuple[list[Fault], dict[str, Value]]:
    """Check facts that are flat already, by their names; what is required has to be known."""
    if not isinstance(value, Mapping):
        return [wrong_type((), "a mapping of facts", value)], {}
    faults = unknown_keys((), value, vocabulary.facts)
    flat = _values(
        {name: item for name, item in value.items() if name in vocabulary.facts}, vocabulary.facts, (), faults
    )
    wrong = {fault.path[0] for fault in faults if fault.path}
    for name in required:
        if name not in flat and name not in wrong:
            message = f"`{name}`: wanted a value, for the table decides nothing without it, got none"
            faults.append(Fault((name,), "missing-fact", message))
    return faults, flat


def _values(
    given: Mapping[str, object], known: Mapping[str, Fact], path: Path, faults: list[Fault]
) -> dict[str, Value]:
    """Check the values of known facts; null is kept where it is a value and left out, as unknown, where it is not."""
    flat: dict[str, Value] = {}
    for name, value in given.items():
        fact = known.get(name)
        if fact is None:
            continue
        if value is None:
            if fact.null:
                flat[name] = None
            continue
        misfit = fact.misfit(value)
        if misfit is not None:
            faults.append(Fault((*path, name), "bad-value", misfit.message, misfit.hint))
        elif isinstance(value, str | int | bool):
            flat[name] = value
    return flat


def _read_devices(
    value: Mapping[str, object], vocabulary: Vocabulary, device: int, path: Path
) -> tuple[list[Fault], dict[str, Value]]:
    """Check the devices that are listed, and give the facts of the one that is asked about."""
    devices = value.get("devices")
    where = (*path, "devices")
    if devices is None:
        wrong = f"wanted device 0, which the facts describe, got device {device}"
        return ([Fault(path, "no-device", wrong)] if device else []), {}
    if not isinstance(devices, list):
        return [wrong_type(where, "a list of mappings", devices)], {}
    faults = [
        wrong_type((*where, at), "a mapping", item) for at, item in enumerate(devices) if not isinstance(item, Mapping)
    ]
    if value.get("arch") is not None:
        message = "`arch` and `devices` both say what the GPU is"
        faults.append(Fault((*path, "arch"), "given-twice", message, "leave one of them out"))
    if faults:
        return faults, {}
    numbers = device_numbers(value)
    if device not in numbers and (devices or device):
        span = f"{min(numbers)} to {max(numbers)}" if numbers else "there are none"
        message = f"wanted one of {len(numbers)} devices ({span}), got device {device}"
        return [Fault(where, "no-device", message)], {}
    own = vocabulary.own
    flat: dict[str, Value] = {} if devices else {"arch": None}
    platform = {name: value[name] for name in own if isinstance(value.get(name), str)}
    for at, item in enumerate(devices):
        found = _values({key: entry for key, entry in item.items() if key in own}, own, (*where, at), faults)
        words = [*_DEVICE, *own]
        faults += unknown_keys((*where, at), item, words)
        faults += _device_faults(item, (*where, at))
        faults += pattern_faults({**platform, **found}, vocabulary, (*where, at))
        flat |= found if numbers.index(device) == at else {}
    return faults, flat


def device_numbers(value: Mapping[str, object]) -> list[int]:
    """Give the numbers by which devices are asked for: their own where each has one, else their places."""
    devices = value.get("devices")
    if not isinstance(devices, list):
        return []
    own = [item.get("index") if isinstance(item, Mapping) else None for item in devices]
    numbers = [index for index in own if isinstance(index, int) and not isinstance(index, bool) and index >= 0]
    return numbers if len(set(numbers)) == len(devices) else list(range(len(devices)))


def _device_faults(item: Mapping[str, object], path: Path) -> Iterator[Fault]:
    """Check what a device says of itself beside its facts."""
    for key in ("index", "memory"):
        value = item.get(key)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            yield wrong_type((*path, key), "an integer of at least 0", value)
    if item.get("name") is not None and not isinstance(item["name"], str):
        yield wrong_type((*path, "name"), "a string", item["name"])


def _read_packages(packages: object, vocabulary: Vocabulary, path: Path, flat: dict[str, Value]) -> Iterator[Fault]:
    if not isinstance(packages, dict) and not isinstance(packages, Mapping):
        yield wrong_type(path, "a mapping of package names to versions", packages)
        return
    for key in packages if packages.keys() - vocabulary.packages.keys() else ():
        if key not in vocabulary.packages:
            known = vocabulary.package_key(str(key))
            fault = unknown_key(path, key, vocabulary.packages)
            message = f"no package `{shown(key)}` in the vocabulary"
            yield fault._replace(message=message, hint=f"did you mean `{known}`?" if known else fault.hint)
    for key, fact in vocabulary.packaged:
        version = packages.get(key)
        if version is None or (isinstance(version, str) and is_version(version)):
            flat[fact.name] = version
        elif version != UNKNOWN:
            misfit = fact.misfit(version)
            if misfit is None:
                flat[fact.name] = version
            else:
                yield Fault((*path, key), "bad-value", misfit.message, misfit.hint)


def _other_faults(value: Mapping[str, object], path: Path) -> Iterator[Fault]:
    for key in ("driver", "torch"):
        item = value.get(key)
        if item is not None and not isinstance(item, str):
            yield Fault(
                (*path, key), "wrong-type", f"`{key}`: wanted a version as a string, got {typed(item)}", "quote it"
            )
    for key in ("switches", "unusable"):
        if value.get(key) is not None and not isinstance(value[key], Mapping):
            yield wrong_type((*path, key), "a mapping", value[key])


def pattern_faults(flat: Mapping[str, object], vocabulary: Vocabulary, path: Path) -> Iterator[Fault]:
    """Check values whose form depends on another fact (an architecture on CUDA)."""
    for fact, pattern in vocabulary.shaped:
        name = fact.name
        value = flat.get(name)
        if not isinstance(value, str) or flat.get(str(pattern.fact)) != pattern.value:
            continue
        if not pattern.regex.fullmatch(value):
            message = f"`{name}`: wanted a value such as `{pattern.example}` on {pattern.value}, got `{shown(value)}`"
            yield Fault((*path, name), "bad-value", message)


def read_request(value: object, vocabulary: Vocabulary, path: Path = ()) -> tuple[list[Fault], Request]:
    """Check a request: the layer's facts, and under `call` those of one call."""
    if value is None:
        return [], Request(unsaid=_UNSAID_ROLE)
    if not isinstance(value, Mapping):
        return [wrong_type(path, "a mapping", value)], Request()
    known = vocabulary.asked
    plain = {key: item for key, item in value.items() if key in known and key not in _NOT_PLAIN}
    strange = len(plain) + ("causal" in value) + ("call" in value) < len(value)
    faults = unknown_keys(path, value, [*_without(known, "causal_alignment"), "call"]) if strange else []
    facts = _values(plain, known, path, faults)
    facts |= _causal(value.get("causal"), (*path, "causal"), faults, wanted="true, false")
    call: dict[str, Value] | None = None
    unsaid = _UNSAID_ROLE
    if value.get("call") is not None:
        call = _read_call(value["call"], vocabulary, (*path, "call"), faults)
        unsaid = _unsaid(value["call"])
    role, category, model = (facts.pop(name, None) for name in ("role", "role_category", "model"))
    return faults, Request(
        str(role) if role is not None else "self",
        str(category) if category is not None else None,
        str(model) if model is not None else None,
        facts,
        call,
        unsaid if role is None else unsaid[1:],
    )


def _without(names: Iterable[str], name: str) -> list[str]:
    return [other for other in names if other != name]


def _unsaid(call: object) -> tuple[str, ...]:
    said = isinstance(call, Mapping) and call.get("causal") is not None
    return _UNSAID_ROLE if said else _UNSAID_ROLE + _UNSAID_CAUSAL


def _causal(value: object, path: Path, faults: list[Fault], wanted: str) -> dict[str, Value]:
    """Read a causal flag or an alignment into the two facts that it stands for."""
    if value is None:
        return {}
    if isinstance(value, bool) and "true" in wanted:
        return {"causal": True} if value else {"causal": False, "causal_alignment": None}
    if isinstance(value, str) and value in _CAUSAL:
        return {"causal": True, "causal_alignment": value}
    message = f"`causal`: wanted one of {wanted}, {', '.join(_CAUSAL)}, got {typed(value)}"
    faults.append(Fault(path, "bad-value", message, nearest(value, _CAUSAL)))
    return {}


def _read_call(value: object, vocabulary: Vocabulary, path: Path, faults: list[Fault]) -> dict[str, Value]:
    if not isinstance(value, Mapping):
        faults.append(wrong_type(path, "a mapping", value))
        return {}
    shared = ("dtype", "seq_len_q", "seq_len_kv")
    known = {fact.name: fact for fact in vocabulary.group["call"]} | {name: vocabulary.facts[name] for name in shared}
    faults += unknown_keys(path, value, [*known, "causal"])
    facts = _values({key: item for key, item in value.items() if key in known}, known, path, faults)
    facts |= {"causal": False, "causal_alignment": None}
    return facts | _causal(value.get("causal"), (*path, "causal"), faults, wanted="null")


def derive(facts: dict[str, Value], vocabulary: Vocabulary) -> dict[str, Value]:
    """Add the facts that follow from others, where those are known; gives the same mapping."""
    for derived in vocabulary.derived:
        if derived.first in facts and derived.second in facts:
            value = derived.value(facts)
            if value is not None:
                facts[derived.name] = value
    return facts
