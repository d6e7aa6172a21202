"""How a tensor lies in memory, for kernels that read it in whole vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor

BYTES_READ = 16
"""What the kernels read at once, and to a multiple of which they take every row to begin."""


def is_aligned(tensor: Tensor) -> bool:
    """Whether every row begins where a whole vector can be read; a dimension that is expanded has one row."""
    step = BYTES_READ // tensor.element_size()
    for stride in tensor.stride()[:-1]:
        if stride % step:
            return False
    # No address is known in traced code; the compiler copies inputs that are not aligned.
    return torch.compiler.is_compiling() or tensor.data_ptr() % BYTES_READ == 0


def aligned(tensor: Tensor) -> Tensor:
    """The tensor, copied where a row of it is not aligned: kernels do not all look, and then read other numbers."""
    return tensor if is_aligned(tensor) else tensor.clone(memory_format=torch.contiguous_format)


def readable(tensor: Tensor) -> Tensor:
    """The tensor, copied where its last dimension is strided, a dimension is expanded, or a row is not aligned."""
    strides = tensor.stride()
    plain = strides[-1] == 1 and 0 not in strides
    return tensor if plain and is_aligned(tensor) else tensor.clone(memory_format=torch.contiguous_format)
