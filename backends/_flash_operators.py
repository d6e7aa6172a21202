"""The functions of FlashAttention's builds as torch operators, one for each of their forms and families.

A traced graph holds such an operator, with its shapes declared; eager code calls what it holds. A number says which of
the bound builds is meant.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, NamedTuple, cast

import torch

from backends._lse import without_lse
from backends._memory import readable

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from torch import Tensor

ASKING = ("return_lse", "return_softmax_lse", "return_attn_probs")
"""The keywords that ask for the log-sum-exp: FlashAttention 4's, vLLM's, and that of 2 and 3. Older builds of 3 have
none and always give it."""
PADDED_RANK = 3
_DENSE = "(Tensor q, Tensor k, Tensor v, float? scale, bool causal, int number)"
_VARLEN = (
    "(Tensor q, Tensor k, Tensor v, Tensor cu_seqlens_q, Tensor cu_seqlens_k, SymInt max_seqlen_q, "
    "SymInt max_seqlen_k, float? scale, int number)"
)


class Functions(NamedTuple):
    """What a build consists of, as the package has it."""

    dense: Callable[..., object]
    varlen: Callable[..., object]


class Forms(NamedTuple):
    """The ways to call a build, which have the arguments of `_dense` and `_varlen`."""

    dense: Callable[..., object]
    varlen: Callable[..., object]
    dense_lse: Callable[..., object]
    """With the log-sum-exp, `[batch, heads, seq_q]`."""
    varlen_lse: Callable[..., object]
    """With the log-sum-exp, `[tokens, heads]`."""


_BOUND: list[Functions] = []


def number_of(functions: Functions) -> int:
    """The number of a build, which it keeps for good, so that graphs may name it."""
    if functions not in _BOUND:
        _BOUND.append(functions)
    return _BOUND.index(functions)


@cache
def operators(family: str) -> Forms:
    """A family's operators, registered the first time that it is bound."""
    dense = torch.library.custom_op(
        f"attention_selector::{family}_dense",
        lambda *call: _dense(*call).contiguous(),
        mutates_args=(),
        schema=f"{_DENSE} -> Tensor",
    )
    varlen = torch.library.custom_op(
        f"attention_selector::{family}_varlen",
        lambda *call: _varlen(*call).contiguous(),
        mutates_args=(),
        schema=f"{_VARLEN} -> Tensor",
    )
    dense_lse = torch.library.custom_op(
        f"attention_selector::{family}_dense_lse",
        lambda *call: _own(_dense_lse(*call)),
        mutates_args=(),
        schema=f"{_DENSE} -> (Tensor, Tensor)",
    )
    varlen_lse = torch.library.custom_op(
        f"attention_selector::{family}_varlen_lse",
        lambda *call: _own(_varlen_lse(*call)),
        mutates_args=(),
        schema=f"{_VARLEN} -> (Tensor, Tensor)",
    )
    for operator in (dense, varlen):
        operator.register_fake(_fake)
    dense_lse.register_fake(lambda q, *_: (_fake(q), q.new_empty((q.shape[0], q.shape[2], q.shape[1]), **_FLOAT)))
    varlen_lse.register_fake(lambda q, *_: (_fake(q), q.new_empty(q.shape[:2], **_FLOAT)))
    return Forms(dense, varlen, dense_lse, varlen_lse)


_FLOAT = {"dtype": torch.float32}


def _fake(q: Tensor, *_: object) -> Tensor:
    return q.new_empty(q.shape)


def _own(results: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """In memory of their own, as the fakes have them."""
    out, lse = results
    return out.contiguous(), lse.contiguous()


# --- what operators hold --------------------------------------------------------------------------------------------


def _dense(q: Tensor, k: Tensor, v: Tensor, scale: float | None, causal: bool, number: int) -> Tensor:  # noqa: FBT001, PLR0917 - an operator's arguments
    return _output(_run_dense(q, k, v, {"softmax_scale": scale, "causal": causal}, number))


def _dense_lse(  # noqa: PLR0917 - as above
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: float | None,
    causal: bool,  # noqa: FBT001 - as above
    number: int,
) -> tuple[Tensor, Tensor]:
    asked = {"softmax_scale": scale, "causal": causal, **_asking(_BOUND[number].dense)}
    out, lse = _both(_run_dense(q, k, v, asked, number))
    return out, lse[:, :, : q.shape[1]].float()


def _run_dense(q: Tensor, k: Tensor, v: Tensor, asked: Mapping[str, object], number: int) -> object:
    with _on(q.device):
        return _BOUND[number].dense(readable(q), readable(k), readable(v), **asked)


def _varlen(  # noqa: PLR0913, PLR0917 - as above
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float | None,
    number: int,
) -> Tensor:
    offsets, longest = (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k)
    return _output(_run_varlen((q, k, v), offsets, longest, {"softmax_scale": scale}, number))


def _varlen_lse(  # noqa: PLR0913, PLR0917 - as above
    q: Tensor,
    k: Tensor,
    v: Tensor,
    cu_seqlens_q: Tensor,
    cu_seqlens_k: Tensor,
    max_seqlen_q: int,
    max_seqlen_k: int,
    scale: float | None,
    number: int,
) -> tuple[Tensor, Tensor]:
    offsets, longest = (cu_seqlens_q, cu_seqlens_k), (max_seqlen_q, max_seqlen_k)
    asked = {"softmax_scale": scale, **_asking(_BOUND[number].varlen)}
    out, lse = _both(_run_varlen((q, k, v), offsets, longest, asked, number))
    return out, _by_token(lse, cu_seqlens_q, q.shape[0]).float()


def _run_varlen(
    inputs: tuple[Tensor, Tensor, Tensor],
    offsets: tuple[Tensor, Tensor],
    longest: tuple[int, int],
    asked: Mapping[str, object],
    number: int,
) -> object:
    with _on(inputs[0].device):
        return _BOUND[number].varlen(
            *map(readable, inputs),
            cu_seqlens_q=offsets[0],
            cu_seqlens_k=offsets[1],
            max_seqlen_q=longest[0],
            max_seqlen_k=longest[1],
            causal=False,
            **asked,
        )


DIRECT = Forms(_dense, _varlen, _dense_lse, _varlen_lse)
"""The same without operators, which only cost time in eager code."""


def _on(device: torch.device) -> AbstractContextManager[object]:
    """That device as the current one: not every build looks where its tensors are before it launches."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def _output(result: object) -> Tensor:
    """The output alone: whatever follows it in a tuple is not asked for."""
    return cast("Tensor", result[0] if isinstance(result, tuple) else result)


@cache
def _asking(function: Callable[..., object]) -> Mapping[str, bool]:
    """The keyword by which a function is asked for the log-sum-exp; nothing for one that is not asked."""
    known = inspect.signature(function).parameters
    return {keyword: True for keyword in ASKING if keyword in known}


def _both(result: object) -> tuple[Tensor, Tensor]:
    """The output and the log-sum-exp, which comes second; builds of 2 give a third thing behind them."""
    if not isinstance(result, tuple) or len(result) == 1 or result[1] is None:
        keywords = ", ".join(f"`{keyword}`" for keyword in ASKING)
        raise without_lse("FlashAttention", f"a build that gives the output alone and takes none of {keywords}")
    return cast("tuple[Tensor, Tensor]", result[:2])


def _by_token(lse: Tensor, cu_seqlens: Tensor, tokens: int) -> Tensor:
    """`[tokens, heads]` of what builds give: `[heads, tokens]` or, before 2.7, `[sequences, heads, longest]`."""
    if lse.dim() < PADDED_RANK:
        return lse.transpose(0, 1)
    places = torch.arange(tokens, device=lse.device)
    starts = cu_seqlens.long()
    sequences = torch.searchsorted(starts[1:-1].contiguous(), places, right=True)
    offsets = (places - starts[sequences]).clamp(max=lse.shape[2] - 1)
    return lse[sequences, :, offsets]
