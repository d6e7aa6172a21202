"""What every kernel that gives its log-sum-exp says of it: where there is none, and what it is without a key."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch

from backends.interface import CallRefused

if TYPE_CHECKING:
    from torch import Tensor


def unseen(q: Tensor) -> Tensor:
    """The log-sum-exp of queries `[batch, seq_q, heads, head_dim]` that see no key: float32 `[batch, heads, seq_q]`."""
    return q.new_full((q.shape[0], q.shape[2], q.shape[1]), -math.inf, dtype=torch.float32)


def hidden(lse: Tensor, dead: Tensor | None) -> Tensor:
    """A log-sum-exp with -inf for `dead` queries, bool and broadcastable to it."""
    return lse if dead is None else lse.masked_fill(dead, -math.inf)


def heads_first(rows: Tensor, dead: Tensor | None = None) -> Tensor:
    """A log-sum-exp `[batch, seq_q, heads]` as `[batch, heads, seq_q]`, in memory too.

    It is -inf for `dead` queries, bool and broadcastable to `[batch, seq_q, heads, head_dim]`.
    """
    return hidden(rows.transpose(1, 2), None if dead is None else dead[..., 0].transpose(1, 2)).contiguous()


def without_lse(name: str, got: str) -> CallRefused:
    """The refusal of a call that asks for the log-sum-exp where a kernel cannot give it."""
    return CallRefused(f"`return_lse` of `{name}`: wanted a kernel that gives the log-sum-exp, got {got}")


def without_gradients() -> CallRefused:
    """The refusal of a call that autograd would record: what flows back through a log-sum-exp would be lost."""
    return CallRefused(
        "`return_lse`: wanted tensors without gradients, for no log-sum-exp has a backward pass here, got one that "
        "requires them; call it under `torch.no_grad()`"
    )
