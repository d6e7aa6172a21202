"""The attention config: typed specs for a default and per role, as users write them."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from selector.faults import MOST_TOLD, Fault, Path, typed, unknown_key, unknown_keys, wrong_type
from selector.rules.problems import listing, nearest, shown
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, shipped

if TYPE_CHECKING:
    from collections.abc import Iterator

AUTO = "auto"
BLOCKS = ("skip_softmax", "quant")
SPEC_KEYS = ("backend", *BLOCKS)
_Fraction = Annotated[float, Field(ge=0, le=1)]


class _Block(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class SkipSoftmaxSpec(_Block):
    """Skip-Softmax of `TRTLLM_ATTN`: attention tiles whose weight stays below a threshold are skipped.

    Give `target_sparsity` (a point on the model's calibrated curve) or `threshold` (no calibration), not both; with
    neither the kernel runs dense. Numbers are finite; booleans and strings are none. Raises pydantic's
    `ValidationError` (a `ValueError`).
    """

    target_sparsity: _Fraction | None = Field(None, description="Operating point on the calibrated curve, from 0 to 1.")
    threshold: Annotated[float, Field(ge=0)] | None = Field(None, description="Direct threshold, at least 0.")
    disabled_until_timestep: _Fraction | None = Field(
        None, description="Steps whose normalised timestep is above this one, from 0 to 1, stay dense."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if self.target_sparsity is not None and self.threshold is not None:
            message = "wanted one of `target_sparsity` and `threshold`, got both"
            raise ValueError(message)
        return self


class AttnQuantSpec(_Block):
    """Quantised attention, shared by several backends; which fields and values a backend reads stands in its rules."""

    dtype_qk: str | None = Field(None, description="Type that queries and keys are quantised to.")
    dtype_vo: str | None = Field(None, description="Type that values are quantised to.")
    q_block_size: int = Field(1, description="Tokens that share one scale, for queries.")
    k_block_size: int = Field(16, description="Tokens that share one scale, for keys.")
    flashinfer_backend: str | None = Field(None, description="FlashInfer kernel to run.")


_FORM_ALONE: Mapping[str, None] = {"rules": None}


def _rules(info: ValidationInfo) -> RuleSet | None:
    """Give the rules to check against: those of the context, else the shipped ones; None checks the form alone."""
    context = info.context if isinstance(info.context, Mapping) else {}
    rules: RuleSet | None = context["rules"] if "rules" in context else shipped()
    return rules


def _canonical(name: str | None, rules: RuleSet) -> str | None:
    return None if name is None else rules.named(name) or name.lower()


def _raise(faults: Iterable[Fault]) -> None:
    text = "; ".join(fault.message + (f" ({fault.hint})" if fault.hint else "") for fault in faults)
    if text:
        raise ValueError(text)


def _block_value(value: object) -> object:
    """Let a typed block pass where a mapping is read."""
    return value.model_dump(exclude_unset=True) if isinstance(value, _Block) else value


class AttentionSpec(_Block):
    """One entry of the config: a backend and the blocks it reads.

    The name is checked against the rules, letter case aside, and the blocks against what that backend reads; the
    rules are the shipped ones unless validation is given others (``context={"rules": …}``).
    """

    backend: str | None = Field(None, description="Backend name, or `auto` for none.")
    skip_softmax: Annotated[SkipSoftmaxSpec, BeforeValidator(_block_value)] | None = None
    quant: Annotated[AttnQuantSpec, BeforeValidator(_block_value)] | None = None

    @model_validator(mode="after")
    def _fits_backend(self, info: ValidationInfo) -> Self:
        rules = _rules(info)
        if rules is None:
            return self
        _raise(spec_faults(self, rules))
        object.__setattr__(self, "backend", _canonical(self.backend, rules))
        return self

    @property
    def automatic(self) -> bool:
        """Whether the entry leaves the choice open."""
        return self.backend is None or is_auto(self.backend)

    def blocks(self) -> dict[str, dict[str, Value]]:
        """Give the blocks that were written, each with the fields that were."""
        given = {name: getattr(self, name) for name in BLOCKS}
        return {
            name: block.model_dump(exclude_none=True, exclude_unset=True)
            for name, block in given.items()
            if block is not None
        }


class AttentionConfig(_Block):
    """What the user wants: a default for every layer and entries per role.

    Values of `per_role` are specs, backend names or mappings of nested roles (``{"ltx2": {"audio_self": "X"}}`` is
    the role ``ltx2.audio_self``). An entry `auto` is as if it were not there.
    """

    default: AttentionSpec | None = None
    per_role: dict[str, AttentionSpec] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _normal(cls, value: object, info: ValidationInfo) -> object:
        if not isinstance(value, Mapping):
            return value
        faults, entries = read_entries(_plain(value), _rules(info) or shipped())
        _raise(faults)
        return entries


def _plain(value: object) -> object:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    return {key: _plain(child) for key, child in value.items()} if isinstance(value, Mapping) else value


def is_auto(name: object) -> bool:
    """Whether a name stands for no choice, in any letter case."""
    return isinstance(name, str) and name.lower() == AUTO


def read_config(value: object, rules: RuleSet, path: Path = ()) -> tuple[list[Fault], AttentionConfig]:
    """Validate a plain config against the rules; gives every fault at once, with paths that begin with `path`."""
    faults, entries = read_entries(value, rules, path)
    return faults, AttentionConfig.model_construct(**entries)


def read_entries(value: object, rules: RuleSet, path: Path = ()) -> tuple[list[Fault], dict[str, Any]]:
    """Flatten nested roles, drop what is `auto`, and find every fault."""
    entries: dict[str, Any] = {"default": None, "per_role": {}}
    if not isinstance(value, Mapping):
        return [wrong_type(path, "a mapping with `default` and `per_role`", value)], entries
    faults = unknown_keys(path, value, entries)
    if value.get("default") is not None:
        found, entries["default"] = _entry(value["default"], rules, (*path, "default"))
        faults += found
    per_role = value.get("per_role", {})
    if not isinstance(per_role, Mapping):
        return [*faults, wrong_type((*path, "per_role"), "a mapping of roles", per_role)], entries
    seen: set[str] = set()
    for role, entry, where in _entries(per_role, "", (*path, "per_role")):
        found = list(_role_faults(role, entry, where, seen))
        spec = None
        if not found:
            found, spec = _entry(entry, rules, where, needs_backend=True)
        faults += found
        if len(faults) > MOST_TOLD:
            faults.append(Fault((*path, "per_role"), "too-many", "and perhaps more, which are not looked at"))
            break
        seen.add(role)
        if spec is not None:
            entries["per_role"][role] = spec
    return faults, entries


def _entries(tree: Mapping[Any, object], prefix: str, path: Path) -> Iterator[tuple[str, object, Path]]:
    """Give every role with its entry, nested roles joined with dots."""
    for key, entry in tree.items():
        role = f"{prefix}{key}"
        nested = isinstance(entry, Mapping) and entry and not any(name in entry for name in SPEC_KEYS)
        if nested and isinstance(key, str) and isinstance(entry, Mapping):
            yield from _entries(entry, f"{role}.", (*path, key))
        else:
            yield role, entry, (*path, key)


def _role_faults(role: str, entry: object, path: Path, seen: Container[str]) -> Iterator[Fault]:
    if not all(part.strip() for part in role.split(".")):
        yield Fault(
            path, "bad-role", f"`{shown(role)}` is no name for a role: wanted names joined with dots", on_key=True
        )
    if role in seen:
        yield Fault(
            path, "duplicate-role", f"role `{shown(role)}` has two entries", "one is nested, one is dotted", on_key=True
        )
    mixed = [str(name) for name in entry if name not in SPEC_KEYS] if isinstance(entry, Mapping) else []
    roles = [name for name in mixed if isinstance(entry, Mapping) and isinstance(entry[name], Mapping | str)]
    if roles and not nearest(roles[0], SPEC_KEYS):
        message = f"`{shown(role)}` mixes the key of an entry with the nested role `{shown(roles[0])}`"
        yield Fault((*path, roles[0]), "mixed-roles", message, f"an entry holds {listing(SPEC_KEYS)}", on_key=True)


def _entry(
    entry: object, rules: RuleSet, path: Path, *, needs_backend: bool = False
) -> tuple[list[Fault], AttentionSpec | None]:
    """Read one entry: a name, or a mapping of a name and blocks. An `auto` entry, or an empty default, gives None."""
    if not isinstance(entry, str | Mapping):
        return [wrong_type(path, "a backend name or a mapping", entry)], None
    given = {"backend": entry} if isinstance(entry, str) else entry
    faults = []
    if needs_backend and given.get("backend") is None:
        faults.append(
            Fault(path, "no-backend", f"the entry for `{path[-1]}` names no `backend`: nothing would read it")
        )
    try:
        spec = AttentionSpec.model_validate(given, context=_FORM_ALONE)
    except ValidationError as error:
        name = given.get("backend")
        named = name_faults(name, rules, (*path, "backend")) if isinstance(name, str) else ()
        return [*faults, *pydantic_faults(error, path), *named], None
    for fault in spec_faults(spec, rules):
        within = () if isinstance(entry, str) else fault.path  # the value itself is the name
        faults.append(fault._replace(path=(*path, *within)))
    if faults or is_auto(spec.backend) or (spec.backend is None and not spec.blocks()):
        return faults, None
    return [], spec.model_copy(update={"backend": _canonical(spec.backend, rules)})


def name_faults(name: str, rules: RuleSet, path: Path) -> Iterator[Fault]:
    """Say that a backend name is not known, with the nearest."""
    if not is_auto(name) and rules.named(name) is None:
        hint = nearest(name, [*rules.backends, AUTO])
        yield Fault(
            path, "unknown-backend", f"no backend `{shown(name)}`", hint or f"known: {listing(list(rules.backends))}"
        )


def spec_faults(spec: AttentionSpec, rules: RuleSet) -> Iterator[Fault]:
    """Check a spec of valid form against the rules: its name, and whether the backend reads each block and value."""
    if spec.backend is None:
        return
    if is_auto(spec.backend):
        for block in spec.blocks():
            yield Fault((block,), "dropped-block", f"`{block}` stands beside `auto`, so nothing would read it")
        return
    yield from name_faults(spec.backend, rules, ("backend",))
    name = rules.named(spec.backend)
    if name is None:
        return
    reads = rules.backends[name].reads
    for block in BLOCKS:
        model = getattr(spec, block)
        if model is None:
            continue
        if block not in reads:
            others = [other for other, backend in rules.backends.items() if block in backend.reads]
            yield Fault(
                (block,),
                "unread-block",
                f"{name} does not read `{block}`",
                f"{listing(others)} does" if others else None,
            )
            continue
        for field in type(model).model_fields:
            if field not in model.model_fields_set:
                continue
            yield from _field_faults(name, block, field, getattr(model, field), reads[block])


def _field_faults(
    name: str, block: str, field: str, value: object, reads: Mapping[str, tuple[Value, ...]]
) -> Iterator[Fault]:
    if value is None:
        return
    if field not in reads:
        yield Fault(
            (block, field),
            "unread-field",
            f"{name} does not read `{block}.{field}`",
            f"it reads {listing(list(reads))}",
        )
        return
    allowed = reads[field]
    if allowed and not any(type(value) is type(item) and value == item for item in allowed):
        names = [str(item) for item in allowed]
        message = f"`{field}`: wanted one of {listing(names)} for {name}, got {typed(value)}"
        yield Fault((block, field), "bad-value", message, nearest(value, names))


_BLOCK_TYPES: Mapping[str, type[_Block]] = {"skip_softmax": SkipSoftmaxSpec, "quant": AttnQuantSpec}
_WANTED: Mapping[str, str] = {
    "float_type": "a number", "int_type": "an integer", "string_type": "a string", "finite_number": "a finite number",
    "model_type": "a mapping", "model_attributes_type": "a mapping", "dict_type": "a mapping",
    "int_from_float": "an integer",
}  # fmt: skip
_BOUNDS: Mapping[str, tuple[str, str]] = {
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
}


def pydantic_faults(error: ValidationError, path: Path) -> Iterator[Fault]:
    """Say in our words what pydantic found."""
    for item in error.errors(include_url=False):
        where: Path = (*path, *item["loc"])
        kind, value, context = item["type"], item.get("input"), item.get("ctx", {})
        if kind == "extra_forbidden":
            block = _BLOCK_TYPES.get(str(item["loc"][0])) if len(item["loc"]) > 1 else None
            yield unknown_key(where[:-1], where[-1], block.model_fields if block else SPEC_KEYS)
        elif kind in _BOUNDS:
            word, bound = _BOUNDS[kind]
            message = f"`{where[-1]}`: wanted a number of {word} {context[bound]:g}, got {typed(value)}"
            yield Fault(where, "out-of-range", message)
        elif kind in _WANTED:
            yield wrong_type(where, _WANTED[kind], value)
        else:
            yield Fault(where, "bad-value", item["msg"].removeprefix("Value error, "))
