"""The dispatcher: what diffusers calls for the modules of one role, bound to that role's layer."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from backends.interface import CallRefused
from backends.masks import Mask
from selector.dispatch import attention
from selector.dispatch.layer import Attention, Ran
from selector.dispatch.signatures import OF_TENSORS
from selector.integrations.diffusers.recognised import Recognised
from selector.integrations.diffusers.tensor_masks import mask_of
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from torch import Tensor

    from selector.dispatch.signatures import Alignment

ARGUMENTS = frozenset(
    (
        "query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale", "enable_gqa", "return_lse",
        "_parallel_config",
    )
)  # fmt: skip
"""Every argument that diffusers' backends share."""


@dataclass(eq=False)
class Dispatcher:
    """Runs the attention of one role of one component, for modules of one size.

    `recognised` are the masks that were found in what the component was given, by role. `calls` counts those of code
    that is not compiled; `uncounted` says that compiled code makes calls of which no report tells.
    """

    role: str
    layer: Attention
    recognised: Recognised
    scaled: dict[float, Attention] = field(default_factory=dict)
    calls: int = 0
    uncounted: bool = False

    def run(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | Mask | None,
        *,
        is_causal: bool,
        scale: float | None,
        return_lse: bool,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Compute `[batch, seq, heads, head_dim]`, with the log-sum-exp `[batch, heads, seq_q]` if it is wanted."""
        mask = None if attn_mask is None else self._mask(attn_mask, query, key)
        causal: Alignment | None = "top_left" if is_causal else None  # as torch aligns it
        compiling = torch.compiler.is_compiling()
        if not compiling:
            self.calls += 1
        layer: Untyped = self.layer
        if not (scale is None or scale in (query.shape[3] ** -0.5, 1 / math.sqrt(query.shape[3]))):
            # Code that is traced can make no layer.
            layer = self._asking(scale) if compiling else self._scaled(scale)
        result: Tensor | tuple[Tensor, Tensor] = layer(
            query, key, value, mask=mask, causal=causal, return_lse=return_lse
        )
        return result

    def _mask(self, given: Tensor | Mask, query: Tensor, key: Tensor) -> Mask:
        if isinstance(given, Mask):
            return given
        found = self.recognised.mask(self.role, query.shape[0], key.shape[1])
        return mask_of(given, query, key) if found is None else found

    def _scaled(self, scale: float) -> Attention:
        if scale not in self.scaled:
            facts: dict[str, Untyped] = dict(self.layer.layer)
            self.scaled[scale] = Attention(self.role, selector=self.layer.selector, scale=scale, **facts)
        return self.scaled[scale]

    def _asking(self, scale: float) -> Callable[..., Tensor | tuple[Tensor, Tensor]]:
        self.uncounted = True
        facts: dict[str, Untyped] = {name: value for name, value in self.layer.layer.items() if name not in OF_TENSORS}
        return functools.partial(attention, selector=self.layer.selector, role=self.role, scale=scale, **facts)

    def report(self) -> tuple[Ran, ...]:
        """Tell what ran, as `Attention.report` does."""
        return tuple(ran for layer in (self.layer, *self.scaled.values()) for ran in layer.report())


def kernel_of(dispatcher: Dispatcher) -> Callable[..., Any]:
    """Give the function to register for a dispatcher: diffusers' contract, with every argument declared.

    Raises `CallRefused`, a `ValueError`, for what no backend of ours honours: dropout, context parallelism, and
    arguments of other backends.
    """

    def attention_selector(  # noqa: PLR0913, PLR0917 - diffusers' contract
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | Mask | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # noqa: FBT001, FBT002
        scale: float | None = None,
        enable_gqa: bool = False,  # noqa: ARG001, FBT001, FBT002 - with fewer KV heads, heads are always grouped
        return_lse: bool = False,  # noqa: FBT001, FBT002
        _parallel_config: object = None,
        **attention_kwargs: object,
    ) -> Tensor | tuple[Tensor, Tensor]:
        if dropout_p != 0.0 or _parallel_config is not None or attention_kwargs:
            refuse(dropout_p, _parallel_config, attention_kwargs)
        return dispatcher.run(
            query, key, value, attn_mask, is_causal=is_causal, scale=scale, return_lse=return_lse
        )  # fmt: skip

    return attention_selector


def refuse(dropout_p: float, parallel_config: object, others: dict[str, object]) -> None:
    """Raise `CallRefused` for what is not honoured; an argument that is None or False asks for nothing."""
    if dropout_p != 0.0:
        raise CallRefused(f"`dropout_p`: wanted 0.0, got {dropout_p}")
    if parallel_config is not None:
        raise CallRefused("`_parallel_config`: wanted None, got a configuration; context parallelism is not supported")
    for name, value in others.items():
        if value is not None and value is not False:
            raise CallRefused(f"`attention_kwargs`: wanted no `{name}`, got one")
