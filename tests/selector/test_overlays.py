"""Words, backends, roles and models laid over the shipped ones; tables of one's own; a whole set in one file."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from selector.merged import as_yaml
from selector.rules.yaml_text import read_yaml, scalar_of
from selector.ruleset import load_rules, shipped
from tests.selector.conftest import cuda, decide
from tests.selector.rules.folders import file, refusals

MODEL = "{names: [Mine], mask_free: true, head_dim: 64, roles: {self: {mask: none}}}"


# --- entries ---


def test_entries_are_added_to_every_kind_of_file(tmp_path: Path) -> None:
    """Beside the shipped ones, under any name in front of the kind."""
    file(tmp_path, "a.vocabulary.yaml", "facts: {tenant: {type: string, group: request, about: Who asks.}}\n"
         "sets: {ours: {fact: arch, values: [sm_90]}}\npackages: {acme: {distributions: [acme]}}\n"
         "derived: {square: {relation: equal, of: [seq_len_q, head_dim]}}\n")  # fmt: skip
    file(tmp_path, "a.backends.yaml", "backends: {ACME: {about: Ours.}}\n"
         "providers: {acme1: {backend: ACME, about: Ours.}}\n")  # fmt: skip
    file(tmp_path, "roles.yaml", "roles: {mine.cross: cross}\n")
    file(tmp_path, "models.json", '{"models": [{"names": ["Mine"], "mask_free": true, "roles": {"self": {}}}]}')
    file(tmp_path, "warnings.yaml", "warnings: [{id: w, when: {platform: cpu}, warn: slow, because: x}]\n")

    rules, base = load_rules([tmp_path]), shipped()

    assert set(rules.vocabulary.facts) - set(base.vocabulary.facts) == {"tenant", "packages.acme", "square"}
    assert rules.vocabulary.sets.keys() - base.vocabulary.sets.keys() == {"ours"}
    assert (set(rules.backends) - set(base.backends), set(rules.providers) - set(base.providers)) == (
        {"ACME"}, {"acme1"},
    )  # fmt: skip
    assert rules.roles.category("mine.cross") == "cross"
    assert set(rules.models) - set(base.models) == {"Mine"}
    assert [caution.warn for caution in rules.warnings] == [*(one.warn for one in base.warnings), "slow"]
    assert rules.notices == ()


def test_an_entry_of_the_same_name_replaces_the_shipped_one(tmp_path: Path) -> None:
    """Whole, and its place is the user's."""
    file(tmp_path, "backends.yaml", "backends: {CUDNN_ATTN: {about: Never here., ability: {platform: rocm}}}\n")

    rules = load_rules([tmp_path])

    assert decide(cuda("sm_120"), rules=rules).backend == "TORCH_SDPA"
    assert rules.backends["CUDNN_ATTN"].place.file == f"{tmp_path}/backends.yaml"
    assert set(rules.backends) == set(shipped().backends)


def test_null_takes_an_entry_out(tmp_path: Path) -> None:
    """What still asks for it is then told."""
    file(tmp_path, "roles.yaml", "roles: {ltx2.connector: null}")

    assert load_rules([tmp_path]).roles.category("ltx2.connector") is None

    file(tmp_path, "vocabulary.yaml", "sets: {half: null}")
    found = refusals(tmp_path)
    assert found
    assert all(": unknown-set: no set `half`" in line for line in found)


def test_a_set_takes_more_values(tmp_path: Path) -> None:
    """A new architecture joins the family that it belongs to."""
    file(tmp_path, "vocabulary.yaml", "sets: {blackwell_class: {add: [sm_13x]}}")

    rules = load_rules([tmp_path])

    assert decide(cuda("sm_130")).backend == "TORCH_SDPA"
    assert decide(cuda("sm_130"), rules=rules).backend == "CUDNN_ATTN"
    assert decide(cuda("sm_120"), rules=rules).answer() == decide(cuda("sm_120")).answer()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("vocabulary.yaml", "sets: {hoper: {add: [sm_91]}}",
         "1:8: unknown-entry: no `hoper` in `sets`\n  hint: did you mean `hopper`?"),
        ("roles.yaml", "roles: {ltx2.conector: null}",
         "1:9: unknown-entry: no `ltx2.conector` in `roles`\n  hint: did you mean `ltx2.connector`?"),
        ("vocabulary.yaml", "set: {}", "1:1: unknown-key: no key `set` here\n  hint: did you mean `sets`?"),
        ("vocabulary.yaml", "sets: {hopper: {add: sm_91}}",
         "1:22: wrong-type: `add`: wanted a list, got `sm_91`"),
        ("vocabulary.yaml", "sets: {hopper: {add: [sm91]}}",
         "1:23: bad-value: `arch`: wanted a value such as `sm_90`, got `sm91`"),
        ("vocabulary.yaml", "sets: {hopper: {add: [sm_91], fact: arch}}",
         "1:31: unknown-key: no key `fact` here\n  hint: known here: add"),
        ("roles.yaml", "[]", "1:1: wrong-type: wanted a mapping, got a list"),
        ("roles.yaml", "roles: []", "1:8: wrong-type: `roles`: wanted a mapping, got a list"),
        ("warnings.yaml", "warnings: [{id: blackwell-untestd, disable: true}]",
         "1:12: unknown-entry: no `blackwell-untestd` in `warnings`\n  hint: did you mean `blackwell-untested`?"),
        ("warnings.yaml", "warnings: [{disable: true}]",
         "1:12: missing-key: wanted the key `id`, which is not there"),
        ("warnings.yaml", "warnings: [{id: blackwell-untested, disable: true, warn: x}]",
         "1:52: unknown-key: no key `warn` here\n  hint: known here: id, disable"),
        ("vocabulary.yaml", "{}",
         "1:1: empty: wanted at least one of facts, derived, sets, packages, got an empty mapping"),
        ("warnings.yaml", "warnings: {}", "1:11: wrong-type: `warnings`: wanted a list, got a mapping"),
    ],
)  # fmt: skip
def test_an_entry_that_is_wrong_is_told_with_its_place(tmp_path: Path, name: str, text: str, said: str) -> None:
    """And with the nearest name."""
    assert refusals(file(tmp_path, name, text)) == [f"{name}:{said}"]


# --- lists ---


def test_a_model_replaces_one_of_the_same_names(tmp_path: Path) -> None:
    """Where it takes some of another's names alone, that one keeps the rest."""
    names = "[WanPipeline, WanImageToVideoPipeline, WanVACEPipeline]"
    file(
        tmp_path, "models.yaml", f"models: [{MODEL.replace('[Mine]', names)}, {MODEL.replace('Mine', 'Flux2Pipeline')}]"
    )

    models = load_rules([tmp_path]).models

    assert models["WanPipeline"].facts == {"mask_free": True, "head_dim": 64}
    assert models["Flux2Pipeline"].facts == {"mask_free": True, "head_dim": 64}
    assert models["black-forest-labs/FLUX.2-dev"].names == ("black-forest-labs/FLUX.2-dev",)
    assert set(models) == set(shipped().models)


def test_a_standing_warning_is_replaced_or_taken_out_by_its_id(tmp_path: Path) -> None:
    """And one without an id is added."""
    file(tmp_path, "warnings.yaml", "warnings: [{id: blackwell-untested, disable: true}]")
    assert decide(cuda("sm_110"), rules=load_rules([tmp_path])).warnings == ()

    file(tmp_path, "warnings.yaml",
         "warnings: [{id: blackwell-untested, when: {arch: sm_110}, warn: mine, because: x}]")  # fmt: skip
    assert decide(cuda("sm_110"), rules=load_rules([tmp_path])).warnings == ("mine",)


@pytest.mark.parametrize(
    ("first", "second", "told"),
    [
        ("{a: self}", "{a: cross}", 1), ("{a: self}", "{a: self}", 0), ("{a: self}", "{b: self}", 0),
        ("{a: self}", "{a: null}", 1), ("{ltx2.connector: null}", "{ltx2.connector: cross}", 1),
    ],
)  # fmt: skip
def test_two_overlays_of_the_same_entry(tmp_path: Path, first: str, second: str, told: int) -> None:
    """The later one wins, and a warning says so where they differ."""
    folders = [tmp_path / "1", tmp_path / "2"]
    for folder, text in zip(folders, (first, second), strict=True):
        folder.mkdir()
        file(folder, "roles.yaml", f"roles: {text}")

    assert len(load_rules(folders).notices) == told


# --- tables of one's own ---


def test_a_table_of_ones_own(tmp_path: Path) -> None:
    """It is read and checked like the others, and names what it likes."""
    text = "table: lunch\nnew: true\nrows:\n\n  - {id: gpu, when: {platform: cuda}, use: hot, because: x}\n"
    file(tmp_path, "lunch.yaml", text + "  - {id: rest, use: cold, because: x}\n")

    table = load_rules([tmp_path]).table("lunch")

    assert [(row.id, row.target) for row in table.rows] == [("gpu", "hot"), ("rest", "cold")]

    file(tmp_path, "lunch.yaml", text)
    assert refusals(tmp_path) == [
        "lunch.yaml:5:5: no-last-resort: table `lunch` has no last resort: wanted a last row without `when`"
    ]


def test_a_later_overlay_may_edit_it(tmp_path: Path) -> None:
    """As any other."""
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    file(first, "lunch.yaml", "table: lunch\nnew: true\nrows: [{id: rest, use: cold, because: x}]\n")
    file(second, "e.yaml", "table: lunch\nedits: [{id: rest, use: hot, because: y}]\n")

    assert load_rules([first, second]).table("lunch").rows[0].target == "hot"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("table: lunch\nrows: [{id: a, use: b, because: c}]",
         "1:8: unknown-table: no table `lunch`\n  hint: a table of your own says `new: true`"),
        ("table: call\nnew: true\nrows: []",
         ("2:6: bad-value: `new`: wanted true for a table that is not there yet, with `rows`, got `true`\n"
         "  hint: leave it out")),
        ("table: lunch\nnew: yes\nrows: []",
         "2:6: bad-value: `new`: wanted true for a table that is not there yet, with `rows`, got `yes`"),
        ("table: My Lunch\nnew: true\nrows: []",
         "1:8: bad-name: `My Lunch` is no name for a table: wanted small letters, digits, `_` and `-`"),
        ("table: lunch\nnew: true\nedits: []",
         "2:6: bad-value: `new`: wanted true for a table that is not there yet, with `rows`, got `true`"),
    ],
)  # fmt: skip
def test_a_table_that_is_not_there_says_that_it_is_new(tmp_path: Path, text: str, said: str) -> None:
    """So that a misspelt name is no new table."""
    assert refusals(file(tmp_path, "f.yaml", text)) == [f"f.yaml:{said}"]


# --- a whole set in one file ---


def shown_and_read(folders: list[Path], into: Path) -> tuple[str, str]:
    """Give the digest of a set, and that of what it is written as."""
    rules = load_rules(folders)
    into.write_text(as_yaml(rules), encoding="utf-8")
    return rules.digest, load_rules([into]).digest


def test_a_rule_set_is_written_as_one_file_that_loads_to_the_same_digest(tmp_path: Path) -> None:
    """The shipped one, and one with every kind of overlay; each row under the place that it came from."""
    folder = tmp_path / "o"
    folder.mkdir()
    file(folder, "a.vocabulary.yaml", "sets: {hopper: {add: [sm_91]}}\npackages: {acme: {distributions: [acme]}}")
    file(folder, "lunch.yaml", "table: lunch\nnew: true\nrows: [{id: rest, use: cold, because: x}]\n")
    file(folder, "e.yaml", "table: call\nedits: [{id: one-key, before: sage-3-gqa, because: moved}]\n")
    file(folder, "models.yaml", f"models: [{MODEL}]\n")

    for folders in ([], [folder]):
        before, after = shown_and_read(folders, tmp_path / "all.yaml")
        assert before == after

    text = (tmp_path / "all.yaml").read_text(encoding="utf-8")
    assert f"# {folder}/models.yaml:1:10\n" in text
    assert f", with {folder}/e.yaml:2:" in text
    assert f"# with: {folder}\n" in text


ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(lambda text: bool(text.strip()))
WORDS = st.sampled_from(["on", "yes", "08", "1e5", "0o17", "0x1F", "null", "~", "true", "1_000", "- a", "a: b", ".inf",
                         "2.10", "=", "<<", "#x", "'", '"', "\\", "a\u2028b", "a\x85b", "{x", "!t", "&a", "*a", "%d",
                         " lead", "trail ", "a\nb", "a\n\n b", "a\tb", "2026-11-29"])  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(texts=st.lists(ODD | WORDS, min_size=1, max_size=5))
def test_whatever_a_text_holds_it_is_read_back(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Words that YAML takes for something else, line ends and signs."""
    import json

    folder = tmp_path_factory.mktemp("odd")
    models = [{"names": [f"m{at}", text], "about": text, "mask_free": True, "roles": {text: {}}}
              for at, text in enumerate(dict.fromkeys(texts))]  # fmt: skip
    file(folder, "models.json", json.dumps({"models": models}))

    before, after = shown_and_read([folder], folder / "all.yml.txt")

    assert before == after


@given(text=st.text(string.digits + "+-.eExXoOaAfF_: ", max_size=6) | WORDS)
def test_a_plain_scalar_is_read_as_the_writer_expects(text: str) -> None:
    """The writer asks the reader what a text without quotes would be."""
    assume(text.strip() == text and text.isprintable() and not set(text) & set("#:&*!|>'\"%@`{}[],"))
    assume(text[:1] not in ("", "-", "?", "="))
    assert read_yaml(f"x: {text}", "t").plain() == {"x": scalar_of(text)}


def test_a_rule_set_replaces_every_kind_that_it_holds(tmp_path: Path) -> None:
    """And leaves the others as they are."""
    path = tmp_path / "set.yaml"
    path.write_text("roles: {roles: {a: self}}\ntables: {lunch: {new: true, rows: [{id: r, use: x, because: y}]}}")

    rules = load_rules([path])

    assert rules.roles.exact == {"a": "self"}
    assert set(rules.tables) == {*shipped().tables, "lunch"}
    assert rules.vocabulary == shipped().vocabulary


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("role: {}", "1:1: unknown-key: no key `role` in a rule set\n  hint: did you mean `roles`?"),
        ("[]", "1:1: unknown-key: wanted a rule set (a mapping)\n  hint: a folder holds single rule files"),
        ("tables: []", "1:9: wrong-type: `tables`: wanted a mapping of tables"),
        ("tables: {cal: {rows: []}}", "1:15: unknown-table: no table `cal`\n  hint: did you mean `call`?"),
        ("tables: {call: 5}", "1:16: missing-key: wanted the key `rows`, which is not there"),
        ("a: [\n", "2:1: yaml-syntax: "),
    ],
)
def test_a_rule_set_that_is_none(tmp_path: Path, text: str, said: str) -> None:
    """Told with its place."""
    path = tmp_path / "set.yaml"
    path.write_text(text)

    (found,) = refusals(path)

    assert found.replace(f"{path}:", "").startswith(said)
