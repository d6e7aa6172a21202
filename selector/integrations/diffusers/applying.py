"""`apply`: every module of attention of a pipeline gets the backend of its role."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from selector.dispatch.layer import Attention
from selector.integrations.diffusers import registry
from selector.integrations.diffusers.families import FAMILIES
from selector.integrations.diffusers.installing import install
from selector.integrations.diffusers.kernels import ARGUMENTS, Dispatcher, kernel_of
from selector.integrations.diffusers.modules import Found, components_of, modules_of
from selector.integrations.diffusers.processors import is_routed
from selector.integrations.diffusers.recognised import Look, Recognised, names_of
from selector.integrations.diffusers.report import ApplyError, Installed, Report, Row, Untouched
from selector.integrations.diffusers.roles import PIPELINES
from selector.integrations.diffusers.untyped import Untyped
from selector.integrations.diffusers.versions import dispatch_module
from selector.integrations.diffusers.watching import Watch
from selector.rules.problems import nearest
from selector.selecting import Rules, Selector

if TYPE_CHECKING:
    from selector.config import AttentionConfig
    from selector.serving import Sourced


def apply(
    target: Untyped,
    *,
    config: AttentionConfig | Mapping[str, object] | str | Path | Sourced | None = None,
    rules: Rules = None,
    backend: str | None = None,
    facts: Mapping[str, object] | str | Path | None = None,
    policy: str | None = None,
    model: str | None = None,
    selector: Selector | None = None,
) -> Report:
    """Give every module of attention of a diffusers pipeline or model the backend of its role.

    `config`, `backend`, `rules`, `facts` and `policy` are those of `Selector`; `selector` is one that is there already.
    `model` is the name in the models table, by default the pipeline's class or hub id. Nothing outside the modules of
    `target` changes, neither other models nor diffusers' default. The report tells what was decided, `verify` checks it
    after a forward, `undo` or the end of a ``with`` takes it back.

    Raises `ApplyError`, and changes nothing, when a configured role matches no module, when a module of a configured
    role attends by a way that cannot be chosen, or for a target that has a choice already; `SelectionRefusedError` when
    the rules refuse; `UnsupportedDiffusersError` for a version that lacks what this needs.
    """
    dispatch_module()
    if selector is None:
        selector = Selector(rules=rules, facts=facts, config=config, backend=backend, policy=policy)
    components = components_of(target)
    found = [one for name, whole in components.items() for one in modules_of(name, whole)]
    _refuse(_unsuitable(target, found))
    untouched = tuple(_left_alone(found))
    groups = _grouped(found, {one.module for one in untouched})
    layers = [_layer(selector, group, _model(selector, target, group[0], model), components) for group in groups]
    _refuse([*_unmatched(selector, found, layers), *_not_chosen(selector, untouched)])
    return _put(components, groups, layers, untouched)


def _refuse(problems: Iterable[str]) -> None:
    told = list(problems)
    if told:
        raise ApplyError(told)


def _put(
    components: Mapping[str, Untyped],
    groups: Sequence[Sequence[Found]],
    layers: Sequence[Attention],
    untouched: tuple[Untouched, ...],
) -> Report:
    """Register, install and hook what was decided; from here on nothing is refused."""
    recognised = {name: Recognised() for name in components}
    foreign, rows = tuple(registry.patches()), []
    for group, layer in zip(groups, layers, strict=True):
        dispatcher = Dispatcher(group[0].role, layer, recognised[group[0].component])
        member = registry.register(group[0].role, kernel_of(dispatcher), ARGUMENTS)
        names = tuple(one.place for one in group)
        rows.append(Row(group[0].role, group[0].component, names, layer.decision, dispatcher, member))
    report = Report(tuple(rows), untouched, foreign)
    for group, row in zip(groups, rows, strict=True):
        report.installed += [install(one, row) for one in group]
    for name, whole in components.items():
        _hook(report, name, whole, recognised[name], groups)
    return report


# --- what cannot be chosen ---


def _unsuitable(target: object, found: Sequence[Found]) -> Iterator[str]:
    if not found:
        yield f"wanted a diffusers pipeline or model with modules of attention, got `{type(target).__name__}` with none"
    for one in found:
        processor = one.module.processor
        if registry.is_ours(getattr(processor, "_attention_backend", None)) or is_routed(processor):
            yield f"`{one.place}`: a choice was applied to it already; undo that one first"
        if getattr(processor, "_parallel_config", None) is not None:
            yield f"`{one.place}`: context parallelism is set up for it, which no backend here supports"


def _left_alone(found: Sequence[Found]) -> Iterator[Untouched]:
    for one in found:
        processor = one.module.processor
        owner = registry.foreign_owner(getattr(processor, "_attention_backend", None))
        if owner is not None:
            yield Untouched(one.place, one.role, f"`{owner}` has set its backend")
        elif one.route == "none":
            yield Untouched(one.place, one.role, f"`{type(processor).__name__}` calls neither dispatcher nor torch")


def _unmatched(selector: Selector, found: Sequence[Found], layers: Sequence[Attention]) -> Iterator[str]:
    roles = {one.role for one in found}
    known = roles | {layer.decision.role_category for layer in layers if layer.decision.role_category}
    for role in selector.choices.per_role:
        if role not in known:
            hint = nearest(role, sorted(known))
            yield f"role `{role}` is configured and matches no module; there are {', '.join(sorted(known))}" + (
                f"; {hint}" if hint else ""
            )


def _not_chosen(selector: Selector, untouched: Sequence[Untouched]) -> Iterator[str]:
    for one in untouched:
        if selector.decide(one.role).source not in (None, "platform"):
            yield f"`{one.module}`: role `{one.role}` is configured, and here attention cannot be chosen: {one.because}"


# --- what is decided ---


def _grouped(found: Sequence[Found], untouched: Container[str]) -> list[list[Found]]:
    """Modules of one component, role and size each, in their order."""
    groups: dict[tuple[object, ...], list[Found]] = {}
    for one in found:
        if one.place not in untouched:
            groups.setdefault((one.component, one.role, *sorted(one.sizes.items())), []).append(one)
    return list(groups.values())


def _layer(
    selector: Selector, group: Sequence[Found], model: str | None, components: Mapping[str, Untyped]
) -> Attention:
    facts: dict[str, Untyped] = dict(group[0].sizes)
    dtype = getattr(components[group[0].component], "dtype", None)
    if dtype is not None:
        facts["dtype"] = str(dtype).removeprefix("torch.")
    if model is not None:
        facts["model"] = model
    return Attention(group[0].role, selector=selector, **facts)


def _model(selector: Selector, target: Untyped, found: Found, given: str | None) -> str | None:
    if given is not None:
        return given
    hub_id = getattr(target, "name_or_path", None) or getattr(getattr(target, "config", None), "_name_or_path", None)
    for name in (hub_id, type(target).__name__, PIPELINES.get(found.owner)):
        if isinstance(name, str) and name in selector.rules.models:
            return name
    return None


def _hook(report: Report, name: str, whole: Untyped, recognised: Recognised, groups: Sequence[Sequence[Found]]) -> None:
    watch = report.watches[name] = Watch()
    family = FAMILIES.get(type(whole).__name__)
    if family is not None:
        look = Look(recognised, names_of(whole), family.tensors, family.eager, family.traced)
        handles = [
            whole.register_forward_pre_hook(look.before, with_kwargs=True),
            whole.register_forward_hook(look.after, always_call=True),
        ]
        report.installed += [Installed(name, lambda: None, handle.remove) for handle in handles]
    pairs = zip(report.rows, groups, strict=True)
    watch.begin(whole, [(one, row.dispatcher) for row, group in pairs for one in group if one.component == name])
