from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from selector.catalog import CatalogReader
from selector.rule_files import TABLES
from selector.rules import tables as table_reader
from selector.rules import words as word_reader
from selector.rules.fields import Source
from selector.rules.tables import ACTIONS, TableReader
from selector.rules.when import GROUPS, OPERATORS, UNKNOWN, Reader
from selector.rules.words import read_vocabulary
from selector.rules.yaml_text import read_yaml
from selector.ruleset import RuleSet, load_rules, shipped
from selector.schemas import catalogs
from selector.schemas.annotations import Document
from selector.schemas.build import NAMES, schemas
from selector.schemas.overlays import KEYS as OVERLAY_KEYS
from selector.schemas.tables import DerivedEntry, FactEntry, PackageEntry, Row, RuleTable, SetEntry
from selector.schemas.unsaid import UNSAID
from selector.structure import schema_faults
from tests.selector.conftest import overlay


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    """Give every schema, as it is generated from the shipped rules."""
    return schemas(shipped())


def described(schema: object) -> Iterator[tuple[str, object]]:
    """Give every property that a schema declares, by its name; conditions declare none."""
    if isinstance(schema, list):
        for item in schema:
            yield from described(item)
    elif isinstance(schema, dict):
        for key, item in schema.items():
            if key == "properties":
                yield from item.items()
                yield from described(list(item.values()))
            elif key not in {"if", "then", "else", "not", "enum", "examples", "x-fault"}:
                yield from described(item)


@pytest.mark.parametrize("name", NAMES)
def test_is_json_schema_2020_12(built: dict[str, Any], name: str) -> None:
    """Each schema is valid for its dialect, and its identity is its file's name."""
    schema = built[name]

    Draft202012Validator.check_schema(schema)

    assert list(schema)[:2] == ["$schema", "$id"]
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["$id"] == f"{name}.schema.json"
    assert schema["title"]
    assert schema["description"].endswith(".")


@pytest.mark.parametrize("name", NAMES)
def test_describes_every_property(built: dict[str, Any], name: str) -> None:
    """An editor has a sentence for every key, its own or that of the definition it refers to."""
    known = built[name].get("$defs", {})
    bare = [
        key
        for key, schema in described(built[name])
        if isinstance(schema, dict)
        and "description" not in schema
        and "description" not in known.get(schema.get("$ref", "").removeprefix("#/$defs/"), {})
    ]

    assert bare == []


@pytest.mark.parametrize("name", NAMES)
def test_gives_examples_that_it_accepts(built: dict[str, Any], name: str) -> None:
    """Each schema has examples, and each of them is right."""
    examples = built[name]["examples"]

    assert examples
    assert [schema_faults(name, example) for example in examples] == [[]] * len(examples)


@pytest.mark.parametrize("name", NAMES)
def test_holds_what_it_refers_to_and_nothing_else(built: dict[str, Any], name: str) -> None:
    """A schema stands alone: each reference leads to a definition in it, and each definition is referred to."""
    text = json.dumps(built[name])
    known = set(built[name].get("$defs", {}))
    used = {part.partition('"')[0] for part in text.split('"$ref": "#/$defs/')[1:]}

    assert used == known
    assert '"x-def"' not in text
    assert '"x-facts"' not in text


def test_says_what_it_does_not_say(built: dict[str, Any]) -> None:
    """The comment of a schema lists what only the models check."""
    for name, reasons in UNSAID.items():
        assert all(reason.why in built[name]["$comment"] for reason in reasons)


def test_takes_every_name_from_the_rules(built: dict[str, Any], rules: RuleSet) -> None:
    """Lists of names are those of the rules, and of the code that reads them."""
    table = built["rule-table"]
    when = table["$defs"]["when"]["properties"]
    matcher = when["cudnn"]["anyOf"][-1]["properties"]

    (named,) = (part["else"]["properties"]["table"] for part in table["allOf"] if "else" in part)

    assert sorted(named["enum"]) == sorted(TABLES)
    assert [next(iter(one["required"])) for one in table["$defs"]["Row"]["allOf"][0]["anyOf"]] == list(ACTIONS)
    assert list(when) == [*GROUPS, *rules.vocabulary.facts]
    assert list(matcher) == [*OPERATORS, "unknown"]
    assert matcher["unknown"]["enum"] == list(UNKNOWN)
    assert built["config"]["$defs"]["backend-name"]["anyOf"][1]["enum"] == ["auto", *rules.backends]
    assert list(built["facts"]["$defs"]["packages"]["properties"]) == list(rules.vocabulary.packages)


def test_asks_of_each_fact_what_its_type_allows(built: dict[str, Any]) -> None:
    """A matcher that could not be read is not offered: no order of a boolean, no absence of what is never null."""
    when = built["rule-table"]["$defs"]["when"]["properties"]

    def matchers(fact: str) -> list[str]:
        return list(when[fact]["anyOf"][-1]["properties"])

    assert matchers("mask_free") == ["equals", "in", "unknown"]
    assert matchers("head_dim") == ["equals", "in", "compare", "multiple_of", "min", "max", "unknown"]
    assert matchers("arch") == ["equals", "in", "compare", "min", "max", "present", "absent", "unknown"]
    assert matchers("packages.flashinfer") == ["equals", "in", "compare", "min", "max", "present", "absent", "unknown"]


def test_knows_what_an_overlay_declares(tmp_path: Path) -> None:
    """Built from other rules, the schemas offer their names and say which blocks their backends read."""
    added = "backends:\n  NEW_ATTN:\n    about: New.\n    reads: {quant: {dtype_qk: [int8]}}\n"
    rules = load_rules([overlay(tmp_path / "rules", {"backends.yaml": [("backends:\n", added)]})])

    config = schemas(rules)["config"]["$defs"]

    assert "NEW_ATTN" in config["backend-name"]["anyOf"][1]["enum"]
    assert any("NEW_ATTN does not read `skip_softmax`" in json.dumps(part) for part in config["spec"]["allOf"])


# --- the keys of each file are those that its reader knows; those of overlays are gone by the time it reads ---


def known(model: type[Document]) -> str:
    """Write the hint that a reader gives for a key that is none of the model's, whatever its order."""
    return " ".join(sorted(set(model.model_fields) - set(OVERLAY_KEYS)))


def hints(read: Callable[[CatalogReader], object]) -> list[str]:
    """Read something with keys that nobody knows, and give what is known in their place."""
    source = Source("file")
    read(CatalogReader(Reader(shipped().vocabulary, source)))
    told = [item.hint or "" for item in source.problems if item.code == "unknown-key"]
    return [" ".join(sorted(hint.removeprefix("known here: ").split(", "))) for hint in told]


def test_backends_have_the_keys_of_their_reader() -> None:
    """Backends, cautions and providers."""
    text = (
        "zzzz: 1\n"
        "backends: {X: {zzzz: 1, about: a, unverified: [{zzzz: 1, when: {arch: sm_90}, warn: w, because: b}]}}\n"
        "providers: {x: {zzzz: 1, about: a, backend: X}}\n"
    )
    models = (catalogs.BackendsFile, catalogs.BackendEntry, catalogs.Caution, catalogs.ProviderEntry)

    assert hints(lambda reader: reader.backends(read_yaml(text, "file"))) == [known(model) for model in models]


def test_models_have_the_keys_of_their_reader() -> None:
    """Models, their roles, what changes when compiled, and shapes."""
    role = "{zzzz: 1, compiled: {zzzz: 1}, shapes: [{zzzz: 1, name: s, seq_len_q: 1, seq_len_kv: 1}]}"
    text = f"zzzz: 1\nmodels: [{{zzzz: 1, names: [M], mask_free: true, roles: {{self: {role}}}}}]\n"
    models = (
        catalogs.ModelsFile, catalogs.ModelEntry, catalogs.RoleEntry, catalogs.CompiledEntry, catalogs.ShapeEntry,
    )  # fmt: skip

    assert hints(lambda reader: reader.models(read_yaml(text, "file"))) == [known(model) for model in models]


def test_roles_and_warnings_have_the_keys_of_their_readers() -> None:
    """The files that hold one key."""
    roles, warnings = "zzzz: 1\nroles: {a: b}\n", "zzzz: 1\nwarnings: []\n"

    assert hints(lambda reader: reader.roles(read_yaml(roles, "file"))) == [known(catalogs.RolesFile)]
    assert hints(lambda reader: reader.warnings(read_yaml(warnings, "file"))) == [known(catalogs.WarningsFile)]


def test_tables_and_rows_have_the_keys_of_their_reader() -> None:
    """The keys are listed in the reader."""
    assert set(RuleTable.model_fields) - set(OVERLAY_KEYS) == set(table_reader._TABLE_KEYS)
    assert set(Row.model_fields) == set(table_reader.ROW_KEYS)
    assert TableReader.__dataclass_fields__["actions"].default == ACTIONS


def test_the_vocabulary_has_the_keys_of_its_reader() -> None:
    """Facts are listed in the reader; the rest is asked of it."""
    source = Source("file")
    text = (
        "facts: {a: {type: integer, group: request, about: a}}\n"
        "derived: {d: {zzzz: 1, relation: equal, of: [a, a]}}\n"
        "packages: {p: {zzzz: 1, distributions: [p]}}\nsets: {s: {zzzz: 1, fact: a, values: [1]}}\n"
    )
    read_vocabulary(read_yaml(text, "file"), source)
    told = {" ".join(sorted((item.hint or "").removeprefix("known here: ").split(", "))) for item in source.problems}

    assert set(FactEntry.model_fields) == set(word_reader._FACT_KEYS)
    assert told == {known(DerivedEntry), known(PackageEntry), known(SetEntry)}


def test_architecture_families_are_those_that_rules_read(built: dict[str, Any], rules: RuleSet) -> None:
    """The pattern for `sm_10x` matches what the rule language takes for a family, and nothing else."""
    literal = built["rule-table"]["$defs"]["when"]["properties"]["arch"]["anyOf"][0]
    family = Draft202012Validator(literal["anyOf"][1])
    arch = rules.vocabulary.facts["arch"]

    for text in ("sm_10x", "sm_9x", "sm_8x", "sm_0x", "sm_100x", "sm_x", "sm_90", "SM_10x", "xsm_10x", "sm_10x "):
        assert family.is_valid(text) == (arch.matches_pattern(text) is not None), text
