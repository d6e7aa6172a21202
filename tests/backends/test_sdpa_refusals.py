"""What the backends over torch's function refuse: bindings and calls, with the whole message."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks, torch_sdpa
from backends.interface import BindError, CallRefused, Geometry
from tests.backends.cases import MASKS, Sizes, bind_prepared

if TYPE_CHECKING:
    from torch import Tensor

SIZES = Sizes()
GEOMETRY = Geometry(16, 4, 4, "float32", "cpu")


def made(*shape: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Tensor:
    """Ones."""
    return torch.ones(shape, dtype=dtype, device=device)


Q, K = made(2, 9, 4, 16), made(2, 13, 4, 16)
REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("three dimensions", {"q": made(9, 4, 16)}, "`q`: wanted [batch, seq, heads, head_dim], got [9, 4, 16]"),
    (
        "five dimensions",
        {"v": made(1, 2, 13, 4, 16)},
        "`v`: wanted [batch, seq, heads, head_dim], got [1, 2, 13, 4, 16]",
    ),
    ("another batch", {"k": made(3, 13, 4, 16)}, "`k`: wanted [2, 13, 4, 16], got [3, 13, 4, 16]"),
    ("another number of values", {"v": made(2, 12, 4, 16)}, "`v`: wanted [2, 13, 4, 16], got [2, 12, 4, 16]"),
    ("heads that are not the bound ones", {"q": made(2, 9, 8, 16)}, "`q`: wanted [2, 9, 4, 16], got [2, 9, 8, 16]"),
    ("values with other heads", {"v": made(2, 13, 2, 16)}, "`v`: wanted [2, 13, 4, 16], got [2, 13, 2, 16]"),
    ("heads and sequence exchanged", {"k": made(2, 4, 13, 16)}, "`k`: wanted [2, 4, 4, 16], got [2, 4, 13, 16]"),
    ("another head_dim", {"q": made(2, 9, 4, 32)}, "`q`: wanted [2, 9, 4, 16], got [2, 9, 4, 32]"),
    ("values of another head_dim", {"v": made(2, 13, 4, 8)}, "`v`: wanted [2, 13, 4, 16], got [2, 13, 4, 8]"),
    (
        "another dtype",
        {"k": made(2, 13, 4, 16, dtype=torch.float64)},
        "`k`: wanted float32 on `cpu`, got float64 on `cpu`",
    ),
    (
        "another device",
        {"v": made(2, 13, 4, 16, device="meta")},
        "`v`: wanted float32 on `cpu`, got float32 on `meta`",
    ),
    ("causal as a flag", {"causal": True}, "`causal`: wanted `top_left`, `bottom_right` or none, got `True`"),
    (
        "an alignment of another name",
        {"causal": "lower_right"},
        "`causal`: wanted `top_left`, `bottom_right` or none, got `lower_right`",
    ),
    (
        "a mask of other sizes",
        {"mask": masks.key_lengths(3, 9)},
        "mask `suffix_key_padding`: wanted lengths over [batch, seq_kv] = [2, 13], got [2, 9]",
    ),
    (
        "a mask on another device",
        {"mask": masks.key_padding(made(2, 13, dtype=torch.bool, device="meta"))},
        "mask `key_padding`: wanted a tensor on `cpu`, got one on `meta`",
    ),
    (
        "a bias that would lose digits",
        {"mask": masks.additive(made(1, 1, 9, 13, dtype=torch.float64))},
        "`bias`: wanted a dtype that float32 holds without loss, got float64",
    ),
]


@pytest.mark.parametrize(("change", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_calls_refused(change: dict[str, object], message: str) -> None:
    """Each argument that cannot be honoured is named with what was wanted and what was got."""
    kernel = torch_sdpa.BACKEND.bind({}, GEOMETRY)
    arguments: dict[str, object] = {"q": Q, "k": K, "v": K} | change

    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        kernel(**arguments)  # type: ignore[arg-type]


def test_a_device_without_an_index_is_any_of_its_type() -> None:
    """But the three tensors lie together."""
    kernel = torch_sdpa.BACKEND.bind({}, replace(GEOMETRY, device="meta"))
    q, k = made(2, 9, 4, 16, device="meta"), made(2, 13, 4, 16, device="meta")

    assert kernel(q, k, k).shape == q.shape


UNBOUND: list[tuple[str, dict[str, object], Geometry, str]] = [
    ("an option", {"quant": {}}, GEOMETRY, "`spec` of `TORCH_SDPA`: wanted no option, got `quant`"),
    ("a provider", {}, replace(GEOMETRY, provider="fa4"), "`provider` of `TORCH_SDPA`: wanted none, got fa4"),
    (
        "a dtype without attention",
        {},
        replace(GEOMETRY, dtype="int8"),
        "`dtype` of `TORCH_SDPA`: wanted bfloat16, float16, float32, float64, got int8",
    ),
    ("no head_dim", {}, replace(GEOMETRY, head_dim=0), "`head_dim` of `TORCH_SDPA`: wanted 1 or more, got 0"),
    (
        "no key head",
        {},
        replace(GEOMETRY, num_kv_heads=0),
        "`num_kv_heads` of `TORCH_SDPA`: wanted 1 or more, got 0",
    ),
    (
        "heads that do not group",
        {},
        replace(GEOMETRY, num_kv_heads=3),
        "`num_heads` of `TORCH_SDPA`: wanted a multiple of `num_kv_heads`, 3, got 4",
    ),
    (
        "fewer heads than key heads",
        {},
        replace(GEOMETRY, num_kv_heads=8),
        "`num_heads` of `TORCH_SDPA`: wanted a multiple of `num_kv_heads`, 8, got 4",
    ),
    ("no device", {}, replace(GEOMETRY, device="gpu"), "`device` of `TORCH_SDPA`: wanted a torch device, got gpu"),
]


@pytest.mark.parametrize(
    ("spec", "geometry", "message"), [case[1:] for case in UNBOUND], ids=[case[0] for case in UNBOUND]
)
def test_binding_refused(spec: dict[str, object], geometry: Geometry, message: str) -> None:
    """Whatever is wrong before a call is said before a call."""
    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        torch_sdpa.BACKEND.bind(spec, geometry)


def test_one_key_is_refused_where_two_are_needed() -> None:
    """The kernel behind `CUDNN_ATTN` has none for it; no key at all is answered without it."""
    q, k, v = Sizes(seq_kv=1).qkv()

    with pytest.raises(CallRefused, match=r"^`seq_len_kv`: wanted 2 or more, got 1$"):
        bind_prepared(SIZES)(q, k, v)


@pytest.mark.parametrize(
    ("bias", "dtype"),
    [("float32", "bfloat16"), ("float32", "float16"), ("bfloat16", "float16"), ("float16", "bfloat16")],
)
def test_a_wide_bias_is_refused_where_only_half_precision_runs(bias: str, dtype: str) -> None:
    """The kernel behind `CUDNN_ATTN` would read its bits as those of the query's dtype."""
    sizes = Sizes(dtype=getattr(torch, dtype))
    mask = MASKS["additive"](Sizes(dtype=getattr(torch, bias)))

    with pytest.raises(CallRefused, match=f"^`bias`: wanted a dtype that {dtype} holds without loss, got {bias}$"):
        bind_prepared(sizes)(*sizes.qkv(), mask=mask)
