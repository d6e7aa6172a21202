"""The modules of attention in a pipeline or model: where they are, how large, and by which way they attend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Literal

from torch import nn

from selector.integrations.diffusers.roles import role_of
from selector.integrations.diffusers.untyped import Untyped

COMPONENTS = ("transformer", "transformer_2", "unet", "controlnet", "connectors", "prior", "decoder")
"""The parts of a pipeline that denoise, or that prepare text for it; encoders and VAEs are left alone."""
Route = Literal["dispatcher", "torch", "none"]
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class Found:
    """A module of attention: its place, its role, its sizes (`head_dim`, `num_heads`, `num_kv_heads`) and its way.

    `route` is ``dispatcher`` where its processor calls diffusers' dispatcher, ``torch`` where it calls torch's own
    function, ``none`` where it calls neither.
    """

    component: str
    owner: str
    name: str
    module: Untyped
    role: str
    sizes: Mapping[str, int]
    route: Route

    @property
    def place(self) -> str:
        """The name from the pipeline on."""
        return f"{self.component}.{self.name}"


def components_of(target: Untyped) -> dict[str, Untyped]:
    """Give the parts whose attention is chosen, by name; a model is one alone, called as its class."""
    if isinstance(target, nn.Module):
        whole = plain(target)
        return {type(whole).__name__: whole}
    parts = {name: getattr(target, name, None) for name in COMPONENTS}
    return {name: plain(part) for name, part in parts.items() if isinstance(part, nn.Module)}


def plain(module: nn.Module) -> nn.Module:
    """Give the module that `torch.compile` was called with."""
    inner = getattr(module, "_orig_mod", None)
    return inner if isinstance(inner, nn.Module) else module


def modules_of(component: str, whole: nn.Module) -> Iterator[Found]:
    """Find every module of attention in a component, in its order."""
    from diffusers.models.attention import AttentionModuleMixin
    from diffusers.models.attention_processor import Attention, MochiAttention

    owner = type(whole).__name__
    for name, module in whole.named_modules():
        if isinstance(module, (Attention, MochiAttention, AttentionModuleMixin)):
            role = role_of(owner, name, module)
            yield Found(component, owner, name, module, role, sizes_of(module), route_of(module.processor))


def sizes_of(module: Untyped) -> dict[str, int]:
    """Give what a module says of its sizes."""
    heads, inner = getattr(module, "heads", None), getattr(module, "inner_dim", None)
    head_dim = getattr(module, "head_dim", None)
    if head_dim is None and heads and inner and inner % heads == 0:
        head_dim = inner // heads
    inner_kv = getattr(module, "inner_kv_dim", None)
    kv_heads = inner_kv // head_dim if head_dim and inner_kv else heads
    sizes = {"head_dim": head_dim, "num_heads": heads, "num_kv_heads": kv_heads}
    return {name: size for name, size in sizes.items() if isinstance(size, int) and size > 0}


def route_of(processor: Untyped) -> Route:
    """Tell by its code how a processor computes attention."""
    call = type(processor).__call__ if callable(processor) else None
    reached = reached_by(call) if isinstance(call, FunctionType) else ()
    names = frozenset(name for function in reached for name in names_in(function.__code__))
    if "dispatch_attention_fn" in names and hasattr(processor, "_attention_backend"):
        return "dispatcher"
    if "scaled_dot_product_attention" in names and not isinstance(processor, nn.Module):
        return "torch"
    return "none"


def reached_by(function: FunctionType, depth: int = _DEPTH) -> Iterator[FunctionType]:
    """Give a function, and the functions of its own file that it calls."""
    yield function
    for name in names_in(function.__code__):
        called = function.__globals__.get(name)
        if depth and isinstance(called, FunctionType) and called.__module__ == function.__module__:
            yield from reached_by(called, depth - 1)


def names_in(code: CodeType) -> Iterator[str]:
    """Name what a function's code refers to, with the functions that stand in it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)
