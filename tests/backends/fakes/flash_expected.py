"""What is expected of any build of FlashAttention: the calls it refuses, the memory layouts that it may be given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends.interface import Causal
    from backends.masks import Mask
    from tests.backends.cases import Sizes

UNMASKED = ("none", "all_keep")
REFUSED = ("boolean_per_query", "additive")


def is_refused(mask: Mask | None, causal: Causal | None, sizes: Sizes) -> bool:
    """As the call table has it."""
    kind = "none" if mask is None else mask.kind
    if kind in REFUSED or (causal is not None and kind not in UNMASKED):
        return True
    return causal == "top_left" and sizes.seq_q != sizes.seq_kv


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x], dim=-1).flatten(3)[..., ::2],
    "sliced from fused rows": lambda x: torch.cat([x, x, x], dim=3)[..., x.shape[3] : 2 * x.shape[3]],
    "rows that are not aligned": lambda x: torch.cat([x[..., :1], x], dim=3)[..., 1:],
    "a start that is not aligned": lambda x: torch.cat([x.flatten()[:1], x.flatten()])[1:].view(x.shape),
    "sliced from a longer sequence": lambda x: torch.cat([x, x], dim=1)[:, : x.shape[1]],
}
