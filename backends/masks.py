"""Masks described before they are computed: a caller names the kind, so that no shape is ever guessed at.

Kinds: `no_mask`, `all_keep`, `key_lengths` (suffix key padding), `key_padding`, `key_and_query_padding`,
`block_diagonal`, `boolean_per_query`, `additive`. In every boolean mask True means attend. Each function refuses with
`CallRefused` what it cannot mean. None but `key_lengths`, `key_lengths_of` and `block_diagonal` reads a value from a
device, and those only here, so that no call waits for one: build masks outside compiled and captured code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backends._checks import RANK, CallShape, check_mask, dtype_name, written
from backends._mask_kinds import (
    Additive,
    AllKeep,
    BlockDiagonal,
    BooleanPerQuery,
    KeyAndQueryPadding,
    KeyLengths,
    KeyPadding,
    Kind,
    Mask,
    NoMask,
)
from backends.interface import CallRefused

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch import Tensor

    from backends.interface import Causal

__all__ = [
    "Additive",
    "AllKeep",
    "BlockDiagonal",
    "BooleanPerQuery",
    "KeyAndQueryPadding",
    "KeyLengths",
    "KeyPadding",
    "Kind",
    "Mask",
    "NoMask",
    "additive",
    "all_keep",
    "block_diagonal",
    "boolean_per_query",
    "causal_keep",
    "causal_offset",
    "key_and_query_padding",
    "key_lengths",
    "key_lengths_of",
    "key_padding",
    "lossless",
    "no_mask",
    "to_bias",
    "to_keep",
]

_INSTEAD = {
    2: "; a padding mask [batch, seq_kv] is `key_padding(mask)`, one [seq_q, seq_kv] for all is `mask[None, None]`",
    3: "; a mask [batch, seq_q, seq_kv] for all heads is `mask[:, None]`",
}


def no_mask() -> NoMask:
    """Every query sees every key; the same as passing no mask."""
    return NoMask()


def all_keep() -> AllKeep:
    """A mask that the caller knows to hide nothing."""
    return AllKeep()


def key_lengths(lengths: int | Sequence[int] | Tensor, seq_len_kv: int) -> KeyLengths:
    """Suffix padding: batch `b` sees its first `lengths[b]` of `seq_len_kv` keys; one int holds for every batch.

    A tensor is an integer one `[batch]` and is read once, here: a synchronisation if it lies on a GPU. Compiled code is
    specialised on the lengths; where they change from call to call use `key_padding`.
    """
    if isinstance(lengths, int) and not isinstance(lengths, bool):
        _check_lengths("lengths", (lengths,), seq_len_kv)
        return KeyLengths(lengths, seq_len_kv)
    read = _host_ints("lengths", lengths)
    _check_lengths("lengths", read, seq_len_kv)
    return KeyLengths(read, seq_len_kv)


def key_lengths_of(keep: Tensor) -> KeyLengths:
    """The lengths of a padding mask, bool `[batch, seq_kv]`, whose hidden keys all come last; reads it once, here.

    Worth its synchronisation once per set of prompts, outside the loop: where a kernel takes lengths, or keys can be
    sliced, a call runs at the speed of no mask.
    """
    _check_bool("keep", keep, "[batch, seq_kv]", 2)
    if bool((keep[:, 1:] & ~keep[:, :-1]).any()):
        raise CallRefused(
            "`keep`: wanted hidden keys only after the last visible one, got a gap or a prefix; use `key_padding`"
        )
    return KeyLengths(tuple(keep.sum(dim=1).tolist()), keep.shape[1])


def key_padding(keep: Tensor) -> KeyPadding:
    """Any keys hidden, the same for every query and head; `keep` is bool `[batch, seq_kv]`."""
    _check_bool("keep", keep, "[batch, seq_kv]", 2)
    return KeyPadding(keep)


def key_and_query_padding(keep_q: Tensor, keep_k: Tensor) -> KeyAndQueryPadding:
    """Padded keys are hidden and padded queries yield zeros; bool `[batch, seq_q]` and `[batch, seq_kv]`."""
    _check_bool("keep_q", keep_q, "[batch, seq_q]", 2)
    _check_bool("keep_k", keep_k, "[batch, seq_kv]", 2)
    if keep_q.device != keep_k.device:
        raise CallRefused(
            f"`keep_k`: wanted a tensor on `{keep_q.device}`, where `keep_q` is, got one on `{keep_k.device}`"
        )
    return KeyAndQueryPadding(keep_q, keep_k)


def block_diagonal(lengths_q: Sequence[int] | Tensor, lengths_k: Sequence[int] | Tensor | None = None) -> BlockDiagonal:
    """Documents packed one after another along the sequence, each seeing its own keys only; the same in every batch.

    Lengths per document, not offsets (`cu_seqlens_q` and `cu_seqlens_k` of the result are those); `lengths_k` None
    means that keys are divided as queries are. They add up to the lengths of the call. A document may be empty on
    either side. A tensor is an integer one `[documents]` and is read once, here: a synchronisation if it lies on a GPU.
    """
    read_q = _host_ints("lengths_q", lengths_q)
    read_k = read_q if lengths_k is None else _host_ints("lengths_k", lengths_k)
    if len(read_q) != len(read_k):
        raise CallRefused(f"`lengths_k`: wanted as many documents as `lengths_q` has, {len(read_q)}, got {len(read_k)}")
    _check_lengths("lengths_q", read_q, None)
    _check_lengths("lengths_k", read_k, None)
    return BlockDiagonal(read_q, read_k)


def boolean_per_query(mask: Tensor) -> BooleanPerQuery:
    """Each query sees its own keys; `mask` is bool `[batch or 1, heads or 1, seq_q, seq_kv]`, nothing fewer."""
    _check_bool("mask", mask, "[batch or 1, heads or 1, seq_q, seq_kv]", RANK)
    return BooleanPerQuery(mask)


def additive(bias: Tensor) -> Additive:
    """Added to the scaled scores: floating `[batch or 1, heads or 1, seq_q or 1, seq_kv]`, where -inf hides a key."""
    if not bias.is_floating_point() or bias.dim() != RANK:
        wanted = "a floating tensor [batch or 1, heads or 1, seq_q or 1, seq_kv]"
        raise CallRefused(f"`bias`: wanted {wanted}, got {written(bias)}")
    return Additive(bias)


def to_keep(
    mask: Mask, q_shape: Sequence[int], k_shape: Sequence[int], *, device: torch.device | str | None = None
) -> Tensor:
    """The whole of a boolean kind as bool, True = attend, broadcastable to `[batch, heads, seq_q, seq_kv]`.

    `q_shape` and `k_shape` are `[batch, seq, heads, head_dim]`. The result lies on `device`, by default the mask's own
    or, for a kind without tensors, torch's. Raises `CallRefused` for a mask that does not fit, and for `additive`.
    """
    import torch

    if isinstance(mask, Additive):
        raise CallRefused(f"mask `{mask.kind}`: wanted a boolean kind, got {written(mask.bias)}; use `to_bias`")
    call, home = _fitting(mask, q_shape, k_shape, device)
    keep = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=home)
    for part in (mask.visible(call, home), mask.live_queries()):
        keep = keep if part is None else keep & part
    return keep


def to_bias(
    mask: Mask,
    q_shape: Sequence[int],
    k_shape: Sequence[int],
    *,
    dtype: torch.dtype,
    device: torch.device | str | None = None,
) -> Tensor:
    """Any kind as numbers of `dtype` to add to the scaled scores: 0 or -inf, or the bias; shaped as in `to_keep`.

    Raises `CallRefused` for a mask that does not fit, and for a bias that `dtype` cannot hold without loss.
    """
    import torch

    if isinstance(mask, Additive):
        _fitting(mask, q_shape, k_shape, device)
        return lossless(mask.bias, dtype)
    keep = to_keep(mask, q_shape, k_shape, device=device)
    return torch.zeros(keep.shape, dtype=dtype, device=keep.device).masked_fill(~keep, float("-inf"))


def lossless(bias: Tensor, dtype: torch.dtype) -> Tensor:
    """The bias in `dtype`; raises `CallRefused` where `dtype` cannot hold every number of the bias's own."""
    import torch

    if torch.promote_types(bias.dtype, dtype) != dtype:
        raise CallRefused(
            f"`bias`: wanted a dtype that {dtype_name(dtype)} holds without loss, got {dtype_name(bias.dtype)}"
        )
    return bias.to(dtype)


def causal_keep(
    seq_len_q: int,
    seq_len_kv: int,
    causal: Causal,
    *,
    keys: int | None = None,
    device: torch.device | str | None = None,
) -> Tensor:
    """Bool `[seq_q, keys]`, True = attend, over the first `keys` keys (None: all); aligned by the original lengths."""
    import torch

    last = torch.arange(seq_len_q, device=device) + causal_offset(seq_len_q, seq_len_kv, causal)
    return torch.arange(seq_len_kv if keys is None else keys, device=device) <= last[:, None]


def causal_offset(seq_len_q: int, seq_len_kv: int, causal: Causal) -> int:
    """How many keys past its own position a query sees; when negative, so many of the first queries see none."""
    return seq_len_kv - seq_len_q if causal == "bottom_right" else 0


def _fitting(
    mask: Mask, q_shape: Sequence[int], k_shape: Sequence[int], device: torch.device | str | None
) -> tuple[CallShape, torch.device]:
    import torch

    call = CallShape(q_shape[0], q_shape[2], q_shape[1], k_shape[1])
    home = torch.empty(0, device=mask.device if device is None else device).device
    check_mask(mask, call, home)
    return call, home


def _check_bool(name: str, tensor: Tensor, wanted: str, rank: int) -> None:
    if str(tensor.dtype) != "torch.bool" or tensor.dim() != rank:
        instead = _INSTEAD.get(tensor.dim(), "") if rank == RANK else ""
        raise CallRefused(f"`{name}`: wanted bool {wanted}, got {written(tensor)}{instead}")


def _host_ints(name: str, lengths: object) -> tuple[int, ...]:
    import torch

    if isinstance(lengths, torch.Tensor):
        counts = not (lengths.is_floating_point() or lengths.is_complex() or lengths.dtype == torch.bool)
        if not counts or lengths.dim() != 1:
            raise CallRefused(f"`{name}`: wanted an integer tensor of one dimension, got {written(lengths)}")
        return tuple(lengths.tolist())
    if not isinstance(lengths, (list, tuple)) or any(type(length) is not int for length in lengths):
        raise CallRefused(f"`{name}`: wanted whole numbers, got {lengths!r}")
    return tuple(lengths)


def _check_lengths(name: str, lengths: tuple[int, ...], most: int | None) -> None:
    for length in lengths:
        if length < 0 or (most is not None and length > most):
            bounds = "0 or more" if most is None else f"0 to {most}"
            raise CallRefused(f"`{name}`: wanted {bounds}, got {length}")
