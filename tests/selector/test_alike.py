"""Many requests at once: each is decided as it would be by itself, and few of them anew."""

from __future__ import annotations

import datetime as dt
import itertools
import random
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from selector import alike, kinds, lines
from selector.decision import Decision
from selector.lines import Lines
from selector.log_lines import LineWriter
from selector.resolve import resolve_told
from selector.ruleset import RuleSet, load_rules, shipped
from tests.oracle.situations import situations
from tests.selector.conftest import ALL, CPU, cuda, overlay

NUMBERS = (1, 2, 3, 8, 16, 40, 64, 72, 96, 127, 128, 129, 192, 256, 257, 160_000, 160_001, 160_002, 2**40)
ODD: tuple[Any, ...] = (0, -1, True, False, None, 1.0, 64.0, "64", "symbolic", "sym", "", [], {}, [64], 10**400)
NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
LAYER = {"role": "self", "head_dim": 128, "num_heads": 16, "num_kv_heads": 16}
SAGE = {"facts": cuda("sm_120", ALL), "backend": "SAGE_ATTN"}
CALL = {"mask": "none", "dtype": "bfloat16", "seq_len_q": 512, "seq_len_kv": 512}


def told(decision: Decision) -> dict[str, Any]:
    """Give all that a decision holds, with what it takes no part in comparisons with."""
    found = {**vars(decision)}
    found.pop("rules")
    inputs = found.pop("inputs")
    if inputs is not None:
        request = inputs.request
        found["inputs"] = (inputs, dict(inputs.origins), request.unsaid, dict(request.facts), request.call)
    return found


def same(answers: Lines, shared: Mapping[str, Any], requests: Iterable[object]) -> list[Decision]:
    """Decide for all of them together, and see that each is decided as by itself."""
    requests = list(requests)
    decided = list(answers.decide_each(shared, requests))
    found = [one.decision() for one in decided]
    writer, other = LineWriter(), LineWriter()
    for short, one in zip(decided, found, strict=True):
        if one.inputs is not None:
            assert writer.line_of(short, NOON) == other.line(one, NOON)
    for request, one in zip(requests, found, strict=True):
        alone = answers.decide({**shared, "request": request})
        assert told(one) == told(alone), request
        assert list(one.facts) == list(alone.facts) or sorted(one.facts) == sorted(alone.facts)
    return found


def varied(dice: random.Random, request: object) -> object:
    """Change some numbers of a request, or what stands in the place of one."""
    if not isinstance(request, dict):
        return request
    changed = dict(request)
    for _ in range(dice.randrange(4)):
        name = dice.choice(("head_dim", "num_heads", "num_kv_heads", "seq_len_q", "seq_len_kv"))
        changed[name] = dice.choice(ODD if dice.random() < 0.1 else NUMBERS)
        if dice.random() < 0.1:
            del changed[name]
    if isinstance(changed.get("call"), dict):
        call = changed["call"] = dict(changed["call"])
        for name in ("seq_len_q", "seq_len_kv"):
            if dice.random() < 0.5:
                call[name] = dice.choice(ODD if dice.random() < 0.05 else NUMBERS)
    return changed


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Give a list to which each request is added that is decided by the tables."""
    made: list[object] = []

    def resolve(inputs: Any, rules: RuleSet) -> Any:  # noqa: ANN401 - as it is
        made.append(inputs.request)
        return resolve_told(inputs, rules)

    monkeypatch.setattr(lines, "resolve_told", resolve)
    return made


@pytest.mark.parametrize("seed", range(12))
def test_each_is_decided_as_by_itself(seed: int) -> None:
    """Requests of the whole space with numbers of every kind, on one machine and under one config."""
    dice = random.Random(seed)
    drawn = list(situations(seed, 300))
    answers = Lines(shipped())
    for line in dice.sample(drawn, 8):
        shared = {key: value for key, value in line.items() if key not in ("id", "request")}
        requests = [varied(dice, other.get("request")) for other in drawn for _ in range(2)]
        same(answers, shared, dice.sample(requests, 250))


def test_few_are_decided_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No row asks how many heads there are, but whether they are as many as KV heads, and whether they divide."""
    made = counted(monkeypatch)
    requests = [{**LAYER, "num_heads": 12 * heads, "num_kv_heads": heads} for heads in range(1, 1001)]

    found = [one.decision() for one in Lines(shipped()).decide_each({"facts": cuda(packages=ALL)}, requests)]

    assert len(made) == 1
    assert [one.facts["num_heads"] for one in found] == [12 * heads for heads in range(1, 1001)]
    assert [one.inputs and dict(one.inputs.request.facts) for one in found] == [
        {name: value for name, value in request.items() if name != "role"} for request in requests
    ]


def test_a_bound_parts_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """`seq_len_kv` is asked for above 160,000 and for 1."""
    made = counted(monkeypatch)
    sizes = (1, 2, 159_999, 160_000, 160_001, 170_000)

    same(Lines(shipped()), SAGE, [{**LAYER, "seq_len_q": 3, "seq_len_kv": size} for size in sizes])

    assert [one.facts["seq_len_kv"] for one in made] == [1, 2, 160_001, 170_000]  # type: ignore[attr-defined]


def test_a_number_that_a_text_shows_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """A warning, a log line and a refusal name the numbers of their own request."""
    made = counted(monkeypatch)
    answers = Lines(shipped())
    sizes = [{**LAYER, "seq_len_q": 3, "seq_len_kv": size} for size in (160_001, 170_000, 160_001)]
    heads = [{**LAYER, "num_heads": 7, "num_kv_heads": size, "call": CALL} for size in (2, 3, 2)]
    dims = [{**LAYER, "mask_free": True, "head_dim": size} for size in (128, 64, 128)]

    warned = same(answers, SAGE, sizes)
    refused = same(answers, {"facts": cuda(packages=ALL)}, heads)
    logged = same(answers, {"facts": cuda(packages=ALL)}, dims)

    assert [number for one in warned for number in ("160001", "170000") if number in str(one.warnings)] == [
        "160001", "170000", "160001",
    ]  # fmt: skip
    assert [one.error and one.error.message[:24] for one in refused] == [
        "7 query heads cannot sha", "7 query heads cannot sha", "7 query heads cannot sha",
    ]  # fmt: skip
    assert ["share 2" in str(one.error) for one in refused] == [True, False, True]
    assert ["head_dim 128" in str(one.log) for one in logged] == [True, False, True]
    assert len(made) == 6


@pytest.mark.parametrize("name", ["head_dim", "num_heads", "seq_len_kv", "dtype", "compile"])
def test_what_looks_like_a_number_is_none(name: str) -> None:
    """1, 1.0 and true are three, in any order; what is not valid is told."""
    for first in (64, 1):
        same(Lines(shipped()), {"facts": CPU}, [{**LAYER, name: value} for value in (first, *ODD, first)])
        same(Lines(shipped()), {"facts": CPU}, [{**LAYER, name: value} for value in (*reversed(ODD), first, *ODD)])


@pytest.mark.parametrize("request_", [None, [], "self", 1, {}, {"call": []}, {"call": {}}, {"call": None}, {"x": 1}])
def test_what_is_no_request_is_told(request_: object) -> None:
    """As by itself, and what comes after it is decided."""
    same(Lines(shipped()), {"facts": CPU}, [request_, LAYER, request_, {**LAYER, "call": CALL}])


def test_what_is_wrong_with_all_of_them_is_told_by_each() -> None:
    """Facts, config, and keys that nobody knows."""
    for shared in ({"facts": {"platform": 1}}, {"facts": CPU, "config": {"per": 1}}, {"facts": CPU, "fact": 1}):
        found = same(Lines(shipped()), shared, [LAYER, LAYER, {"head_dim": "x"}])
        assert all(one.error is not None for one in found)


def test_the_first_of_two_relations_is_of_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call may have other lengths than its layer: both are compared, each with its own."""
    made = counted(monkeypatch)
    requests = [
        {**LAYER, "seq_len_q": q, "seq_len_kv": kv, "call": {**CALL, "seq_len_q": of_call}}
        for q, kv, of_call in ((9, 9, 512), (8, 8, 512), (9, 8, 512), (9, 9, 511), (7, 7, 511))
    ]

    same(Lines(shipped()), {"facts": cuda(packages=ALL)}, requests)

    assert len(made) == 3


def test_a_relation_to_a_number_of_somebody_else_counts() -> None:
    """A call that says one length is compared with the layer's other one."""
    requests = [
        {**LAYER, "seq_len_kv": kv, "call": {"mask": "none", "dtype": "bfloat16", "seq_len_q": q, "causal": "top_left"}}
        for q in (1, 9, 10)
        for kv in (1, 9, 10)
    ]
    for arch in ("sm_80", "sm_90", "sm_100"):
        same(Lines(shipped()), {"facts": cuda(arch, ALL)}, requests)


def test_a_number_that_is_decided_again_with_another_value_stands_for_no_other(tmp_path: Path) -> None:
    """A row may take a fact for granted when a default is refused."""
    row = (
        "  - {id: small, when: {num_heads: 8}, refuse: too few, redecide: {num_heads: 9}, because: A test.}\n"
        "  - {id: many, when: {num_heads: 10}, refuse: too many, redecide: {seq_len_kv: 7}, because: A test.}\n"
    )
    edits = {"call.yaml": [("  - id: heads-do-not-divide\n", f"{row}  - id: heads-do-not-divide\n")]}
    rules = load_rules([overlay(tmp_path / "rules", edits)])
    requests = [
        {**LAYER, "num_heads": heads, "num_kv_heads": heads, "seq_len_kv": size, "call": CALL}
        for heads in (8, 9, 10, 11, 12)
        for size in (6, 7, 8)
    ]

    same(Lines(rules), {"facts": cuda(packages=ALL)}, requests)
    same(Lines(rules), {"facts": cuda(packages=ALL)}, reversed(requests))


def test_every_place_that_may_ask_of_a_number_is_looked_at(tmp_path: Path) -> None:
    """Rows, abilities, and warnings of a rule set of one's own."""
    row = "{id: odd, when: {num_heads: 3}, use: TORCH_SDPA, log: '{num_kv_heads}', because: A test.}"
    edits = {
        "platform_default.yaml": [("rows:\n", f"rows:\n  - {row}\n")],
        "warnings.yaml": [
            ("warnings:\n", "warnings:\n  - {when: {num_kv_heads: '>=5'}, warn: 'many: {seq_len_q}', because: A.}\n")
        ],
    }
    rules = load_rules([overlay(tmp_path / "rules", edits)])
    requests = [
        {**LAYER, "num_heads": heads, "num_kv_heads": others, "seq_len_q": size}
        for heads in (2, 3, 4)
        for others in (4, 5, 6)
        for size in (1, 2)
    ]

    found = same(Lines(rules), {"facts": CPU}, requests)

    assert {one.log for one in found} >= {f"Defaulting to diffusion attention backend SDPA {n}" for n in (4, 5, 6)}
    assert sum("many: 1" in one.warnings for one in found) == 6


def test_words_that_stand_for_a_number_keep_their_places(tmp_path: Path) -> None:
    """Also of numbers of which no rule asks anything."""
    names = ("num_heads", "num_kv_heads", "seq_len_q")
    declared = [(f"  {name}:\n    type: integer\n", "    special: [any, some]\n") for name in names]
    edits = {"vocabulary.yaml": [(text, text + more) for text, more in declared]}
    rules = load_rules([overlay(tmp_path / "rules", edits)])
    values = (1, 2, "any", "some")
    requests = [
        {"role": "self", **dict(zip(names, chosen, strict=True))} for chosen in itertools.product(values, repeat=3)
    ]

    same(Lines(rules), {"facts": cuda(packages=ALL)}, requests)
    same(Lines(rules), {"facts": cuda(packages=ALL)}, reversed(requests))


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of requests, of their forms, and of numbers; what is forgotten is decided again."""
    monkeypatch.setattr(alike, "MOST_KNOWN", 20)
    monkeypatch.setattr(kinds, "_MOST_NUMBERS", 5)
    requests = [{**LAYER, "head_dim": size, f"x{size % 30}": 1} for size in range(1, 60)]
    requests += [{**LAYER, "head_dim": size, "seq_len_kv": size} for size in range(1, 60)]

    same(Lines(shipped()), {"facts": cuda(packages=ALL)}, requests * 2)
