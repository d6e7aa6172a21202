"""The rule tables and the vocabulary as models. They say what a person may write; `selector.rules` reads it."""

from __future__ import annotations

from typing import Annotated, get_args, get_type_hints

from pydantic import ConfigDict, Field

from selector.rules.orders import ORDERS
from selector.rules.tables import ACTIONS
from selector.rules.vocabulary import Derived, Fact, Group
from selector.rules.words import RESERVED
from selector.schemas import overlays
from selector.schemas.annotations import SCALARS, Def, Document, Says, Text, fault, optional

_NAME = r"^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)*$"
_ID = r"^[a-z0-9]+(-[a-z0-9]+)*$"
_BAD_ID = "row id `{got}` is not kebab-case (small letters, digits and single hyphens)"
_BAD_NAME = (
    "`{got}` is no name for a fact: wanted small letters, digits, `_`, `-` and dots, and none of the reserved words"
)
RowId = Annotated[Text, Says({"pattern": _ID, **fault("bad-id", _BAD_ID, told="wanted kebab-case")})]
When = Annotated[object, Def("when")]
FactName = Annotated[str, Def("fact-name")]
Scalar = Annotated[object, Says({"type": SCALARS})]
FactNames = Says(
    {
        "propertyNames": {
            "pattern": _NAME,
            "not": {"enum": list(RESERVED)},
            **fault("bad-name", _BAD_NAME, told="wanted small letters, digits, `_`, `-` and dots"),
        }
    }
)


# --- tables -------------------------------------------------------------------------------------------------------


class Row(Document):
    """One row: a condition, exactly one action, and the reason for its place in the order."""

    model_config = ConfigDict(json_schema_extra={"allOf": [*overlays.ROW]})

    id: RowId = Field(description="Name of the row in its table: kebab-case, stable, never used again for another row.")
    when: When = optional("What must hold for the row to fire; left out, it always does.")
    use: Text = optional("Run this backend or provider; `{backend}` is the one that was named.")
    substitute: Text = optional("Put this backend in the place of the one that was named, with a warning.")
    refuse: Text = optional("Refuse, with this sentence; `{fact}` stands for a fact's value.")
    entry: Text = optional("Let this entry of the config speak for the role.")
    because: Text = Field(description="The reason for the row's place in the order.")
    log: Text = optional("Words that the log line puts in brackets; `{fact}` stands for a fact's value.")
    warn: Text = optional("Warning that the decision carries; `{fact}` stands for a fact's value.")
    redecide: Annotated[object, Def("fact-values")] = optional(
        "Facts taken for granted when a default is refused here and decided again."
    )
    transform: Text = optional("How the call is changed without changing its result.")
    until: Text = optional("When the row may go; lint and explain tell when that has come.")
    source: Text = optional("Where this is known from.")


class Edit(Row):
    """One change to a row of a table that stands already: take it out, move it, replace it, or insert a new one."""

    model_config = ConfigDict(json_schema_extra={"allOf": [*overlays.EDIT]})

    id: RowId = Field(description="Name of the row that changes, or of the new one.")
    because: Text = Field(description="The reason for the change, and so for the row's place in the order.")
    disable: overlays.Always = optional("Take the row of this id out.")
    before: Text = optional(
        "Put the row in front of the row of this id: it moves there, or is new if it has an action."
    )
    after: Text = optional("Put the row behind the row of this id: it moves there, or is new if it has an action.")


class RuleTable(Document):
    """An ordered table, whole (`rows`) or as changes to the one that stands already (`edits`).

    The first row that holds wins, and the last one has no `when`, so that there is an answer.
    """

    model_config = ConfigDict(title="Rule table", json_schema_extra={"allOf": [*overlays.TABLE]})

    table: Text = Field(description="Which of the tables this is; with `new`, the name of your own.")
    new: overlays.Always = optional("Say that the table is a new one of your own, so that its name is no slip.")
    description: Text = optional("The question that the table answers.")
    targets: Text = optional("What `use` and `substitute` name.", examples=["backends", "providers"])
    actions: list[Annotated[str, Says({"enum": list(ACTIONS)})]] = optional(
        "The actions that rows of this table may take."
    )
    requires: list[FactName] = optional("Facts without which the table gives no answer; the decision is then invalid.")
    rows: Annotated[list[Row], Field(min_length=1)] = optional(
        "The rows of the whole table, in the order in which they are asked."
    )
    edits: Annotated[list[Edit], Field(min_length=1)] = optional(
        "Changes to the rows of the table that stands already, made in this order; every other row stays as it is."
    )


# --- vocabulary ---------------------------------------------------------------------------------------------------


class ValuePattern(Document):
    """What the text of a value must look like."""

    regex: Text = Field(description="Regular expression that the whole text must match.")
    example: Text = Field(description="A value that matches, for messages.")


class PatternOn(ValuePattern):
    """What the text of a value must look like where another fact has a certain value."""

    fact: FactName = Field(description="The other fact.")
    value: Text = Field(description="The value of the other fact.")


class FactEntry(Document):
    """One fact: its type, who gives it, its values, how they compare, and a sentence; null takes it out."""

    model_config = overlays.REMOVABLE

    type: Annotated[str, Says({"enum": list(get_args(get_type_hints(Fact)["type"]))})] = Field(
        description="Type of the values; a version is a string as PEP 440 writes it."
    )
    group: Group = Field(description="Who gives the fact: the machine, the request, the call, or the config.")
    about: Text = Field(description="What the fact says.")
    values: list[Text] = optional("The values there are, where they can be listed.")
    special: list[Text] = optional("Words that stand for a number that is not known as one.")
    minimum: int = optional("The least number that is a value.")
    unit: Text = optional("What is counted.")
    order: Annotated[str, Says({"enum": list(ORDERS)})] = optional("How values compare; left out, they do not.")
    null: bool = optional("Whether null is a value (there is none of it) and not just unknown.")
    null_word: Text = optional("What a log line says for null.")
    fixed: bool = optional("Whether nobody changes it on a machine as it is.")
    pattern: ValuePattern = optional("What the text of a value must look like.")
    on: PatternOn = optional("What it must look like where another fact has a certain value.")


class DerivedEntry(Document):
    """A boolean fact that follows from two others; null takes it out."""

    model_config = overlays.REMOVABLE

    relation: Annotated[str, Says({"enum": list(get_args(get_type_hints(Derived)["relation"]))})] = Field(
        description="How the two facts stand to each other; `divisible` asks whether the second divides the first."
    )
    of: list[FactName] = Field(min_length=2, max_length=2, description="The two facts.")
    about: Text = optional("What the fact says.")


class SetEntry(Document):
    """A named set of values of one fact, or with `add` more values for the set of that name; null takes it out."""

    model_config = overlays.removable({"allOf": overlays.SET})

    fact: FactName = optional("The fact whose values these are.")
    values: list[Scalar] = optional("The values; an architecture may be a family such as sm_10x.")
    about: Text = optional("What the values have in common.")
    add: Annotated[list[Scalar], Field(min_length=1)] = optional(
        "Values that join those of the set of this name, which stands already."
    )


class PackageEntry(Document):
    """A package that rules ask about as `packages.NAME`; null takes it out."""

    model_config = overlays.REMOVABLE

    distributions: list[Text] = Field(
        description="Distributions that bring it; the first one installed gives the version."
    )
    modules: list[Text] = optional("Modules that a deep probe imports.")
    symbols: list[Text] = optional("`module:name` pairs that a deep probe looks for.")
    about: Text = optional("What the package is.")


class VocabularyFile(Document):
    """The words of the rules: a rule that uses a fact, a set or a value that does not stand here does not load."""

    model_config = ConfigDict(
        title="Vocabulary", json_schema_extra={"allOf": [overlays.some_of("facts", "derived", "sets", "packages")]}
    )

    facts: Annotated[dict[str, FactEntry], FactNames] = optional("Facts by their names.")
    derived: Annotated[dict[str, DerivedEntry], FactNames] = optional("Facts that follow from others.")
    sets: dict[str, SetEntry] = optional("Named sets of values.")
    packages: Annotated[dict[str, PackageEntry], FactNames] = optional(
        "Packages; each is a fact too, its version, null when it is absent."
    )
