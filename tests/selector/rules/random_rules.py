"""Random vocabularies, conditions, tables and facts, and what the language says of them, told a second time.

The second telling knows nothing of the product: it reads the plain mappings that the YAML is made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from selector.rules.conditions import Condition, Truth
from selector.rules.fields import Source
from selector.rules.tables import Table, TableReader
from selector.rules.vocabulary import Value, Vocabulary
from selector.rules.walk import Abilities
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary
from selector.rules.yaml_text import read_yaml

Plain = Mapping[str, object]
WORD = "symbolic"
TARGETS = ("A", "B", "C")
_RANK = {False: 0, None: 1, True: 2}
_SIGNS = (">=", "<=", ">", "<", "==", "!=")
_UNKNOWN = {"match": True, "fail": False}


@dataclass(frozen=True)
class Kind:
    """What a random fact is: its name, its type, and whether null and a word for a number are values of it."""

    name: str
    type: str
    null: bool
    word: bool

    def entry(self) -> dict[str, object]:
        """Write the fact for the vocabulary."""
        order = {"integer": "number", "version": "pep440"}.get(self.type)
        entry: dict[str, object] = {"type": self.type, "group": "machine", "about": "x", "null": self.null}
        return entry | ({"order": order} if order else {}) | ({"special": [WORD]} if self.word else {})

    def number(self, dice: Random) -> Value:
        """Draw a value of the fact, but for words that stand for a number."""
        values: dict[str, Sequence[Value]] = {
            "boolean": (True, False),
            "integer": range(7),
            "string": "xyz",
            "version": "1234",
        }
        return dice.choice(values[self.type])

    def value(self, dice: Random) -> Value:
        """Draw a value that the fact may have."""
        return WORD if self.word and not dice.randrange(4) else self.number(dice)


def kinds(dice: Random) -> list[Kind]:
    """Draw some facts."""
    chosen = [dice.choice(("boolean", "integer", "string", "version")) for _ in range(dice.randint(1, 4))]
    return [
        Kind(f"f{number}", one, null=bool(dice.randrange(2)), word=one == "integer" and bool(dice.randrange(2)))
        for number, one in enumerate(chosen)
    ]


def facts(dice: Random, known: Sequence[Kind]) -> dict[str, Value]:
    """Draw a value for each fact, or leave it out; `pick` names a target."""
    found: dict[str, Value] = {"pick": dice.choice(TARGETS)}
    for kind in known:
        if dice.randrange(4):
            found[kind.name] = None if kind.null and not dice.randrange(4) else kind.value(dice)
    return found


def matcher(dice: Random, kind: Kind) -> object:
    """Draw what is asked of one fact, in the short form or as a mapping."""
    among = [kind.number(dice) for _ in range(dice.randint(1, 3))]
    ops: dict[str, object] = {"equals": kind.value(dice), "in": dice.choice([among, f"set-{kind.name}"])}
    if kind.type in {"integer", "version"}:
        clauses = [f"{dice.choice(_SIGNS)}{kind.number(dice)}" for _ in range(dice.randint(1, 2))]
        ops |= {"compare": ",".join(clauses), "min": kind.number(dice), "max": kind.number(dice)}
    if kind.type == "integer":
        ops["multiple_of"] = dice.randint(1, 4)
    if kind.null:
        ops |= {"present": True, "absent": True}
    asked = {name: ops[name] for name in dice.sample(sorted(ops), dice.randint(1, 2))}
    unknown = dice.choice([None, *_UNKNOWN])
    if unknown:
        return asked | {"unknown": unknown}
    return _short(asked) if dice.randrange(2) else asked


def _short(asked: dict[str, object]) -> object:
    """Write the short form, where there is one."""
    (name, value), *more = asked.items()
    if more or name not in {"equals", "compare", "in", "present", "absent"} or str(value).startswith("set-"):
        return asked
    return name if name in {"present", "absent"} else value


def when(dice: Random, known: Sequence[Kind], levels: int) -> Plain:
    """Draw a condition over some facts, nested as many groups deep at most."""
    found: dict[str, object] = {kind.name: matcher(dice, kind) for kind in known if not dice.randrange(len(known))}
    for name in ("any", "all", "not") if levels else ():
        if not dice.randrange(3):
            parts = [when(dice, known, levels - 1) for _ in range(1 if name == "not" else dice.randint(1, 3))]
            found[name] = parts[0] if name == "not" else parts
    return found or {known[0].name: matcher(dice, known[0])}


@dataclass(frozen=True)
class Rules:
    """Random rules: as plain mappings, and as the product reads them."""

    kinds: list[Kind]
    rows: list[dict[str, object]]
    needs: dict[str, Plain]
    vocabulary: Vocabulary
    table: Table
    abilities: Abilities


def rules(dice: Random, length: int, levels: int) -> Rules:
    """Draw a vocabulary, a table and what its targets need."""
    known = kinds(dice)
    actions = [*({"use": name} for name in (*TARGETS, "{pick}")), {"refuse": "no"}, {"substitute": "A"}]
    rows: list[dict[str, object]] = []
    for number in range(length):
        condition = {"when": when(dice, known, levels)} if dice.randrange(5) else {}
        rows.append({"id": f"r{number}", "because": "x", **condition, **dice.choice(actions)})
    needs = {target: when(dice, known, levels) for target in TARGETS if not dice.randrange(3)}
    vocabulary = vocabulary_of(known)
    abilities = {target: read_when(vocabulary, need, f"{target}.yaml") for target, need in needs.items()}
    return Rules(known, rows, needs, vocabulary, read_rows(vocabulary, rows), abilities)


def vocabulary_of(known: Sequence[Kind]) -> Vocabulary:
    """Read a vocabulary of these facts, with a set for each, through the product."""
    pick = {"type": "string", "group": "config", "about": "x"}
    words = {
        "facts": {"pick": pick, **{kind.name: kind.entry() for kind in known}},
        "sets": {f"set-{kind.name}": {"fact": kind.name, "values": _of_set(kind)} for kind in known},
    }
    source = Source("words.yaml")
    found = read_vocabulary(read_yaml(json.dumps(words), "words.yaml"), source)
    assert source.problems == []
    return found


def _of_set(kind: Kind) -> list[Value]:
    return {"boolean": [True], "integer": [1, 4], "string": ["x", "z"], "version": ["2", "3"]}[kind.type]  # type: ignore[return-value]


def read_when(vocabulary: Vocabulary, plain: Plain, file: str) -> Condition:
    """Read a condition through the product."""
    reader = Reader(vocabulary, Source(file))
    found = reader.when(read_yaml(json.dumps(plain), file), "x")
    assert reader.source.problems == []
    return found


def read_rows(vocabulary: Vocabulary, rows: list[dict[str, object]]) -> Table:
    """Read a table through the product."""
    reader = Reader(vocabulary, Source("t.yaml"))
    text = json.dumps({"table": "t", "requires": ["pick"], "rows": rows})
    found = TableReader(reader).read(read_yaml(text, "t.yaml"))
    assert reader.source.problems == []
    assert found is not None
    return found


# --- the second telling ---


def least(values: list[Truth]) -> Truth:
    """All of them: false is the least, then undetermined."""
    return min(values, key=lambda value: _RANK[value], default=True)


def greatest(values: list[Truth]) -> Truth:
    """One of them."""
    return max(values, key=lambda value: _RANK[value], default=False)


def says(condition: Plain, given: Mapping[str, Value], known: Sequence[Kind]) -> Truth:
    """Say whether a condition holds, as the language defines it."""
    by_name = {kind.name: kind for kind in known}
    answers: list[Truth] = []
    for name, asked in condition.items():
        if name == "not":
            inner = says(asked, given, known)  # type: ignore[arg-type]
            answers.append(None if inner is None else not inner)
        elif name in {"any", "all"}:
            parts = [says(part, given, known) for part in asked]  # type: ignore[attr-defined]
            answers.append(greatest(parts) if name == "any" else least(parts))
        else:
            answers.append(_asks(by_name[name], asked, given))
    return least(answers)


def _asks(kind: Kind, asked: object, given: Mapping[str, Value]) -> Truth:
    if isinstance(asked, dict):
        unknown = _UNKNOWN.get(asked.get("unknown", ""))
        return least([_test(kind, op, arg, given, unknown) for op, arg in asked.items() if op != "unknown"])
    if isinstance(asked, list):
        return _test(kind, "in", asked, given, None)
    if isinstance(asked, str) and asked in {"present", "absent"}:
        return _test(kind, asked, True, given, None)
    return _test(kind, "compare" if str(asked)[0] in "<>=!" else "equals", asked, given, None)


def _test(kind: Kind, op: str, arg: object, given: Mapping[str, Value], unknown: Truth) -> Truth:
    if kind.name not in given:
        return unknown
    value = given[kind.name]
    if value is None:
        return op == "absent"
    if kind.word and value == WORD and (op, arg) != ("equals", WORD):
        return unknown
    return _known(kind, op, arg, value)


def _known(kind: Kind, op: str, arg: object, value: Value) -> bool:
    if op in {"present", "absent"}:
        return op == "present"
    if op in {"equals", "in"}:
        among = [arg] if op == "equals" else arg if isinstance(arg, list) else _of_set(kind)
        return any((type(one), one) == (type(value), value) for one in among)
    number = int(str(value))
    if op == "multiple_of":
        return number % int(str(arg)) == 0
    bounds = {"min": f">={arg}", "max": f"<={arg}"}.get(op, str(arg))
    return all(_within(number, bound) for bound in bounds.split(","))


def _within(number: int, bound: str) -> bool:
    sign = bound.rstrip("0123456789")
    limit = int(bound.removeprefix(sign))
    holds = {">=": number >= limit, "<=": number <= limit, ">": number > limit, "<": number < limit}
    return (holds | {"==": number == limit, "!=": number != limit})[sign]


def row_says(
    row: Mapping[str, object], needs: Mapping[str, Plain], given: Mapping[str, Value], known: Sequence[Kind]
) -> Truth:
    """Say whether a row holds: its own condition and what its target needs."""
    target = str(row.get("use", "")).replace("{pick}", str(given["pick"]))
    asked = [row.get("when", {}), needs.get(target, {})]
    return least([says(one, given, known) for one in asked])  # type: ignore[arg-type]
