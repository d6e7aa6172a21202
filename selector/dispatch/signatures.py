"""What a call must say for a plan to be made: read off its tensors, or given by compiled code as plain values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from selector.rules.problems import shown

if TYPE_CHECKING:
    from torch import Tensor, device, dtype

    from backends.interface import Causal
    from backends.masks import Mask
    from backends.prepare import MaskPlan
    from selector.rules.vocabulary import Value

_RANK = 4
OF_TENSORS = (
    "head_dim", "num_heads", "num_kv_heads", "dtype", "seq_len_q", "seq_len_kv", "causal", "causal_alignment",
)  # fmt: skip
Alignment = Literal["top_left", "bottom_right"]


class MaskSays(NamedTuple):
    """What the rules ask of a mask."""

    kind: str
    per_head: bool
    matches_dtype: bool


class Signature(NamedTuple):
    """Everything that a plan depends on besides the selector. Equal signatures have one plan."""

    role: str
    dtype: dtype
    device: device
    queries: tuple[int, int]
    """`num_heads` and `head_dim`."""
    num_kv_heads: int
    lengths: tuple[int, int]
    """Of queries and keys."""
    mask: MaskSays
    causal: bool | Alignment | None
    layer: tuple[tuple[str, Value], ...]
    lse: bool = False
    """Whether the log-sum-exp is asked for."""


def signature_of(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    mask: Mask | None,
    causal: bool | Alignment | None,
    role: str,
    layer: Mapping[str, Value],
    lse: bool = False,
) -> Signature:
    """Read the signature of a call off its tensors. Raises `ValueError` for tensors that are no attention's."""
    _check_ranks(q=q, k=k, v=v)
    _, seq_q, heads, head_dim = q.shape
    _, seq_kv, kv_heads, _ = k.shape
    words = tuple(sorted(layer.items(), key=str))
    said, lengths = said_by(mask, q.dtype), (seq_q, seq_kv)
    return Signature(role, q.dtype, q.device, (heads, head_dim), kv_heads, lengths, said, causal, words, lse)


def said_by(mask: Mask | None, of: dtype) -> MaskSays:
    """Give what the rules ask of a mask, for queries of a dtype."""
    bias = getattr(mask, "bias", None)
    return MaskSays(
        "none" if mask is None else mask.kind, mask is not None and mask.per_head, bias is None or bias.dtype == of
    )


def described(mask: Mask | MaskPlan | None) -> Mask | None:
    """Give the mask that a prepared one came to, or the mask itself."""
    from backends.prepare import MaskPlan

    plain = mask.mask if isinstance(mask, MaskPlan) else mask
    if plain is not None and not hasattr(plain, "kind"):
        raise ValueError(f"`mask`: wanted a description from `backends.masks`, got {shown(plain)}")
    return plain


def _check_ranks(**tensors: Tensor) -> None:
    for name, tensor in tensors.items():
        if tensor.dim() != _RANK:
            raise ValueError(f"`{name}`: wanted a tensor [batch, seq, heads, head_dim], got {list(tensor.shape)}")


def alignment_of(causal: bool | Alignment | None, queries: int, keys: int) -> Causal | None:  # noqa: FBT001 - as above
    """Give the alignment that a caller means. Raises `ValueError` where it is not clear, or no alignment."""
    if causal is None or causal is False:
        return None
    if causal is True:
        if queries != keys:
            message = f"`causal`: wanted `top_left` or `bottom_right` for {queries} queries and {keys} keys, got true"
            raise ValueError(message)
        return "top_left"
    if causal not in ("top_left", "bottom_right"):
        raise ValueError(f"`causal`: wanted true, false, `top_left` or `bottom_right`, got {shown(causal)}")
    return causal
