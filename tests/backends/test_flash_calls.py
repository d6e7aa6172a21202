"""What `FLASH_ATTN` hands to a build, what it keeps of a mask, and what it refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks, prepare_mask
from backends._flash import FlashKernel
from backends._flash_operators import Functions, number_of
from backends.interface import CallRefused
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes.flash_packages import bind

if TYPE_CHECKING:
    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask

SIZES = Sizes(dtype=torch.bfloat16)
PADDINGS = ["key padding", "key and query padding"]
COMPUTED = ["nothing", "none", "all_keep", "suffix", "suffix, uniform", "block diagonal", *PADDINGS]


@dataclass
class Recorder:
    """Functions in the place of a build's, which note how they are called."""

    called: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, object]]] = field(default_factory=list)

    def dense(self, *args: Tensor, **kwargs: object) -> Tensor:
        """Answers with the queries."""
        q, k, _ = args
        self.called.append(("dense", tuple(q.shape), tuple(k.shape), kwargs))
        return q.clone()

    def varlen(self, *args: Tensor, **kwargs: object) -> Tensor:
        """The same for packed sequences."""
        q, k, _ = args
        self.called.append(("varlen", tuple(q.shape), tuple(k.shape), kwargs))
        return q.clone()

    @property
    def kernel(self) -> FlashKernel:
        """Bound to these functions."""
        kernel = bind("fa2", SIZES)
        number = number_of(Functions(self.dense, self.varlen))
        return replace(kernel, build=replace(kernel.build, number=number))


DENSE: list[tuple[str, Mask | None, Causal | None, int, int, int, bool]] = [
    ("no mask", None, None, 9, 9, 13, False),
    ("nothing hidden", masks.all_keep(), None, 9, 9, 13, False),
    ("one length", masks.key_lengths(10, 13), None, 9, 9, 10, False),
    ("equal lengths", masks.key_lengths([10, 10], 13), None, 9, 9, 10, False),
    ("causal, fewer queries", None, "bottom_right", 9, 9, 13, True),
    ("causal, square", None, "top_left", 13, 13, 13, True),
    ("causal, more queries", None, "bottom_right", 15, 13, 13, True),
]


@pytest.mark.parametrize(
    ("mask", "causal", "seq_q", "queries", "keys", "is_causal"), [case[1:] for case in DENSE], ids=[x[0] for x in DENSE]
)
def test_dense_calls(
    mask: Mask | None, causal: Causal | None, seq_q: int, queries: int, keys: int, *, is_causal: bool
) -> None:
    """Sliced to what is seen; three arguments by position and the rest by name."""
    sizes, recorder = replace(SIZES, seq_q=seq_q), Recorder()

    out = recorder.kernel(*sizes.qkv(), mask=mask, causal=causal, scale=0.5)

    assert recorder.called == [
        ("dense", (2, queries, 4, 16), (2, keys, 4, 16), {"softmax_scale": 0.5, "causal": is_causal})
    ]
    assert out.shape == (2, seq_q, 4, 16)


def both(keep_q: list[list[int]], keep_k: list[list[int]]) -> Mask:
    """Padding of both sides, prepared."""
    made = (torch.tensor(x, dtype=torch.bool).repeat_interleave(n, dim=1) for x, n in ((keep_q, 3), (keep_k, 1)))
    return prepare_mask(masks.key_and_query_padding(*made)).mask


ONES = [1] * 13
PACKED: list[tuple[str, Mask, tuple[int, int], tuple[list[int], list[int]], tuple[int, int]]] = [
    ("lengths", masks.key_lengths([10, 5], 13), (18, 15), ([0, 9, 18], [0, 10, 15]), (9, 10)),
    ("a length of zero", masks.key_lengths([0, 5], 13), (9, 5), ([0, 9], [0, 5]), (9, 5)),
    ("documents", masks.block_diagonal([4, 5], [6, 7]), (18, 26), ([0, 4, 9, 13, 18], [0, 6, 13, 19, 26]), (5, 7)),
    ("a document without keys", masks.block_diagonal([4, 5], [0, 13]), (10, 26), ([0, 5, 10], [0, 13, 26]), (5, 13)),
    ("a document without queries", masks.block_diagonal([0, 9], [6, 7]), (18, 14), ([0, 9, 18], [0, 7, 14]), (9, 7)),
    (
        "suffixes of both sides, prepared",
        both([[1, 1, 0], [1, 0, 0]], [ONES, [1, 1] + [0] * 11]),
        (9, 15),
        ([0, 6, 9], [0, 13, 15]),
        (6, 13),
    ),
    (
        "any padding of both sides, prepared",
        both([[0, 1, 1], [1, 0, 1]], [[0, *ONES[1:]], [0, 1] + [0] * 11]),
        (12, 13),
        ([0, 6, 12], [0, 12, 13]),
        (6, 12),
    ),
    (
        "any keys, prepared",
        prepare_mask(masks.key_padding(torch.tensor([[0, *ONES[1:]], [0, 1] + [0] * 11], dtype=torch.bool))).mask,
        (18, 13),
        ([0, 9, 18], [0, 12, 13]),
        (9, 12),
    ),
    (
        "any keys, as they are",
        masks.key_padding(torch.tensor([[0, *ONES[1:]], [0, 1] + [0] * 11], dtype=torch.bool)),
        (18, 26),
        ([0, 9, 18], [0, 12, 13]),
        (9, 13),
    ),
]


@pytest.mark.parametrize(
    ("mask", "tokens", "offsets", "longest"), [case[1:] for case in PACKED], ids=[case[0] for case in PACKED]
)
def test_packed_calls(
    mask: Mask, tokens: tuple[int, int], offsets: tuple[list[int], list[int]], longest: tuple[int, int]
) -> None:
    """No sequence is empty where the host knows it, and no token too many where the mask was prepared."""
    recorder = Recorder()

    recorder.kernel(*SIZES.qkv(), mask=mask)

    ((function, q, k, keywords),) = recorder.called
    cu_seqlens = [keywords.pop(name) for name in ("cu_seqlens_q", "cu_seqlens_k")]
    assert function == "varlen"
    assert (q, k) == ((tokens[0], 4, 16), (tokens[1], 4, 16))
    assert all(isinstance(x, torch.Tensor) and x.dtype == torch.int32 for x in cu_seqlens)
    assert [x.tolist() for x in cu_seqlens if isinstance(x, torch.Tensor)] == list(offsets)
    assert keywords == {
        "max_seqlen_q": longest[0],
        "max_seqlen_k": longest[1],
        "softmax_scale": None,
        "causal": False,
    }


def test_suffixes_that_all_batches_share_are_sliced() -> None:
    """On both sides, once the mask is prepared; the padded queries are zeros."""
    recorder, (q, k, v) = Recorder(), SIZES.qkv()

    out = recorder.kernel(q, k, v, mask=both([[1, 1, 0]] * 2, [[*ONES[:10], 0, 0, 0]] * 2))

    assert [call[:3] for call in recorder.called] == [("dense", (2, 6, 4, 16), (2, 10, 4, 16))]
    assert torch.equal(out[:, :6], q[:, :6])
    assert torch.equal(out[:, 6:], torch.zeros_like(q[:, 6:]))


@pytest.mark.parametrize("kind", PADDINGS)
def test_a_mask_is_packed_once(kind: str) -> None:
    """By its first call; the ones after that are given the same tensors."""
    recorder, mask = Recorder(), MASKS[kind](SIZES)

    for _ in range(3):
        recorder.kernel(*SIZES.qkv(), mask=mask)

    given = [id(call[3]["cu_seqlens_k"]) for call in recorder.called]
    assert len(given) == 3
    assert len(set(given)) == 1


@pytest.mark.parametrize("kind", COMPUTED)
def test_no_value_of_a_mask_is_read(kind: str) -> None:
    """Tensors without values will do: there is nothing to wait for on the first call of a mask, or later."""
    recorder, mask = Recorder(), MASKS[kind](SIZES)
    if isinstance(mask, masks.KeyPadding):
        mask = masks.key_padding(mask.keep.to("meta"))
    if isinstance(mask, masks.KeyAndQueryPadding):
        mask = masks.key_and_query_padding(mask.keep_q.to("meta"), mask.keep_k.to("meta"))
    q, k, v = (x.to("meta") for x in SIZES.qkv())
    kernel = recorder.kernel

    out = replace(kernel, bound=kernel.bound._replace(device=torch.device("meta")))(q, k, v, mask=mask)

    assert out.shape == q.shape


WANTED = (
    "`mask` of `FLASH_ATTN`: wanted one of `none`, `all_keep`, `suffix_key_padding`, `key_padding`, "
    "`key_and_query_padding`, `block_diagonal`, got "
)
REFUSED: list[tuple[str, Mask | None, Causal | None, str]] = [
    (
        "boolean",
        masks.boolean_per_query(torch.ones(1, 1, 9, 13, dtype=torch.bool)),
        None,
        WANTED + "`boolean_per_query`",
    ),
    (
        "additive",
        masks.additive(torch.zeros(1, 1, 1, 13)),
        "bottom_right",
        WANTED + "`additive`",
    ),
    (
        "causal beside lengths",
        masks.key_lengths(10, 13),
        "bottom_right",
        "`mask` of `FLASH_ATTN` beside causal: wanted `none` or `all_keep`, got `suffix_key_padding`",
    ),
    (
        "top left",
        None,
        "top_left",
        "`causal` of `FLASH_ATTN`: wanted `bottom_right` for 9 queries and 13 keys, got `top_left`",
    ),
    (
        "a mask of other sizes",
        masks.key_lengths(3, 9),
        None,
        "mask `suffix_key_padding`: wanted lengths over [batch, seq_kv] = [2, 13], got [2, 9]",
    ),
]


@pytest.mark.parametrize(
    ("mask", "causal", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_calls_refused(mask: Mask | None, causal: Causal | None, message: str) -> None:
    """What no build honours is named, with what would be."""
    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        bind("fa2", SIZES)(*SIZES.qkv(), mask=mask, causal=causal)


# --- calls like one that was taken ---


@pytest.mark.parametrize(
    ("causal", "scale", "seq_q"),
    [(None, None, 9), (None, 0.5, 9), ("bottom_right", None, 9), ("top_left", 0.1, 13), ("bottom_right", None, 13)],
)
def test_a_repeated_call_is_the_dense_function_alone(causal: Causal | None, scale: float | None, seq_q: int) -> None:
    """With the arguments of the call that was taken, whatever the tensors hold, however they lie."""
    recorder, (q, k, v) = Recorder(), replace(SIZES, seq_q=seq_q).qkv()
    kernel = recorder.kernel
    kernel(q, k, v, causal=causal, scale=scale)
    run = kernel.repeated(q, k, v, causal=causal, scale=scale)
    assert run is not None
    strided = torch.stack((q, q), dim=-1)[..., 0]

    out = run(strided, k, v)

    assert recorder.called[0] == recorder.called[1]
    assert torch.equal(out, q)


@pytest.mark.parametrize(
    ("causal", "scale", "seq_q", "trained"),
    [
        (None, 0.0, 9, False),
        (None, -0.5, 9, False),
        ("bottom_right", None, 15, False),
        (None, None, 0, False),
        (None, None, 9, True),
    ],
    ids=["scale of zero", "negative scale", "blind queries", "no queries", "gradients"],
)
def test_what_is_looked_at_in_every_call_has_no_shorter_way(
    causal: Causal | None, scale: float | None, seq_q: int, *, trained: bool
) -> None:
    """What a scale or blind queries change of a call, and whether it is recorded."""
    q, k, v = replace(SIZES, seq_q=seq_q).qkv()

    assert Recorder().kernel.repeated(q, k.requires_grad_(trained), v, causal=causal, scale=scale) is None
