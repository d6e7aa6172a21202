"""`Attention`: a layer that decides once, and tells what ran."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from torch import nn
from torch.compiler import is_compiling, is_dynamo_compiling

from selector.dispatch.compiled import Chooser, chooser_of
from selector.dispatch.current import current
from selector.dispatch.plans import plan_of
from selector.dispatch.ready import Met, Ready, alike, keep, run_for
from selector.dispatch.signatures import OF_TENSORS, Alignment, described, signature_of

if TYPE_CHECKING:
    from torch import Tensor

    from backends.masks import Mask
    from backends.prepare import MaskPlan
    from selector.decision import Decision
    from selector.rules.vocabulary import Value
    from selector.selecting import Selector


@dataclass(frozen=True, slots=True)
class Ran:
    """One signature of call that a layer has met: what ran for it, and how often."""

    backend: str
    provider: str | None
    build: str | None
    considered: tuple[str, ...]
    rule: str | None
    transform: str | None
    warnings: tuple[str, ...]
    calls: int


class Attention(nn.Module):
    """Attention of one role, decided when it is made and held to it.

    `role` and the facts of the layer (`head_dim`, `num_heads`, `num_kv_heads`, `model`, `mask_free`, `compile`, …)
    decide which backend the layer has; `decision` tells it. Each call then walks the call table for its own mask, type
    and lengths. Raises `SelectionRefusedError` or `InvalidSelectionError` at construction when there is no backend.
    """

    def __init__(
        self,
        role: str = "self",
        *,
        selector: Selector | None = None,
        scale: float | None = None,
        options: Mapping[str, object] | None = None,
        **layer: Value,
    ) -> None:
        """Decide for the layer."""
        super().__init__()
        self.role = role
        self.scale = scale
        self.selector = selector or current()
        self.options = options
        self.layer = layer
        self.decision: Decision = self.selector.select(role, call=None, **layer)
        of_calls = [(name, value) for name, value in layer.items() if name not in OF_TENSORS]
        self._of_calls = tuple(sorted(of_calls, key=str))
        self._calls: dict[int, Met] = {}
        self._ready: Ready | None = None
        self._chooser = Chooser(self.selector, options) if options else None

    @overload
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | MaskPlan | None = None,
        causal: bool | Alignment | None = None,
        return_lse: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | MaskPlan | None = None,
        causal: bool | Alignment | None = None,
        return_lse: Literal[True],
    ) -> tuple[Tensor, Tensor]: ...

    def forward(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | MaskPlan | None = None,
        causal: bool | Alignment | None = None,
        return_lse: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute attention; tensors, mask, causal and `return_lse` as in `selector.attention`, errors too."""
        ready = None if is_dynamo_compiling() else self._ready  # once: names of a module are looked up slowly
        if mask is None and ready is not None and not return_lse and ready.serving is ready.selector.serving:
            if causal is not ready.causal or not ready.fits(q, k, v):
                ready = self._other(ready, q, k, v, causal=causal)
            if ready is not None:
                ready.met.calls += 1
                return ready.run(q, k, v)
        way = self._traced if is_compiling() else self._asked
        return way(q, k, v, mask=mask, causal=causal, lse=return_lse)

    def _other(self, last: Ready, q: Tensor, k: Tensor, v: Tensor, *, causal: bool | Alignment | None) -> Ready | None:
        """Give what is ready for a call that is not like the last one, and have it at hand for the next."""
        for ready in last.all:
            if causal is ready.causal and ready.fits(q, k, v):
                self.__dict__["_ready"] = ready
                return ready
        return None

    def _traced(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | MaskPlan | None,
        causal: bool | Alignment | None,
        lse: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        plain = described(mask)
        chooser = chooser_of(self.selector) if self._chooser is None else self._chooser
        plan = chooser.plan(q, k, plain, causal=causal, role=self.role, layer=self._of_calls, lse=lse)
        return plan.run(q, k, v, mask=plain, scale=self.scale, lse=lse)

    def _asked(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | MaskPlan | None,
        causal: bool | Alignment | None,
        lse: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Ask for the plan of a call, and be ready for the next one like it."""
        plain, layer = described(mask), dict(self._of_calls)
        serving = self.selector.serving  # before the plan: what is ready is never older than it
        signature = signature_of(q, k, v, mask=plain, causal=causal, role=self.role, layer=layer, lse=lse)
        plan = plan_of(self.selector, signature, self.options)
        met = self._calls.setdefault(id(plan), Met(plan))
        met.calls += 1
        out = plan.run(q, k, v, mask=plain, scale=self.scale, lse=lse)
        if mask is None and not lse and not self.options:  # a mapping may change
            before = self._ready
            readies = before.all if before is not None and before.serving is serving else []
            run = run_for(plan, q, k, v, self.scale)
            ready = Ready(alike(q, k, v), run, causal, met, readies, self.selector, serving)
            keep(readies, ready)
            self.__dict__["_ready"] = ready
        return out

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever a module is given
        """Take what is set, and be ready for nothing: what ran may depend on it."""
        super().__setattr__(name, value)
        self.__dict__["_ready"] = None

    def report(self) -> tuple[Ran, ...]:
        """Tell every signature of call that the layer has met, in the order of the first of each.

        Calls from compiled code are not counted, and layers that are alike share it: what was chosen for it, and is not
        called otherwise, has `calls` 0.
        """
        return tuple(self._ran())

    def _ran(self) -> Iterator[Ran]:
        chooser = self.selector.chooser if self._chooser is None else self._chooser
        chosen = chooser.chosen.get((self.role, self._of_calls), {}) if isinstance(chooser, Chooser) else {}
        for met in ({number: Met(plan) for number, plan in chosen.copy().items()} | self._calls).values():
            decision = met.plan.decision
            yield Ran(
                str(decision.backend), decision.provider, decision.build, decision.considered, decision.rule,
                decision.transform, decision.warnings, met.calls,
            )  # fmt: skip

    def __getstate__(self) -> dict[str, object]:
        """Give what is pickled and copied: what the layer is, and not the kernels, which are bound again on use."""
        kept = {name: value for name, value in self.__dict__.items() if name != "_chooser"}
        return kept | {"_calls": {}, "_ready": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take what was pickled or copied."""
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._chooser = Chooser(self.selector, self.options) if self.options else None

    def extra_repr(self) -> str:
        """Show the role and what was decided for it."""
        return f"role={self.role!r}, backend={self.decision.backend!r}, rule={self.decision.rule!r}"
