"""One call against the definition, for demonstrations and checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from selector.dispatch.plans import plan_for

if TYPE_CHECKING:
    from selector.facts import Request
    from selector.selecting import Selector


@dataclass(frozen=True, slots=True)
class Comparison:
    """The largest absolute error of one call against the definition, and the backend that ran."""

    backend: str
    error: float


def compare_with_reference(
    selector: Selector,
    request: Request,
    *,
    lengths: tuple[int, int],
    heads: tuple[int, int],
    head_dim: int,
    mask: str,
) -> Comparison:
    """Run one call of random bfloat16 tensors through its backend and compare it with the float64 definition.

    `lengths` are queries and keys, `heads` query and KV heads; `mask` is one of the kinds of the vocabulary, made to
    hide a quarter of the keys.
    """
    from backends import samples
    from backends.reference import attention as definition

    q, k, v = samples.tensors(lengths, heads, head_dim)
    described = samples.mask(mask, lengths, heads[0])
    plan = plan_for(q, k, v, mask=described, selector=selector, role=request.role, model=request.model)
    got = plan.kernel(q, k, v, mask=described, causal=plan.causal)
    wanted = definition(q, k, v, mask=described)
    return Comparison(str(plan.decision.backend), float((got.double() - wanted).abs().max()))
