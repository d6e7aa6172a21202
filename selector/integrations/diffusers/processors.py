"""Processors of ours: the same mathematics as those whose place they take, with attention through the dispatcher."""

from __future__ import annotations

import copy
import functools
import inspect
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F  # noqa: N812 - what everybody calls it
from torch.overrides import TorchFunctionMode

from selector.integrations.diffusers.kernels import Dispatcher, refuse
from selector.integrations.diffusers.modules import names_in, reached_by
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch import Tensor

_ATTENTION = "scaled_dot_product_attention"
_ROUTE = "_attention_selector_route"
_EAGER = "_attention_selector_eager"


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


class _Functional:
    """`torch.nn.functional` with another `scaled_dot_product_attention`."""

    def __init__(self, attend: Callable[..., Tensor]) -> None:
        """Take what computes attention in its place."""
        self.scaled_dot_product_attention = attend

    def __getattr__(self, name: str) -> Untyped:
        """Give every other function as it is."""
        return getattr(F, name)


def through(processor: Untyped, dispatcher: Dispatcher) -> Untyped:
    """Give a copy of a processor that calls torch's attention itself, whose attention the dispatcher computes."""
    made = copy.copy(processor)
    stock: Untyped = type(processor)
    made.__class__ = _routed(stock)
    route = Through(dispatcher)
    setattr(made, _ROUTE, route)
    setattr(made, _EAGER, _eager(stock, route))
    return made


@functools.cache
def _routed(stock: Untyped) -> type[Any]:
    @functools.wraps(stock.__call__)
    def call(self: Untyped, *args: Untyped, **kwargs: Untyped) -> Untyped:
        eager = getattr(self, _EAGER)
        if eager is not None and not torch.compiler.is_compiling():
            return eager(self, *args, **kwargs)
        with getattr(self, _ROUTE):
            return stock.__call__(self, *args, **kwargs)

    call.__signature__ = inspect.signature(stock.__call__)  # type: ignore[attr-defined]  # diffusers reads it each time
    return type(stock.__name__, (stock,), {"__call__": call, "__module__": __name__})


def _eager(stock: Untyped, route: Through) -> Callable[..., Any] | None:
    """Give a processor's own code with another `F` in its globals; None where that would not reach all its attention.

    A mode costs some two microseconds at every function of torch that runs below it, a layer of a UNet a fifth of its
    time; compiled code has no such cost, and cannot be traced with globals that are no module's.
    """
    call = stock.__call__
    if not isinstance(call, FunctionType):
        return None
    methods = (one for base in stock.__mro__ for name, one in vars(base).items() if name != "__call__")
    elsewhere = [one for one in (*methods, *reached_by(call)) if isinstance(one, FunctionType) and one is not call]
    names = frozenset(names_in(call.__code__))
    functional = [name for name in names if call.__globals__.get(name) is F]
    if _ATTENTION not in names or not functional or "super" in names:
        return None
    if any(_ATTENTION in names_in(one.__code__) for one in elsewhere):
        return None
    others = call.__globals__ | dict.fromkeys(functional, _Functional(route.attend))
    made = FunctionType(call.__code__, others, call.__name__, call.__defaults__, call.__closure__)
    made.__kwdefaults__ = call.__kwdefaults__
    return made


def is_routed(processor: object) -> bool:
    """Whether a processor is one that `through` gave."""
    return hasattr(processor, _ROUTE)
