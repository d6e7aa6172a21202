"""Random vocabularies with facts of every type, tables over them, and situations that know nothing of any class."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from selector.facts import derive
from selector.rules.conditions import Condition
from selector.rules.fields import Source
from selector.rules.tables import Row, Table, TableReader
from selector.rules.vocabulary import Fact, Value, Vocabulary
from selector.rules.walk import Abilities, first
from selector.rules.when import Reader
from selector.rules.words import read_vocabulary
from selector.rules.yaml_text import read_yaml
from selector.ruleset import RuleSet, shipped

Entry = dict[str, object]
TARGETS = ("A", "B", "C")
_ORDERED = (">=", "<=", ">", "<", "==", "!=")
_UNKNOWN: tuple[Entry, ...] = ({"unknown": "match"}, {"unknown": "fail"}, {})

# Facts that go together: the vocabulary takes some of these groups whole, with what is derived from them.
GROUPS: Mapping[str, tuple[dict[str, Entry], dict[str, Entry]]] = {
    "boolean": ({"flag": {"type": "boolean"}}, {}),
    "null boolean": ({"maybe": {"type": "boolean", "null": True}}, {}),
    "values": ({"kind": {"type": "string", "values": ["x", "y", "z"], "null": True}}, {}),
    "open": ({"label": {"type": "string"}}, {}),
    "special text": ({"word": {"type": "string", "special": ["some"]}}, {}),
    "capability": (
        {
            "platform": {"type": "string", "values": ["cuda", "rocm"]},
            "arch": {
                "type": "string", "order": "capability", "null": True,
                "on": {"fact": "platform", "value": "cuda", "regex": "sm_[1-9][0-9]{1,2}", "example": "sm_90"},
            },
        },
        {},
    ),
    "form": (
        {
            "maker": {"type": "string", "values": ["one", "two"]},
            "code": {"type": "string", "on": {"fact": "maker", "value": "one", "regex": "k[0-9]+", "example": "k1"}},
        },
        {},
    ),
    "number": ({"size": {"type": "integer", "order": "number", "minimum": 1, "special": ["symbolic"]}}, {}),
    "any number": ({"shift": {"type": "integer", "order": "number", "null": True}}, {}),
    "no order": ({"steps": {"type": "integer", "minimum": 0}}, {}),
    "cudnn": ({"cudnn": {"type": "integer", "order": "cudnn", "minimum": 1, "null": True}}, {}),
    "version": ({"release": {"type": "version", "order": "pep440", "null": True}}, {}),
    "text version": ({"tag": {"type": "version"}}, {}),
    "causal": (
        {
            "causal": {"type": "boolean"},
            "causal_alignment": {"type": "string", "values": ["top_left", "bottom_right"], "null": True},
        },
        {},
    ),
    "heads": (
        {
            "heads": {"type": "integer", "order": "number", "minimum": 1},
            "kv_heads": {"type": "integer", "order": "number", "minimum": 0},
        },
        {
            "equal_heads": {"relation": "equal", "of": ["heads", "kv_heads"]},
            "heads_divide": {"relation": "divisible", "of": ["heads", "kv_heads"]},
        },
    ),
    "offsets": (
        {
            "one": {"type": "integer", "order": "number", "special": ["symbolic"]},
            "two": {"type": "integer", "null": True},
        },
        {
            "same_offset": {"relation": "equal", "of": ["one", "two"]},
            "divides": {"relation": "divisible", "of": ["two", "one"]},
        },
    ),
    "lengths": (
        {name: {"type": "integer", "order": "number", "minimum": at} for at, name in enumerate(("q", "k", "v"))},
        {
            "equal_qk": {"relation": "equal", "of": ["q", "k"]},
            "equal_kv": {"relation": "equal", "of": ["k", "v"]},
        },
    ),
    "releases": (
        {"built": {"type": "version", "order": "pep440"}, "used": {"type": "version", "null": True}},
        {"same_release": {"relation": "equal", "of": ["built", "used"]}},
    ),
    "types": (
        {"inner": {"type": "string", "values": ["x", "y"], "null": True}, "outer": {"type": "string"}},
        {
            "same_type": {"relation": "equal", "of": ["inner", "outer"]},
            "as_said": {"relation": "equal", "of": ["same_type", "said"]},
        },
    ),
    "archs": (
        {name: {"type": "string", "order": "capability", "null": name == "near"} for name in ("near", "far")},
        {"same_arch": {"relation": "equal", "of": ["near", "far"]}},
    ),
}  # fmt: skip
_BESIDE: Mapping[str, dict[str, Entry]] = {"types": {"said": {"type": "boolean"}}}


# --- vocabularies and tables --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Drawn:
    """A vocabulary with a table over it, what its targets need, and the same as the lint takes it."""

    vocabulary: Vocabulary
    table: Table
    abilities: Abilities
    text: str

    @property
    def rules(self) -> RuleSet:
        """A rule set with this table alone."""
        return replace(
            shipped(),
            vocabulary=self.vocabulary,
            tables={self.table.name: self.table},
            abilities={self.table.targets: self.abilities},
        )

    def winner(self, facts: Mapping[str, Value]) -> Row | None:
        """The row that wins."""
        return first(self.table, facts, self.abilities)


def vocabulary(dice: Random, most: int = 3) -> Vocabulary:
    """Draw some groups of facts, with a named set for each fact, and `pick`, which names a target."""
    names = dice.sample(sorted(GROUPS), dice.randint(1, most))
    facts: dict[str, Entry] = {"pick": {"type": "string", "values": [*TARGETS]}}
    derived: dict[str, Entry] = {}
    for name in names:
        facts |= GROUPS[name][0] | _BESIDE.get(name, {})
        derived |= GROUPS[name][1]
    told: Entry = {"facts": {name: {"group": "machine", "about": "x", **entry} for name, entry in facts.items()}}
    told["derived"] = {name: {"about": "x", **entry} for name, entry in derived.items()}
    bare = read_words(told)
    told["sets"] = {f"set-{name}": {"fact": name, "values": literals(dice, bare.facts[name], 3)} for name in facts}
    return read_words(told)


def read_words(told: Entry) -> Vocabulary:
    """Read a vocabulary through the product."""
    source = Source("words.yaml")
    found = read_vocabulary(read_yaml(json.dumps(told), "words.yaml"), source)
    assert source.problems == []
    return found


def draw(dice: Random, rows: int = 4, levels: int = 1, most: int = 3) -> Drawn:
    """Draw a table over a vocabulary of some groups of facts."""
    return over(dice, vocabulary(dice, most), rows, levels)


def over(dice: Random, words: Vocabulary, rows: int, levels: int) -> Drawn:
    """Draw a table over a vocabulary: rows of every action, one of them perhaps for whatever was named."""
    names = [name for name in words.facts if name != "pick"]
    asked = dice.sample(names, min(len(names), 4))
    table = [_row(dice, words, asked, number, levels) for number in range(dice.randint(1, rows))]
    needs = {target: when(dice, words, asked, levels) for target in TARGETS if not dice.randrange(3)}
    text = json.dumps({"table": "mine", "requires": ["pick"], "rows": table})
    source = Source("mine.yaml")
    found = TableReader(Reader(words, source)).read(read_yaml(text, "mine.yaml"))
    assert source.problems == [], text
    assert found is not None
    abilities = {name: read_when(words, need, f"{name}.yaml") for name, need in needs.items()}
    return Drawn(words, found, abilities, text + json.dumps(needs))


def _row(dice: Random, words: Vocabulary, asked: Sequence[str], number: int, levels: int) -> Entry:
    uses: list[Entry] = [{"use": name} for name in (*TARGETS, "{pick}")]
    others: list[Entry] = [{"refuse": "no"}, {"substitute": "A"}]
    action = dice.choice(uses + others)
    condition = {"when": when(dice, words, asked, levels)} if dice.randrange(8) else {}
    return {"id": f"r{number}", "because": "x", **condition, **action}


def read_when(words: Vocabulary, told: Mapping[str, object], file: str) -> Condition:
    """Read a condition through the product."""
    reader = Reader(words, Source(file))
    found = reader.when(read_yaml(json.dumps(told), file), "x")
    assert reader.source.problems == [], told
    return found


def when(dice: Random, words: Vocabulary, asked: Sequence[str], levels: int) -> Entry:
    """Draw a condition, nested as many groups deep at most."""
    found: Entry = {}
    for name in dice.sample(asked, min(len(asked), dice.randint(1, 2))):
        found[name] = matcher(dice, words.facts[name], f"set-{name}" in words.sets)
    for name in ("any", "all", "not") if levels else ():
        if not dice.randrange(4):
            parts = [when(dice, words, asked, levels - 1) for _ in range(1 if name == "not" else dice.randint(1, 3))]
            found[name] = parts[0] if name == "not" else parts
    return found


def matcher(dice: Random, fact: Fact, has_set: bool) -> Entry:
    """Draw what is asked of one fact."""
    ops: Entry = {"equals": literals(dice, fact, 1)[0], "in": literals(dice, fact, 3)}
    if has_set and not dice.randrange(3):
        ops["in"] = f"set-{fact.name}"
    if fact.order is not None:
        ops |= {"compare": comparison(dice, fact), "min": bound(dice, fact), "max": bound(dice, fact)}
    elif fact.type == "integer":
        ops |= {"min": number(dice, fact), "max": number(dice, fact)}
    if fact.type == "integer":
        ops["multiple_of"] = dice.choice([1, 2, 3, 4, 6, 8])
    if fact.null:
        ops |= {"present": True, "absent": True}
    chosen: Entry = {name: ops[name] for name in dice.sample(sorted(ops), dice.choice([1, 1, 1, 2]))}
    return chosen | dice.choice(_UNKNOWN)


# --- what rules write of a fact -----------------------------------------------------------------------------------


def literals(dice: Random, fact: Fact, count: int) -> list[Value]:
    """Draw values that a rule may name."""
    return [_literal(dice, fact) for _ in range(dice.randint(1, count))]


def _literal(dice: Random, fact: Fact) -> Value:
    if fact.special and not dice.randrange(4):
        return dice.choice(fact.special)
    if fact.type == "boolean":
        return dice.choice([True, False])
    if fact.type == "integer":
        return number(dice, fact)
    if fact.type == "version":
        drawn = version(dice).rpartition("!")[2]  # no rule names an epoch
        return dice.choice([drawn, dice.choice(["1.0", "1.0.0", "v1", "1.2+local", "2"])])
    if fact.order == "capability":
        return dice.choice(["sm_80", "sm_89", "sm_90", "sm_9x", "sm_10x", "sm_100", "sm_103", "gfx942", "sm_12x"])
    return dice.choice(fact.values or ("k1", "k2", "k22", "other", "x", "y"))


def number(dice: Random, fact: Fact) -> int:
    """Draw a number that the fact may be."""
    drawn = dice.choice([dice.randint(-6, 12), dice.randint(0, 3) * 32, 64, 10 ** dice.choice([3, 20]), 90500, 8907])
    return drawn if fact.minimum is None else max(fact.minimum, drawn)


def bound(dice: Random, fact: Fact) -> Value:
    """Draw a bound for `min` and `max`: a number where there are numbers."""
    return number(dice, fact) if fact.type == "integer" and dice.randrange(2) else _bound(dice, fact, ">=")


def comparison(dice: Random, fact: Fact) -> str:
    """Draw a list of comparisons."""
    signs = (*_ORDERED, "~=", "==*", "!=*") if fact.type == "version" else _ORDERED
    clauses = []
    for _ in range(dice.choice([1, 1, 2])):
        sign = dice.choice(signs)
        end = ".*" if sign.endswith("*") else ""
        clauses.append(f"{sign.removesuffix('*')}{_bound(dice, fact, sign)}{end}")
    return ",".join(clauses)


def _bound(dice: Random, fact: Fact, sign: str) -> str:
    if fact.order == "cudnn":
        return dice.choice(["9.5", "9.15", "8.9.7", "9.10.2", "8.9"])
    if fact.order == "capability":
        return dice.choice(["sm_80", "sm_89", "sm_90", "sm_100", "sm_120", "sm_10", "sm_999"])
    if fact.type == "integer":
        return str(min(dice.randint(-6, 12) if fact.minimum is None else dice.randint(0, 130), 10**17))
    release = ".".join(str(dice.choice([0, 1, 2, 9])) for _ in range(dice.randint(1, 3)))
    if sign.endswith("*"):
        return release
    if sign == "~=":
        release += f".{dice.randint(0, 2)}"
    text = release + dice.choice(
        ["", "", "", "a1", "rc0", ".post1", ".post0", ".dev0", ".dev3", "b2.dev1", "rc1.post1"]
    )
    return f"{text}+local" if sign in ("==", "!=") and not dice.randrange(6) else text


# --- situations ---------------------------------------------------------------------------------------------------


def version(dice: Random) -> str:
    """Draw a version from a wide choice."""
    release = ".".join(str(dice.choice([0, 0, 1, 1, 2, 3, 9, 10, 10**9])) for _ in range(dice.randint(1, 4)))
    ends = ("", "", "", "a0", "a1", "b2", "rc0", "rc1", "rc2"), ("", "", "", ".post0", ".post1", ".post2")
    text = release + dice.choice(ends[0]) + dice.choice(ends[1]) + dice.choice(["", "", "", ".dev0", ".dev1", ".dev4"])
    text += dice.choice(["", "", "", "+local", "+abc.1", "+7"])
    return dice.choice(["", "", "", "", "v", "1!", "2!"]) + text


def value(dice: Random, fact: Fact) -> Value:
    """Draw a value of a fact from a wide choice."""
    if fact.special and not dice.randrange(5):
        return dice.choice(fact.special)
    if fact.type == "boolean":
        return dice.choice([True, False])
    if fact.type == "integer":
        some = [number(dice, fact) + dice.randint(-2, 2), dice.randint(1, 200), dice.randint(1, 100_000), 10**30]
        return max(dice.choice(some), -(10**40) if fact.minimum is None else fact.minimum)
    if fact.type == "version":
        return dice.choice([version(dice), str(_literal(dice, fact))])
    if fact.order == "capability":
        return dice.choice([f"sm_{dice.randint(10, 999)}", f"sm_{dice.randint(78, 125)}", "gfx942", "gfx90a", "sm_9x"])
    return dice.choice(fact.values or ["k1", "k2", "k3", "k22", "k222", "other", "other_", "x", "y", "z", "é"])


def situation(dice: Random, words: Vocabulary, known: set[str]) -> dict[str, Value]:
    """Draw facts that can be together, some of them unknown, with what follows from them."""
    while True:
        facts: dict[str, Value] = {}
        for name, fact in words.facts.items():
            if fact.group == "derived" or (name not in known and not dice.randrange(4)):
                continue
            facts[name] = None if fact.null and not dice.randrange(4) else value(dice, fact)
        if _together(facts, words):
            return derive(facts, words)


def _together(facts: Mapping[str, Value], words: Vocabulary) -> bool:
    for name, fact in words.facts.items():
        got, form = facts.get(name), fact.on
        if form is None or not isinstance(got, str) or facts.get(str(form.fact)) != form.value:
            continue
        if not re.fullmatch(form.regex.pattern, got):
            return False
    if "causal" not in words.facts:
        return True
    corner = facts.get("causal_alignment", "unknown")
    expected: dict[Value, bool] = {True: corner is not None, False: corner is None}
    return expected.get(facts["causal"], True) if "causal" in facts else corner == "unknown"
