"""What the backends over `torch.nn.functional.scaled_dot_product_attention` share: binding, masks, rows of zeros."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch

from backends._begin import autocasts, begin
from backends._checks import Bound, CallShape
from backends._lse import hidden, unseen, without_lse
from backends.interface import BindError, CallRefused
from backends.masks import Additive, NoMask, causal_keep, causal_offset, lossless

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends._sdpa_lse import LseLaunch
    from backends.interface import Causal, Geometry, Repeated
    from backends.masks import Mask

DTYPES = {
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "float64": torch.float64,
}
HALVES = (torch.bfloat16, torch.float16)


class Launch(Protocol):
    """Torch's function on `[batch, heads, seq, head_dim]`, perhaps pinned to one of its kernels."""

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        /,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """A mask never leaves a query without a key."""
        ...


class Prepared(NamedTuple):
    """A mask and an alignment in torch's terms, over the first `keys` keys, and the dtype to compute in."""

    dtype: torch.dtype
    keys: int
    attn_mask: Tensor | None
    dead: Tensor | None
    """Bool, broadcastable to `[batch, heads, seq_q, 1]`: queries that yield zeros."""
    is_causal: bool = False


@dataclass(frozen=True, slots=True)
class SdpaKernel:
    """A `Kernel` over one way to launch torch's function.

    It is never given fewer keys than `fewest_keys`. `square_causal` says that `is_causal` is for equal lengths only,
    `half_only` that a bias which the query's dtype cannot hold is refused, and not a reason to compute in float32.
    `lse_launch` is the same attention by an operator that gives the log-sum-exp.
    """

    bound: Bound
    launch: Launch
    lse_launch: LseLaunch | None = None
    fewest_keys: int = 1
    square_causal: bool = False
    half_only: bool = False

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """See `Kernel.__call__`."""
        call, mask = begin(self.bound, q, k, v, mask=mask, causal=causal)
        self._check_keys(call)
        if 0 in (call.batch, call.seq_len_q, mask.leading_keys(call)):
            return q.masked_fill(q.new_ones((), dtype=torch.bool), 0.0)
        ready = self._prepare(mask, call, causal, q)
        heads, factor = _laid(ready, q, k, v, scale)
        out = self.launch(
            *heads,
            attn_mask=ready.attn_mask,
            is_causal=ready.is_causal,
            scale=factor,
            enable_gqa=self.bound.grouped,
        )
        return _shown(out, ready, q.dtype)

    def with_lse(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> tuple[Tensor, Tensor]:
        """See `LseKernel.with_lse`; refuses tensors that want gradients, and devices without such an operator."""
        call, mask = begin(self.bound, q, k, v, mask=mask, causal=causal, lse=True)
        self._check_keys(call)
        if self.lse_launch is None:
            raise without_lse("torch", "a launch that gives the output alone")
        if 0 in (call.batch, call.seq_len_q, mask.leading_keys(call)):
            return torch.zeros_like(q, memory_format=torch.contiguous_format), unseen(q)
        ready = self._prepare(mask, call, causal, q)
        heads, factor = _laid(ready, q, k, v, scale)
        out, lse = self.lse_launch(*heads, attn_mask=ready.attn_mask, is_causal=ready.is_causal, scale=factor)
        dead = None if ready.dead is None else ready.dead.squeeze(-1)
        return _shown(out, ready, q.dtype), hidden(lse.float(), dead).contiguous()

    def repeated(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,  # noqa: ARG002 - as `k` is
        *,
        causal: Causal | None,
        scale: float | None,
    ) -> Repeated | None:
        """See `RepeatedKernel.repeated`: torch's function and the change of layout, where a call needs no more."""
        call = CallShape(q.shape[0], q.shape[2], q.shape[1], k.shape[1])
        if 0 in call or not (scale is None or scale > 0):
            return None
        ready = self._prepare(NoMask(), call, causal, q)
        if ready.attn_mask is not None or ready.dead is not None or ready.keys != call.seq_len_kv:
            return None
        given: dict[str, Any] = {"is_causal": ready.is_causal, "scale": scale, "enable_gqa": self.bound.grouped}
        named = {name: value for name, value in given.items() if value}  # each that is passed takes time
        launch = partial(self.launch, **named) if named else self.launch

        def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return launch(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)

        return None if autocasts(q.device.type) else run  # its result has another dtype

    def _check_keys(self, call: CallShape) -> None:
        if 0 < call.seq_len_kv < self.fewest_keys:
            raise CallRefused(f"`seq_len_kv`: wanted {self.fewest_keys} or more, got {call.seq_len_kv}")

    def _prepare(self, mask: Mask, call: CallShape, causal: Causal | None, q: Tensor) -> Prepared:
        keys = min(call.seq_len_kv, max(mask.leading_keys(call), self.fewest_keys))
        if isinstance(mask, Additive):
            bias, dead = _biased(self._held(mask, q.dtype), _corner(call, causal, keys, q.device))
            return Prepared(bias.dtype, keys, bias, dead)
        visible = mask.visible(call if keys == call.seq_len_kv else call._replace(seq_len_kv=keys), q.device)
        offset = 0 if causal is None else causal_offset(call.seq_len_q, call.seq_len_kv, causal)
        if visible is None and (causal is None or self._is_native(offset, call.seq_len_q, keys)):
            return Prepared(q.dtype, keys, None, None, is_causal=causal is not None)
        keep = _both(visible, _corner(call, causal, keys, q.device))
        both = visible is not None and causal is not None  # a document may begin behind what its queries see
        may_hide_row = mask.may_hide_row(call) or offset < 0 or both
        return Prepared(q.dtype, keys, *_opened(keep, mask.live_queries(), may_hide_row=may_hide_row))

    def _is_native(self, offset: int, queries: int, keys: int) -> bool:
        return offset == 0 and (queries == keys or not self.square_causal)

    def _held(self, mask: Additive, dtype: torch.dtype) -> Tensor:
        """The bias in the query's dtype, or in float32 where half precision does not hold it.

        Not beside a half query, as torch allows: with that, its kernel of cuDNN reads the bias as if it were half.
        """
        held = torch.promote_types(mask.bias.dtype, dtype) == dtype
        widened = not held and dtype in HALVES and not self.half_only
        return lossless(mask.bias, torch.float32 if widened else dtype)


def _laid(
    ready: Prepared, q: Tensor, k: Tensor, v: Tensor, scale: float | None
) -> tuple[tuple[Tensor, Tensor, Tensor], float | None]:
    """The tensors as torch's function takes them, heads first, and a scale that it can take."""
    scale, q = _positive(scale, q)
    if ready.keys != k.shape[1]:
        k, v = k[:, : ready.keys], v[:, : ready.keys]
    if ready.dtype != q.dtype:
        q, k, v = q.to(ready.dtype), k.to(ready.dtype), v.to(ready.dtype)
    return (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)), scale


def _shown(out: Tensor, ready: Prepared, dtype: torch.dtype) -> Tensor:
    """What torch's function gave as an output: zeros where a query sees no key, and sequences first again."""
    out = out if ready.dead is None else out.masked_fill(ready.dead, 0.0)
    out = out.transpose(1, 2)
    return out if out.dtype == dtype else out.to(dtype)  # after a wide bias, or under autocast


def _positive(scale: float | None, q: Tensor) -> tuple[float | None, Tensor]:
    """The scale with its sign in the query: kernels multiply hidden scores, -inf, by it, and 0 or less breaks that."""
    if scale is None or scale > 0:
        return scale, q
    return (-scale, -q) if scale < 0 else (1.0, q * 0.0)


def _corner(call: CallShape, causal: Causal | None, keys: int, device: torch.device) -> Tensor | None:
    if causal is None:
        return None
    return causal_keep(call.seq_len_q, call.seq_len_kv, causal, keys=keys, device=device)


def _both(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _opened(keep: Tensor | None, live: Tensor | None, *, may_hide_row: bool) -> tuple[Tensor | None, Tensor | None]:
    """The mask with every row that hides all keys opened, so that no kernel divides by zero, and the rows to zero."""
    dead = None if live is None else ~live
    if keep is None or not may_hide_row:
        return keep, dead
    hidden = ~keep.any(dim=-1, keepdim=True)
    return keep | hidden, hidden if dead is None else hidden | dead


def _biased(bias: Tensor, corner: Tensor | None) -> tuple[Tensor, Tensor]:
    """The same for a bias."""
    if corner is not None:
        bias = bias.masked_fill(~corner, float("-inf"))
    hidden = (bias == float("-inf")).all(dim=-1, keepdim=True)
    return bias.masked_fill(hidden, 0.0), hidden


def bound_geometry(name: str, spec: Mapping[str, object], geometry: Geometry) -> Bound:
    """The geometry in torch's types; raises `BindError` for what no backend over torch's function can run."""
    for option in spec:
        raise BindError(f"`spec` of `{name}`: wanted no option, got `{option}`")
    for field, wanted, fits in (
        ("provider", "none", geometry.provider is None),
        ("dtype", ", ".join(DTYPES), geometry.dtype in DTYPES),
        ("head_dim", "1 or more", geometry.head_dim >= 1),
        ("num_kv_heads", "1 or more", geometry.num_kv_heads >= 1),
        ("num_heads", f"a multiple of `num_kv_heads`, {geometry.num_kv_heads}", _divides(geometry)),
    ):
        if not fits:
            raise BindError(f"`{field}` of `{name}`: wanted {wanted}, got {getattr(geometry, field)}")
    grouped = geometry.num_heads != geometry.num_kv_heads
    device = _device(name, geometry.device)
    return Bound(geometry, DTYPES[geometry.dtype], device, grouped=grouped, any_index=":" not in geometry.device)


def _divides(geometry: Geometry) -> bool:
    heads, kv_heads = geometry.num_heads, geometry.num_kv_heads
    return kv_heads >= 1 and heads >= 1 and heads % kv_heads == 0


def _device(name: str, device: str) -> torch.device:
    try:
        return torch.device(device)
    except RuntimeError as error:
        raise BindError(f"`device` of `{name}`: wanted a torch device, got {device}") from error
