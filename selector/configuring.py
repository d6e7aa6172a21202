"""Which config counts: the structured one, the shorthand flag and the environment, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from selector.faults import Fault, Path, wrong_type
from selector.rules.problems import shown
from selector.ruleset import RuleSet

if TYPE_CHECKING:
    from selector.config import AttentionConfig, AttentionSpec

BACKEND_VARIABLE = "DIFFUSION_ATTENTION_BACKEND"
POLICY_VARIABLE = "ATTENTION_SELECTOR_POLICY"
POLICIES = ("fallback", "strict")
Origin = Literal["config", "flag", "env", "platform"]


@dataclass(frozen=True, slots=True)
class Choices:
    """What the user chose: an entry per role, and the default with where it came from.

    `unread` is what the environment names as default where a flag or the config went before it, so that it is not read.
    """

    per_role: Mapping[str, AttentionSpec] = field(default_factory=dict)
    default: AttentionSpec | None = None
    default_origin: Origin = "config"
    unread: tuple[str, ...] = field(default=(), compare=False)

    def entry(self, name: str, role: str, category: str | None) -> tuple[AttentionSpec | None, Origin]:
        """Give the spec that a row of `role_fallback` names, with its origin."""
        if name == "platform":
            return None, "platform"
        if name == "default":
            return self.default, self.default_origin
        key = role if name == "role" else category
        return (self.per_role.get(key) if key else None), "config"

    def facts(self, role: str, category: str | None) -> dict[str, bool]:
        """Give the facts that `role_fallback` asks about."""
        return {
            "configured.role": role in self.per_role,
            "configured.category": category is not None and category in self.per_role,
            "configured.default": self.default is not None,
        }


NOTHING = Choices()


def choose(
    config: object, flag: object, environment: Mapping[str, object], rules: RuleSet, path: Path = ()
) -> tuple[list[Fault], Choices]:
    """Merge the three sources. `config` is plain data or an `AttentionConfig`; None means not given.

    `path` leads to where config, flag and environment stand in the input. A fault with the code `mutually_exclusive`
    stands alone: it counts whatever else is wrong.
    """
    if config is None and flag is None and _variable(environment, BACKEND_VARIABLE) is None:
        return [], NOTHING
    named = _named(config)
    if flag is not None and named is not None:
        message = f"the shorthand `{shown(flag)}` excludes `default.backend` of the config, which is {shown(named)}"
        return [Fault((*path, "backend"), "mutually_exclusive", message, "leave one of the two out")], NOTHING
    from selector.config import AttentionConfig, is_auto, read_config  # pydantic only where config is read

    faults: list[Fault] = []
    read = AttentionConfig()
    if config is not None:
        plain = config.model_dump(exclude_unset=True) if isinstance(config, AttentionConfig) else config
        faults, read = read_config(plain, rules, (*path, "config"))
    supplied, origin, where = _supplied(flag, environment, path, named=named is not None)
    faults += _name_faults(supplied, rules, where)
    if faults:
        return faults, NOTHING
    name = None if supplied is None or is_auto(supplied) else str(supplied)
    faults, choices = _merge(read, name, origin, rules, (*path, "config", "default"))
    unread = None if origin == "env" else _variable(environment, BACKEND_VARIABLE)
    return faults, choices if unread is None or faults else replace(choices, unread=(shown(unread),))


def _variable(environment: Mapping[str, object], name: str) -> object:
    """Give a variable's value; an empty one is not set."""
    value = environment.get(name)
    return None if value == "" else value


def _named(config: object) -> str | None:
    """Give the backend other than `auto` that a config names as default, whatever else is wrong with it."""
    default = config.get("default") if isinstance(config, Mapping) else getattr(config, "default", None)
    backend = default.get("backend") if isinstance(default, Mapping) else getattr(default, "backend", default)
    if backend is None or (isinstance(backend, str) and backend.lower() == "auto"):
        return None
    return str(backend)


def _supplied(
    flag: object, environment: Mapping[str, object], path: Path, *, named: bool
) -> tuple[object, Origin, Path]:
    """Give what the flag says, or else the environment where it is read at all."""
    if flag is not None:
        return flag, "flag", (*path, "backend")
    if named:
        return None, "config", path
    return _variable(environment, BACKEND_VARIABLE), "env", (*path, "env", BACKEND_VARIABLE)


def _name_faults(name: object, rules: RuleSet, path: Path) -> list[Fault]:
    from selector.config import name_faults

    if name is None:
        return []
    return list(name_faults(name, rules, path)) if isinstance(name, str) else [wrong_type(path, "a backend name", name)]


def _merge(
    config: AttentionConfig, name: str | None, origin: Origin, rules: RuleSet, path: Path
) -> tuple[list[Fault], Choices]:
    """Put a supplied name and the blocks of the structured default together."""
    from selector.config import AttentionSpec, spec_faults

    spec = config.default
    if spec is None or spec.backend is None:
        if name is None and spec is not None:
            blocks = " and ".join(f"`{block}`" for block in spec.blocks())
            return [Fault(path, "dropped-block", f"{blocks} names no backend, so nothing would read it")], NOTHING
        if name is not None:
            known = rules.named(name)
            spec = spec.model_copy(update={"backend": known}) if spec else AttentionSpec.model_construct(backend=known)
            faults = [fault._replace(path=(*path, *fault.path)) for fault in spec_faults(spec, rules)]
            if faults:
                return faults, NOTHING
            return [], Choices(config.per_role, spec, origin)
    return [], Choices(config.per_role, spec, "config")


def read_policy(given: object, environment: Mapping[str, object], path: Path) -> tuple[list[Fault], str]:
    """Give the policy: the one given, else the environment's, else `fallback`."""
    value, where = given, (*path, "policy")
    if value is None:
        value, where = _variable(environment, POLICY_VARIABLE), (*path, "env", POLICY_VARIABLE)
    if value is None:
        return [], "fallback"
    if not isinstance(value, str):
        return [wrong_type(where, "a string", value)], "fallback"
    if value not in POLICIES:
        from selector.rules.problems import nearest, shown

        message = f"`policy`: wanted one of {', '.join(POLICIES)}, got `{shown(value)}`"
        return [Fault(where, "bad-value", message, nearest(value, POLICIES))], "fallback"
    return [], value
