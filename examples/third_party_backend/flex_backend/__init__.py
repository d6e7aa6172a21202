"""PyTorch's FlexAttention as a backend: masks become `mask_mod` functions, a bias becomes a `score_mod`.

Source of the interface: https://pytorch.org/docs/stable/nn.attention.flex_attention.html
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from backends.interface import BindError, CallRefused
from backends.masks import Additive, NoMask, causal_offset, to_keep

if TYPE_CHECKING:
    from collections.abc import Mapping

    from torch import Tensor

    from backends.interface import Backend, Causal, Geometry, Kernel
    from backends.masks import Mask

NAME = "FLEX_ATTENTION"
RULES = Path(__file__).parent / "rules"
"""What `--rules` takes: what the backend can run, and where it stands."""
RANK = 4
DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}


@dataclass(frozen=True, slots=True)
class FlexAttention:
    """All kinds of mask, both alignments, grouped heads; reads no option."""

    name: str = NAME

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """See `Backend.bind`."""
        for option in spec:
            raise BindError(f"`spec` of `{NAME}`: wanted no option, got `{option}`")
        if geometry.dtype not in DTYPES:
            raise BindError(f"`dtype` of `{NAME}`: wanted one of {', '.join(DTYPES)}, got {geometry.dtype}")
        try:
            from torch.nn.attention.flex_attention import flex_attention
        except ImportError as error:
            raise BindError(f"`{NAME}`: wanted a torch with FlexAttention, got {torch.__version__}") from error
        return FlexKernel(geometry, flex_attention)


@dataclass(frozen=True, slots=True)
class FlexKernel:
    """FlexAttention for one geometry."""

    geometry: Geometry
    launch: object

    def __call__(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        *,
        mask: Mask | None = None,
        causal: Causal | None = None,
        scale: float | None = None,
    ) -> Tensor:
        """See `Kernel.__call__`."""
        self._check(q, k, v)
        mask = NoMask() if mask is None else mask
        if 0 in (q.shape[0], q.shape[1], k.shape[1]):
            return torch.zeros_like(q)
        keep = self._keep(q, k, mask, causal)
        bias = mask.bias if isinstance(mask, Additive) else None
        if bias is not None:
            hidden = (bias == float("-inf")).expand(-1, -1, q.shape[1], k.shape[1])
            keep = ~hidden if keep is None else keep & ~hidden

        def score(given: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            if bias is not None:
                given = given + _at(bias, b, h, i, j)
            return given if keep is None else torch.where(_at(keep, b, h, i, j), given, float("-inf"))

        out = self.launch(  # type: ignore[operator]
            q.transpose(1, 2).contiguous(),
            k.transpose(1, 2).contiguous(),
            v.transpose(1, 2).contiguous(),
            score_mod=score if keep is not None or bias is not None else None,
            scale=scale,
            enable_gqa=self.geometry.num_heads != self.geometry.num_kv_heads,
        ).transpose(1, 2)
        if keep is None:
            return out
        dead = ~keep.any(dim=-1).expand(q.shape[0], q.shape[2], q.shape[1]).transpose(1, 2)
        return out.masked_fill(dead[..., None], 0.0)

    def _check(self, q: Tensor, k: Tensor, v: Tensor) -> None:
        """Hold the call to the geometry: nothing is cast, repeated or cut here."""
        geometry = self.geometry
        dtype = DTYPES[geometry.dtype]
        for name, tensor, heads in (
            ("q", q, geometry.num_heads),
            ("k", k, geometry.num_kv_heads),
            ("v", v, geometry.num_kv_heads),
        ):
            wanted = (heads, geometry.head_dim)
            if tensor.dim() != RANK or tuple(tensor.shape[2:]) != wanted or tensor.dtype != dtype:
                raise CallRefused(
                    f"`{name}`: wanted {geometry.dtype} [batch, seq, {heads}, {geometry.head_dim}], got "
                    f"{tensor.dtype} {list(tensor.shape)}"
                )
        if k.shape != v.shape or q.shape[0] != k.shape[0]:
            raise CallRefused(f"`k`, `v`: wanted the same batch and lengths, got {list(k.shape)} and {list(v.shape)}")

    @staticmethod
    def _keep(q: Tensor, k: Tensor, mask: Mask, causal: Causal | None) -> Tensor | None:
        """What may be seen, bool, broadcastable to `[batch, heads, seq_q, seq_kv]`; None where that is everything."""
        nothing = isinstance(mask, (Additive, NoMask))
        keep = None if nothing else to_keep(mask, q.shape, k.shape, device=q.device)
        if causal is None:
            return keep
        reach = torch.arange(q.shape[1], device=q.device)[:, None] + causal_offset(q.shape[1], k.shape[1], causal)
        below = (torch.arange(k.shape[1], device=q.device) <= reach)[None, None]
        return below if keep is None else keep & below


def _at(tensor: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    """Read a tensor that is broadcastable to `[batch, heads, seq_q, seq_kv]`."""
    zero = torch.zeros_like(b)
    indices = [where if size > 1 else zero for where, size in zip((b, h, i, j), tensor.shape, strict=True)]
    return tensor[tuple(indices)]


BACKEND: Backend = FlexAttention()
