"""Laws that every drawing keeps, over random decisions and hostile names."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from selector.rendering.mermaid import render_mermaid
from selector.rendering.reasons import flat, obstacles
from selector.rendering.rows import abilities_for
from selector.rendering.text import Word, columns, in_ascii, visible, words, wrap
from selector.rendering.tree import render_tree
from selector.rendering.whynot import render_why_not, why_not
from selector.ruleset import shipped
from tests.selector.rendering.situations import anything, situations

if TYPE_CHECKING:
    from selector.tracing import Trace
    from tests.selector.rendering.cases import Case

WIDTHS = st.integers(20, 160)
BACKENDS = st.sampled_from(list(shipped().backends))
few = settings(deadline=None, max_examples=60)


def squeezed(text: str) -> str:
    """Leave out blanks and the lines of the tree, so that where a line breaks makes no difference."""
    return re.sub(r"[\s├└│]", "", text)


def display(line: str) -> int:
    """Count columns, from the character database alone."""
    marks = sum(unicodedata.category(char) in ("Mn", "Me") for char in line)
    wide = sum(unicodedata.east_asian_width(char) in ("W", "F") for char in line)
    return len(line) - marks + wide


def drawn(case: Case, width: int = 80, *, colour: bool = False, ascii: bool = False) -> str:  # noqa: A002
    """Draw what a case decides."""
    decision = case.decide()
    return render_tree(decision, decision.explain(), width=width, colour=colour, ascii=ascii)


def traced(case: Case) -> Trace:
    """Give the trace of what a case decides."""
    return case.decide().explain()


@few
@given(case=situations(), width=WIDTHS, ascii_only=st.booleans(), backend=BACKENDS)
def test_no_line_is_wider_than_the_page(case: Case, *, width: int, ascii_only: bool, backend: str) -> None:
    """Tree and why-not keep to the width, wide and combining characters counted as they are shown."""
    answer = why_not(case.selector(), case.request, backend)
    text = drawn(case, width, ascii=ascii_only)
    text += render_why_not(answer, width=width, colour=False, ascii=ascii_only)

    assert max(map(display, text.split("\n"))) <= width


@few
@given(case=situations(), width=WIDTHS)
def test_every_reason_is_told(case: Case, width: int) -> None:
    """Wanted and got of all that is blamed stand in the tree, with their file and line."""
    told = squeezed(drawn(case, width))

    for walk in traced(case).walks:
        for step in walk.steps:
            for result in step.blamed:
                assert squeezed(visible(result.reason())) in told
                assert f"{result.place.file}:{result.place.line}" in told


@few
@given(case=situations(), width=WIDTHS)
def test_every_row_is_mentioned(case: Case, width: int) -> None:
    """Each walk is followed by the rows of its table, all of them and in their order."""
    told = squeezed(drawn(case, width))

    at = 0
    for walk in traced(case).walks:
        at = told.index(squeezed(walk.table), at)
        for step in walk.steps:
            at = told.index(step.row.id, at) + len(step.row.id)


@few
@given(case=situations(), width=WIDTHS, backend=BACKENDS)
def test_nothing_steers_the_terminal(case: Case, width: int, backend: str) -> None:
    """Without colour every character is printable; with colour only the five styles and their end are added."""
    plain, coloured = drawn(case, width), drawn(case, width, colour=True)
    answer = why_not(case.selector(), case.request, backend)
    other = render_why_not(answer, width=width, colour=False)

    assert all(line.isprintable() for text in (plain, other) for line in text.split("\n"))
    assert re.sub(r"\x1b\[(?:0|1|2|31|32|33)m", "", coloured) == plain


@few
@given(case=situations(), width=WIDTHS)
def test_ascii_is_ascii(case: Case, width: int) -> None:
    """A terminal that knows ASCII alone can show the tree."""
    assert drawn(case, width, ascii=True).isascii()


@few
@given(case=situations())
def test_obstacles_are_what_the_trace_blames(case: Case) -> None:
    """The tree groups what the trace blames, and neither adds nor loses a test."""
    for walk in traced(case).walks:
        abilities = abilities_for(walk.table, shipped())
        for step in walk.steps:
            if step.outcome != "not_reached":
                assert tuple(flat(obstacles(step, walk.facts, abilities))) == step.blamed


@given(text=anything())
def test_visible_text_is_printable_and_ascii_text_is_ascii(text: str) -> None:
    """Whatever is written can be shown; plain text is left as it is."""
    assert visible(text).isprintable()
    assert in_ascii(visible(text)).isascii()
    assert visible(visible(text)) == visible(text)


@given(text=st.lists(anything()).map(" ".join), rest=st.integers(2, 30), more=st.integers(0, 10))
def test_wrapping_keeps_words_whole(text: str, rest: int, more: int) -> None:
    """Lines keep to their room, no word is lost, and only a word that is longer than a line is cut."""
    given_words = words(text)
    lines = wrap(given_words, rest + more, rest)
    shown = [" ".join(word.text for word in line) for line in lines]

    assert columns(shown[0]) <= rest + more
    assert all(columns(line) <= rest for line in shown[1:])
    assert "".join("".join(shown).split()) == "".join(word.text for word in given_words)
    assert whole(lines) >= {word.text for word in given_words if columns(word.text) <= rest}


def whole(lines: list[list[Word]]) -> set[str]:
    """Give what stands in the lines between two blanks."""
    return {word.text for line in lines for word in line}


NODE = r'\w+\["(?:[^"#;&<>`\\{}%\n]|#\d+;)*"\]:::\w+'
SUBGRAPH = r'subgraph t\d+\["(?:[^"#;&<>`\\{}%\n]|#\d+;)*"\]'
EDGE = r'\w+ (?:-->|-\.->)(?:\|"(?:[^"#;&<>`\\{}%\n]|#\d+;)*"\|)? \w+'
STATEMENT = re.compile(rf"    (?:{NODE}|{SUBGRAPH}|end|{EDGE}|classDef \w+ [\w:#,-]+)")


@few
@given(case=situations())
def test_chart_is_well_formed_whatever_the_names(case: Case) -> None:
    """Every statement is one of five forms, labels hold no sign that means something, edges join nodes that exist."""
    decision = case.decide()
    first, *lines = render_mermaid(decision, decision.explain()).splitlines()

    assert first == "flowchart TD"
    assert all(STATEMENT.fullmatch(line) for line in lines)
    assert not re.search(r"style|direction|classDef(?! \w+ fill)", "\n".join(lines))
    nodes = {line.split("[", 1)[0].strip() for line in lines if re.fullmatch(f"    {NODE}", line)}
    edges = [line.split() for line in lines if re.fullmatch(f"    {EDGE}", line)]
    assert {name for edge in edges for name in (edge[0], edge[-1])} == nodes


@few
@given(case=situations())
def test_chart_has_a_node_for_each_row_that_was_considered(case: Case) -> None:
    """Rows up to the winner are nodes of their own, with the class of what became of them."""
    decision = case.decide()
    chart = render_mermaid(decision, decision.explain())

    kinds = {"chosen": "winner", "rejected": "rejected", "undetermined": "undetermined"}
    for number, walk in enumerate(traced(case).walks):
        for index, step in enumerate(step for step in walk.steps if step.outcome != "not_reached"):
            assert f'    t{number}r{index}["{step.row.id}"]:::{kinds[step.outcome]}\n' in chart
