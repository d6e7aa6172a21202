"""Processors of ours: the same mathematics as those whose place they take, with attention through the dispatcher."""

from __future__ import annotations

import copy
import functools
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F  # noqa: N812 - what everybody calls it
from torch.overrides import TorchFunctionMode

from selector.integrations.diffusers.kernels import Dispatcher, refuse
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

_ROUTE = "_attention_selector_route"


class Through(TorchFunctionMode):
    """While it is entered, `scaled_dot_product_attention` of `[batch, heads, seq, head_dim]` runs the dispatcher."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        """Hold the dispatcher."""
        super().__init__()
        self.dispatcher = dispatcher

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Untyped:
        """Run attention by the dispatcher, and every other function as it is."""
        if func is F.scaled_dot_product_attention:
            return self.attend(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def attend(  # noqa: PLR0917 - torch's signature
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,  # noqa: FBT001, FBT002 - torch's signature
        scale: float | None = None,
        enable_gqa: bool = False,  # noqa: ARG002, FBT001, FBT002 - with fewer KV heads, heads are always grouped
    ) -> Tensor:
        """Compute what torch's function would."""
        if dropout_p != 0.0:
            refuse(dropout_p, None, {})
        out: Any = self.dispatcher.run(
            query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2), attn_mask,
            is_causal=is_causal, scale=scale, return_lse=False,
        )  # fmt: skip
        result: Tensor = out.transpose(1, 2)
        return result


def through(processor: Untyped, dispatcher: Dispatcher) -> Untyped:
    """Give a copy of a processor that calls torch's attention itself, whose attention the dispatcher computes."""
    made = copy.copy(processor)
    stock: Untyped = type(processor)
    made.__class__ = _routed(stock)
    setattr(made, _ROUTE, Through(dispatcher))
    return made


@functools.cache
def _routed(stock: Untyped) -> type[Any]:
    @functools.wraps(stock.__call__)  # diffusers reads the signature
    def call(self: Untyped, *args: Untyped, **kwargs: Untyped) -> Untyped:
        with getattr(self, _ROUTE):
            return stock.__call__(self, *args, **kwargs)

    return type(stock.__name__, (stock,), {"__call__": call, "__module__": __name__})


def is_routed(processor: object) -> bool:
    """Whether a processor is one that `through` gave."""
    return hasattr(processor, _ROUTE)
