"""The files beside the tables as models: backends and providers, roles, standing warnings, models."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from selector.schemas import overlays
from selector.schemas.annotations import NOT_BLANK, Def, Document, Says, Text, optional, wanted
from selector.schemas.tables import FactName, When

BackendName = Annotated[str, Def("listed-backend")]
Tokens = Annotated[int, Says({"minimum": 0})]
Category = Annotated[
    str, Says({"type": ["string", "null"], "pattern": NOT_BLANK, **wanted("a string, or null to take it out")})
]

# --- what rules choose between ------------------------------------------------------------------------------------


class Caution(Document):
    """A condition under which something is unverified, and the warning that says so."""

    id: Text = optional("Name of the caution.")
    when: When = Field(description="When to warn.")
    warn: Text = Field(description="The warning; `{fact}` stands for a fact's value.")
    because: Text = Field(description="Why a warning is enough, and why it is needed.")
    source: Text = optional("Where this is known from.")


class BackendEntry(Document):
    """A backend: what it can run, what is unverified about it, and the config blocks it reads; null takes it out."""

    model_config = overlays.REMOVABLE

    about: Text = Field(description="What the backend is.")
    ability: When = optional("What it needs to run; it joins every row that would use the backend.")
    unverified: list[Caution] = optional("Where it may run though nobody has shown it.")
    default_name: Text = optional("Its name in the log line of a platform default; left out, its own.")
    unbound: FactName = optional("The fact that is taken as absent when its kernel fails to bind.")
    takes: list[Text] = optional("What the kernel may be told beside its config.")
    reads: Annotated[object, Def("reads")] = optional("The config blocks it reads.")
    providers: list[Text] = optional("The builds of its kernel, where there are several.")


class ProviderEntry(Document):
    """One build of a backend's kernel; null takes it out."""

    model_config = overlays.REMOVABLE

    backend: BackendName = Field(description="The backend that it belongs to.")
    about: Text = Field(description="What the build is.")
    unbound: FactName = optional("The fact that is taken as absent when the build fails to bind.")
    ability: When = optional("What it needs to run.")


class BackendsFile(Document):
    """What each backend and each provider can run: the one statement of it, joined to every row that uses them."""

    model_config = ConfigDict(
        title="Backends and providers", json_schema_extra={"allOf": [overlays.some_of("backends", "providers")]}
    )

    backends: dict[str, BackendEntry] = optional("Backends by their names.")
    providers: dict[str, ProviderEntry] = optional("Providers by their names.")


class RolesFile(Document):
    """Role → category: the category whose entry of the config speaks for a role that has none of its own."""

    model_config = ConfigDict(title="Roles")

    roles: dict[str, Category] = Field(
        description="Categories by role; `name.*` stands for every role that begins with `name.`. Null takes one out."
    )


class WarningEntry(Caution):
    """A standing warning; with `disable` the one of this id is taken out."""

    model_config = ConfigDict(
        json_schema_extra={"required": [], "allOf": [*overlays.listed("id", "when", "warn", "because")]}
    )

    disable: overlays.Always = optional("Take the warning of this id out.")


class WarningsFile(Document):
    """What every decision warns of where the condition holds, whatever was chosen."""

    model_config = ConfigDict(title="Standing warnings")

    warnings: list[WarningEntry] = Field(description="The warnings, in the order in which a decision lists them.")


# --- models -------------------------------------------------------------------------------------------------------


class ShapeEntry(Document):
    """Sequence lengths of one attention call."""

    name: Text = Field(description="What the lengths stand for.")
    seq_len_q: Tokens = Field(description="Number of queries, in tokens.")
    seq_len_kv: Tokens = Field(description="Number of keys, in tokens.")


class CompiledEntry(Document):
    """What changes under torch.compile."""

    head_dim: Annotated[object, Def("fact.head_dim")] = optional()
    num_heads: Annotated[object, Def("fact.num_heads")] = optional()
    num_kv_heads: Annotated[object, Def("fact.num_kv_heads")] = optional()


class RoleEntry(CompiledEntry):
    """What is known of one role of a model."""

    category: Text = optional("The category that the role belongs to.")
    mask: Annotated[object, Def("fact.mask")] = optional()
    layers: int = optional("Number of layers with this role.")
    compiled: CompiledEntry = optional("What changes under torch.compile.")
    shapes: list[ShapeEntry] = optional("Typical lengths, at batch 1.")
    same_as: Text = optional("Another role of the model, whose entry stands for this one too.")


class ModelEntry(Document):
    """A model under all its names; with `disable` it is taken out under these names."""

    model_config = ConfigDict(
        json_schema_extra={"required": [], "allOf": [*overlays.listed("names", "names", "mask_free", "roles")]}
    )

    names: list[Text] = Field(description="Pipeline classes and hub ids, matched exactly.")
    about: Text = optional("What the model is.")
    mask_free: Annotated[object, Def("fact.mask_free")]
    head_dim: Annotated[object, Def("fact.head_dim")] = optional()
    roles: dict[str, RoleEntry] = Field(description="Its attention layers by role.")
    limitations: list[Text] = optional("What is known not to work.")
    disable: overlays.Always = optional("Take what is known under these names out.")


class ModelsFile(Document):
    """What is known of the attention layers of models; a request that names one need not say it again."""

    model_config = ConfigDict(title="Models")

    models: list[ModelEntry] = Field(description="The models.")
