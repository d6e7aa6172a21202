"""Comparisons of a call with the geometry that its kernel was bound for."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from backends.interface import CallRefused

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from backends.interface import Geometry
    from backends.masks import Mask

RANK = 4
ALIGNMENTS = (None, "top_left", "bottom_right")


class CallShape(NamedTuple):
    """The sizes that a mask has to fit: scores are `[batch, num_heads, seq_len_q, seq_len_kv]`."""

    batch: int
    num_heads: int
    seq_len_q: int
    seq_len_kv: int


class Bound(NamedTuple):
    """A geometry in torch's own types, with what follows from it."""

    geometry: Geometry
    dtype: torch.dtype
    device: torch.device
    grouped: bool
    """Whether several query heads share a key head."""
    any_index: bool
    """Whether the device was given without an index."""
    differentiable: bool = False
    """Whether the kernel has a backward pass."""


def written(tensor: Tensor) -> str:
    """Dtype and shape as an error message writes them: `bool [2, 9]`."""
    return f"{dtype_name(tensor.dtype)} {list(tensor.shape)}"


def dtype_name(dtype: torch.dtype) -> str:
    """Torch's name of a dtype without its prefix."""
    return str(dtype).removeprefix("torch.")


def check_tensors(bound: Bound, q: Tensor, k: Tensor, v: Tensor) -> CallShape:
    """The sizes of a call; raises `CallRefused` unless all three tensors fit the geometry and each other."""
    geometry = bound.geometry
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        if tensor.dim() != RANK:
            raise CallRefused(f"`{name}`: wanted [batch, seq, heads, head_dim], got {list(tensor.shape)}")
    batch, seq_len_q, seq_len_kv = q.shape[0], q.shape[1], k.shape[1]
    keys = (batch, seq_len_kv, geometry.num_kv_heads, geometry.head_dim)
    home = _home(bound, q.device)
    _check_tensor("q", q, (batch, seq_len_q, geometry.num_heads, geometry.head_dim), bound.dtype, home)
    _check_tensor("k", k, keys, bound.dtype, home)
    _check_tensor("v", v, keys, bound.dtype, home)
    return CallShape(batch, geometry.num_heads, seq_len_q, seq_len_kv)


def _home(bound: Bound, device: torch.device) -> torch.device:
    """Where the tensors have to lie: on the bound device or, bound without an index, where the query is."""
    return device if bound.any_index and device.type == bound.device.type else bound.device


def _check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], dtype: torch.dtype, home: torch.device) -> None:
    if tensor.shape != shape:
        raise CallRefused(f"`{name}`: wanted {list(shape)}, got {list(tensor.shape)}")
    if tensor.dtype != dtype or tensor.device != home:
        wanted, got = (f"{dtype_name(x)} on `{y}`" for x, y in ((dtype, home), (tensor.dtype, tensor.device)))
        raise CallRefused(f"`{name}`: wanted {wanted}, got {got}")


def check_causal(causal: object) -> None:
    """Raises `CallRefused` unless the alignment is one of the two names, or None."""
    if causal not in ALIGNMENTS:
        raise CallRefused(f"`causal`: wanted `top_left`, `bottom_right` or none, got `{causal}`")


def check_mask(mask: Mask, call: CallShape, device: torch.device) -> None:
    """Raises `CallRefused` unless the mask has the sizes of the call and lies on its device."""
    problem = mask.misfit(call)
    if problem is None and mask.device not in (None, device):
        problem = f"wanted a tensor on `{device}`, got one on `{mask.device}`"
    if problem is not None:
        raise CallRefused(f"mask `{mask.kind}`: {problem}")
