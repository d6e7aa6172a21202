from __future__ import annotations

import html.parser
import re
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from selector.analysis.cells import possible
from selector.facts import derive, read_machine
from selector.rendering.conditions import NEVER, asked, remaining
from selector.rendering.table import Line, Sheet, machine_facts, sheet, short
from selector.rendering.table_formats import markdown, page, terminal
from selector.rendering.text import columns
from selector.rules.conditions import ALWAYS
from selector.rules.text import read_file
from selector.rules.vocabulary import Value
from selector.rules.walk import first
from selector.ruleset import RuleSet, load_rules, shipped
from tests.selector.analysis.random_tables import draw, situation
from tests.selector.rules.folders import default
from tests.selector.rules.language import condition

SEEDS = st.integers(0, 2**32)
MACHINES = sorted(Path(__file__).parents[3].joinpath("rules", "machines").glob("*.yaml"))


def machine(path: Path) -> dict[str, Value]:
    """Read a machine that comes with the product."""
    faults, found = read_machine(read_file(path).plain(), shipped().vocabulary)
    assert faults == []
    return found


# --- what a condition says ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{head_dim: 128, platform: cuda}", ["head_dim 128", "platform cuda"]),
        ("{head_dim: {multiple_of: 8, max: 256}}", ["head_dim a multiple of 8 and at most 256"]),
        (
            "{head_dim: {multiple_of: 8, max: 256, unknown: match}}",
            ["head_dim a multiple of 8 and at most 256, or unknown"],
        ),
        ("{arch: {in: blackwell}}", ["arch blackwell"]),
        ("{mask: [none, key_padding]}", ["mask none, key_padding"]),
        ("{not: {mask: none}}", ["mask not none"]),
        ("{not: {arch: {in: blackwell, unknown: fail}}}", ["arch not blackwell or unknown"]),
        ("{any: [cudnn: absent, cudnn: '<9.5']}", ["cudnn absent or cudnn <9.5"]),
        (
            "{any: [{platform: cuda, mask: none}, {not: {platform: cuda, mask: none}}]}",
            ["(platform cuda and mask none) or not (platform cuda and mask none)"],
        ),
        ("{head_dim: 128, all: [head_dim: 128, head_dim: {equals: 128, unknown: match}]}", ["head_dim 128"]),
    ],
)  # fmt: skip
def test_a_condition_in_words(text: str, told: list[str]) -> None:
    """One line for each fact, and one for each group of several."""
    assert asked(condition(text)).lines() == told


@settings(max_examples=200, deadline=None)
@given(seed=SEEDS)
def test_what_remains_is_met_where_the_whole_is(seed: int) -> None:
    """Whichever facts are fixed, and whatever the others turn out to be."""
    dice = Random(seed)
    drawn = draw(dice, rows=3, levels=2)
    names = list(drawn.vocabulary.facts)
    fixed = set(dice.sample(names, dice.randint(0, len(names))))
    for row in drawn.table.rows:
        facts = situation(dice, drawn.vocabulary, set())
        left = remaining(row.when, facts, fixed)
        for _ in range(4):
            other = situation(dice, drawn.vocabulary, set())
            mixed = {name: got for name, got in other.items() if name not in fixed}
            mixed |= {name: got for name, got in facts.items() if name in fixed}

            assert (left.holds(mixed) is True) is (row.when.holds(mixed) is True)
            assert left != NEVER or row.when.holds(mixed) is not True
            assert left != ALWAYS or row.when.holds(mixed) is True


# --- rows that can win on a machine -------------------------------------------------------------------------------


@pytest.mark.parametrize("path", MACHINES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", list(shipped().tables))
def test_on_a_machine_the_rows_are_left_that_can_win_there(name: str, path: Path) -> None:
    """A row that is drawn is needed, and one that wins is drawn."""
    rules, facts, dice = shipped(), machine(path), Random(name)
    drawn = {line.row for line in sheet(rules, name, machine=facts).lines}
    table, own = rules.tables[name], machine_facts(rules.vocabulary)
    known = {fact.name for fact in rules.vocabulary.facts.values() if fact.group in ("config", "call")}
    won = set()
    for _ in range(400):
        other = situation(dice, rules.vocabulary, known | {"causal", "causal_alignment"})
        given_ = derive({**{key: got for key, got in other.items() if key not in own}, **facts}, rules.vocabulary)
        row = first(table, given_, rules.abilities.get(table.targets, {}))
        won |= {row.id} if row else set()

    assert won <= drawn
    assert len(won) >= len(drawn) // 2
    assert possible(facts, [rules.vocabulary.facts[key] for key in facts])


def test_what_is_true_of_the_machine_is_left_out() -> None:
    """And what the target still needs of the request is told."""
    drawn = sheet(shipped(), "platform_default", machine=machine(MACHINES[1]))

    assert [(line.row, line.asked.lines()) for line in drawn.lines] == [
        ("hopper-flash-attn", ["head_dim a multiple of 8 and at most 256, or unknown", "dtype half or unknown"]),
        ("torch-sdpa", []),
    ]
    assert drawn.notes == (
        "cannot win here: "
        + ", ".join(row.id for row in shipped().tables["platform_default"].rows[:-1] if row.id != "hopper-flash-attn"),
    )


def test_a_row_that_never_wins_is_told(tmp_path: Path) -> None:
    """Where each row wins: its condition, without those before it."""
    default(
        tmp_path, "id: a, when: {platform: cuda}, use: TORCH_SDPA", "id: b, when: {platform: cuda}, use: TORCH_SDPA",
        "id: c, when: {platform: [cuda, rocm]}, use: TORCH_SDPA", "id: d, use: TORCH_SDPA",
    )  # fmt: skip

    drawn = sheet(load_rules([tmp_path]), "platform_default", effective=True)

    assert [line.wins for line in drawn.lines] == [
        ("platform cuda",), ("nowhere",), ("platform not cuda and platform one of cuda, rocm",),
        ("platform not one of cuda, rocm",),
    ]  # fmt: skip


def test_many_regions_are_counted() -> None:
    """A few of them are told; those of a row without conditions are what is left."""
    wins = {line.row: line.wins for line in sheet(shipped(), "platform_default", effective=True).lines}

    assert re.fullmatch(r"wherever no row before it does \(\d+ regions\)", " ".join(wins["torch-sdpa"] or ()))
    *first_two, more = wins["blackwell-cudnn"] or ()
    assert len(first_two) == 2
    assert re.fullmatch(r"and in \d+ regions more", more)


# --- drawing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [20, 40, 80, 100, 120, 160, 200, 400])
@pytest.mark.parametrize("effective", [True, False])
@pytest.mark.parametrize("name", list(shipped().tables))
def test_no_line_is_wider_than_the_terminal(name: str, width: int, effective: bool) -> None:
    """Whatever the table holds, and every row is drawn."""
    drawn = sheet(shipped(), name, effective=effective)

    text = terminal(drawn, width)

    assert all(columns(line) <= width for line in text.splitlines())
    assert all(line == line.rstrip() for line in text.splitlines())
    if width >= 80:
        assert all(row.id in text for row in shipped().tables[name].rows)
    assert terminal(drawn, width, ascii=True).isascii()


def test_facts_have_columns_where_there_is_room() -> None:
    """A narrow terminal has what is asked in one, and a page always has them."""
    drawn = sheet(shipped(), "role_fallback")

    assert terminal(drawn, 120).splitlines()[2].split() == [
        "row", "configured.", "configured.", "configured.", "action", "target", "because"
    ]  # fmt: skip
    assert terminal(drawn, 80).splitlines()[2].split() == ["row", "when"]
    assert "| row | configured.role | configured.category |" in markdown(drawn)


HOSTILE = "a|b <script>alert(1)</script> *x* `y` \x1b[31m & \"q\" 'r' \u202e"


def hostile() -> Sheet:
    """Give a sheet in which every text steers something."""
    line = Line(HOSTILE, asked(condition("{role: '|<b>'}")), None, "use", HOSTILE, HOSTILE)
    return Sheet(HOSTILE, ("role",), grouped=False, effective=False, lines=(line,), notes=(HOSTILE,))


def test_no_text_steers_what_it_is_drawn_in() -> None:
    """Neither a terminal, nor Markdown, nor a page."""
    assert "\x1b" not in terminal(hostile(), 200) + markdown(hostile()) + page(hostile())
    assert "\u202e" not in terminal(hostile(), 200) + markdown(hostile()) + page(hostile())
    rows = [line for line in markdown(hostile()).splitlines() if line.startswith("|")]
    assert {len(row.replace("\\|", "").split("|")) for row in rows} == {7}
    assert "<script" not in markdown(hostile()) + page(hostile())


class Page(html.parser.HTMLParser):
    """What a page is made of: each element with what it says of itself."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("effective", [True, False])
@pytest.mark.parametrize("name", list(shipped().tables))
def test_a_page_stands_alone_and_says_what_its_cells_belong_to(name: str, effective: bool) -> None:
    """One table with a caption; each header says whether it heads a column or a row; nothing is loaded."""
    found = Page(page(sheet(shipped(), name, effective=effective))).found
    tags = [tag for tag, _ in found]
    scopes = [attributes.get("scope") for tag, attributes in found if tag == "th"]

    assert tags.count("table") == tags.count("caption") == tags.count("main") == 1
    assert scopes.count("row") == len(shipped().tables[name].rows)
    assert set(scopes) == {"row", "col"}
    assert ("html", {"lang": "en"}) in found
    assert not any("src" in attributes or "href" in attributes for _, attributes in found)
    assert not {"script", "link", "img", "iframe"} & set(tags)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("It is so. And more.", "It is so"),
        ("It is so; for a reason.", "It is so"),
        ("It is\n  so.", "It is so"),
        ("word " * 30, "word word word word word word word word word word word word word word …"),
        ("x" * 100, "x" * 72 + "…"),
    ],
)
def test_reasons_are_short(text: str, told: str) -> None:
    """Their first clause, or what fits of it."""
    assert short(text) == told


def test_a_table_that_takes_too_long_is_drawn_as_it_is_written(rules: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says so."""
    monkeypatch.setattr("selector.analysis.regions.MOST_BOXES", 1)

    drawn = sheet(rules, "call", effective=True)

    assert not drawn.effective
    assert drawn.notes == ("where rows win was not worked out: that takes too many steps",)


def test_a_row_that_takes_too_long_says_so(rules: RuleSet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are told."""
    monkeypatch.setattr("selector.rendering.table.STEPS", 40)

    wins = [line.wins for line in sheet(rules, "call", effective=True).lines]

    assert wins[0] == ("heads_divide false",)
    assert wins[-1] == ("where it wins was not worked out: that takes too many steps",)
