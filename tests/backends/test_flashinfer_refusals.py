"""What `FLASHINFER_ATTN` refuses to be called with, with the whole message."""

from __future__ import annotations

import re

import pytest
import torch

from backends import masks
from backends.interface import CallRefused
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes.flashinfer_binding import bind_flashinfer

HALF = Sizes(dtype=torch.float16)

REFUSED: list[tuple[str, str, dict[str, object], str]] = [
    (
        "a bias",
        "flashinfer-fa2",
        {"mask": MASKS["additive"](HALF)},
        (
            "mask `additive`: wanted one that provider `flashinfer-fa2` takes (none, all_keep, suffix_key_padding, "
            "block_diagonal, key_padding, key_and_query_padding, boolean_per_query), got additive"
        ),
    ),
    (
        "a mask where the build takes none",
        "flashinfer-fa3",
        {"mask": MASKS["key padding"](HALF)},
        (
            "mask `key_padding`: wanted one that provider `flashinfer-fa3` takes (none, all_keep, suffix_key_padding, "
            "block_diagonal), got key_padding"
        ),
    ),
    (
        "a mask for each head",
        "flashinfer-fa2",
        {"mask": MASKS["boolean per head"](HALF)},
        "mask `boolean_per_query`: wanted one mask for all heads, got one for each of 4",
    ),
    (
        "causal with lengths",
        "flashinfer-fa2",
        {"mask": masks.key_lengths(5, 13), "causal": "bottom_right"},
        "`causal`: wanted none beside a mask `suffix_key_padding`, got `bottom_right`",
    ),
    (
        "causal with a custom mask",
        "flashinfer-fa2",
        {"mask": MASKS["key padding"](HALF), "causal": "top_left"},
        "`causal`: wanted none beside a mask `key_padding`, got `top_left`",
    ),
    (
        "top left",
        "flashinfer-fa3",
        {"causal": "top_left"},
        "`causal`: wanted `bottom_right` for 9 queries and 13 keys, got `top_left`",
    ),
    (
        "an alignment of another name",
        "flashinfer-fa2",
        {"causal": "lower_right"},
        "`causal`: wanted `top_left`, `bottom_right` or none, got `lower_right`",
    ),
    (
        "a mask of other sizes",
        "flashinfer-fa2",
        {"mask": masks.key_padding(torch.ones(2, 9, dtype=torch.bool))},
        "mask `key_padding`: wanted `keep` [batch, seq_kv] = [2, 13], got [2, 9]",
    ),
    (
        "keys of another head_dim",
        "flashinfer-fa2",
        {"k": torch.ones(2, 13, 4, 32, dtype=torch.float16)},
        "`k`: wanted [2, 13, 4, 16], got [2, 13, 4, 32]",
    ),
    (
        "float32",
        "flashinfer-fa2",
        {"q": torch.ones(2, 9, 4, 16)},
        "`q`: wanted float16 on `cpu`, got float32 on `cpu`",
    ),
    (
        "a gradient",
        "flashinfer-fa2",
        {"v": torch.ones(2, 13, 4, 16, dtype=torch.float16, requires_grad=True)},
        (
            "`q`, `k`, `v`: wanted tensors without gradients, for this kernel has no backward pass, got one that "
            "requires them; call it under `torch.no_grad()`, or name TORCH_SDPA"
        ),
    ),
]


@pytest.mark.parametrize(
    ("provider", "change", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_calls_refused(provider: str, change: dict[str, object], message: str) -> None:
    """Each argument that cannot be honoured is named with what was wanted and what was got."""
    q, k, v = HALF.qkv()
    arguments: dict[str, object] = {"q": q, "k": k, "v": v} | change

    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        bind_flashinfer(HALF, provider)(**arguments)  # type: ignore[arg-type]


def test_a_gradient_that_nobody_records_is_no_reason() -> None:
    """Weights that require gradients are served without them."""
    q, k, v = (x.requires_grad_() for x in HALF.qkv())

    with torch.no_grad():
        assert not bind_flashinfer(HALF)(q, k, v).requires_grad
