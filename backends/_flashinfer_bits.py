"""A custom mask as FlashInfer's kernel reads it: one bit for a query and a key, queries first, lowest bit first.

Packed here and not by the package, whose function has to be compiled first, and checks no shape: a mask of another size
would be read past its end.
"""

from __future__ import annotations

import torch
from torch import Tensor

BITS = 8


def packed(keep: Tensor, queries: int) -> Tensor:
    """Bool `[queries or 1, keys]`, True = attend, as uint8 of `queries` · `keys` bits, the last byte filled up.

    One row for all queries repeats after eight of them, so that no mask of every pair is ever made.
    """
    rows, keys = keep.shape
    size = -(-queries * keys // BITS)
    if rows == queries:
        return _bytes(keep.reshape(-1))
    period = _bytes(keep.expand(BITS, keys).reshape(-1))
    return period.repeat(-(-queries // BITS))[:size]


def _bytes(flat: Tensor) -> Tensor:
    flat = torch.nn.functional.pad(flat.to(torch.uint8), (0, -flat.shape[0] % BITS))
    places = torch.arange(BITS, dtype=torch.uint8, device=flat.device)
    return (flat.view(-1, BITS) << places).sum(dim=1, dtype=torch.uint8)
