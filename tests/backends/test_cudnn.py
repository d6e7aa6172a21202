"""`CUDNN_ATTN` without a GPU: what it refuses to bind, and what it hands to the kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import cudnn, masks
from backends.cudnn import CudnnAttention, try_kernel
from backends.interface import BindError, Geometry
from tests.backends.cases import Sizes, bind_prepared

if TYPE_CHECKING:
    from torch import Tensor

    from backends._checks import Bound
    from backends.interface import Causal
    from backends.masks import Mask

GEOMETRY = Geometry(128, 16, 8, "bfloat16", "cuda:0")
SIZES = Sizes()


def test_the_shipped_backend_tries_the_real_kernel() -> None:
    """Nothing else is put in the place of the trial."""
    assert (cudnn.BACKEND.name, cudnn.BACKEND) == ("CUDNN_ATTN", CudnnAttention(trial=try_kernel))


LIMITS: list[tuple[str, dict[str, object], Geometry, str]] = [
    ("a CPU", {}, replace(GEOMETRY, device="cpu"), "`device` of `CUDNN_ATTN`: wanted cuda, got cpu"),
    (
        "float32",
        {},
        replace(GEOMETRY, dtype="float32"),
        "`dtype` of `CUDNN_ATTN`: wanted float16 or bfloat16, got float32",
    ),
    (
        "float64",
        {},
        replace(GEOMETRY, dtype="float64"),
        "`dtype` of `CUDNN_ATTN`: wanted float16 or bfloat16, got float64",
    ),
    (
        "head_dim 100",
        {},
        replace(GEOMETRY, head_dim=100),
        "`head_dim` of `CUDNN_ATTN`: wanted a multiple of 8, got 100",
    ),
    ("head_dim 264", {}, replace(GEOMETRY, head_dim=264), "`head_dim` of `CUDNN_ATTN`: wanted at most 256, got 264"),
    ("an option", {"skip_softmax": {}}, GEOMETRY, "`spec` of `CUDNN_ATTN`: wanted no option, got `skip_softmax`"),
    ("a provider", {}, replace(GEOMETRY, provider="9"), "`provider` of `CUDNN_ATTN`: wanted none, got 9"),
]


@pytest.mark.parametrize(
    ("spec", "geometry", "message"), [case[1:] for case in LIMITS], ids=[case[0] for case in LIMITS]
)
def test_limits(spec: dict[str, object], geometry: Geometry, message: str) -> None:
    """Each limit is checked before the kernel is tried."""

    def untried(_: Bound) -> str | None:
        raise AssertionError

    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        CudnnAttention(trial=untried).bind(spec, geometry)


@pytest.mark.parametrize("head_dim", [8, 64, 72, 128, 256])
def test_within_the_limits_the_trial_decides(head_dim: int) -> None:
    """It is asked once, with the geometry in torch's types."""
    asked: list[Bound] = []

    def trial(bound: Bound) -> str | None:
        asked.append(bound)
        return None

    CudnnAttention(trial=trial).bind({}, replace(GEOMETRY, head_dim=head_dim))

    assert [(bound.geometry.head_dim, bound.dtype, str(bound.device)) for bound in asked] == [
        (head_dim, torch.bfloat16, "cuda:0")
    ]


def test_a_reason_of_the_trial_is_the_refusal() -> None:
    """Torch's own words stand in the message."""
    message = (
        "`CUDNN_ATTN`: wanted a cuDNN kernel for Geometry(head_dim=128, num_heads=16, num_kv_heads=8, "
        "dtype='bfloat16', device='cuda:0', provider=None), got none: head_dim should be no more than 128"
    )

    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        CudnnAttention(trial=lambda _: "head_dim should be no more than 128").bind({}, GEOMETRY)


def test_an_error_of_the_trial_is_the_cause() -> None:
    """Whatever the driver raises becomes a refusal to bind."""
    error = RuntimeError("No valid execution plans built.")

    def trial(_: Bound) -> str | None:
        raise error

    with pytest.raises(BindError) as raised:
        CudnnAttention(trial=trial).bind({}, GEOMETRY)

    assert raised.value.__cause__ is error
    assert str(raised.value).endswith("got RuntimeError: No valid execution plans built.")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_real_trial_refuses() -> None:
    """Whatever torch raises where it has no CUDA."""
    with pytest.raises(BindError, match=r"^`CUDNN_ATTN`: wanted a cuDNN kernel for "):
        cudnn.BACKEND.bind({}, GEOMETRY)


@dataclass
class Recorder:
    """A launch that notes what it is given."""

    keys: int = 0
    masked: bool = False
    is_causal: bool = False
    strides: list[int] = field(default_factory=list)

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """Answers with the queries."""
        self.keys, self.masked, self.is_causal = k.shape[2], attn_mask is not None, is_causal
        return q


@pytest.mark.parametrize(
    ("mask", "causal", "seq_q", "keys", "masked", "is_causal"),
    [
        (None, None, 9, 13, False, False),
        (masks.all_keep(), None, 9, 13, False, False),
        (masks.key_lengths(10, 13), None, 9, 10, False, False),
        (masks.key_lengths([10, 10], 13), None, 9, 10, False, False),
        (masks.key_lengths([10, 5], 13), None, 9, 10, True, False),
        (masks.key_lengths(1, 13), None, 9, 2, True, False),
        (masks.key_padding(torch.ones(2, 13, dtype=torch.bool)), None, 9, 13, True, False),
        (None, "top_left", 13, 13, False, True),
        (None, "bottom_right", 13, 13, False, True),
        (None, "top_left", 9, 13, True, False),
        (None, "bottom_right", 9, 13, True, False),
        (masks.key_lengths(9, 13), "top_left", 9, 9, False, True),
        (masks.key_lengths(9, 13), "bottom_right", 9, 9, True, False),
    ],
)
def test_what_the_kernel_is_given(
    mask: Mask | None, causal: Causal | None, seq_q: int, keys: int, *, masked: bool, is_causal: bool
) -> None:
    """A mask only where one is needed, the causal flag only for a square, slices of two keys or more."""
    sizes, recorder = replace(SIZES, seq_q=seq_q), Recorder()

    replace(bind_prepared(sizes), launch=recorder)(*sizes.qkv(), mask=mask, causal=causal)

    assert (recorder.keys, recorder.masked, recorder.is_causal) == (keys, masked, is_causal)


def test_query_padding_makes_no_mask_of_pairs() -> None:
    """Keys are masked for the kernel and queries zeroed after it: a mask of every pair would be large."""
    shapes: list[tuple[int, ...]] = []

    def launch(
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        attn_mask: Tensor | None = None,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        assert attn_mask is not None
        shapes.append(tuple(attn_mask.shape))
        return q

    mask = masks.key_and_query_padding(torch.zeros(2, 9, dtype=torch.bool), torch.ones(2, 13, dtype=torch.bool))
    out = replace(bind_prepared(SIZES), launch=launch)(*SIZES.qkv(), mask=mask)

    assert shapes == [(2, 1, 1, 13)]
    assert torch.equal(out, torch.zeros_like(out))
