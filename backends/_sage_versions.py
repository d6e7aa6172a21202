"""The two versions of SageAttention: how each is called, and what makes its answer exact for every length.

No kernel is given a last block that is not full: version 1 counts the keys that are missing there, some kernels of
version 2 read past them. Keys are filled up with zeros instead, after their mean is taken off. A filling key then has
the score zero, which is the mean of the scores of the others, and its part in the weights can be divided out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch

from backends._sage_tensors import EACH_BLOCK, fitted, padded, smoothed, taken_off, unfitted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch import Tensor

    from backends._sage_operator import Operator

BLOCK_K = 64
"""The keys of a block in version 1."""
VALUES_MOST = 512.0
"""Of such values the 64 of a block still add up in float16, as version 1 and half of the kernels of version 2 do."""
SHARE_MOST = 2**-8
"""The share of the filling keys in all keys up to which version 1 leaves them in.

Their share in the weights is no larger, as the mean of exponentials is no less than the exponential of the mean: the
output is too small by no more than the rounding of bfloat16, a third of that of the kernel.
"""


@dataclass(frozen=True, slots=True)
class Package1:
    """`sageattn` of version 1. With `smooth_k` it would take the mean off the caller's keys, in place."""

    sageattn: Callable[..., Tensor]
    gives_lse: ClassVar[bool] = False

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> list[Tensor]:
        """See `Package.__call__`."""
        out = self.sageattn(q, k, v, tensor_layout="NHD", is_causal=is_causal, sm_scale=scale, smooth_k=False)
        return [out.contiguous()]


@dataclass(frozen=True, slots=True)
class Package2:
    """`sageattn` of version 2. It fills up head_dim itself; the scale is that of the original, always given."""

    sageattn: Callable[..., Tensor | tuple[Tensor, Tensor]]
    gives_lse: bool

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> list[Tensor]:
        """See `Package.__call__`."""
        given = self.sageattn(
            q, k, v, tensor_layout="NHD", is_causal=is_causal, sm_scale=scale, return_lse=self.gives_lse
        )
        out, *lse = (given,) if isinstance(given, torch.Tensor) else given
        return [out.contiguous(), *lse]


@dataclass(frozen=True, slots=True)
class Run1:
    """A `Run` over version 1. Short sequences that do not end with a block cost two launches."""

    kernel: Operator

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> Tensor:
        """See `Run.__call__`."""
        k = smoothed(k)
        v, powers = fitted(v, VALUES_MOST)
        if is_causal:
            whole = (padded(x, EACH_BLOCK) for x in (q, k, v))
            out = self.kernel(*whole, is_causal=True, scale=scale)[0][:, : q.shape[1]]
        else:
            out = self._dense(q, k, v, scale)
        return unfitted(out, powers)

    def _dense(self, q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
        whole = padded(k, BLOCK_K)
        (out,) = self.kernel(q, whole, padded(v, BLOCK_K), is_causal=False, scale=scale)
        if whole.shape[1] - k.shape[1] <= SHARE_MOST * whole.shape[1]:
            return out
        (share,) = self.kernel(q, whole, padded(torch.ones_like(v), BLOCK_K), is_causal=False, scale=scale)
        return out / share[..., :1]


@dataclass(frozen=True, slots=True)
class Run2:
    """An `LseRun` over version 2; `telling` is the same kernel, giving the logarithm of the weights too."""

    kernel: Operator
    telling: Operator

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> Tensor:
        """See `Run.__call__`."""
        v, powers = fitted(v, VALUES_MOST)
        missing = -k.shape[1] % EACH_BLOCK
        if missing == 0:
            (out,) = self.kernel(q, k, v, is_causal=is_causal, scale=scale)
            return unfitted(out, powers)
        k, v = padded(smoothed(k), EACH_BLOCK), padded(v, EACH_BLOCK)
        if is_causal:
            (out,) = self.kernel(padded(q, EACH_BLOCK), k, v, is_causal=True, scale=scale)
            return unfitted(out[:, : q.shape[1]], powers)
        return self._dense_padded(q, k, v, powers, missing, scale)[0]

    def with_lse(self, q: Tensor, k: Tensor, v: Tensor, *, is_causal: bool, scale: float) -> tuple[Tensor, Tensor]:
        """See `LseRun.with_lse`."""
        v, powers = fitted(v, VALUES_MOST)
        missing = -k.shape[1] % EACH_BLOCK
        if missing == 0:
            out, lse = self.telling(q, k, v, is_causal=is_causal, scale=scale)
            return unfitted(out, powers), lse.float()
        moved = taken_off(q, k, scale)
        k, v = padded(smoothed(k), EACH_BLOCK), padded(v, EACH_BLOCK)
        if is_causal:
            out, lse = self.telling(padded(q, EACH_BLOCK), k, v, is_causal=True, scale=scale)
            return unfitted(out[:, : q.shape[1]], powers), lse[:, :, : q.shape[1]].float() + moved
        out, lse = self._dense_padded(q, k, v, powers, missing, scale)
        return out, lse + moved

    def _dense_padded(  # noqa: PLR0917 - what was done to the inputs
        self, q: Tensor, k: Tensor, v: Tensor, powers: Tensor, missing: int, scale: float
    ) -> tuple[Tensor, Tensor]:
        """The output and the log-sum-exp without the keys of zeros that fill up the last block."""
        out, lse = self.telling(q, k, v, is_causal=False, scale=scale)
        share = 1.0 - missing * torch.exp(-lse)
        out = unfitted((out / share.transpose(1, 2)[..., None]).to(q.dtype), powers)
        return out, lse.float() + torch.log(share)
