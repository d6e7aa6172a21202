"""Backends broken on purpose: a correct one with one fault, as dispatchers and adapters have had it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import torch
from torch.nn.functional import pad

from backends import masks, torch_sdpa
from backends.conformance import Call
from backends.conformance.checking import lse_of
from backends.interface import Backend, CallRefused, Causal, Geometry, Kernel, Precision
from backends.masks import Additive, BlockDiagonal, BooleanPerQuery, KeyAndQueryPadding, KeyLengths, KeyPadding

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends.masks import Mask

Faulty: TypeAlias = Callable[[Kernel, Call], "Tensor"]
"""What a faulty kernel gives for a call, by means of a correct one."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A backend whose kernel has the fault, and says that it rounds as coarsely as `precision`."""

    fault: Faulty
    precision: Precision = "exact"
    correct: Backend = torch_sdpa.BACKEND
    name: str = "BROKEN"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`."""
        kernel = self.correct.bind(spec, geometry)

        def faulty(
            q: Tensor,
            k: Tensor,
            v: Tensor,
            *,
            mask: Mask | None = None,
            causal: Causal | None = None,
            scale: float | None = None,
        ) -> Tensor:
            return self.fault(kernel, Call(q, k, v, mask, causal, scale))

        return faulty


@dataclass(frozen=True)
class Plain:
    """A backend with no fault, whose kernel gives its output alone."""

    name: str = "PLAIN"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """Bind torch's kernel, whatever build is asked for, and hide what more it has."""
        return torch_sdpa.BACKEND.bind(spec, replace(geometry, provider=None)).__call__


def otherwise(change: Callable[[Call], Call]) -> Faulty:
    """The fault of computing another call."""
    return lambda kernel, call: change(call).of(kernel)


def masked(*changes: tuple[type[Mask], Callable[[Call], Mask | None]]) -> Faulty:
    """The fault of computing another mask, for masks of these kinds."""

    def changed(call: Call) -> Call:
        for kind, change in changes:
            if isinstance(call.mask, kind):
                return replace(call, mask=change(call))
        return call

    return otherwise(changed)


# --- masks ---


def keep_of(call: Call) -> Tensor:
    """The keys of a padding, `[batch, seq_kv]`."""
    assert isinstance(call.mask, KeyPadding)
    return call.mask.keep


def pairs_of(call: Call) -> Tensor:
    """The pairs of a mask per query."""
    assert isinstance(call.mask, BooleanPerQuery)
    return call.mask.keep


def bias_of(call: Call) -> Tensor:
    """The bias."""
    assert isinstance(call.mask, Additive)
    return call.mask.bias


def lengths_of(call: Call) -> tuple[int, ...]:
    """The length of each batch."""
    assert isinstance(call.mask, KeyLengths)
    return call.mask.per_batch(call.q.shape[0])


def of_first(lengths: tuple[int, ...]) -> list[int]:
    """The first batch's for all."""
    return [lengths[0]] * len(lengths)


def as_numbers(call: Call) -> Mask:
    """Booleans added as 0 and 1."""
    keep = masks.to_keep(call.mask or masks.no_mask(), call.q.shape, call.k.shape)
    return masks.additive(keep.to(call.q.dtype))


def square_read_as_pairs(call: Call) -> Mask | None:
    """`[batch, keys]` read as `[queries, keys]` where that fits."""
    keep, queries = keep_of(call), call.q.shape[1]
    return masks.boolean_per_query(keep[None, None]) if keep.shape[0] == queries else call.mask


def queries_hidden_too(call: Call) -> Mask | None:
    """The keys' mask laid over as many queries."""
    keep = keep_of(call)
    return masks.key_and_query_padding(keep, keep) if call.q.shape[1] == keep.shape[1] else call.mask


def queries_answered(call: Call) -> Mask:
    """The padding of the queries forgotten."""
    assert isinstance(call.mask, KeyAndQueryPadding)
    return masks.key_padding(call.mask.keep_k)


def unstrided(call: Call) -> Mask:
    """A mask read from its memory as if it were contiguous."""
    return masks.boolean_per_query(as_contiguous(pairs_of(call)))


def blind_rows(call: Call) -> Tensor:
    """Bool `[batch, seq_q, heads, 1]`: rows that see no key."""
    return (call.truth() == 0).all(dim=-1, keepdim=True)


def blind_averaged(kernel: Kernel, call: Call) -> Tensor:
    """Rows that see no key hold the mean of all values."""
    group = call.q.shape[2] // call.k.shape[2]
    mean = call.v.mean(dim=1, keepdim=True).repeat_interleave(group, dim=2)
    return torch.where(blind_rows(call), mean, call.of(kernel)) if call.k.shape[1] else call.of(kernel)


def blind_unwritten(kernel: Kernel, call: Call) -> Tensor:
    """Rows that see no key are whatever the memory held."""
    out = torch.empty_like(call.q, memory_format=torch.contiguous_format)
    seen = ~blind_rows(call).expand_as(out)
    out[seen] = call.of(kernel)[seen]
    return out


def blind_nan(kernel: Kernel, call: Call) -> Tensor:
    """Rows that see no key are 0 / 0."""
    return call.of(kernel).masked_fill(blind_rows(call), math.nan)


# --- scale and diagonal ---


def default_scale(call: Call) -> float:
    """By the definition."""
    return call.q.shape[3] ** -0.5 if call.scale is None else call.scale


def filled_up_scale(call: Call) -> Call:
    """The default scale of the next power of two."""
    return replace(call, scale=(1 << (call.q.shape[3] - 1).bit_length()) ** -0.5) if call.scale is None else call


def other_corner(*, wanted: Causal) -> Faulty:
    """This alignment read as the other one."""
    other: Causal = "bottom_right" if wanted == "top_left" else "top_left"
    return otherwise(lambda call: replace(call, causal=other) if call.causal == wanted else call)


def aligned_by_what_is_left(call: Call) -> Call:
    """Keys cut off before the diagonal is drawn."""
    if call.causal is None or not isinstance(call.mask, KeyLengths):
        return call
    keys = max(lengths_of(call))
    return replace(call, k=call.k[:, :keys], v=call.v[:, :keys], mask=None)


# --- heads and sequences ---


def with_keys(call: Call, change: Callable[[Tensor], Tensor]) -> Call:
    """Keys and values changed alike."""
    return replace(call, k=change(call.k), v=change(call.v))


def tiled(call: Call) -> Call:
    """KV head `h % num_kv_heads` for head `h`, written as the order of heads that gives it."""
    return replace(call, q=call.q[:, :, tiling(call)])


def tiling(call: Call) -> Tensor:
    """The places of the heads once those of one KV head stand side by side, as 0 2 1 3 of four with two KV heads."""
    heads, kv_heads = call.q.shape[2], call.k.shape[2]
    return torch.arange(heads).view(heads // kv_heads, kv_heads).T.flatten()


def key_heads_tiled(kernel: Kernel, call: Call) -> Tensor:
    """KV heads repeated as 0 1 0 1 and not as 0 0 1 1."""
    return tiled(call).of(kernel)[:, :, tiling(call).argsort()] if call.mask is None else call.of(kernel)


def swapped(x: Tensor) -> Tensor:
    """Sequence and heads read in each other's place, sizes unchanged."""
    return x.transpose(1, 2).reshape(x.shape)


def keys_filled_up(call: Call) -> Call:
    """Keys and values of zeros up to a multiple of 16, and nothing that hides them."""
    more = -call.k.shape[1] % 16
    if call.mask is not None or call.causal is not None:
        return call
    return with_keys(call, lambda x: pad(x, (0, 0, 0, 0, 0, more)))


def whole_blocks(call: Call) -> Call:
    """Keys behind the last block of 64 dropped."""
    keys = call.k.shape[1] // 64 * 64
    return with_keys(call, lambda x: x[:, :keys]) if keys and call.mask is None and call.causal is None else call


# --- memory ---


def as_contiguous(x: Tensor) -> Tensor:
    """What lies where the tensor would lie if it were contiguous."""
    dense = torch.empty(x.shape, dtype=x.dtype, device="meta")
    return x.as_strided(dense.shape, dense.stride()) if x.numel() else x


def aligned(x: Tensor) -> Tensor:
    """Read from the last address that is a multiple of 16."""
    return x.as_strided(x.shape, x.stride(), x.storage_offset() - x.storage_offset() % (16 // x.element_size()))


def keys_centred_in_place(kernel: Kernel, call: Call) -> Tensor:
    """The mean taken off the keys where they lie."""
    call.k.sub_(call.k.mean(dim=1, keepdim=True)) if call.k.is_contiguous() else None
    return call.of(kernel)


def queries_scaled_in_place(kernel: Kernel, call: Call) -> Tensor:
    """The scale put into the queries where they lie."""
    if call.q.is_contiguous():
        call.q.mul_(default_scale(call))
        return replace(call, scale=1.0).of(kernel)
    return call.of(kernel)


def mask_opened_in_place(kernel: Kernel, call: Call) -> Tensor:
    """The mask's own tensor changed after its use."""
    out = call.of(kernel)
    for name, tensor in call.tensors():
        if name.endswith("of the mask") and tensor.is_contiguous() and tensor.dtype == torch.bool:
            tensor.fill_(True)
    return out


def refusing(hides: Callable[[Call], bool], error: Exception) -> Faulty:
    """Raises for some calls."""

    def faulty(kernel: Kernel, call: Call) -> Tensor:
        if hides(call):
            raise error
        return call.of(kernel)

    return faulty


CAUSAL_KINDS = (KeyLengths, KeyPadding)
FAULTS: dict[str, tuple[Faulty, set[str]]] = {
    "mask dropped": (
        otherwise(lambda c: replace(c, mask=None)),
        {"key-padding", "key-lengths", "key-lengths-shared", "query-padding", "documents"}
        | {"mask-per-query", "mask-per-head", "bias"},
    ),
    "mask inverted": (
        masked(
            (KeyPadding, lambda c: masks.key_padding(~keep_of(c))),
            (BooleanPerQuery, lambda c: masks.boolean_per_query(~pairs_of(c))),
        ),
        {"key-padding", "mask-per-query"},
    ),
    "lengths inverted": (
        masked((KeyLengths, lambda c: masks.key_lengths([13 - n for n in lengths_of(c)], 13))),
        {"key-lengths", "key-lengths-shared"},
    ),
    "gaps packed as a prefix": (
        masked((KeyPadding, lambda c: masks.key_lengths(keep_of(c).sum(dim=1), c.k.shape[1]))),
        {"key-padding"},
    ),
    "batch 0's mask for all": (
        masked(
            (KeyPadding, lambda c: masks.key_padding(keep_of(c)[:1].expand_as(keep_of(c)))),
            (KeyLengths, lambda c: masks.key_lengths(of_first(lengths_of(c)), c.k.shape[1])),
            (BooleanPerQuery, lambda c: masks.boolean_per_query(pairs_of(c)[:1])),
        ),
        {"key-padding", "key-lengths", "mask-per-query"},
    ),
    "booleans added as 0 and 1": (
        masked((KeyPadding, as_numbers), (BooleanPerQuery, as_numbers)),
        {"key-padding", "mask-per-query"},
    ),
    "mask per query reduced to keys": (
        masked((BooleanPerQuery, lambda c: masks.key_padding(pairs_of(c).any(dim=2).any(dim=1)))),
        {"mask-per-query"},
    ),
    "head 0's mask for all": (
        masked(
            (BooleanPerQuery, lambda c: masks.boolean_per_query(pairs_of(c)[:, :1])),
            (Additive, lambda c: masks.additive(bias_of(c)[:, :1])),
        ),
        {"mask-per-head", "bias"},
    ),
    "[batch, keys] read as [queries, keys]": (masked((KeyPadding, square_read_as_pairs)), {"key-padding-square"}),
    "hidden keys hide queries": (masked((KeyPadding, queries_hidden_too)), {"key-padding-alone"}),
    "padded queries answered": (masked((KeyAndQueryPadding, queries_answered)), {"query-padding"}),
    "documents merged": (masked((BlockDiagonal, lambda _: None)), {"documents", "document-without-keys"}),
    "rows without keys averaged": (
        blind_averaged,
        {"key-length-zero", "key-padding-batch", "mask-row", "document-without-keys", "causal-more-queries"},
    ),
    "rows without keys NaN": (
        blind_nan,
        {"key-length-zero", "key-padding-batch", "mask-row", "document-without-keys", "causal-more-queries", "no-keys"},
    ),
    "rows without keys not written": (
        blind_unwritten,
        {"key-length-zero", "key-padding-batch", "mask-row", "document-without-keys", "causal-more-queries", "no-keys"},
    ),
    "bias read as boolean": (
        masked((Additive, lambda c: masks.additive(bias_of(c).masked_fill(bias_of(c).isfinite(), 0.0)))),
        {"bias"},
    ),
    "bias dropped": (masked((Additive, lambda _: None)), {"bias", "bias-hides"}),
    "-inf in a bias made finite": (
        masked((Additive, lambda c: masks.additive(bias_of(c).clamp(min=-1.0)))),
        {"bias-hides"},
    ),
    "bias rounded to half precision": (
        masked((Additive, lambda c: masks.additive(bias_of(c).bfloat16()))),
        {"bias-wide"},
    ),
    "bias read as another type": (
        masked((Additive, lambda c: masks.additive(bias_of(c).view(torch.float16)[..., : c.k.shape[1]]))),
        {"bias-wide"},
    ),
    "strides of a mask ignored": (masked((BooleanPerQuery, unstrided)), {"mask-strided"}),
    "scale dropped": (otherwise(lambda c: replace(c, scale=None)), {"scale", "scale-negative"}),
    "scale applied twice": (otherwise(lambda c: replace(c, scale=default_scale(c) ** 2)), {"dense"}),
    "scale not applied": (otherwise(lambda c: replace(c, scale=1.0)), {"dense", "scale"}),
    "sign of the scale dropped": (otherwise(lambda c: replace(c, scale=abs(default_scale(c)))), {"scale-negative"}),
    "scale of the padded head_dim": (otherwise(filled_up_scale), {"scale-of-head-dim"}),
    "top-left read as bottom-right": (other_corner(wanted="top_left"), {"causal-top-left"}),
    "bottom-right read as top-left": (
        other_corner(wanted="bottom_right"),
        {"causal-bottom-right", "causal-more-queries"},
    ),
    "causal dropped": (
        otherwise(lambda c: replace(c, causal=None)),
        {"causal-square", "causal-top-left", "causal-bottom-right", "causal-beside-mask", "causal-beside-lengths"},
    ),
    "causal dropped beside a mask": (
        otherwise(lambda c: replace(c, causal=None) if c.mask is not None else c),
        {"causal-beside-mask", "causal-beside-lengths"},
    ),
    "mask dropped beside causal": (
        otherwise(lambda c: replace(c, mask=None) if c.causal is not None else c),
        {"causal-beside-mask", "causal-beside-lengths"},
    ),
    "diagonal aligned by the keys that are left": (otherwise(aligned_by_what_is_left), {"causal-beside-lengths"}),
    "KV heads tiled": (key_heads_tiled, {"grouped-heads"}),
    "first KV head for all": (
        otherwise(lambda c: with_keys(c, lambda x: x[:, :, :1].expand_as(x))),
        {"grouped-heads"},
    ),
    "[batch, seq, heads] read as [batch, heads, seq]": (
        otherwise(lambda c: replace(with_keys(c, swapped), q=swapped(c.q))),
        {"heads-as-sequence"},
    ),
    "output left transposed": (lambda kernel, c: swapped(c.of(kernel)), {"heads-as-sequence"}),
    "output transposed in shape too": (lambda kernel, c: c.of(kernel).transpose(1, 2), {"dense"}),
    "output flattened": (lambda kernel, c: c.of(kernel).flatten(2), {"dense"}),
    "output of another dtype": (lambda kernel, c: c.of(kernel).to(torch.float64), {"dense"}),
    "output on another device": (lambda kernel, c: c.of(kernel).to("meta"), {"dense"}),
    "output in a tuple": (lambda kernel, c: (c.of(kernel),), {"dense"}),  # type: ignore[dict-item, return-value]
    "keys centred in place": (keys_centred_in_place, {"dense", "value-is-key"}),
    "queries scaled in place": (queries_scaled_in_place, {"dense"}),
    "mask changed in place": (mask_opened_in_place, {"key-padding"}),
    "values in float16": (otherwise(lambda c: replace(c, v=c.v.half().to(c.v.dtype))), {"huge-value"}),
    "values cut off at the largest of float16": (
        otherwise(lambda c: replace(c, v=c.v.clamp(-65504, 65504))),
        {"huge-value"},
    ),
    "keys behind the last block dropped": (otherwise(whole_blocks), {"tail-of-keys"}),
    "keys that fill up the last block counted": (otherwise(keys_filled_up), {"tail-filled-up"}),
    "strides ignored": (
        otherwise(lambda c: replace(with_keys(c, as_contiguous), q=as_contiguous(c.q))),
        {"strided-heads", "strided-elements", "fused-rows", "cut-sequence", "expanded-heads", "expanded-batch"},
    ),
    "alignment assumed": (otherwise(lambda c: replace(with_keys(c, aligned), q=aligned(c.q))), {"unaligned"}),
    "an empty batch not taken": (refusing(lambda c: c.q.shape[0] == 0, RuntimeError("empty")), {"no-batch"}),
    "no queries not taken": (refusing(lambda c: c.q.shape[1] == 0, RuntimeError("empty")), {"no-queries"}),
    "one query not taken": (refusing(lambda c: c.q.shape[1] == 1, RuntimeError("one")), {"one-query"}),
    "one key not taken": (refusing(lambda c: c.k.shape[1] == 1, RuntimeError("one")), {"one-key"}),
    "masks that hide nothing not taken": (
        refusing(lambda c: getattr(c.mask, "kind", "") == "all_keep", TypeError("kind")),
        {"all-keep"},
    ),
    "blocks behind the first lost": (
        otherwise(lambda c: with_keys(c, lambda x: x[:, :128]) if c.causal is None and c.mask is None else c),
        {"blocks", "tail-of-keys"},
    ),
    "causal from the second block of queries on dropped": (
        lambda kernel, c: torch.cat(
            [c.of(kernel)[:, :128], replace(c, causal=None, mask=c.mask).of(kernel)[:, 128:]], dim=1
        ),
        {"causal-blocks"},
    ),
    "a refusal without a reason": (refusing(lambda c: c.mask is not None, CallRefused()), {"key-padding"}),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class LseKernel:
    """A kernel with a log-sum-exp that `change` spoils."""

    kernel: Kernel
    change: Callable[[Tensor, Call], Tensor]

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
        return self.kernel(q, k, v, mask=mask, causal=causal, scale=scale)

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
        """See `LseKernel.with_lse` of the interface."""
        call = Call(q, k, v, mask, causal, scale)
        return call.of(self.kernel), self.change(lse_of(call), call).float()


@dataclass(frozen=True, slots=True)
class WithLse:
    """`TORCH_SDPA` with a log-sum-exp."""

    change: Callable[[Tensor, Call], Tensor] = lambda lse, _: lse
    precision: Precision = "exact"
    name: str = "WITH_LSE"

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> LseKernel:
        """See `Backend.bind`."""
        return LseKernel(torch_sdpa.BACKEND.bind(spec, geometry), self.change)


LSE_FAULTS: dict[str, tuple[Callable[[Tensor, Call], Tensor], set[str]]] = {
    "to base 2": (lambda lse, _: lse / math.log(2), {"lse", "lse-layout", "lse-lengths"}),
    "[batch, seq_q, heads]": (lambda lse, _: lse.transpose(1, 2), {"lse", "lse-layout", "lse-lengths"}),
    "laid out as [batch, seq_q, heads]": (lambda lse, _: lse.transpose(1, 2).reshape(lse.shape), {"lse-layout"}),
    "of unscaled scores": (lambda _, c: lse_of(replace(c, scale=1.0)), {"lse"}),
    "of hidden keys too": (lambda _, c: lse_of(replace(c, mask=None)), {"lse-lengths"}),
    "of keys behind the diagonal too": (lambda _, c: lse_of(replace(c, causal=None)), {"lse-causal"}),
    "of padded queries": (
        lambda lse, c: lse_of(replace(c, mask=queries_answered(c))) if isinstance(c.mask, KeyAndQueryPadding) else lse,
        {"lse-padding"},
    ),
    "0 without keys": (lambda lse, _: lse.masked_fill(lse.isinf(), 0.0), {"lse-lengths", "lse-causal"}),
    "+inf without keys": (lambda lse, _: lse.abs(), {"lse-lengths"}),
    "a trailing dimension": (lambda lse, _: lse[..., None], {"lse"}),
}
