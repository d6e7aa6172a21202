"""The smallest changes that would select a backend, what is still possible, and a second world."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import replace

import pytest

from selector.analysis.changes import Way, Wish, ways, with_facts
from selector.analysis.remaining import Leaf, Node, Question, remaining
from selector.configuring import Choices
from selector.decision import Decision
from selector.rendering.whatif import what_if
from selector.resolve import resolve
from selector.rules.problems import FactsError
from selector.rules.vocabulary import Value
from selector.ruleset import shipped
from tests.oracle.situations import situations
from tests.selector.conftest import ALL, BACKENDS, CPU, FA2, FA3, FA4, FI, cuda, decide, without

MACHINES: Mapping[str, Mapping[str, object]] = {
    "cpu": CPU, "b200": cuda("sm_100", FI), "b200 with all": cuda("sm_100", ALL | FA4), "rtx": cuda("sm_120", FA4),
    "old cudnn": cuda("sm_120", FI | FA4, 90400), "h100": cuda("sm_90", FA3), "ada": cuda("sm_89", FA2),
    "bare": cuda("sm_90"), "nothing known": {"platform": "cuda"},
}  # fmt: skip
REQUESTS: Mapping[str, Mapping[str, object]] = {
    "nothing": {}, "wan": {"model": "WanPipeline"}, "half": {"head_dim": 128, "dtype": "bfloat16", "mask_free": False},
    "odd": {"head_dim": 40, "dtype": "float16"}, "full": {"dtype": "float32"},
}  # fmt: skip


def then(decision: Decision, facts: Mapping[str, Value]) -> Decision:
    """Decide again, unconfigured, with other facts."""
    assert decision.inputs is not None
    changed = with_facts(decision.inputs, facts, shipped().vocabulary)
    return resolve(replace(changed, choices=Choices(), request=replace(changed.request, call=None)), shipped())


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("request_", REQUESTS)
def test_every_way_leads_there_and_no_part_of_it_is_idle(machine: str, request_: str) -> None:
    """With its example the backend is chosen; with any part of it left out it is not."""
    decision = decide(MACHINES[machine], REQUESTS[request_])

    for backend in BACKENDS:
        for way in ways(decision, Wish(backend, any_fact=True)):
            assert then(decision, way.facts).backend == backend
            assert way.facts
            for name in way.facts:
                rest = {other: value for other, value in way.facts.items() if other != name}
                assert len(way.wanted) < len(way.facts) or then(decision, rest).backend != backend


@pytest.mark.parametrize("machine", ["b200", "rtx", "old cudnn", "h100", "bare"])
def test_no_single_change_is_overlooked(machine: str) -> None:
    """Whatever one fact is set to: if the backend is then chosen, there is a way of that fact alone."""
    decision = decide(MACHINES[machine], {"head_dim": 128, "dtype": "bfloat16", "mask_free": False})
    values: dict[str, list[Value]] = {
        "cudnn": [None, 90400, 90500, 91300], "head_dim": [1, 40, 64, 80, 128, 256, 264], "mask_free": [True, False],
        "dtype": ["bfloat16", "float16", "float32"],
        **{f"packages.{name}": [None, "1.0", "0.6.16rc1", "4.0.0b18", "99"] for name in ALL | FA4},
    }  # fmt: skip

    for name, options in values.items():
        for value in options:
            found = then(decision, {name: value}).backend
            if found is not None and found != decision.backend:
                alone = [set(way.facts) for way in ways(decision, Wish(found)) if len(way.wanted) == 1]
                assert {name} in alone, (name, value, found)


def test_only_what_a_person_can_change_unless_asked() -> None:
    """The architecture stays, and what the config says is another question."""
    decision = decide(MACHINES["h100"])

    assert ways(decision, Wish("CUDNN_ATTN")) == []
    (way,) = [way for way in ways(decision, Wish("CUDNN_ATTN", any_fact=True)) if set(way.facts) == {"arch"}]
    assert way.got == ("arch is sm_90",)


def test_ways_for_a_backend_that_is_named() -> None:
    """What its ability misses; where it runs already there is nothing to change."""
    decision = decide(MACHINES["b200"], {"head_dim": 128})

    assert [str(way) for way in ways(decision, Wish("FLASH_ATTN", named=True))] == [
        "packages.flash-attn present (packages.flash-attn is null)",
        "packages.flash-attn-4 >=4.0.0b18 (packages.flash-attn-4 is null)",
    ]
    assert ways(decision, Wish("CUDNN_ATTN", named=True)) == []
    assert ways(decision, Wish("SAGE_ATTN_3", named=True)) == []


def test_a_way_is_told_with_what_is() -> None:
    """In words, and as data."""
    (way,) = ways(decide(MACHINES["b200"], {"head_dim": 128}), Wish("FLASHINFER_ATTN"))

    assert str(way) == "cudnn not >=9.5 (cudnn is 91002)"
    assert way.to_dict() == {"wanted": ["cudnn not >=9.5"], "got": ["cudnn is 91002"], "facts": {"cudnn": None}}
    assert isinstance(way, Way)


def test_there_is_no_way_from_facts_that_are_not_valid() -> None:
    """Without a platform nothing is decided."""
    assert ways(decide(without(CPU, "platform")), Wish("CUDNN_ATTN")) == []


# --- what is still possible ---


def matches(words: str, name: str, value: Value, decision: Decision) -> bool:
    """Whether a value is one that the words tell, found by asking the tree for what it says of that value alone."""
    assert decision.inputs is not None
    one = with_facts(decision.inputs, {name: value}, shipped().vocabulary)
    fixed = resolve(one, shipped())
    inner = remaining(fixed)
    whole = remaining(decision)
    assert isinstance(whole, Question)
    wanted = inner if inner is not None else Leaf(fixed.backend, fixed.rule)
    return dict(whole.answers)[words] == wanted if whole.fact == name and words in dict(whole.answers) else False


KNOWN: Mapping[str, list[Value]] = {
    "head_dim": [40, 64, 100, 128, 256, 264, "symbolic"], "mask_free": [True, False],
    "dtype": ["bfloat16", "float16", "float32"], "compile": [True, False],
}  # fmt: skip


@pytest.mark.parametrize("machine", ["b200", "rtx", "h100", "old cudnn", "b200 with all"])
def test_the_tree_names_exactly_what_can_come_out(machine: str) -> None:
    """Every combination of the missing facts leads to one of its leaves, and every leaf is reached."""
    decision = decide(MACHINES[machine])
    found = remaining(decision)
    outcomes = set()
    for values in itertools.product(*KNOWN.values()):
        after = then(decision, dict(zip(KNOWN, values, strict=True)))
        outcomes.add(Leaf(after.backend, after.rule))

    assert set(leaves(found)) == outcomes


def leaves(node: Node | None) -> list[Leaf]:
    """Give all leaves of a tree."""
    if node is None:
        return []
    return [node] if isinstance(node, Leaf) else [one for _, inner in node.answers for one in leaves(inner)]


@pytest.mark.parametrize("machine", ["b200", "rtx", "h100"])
def test_the_first_question_is_answered_rightly(machine: str) -> None:
    """Each value of its fact stands under exactly one of the answers, with the tree that then remains."""
    decision = decide(MACHINES[machine])
    whole = remaining(decision)
    assert isinstance(whole, Question)

    for value in [value for value in KNOWN[whole.fact] if value != "symbolic"]:
        told = [words for words, _ in whole.answers if matches(words, whole.fact, value, decision)]
        assert told, value


def test_mask_free_alone_decides() -> None:
    """As a small tree."""
    decision = decide(cuda("sm_100", FI), {"head_dim": 128, "dtype": "bfloat16", "compile": False})

    found = remaining(decision)

    assert found == Question(
        "mask_free",
        (
            ("mask_free true", Leaf("TRTLLM_ATTN", "platform_default/blackwell-datacenter-trtllm")),
            ("mask_free not true", Leaf("CUDNN_ATTN", "platform_default/blackwell-cudnn")),
        ),
    )
    assert isinstance(found, Question)
    assert found.to_dict()["fact"] == "mask_free"


def test_nothing_remains_where_nothing_is_open() -> None:
    """Or where what is open changes nothing."""
    assert remaining(decide(CPU)) is None
    known = {"head_dim": 128, "dtype": "bfloat16", "mask_free": True, "compile": False}
    assert remaining(decide(cuda("sm_100", FI), known)) is None


def test_it_wants_a_decision_with_its_rules() -> None:
    """One that was read back has none."""
    decision = replace(decide(CPU), rules=None)

    for ask in (lambda: remaining(decision), lambda: ways(decision, Wish("CUDNN_ATTN")), lambda: what_if(decision, [])):
        with pytest.raises(ValueError, match="wanted a decision with its inputs and rules"):
            ask()


# --- another world ---


def test_another_world_is_decided_as_if_its_facts_were_given() -> None:
    """For drawn situations: the same answer as a request with these facts."""
    chance = random.Random(5)
    changes: list[tuple[str, Value]] = [
        ("cudnn", 90400), ("head_dim", 128), ("dtype", "float32"), ("packages.flash-attn-4", "4.0.0"),
        ("mask_free", True), ("arch", "sm_90"), ("cudnn", None), ("compile", True),
    ]  # fmt: skip
    for line in situations(7, 40):
        facts, request = dict(line.get("facts") or {}), dict(line.get("request") or {})
        if "arch" not in facts or facts.get("platform") != "cuda" or "call" in request:
            continue
        name, value = chance.choice(changes)
        before = decide(facts, request)
        if before.inputs is None:
            continue
        if name.startswith("packages."):
            facts["packages"] = {**(facts.get("packages") or {}), name.removeprefix("packages."): value}
        elif name in ("cudnn", "arch"):
            facts[name] = value
        else:
            request[name] = value

        assert what_if(before, [(name, value)]).after.answer() == decide(facts, request).answer()


def test_what_differs_is_told() -> None:
    """Fields of the answer, and rows of which something else becomes."""
    found = what_if(decide(cuda("sm_100", FI), {"head_dim": 128}), [("cudnn", 90400), ("model", "WanPipeline")])

    assert [name for name, _, _ in found.fields()] == ["backend", "rule"]
    rows = {key: (one.outcome, two.outcome) for key, one, two in found.rows() if one and two}
    assert rows["platform_default/blackwell-datacenter-trtllm"] == ("undetermined", "chosen")
    assert found.to_dict()["changed"] == {"cudnn": 90400, "model": "WanPipeline"}


def test_a_fact_is_made_unknown() -> None:
    """By the word for it."""
    found = what_if(decide(cuda("sm_100", FI), {"mask_free": True, "head_dim": 128}), [("mask_free", "unknown")])

    assert (found.before.backend, found.after.backend) == ("TRTLLM_ATTN", "CUDNN_ATTN")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("cudn", 1, ("--what-if cudn: unknown-fact: no fact `cudn` of the machine or the request\n"
                    "  hint: did you mean `cudnn`?")),
        ("flash-attn-4", "1", ("--what-if flash-attn-4: unknown-fact: no fact `flash-attn-4` of the machine or the "
                              "request\n  hint: did you mean `packages.flash-attn-4`?")),
        ("cudnn", "x", "--what-if cudnn: bad-value: `cudnn`: wanted an integer, got the string `x`"),
        ("policy", "strict", "--what-if policy: unknown-fact: no fact `policy` of the machine or the request"),
        ("dtype", None, "--what-if dtype: bad-value: `dtype`: wanted a string, got null"),
        ("arch", "hopper", "--what-if arch: bad-value: `arch`: wanted a value such as `sm_90` on cuda, got `hopper`"),
    ],
)  # fmt: skip
def test_a_change_that_is_none(name: str, value: object, said: str) -> None:
    """Told at the flag."""
    with pytest.raises(FactsError) as caught:
        what_if(decide(cuda()), [(name, value)])

    assert str(caught.value) == said


def test_a_change_that_does_not_go_with_what_stays() -> None:
    """The form of an architecture is settled by the platform: both are changed then."""
    amd = decide({"platform": "rocm", "arch": "gfx942"})

    with pytest.raises(FactsError) as caught:
        what_if(amd, [("platform", "cuda")])

    said = "--what-if platform: bad-value: `arch`: wanted a value such as `sm_90` on cuda, got `gfx942`"
    assert str(caught.value) == said
    assert what_if(amd, [("platform", "cuda"), ("arch", "sm_90")]).after.facts["arch"] == "sm_90"
