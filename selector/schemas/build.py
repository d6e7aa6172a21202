"""The schemas put together: definitions from the rules and from the models, and for each document what it refers to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from selector.config import AttentionConfig
from selector.rule_files import TABLES
from selector.rules.tables import Table
from selector.rules.vocabulary import PACKAGE_PREFIX, Fact, Vocabulary
from selector.ruleset import ENTRIES, RuleSet
from selector.schemas import config, overlays, words
from selector.schemas.annotations import PLACEHOLDER, SCALARS, Json, fault, named, ref, wanted
from selector.schemas.catalogs import BackendsFile, ModelsFile, RolesFile, WarningsFile
from selector.schemas.decisions import DecisionRecord
from selector.schemas.examples import EXAMPLES
from selector.schemas.inputs import ENVIRONMENT, FACTS_MARK, DecideLine, Facts, Request, ScenariosFile
from selector.schemas.rulesets import RuleSetFile
from selector.schemas.tables import Edit, Row, RuleTable, VocabularyFile
from selector.schemas.unsaid import comment

if TYPE_CHECKING:
    from pydantic import BaseModel

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_DOCUMENTS: Mapping[str, type[BaseModel]] = {
    "config": AttentionConfig,
    "facts": Facts,
    "decision": DecisionRecord,
    "decide-line": DecideLine,
    "rule-table": RuleTable,
    "vocabulary": VocabularyFile,
    "backends": BackendsFile,
    "roles": RolesFile,
    "models": ModelsFile,
    "warnings": WarningsFile,
    "rule-set": RuleSetFile,
    "scenarios": ScenariosFile,
}
NAMES = tuple(_DOCUMENTS)


def schemas(rules: RuleSet) -> dict[str, Json]:
    """Give every schema by its name, with the names that these rules know."""
    models: Json = {}
    for name, model in _DOCUMENTS.items():
        models |= _of_model(name, model, rules.vocabulary)
    models |= _of_model("request", Request, rules.vocabulary)
    known = {**models, **words.definitions(rules.vocabulary), **config.definitions(rules, models), **_names(rules)}
    known |= {"tables": _tables(rules), "table": _table_body(known["RuleTable"])}
    known["rule-table"]["allOf"] += [overlays.table_name(list(rules.tables)), *_by_table(rules)]
    known["facts"]["allOf"] += words.forms(rules.vocabulary)
    return {name: _document(name, known) for name in NAMES}


def _document(name: str, known: Mapping[str, Json]) -> Json:
    body = known[name]
    told = {key: body[key] for key in ("title", "description")}
    said = comment(name)
    head = {"$schema": DIALECT, "$id": f"{name}.schema.json", **told, **({"$comment": said} if said else {})}
    found: Json = {}
    _collect(body, known, found)
    rest = {"examples": EXAMPLES[name], **({"$defs": dict(sorted(found.items()))} if found else {})}
    return {**head, **body, **rest}


def _collect(schema: object, known: Mapping[str, Json], found: Json) -> None:
    """Take every definition that a schema refers to, and those that these refer to."""
    for name in _references(schema):
        if name not in found:
            found[name] = known[name]
            _collect(known[name], known, found)


def _references(schema: object) -> Iterator[str]:
    if isinstance(schema, list):
        for item in schema:
            yield from _references(item)
    elif isinstance(schema, dict):
        for key, item in schema.items():
            if key == "$ref":
                yield item.removeprefix("#/$defs/")
            else:
                yield from _references(item)


# --- models -------------------------------------------------------------------------------------------------------


def _of_model(name: str, model: type[BaseModel], vocabulary: Vocabulary) -> Json:
    """Give the schema of a model under its name, and those of the models in it under theirs."""
    schema = model.model_json_schema()
    inner = schema.pop("$defs", {})
    title = schema.get("title", name)
    return {
        name: {**_tidy(schema, vocabulary), "title": title},
        model.__name__: {**_tidy(schema, vocabulary), "title": title},
        **{key: _tidy(item, vocabulary) for key, item in inner.items()},
    }


def _tidy(schema: Json, vocabulary: Vocabulary) -> Json:
    """Drop what pydantic adds of itself, put references in place, and let facts be properties where that is asked."""
    told: Json = {key: _tidy_value(key, item, vocabulary) for key, item in schema.items() if not _noise(key, item)}
    if PLACEHOLDER in told:
        told |= ref(told.pop(PLACEHOLDER))
    if FACTS_MARK in told:
        _add_facts(told, list(_facts(told.pop(FACTS_MARK), vocabulary)))
    if "description" in told:
        told["description"] = told["description"].split("\n\n")[0].replace("\n", " ")
    return {key: told[key] for key in sorted(told, key=_place)}


def _place(key: str) -> int:
    """Keep what a reader looks for first in front."""
    return _FIRST.index(key) if key in _FIRST else len(_FIRST)


_FIRST = ("title", "description", "type", "required", "properties", "additionalProperties")


def _tidy_value(key: str, item: object, vocabulary: Vocabulary) -> object:
    if key in ("properties", "$defs") and isinstance(item, dict):
        return {name: _tidy(child, vocabulary) for name, child in item.items()}
    if key in ("examples", "enum", "x-fault"):
        return item
    if isinstance(item, dict):
        return _tidy(item, vocabulary)
    if isinstance(item, list):
        return [_tidy(child, vocabulary) if isinstance(child, dict) else child for child in item]
    return item


def _noise(key: str, item: object) -> bool:
    return key == "title" or (key == "default" and item is None) or (key == "required" and item == [])


def _facts(marks: list[str], vocabulary: Vocabulary) -> Iterator[Fact]:
    for mark in marks:
        facts = vocabulary.group.get(mark, ()) or (vocabulary.facts[mark],)
        yield from (fact for fact in facts if not fact.name.startswith(PACKAGE_PREFIX))


def _add_facts(schema: Json, facts: list[Fact]) -> None:
    """Make facts properties beside the model's own; others pass as scalars, since overlays may declare them."""
    own = schema["properties"]
    properties = {
        fact.name: words.property_of(fact) for fact in facts if _ASKED_AS.get(fact.name, fact.name) not in own
    }
    schema["properties"] = {**properties, **own}
    unknown = fault("unknown-key", "no key `{key}` here", near=list(schema["properties"]), told="wanted a known key")
    schema["additionalProperties"] = {"anyOf": [{"type": [*SCALARS, "null"]}], **unknown}


_ASKED_AS = {"causal_alignment": "causal"}  # one key stands for both


# --- names --------------------------------------------------------------------------------------------------------


def _names(rules: RuleSet) -> Json:
    return {
        "fact-name": named(list(rules.vocabulary.facts)),
        "listed-backend": named(list(rules.backends)),
        "environment": ENVIRONMENT,
        "reads": _reads(),
    }


def _reads() -> Json:
    """Which blocks a backend reads: a list of fields, or for each field the values that it takes."""
    blocks = {}
    for block, model in config.block_models().items():
        fields = {
            name: {"description": field.description, "type": "array", "items": {"type": SCALARS}}
            for name, field in model.model_fields.items()
        }
        names = {"type": "array", "items": {"anyOf": [{"type": "string", "pattern": r"\S"}, {"enum": list(fields)}]}}
        told = f"Fields of `{block}`, or for each of them the values that the backend takes."
        blocks[block] = {"description": told, "anyOf": [names, {"type": "object", "properties": fields}]}
    return {"description": "Blocks by name.", "type": "object", "properties": blocks}


# --- tables -------------------------------------------------------------------------------------------------------


def _by_table(rules: RuleSet) -> Iterator[Json]:
    """Offer the names that rows of each table may choose."""
    for table in rules.tables.values():
        asked = {"required": ["table"], "properties": {"table": {"const": table.name}}}
        yield {"if": asked, "then": _names_of(table, rules)}


def _names_of(table: Table, rules: RuleSet) -> Json:
    """Offer what rows of a table choose, and the rows that edits change."""
    rows = [row for row in table.rows if row.action != "refuse"]
    own = ENTRIES if table.name in TABLES else dict.fromkeys(row.target for row in rows)
    names = list({"backends": rules.backends, "providers": rules.providers}.get(table.targets, own))
    chosen = {row.action: names for row in rows}
    changed = {key: [row.id for row in table.rows] for key in ("id", "before", "after")}
    return {"properties": {"rows": _items(Row, chosen), "edits": _items(Edit, {**chosen, **changed})}}


def _items(model: type[BaseModel], offered: Mapping[str, Sequence[str]]) -> Json:
    """Offer names under some keys of each entry; editors show the description of the last schema that fits."""
    keys = {key: {"description": model.model_fields[key].description, **named(names)} for key, names in offered.items()}
    return {"type": "array", "items": {"properties": keys}}


def _table_body(table: Json) -> Json:
    """Say what stands under the name of a table in a set: all of its file but the name."""
    properties = {key: item for key, item in table["properties"].items() if key != "table"}
    kept = {key: item for key, item in table.items() if key not in ("title", "required")}
    return {**kept, "properties": properties, "allOf": list(overlays.TABLE)}


def _tables(rules: RuleSet) -> Json:
    """Say what stands under `tables` in a set: the tables of these rules, and any other by a name of its own."""
    tables = {
        table.name: {
            "description": table.description,
            "allOf": [ref("table"), {"if": {"type": "object"}, "then": _names_of(table, rules)}],
        }
        for table in rules.tables.values()
    }
    return {
        "description": "Each table by its name, without the key `table`.",
        "type": "object",
        **wanted("a mapping of tables"),
        "properties": tables,
        "additionalProperties": {**ref("table"), **overlays.NEW_TABLE},
        "propertyNames": overlays.TABLE_NAMES,
    }
