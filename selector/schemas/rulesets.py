"""A whole set of rules in one file, as a model: what `attention-selector rules --show` writes."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict

from selector.schemas import overlays
from selector.schemas.annotations import Def, Document, optional
from selector.schemas.catalogs import BackendsFile, ModelsFile, RolesFile, WarningsFile
from selector.schemas.tables import VocabularyFile

_KEYS = ("vocabulary", "backends", "roles", "models", "warnings", "tables")


class RuleSetFile(Document):
    """A set of rules in one file: under each key what a file of that kind holds, and every table by its name."""

    model_config = ConfigDict(title="Rule set", json_schema_extra={"allOf": [overlays.some_of(*_KEYS)]})

    vocabulary: VocabularyFile = optional("The words: facts, derived facts, sets and packages.")
    backends: BackendsFile = optional("What each backend and each provider can run.")
    roles: RolesFile = optional("Categories by role.")
    models: ModelsFile = optional("What is known of the attention layers of models.")
    warnings: WarningsFile = optional("What every decision warns of where the condition holds.")
    tables: Annotated[object, Def("tables")] = optional("Each table by its name, without the key `table`.")
