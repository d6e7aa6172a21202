"""The fakes of the Sage packages have the real signatures, and answer a wrong call wrongly or with an error."""

from __future__ import annotations

import inspect
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends.reference import attention
from tests.backends.fakes import sage1, sage2, sage3
from tests.backends.fakes.sage_bound import HALF

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

SAGE2, SAGE3 = sage2.Sage2("sm90"), sage3.Sage3()
MASK = masks.key_lengths([3, 11], 13)
KEEP = masks.to_keep(MASK, (2, 9, 4, 64), (2, 13, 4, 64))
SQUARE = replace(HALF, seq_q=13)
NINE = replace(HALF, heads=9, kv_heads=9, seq_kv=9)


def first(x: Tensor) -> Tensor:
    """Sequence and heads exchanged."""
    return x.transpose(1, 2)


def call1(q: Tensor, k: Tensor, v: Tensor, **options: object) -> Tensor:
    """Version 1, rightly but for the options; its keys are a copy."""
    return sage1.sageattn(q, k.clone(), v, **{"tensor_layout": "NHD", **options})  # type: ignore[arg-type]


def call2(q: Tensor, k: Tensor, v: Tensor, **options: object) -> Tensor:
    """Version 2, rightly but for the options."""
    out = SAGE2.sageattn(q, k, v, **{"tensor_layout": "NHD", **options})  # type: ignore[arg-type]
    assert isinstance(out, torch.Tensor)
    return out


def call3(q: Tensor, k: Tensor, v: Tensor, **options: object) -> Tensor:
    """Version 3, rightly but for the options; its keys are a copy."""
    return first(SAGE3.sageattn3_blackwell(first(q), first(k.clone()), first(v), **options))  # type: ignore[arg-type]


def test_the_right_calls_are_right() -> None:
    """On whole blocks, to what rounding leaves."""
    q, k, v = replace(HALF, seq_kv=128).qkv()
    truth = attention(q, k, v)

    errors = [((call(q, k, v).double() - truth).norm() / truth.norm()).item() for call in (call1, call2, call3)]

    assert errors[0] < 0.03
    assert errors[1] < 0.06
    assert errors[2] < 0.25


SIGNATURES: dict[str, tuple[Callable[..., object], str]] = {
    "1": (sage1.sageattn, "(q, k, v, tensor_layout='HND', is_causal=False, sm_scale=None, smooth_k=True, **kwargs)"),
    "2": (SAGE2.sageattn, "(q, k, v, tensor_layout='HND', is_causal=False, sm_scale=None, return_lse=False, **kwargs)"),
    "3": (
        SAGE3.sageattn3_blackwell,
        "(q, k, v, attn_mask=None, is_causal=False, per_block_mean=True, **kwargs)",
    ),
}


@pytest.mark.parametrize("version", SIGNATURES)
def test_signatures(version: str) -> None:
    """Names, order and defaults are the packages' own."""
    function, wanted = SIGNATURES[version]
    bare = [x.replace(annotation=inspect.Parameter.empty) for x in inspect.signature(function).parameters.values()]

    assert str(inspect.Signature(bare)) == wanted


def tail(arch: str) -> Callable[[], float]:
    """The error of a last block of keys that is not full, on an architecture of version 2."""

    def error() -> float:
        q, k, v = HALF.qkv()
        out = sage2.Sage2(arch).sageattn(q, k, v, tensor_layout="NHD")
        assert isinstance(out, torch.Tensor)
        return distance(out, attention(q, k, v))

    return error


def distance(out: Tensor, truth: Tensor) -> float:
    """|out - truth| / |truth|, infinite where the output is not finite."""
    return float(((out.double() - truth).norm() / truth.norm()).nan_to_num(nan=float("inf")))


def wrong(call: Callable[..., Tensor], options: dict[str, object], told: dict[str, object] | None = None) -> float:
    """The error of a call that tells the package something it does not take, or forgets to."""
    sizes = SQUARE if "is_causal" in options else replace(HALF, heads=9, kv_heads=9, seq_q=9, seq_kv=9)
    q, k, v = sizes.qkv()
    return distance(call(q, k, v, **options), attention(q, k, v, **(told or {})))  # type: ignore[arg-type]


def masked(call: Callable[..., Tensor]) -> float:
    """The error where a mask was given that the package does not look at."""
    q, k, v = HALF.qkv()
    return distance(call(q, k, v, attn_mask=KEEP), attention(q, k, v, mask=MASK))


def transposed() -> float:
    """The error of version 3 told sequence first."""
    q, k, v = NINE.qkv()
    return distance(SAGE3.sageattn3_blackwell(q, k.clone(), v), attention(q, k, v))


def grouped() -> float:
    """The error of version 3 with fewer key heads than heads."""
    q, k, v = replace(HALF, kv_heads=2).qkv()
    return distance(call3(q, k, v), attention(q, k, v))


def causal_blocks() -> float:
    """The error of version 3's released causal kernel beyond one block."""
    q, k, v = replace(HALF, seq_q=257, seq_kv=257).qkv()
    truth = attention(q, k, v, causal="top_left")
    return distance(call3(q, k, v, is_causal=True)[:, 128:], truth[:, 128:])


def top_left() -> float:
    """The error of version 2 where bottom right is meant."""
    q, k, v = HALF.qkv()
    return distance(call2(q, k, v, is_causal=True), attention(q, k, v, causal="bottom_right"))


def filled_up() -> float:
    """The error of version 2 where the caller fills up head_dim and gives no scale."""
    q, k, v = (torch.nn.functional.pad(x, (0, 56)) for x in replace(HALF, head_dim=72).qkv())
    return distance(call2(q, k, v), attention(q, k, v, scale=72**-0.5))


def keys_as_values() -> float:
    """The error of version 1 where key and value are one tensor."""
    q, k, _ = HALF.qkv()
    k = k + 2
    truth = attention(q, k, k)
    return distance(sage1.sageattn(q, k, k, tensor_layout="NHD"), truth)


def overflow() -> float:
    """The error of version 1 with a value beyond float16."""
    q, k, v = HALF.qkv()
    v[0, 0, 0, 0] = 9e4
    return distance(call1(q, k, v), attention(q, k, v))


WRONG: dict[str, Callable[[], float]] = {
    "1, default layout": lambda: wrong(call1, {"tensor_layout": "HND"}),
    "1, mask": lambda: masked(call1),
    "1, no scale": lambda: wrong(call1, {}, {"scale": 1.0}),
    "1, last block": lambda: wrong(call1, {}),
    "1, keys as values": keys_as_values,
    "1, overflow": overflow,
    "2, default layout": lambda: wrong(call2, {"tensor_layout": "HND"}),
    "2, mask": lambda: masked(call2),
    "2, no scale": lambda: wrong(call2, {}, {"scale": 1.0}),
    "2, top left": top_left,
    "2, filled up head_dim": filled_up,
    "2, last block read past": tail("sm80"),
    "2, last block counted": tail("sm86"),
    "3, sequence first": transposed,
    "3, mask": lambda: masked(call3),
    "3, scale": lambda: wrong(call3, {"scale": 1.0, "sm_scale": 1.0}, {"scale": 1.0}),
    "3, grouped heads": grouped,
    "3, causal blocks": causal_blocks,
}


@pytest.mark.parametrize("call", WRONG)
def test_a_wrong_call_gives_a_wrong_answer(call: str) -> None:
    """Without an error, as the packages do."""
    assert WRONG[call]() > (0.4 if call.startswith("3") else 0.12)


def test_keys_are_changed_in_place() -> None:
    """By versions 1 and 3, through a view too; not by version 2."""
    q, k, v = HALF.qkv()
    keys = [k.clone() for _ in range(3)]

    sage1.sageattn(q, keys[0], v, tensor_layout="NHD")
    SAGE2.sageattn(q, keys[1], v, tensor_layout="NHD")
    SAGE3.sageattn3_blackwell(first(q), first(keys[2]), first(v))

    assert [torch.equal(x, k) for x in keys] == [False, True, False]


ERRORS: dict[str, tuple[Callable[[], object], type[Exception], str]] = {
    "1, head_dim": (lambda: call1(*replace(HALF, head_dim=72).qkv()), AssertionError, "headdim should be"),
    "1, causal": (lambda: call1(*HALF.qkv(), is_causal=True), AssertionError, "must be equal for causal"),
    "1, strides": (
        lambda: call1(*(x[..., ::2] for x in replace(HALF, head_dim=128).qkv())),
        AssertionError,
        "must be contiguous",
    ),
    "2, head_dim": (lambda: call2(*replace(HALF, head_dim=136).qkv()), ValueError, "Unsupported head_dim: 136"),
    "2, architecture": (
        lambda: sage2.Sage2("sm100").sageattn(*HALF.qkv()),
        ValueError,
        "Unsupported CUDA architecture: sm100",
    ),
    "2, dtype": (lambda: call2(*replace(HALF, dtype=torch.float32).qkv()), AssertionError, "must be half"),
    "a layout of another name": (lambda: call1(*HALF.qkv(), tensor_layout="BSHD"), ValueError, "Unknown tensor layout"),
}


@pytest.mark.parametrize("call", ERRORS)
def test_what_the_packages_refuse(call: str) -> None:
    """With their own exceptions."""
    attempt, error, message = ERRORS[call]

    with pytest.raises(error, match=message):
        attempt()


def test_large_heads_are_printed_about(capsys: pytest.CaptureFixture[str]) -> None:
    """Version 3 gives them to torch, and says so on the standard output."""
    q, k, v = (first(x) for x in replace(HALF, head_dim=256).qkv())

    SAGE3.sageattn3_blackwell(q, k, v)

    assert capsys.readouterr().out == "Unsupported Headdim 256\n"


def test_a_mean_for_all_blocks() -> None:
    """Version 3 can take one mean of all queries; the answer is about the same."""
    q, k, v = replace(HALF, seq_q=200).qkv()

    one, each = (call3(q, k, v, per_block_mean=x) for x in (False, True))

    assert 0 < distance(one, each.double()) < 0.25


def test_the_logarithm_of_the_weights() -> None:
    """Version 2 gives it in natural units, heads before sequence, for the keys as they were given."""
    q, k, v = replace(HALF, kv_heads=2).qkv()
    k = k + 1

    _, lse = SAGE2.sageattn(q, k, v, tensor_layout="NHD", return_lse=True)

    scores = q.double().transpose(1, 2) @ k.double().transpose(1, 2).repeat_interleave(2, dim=1).transpose(2, 3)
    torch.testing.assert_close(lse.double(), torch.logsumexp(scores / 8, dim=-1), rtol=0, atol=0.05)
