"""A plan for one signature of call: the decision, and the kernel bound for it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from selector.decision import Decision, Failure, SelectionRefusedError
from selector.dispatch.current import current
from selector.dispatch.first_use import first_use, is_unverified
from selector.dispatch.signatures import OF_TENSORS, Alignment, Signature, alignment_of, described, signature_of
from selector.facts import Request
from selector.rules.problems import listing, nearest, shown
from selector.rules.vocabulary import Fact, Value
from selector.ruleset import RuleSet
from selector.selecting import Selector
from selector.serving import Serving

if TYPE_CHECKING:
    from torch import Tensor

    from backends.interface import Causal, Kernel, LseKernel
    from backends.masks import Mask
    from backends.prepare import MaskPlan


@dataclass(frozen=True, slots=True)
class Plan:
    """What one call signature gets: the decision, and the kernel bound for it.

    `options` are kept so that what they name lives as long as the plan does.
    """

    decision: Decision
    kernel: Kernel
    causal: Causal | None
    options: Mapping[str, object] | None = None

    def run(
        self, q: Tensor, k: Tensor, v: Tensor, *, mask: Mask | None, scale: float | None, lse: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Call the kernel; with `lse`, of a plan that was made for it, for the log-sum-exp too."""
        if lse:
            kernel: LseKernel = self.kernel  # type: ignore[assignment]  # `_kernel` has seen to it
            return kernel.with_lse(q, k, v, mask=mask, causal=self.causal, scale=scale)
        return self.kernel(q, k, v, mask=mask, causal=self.causal, scale=scale)


def plan_for(  # noqa: PLR0913 - the arguments of `attention`
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | MaskPlan | None = None,
    causal: bool | Alignment | None = None,
    selector: Selector | None = None,
    role: str = "self",
    options: Mapping[str, object] | None = None,
    return_lse: bool = False,
    **layer: Value,
) -> Plan:
    """Give the plan that `attention` would use for these arguments, from the selector's memory where it has one."""
    mask = described(mask)
    signature = signature_of(q, k, v, mask=mask, causal=causal, role=role, layer=layer, lse=return_lse)
    return plan_of(selector or current(), signature, options)


def plan_of(
    selector: Selector,
    signature: Signature,
    options: Mapping[str, object] | None = None,
    traced: Mapping[str, Value] | None = None,
) -> Plan:
    """Give the plan for a signature, from the selector's memory where it has one.

    `traced` are the facts of its layer that are known from tracing it.

    Raises `SelectionRefusedError` when the rules refuse it, `ValueError` for what fits no attention.
    """
    serving = selector.serving  # taken once: a reload in between changes nothing of this plan
    more = tuple((name, item if isinstance(item, str) else id(item)) for name, item in (options or {}).items())
    key = (signature, kinds_of(signature.causal, dict(signature.layer)), more)
    try:
        plan = serving.plans.get(key)
    except TypeError as error:
        raise ValueError("wanted plain values for the facts of the layer, got a list or a mapping") from error
    if not isinstance(plan, Plan):
        alignment = alignment_of(signature.causal, *signature.lengths)
        _check_options(options or {}, serving.rules)
        call = _call_facts(signature, alignment)
        request = _request(signature.role, dict(signature.layer), call, serving.rules)
        origins = _origins(signature.role, signature.causal) | dict.fromkeys(traced or (), "tracing")
        ask = functools.partial(selector.resolve, request, origins=origins, serving=serving)
        plan = _bind(ask, serving, call, str(signature.device), options or {})
        plan = serving.plans[key] = replace(plan, causal=alignment, options=options)
    return plan


def kinds_of(causal: object, layer: Mapping[str, object]) -> tuple[type, ...]:
    """Give the types of what a caller said: 1 and true are equal, and one of them is refused where the other is not."""
    return type(causal), *map(type, layer.values())


def _check_options(options: Mapping[str, object], rules: RuleSet) -> None:
    """Raise `ValueError` for an option that no kernel takes."""
    taken = {name for backend in rules.backends.values() for name in backend.takes}
    for name in options:
        if name not in taken:
            raise ValueError(f"no kernel takes the option `{shown(name)}`; known: {listing(sorted(taken))}")


def _call_facts(signature: Signature, alignment: Causal | None) -> dict[str, Value]:
    (heads, head_dim), (queries, keys) = signature.queries, signature.lengths
    facts: dict[str, Value] = {
        "dtype": str(signature.dtype).removeprefix("torch."), "seq_len_q": queries, "seq_len_kv": keys,
        "causal": alignment is not None, "causal_alignment": alignment, "head_dim": head_dim, "num_heads": heads,
        "num_kv_heads": signature.num_kv_heads, "mask": signature.mask.kind,
        "mask_per_head": signature.mask.per_head, "mask_matches_dtype": signature.mask.matches_dtype,
    }  # fmt: skip
    return facts | {"lse": True} if signature.lse else facts


def _request(role: str, layer: Mapping[str, Value], call: dict[str, Value], rules: RuleSet) -> Request:
    """Make the request of a call; head sizes and counts are known to the layer too, dtype and lengths to the call."""
    known = {fact.name: fact for fact in rules.vocabulary.group["request"] if fact.name not in OF_TENSORS}
    for name, value in {"role": role, **layer}.items():
        if name not in known:
            hint = nearest(name, known) or f"known: {listing([*known])}"
            raise ValueError(f"no fact `{shown(name)}` for the layer; {hint}")
        _fit(known[name], value)
    for name, value in call.items():
        _fit(rules.vocabulary.facts[name], value)
    words = dict(layer)
    category, model = words.pop("role_category", None), words.pop("model", None)
    sizes = {name: call[name] for name in ("head_dim", "num_heads", "num_kv_heads")}
    facts = sizes | {name: value for name, value in words.items() if value is not None}
    return Request(
        role, None if category is None else str(category), None if model is None else str(model), facts, call
    )


def _origins(role: str, causal: bool | Alignment | None) -> dict[str, str]:  # noqa: FBT001 - as above
    """Say which facts of a call are read off its tensors, and which are what holds where nothing is said."""
    found = {f"call.{name}": "tensors" for name in (*OF_TENSORS, "mask_matches_dtype")}
    found |= dict.fromkeys(("head_dim", "num_heads", "num_kv_heads"), "tensors")
    given = "default" if causal is None else "request"
    found |= dict.fromkeys(("call.causal", "call.causal_alignment"), given)
    return found | ({"role": "default"} if role == "self" else {})


def _fit(fact: Fact, value: Value) -> None:
    """Raise `ValueError` for a value that does not belong to its fact; null is unknown."""
    misfit = None if value is None else fact.misfit(value)
    if misfit is not None:
        raise ValueError(misfit.message)


def _bind(
    ask: Callable[[Sequence[str]], Decision],
    serving: Serving,
    call: Mapping[str, Value],
    device: str,
    options: Mapping[str, object],
) -> Plan:
    """Decide and bind; a default that does not bind is decided again without it, a configured one is refused."""
    from backends.interface import BindError  # torch and kernels on first use alone

    absent: list[str] = []
    failures: list[str] = []
    while True:
        decision = ask(absent).ensure()
        try:
            kernel = _kernel(serving, decision, call, device, options)
        except BindError as error:
            fact = _unbound(serving.rules, decision)
            if decision.source != "platform" or fact is None or fact in absent:
                raise SelectionRefusedError(_refused(decision, str(error))) from error
            absent.append(fact)
            failures.append(f"{decision.backend} was chosen by default, but its kernel does not bind: {error}")
            continue
        origin = getattr(kernel, "origin", None)
        build = None if origin is None else str(origin)
        told = tuple(map(str, getattr(origin, "considered", ())))
        decision = replace(decision, warnings=(*failures, *decision.warnings), build=build, considered=told)
        _announce(decision)
        return Plan(decision, kernel, None)


def _kernel(
    serving: Serving, decision: Decision, call: Mapping[str, Value], device: str, options: Mapping[str, object]
) -> Kernel:
    """Bind the kernel of a decision, or give the one that is bound for the same geometry already."""
    from backends.interface import BindError, Geometry
    from backends.registry import load

    backend = serving.rules.backends[str(decision.backend)]
    head_dim, heads, kv_heads = (int(call[name] or 0) for name in ("head_dim", "num_heads", "num_kv_heads"))
    geometry = Geometry(head_dim, heads, kv_heads, str(call["dtype"]), device, decision.provider)
    blocks: dict[str, object] = {}
    if decision.spec is not None:
        blocks |= decision.spec.blocks()
    blocks |= {name: options[name] for name in backend.takes if name in options}
    key = (backend.name, geometry, json.dumps(blocks, default=id, sort_keys=True))
    kernel: Kernel | None = serving.kernels.get(key)  # type: ignore[assignment]
    if kernel is None:
        plugin = load(backend.name)
        kernel = plugin.bind(blocks, geometry)
        if serving.first_use_check or (serving.first_use_check is None and is_unverified(decision, serving.rules)):
            evidence = first_use(plugin, kernel, blocks, geometry)
            if evidence.failed:
                raise BindError(f"it fails the check of a first use: {evidence}")
        serving.kernels[key] = kernel
    if call.get("lse") and not hasattr(kernel, "with_lse"):
        raise BindError("`return_lse`: wanted a kernel that gives the log-sum-exp, got one that gives none")
    return kernel


def _unbound(rules: RuleSet, decision: Decision) -> str | None:
    """Give the fact that is taken as absent when the decision's kernel does not bind."""
    backend = rules.backends[str(decision.backend)]
    provider = rules.providers.get(decision.provider or "")
    if provider is not None:
        return provider.unbound
    return None if backend.providers else backend.unbound


def _refused(decision: Decision, reason: str) -> Decision:
    failure = Failure("refused", f"{decision.backend} does not bind: {reason}")
    return replace(decision, backend=None, rule=None, log=None, error=failure)


def _announce(decision: Decision) -> None:
    from selector.logs import announce

    announce(decision)
