"""The eight kinds of mask as data: each says its kind, whether it fits a call, and what it lets a query see.

Built by the functions of `backends.masks`, which check what they are given; nothing here looks at a value on a device.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar, Literal

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from backends._checks import CallShape
    from backends.packing import Rows

Kind = Literal[
    "none",
    "all_keep",
    "suffix_key_padding",
    "key_padding",
    "key_and_query_padding",
    "block_diagonal",
    "boolean_per_query",
    "additive",
]


class Mask:
    """What any kind answers. By default it hides nothing and fits every call."""

    __slots__ = ()
    kind: ClassVar[Kind]

    @property
    def per_head(self) -> bool:
        """Whether heads may see different keys."""
        return False

    @property
    def device(self) -> torch.device | None:
        """Where the mask's tensors lie; None for a kind that is known on the host."""
        return None

    def misfit(self, call: CallShape) -> str | None:  # noqa: ARG002 - nothing to compare
        """What of the mask contradicts the sizes of the call, as `wanted …, got …`; None when it fits."""
        return None

    def leading_keys(self, call: CallShape) -> int:
        """How many leading keys can be seen at all, as far as the host knows: the rest may be sliced away."""
        return call.seq_len_kv

    def visible(self, call: CallShape, device: torch.device) -> Tensor | None:  # noqa: ARG002 - hides nothing
        """Bool, True = attend, broadcastable to `[batch, heads, seq_q, seq_kv]`; None when no key is hidden.

        `call.seq_len_kv` may be fewer keys than the mask describes, never fewer than `leading_keys`.
        """
        return None

    def live_queries(self) -> Tensor | None:
        """Bool `[batch, 1, seq_q, 1]`: rows that are False yield zeros whatever keys they see; None when all live."""
        return None

    def may_hide_row(self, call: CallShape) -> bool:  # noqa: ARG002 - hides nothing
        """Whether `visible` may leave a query without any key."""
        return False


class NoMask(Mask):
    """Every query sees every key."""

    __slots__ = ()
    kind = "none"


class AllKeep(Mask):
    """A mask was given and hides nothing."""

    __slots__ = ()
    kind = "all_keep"


@dataclass(frozen=True, slots=True)
class KeyLengths(Mask):
    """Keys from `lengths[b]` on are hidden in batch `b`; one int holds for every batch. All on the host."""

    kind = "suffix_key_padding"
    lengths: int | tuple[int, ...]
    seq_len_kv: int

    def per_batch(self, batch: int) -> tuple[int, ...]:
        """The number of keys seen in each of `batch` batches."""
        return (self.lengths,) * batch if isinstance(self.lengths, int) else self.lengths

    @property
    def uniform(self) -> int | None:
        """The length that every batch shares, or None when they differ."""
        lengths = self.per_batch(1)
        return lengths[0] if lengths and min(lengths) == max(lengths) else None

    def misfit(self, call: CallShape) -> str | None:
        got = (len(self.per_batch(call.batch)), self.seq_len_kv)
        return _unequal("lengths over [batch, seq_kv]", (call.batch, call.seq_len_kv), got)

    def leading_keys(self, call: CallShape) -> int:
        """The longest of the lengths."""
        return max((0, *self.per_batch(call.batch)))

    def visible(self, call: CallShape, device: torch.device) -> Tensor | None:
        """`[batch or 1, 1, 1, seq_kv]`, one comparison a batch, so that no length is copied to the device."""
        import torch

        if min((call.seq_len_kv, *self.per_batch(call.batch))) == call.seq_len_kv:
            return None
        positions = torch.arange(call.seq_len_kv, device=device)
        rows = (self.uniform,) if self.uniform is not None else self.per_batch(call.batch)
        return torch.stack([positions < length for length in rows])[:, None, None, :]

    def may_hide_row(self, call: CallShape) -> bool:
        """True when a batch has no key at all."""
        return 0 in self.per_batch(call.batch)


@dataclass(frozen=True, slots=True, eq=False)
class KeyPadding(Mask):
    """Any keys hidden, the same for every query and head: `keep` is bool `[batch, seq_kv]`."""

    kind = "key_padding"
    keep: Tensor
    packings: dict[str, Rows] = field(default_factory=dict, init=False, repr=False)
    """How a kernel packs the tokens of each side, kept for its next call: `keep` must not be written to after one."""

    @property
    def device(self) -> torch.device | None:
        return self.keep.device

    def misfit(self, call: CallShape) -> str | None:
        wanted = (call.batch, call.seq_len_kv)
        return _unequal("`keep` [batch, seq_kv]", wanted, tuple(self.keep.shape))

    def visible(self, call: CallShape, device: torch.device) -> Tensor | None:  # noqa: ARG002 - known to fit
        """`[batch, 1, 1, seq_kv]`."""
        return self.keep[:, None, None, :]

    def may_hide_row(self, call: CallShape) -> bool:  # noqa: ARG002 - the values are not looked at
        return True


@dataclass(frozen=True, slots=True, eq=False)
class KeyAndQueryPadding(Mask):
    """Padded keys are hidden, padded queries give zeros: bool `keep_q` `[batch, seq_q]`, `keep_k` `[batch, seq_kv]`."""

    kind = "key_and_query_padding"
    keep_q: Tensor
    keep_k: Tensor
    lengths: tuple[tuple[int, ...], tuple[int, ...]] | None = None
    """Of queries and of keys in each batch, where the host knows both and all padding comes last; else None."""
    packings: dict[str, Rows] = field(default_factory=dict, init=False, repr=False)
    """See `KeyPadding.packings`."""

    @property
    def device(self) -> torch.device | None:
        return self.keep_k.device

    def leading_keys(self, call: CallShape) -> int:
        """The longest of the lengths, where they are known."""
        return call.seq_len_kv if self.lengths is None else max((0, *self.lengths[1]))

    def misfit(self, call: CallShape) -> str | None:
        return _unequal("`keep_q` [batch, seq_q]", (call.batch, call.seq_len_q), tuple(self.keep_q.shape)) or _unequal(
            "`keep_k` [batch, seq_kv]", (call.batch, call.seq_len_kv), tuple(self.keep_k.shape)
        )

    def visible(self, call: CallShape, device: torch.device) -> Tensor | None:  # noqa: ARG002 - known to fit
        """The keys alone, `[batch, 1, 1, seq_kv]`: a mask of every pair would be `seq_q` times the size."""
        return self.keep_k[:, None, None, : call.seq_len_kv]

    def live_queries(self) -> Tensor | None:
        """`[batch, 1, seq_q, 1]`."""
        return self.keep_q[:, None, :, None]

    def may_hide_row(self, call: CallShape) -> bool:  # noqa: ARG002 - the values are not looked at
        return True


@dataclass(frozen=True, slots=True)
class BlockDiagonal(Mask):
    """Documents packed one after another along the sequence; a query sees the keys of its own document only.

    Document `i` has `lengths_q[i]` queries and `lengths_k[i]` keys, in every batch alike. All on the host.
    """

    kind = "block_diagonal"
    lengths_q: tuple[int, ...]
    lengths_k: tuple[int, ...]

    @property
    def cu_seqlens_q(self) -> tuple[int, ...]:
        """Where each document's queries start, and the end: one more than documents."""
        return tuple(accumulate(self.lengths_q, initial=0))

    @property
    def cu_seqlens_k(self) -> tuple[int, ...]:
        """Where each document's keys start, and the end: one more than documents."""
        return tuple(accumulate(self.lengths_k, initial=0))

    def misfit(self, call: CallShape) -> str | None:
        got = (sum(self.lengths_q), sum(self.lengths_k))
        return _unequal("documents that add up to [seq_q, seq_kv]", (call.seq_len_q, call.seq_len_kv), got)

    def visible(self, call: CallShape, device: torch.device) -> Tensor | None:
        """`[1, 1, seq_q, seq_kv]`, one fill a document, so that no length is copied to the device."""
        import torch

        keep = torch.zeros(call.seq_len_q, call.seq_len_kv, dtype=torch.bool, device=device)
        starts_q, starts_k = self.cu_seqlens_q, self.cu_seqlens_k
        for i in range(len(self.lengths_q)):
            keep[starts_q[i] : starts_q[i + 1], starts_k[i] : starts_k[i + 1]] = True
        return keep[None, None]

    def may_hide_row(self, call: CallShape) -> bool:  # noqa: ARG002 - the documents say it
        """True when a document has queries and no keys."""
        documents = zip(self.lengths_q, self.lengths_k, strict=True)
        return any(length_q > 0 and length_k == 0 for length_q, length_k in documents)


@dataclass(frozen=True, slots=True, eq=False)
class BooleanPerQuery(Mask):
    """Each query sees its own keys: `keep` is bool `[batch or 1, heads or 1, seq_q, seq_kv]`."""

    kind = "boolean_per_query"
    keep: Tensor

    @property
    def per_head(self) -> bool:
        """Whether there is a mask for each head."""
        return self.keep.shape[1] > 1

    @property
    def device(self) -> torch.device | None:
        return self.keep.device

    def misfit(self, call: CallShape) -> str | None:
        words = "`mask` [batch or 1, heads or 1, seq_q, seq_kv]"
        return _unequal(words, call, tuple(self.keep.shape), may_be_1=(0, 1))

    def visible(self, call: CallShape, device: torch.device) -> Tensor | None:  # noqa: ARG002 - known to fit
        """The mask as it was given."""
        return self.keep

    def may_hide_row(self, call: CallShape) -> bool:  # noqa: ARG002 - the values are not looked at
        return True


@dataclass(frozen=True, slots=True, eq=False)
class Additive(Mask):
    """Added to the scaled scores: floating `[batch or 1, heads or 1, seq_q or 1, seq_kv]`, where -inf hides a key."""

    kind = "additive"
    bias: Tensor

    @property
    def per_head(self) -> bool:
        """Whether there is a bias for each head."""
        return self.bias.shape[1] > 1

    @property
    def device(self) -> torch.device | None:
        return self.bias.device

    def misfit(self, call: CallShape) -> str | None:
        words = "`bias` [batch or 1, heads or 1, seq_q or 1, seq_kv]"
        return _unequal(words, call, tuple(self.bias.shape), may_be_1=(0, 1, 2))


def _unequal(
    words: str, wanted: tuple[int, ...], got: tuple[int, ...], *, may_be_1: tuple[int, ...] = ()
) -> str | None:
    pairs = enumerate(zip(wanted, got, strict=True))
    if all(want == have or (have == 1 and axis in may_be_1) for axis, (want, have) in pairs):
        return None
    return f"wanted {words} = {list(wanted)}, got {list(got)}"
