"""What rules choose between and what is known of models: backends, providers, roles, models, standing warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from selector.rules.conditions import ALWAYS, Condition
from selector.rules.fields import Source, join
from selector.rules.nodes import Node, Plain
from selector.rules.problems import Place
from selector.rules.tables import TableReader
from selector.rules.vocabulary import Fact, Value
from selector.rules.when import Reader

Options = Mapping[str, Mapping[str, tuple[Value, ...]]]


@dataclass(frozen=True, slots=True)
class Caution:
    """A condition under which something is unverified, and the warning (a template) that says so."""

    when: Condition
    warn: str
    because: str
    place: Place


@dataclass(frozen=True, slots=True)
class Backend:
    """A backend: what it needs (`ability`), what is unverified about it, and the config blocks it reads.

    `default_name` is how the log line of a platform default names it. `reads` maps a block to its fields, each with the
    values it takes (empty: whatever the config allows). `unbound` is the fact that is taken as absent when the kernel
    fails to bind, for a backend without providers; `takes` names what the kernel may be told beside
    its config; `conditional` tells that an ability is written.
    """

    name: str
    about: str
    ability: Condition
    place: Place
    default_name: str
    unverified: tuple[Caution, ...] = ()
    reads: Options = field(default_factory=dict)
    providers: tuple[str, ...] = ()
    unbound: str | None = None
    takes: tuple[str, ...] = ()
    conditional: bool = False


@dataclass(frozen=True, slots=True)
class Provider:
    """One build of a backend's kernel; `unbound` is the fact that is taken as absent when it fails to bind."""

    name: str
    backend: str
    about: str
    ability: Condition
    unbound: str | None
    place: Place


@dataclass(frozen=True, slots=True)
class Shape:
    """Sequence lengths of one attention call, in tokens."""

    name: str
    seq_len_q: int
    seq_len_kv: int


@dataclass(frozen=True, slots=True)
class ModelRole:
    """One role of a model: the facts it supplies, plain and under torch.compile, and what is known beyond them."""

    category: str | None
    facts: Mapping[str, Value]
    compiled: Mapping[str, Value]
    mask: str | None
    layers: int | None
    shapes: tuple[Shape, ...]


@dataclass(frozen=True, slots=True)
class Model:
    """A model under all its names."""

    names: tuple[str, ...]
    about: str
    facts: Mapping[str, Value]
    roles: Mapping[str, ModelRole]
    limitations: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Roles:
    """Role → category, exact names first, then the longest prefix."""

    exact: Mapping[str, str]
    prefixes: tuple[tuple[str, str], ...]

    def category(self, role: str) -> str | None:
        """Give the category of a role, None when it has none."""
        if role in self.exact:
            return self.exact[role]
        return next((category for prefix, category in self.prefixes if role.startswith(prefix)), None)


@dataclass(frozen=True, slots=True)
class CatalogReader:
    """Reads the files that are no tables."""

    reader: Reader

    @property
    def source(self) -> Source:
        """The file being read."""
        return self.reader.source

    def backends(self, node: Node) -> tuple[dict[str, Backend], dict[str, Provider]]:
        """Read `backends.yaml`."""
        keys = self.source.mapping(node, "", ("backends", "providers"), required=("backends",))
        backends = self.source.mapping(keys.get("backends"), "backends", None)
        providers = self.source.mapping(keys.get("providers"), "providers", None)
        return (
            {name: self.backend(name, child, providers) for name, child in backends.items()},
            {name: self.provider(name, child, backends) for name, child in providers.items()},
        )

    def backend(self, name: str, node: Node, providers: Mapping[str, object]) -> Backend:
        """Read one backend."""
        path = f"backends.{name}"
        known = ("about", "ability", "unverified", "default_name", "reads", "providers", "unbound", "takes")
        keys = self.source.mapping(node, path, known, required=("about",))
        cautions = self.source.items(keys.get("unverified"), f"{path}.unverified")
        return Backend(
            name,
            self.source.string(keys.get("about"), f"{path}.about") or "",
            self.condition(keys.get("ability"), name),
            node.key_at(self.source.file, path),
            self.source.string(keys.get("default_name"), f"{path}.default_name") or name,
            tuple(self.caution(item, f"{path}.unverified[{index}]") for index, item in enumerate(cautions)),
            self.reads(keys.get("reads"), f"{path}.reads"),
            tuple(self.source.strings(keys.get("providers"), f"{path}.providers", providers)),
            self.source.choice(keys.get("unbound"), f"{path}.unbound", self.reader.vocabulary.facts),
            takes=tuple(self.source.strings(keys.get("takes"), f"{path}.takes")),
            conditional="ability" in keys,
        )

    def provider(self, name: str, node: Node, backends: Mapping[str, object]) -> Provider:
        """Read one provider."""
        path = f"providers.{name}"
        keys = self.source.mapping(
            node, path, ("about", "backend", "unbound", "ability"), required=("about", "backend")
        )
        return Provider(
            name,
            self.source.choice(keys.get("backend"), f"{path}.backend", backends) or "",
            self.source.string(keys.get("about"), f"{path}.about") or "",
            self.condition(keys.get("ability"), name),
            self.source.choice(keys.get("unbound"), f"{path}.unbound", self.reader.vocabulary.facts),
            node.key_at(self.source.file, path),
        )

    def condition(self, node: Node | None, path: str) -> Condition:
        """Read a `when` that may be missing."""
        return ALWAYS if node is None else self.reader.when(node, path)

    def caution(self, node: Node, path: str) -> Caution:
        """Read one `when` with its warning."""
        keys = self.source.mapping(
            node, path, ("when", "warn", "because", "source", "id"), required=("when", "warn", "because")
        )
        warn = TableReader(self.reader).template(keys.get("warn"), f"{path}.warn")
        because = self.source.string(keys.get("because"), f"{path}.because") or ""
        return Caution(self.condition(keys.get("when"), path), warn or "", because, node.at(self.source.file, path))

    def reads(self, node: Node | None, path: str) -> dict[str, dict[str, tuple[Value, ...]]]:
        """Read which config blocks and fields a backend reads."""
        found: dict[str, dict[str, tuple[Value, ...]]] = {}
        for block, child in self.source.mapping(node, path, None).items():
            where = f"{path}.{block}"
            if isinstance(child.value, list):
                found[block] = dict.fromkeys(self.source.strings(child, where), ())
                continue
            fields = self.source.mapping(child, where, None)
            found[block] = {name: self.values(item, f"{where}.{name}") for name, item in fields.items()}
        return found

    def values(self, node: Node, path: str) -> tuple[Value, ...]:
        """Read a list of scalars."""
        found: list[Value] = []
        for index, item in enumerate(self.source.items(node, path)):
            if isinstance(item.value, str | int):
                found.append(item.value)
            else:
                self.source.wrong_type(item, f"{path}[{index}]", "a string, an integer or a boolean")
        return tuple(found)

    def warnings(self, node: Node) -> tuple[Caution, ...]:
        """Read `warnings.yaml`."""
        keys = self.source.mapping(node, "", ("warnings",), required=("warnings",))
        items = self.source.items(keys.get("warnings"), "warnings")
        return tuple(self.caution(item, f"warnings[{index}]") for index, item in enumerate(items))

    def roles(self, node: Node) -> Roles:
        """Read `roles.yaml`."""
        keys = self.source.mapping(node, "", ("roles",), required=("roles",))
        exact, prefixes = {}, {}
        for name, child in self.source.mapping(keys.get("roles"), "roles", None).items():
            category = self.source.string(child, f"roles.{name}") or ""
            if name.endswith(".*"):
                prefixes[name[:-1]] = category
            else:
                exact[name] = category
        return Roles(exact, tuple(sorted(prefixes.items(), key=lambda item: -len(item[0]))))

    def models(self, node: Node) -> tuple[Model, ...]:
        """Read `models.yaml`."""
        keys = self.source.mapping(node, "", ("models",), required=("models",))
        items = self.source.items(keys.get("models"), "models")
        models = tuple(self.model(item, f"models[{index}]") for index, item in enumerate(items))
        seen: dict[str, Model] = {}
        for model in models:
            for name in model.names:
                if name in seen:
                    self.source.note(model.place, "duplicate-model", f"model `{name}` stands twice")
                seen[name] = model
        return models

    def model(self, node: Node, path: str) -> Model:
        """Read one model."""
        known = ("names", "about", "mask_free", "head_dim", "roles", "limitations")
        keys = self.source.mapping(node, path, known, required=("names", "mask_free", "roles"))
        facts = self.facts(keys, ("mask_free", "head_dim"), path)
        roles = self.model_roles(self.source.mapping(keys.get("roles"), f"{path}.roles", None), f"{path}.roles")
        return Model(
            tuple(self.source.strings(keys.get("names"), f"{path}.names")),
            self.source.string(keys.get("about"), f"{path}.about") or "",
            facts,
            roles,
            tuple(self.source.strings(keys.get("limitations"), f"{path}.limitations")),
            node.at(self.source.file, path),
        )

    def model_roles(self, nodes: Mapping[str, Node], path: str) -> dict[str, ModelRole]:
        """Read the roles of a model; one that is the `same_as` another holds nothing else."""
        alike: dict[str, str] = {}
        roles: dict[str, ModelRole] = {}
        for name, child in nodes.items():
            where = f"{path}.{name}"
            if isinstance(child.value, dict) and "same_as" in child.value:
                keys = self.source.mapping(child, where, ("same_as",))
                others = [other for other in nodes if other != name]
                alike[name] = self.source.choice(keys["same_as"], f"{where}.same_as", others) or ""
            else:
                roles[name] = self.role(child, where)
        for name, other in alike.items():
            end = name
            for _ in alike:
                end = alike.get(end, end)
            if end in roles:
                roles[name] = roles[end]
            elif end in alike:
                message = f"`{name}` is the same as `{other}`, and nothing says what that is"
                self.source.note(nodes[name].key_at(self.source.file, f"{path}.{name}"), "same-as-cycle", message)
        return {name: roles[name] for name in nodes if name in roles}

    def role(self, node: Node, path: str) -> ModelRole:
        """Read one role of a model."""
        supplied = ("head_dim", "num_heads", "num_kv_heads")
        known = (*supplied, "category", "mask", "layers", "compiled", "shapes", "same_as")
        keys = self.source.mapping(node, path, known)
        masks = self.reader.vocabulary.facts["mask"].values if "mask" in self.reader.vocabulary.facts else ()
        compiled = self.source.mapping(keys.get("compiled"), f"{path}.compiled", supplied)
        shapes = self.source.items(keys.get("shapes"), f"{path}.shapes")
        return ModelRole(
            self.source.string(keys.get("category"), f"{path}.category"),
            self.facts(keys, supplied, path),
            self.facts(compiled, supplied, f"{path}.compiled"),
            self.source.choice(keys.get("mask"), f"{path}.mask", masks),
            self.source.integer(keys.get("layers"), f"{path}.layers"),
            tuple(self.shape(item, f"{path}.shapes[{index}]") for index, item in enumerate(shapes)),
        )

    def shape(self, node: Node, path: str) -> Shape:
        """Read one shape."""
        known = ("name", "seq_len_q", "seq_len_kv")
        keys = self.source.mapping(node, path, known, required=known)
        lengths = [self.source.integer(keys.get(name), f"{path}.{name}") or 0 for name in known[1:]]
        return Shape(self.source.string(keys.get("name"), f"{path}.name") or "", *lengths)

    def facts(self, keys: Mapping[str, Node], names: tuple[str, ...], path: str) -> dict[str, Value]:
        """Read values of facts, each checked against the vocabulary."""
        found: dict[str, Value] = {}
        for name in names:
            fact: Fact | None = self.reader.vocabulary.facts.get(name)
            if name not in keys or fact is None:
                continue
            value: Plain = keys[name].plain()
            misfit = fact.misfit(value)
            if misfit is not None:
                self.source.note(
                    keys[name].at(self.source.file, join(path, name)), "bad-value", misfit.message, misfit.hint
                )
            elif isinstance(value, str | int | bool):
                found[name] = value
        return found
