"""What an editor shows: completion, hover and diagnostics of the YAML extension's language server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from selector.rules.tables import ROW_KEYS
from selector.ruleset import shipped
from tests.editors import transcript
from tests.editors.files import HEADER, RULES, SUFFIX, rule_files, schema_name
from tests.editors.language_server import CURSOR, ROOT, LanguageServer, UnavailableError, installed, running

TABLE = f"{HEADER}../schemas/rule-table{SUFFIX}\ntable: platform_default\n"
ROWS = f"{TABLE}rows:\n"
EDITS = f"{TABLE}edits:\n"
VOCABULARY = f"{HEADER}../schemas/vocabulary{SUFFIX}\n"
RULE_SET = f"{HEADER}../schemas/rule-set{SUFFIX}\n"


@pytest.fixture(scope="module")
def server() -> Iterator[LanguageServer]:
    """Start the server once."""
    try:
        with running() as found:
            yield found
    except UnavailableError as error:
        pytest.skip(str(error))


def offered(server: LanguageServer, text: str) -> set[str]:
    """Give what is offered at the cursor."""
    return {item["label"] for item in server.completion("rules/offered.yaml", text)}


def told(server: LanguageServer, text: str) -> list[tuple[int, str]]:
    """Give the lines, counted from 1, that are marked, each with the text that is marked there and its message."""
    lines = text.splitlines()
    found = []
    for item in server.diagnostics("rules/told.yaml", text):
        start, end = item["range"]["start"], item["range"]["end"]
        marked = lines[start["line"]][start["character"] : end["character"]]
        found.append((start["line"] + 1, f"{marked}: {item['message']}"))
    return found


# --- completion ---


def test_a_row_is_completed(server: LanguageServer) -> None:
    """With every key that it does not have yet, `because` among them."""
    labels = offered(server, f"{ROWS}  - id: a\n    use: TORCH_SDPA\n    {CURSOR}\n")

    assert set(ROW_KEYS) - {"id", "use"} <= labels
    assert not {"id", "use", "disable", "before"} & labels


def test_facts_are_offered_in_a_condition(server: LanguageServer) -> None:
    """All of the vocabulary, and the groups."""
    labels = offered(server, f"{ROWS}  - id: a\n    when:\n      platform: cuda\n      {CURSOR}\n")

    assert {*shipped().vocabulary.facts, "any", "all", "not"} - {"platform"} <= labels


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("mask: ", {"none", "key_padding", "additive"}),
        ("platform: ", {"cuda", "rocm", "cpu"}),
        ("mask_free: ", {"true", "false"}),
        ("arch: {in: ", {"hopper", "blackwell_class"}),
        ("head_dim: {m", {"multiple_of", "min", "max", "in", "unknown"}),
    ],
)
def test_values_of_facts_are_offered(server: LanguageServer, line: str, wanted: set[str]) -> None:
    """Those that can be listed, named sets, and the matchers of the fact's type."""
    end = "}" if "{" in line else ""

    assert wanted <= offered(server, f"{ROWS}  - id: a\n    when:\n      {line}{CURSOR}{end}\n")


def test_backends_and_tables_are_offered(server: LanguageServer) -> None:
    """Those that the shipped rules know."""
    header = TABLE.partition("table: ")[0]

    assert set(shipped().backends) <= offered(server, f"{ROWS}  - id: a\n    use: {CURSOR}\n")
    assert set(shipped().tables) <= offered(server, f"{header}table: {CURSOR}\n")


def test_an_edit_is_completed(server: LanguageServer) -> None:
    """With what it may do to a row, and with the rows that there are."""
    rows = {row.id for row in shipped().table("platform_default").rows}

    assert {*ROW_KEYS, "disable", "before", "after"} - {"id"} <= offered(server, f"{EDITS}  - id: a\n    {CURSOR}\n")
    assert rows <= offered(server, f"{EDITS}  - id: {CURSOR}\n")
    assert rows <= offered(server, f"{EDITS}  - id: a\n    because: b\n    before: {CURSOR}\n")


def test_words_of_ones_own_are_completed(server: LanguageServer) -> None:
    """Entries of an overlay, though null may stand in their place."""
    assert {"group", "about", "values"} <= offered(
        server, f"{VOCABULARY}facts:\n  a:\n    type: string\n    {CURSOR}\n"
    )
    assert {"fact", "values", "add"} <= offered(server, f"{VOCABULARY}sets:\n  a:\n    {CURSOR}\n")


def test_a_rule_set_is_completed(server: LanguageServer) -> None:
    """In its tables as in a file for each of them."""
    edits = f"{RULE_SET}tables:\n  platform_default:\n    edits:\n"

    assert set(shipped().tables) <= offered(server, f"{RULE_SET}tables:\n  {CURSOR}\n")
    assert "torch-sdpa" in offered(server, f"{edits}      - id: {CURSOR}\n")


# --- hover ---


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"{ROWS}  - id: a\n    bec{CURSOR}ause: b\n    use: X\n", "The reason for the row's place in the order."),
        (f"{ROWS}  - id: a\n    because: b\n    us{CURSOR}e: X\n", "Run this backend or provider"),
        (
            f"{ROWS}  - id: a\n    because: b\n    use: X\n    when: {{ar{CURSOR}ch: sm_90}}\n",
            "The GPU's architecture.",
        ),
        (f"{EDITS}  - id: a\n    because: b\n    bef{CURSOR}ore: c\n", "Put the row in front of the row of this id"),
        (f"{EDITS}  - id: a\n    because: b\n    dis{CURSOR}able: true\n", "Take the row of this id out."),
        (f"{VOCABULARY}sets:\n  a:\n    ad{CURSOR}d: [sm_90]\n", "Values that join those of the set of this name"),
    ],
)
def test_a_key_is_explained(server: LanguageServer, text: str, wanted: str) -> None:
    """By its description."""
    assert wanted in server.hover("rules/hover.yaml", text)


# --- diagnostics ---


@pytest.mark.parametrize("path", rule_files(), ids=lambda path: path.stem)
def test_shipped_files_are_well(server: LanguageServer, path: Path) -> None:
    """Nothing is marked; those of the starter are read as `init` writes them, beside their schemas."""
    text = path.read_text(encoding="utf-8").partition("\n")[2]
    header = f"{HEADER}{(ROOT / 'schemas' / schema_name(path)).as_uri()}{SUFFIX}\n"

    assert server.diagnostics(str(path.relative_to(RULES.parent)), header + text) == []


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        ("  - id: a\n    becuase: b\n    use: X\n", [(4, 'i: Missing property "because".'),
                                                   (5, "becuase: Property becuase is not allowed.")]),
        ("  - id: a\n    because: b\n    use: X\n    refuse: y\n",
         [(7, "refuse: wanted exactly one of use, substitute, refuse, entry")]),
        ("  - id: a\n    because: b\n", [(4, "i: wanted exactly one of use, substitute, refuse, entry")]),
        ("  - id: a\n    because: b\n    use: X\n    when:\n      dtype: bf16\n",
         [(8, "bf16: wanted one of bfloat16, float16, float32, float64")]),
        ("  - id: a\n    because: b\n    use: X\n    when:\n      mask_free: 'yes'\n",
         [(8, "'yes': Incorrect type. Expected \"boolean | array | matchers\".")]),
    ],
)  # fmt: skip
def test_a_broken_row_is_marked(server: LanguageServer, rows: str, wanted: list[tuple[int, str]]) -> None:
    """At its line, and where there is a wrong key at the key."""
    found = told(server, ROWS + rows)

    assert [item for item in wanted if item not in found] == [], found
    assert {line for line, _ in found} == {line for line, _ in wanted}


@pytest.mark.parametrize(
    ("edits", "wanted"),
    [
        ("  - disable: true\n    because: b\n", [(4, 'd: Missing property "id".')]),
        ("  - id: a\n    because: b\n",
         [(4, "i: wanted a change: one of `disable`, `before`, `after` or use, substitute, refuse, entry")]),
        ("  - id: a\n    before: b\n    after: c\n    because: d\n",
         [(6, "after: wanted one of `before` and `after`, got both")]),
        ("  - id: a\n    disable: true\n    use: X\n    because: d\n", [(6, "use: no such key beside `disable`")]),
        ("  - id: a\n    use: X\n    because: d\nrows: []\n",
         [(7, "rows: wanted `rows` (the whole table) or `edits` (changes to it), got both")]),
        ("  - id: a\n    use: X\n    because: d\ntargets: backends\n", [(7, "targets: no such key beside `edits`")]),
    ],
)  # fmt: skip
def test_a_broken_edit_is_marked(server: LanguageServer, edits: str, wanted: list[tuple[int, str]]) -> None:
    """The same in an overlay."""
    found = told(server, EDITS + edits)

    assert [item for item in wanted if item not in found] == [], found
    assert {line for line, _ in found} == {line for line, _ in wanted}


# --- settings and documentation ---


def test_the_settings_in_the_documentation_choose_the_schema() -> None:
    """Files without a header are checked by what their names end in."""
    settings: dict[str, Any] = transcript.settings()
    asked = {
        "house/acme.vocabulary.yaml": "fact: {}\n",
        "house/backends.yaml": "backend: {}\n",
        "house/10-order.yaml": "tables: call\n",
    }
    try:
        with running(settings) as server:
            found = {name: {item["source"] for item in server.diagnostics(name, text)} for name, text in asked.items()}
    except UnavailableError as error:
        pytest.skip(str(error))

    assert found == {
        "house/acme.vocabulary.yaml": {"yaml-schema: Vocabulary"},
        "house/backends.yaml": {"yaml-schema: Backends and providers"},
        "house/10-order.yaml": {"yaml-schema: Rule table"},
    }


def test_the_documentation_shows_what_the_server_says(server: LanguageServer) -> None:
    """`python -m tests.editors.transcript` writes it."""
    assert transcript.written() == transcript.present(server)


def test_without_node_it_is_said_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Tests skip with this sentence."""
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(UnavailableError, match=r"^yaml-language-server needs node and npm, and node is not there$"):
        installed()
