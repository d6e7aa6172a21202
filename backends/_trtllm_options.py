"""The options of `TRTLLM_ATTN`: the blocks `quant` and `skip_softmax`, and the layer's calibration."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch

from backends._flashinfer_checks import block
from backends.calibration import Calibration, Curve
from backends.interface import BindError
from backends.skip_softmax import SkipSoftmax

if TYPE_CHECKING:
    from collections.abc import Mapping

SPEC = ("quant", "skip_softmax", "calibration", "layer")
QUANT = ("dtype_qk", "q_block_size", "k_block_size")
SKIP = ("target_sparsity", "threshold", "disabled_until_timestep")
TYPES = {"int8": torch.int8, "fp8_e4m3": torch.float8_e4m3fn}
BLOCK_SIZES = (1, 4, 16)
Q_BLOCK_SIZE = 1
K_BLOCK_SIZE = 16


class Sage(NamedTuple):
    """How queries and keys are quantised; values always are, to eight bits, with a scale for each channel."""

    dtype: torch.dtype
    q_block_size: int
    k_block_size: int

    @property
    def block_sizes(self) -> tuple[int, int, int, int]:
        """As the kernel takes them: tokens to a scale for queries, keys, weights (it makes its own) and values."""
        return (self.q_block_size, self.k_block_size, 0, 1)


def read_quant(name: str, spec: Mapping[str, object]) -> Sage | None:
    """The quantisation, or None where `dtype_qk` is not named; raises `BindError` for a value that is not read."""
    fields = block(name, spec, "quant", QUANT)
    sizes = []
    for field, default in (("q_block_size", Q_BLOCK_SIZE), ("k_block_size", K_BLOCK_SIZE)):
        size = fields.get(field, default)
        if type(size) is not int or size not in BLOCK_SIZES:
            raise BindError(f"`quant.{field}` of `{name}`: wanted {', '.join(map(str, BLOCK_SIZES))}, got {size!r}")
        sizes.append(size)
    if "dtype_qk" not in fields:
        return None
    dtype = fields["dtype_qk"]
    if not isinstance(dtype, str) or dtype not in TYPES:
        raise BindError(f"`quant.dtype_qk` of `{name}`: wanted {', '.join(TYPES)}, got {dtype!r}")
    return Sage(TYPES[dtype], *sizes)


def read_skip_softmax(name: str, spec: Mapping[str, object]) -> SkipSoftmax:
    """When tiles are skipped; raises `BindError` for a value out of its range, and for a sparsity without its curve."""
    fields = block(name, spec, "skip_softmax", SKIP)
    sparsity = _number(name, fields, "target_sparsity", 1.0)
    threshold = _number(name, fields, "threshold", math.inf)
    if sparsity is not None and threshold is not None:
        raise BindError(f"`skip_softmax` of `{name}`: wanted one of `target_sparsity` and `threshold`, got both")
    until = _number(name, fields, "disabled_until_timestep", 1.0) or 0.0
    curve = None if sparsity is None else _curve(name, spec)
    return SkipSoftmax(threshold, sparsity, curve, until)


def _curve(name: str, spec: Mapping[str, object]) -> Curve | None:
    """The layer's own, or None for a layer that its calibration keeps dense."""
    calibration, layer = spec.get("calibration"), spec.get("layer")
    if calibration is None:
        wanted = "a `calibration` of the checkpoint for `target_sparsity`"
        raise BindError(f"`skip_softmax` of `{name}`: wanted {wanted}, got none; `threshold` needs none")
    if not isinstance(calibration, Calibration):
        raise BindError(f"`calibration` of `{name}`: wanted a `backends.calibration.Calibration`, got {calibration!r}")
    if not calibration.components:
        wanted = "a `calibration` with a curve for `target_sparsity`"
        raise BindError(f"`skip_softmax` of `{name}`: wanted {wanted}, got an empty one; `threshold` needs none")
    if not isinstance(layer, str):
        raise BindError(f"`layer` of `{name}`: wanted the layer's name in the checkpoint, got {layer!r}")
    return calibration.curve(layer)


def _number(name: str, fields: Mapping[str, object], field: str, most: float) -> float | None:
    value = fields.get(field)
    if value is None:
        return None
    number = math.nan if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)
    if not (math.isfinite(number) and 0 <= number <= most):
        bounds = "a finite number of 0 or more" if math.isinf(most) else f"a number from 0 to {most:g}"
        raise BindError(f"`skip_softmax.{field}` of `{name}`: wanted {bounds}, got {value!r}")
    return number
