"""The `quant` block of `FLASHINFER_ATTN`: in which types queries and keys, and values, are handed to the kernel.

Values are scaled where the type would not hold them. Queries and keys are rounded as they are: one of bfloat16 beyond
65,504 is infinite in float16.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

from backends._flashinfer_checks import block
from backends.interface import BindError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

QK_TYPES = {"float16": torch.float16, "bfloat16": torch.bfloat16}
VO_TYPES = {**QK_TYPES, "fp8_e4m3": torch.float8_e4m3fn}
FIELDS = ("dtype_qk", "dtype_vo", "flashinfer_backend")
UNDECIDED = "auto"
"""What a config writes that leaves the kernel to the rules."""
SCALE_LEAST = 1e-12
"""For values that are all zero."""


class Types(NamedTuple):
    """The types of a kernel's inputs."""

    qk: torch.dtype
    vo: torch.dtype


def read_quant(name: str, spec: Mapping[str, object], dtype: torch.dtype, kernel: str) -> Types:
    """The types, that of the layer where none is named; raises `BindError` for a value that is not read.

    `kernel` is FlashInfer's name of the one that is bound: a config that names another contradicts the binding.
    """
    fields = block(name, spec, "quant", FIELDS)
    wanted = fields.get("flashinfer_backend", UNDECIDED)
    if wanted not in (UNDECIDED, kernel):
        raise BindError(f"`quant.flashinfer_backend` of `{name}`: wanted {UNDECIDED} or {kernel}, got {wanted!r}")
    return Types(
        _named(name, "dtype_qk", fields, QK_TYPES) or dtype,
        _named(name, "dtype_vo", fields, VO_TYPES) or dtype,
    )


def _named(name: str, field: str, fields: Mapping[str, object], types: Mapping[str, torch.dtype]) -> torch.dtype | None:
    if field not in fields:
        return None
    value = fields[field]
    if not isinstance(value, str) or value not in types:
        raise BindError(f"`quant.{field}` of `{name}`: wanted {', '.join(types)}, got {value!r}")
    return types[value]


def narrowed(v: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """Values in `dtype`, and what the output is to be multiplied by; None for 1.

    One scale for the whole tensor, largest magnitude / largest number of `dtype`: for eight bits always, so that their
    range is used; for sixteen only where a value would not fit.
    """
    if v.dtype == dtype:
        return v, None
    scale = v.abs().amax().float() / torch.finfo(dtype).max
    scale = scale.clamp(min=SCALE_LEAST if dtype.itemsize == 1 else 1.0)
    return (v.float() / scale).to(dtype), scale
