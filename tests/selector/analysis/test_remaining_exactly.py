"""The tree of what is still possible under small rules, and where it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from selector.analysis import cells
from selector.analysis import remaining as module
from selector.analysis.remaining import Leaf, Node, Question, remaining
from selector.decision import Decision
from selector.ruleset import shipped
from tests.selector.analysis.small_rules import rules_of
from tests.selector.conftest import cuda, decide

ROWS = (
    "id: a, when: {platform: cuda, arch: '>=sm_90', mask_free: true}, use: CUDNN_ATTN",
    "id: b, when: {platform: cuda, head_dim: [64, 128]}, use: FLASH_ATTN", "id: c, use: TORCH_SDPA",
)  # fmt: skip
NEEDS = {"CUDNN_ATTN": "{cudnn: '>=9.5'}", "FLASH_ATTN": "{packages.flash-attn: present}"}
A, B, C = (
    Leaf(backend, f"platform_default/{row}")
    for backend, row in (("CUDNN_ATTN", "a"), ("FLASH_ATTN", "b"), ("TORCH_SDPA", "c"))
)
FLASH = Question("packages.flash-attn", (("packages.flash-attn not present", C), ("packages.flash-attn present", B)))
OTHER_SIZE = "head_dim not one of 64, 128 or not known"
SIZE = Question("head_dim", (("head_dim one of 64, 128", FLASH), (OTHER_SIZE, C)))


def asked(facts: Mapping[str, object], request: Mapping[str, object] | None = None) -> Decision:
    """Decide by the small rules."""
    return decide(facts, request, rules=rules_of(ROWS, NEEDS))


KNOWN = Question("head_dim", (("head_dim one of 64, 128", B), (OTHER_SIZE, C)))
BARE = {"platform": "cuda"}


@pytest.mark.parametrize(
    ("facts", "request_", "tree"),
    [
        (cuda("sm_90"), {}, Question("mask_free", (("mask_free true", A), ("mask_free not true", C)))),
        (cuda("sm_90", {"flash-attn": "2.8"}), {},
         Question("mask_free", (("mask_free true", A), ("mask_free not true", KNOWN)))),
        (cuda("sm_80", {"flash-attn": "2.8"}), {}, KNOWN),
        (cuda("sm_80", {"flash-attn": "2.8"}), {"head_dim": 64}, None),
        (cuda("sm_80"), {}, None),
        (BARE | {"arch": "sm_80"}, {}, SIZE),
        (BARE | {"arch": "sm_80", "cudnn": None}, {"mask_free": True}, SIZE),
        (BARE | {"arch": "sm_80"}, {"head_dim": 64}, FLASH),
        (BARE | {"arch": "sm_90"}, {"mask_free": True, "head_dim": 40},
         Question("cudnn", (("cudnn not >=9.5", C), ("cudnn >=9.5", A)))),
    ],
)  # fmt: skip
def test_facts_that_make_a_difference_are_asked_for_one_after_the_other(
    facts: Mapping[str, object], request_: Mapping[str, object], tree: Node | None
) -> None:
    """Answers that come to the same are one, and facts that change nothing are passed over."""
    assert remaining(asked(facts, request_)) == tree


def whole(old_cudnn: Node, with_mask: Node) -> Question:
    """Give the tree where nothing is known, with what follows in two places."""
    cudnn = Question("cudnn", (("cudnn not >=9.5", old_cudnn), ("cudnn >=9.5", A)))
    newer = Question("mask_free", (("mask_free true", cudnn), ("mask_free not true", with_mask)))
    return Question("arch", (("arch not >=sm_90", SIZE), ("arch >=sm_90", newer)))


def test_the_whole_tree_where_nothing_is_known() -> None:
    """Each fact is asked for only where it makes a difference."""
    found = asked(BARE)

    assert found.missing == ("arch", "mask_free", "cudnn", "head_dim", "packages.flash-attn")
    assert remaining(found) == whole(SIZE, SIZE)


@pytest.mark.parametrize(
    ("depth", "tree"),
    [
        (0, None),
        (1, None),
        (2, SIZE),
        (3, whole(C, C)),
        (4, whole(C, SIZE)),
        (5, whole(SIZE, SIZE)),
    ],
)
def test_a_tree_is_as_deep_as_is_allowed(depth: int, tree: Node | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below that the decision stands that is made without more facts."""
    monkeypatch.setattr(module, "MOST_DEPTH", depth)

    assert remaining(asked(BARE)) == tree


def test_a_tree_of_more_decisions_than_are_made_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as are allowed are made."""
    decision = asked(cuda("sm_90", {"flash-attn": "2.8"}))
    whole = remaining(decision)

    monkeypatch.setattr(module, "MOST_DECISIONS", 9)
    assert remaining(decision) == whole
    monkeypatch.setattr(module, "MOST_DECISIONS", 8)
    assert remaining(decision) is None


def test_a_fact_with_more_classes_than_are_enumerated_gives_no_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is told rather than half of it."""
    decision = asked(cuda("sm_90"))
    monkeypatch.setattr(cells, "MOST_COMBINATIONS", 1)

    assert remaining(decision) is None


@pytest.mark.parametrize("gone", ["inputs", "rules"])
def test_it_wants_a_decision_with_its_inputs_and_rules(gone: str) -> None:
    """Either alone is not enough."""
    with pytest.raises(ValueError, match="wanted") as caught:
        remaining(replace(asked(cuda("sm_90")), **{gone: None}))  # type: ignore[arg-type]

    assert str(caught.value) == "wanted a decision with its inputs and rules"


def test_only_facts_of_the_machine_and_the_request_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the config or a call says is no question; nor is a name that is no fact."""
    names = ("arch", "packages.flashinfer", "head_dim", "backend", "mask", "heads_divide", "nothing")

    assert [name for name in names if module._askable(name, shipped())] == ["arch", "packages.flashinfer", "head_dim"]
    decision = asked(cuda("sm_90"))
    assert decision.missing == ("mask_free",)
    tree = remaining(decision)
    monkeypatch.setattr(Decision, "missing", ("backend", "mask_free"))
    assert remaining(decision) == tree
    monkeypatch.setattr(Decision, "missing", ("backend",))
    assert remaining(decision) is None


def test_every_test_is_known_by_its_fact() -> None:
    """Of the rows of every table, and of what backends and providers need."""
    rules = rules_of(ROWS, NEEDS)
    rules = replace(
        rules, tables={"platform_default": rules.tables["platform_default"]},
        abilities={**rules.abilities, "providers": {"x": rules.abilities["backends"]["CUDNN_ATTN"]}},
    )  # fmt: skip

    found = module._asked(rules)

    assert {fact: [test.wanted for test in tests] for fact, tests in found.items()} == {
        "platform": ["cuda", "cuda"], "arch": [">=sm_90"], "mask_free": ["true"], "head_dim": ["one of 64, 128"],
        "cudnn": [">=9.5", ">=9.5"], "packages.flash-attn": ["present"],
    }  # fmt: skip


def test_a_fact_that_no_test_asks_about_has_no_answers() -> None:
    """So it is never a question."""
    decision = asked(cuda("sm_90"))
    assert decision.inputs is not None
    tree = module._Tree(rules_of(ROWS, NEEDS), {})

    assert list(tree.answers(decision.inputs, "model", (), 0)) == []
    assert tree.made == 0


def test_a_tree_is_given_as_plain_data() -> None:
    """Each answer with what follows from it."""
    assert SIZE.to_dict() == {
        "fact": "head_dim",
        "answers": [
            {"if": "head_dim one of 64, 128", "fact": "packages.flash-attn", "answers": [
                {"if": "packages.flash-attn not present", "backend": "TORCH_SDPA", "rule": "platform_default/c"},
                {"if": "packages.flash-attn present", "backend": "FLASH_ATTN", "rule": "platform_default/b"},
            ]},
            {"if": OTHER_SIZE, "backend": "TORCH_SDPA", "rule": "platform_default/c"},
        ],
    }  # fmt: skip
    assert Leaf(None, None).to_dict() == {"backend": None, "rule": None}
