"""Where a decision meets tensors: the one part that joins the selector with the kernels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal, overload

from selector.dispatch.compiled import chooser_of
from selector.dispatch.current import current, current_untraced, this_machine, use_backends
from selector.dispatch.plans import Plan, kinds_of, plan_for
from selector.dispatch.signatures import Alignment, described
from selector.rules.vocabulary import Value

if TYPE_CHECKING:
    from torch import Tensor

    from backends.masks import Mask
    from backends.prepare import MaskPlan
    from selector.dispatch.ready import Ready
    from selector.selecting import Selector

__all__ = ["Alignment", "Plan", "attention", "plan_for", "this_machine", "use_backends"]


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | MaskPlan | None = None,
    causal: bool | Alignment | None = None,
    scale: float | None = None,
    return_lse: Literal[False] = False,
    selector: Selector | None = None,
    role: str = "self",
    options: Mapping[str, object] | None = None,
    **layer: Value,
) -> Tensor: ...


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | MaskPlan | None = None,
    causal: bool | Alignment | None = None,
    scale: float | None = None,
    return_lse: Literal[True],
    selector: Selector | None = None,
    role: str = "self",
    options: Mapping[str, object] | None = None,
    **layer: Value,
) -> tuple[Tensor, Tensor]: ...


def attention(  # noqa: PLR0913 - the arguments of attention, each with a meaning of its own
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | MaskPlan | None = None,
    causal: bool | Alignment | None = None,
    scale: float | None = None,
    return_lse: bool = False,
    selector: Selector | None = None,
    role: str = "self",
    options: Mapping[str, object] | None = None,
    **layer: Value,
) -> Tensor | tuple[Tensor, Tensor]:
    """Compute attention with the backend that the rules choose for this call.

    `q` is `[batch, seq_q, heads, head_dim]`, `k` and `v` are `[batch, seq_kv, kv_heads, head_dim]`, of one dtype and
    device; the result has the shape and dtype of `q`. `mask` is a description from `backends.masks`, which names what
    it hides (nothing is guessed from a shape), or what `backends.prepare_mask` made of one. `causal` names its
    alignment (`True` alone is allowed when there are as many keys as queries). `scale` defaults to ``head_dim**-0.5``.
    A query that sees no key gives zeros. `layer` are further facts of the request: `model`, `role_category`,
    `mask_free`, `compile`. `options` are what a kernel may want to know beside its config (`layer`, the layer's name,
    and `calibration`, for Skip-Softmax).

    With `return_lse` the result is a pair: the output, and the log-sum-exp, which is the logarithm to base e of the sum
    of exp(scaled scores) over the keys that a query sees; float32 `[batch, heads, seq_q]`, -inf for a query that sees
    none and for padded ones. No gradients flow through either.

    The decision is made once for each signature of call and kept by the selector; code that is traced decides with
    `compile` true. Raises `SelectionRefusedError` when the rules refuse the call or the kernel gives no log-sum-exp,
    `ValueError` for arguments that fit no attention, and `backends.interface.CallRefused`, which is one too, for what a
    kernel cannot honour.
    """
    import torch  # on first use alone

    traced = torch.compiler.is_dynamo_compiling()
    chosen = selector or (current() if traced else current_untraced())
    plain = mask is None and not options and not return_lse
    if plain and not traced:  # under export too: its tensors are of no type that is ready
        said: tuple[object, ...] = (role, causal, causal.__class__, scale)
        if layer:
            said = (*said, *layer.items(), *kinds_of(causal, layer))
        try:
            readies: Iterable[Ready] = chosen.serving.ready.get(said, ())
        except TypeError:  # no plain values, which is told below
            readies = ()
        for ready in readies:
            if ready.fits(q, k, v):
                return ready.run(q, k, v)
    if torch.compiler.is_compiling():
        if options:
            raise ValueError("`options`: wanted none in compiled code, use the module `Attention`")
        mask, words = described(mask), tuple(sorted(layer.items()))
        plan = chooser_of(chosen).plan(q, k, mask, causal=causal, role=role, layer=words, lse=return_lse)
        return plan.run(q, k, v, mask=mask, scale=scale, lse=return_lse)
    serving, mask = chosen.serving, described(mask)  # before the plan: what is ready is never older than it
    plan = plan_for(
        q, k, v, mask=mask, causal=causal, selector=chosen, role=role, options=options, return_lse=return_lse, **layer
    )
    out = plan.run(q, k, v, mask=mask, scale=scale, lse=return_lse)
    if plain and isinstance(scale, int | float | None):
        from selector.dispatch.ready import remember  # torch on first use alone

        remember(plan, said, (q, k, v), scale=scale, selector=chosen, serving=serving)
    return out
