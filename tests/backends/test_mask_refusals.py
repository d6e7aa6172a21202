"""Masks that mean nothing and masks that do not fit a call, with the whole message."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks
from backends.interface import CallRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.masks import Mask

T, F = True, False
Q_SHAPE, K_SHAPE = (2, 2, 4, 8), (2, 3, 4, 8)


def bools(*rows: object) -> Tensor:
    """A boolean tensor written as nested rows."""
    return torch.tensor(rows, dtype=torch.bool)


def zeros(*shape: int, dtype: torch.dtype = torch.bool) -> Tensor:
    """Zeros, or False."""
    return torch.zeros(shape, dtype=dtype)


REFUSED: list[tuple[str, Callable[[], object], str]] = [
    (
        "key padding of integers",
        lambda: masks.key_padding(zeros(2, 3, dtype=torch.int64)),
        "`keep`: wanted bool [batch, seq_kv], got int64 [2, 3]",
    ),
    (
        "key padding of four dimensions",
        lambda: masks.key_padding(zeros(2, 1, 1, 3)),
        "`keep`: wanted bool [batch, seq_kv], got bool [2, 1, 1, 3]",
    ),
    (
        "query padding of floats",
        lambda: masks.key_and_query_padding(zeros(2, 2, dtype=torch.float32), zeros(2, 3)),
        "`keep_q`: wanted bool [batch, seq_q], got float32 [2, 2]",
    ),
    (
        "key side of one dimension",
        lambda: masks.key_and_query_padding(zeros(2, 2), zeros(3)),
        "`keep_k`: wanted bool [batch, seq_kv], got bool [3]",
    ),
    (
        "padding on two devices",
        lambda: masks.key_and_query_padding(zeros(2, 2), zeros(2, 3).to("meta")),
        "`keep_k`: wanted a tensor on `cpu`, where `keep_q` is, got one on `meta`",
    ),
    (
        "boolean of two dimensions",
        lambda: masks.boolean_per_query(zeros(9, 9)),
        (
            "`mask`: wanted bool [batch or 1, heads or 1, seq_q, seq_kv], got bool [9, 9]; a padding mask [batch, "
            "seq_kv] is `key_padding(mask)`, one [seq_q, seq_kv] for all is `mask[None, None]`"
        ),
    ),
    (
        "boolean of three dimensions",
        lambda: masks.boolean_per_query(zeros(2, 9, 9)),
        (
            "`mask`: wanted bool [batch or 1, heads or 1, seq_q, seq_kv], got bool [2, 9, 9]; a mask [batch, seq_q, "
            "seq_kv] for all heads is `mask[:, None]`"
        ),
    ),
    (
        "boolean of floats",
        lambda: masks.boolean_per_query(zeros(1, 1, 9, 9, dtype=torch.bfloat16)),
        "`mask`: wanted bool [batch or 1, heads or 1, seq_q, seq_kv], got bfloat16 [1, 1, 9, 9]",
    ),
    (
        "additive of booleans",
        lambda: masks.additive(zeros(1, 1, 9, 9)),
        "`bias`: wanted a floating tensor [batch or 1, heads or 1, seq_q or 1, seq_kv], got bool [1, 1, 9, 9]",
    ),
    (
        "additive of integers",
        lambda: masks.additive(zeros(1, 1, 9, 9, dtype=torch.int32)),
        "`bias`: wanted a floating tensor [batch or 1, heads or 1, seq_q or 1, seq_kv], got int32 [1, 1, 9, 9]",
    ),
    (
        "additive of two dimensions",
        lambda: masks.additive(zeros(9, 9, dtype=torch.float32)),
        "`bias`: wanted a floating tensor [batch or 1, heads or 1, seq_q or 1, seq_kv], got float32 [9, 9]",
    ),
    ("a length too long", lambda: masks.key_lengths(4, 3), "`lengths`: wanted 0 to 3, got 4"),
    ("a negative length", lambda: masks.key_lengths([1, -1], 3), "`lengths`: wanted 0 to 3, got -1"),
    ("a boolean length", lambda: masks.key_lengths(True, 3), "`lengths`: wanted whole numbers, got True"),
    ("a fractional length", lambda: masks.key_lengths([1.0], 3), "`lengths`: wanted whole numbers, got [1.0]"),  # type: ignore[list-item]
    ("lengths in text", lambda: masks.key_lengths("12", 3), "`lengths`: wanted whole numbers, got '12'"),  # type: ignore[arg-type]
    (
        "lengths of floats",
        lambda: masks.key_lengths(torch.ones(2), 3),
        "`lengths`: wanted an integer tensor of one dimension, got float32 [2]",
    ),
    (
        "a boolean mask as lengths",
        lambda: masks.key_lengths(zeros(2), 3),
        "`lengths`: wanted an integer tensor of one dimension, got bool [2]",
    ),
    (
        "lengths of two dimensions",
        lambda: masks.key_lengths(zeros(2, 2, dtype=torch.int32), 3),
        "`lengths`: wanted an integer tensor of one dimension, got int32 [2, 2]",
    ),
    (
        "lengths of a mask with a gap",
        lambda: masks.key_lengths_of(bools([T, F, T])),
        "`keep`: wanted hidden keys only after the last visible one, got a gap or a prefix; use `key_padding`",
    ),
    (
        "lengths of a mask with a hidden prefix",
        lambda: masks.key_lengths_of(bools([F, T, T])),
        "`keep`: wanted hidden keys only after the last visible one, got a gap or a prefix; use `key_padding`",
    ),
    (
        "documents that do not pair",
        lambda: masks.block_diagonal([1, 2], [3]),
        "`lengths_k`: wanted as many documents as `lengths_q` has, 2, got 1",
    ),
    ("a negative document", lambda: masks.block_diagonal([1, -2]), "`lengths_q`: wanted 0 or more, got -2"),
    (
        "a bias as a boolean mask",
        lambda: masks.to_keep(masks.additive(torch.zeros(1, 1, 1, 3)), Q_SHAPE, K_SHAPE),
        "mask `additive`: wanted a boolean kind, got float32 [1, 1, 1, 3]; use `to_bias`",
    ),
    (
        "a bias that would lose digits",
        lambda: masks.to_bias(masks.additive(torch.zeros(1, 1, 1, 3)), Q_SHAPE, K_SHAPE, dtype=torch.bfloat16),
        "`bias`: wanted a dtype that bfloat16 holds without loss, got float32",
    ),
]


@pytest.mark.parametrize(("build", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED])
def test_constructors_refuse(build: Callable[[], object], message: str) -> None:
    """Whatever the kind cannot mean, with what was wanted and what was got."""
    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        build()


MISFITS: list[tuple[Mask, str]] = [
    (
        masks.key_lengths([1, 2, 3], 3),
        "mask `suffix_key_padding`: wanted lengths over [batch, seq_kv] = [2, 3], got [3, 3]",
    ),
    (masks.key_lengths(1, 4), "mask `suffix_key_padding`: wanted lengths over [batch, seq_kv] = [2, 3], got [2, 4]"),
    (masks.key_padding(zeros(2, 2)), "mask `key_padding`: wanted `keep` [batch, seq_kv] = [2, 3], got [2, 2]"),
    (masks.key_padding(zeros(1, 3)), "mask `key_padding`: wanted `keep` [batch, seq_kv] = [2, 3], got [1, 3]"),
    (
        masks.key_and_query_padding(zeros(2, 3), zeros(2, 3)),
        "mask `key_and_query_padding`: wanted `keep_q` [batch, seq_q] = [2, 2], got [2, 3]",
    ),
    (
        masks.key_and_query_padding(zeros(2, 2), zeros(2, 2)),
        "mask `key_and_query_padding`: wanted `keep_k` [batch, seq_kv] = [2, 3], got [2, 2]",
    ),
    (
        masks.block_diagonal([1, 1], [1, 1]),
        "mask `block_diagonal`: wanted documents that add up to [seq_q, seq_kv] = [2, 3], got [2, 2]",
    ),
    (
        masks.boolean_per_query(zeros(2, 1, 1, 3)),
        (
            "mask `boolean_per_query`: wanted `mask` [batch or 1, heads or 1, seq_q, seq_kv] = [2, 4, 2, 3], "
            "got [2, 1, 1, 3]"
        ),
    ),
    (
        masks.boolean_per_query(zeros(3, 1, 2, 3)),
        (
            "mask `boolean_per_query`: wanted `mask` [batch or 1, heads or 1, seq_q, seq_kv] = [2, 4, 2, 3], "
            "got [3, 1, 2, 3]"
        ),
    ),
    (
        masks.additive(zeros(1, 2, 2, 3, dtype=torch.float32)),
        "mask `additive`: wanted `bias` [batch or 1, heads or 1, seq_q or 1, seq_kv] = [2, 4, 2, 3], got [1, 2, 2, 3]",
    ),
    (
        masks.additive(zeros(1, 1, 1, 1, dtype=torch.float32)),
        "mask `additive`: wanted `bias` [batch or 1, heads or 1, seq_q or 1, seq_kv] = [2, 4, 2, 3], got [1, 1, 1, 1]",
    ),
]


@pytest.mark.parametrize(("mask", "message"), MISFITS)
def test_a_mask_of_other_sizes_is_refused(mask: Mask, message: str) -> None:
    """Two batches, four heads, two queries, three keys: nothing is broadcast that the kind does not broadcast."""
    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        masks.to_bias(mask, Q_SHAPE, K_SHAPE, dtype=torch.float32)


def test_a_mask_on_another_device_is_refused() -> None:
    """No mask is moved in silence."""
    message = "mask `key_padding`: wanted a tensor on `meta`, got one on `cpu`"

    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        masks.to_keep(masks.key_padding(zeros(2, 3)), Q_SHAPE, K_SHAPE, device="meta")
