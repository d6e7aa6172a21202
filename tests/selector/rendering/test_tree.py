"""The tree of a decision, where the golden files say nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from selector.decision import Decision, Failure
from selector.rendering.layout import Branch, Note, Page
from selector.rendering.mermaid import escaped, render_mermaid
from selector.rendering.text import words
from selector.rendering.tree import render_tree
from selector.ruleset import shipped
from selector.tracing import Trace
from tests.selector.rendering.cases import B200, H200, HOSTILE, RTX_PRO, Case


def drawn(decision: Decision, width: int = 80) -> str:
    """Draw a decision without colour."""
    return render_tree(decision, decision.explain(), width=width, colour=False)


def test_page_has_twenty_columns_at_least() -> None:
    """A narrower page is drawn as one of 20 columns."""
    decision = Case(B200).decide()

    assert drawn(decision, 3) == drawn(decision, 20)


def test_build_of_the_kernel_is_named() -> None:
    """Where a backend has several builds, the tree says which one runs."""
    text = drawn(Case(H200, {"head_dim": 128, "mask_free": True}).decide())

    assert "├ decided by: platform_default/hopper-flash-attn; provider fa3\n" in text
    assert "├ provider for FLASH_ATTN\n" in text


def test_transform_of_a_call_is_told() -> None:
    """How the call is changed without changing its result stands at the top and at the row."""
    decision = Case(B200, {"head_dim": 128, "call": {"mask": "block_diagonal"}}, backend="CUDNN_ATTN").decide()
    text = drawn(decision, 120)

    assert "decided by: explicit/able; transform: the documents become a boolean mask\n" in text
    assert "│ │   transform: the documents become a boolean mask\n" in text


def test_size_that_is_symbolic_leaves_a_row_undetermined() -> None:
    """A fact known only as a word is named as what is missing."""
    packages = {"packages": {"flashinfer": "0.6.18"}}
    decision = Case({**B200, **packages}, {"head_dim": "symbolic", "mask_free": True}).decide()

    assert "│ │   undetermined without head_dim\n│ │   head_dim: wanted 128, got symbolic (" in drawn(decision)


def test_decision_without_its_rules_needs_them() -> None:
    """A decision that was read from JSON is drawn with the rules that are given, and not without."""
    decision = Case(RTX_PRO).decide()
    trace, alone = decision.explain(), replace(decision, rules=None)

    assert render_tree(alone, trace, width=80, colour=False, rules=shipped()) == drawn(decision)
    assert render_mermaid(alone, trace, rules=shipped()) == render_mermaid(decision, trace)
    with pytest.raises(ValueError, match=r"^wanted the rules that the decision was made with, got none$"):
        render_tree(alone, trace, width=80, colour=False)
    with pytest.raises(ValueError, match=r"^wanted the rules that the decision was made with, got none$"):
        render_mermaid(alone, trace)


def test_one_problem_is_told_in_the_answer() -> None:
    """The place of a single problem follows the sentence, where there is one."""
    wrong = Failure("mutually_exclusive", "the flag excludes the config", "backend")
    decision = Decision(None, None, None, None, None, (), wrong, "0" * 64, "fallback", "", None, {})

    told = [
        render_tree(one, Trace(), width=80, colour=False)
        for one in (decision, replace(decision, error=replace(wrong, path=None)))
    ]
    assert told[0] == "Mutually exclusive: the flag excludes the config\n├ at: backend\n└ rules 000000000000\n"
    assert told[1] == "Mutually exclusive: the flag excludes the config\n└ rules 000000000000\n"


def test_brief_branch_takes_its_note_where_that_fits() -> None:
    """One note may stand on the line of its branch, but is never broken for it; two notes never do."""
    note = Note(words("because"))
    one = Branch(words("no"), [note], brief=True)

    assert Page(30).draw(one) == "no – because\n"
    exact = replace(one, words=words("no such reason"))
    assert Page(24).draw(exact) == "no such reason – because\n"
    assert Page(23).draw(exact) == "no such reason\n  because\n"
    assert Page(20).draw(replace(one, words=words("no reason at all"))) == "no reason at all\n  because\n"
    assert Page(30).draw(replace(one, notes=[note, note])) == "no\n  because\n  because\n"


def test_label_of_a_chart_means_nothing_to_mermaid() -> None:
    """Signs become entities, keywords are broken up, and what steers a terminal is written out first."""
    text = escaped(HOSTILE)

    assert text == (
        "x#34;]#92;n#59; end#92;x1b[31m #92;u202eeman#92;x00 #37;#37;#123;init: #123;#125;#125;#37;#37; #96;b#96;"
        " #60;br#62; #115;tyle:a#35;b#59; #92;ud800 日本"
    )
    assert escaped("classDef direction LR") == "#99;lassDef #100;irection LR"
