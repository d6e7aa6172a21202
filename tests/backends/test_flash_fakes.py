"""The fakes of FlashAttention are as touchy as the packages: a wrong call fails, or its numbers do."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

import pytest
import torch

from backends.reference import attention
from tests.backends.cases import Sizes
from tests.backends.fakes import flash2, flash3, flash3_forward, flash3_older, flash4, flash_numeric

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from torch import Tensor

SIZES = Sizes(dtype=torch.bfloat16)
TOKENS = Sizes(batch=1, seq_q=9, seq_kv=9, dtype=torch.bfloat16)
MODULES = [flash2, flash3, flash3_older, flash3_forward, flash4]
VISIBLE = 0.1
DENSE_3 = "q, k, v, softmax_scale, causal, qv, q_descale, k_descale, v_descale, window_size, "
DENSE_4 = "q, k, v, qv, gather_kv_indices, softmax_scale, causal, window_size, learnable_sink, softcap, num_splits, "
PACKED = "q, k, v, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, "
PARAMETERS: list[tuple[ModuleType, str, str]] = [
    (flash2, "flash_attn_func", "q, k, v, dropout_p, softmax_scale, causal, window_size, softcap, alibi_slopes, "),
    (flash2, "flash_attn_varlen_func", PACKED + "dropout_p, softmax_scale, causal, window_size, softcap, "),
    (flash3, "flash_attn_func", DENSE_3 + "attention_chunk, softcap, num_splits, pack_gqa, deterministic, sm_margin, "),
    (flash3, "flash_attn_varlen_func", PACKED + "seqused_q, seqused_k, softmax_scale, causal, qv, "),
    (flash3_older, "flash_attn_func", DENSE_3 + "softcap, num_splits, pack_gqa, deterministic, sm_margin"),
    (flash3_older, "flash_attn_varlen_func", PACKED + "seqused_q, seqused_k, softmax_scale, causal, qv, "),
    (flash3_forward, "flash_attn_func", DENSE_3 + "attention_chunk, "),
    (flash3_forward, "flash_attn_varlen_func", PACKED + "seqused_q, seqused_k, softmax_scale, causal, qv, "),
    (flash4, "flash_attn_func", DENSE_4 + "pack_gqa, deterministic, score_mod, "),
    (
        flash4,
        "flash_attn_varlen_func",
        "q, k, v, qv, cu_seqlens_q, cu_seqlens_k, max_seqlen_q, max_seqlen_k, min_seqlen_k, seqused_q, seqused_k, ",
    ),
]


@pytest.mark.parametrize(
    ("module", "function", "first"), PARAMETERS, ids=[f"{case[0].__name__}.{case[1]}" for case in PARAMETERS]
)
def test_parameters_are_in_the_order_of_the_package(module: ModuleType, function: str, first: str) -> None:
    """By name, from the first to where the builds no longer differ."""
    assert (", ".join(inspect.signature(getattr(module, function)).parameters) + ", ").startswith(first)


def output(result: object) -> Tensor:
    """The output in what a function returns."""
    first = result[0] if isinstance(result, tuple) else result
    assert isinstance(first, torch.Tensor)
    return first


@pytest.mark.parametrize(
    ("module", "returns"),
    [
        (flash2, torch.Tensor),
        (flash3, torch.Tensor),
        (flash3_older, tuple),
        (flash3_forward, torch.Tensor),
        (flash4, tuple),
    ],
)
def test_what_comes_back(module: ModuleType, returns: type) -> None:
    """A tensor or a tuple, with the numbers of the oracle."""
    q, k, v = SIZES.qkv()

    result = module.flash_attn_func(q, k, v, causal=True)

    assert isinstance(result, returns)
    expected = attention(q, k, v, causal="bottom_right")
    torch.testing.assert_close(output(result).double(), expected, rtol=0, atol=2e-2)


def distance(wrong: Tensor) -> float:
    """How far from the truth."""
    return (wrong.double() - attention(*SIZES.qkv())).abs().max().item()


FOURTH: list[tuple[ModuleType, float]] = [(flash2, 0.25), (flash3, 0.0), (flash3_older, 0.0)]


@pytest.mark.parametrize(("module", "number"), FOURTH)
def test_a_fourth_argument_by_position_is_something_else(module: ModuleType, number: float) -> None:
    """The scale is taken for dropout, and no dropout for a scale of zero."""
    assert distance(output(module.flash_attn_func(*SIZES.qkv(), number))) > VISIBLE


def test_the_fourth_argument_of_version_4_is_a_tensor() -> None:
    """A number in its place fails."""
    with pytest.raises(AttributeError, match="is_contiguous"):
        flash4.flash_attn_func(*SIZES.qkv(), 0.25)  # type: ignore[arg-type]


def test_heads_and_sequence_exchanged_are_seen() -> None:
    """By the shape where it differs, by the number of keys where heads and keys agree in it."""
    q, k, v = (x.transpose(1, 2) for x in Sizes(heads=8, kv_heads=4, dtype=torch.bfloat16).qkv())

    with pytest.raises(RuntimeError, match="must divide"):
        flash2.flash_attn_func(q, k, v)


def offsets(*numbers: int, dtype: torch.dtype = torch.int32) -> Tensor:
    """As a kernel wants them."""
    return torch.tensor(numbers, dtype=dtype)


WHOLE = offsets(0, 9)
REFUSED: list[tuple[str, str, Callable[[Tensor], Tensor], dict[str, object]]] = [
    ("float32", "only support fp16 and bf16", lambda x: x.float(), {}),
    ("a strided last dimension", "contiguous last dimension", lambda x: x.repeat_interleave(2, dim=-1)[..., ::2], {}),
    ("rows that are not aligned", "misaligned", lambda x: torch.cat([x[..., :1], x], dim=-1)[..., 1:], {}),
    ("a batch", "must have 3 dimensions", lambda x: x[None], {}),
    ("int64 offsets", "must have dtype int32", lambda x: x, {"cu_seqlens_q": WHOLE.long()}),
    ("strided offsets", "must be contiguous", lambda x: x, {"cu_seqlens_k": offsets(0, 7, 9)[::2]}),
    ("offsets past the end", "illegal memory access", lambda x: x, {"cu_seqlens_k": offsets(0, 10)}),
    ("offsets that fall", "illegal memory access", lambda x: x, {"cu_seqlens_k": offsets(0, 9, 4)}),
    ("other sequences of keys", "must have shape", lambda x: x, {"cu_seqlens_k": offsets(0, 4, 9)}),
    ("a longest that is too short", "max_seqlen_k is 8", lambda x: x, {"max_seqlen_k": 8}),
]


@pytest.mark.parametrize("module", MODULES)
@pytest.mark.parametrize(
    ("message", "change", "wrong"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_packed_calls_refused(
    module: ModuleType, message: str, change: Callable[[Tensor], Tensor], wrong: dict[str, object]
) -> None:
    """As the libraries refuse them, or crash."""
    right = {"cu_seqlens_q": WHOLE, "cu_seqlens_k": WHOLE, "max_seqlen_q": 9, "max_seqlen_k": 9}

    with pytest.raises(RuntimeError, match=message):
        module.flash_attn_varlen_func(*(change(x[0]) for x in TOKENS.qkv()), **right | wrong)


def test_float16_is_refused_by_the_forward_build() -> None:
    """And by no other."""
    q, k, v = (x.half() for x in SIZES.qkv())

    flash3.flash_attn_func(q, k, v)
    with pytest.raises(RuntimeError, match="does not support FP16"):
        flash3_forward.flash_attn_func(q, k, v)


@pytest.mark.parametrize("module", MODULES)
def test_what_is_not_written_is_not_a_number(module: ModuleType) -> None:
    """The queries of a sequence without keys, those past the longest, and nothing else."""
    q, k, v = (x[0] for x in TOKENS.qkv())

    result = module.flash_attn_varlen_func(
        q, k, v, cu_seqlens_q=offsets(0, 3, 9), cu_seqlens_k=offsets(0, 0, 9), max_seqlen_q=5, max_seqlen_k=9
    )

    written = ~output(result).isnan().all(dim=-1).all(dim=-1)
    assert written.tolist() == [False] * 3 + [True] * 5 + [False]


def test_a_value_behind_a_sequence_spills_into_it() -> None:
    """Where it is not finite: its weight is zero, and zero times infinity is not a number."""
    q, k, v = (x[0] for x in TOKENS.qkv())
    v[-1] = float("inf")
    six = offsets(0, 6)

    out = output(flash2.flash_attn_varlen_func(q, k, v, six, six, 6, 6))

    assert bool(out[:6].isnan().all())


def test_rows_hidden_by_causal_are_zero() -> None:
    """As all versions since 2.1 have it."""
    q, k, _ = SIZES.qkv()

    out, _ = flash_numeric.dense(k, q, q, None, causal=True)

    assert torch.equal(out[:, :4], torch.zeros_like(out[:, :4]))
