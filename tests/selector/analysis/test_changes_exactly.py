"""The smallest changes under small rules, word for word, and each of the steps that find them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from selector.analysis import cells
from selector.analysis import changes as module
from selector.analysis.boxes import BudgetError
from selector.analysis.changes import Way, Wish, ways, with_facts
from selector.analysis.regions import Regions, regions_of
from selector.analysis.space import Box
from selector.config import AttentionSpec
from selector.configuring import Choices
from selector.decision import Decision, Inputs
from selector.facts import Request
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, shipped
from tests.selector.analysis.small_rules import rules_of
from tests.selector.conftest import CPU, cuda, decide, without

ROWS = (
    "id: a, when: {platform: cuda, arch: '>=sm_90', mask_free: true}, use: CUDNN_ATTN",
    "id: b, when: {platform: cuda, head_dim: [64, 128]}, use: FLASH_ATTN",
    ("id: d, when: {any: [{mask_free: true, compile: true, head_dim: {max: 32}}, {mask_free: true, compile: false, "
    "head_dim: 32}, {dtype: float16}]}, use: SAGE_ATTN"),
    "id: e, when: {heads_divide: true, num_heads: 6}, use: TRTLLM_ATTN",
    "id: c, use: TORCH_SDPA",
)  # fmt: skip
NEEDS = {"CUDNN_ATTN": "{cudnn: '>=9.5'}", "FLASH_ATTN": "{packages.flash-attn: present}"}
ADA, HOPPER = cuda("sm_89", cudnn=90100), cuda("sm_90")


def rules() -> RuleSet:
    """Give the small rules."""
    return rules_of(ROWS, NEEDS)


def asked(facts: Mapping[str, object], request: Mapping[str, object] | None = None) -> Decision:
    """Decide by the small rules."""
    return decide(facts, request, rules=rules())


SAGE: list[tuple[str, Mapping[str, Value]]] = [
    ("dtype float16 (dtype is not known)", {"dtype": "float16"}),
    ("head_dim 32 (head_dim is {}), mask_free true (mask_free is not known), compile not true (compile is not known)",
     {"head_dim": 32, "mask_free": True, "compile": False}),
    (("head_dim at most 32 (head_dim is {}), mask_free true (mask_free is not known), compile true (compile is not "
     "known)"), {"head_dim": 32, "mask_free": True, "compile": True}),
]  # fmt: skip
OLD_CUDNN = "cudnn not >=9.5 (cudnn is 91002), "


def sage(size: str, before: str = "", more: Mapping[str, Value] | None = None) -> list[tuple[str, Mapping[str, Value]]]:
    """Give the ways to one of the backends, where the last ones need more."""
    first, *others = [(words.format(size), facts) for words, facts in SAGE]
    return [first, *((before + words, {**(more or {}), **facts}) for words, facts in others)]


FLASH = ("head_dim one of 64, 128 (head_dim is {}), packages.flash-attn present (packages.flash-attn is {})",
         {"head_dim": 64, "packages.flash-attn": "1.0"})  # fmt: skip
PRESENT = ("packages.flash-attn present (packages.flash-attn is {})", {"packages.flash-attn": "1.0"})


@pytest.mark.parametrize(
    ("facts", "request_", "wish", "told"),
    [
        (ADA, {"head_dim": 40}, Wish("CUDNN_ATTN"), []),
        (ADA, {"head_dim": 40}, Wish("CUDNN_ATTN", any_fact=True),
         [(("arch >=sm_90 and platform cuda (arch is sm_89), cudnn >=9.5 (cudnn is 90100), mask_free true "
           "(mask_free is not known)"), {"arch": "sm_90", "cudnn": 90500, "mask_free": True})]),
        (ADA, {"head_dim": 40}, Wish("CUDNN_ATTN", named=True), [("cudnn >=9.5 (cudnn is 90100)", {"cudnn": 90500})]),
        (HOPPER, {}, Wish("CUDNN_ATTN"), [("mask_free true (mask_free is not known)", {"mask_free": True})]),
        (HOPPER, {"mask_free": True}, Wish("CUDNN_ATTN"), []),
        (HOPPER, {}, Wish("CUDNN_ATTN", named=True), []),
        (CPU, {}, Wish("CUDNN_ATTN", any_fact=True),
         [(("arch >=sm_90 and platform cuda (platform is cpu; arch is null), cudnn >=9.5 (cudnn is null), mask_free "
           "true (mask_free is not known)"),
           {"platform": "cuda", "arch": "sm_90", "cudnn": 90500, "mask_free": True})]),
        (ADA, {"head_dim": 40}, Wish("FLASH_ATTN"), [(FLASH[0].format(40, "null"), FLASH[1])]),
        (ADA, {"head_dim": 128}, Wish("FLASH_ATTN"), [(PRESENT[0].format("null"), PRESENT[1])]),
        ({"platform": "cuda"}, {}, Wish("FLASH_ATTN"), [(FLASH[0].format("not known", "not known"), FLASH[1])]),
        ({"platform": "cuda"}, {}, Wish("FLASH_ATTN", named=True), [(PRESENT[0].format("not known"), PRESENT[1])]),
        (CPU, {}, Wish("FLASH_ATTN"), []),
        (CPU, {}, Wish("FLASH_ATTN", any_fact=True),
         [("(platform cuda with arch null or platform cuda with arch sm_90) (platform is cpu), "
           + FLASH[0].format("not known", "null"), {"platform": "cuda", **FLASH[1]})]),
        (ADA, {"head_dim": 40}, Wish("SAGE_ATTN"), sage("40")),
        (HOPPER, {}, Wish("SAGE_ATTN"), sage("not known", OLD_CUDNN, {"cudnn": None})),
        (CPU, {"num_heads": 4, "num_kv_heads": 4}, Wish("TRTLLM_ATTN"),
         [("heads_divide true and num_heads 6 (num_heads is 4; num_kv_heads is 4)",
           {"num_heads": 6, "num_kv_heads": 6})]),
        (CPU, {"num_heads": 4, "num_kv_heads": 2}, Wish("TRTLLM_ATTN"),
         [("heads_divide true and num_heads 6 (num_heads is 4)", {"num_heads": 6})]),
        (CPU, {"num_heads": 6}, Wish("TRTLLM_ATTN"),
         [("heads_divide true and num_heads 6 (num_kv_heads is not known)", {"num_kv_heads": 6})]),
        (HOPPER, {"mask_free": True}, Wish("TORCH_SDPA"),
         [("cudnn not >=9.5 (cudnn is 91002)", {"cudnn": None}),
          ("mask_free not true (mask_free is true)", {"mask_free": False})]),
        (HOPPER, {}, Wish("FLASHINFER_ATTN"), []),
        (without(CPU, "platform"), {}, Wish("CUDNN_ATTN", any_fact=True), []),
    ],
)  # fmt: skip
def test_ways_are_told_with_what_is_and_an_example(
    facts: Mapping[str, object], request_: Mapping[str, object], wish: Wish, told: list[tuple[str, Mapping[str, Value]]]
) -> None:
    """The fewest changes first; what nobody changes stays as it is, unless any fact may change."""
    found = ways(asked(facts, request_), wish)

    assert [(str(way), dict(way.facts)) for way in found] == told
    for way in found:
        assert way.to_dict() == {"wanted": list(way.wanted), "got": list(way.got), "facts": dict(way.facts)}


@pytest.mark.parametrize(
    ("when", "wanted"),
    [
        ("{any: [{mask_free: true}, {mask_free: false}]}", "mask_free true or false (mask_free is not known)"),
        ("{mask_free: [true, false]}", "mask_free one of true, false (mask_free is not known)"),
        ("{num_heads: {min: 1}}", "num_heads at least 1 (num_heads is not known)"),
        ("{cudnn: {present: true, unknown: fail}}", "cudnn present (cudnn is not known)"),
    ],
)
def test_what_is_not_known_is_not_wanted(when: str, wanted: str) -> None:
    """Though every value would do."""
    small = rules_of((f"id: a, when: {when}, use: CUDNN_ATTN", "id: d, use: TORCH_SDPA"), {})

    assert [str(way) for way in ways(decide({"platform": "cpu"}, rules=small), Wish("CUDNN_ATTN"))] == [wanted]


def test_null_is_another_value_than_what_is_not_known() -> None:
    """So a fact that nobody knows is changed to it."""
    small = rules_of(("id: a, when: {cudnn: absent}, use: CUDNN_ATTN", "id: d, use: TORCH_SDPA"), {})

    assert ways(decide({"platform": "cpu"}, rules=small), Wish("CUDNN_ATTN")) == [
        Way(("cudnn absent",), ("cudnn is not known",), {"cudnn": None})
    ]


def test_so_many_ways_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first ones."""
    decision = asked(ADA, {"head_dim": 40})
    found = ways(decision, Wish("SAGE_ATTN"))

    monkeypatch.setattr(module, "_MOST", 2)
    assert ways(decision, Wish("SAGE_ATTN")) == found[:2]


def test_what_takes_too_long_has_no_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither where classes are too many, nor where regions are."""
    decision = asked(ADA, {"head_dim": 40})

    with monkeypatch.context() as patch:
        patch.setattr(cells, "MOST_COMBINATIONS", 3)
        assert ways(decision, Wish("SAGE_ATTN")) == []
    with monkeypatch.context() as patch:
        patch.setattr(module, "_STEPS", 1)
        assert ways(decision, Wish("SAGE_ATTN")) == []
    assert len(ways(decision, Wish("SAGE_ATTN"))) == 3


@pytest.mark.parametrize("gone", ["inputs", "rules"])
def test_it_wants_a_decision_with_its_inputs_and_rules(gone: str) -> None:
    """Either alone is not enough."""
    with pytest.raises(ValueError, match="wanted") as caught:
        ways(replace(asked(ADA), **{gone: None}), Wish("SAGE_ATTN"))  # type: ignore[arg-type]

    assert str(caught.value) == "wanted a decision with its inputs and rules"


def test_a_way_has_as_much_of_what_is_as_of_what_must_be() -> None:
    """Or it is not told."""
    assert str(Way(("a", "b"), ("c", "d"), {})) == "a (c), b (d)"
    for wanted, got in ((("a",), ()), ((), ("a",))):
        with pytest.raises(ValueError, match="zip"):
            str(Way(wanted, got, {}))


def test_a_backend_is_wished_for_by_the_platform_or_by_the_config() -> None:
    """Each has its table."""
    assert Wish("A").table == "platform_default"
    assert Wish("A", named=True).table == "explicit"


# --- which changes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "opened", "any_fact"),
    [
        ("arch", False, True),
        ("platform", False, True),
        ("cudnn", True, True),
        ("packages.flash-attn", True, True),
        ("head_dim", True, True),
        ("mask", False, False),
        ("backend", False, False),
        ("equal_heads", False, False),
    ],
)
def test_facts_that_may_change(name: str, opened: bool, any_fact: bool) -> None:
    """Those of the machine and the request; of a machine as it is not all."""
    words = shipped().vocabulary

    assert module._open(name, words, Wish("A")) is opened
    assert module._open(name, words, Wish("A", any_fact=True)) is any_fact


def regions(rows: tuple[str, ...], needs: Mapping[str, str], table: str = "platform_default") -> Regions:
    """Work a small table out."""
    found = rules_of(rows, needs) if table == "platform_default" else rules_of(ROWS, needs, explicit=rows)
    return regions_of(found.tables[table], found.abilities["backends"], found.vocabulary)


def test_what_is_needed_is_told_for_each_part_of_the_backends_region() -> None:
    """The variables that stand in another class; rows that do not use it do not count."""
    found = regions(
        ("id: a, when: {mask_free: true}, use: CUDNN_ATTN", "id: b, when: {compile: true}, refuse: CUDNN_ATTN",
         "id: c, when: {head_dim: 64, compile: false}, use: CUDNN_ATTN", "id: d, use: TORCH_SDPA"), {},
    )  # fmt: skip
    here = found.space.locate({}, shipped().vocabulary)
    assert [variable.names for variable in found.space.variables] == [("head_dim",), ("mask_free",), ("compile",)]

    assert list(module._needed(found, here, "CUDNN_ATTN")) == [
        (frozenset({1}), (7, 2, 7)), (frozenset({0, 2}), (2, 5, 4)),
    ]  # fmt: skip
    assert list(module._needed(found, here, "TORCH_SDPA")) == [
        (frozenset({0}), (2, 5, 1)), (frozenset(), (5, 5, 5)),
    ]  # fmt: skip
    assert list(module._needed(found, here, "FLASH_ATTN")) == []


def test_of_a_table_that_is_asked_about_a_name_only_that_name_counts() -> None:
    """Of a row for whatever is named as well."""
    found = regions(
        ("id: a, when: {backend: FLASH_ATTN, mask_free: true}, use: TORCH_SDPA", "id: b, use: '{backend}'",
         "id: c, refuse: no"), NEEDS, "explicit",
    )  # fmt: skip
    facts: dict[str, Value] = {"platform": "cuda", "policy": "fallback", "cudnn": None, "packages.flash-attn": None}

    def needed(name: str, backend: str) -> set[frozenset[str]]:
        here = found.space.locate({**facts, "backend": name}, shipped().vocabulary)
        return {
            frozenset(found.space.variables[at].names[0] for at in one)
            for one, _ in module._needed(found, here, backend)
        }

    assert needed("CUDNN_ATTN", "CUDNN_ATTN") == {frozenset({"cudnn"})}
    assert needed("FLASH_ATTN", "FLASH_ATTN") == {frozenset({"packages.flash-attn"})}
    assert needed("SAGE_ATTN", "SAGE_ATTN") == {frozenset()}
    assert needed("FLASH_ATTN", "TORCH_SDPA") == {frozenset({"mask_free"}), frozenset({"packages.flash-attn"})}


def test_what_takes_more_steps_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """For each row."""
    found = regions(ROWS, NEEDS)
    here = found.space.locate({"platform": "cuda"}, shipped().vocabulary)
    monkeypatch.setattr(module, "_STEPS", 0)

    with pytest.raises(BudgetError):
        list(module._needed(found, here, "SAGE_ATTN"))


@pytest.mark.parametrize(
    ("found", "kept"),
    [
        ([({1, 2}, 1), ({1}, 2), ({3}, 3), ({1, 3}, 4)], [({1}, [2]), ({3}, [3])]),
        ([({1, 2}, 1), ({2, 1}, 2), ({1, 3}, 3)], [({1, 2}, [1, 2]), ({1, 3}, [3])]),
        ([({1, 2, 3}, 1), ({2, 3}, 2)], [({2, 3}, [2])]),
        ([({1}, 1), (set(), 2)], []),
        ([], []),
    ],
)
def test_the_smallest_sets_are_kept(found: list[tuple[set[int], int]], kept: list[tuple[set[int], list[int]]]) -> None:
    """With all of their parts; where nothing is needed there is no way."""
    smallest = module._smallest((frozenset(needed), (part,)) for needed, part in found)

    assert list(smallest.items()) == [(frozenset(needed), [(part,) for part in parts]) for needed, parts in kept]


# --- how it is told -----------------------------------------------------------------------------------------------


def test_nobody_forgets_what_is_known() -> None:
    """Classes in which something is not known are left out; null is something."""
    found = regions(ROWS, NEEDS)
    space = found.space
    at = {variable.names: number for number, variable in enumerate(space.variables)}
    heads, mask = at["num_heads", "num_kv_heads", "heads_divide"], at["mask_free",]

    assert [dict(cell.facts) for cell in space.variables[mask].cells] == [{}, {"mask_free": True}, {"mask_free": False}]
    assert [module._known(space, mask, bits) for bits in (0b111, 0b011, 0b001, 0b100)] == [0b110, 0b010, 0, 0b100]
    full = space.variables[heads].full
    known = module._known(space, heads, full)
    complete = [
        number for number, cell in enumerate(space.variables[heads].cells)
        if any({"num_heads", "num_kv_heads"} <= member.keys() for member in cell.members)
    ]  # fmt: skip
    assert known == sum(1 << number for number in complete) != full


def told(found: Regions, needed: set[int], parts: Sequence[Box], facts: Mapping[str, Value]) -> list[str]:
    """Tell ways as texts."""
    return [str(way) for way in module._told(found, frozenset(needed), parts, facts)]


def test_parts_that_differ_in_one_variable_are_told_together() -> None:
    """And what nobody can want is not told."""
    found = regions(
        ("id: a, when: {mask_free: true, compile: true, head_dim: 64}, use: CUDNN_ATTN", "id: d, use: TORCH_SDPA"), {}
    )
    assert [variable.names for variable in found.space.variables] == [("head_dim",), ("mask_free",), ("compile",)]

    for parts in ([(7, 2, 2), (7, 4, 2)], [(7, 2, 2), (7, 4, 2), (7, 1, 2)]):
        assert told(found, {2, 1}, parts, {}) == [
            "mask_free true or false (mask_free is not known), compile true (compile is not known)"
        ]
    assert told(found, {1}, [(7, 1, 7)], {}) == []
    assert told(found, {0}, [(2, 7, 7)], {"head_dim": 40}) == ["head_dim 64 (head_dim is 40)"]
    assert told(found, {0}, [(4, 7, 7)], {"head_dim": 64}) == ["head_dim not 64 (head_dim is 64)"]
    assert told(found, {1, 2}, [(7, 2, 2), (7, 4, 4)], {"mask_free": None}) == [
        "mask_free true (mask_free is null), compile true (compile is not known)",
        "mask_free not true (mask_free is null), compile not true (compile is not known)",
    ]


def test_an_example_changes_as_little_as_it_can() -> None:
    """A fact that is not known is changed by any value, null too."""
    facts: dict[str, Value] = {"a": 1, "b": None}

    assert module._distance({"a": 1, "b": None}, facts) == 0
    assert module._distance({"a": 2, "b": None}, facts) == 1
    assert module._distance({"a": 2, "b": 1, "c": None}, facts) == 3
    assert [module._now(name, facts) for name in "abc"] == ["1", "null", "not known"]


# --- another world ------------------------------------------------------------------------------------------------


def test_facts_are_put_where_they_belong() -> None:
    """Packages are those of the machine; nothing that was there is changed itself."""
    machine: Mapping[str, Value] = {"platform": "cuda", "cudnn": 1}
    inputs = Inputs(machine, Request(role="cross", facts={"head_dim": 64}), policy="strict")

    found = with_facts(
        inputs, {"cudnn": None, "packages.flash-attn": "2", "head_dim": 40, "dtype": "float16"}, shipped().vocabulary
    )

    assert found == replace(
        inputs, machine={"platform": "cuda", "cudnn": None, "packages.flash-attn": "2"},
        request=replace(inputs.request, facts={"head_dim": 40, "dtype": "float16"}),
    )  # fmt: skip
    assert inputs.machine == {"platform": "cuda", "cudnn": 1}
    assert inputs.request.facts == {"head_dim": 64}


def test_a_way_works_where_the_backend_is_then_chosen() -> None:
    """Whatever the config says, and whatever the call would be."""
    decision = asked(HOPPER)
    assert decision.inputs is not None
    way = Way((), (), {"mask_free": True})

    def works(inputs: Inputs, wish: Wish, one: Way = way) -> bool:
        return module._works(one, inputs, rules(), wish)

    assert works(decision.inputs, Wish("CUDNN_ATTN"))
    assert not works(decision.inputs, Wish("CUDNN_ATTN"), Way((), (), {}))
    assert not works(decision.inputs, Wish("SAGE_ATTN"))
    assert works(decision.inputs, Wish("SAGE_ATTN", named=True))
    assert not works(decision.inputs, Wish("FLASH_ATTN", named=True))
    configured = replace(decision.inputs, choices=Choices(default=AttentionSpec(backend="SAGE_ATTN")))
    assert works(configured, Wish("CUDNN_ATTN"))
    assert not works(configured, Wish("SAGE_ATTN"))
    assert works(configured, Wish("CUDNN_ATTN", named=True))
    called = replace(
        decision.inputs, request=replace(decision.inputs.request, call={"mask": "key_padding", "causal": False})
    )
    assert works(called, Wish("CUDNN_ATTN"))
    assert works(called, Wish("SAGE_ATTN", named=True))
