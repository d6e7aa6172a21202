"""What may be laid over other rules, against the schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from selector import data
from selector.faults import dotted
from selector.ruleset import load_rules, shipped
from selector.schemas import overlay_examples
from selector.schemas.build import schemas
from selector.structure import schema_faults

ROW: dict[str, Any] = {"id": "a", "use": "TORCH_SDPA", "because": "b"}
MOVE: dict[str, Any] = {"id": "a", "before": "torch-sdpa", "because": "b"}
FACT = {"type": "string", "group": "machine", "about": "A."}
WARNING = {"when": {"platform": "cuda"}, "warn": "w", "because": "b"}
MODEL = {"names": ["M"], "mask_free": True, "roles": {}}


def edits(*changes: object) -> dict[str, object]:
    """Write a file of edits."""
    return {"table": "platform_default", "edits": list(changes)}


def is_valid(name: str, document: object) -> bool:
    """Ask jsonschema itself, as other tools do."""
    schema = json.loads((data.folder("schemas") / f"{name}.schema.json").read_bytes())
    return Draft202012Validator(schema).is_valid(document)


RIGHT: list[tuple[str, object]] = [
    ("rule-table", edits({"id": "a", "disable": True, "because": "b"})),
    ("rule-table", edits(MOVE)),
    ("rule-table", edits({"id": "a", "after": "torch-sdpa", "because": "b"})),
    ("rule-table", edits(ROW)),
    ("rule-table", edits({**ROW, "when": {"platform": "cuda"}, "log": "l", "warn": "w", "until": "u", "source": "s"})),
    ("rule-table", edits({**ROW, "before": "torch-sdpa"}, {**ROW, "id": "c", "after": "a"})),
    ("rule-table", edits({"id": "a", "refuse": "no", "because": "b", "redecide": {"mask_free": False}})),
    ("rule-table", {**edits(ROW), "description": "Ours."}),
    ("rule-table", {"table": "house_batches", "new": True, "rows": [ROW]}),
    ("rule-table", {"table": "house-batches", "new": True, "rows": [ROW], "targets": "backends", "actions": ["use"]}),
    ("vocabulary", {"facts": {"rack": FACT}}),
    ("vocabulary", {"facts": {"rack": None}, "derived": {"d": None}, "sets": {"s": None}, "packages": {"p": None}}),
    ("vocabulary", {"sets": {"hopper": {"add": ["sm_91"]}}}),
    ("vocabulary", {"packages": {"p": {"distributions": ["p"]}}}),
    ("backends", {"backends": {"X": None}}),
    ("backends", {"providers": {"x": None, "y": {"backend": "X", "about": "Y."}}}),
    ("roles", {"roles": {"a.*": None, "b": "self"}}),
    ("warnings", {"warnings": [{"id": "a", "disable": True}, WARNING]}),
    ("warnings", {"warnings": []}),
    ("models", {"models": [{"names": ["M"], "disable": True}, MODEL]}),
    ("rule-set", {"tables": {"call": {"rows": [ROW]}}}),
    ("rule-set", {"tables": {"call": {"edits": [MOVE]}}}),
    ("rule-set", {"tables": {"mine": {"new": True, "rows": [ROW]}}, "roles": {"roles": {"a": "b"}}}),
]


@pytest.mark.parametrize(("name", "document"), RIGHT)
def test_accepts_every_form(name: str, document: object) -> None:
    """Each form of an overlay is valid, both for jsonschema and for us."""
    assert is_valid(name, document)
    assert schema_faults(name, document) == []


WRONG: list[tuple[str, object, str]] = [
    ("rule-table", {"table": "call"}, ": missing-key: wanted `rows` (the whole table) or `edits` (changes to it)"),
    ("rule-table", {**edits(MOVE), "rows": [ROW]}, "rows: rows-and-edits: wanted `rows` (the whole table) or `edits`"),
    ("rule-table", {**edits(MOVE), "targets": "backends"}, "targets: unknown-key: no key `targets` beside `edits`"),
    ("rule-table", {**edits(MOVE), "new": True}, "new: unknown-key: no key `new` beside `edits`"),
    ("rule-table", edits(), "edits: bad-size: "),
    ("rule-table", {"table": "mine", "rows": [ROW]}, "table: bad-value: "),
    ("rule-table", {"table": "mine", "edits": [MOVE]}, "table: bad-value: "),
    ("rule-table", {"table": "My Table", "new": True, "rows": [ROW]}, "table: bad-name: "),
    (
        "rule-table",
        {"table": "call", "new": True, "rows": [ROW]},
        "table: bad-value: the table `call` is there",
    ),
    ("rule-table", {"table": "mine", "new": False, "rows": [ROW]}, "new: bad-value: "),
    ("rule-table", edits({"disable": True, "because": "b"}), "edits[0]: missing-key: wanted the key `id`"),
    ("rule-table", edits({"id": "a", "disable": True}), "edits[0]: missing-key: wanted the key `because`"),
    ("rule-table", edits({"id": "a", "disable": False, "because": "b"}), "edits[0].disable: bad-value: "),
    (
        "rule-table",
        edits({**ROW, "disable": True}),
        "edits[0].use: disabled-row: no key `use` beside `disable`",
    ),
    ("rule-table", edits({"id": "a", "because": "b"}), "edits[0]: one-action: wanted a change: one of `disable`"),
    ("rule-table", edits({**MOVE, "after": "c"}), "edits[0].after: one-anchor: wanted one of `before` and `after`"),
    (
        "rule-table",
        edits({**MOVE, "when": {"mask": "none"}}),
        "edits[0]: one-action: a row that is only moved has `id`",
    ),
    ("rule-table", edits({**MOVE, "log": "l"}), "edits[0]: one-action: a row that is only moved has `id`"),
    ("rule-table", edits({**ROW, "refuse": "no"}), "edits[0].refuse: one-action: wanted exactly one of use"),
    ("rule-table", edits({**ROW, "befor": "c"}), "edits[0].befor: unknown-key: no key `befor` here"),
    ("rule-table", edits({**ROW, "before": 5}), "edits[0].before: wrong-type: "),
    ("rule-table", edits({**ROW, "id": "A b"}), "edits[0].id: bad-id: "),
    ("vocabulary", {}, ": missing-key: wanted at least one of facts, derived, sets, packages"),
    ("vocabulary", {"sets": {"s": {"add": [1], "fact": "arch"}}}, "sets.s.fact: unknown-key: no key `fact` beside"),
    ("vocabulary", {"sets": {"s": {"fact": "arch"}}}, "sets.s: missing-key: wanted the key `values`"),
    ("vocabulary", {"sets": {"s": {"add": []}}}, "sets.s.add: bad-size: "),
    ("vocabulary", {"facts": {"f": "string"}}, "facts.f: wrong-type: `f`: wanted a mapping, got the string `string`"),
    ("backends", {}, ": missing-key: wanted at least one of backends, providers"),
    ("backends", {"backends": {"X": {}}}, "backends.X: missing-key: wanted the key `about`"),
    ("roles", {"roles": {"a": 5}}, "roles.a: wrong-type: `a`: wanted a string, or null to take it out"),
    ("warnings", {"warnings": [{"disable": True}]}, "warnings[0]: missing-key: wanted the key `id`"),
    (
        "warnings",
        {"warnings": [{**WARNING, "id": "a", "disable": True}]},
        "warnings[0].when: unknown-key: no key `when` beside `disable`",
    ),
    ("warnings", {"warnings": [{"id": "a"}]}, "warnings[0]: missing-key: wanted the key `when`"),
    ("models", {"models": [{"names": ["M"]}]}, "models[0]: missing-key: wanted the key `mask_free`"),
    ("rule-set", {}, ": missing-key: wanted at least one of vocabulary, backends, roles"),
    ("rule-set", {"facts": {}}, "facts: unknown-key: no key `facts` here"),
    ("rule-set", {"tables": {"mine": {"rows": [ROW]}}}, "tables.mine: unknown-table: no table `mine`"),
    (
        "rule-set",
        {"tables": {"My Own": {"new": True, "rows": [ROW]}}},
        "tables.My Own: bad-name: `My Own` is no name",
    ),
    ("rule-set", {"tables": {"call": {"table": "call", "rows": [ROW]}}}, "tables.call.table: unknown-key: "),
    ("rule-set", {"tables": {"call": {}}}, "tables.call: missing-key: wanted `rows` (the whole table) or `edits`"),
    ("rule-set", {"tables": {"call": {"edits": [{"id": "a", "because": "b"}]}}}, "tables.call.edits[0]: one-action: "),
    ("rule-set", {"vocabulary": {"facts": {"f": {}}}}, "vocabulary.facts.f: missing-key: "),
]


@pytest.mark.parametrize(("name", "document", "told"), WRONG)
def test_tells_what_is_wrong(name: str, document: object, told: str) -> None:
    """Each slip in an overlay is refused by jsonschema, and told by us with its place."""
    found = [f"{dotted(fault.path)}: {fault.code}: {fault.message}" for fault in schema_faults(name, document)]

    assert not is_valid(name, document)
    assert [line for line in found if line.startswith(told)], found


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("edits", overlay_examples.EDITS),
        ("new", overlay_examples.NEW_TABLE),
        ("house.vocabulary", overlay_examples.VOCABULARY),
        ("house.backends", overlay_examples.BACKENDS),
        ("house.roles", overlay_examples.ROLES),
        ("house.models", overlay_examples.MODELS),
        ("house.warnings", overlay_examples.WARNINGS),
    ],
)
def test_the_examples_can_be_laid_over_the_shipped_rules(file: str, content: object, tmp_path: Path) -> None:
    """They load, and change something."""
    (tmp_path / f"{file}.json").write_text(json.dumps(content), encoding="utf-8")

    assert load_rules([tmp_path]).digest != shipped().digest


def test_the_example_of_a_rule_set_can_be_laid_over_the_shipped_rules(tmp_path: Path) -> None:
    """From one file."""
    path = tmp_path / "set.json"
    path.write_text(json.dumps(overlay_examples.RULE_SET), encoding="utf-8")

    assert load_rules([path]).digest != shipped().digest


def test_a_table_of_ones_own_is_known_to_schemas_made_from_its_rules(tmp_path: Path) -> None:
    """Its name needs no `new` then, and its rows and what they choose are offered."""
    (tmp_path / "own.json").write_text(json.dumps(overlay_examples.NEW_TABLE), encoding="utf-8")
    schema = schemas(load_rules([tmp_path]))["rule-table"]

    validator = Draft202012Validator(schema)

    assert validator.is_valid({"table": "house_batches", "edits": [{"id": "by-day", "disable": True, "because": "b"}]})
    assert validator.is_valid(overlay_examples.NEW_TABLE)
    assert "at-night" in json.dumps(schema["allOf"][-1])
