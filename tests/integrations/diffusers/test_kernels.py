"""The function that diffusers calls: its contract, and what it refuses rather than drops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from backends.interface import CallRefused
from selector import Selector

BATCH, QUERIES, KEYS, HEADS, SIZE = 2, 5, 7, 4, 8


@pytest.fixture
def dispatch(diffusers: ModuleType, cpu: Selector) -> Iterator[Callable[..., Any]]:
    """Give diffusers' dispatcher with a backend of ours, for tensors `[batch, seq, heads, head_dim]`."""
    from diffusers.models.attention_dispatch import dispatch_attention_fn

    from selector import Attention
    from selector.integrations.diffusers import registry
    from selector.integrations.diffusers.kernels import ARGUMENTS, Dispatcher, kernel_of
    from selector.integrations.diffusers.recognised import Recognised

    dispatcher = Dispatcher("self", Attention("self", selector=cpu, head_dim=SIZE), Recognised())
    member = registry.register("self", kernel_of(dispatcher), ARGUMENTS)
    yield lambda *args, **kwargs: dispatch_attention_fn(*args, backend=member, **kwargs)
    registry.unregister(member)


def qkv(kv_heads: int = HEADS) -> tuple[Tensor, Tensor, Tensor]:
    """Give queries, keys and values."""
    made = torch.Generator().manual_seed(0)
    return (
        torch.randn(BATCH, QUERIES, HEADS, SIZE, generator=made),
        torch.randn(BATCH, KEYS, kv_heads, SIZE, generator=made),
        torch.randn(BATCH, KEYS, kv_heads, SIZE, generator=made),
    )


def keep(*shape: int) -> Tensor:
    """Give a mask in which each query sees a key."""
    mask = torch.rand(*shape, generator=torch.Generator().manual_seed(1)) > 0.5
    mask[..., 0] = True
    return mask


CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "scale": {"scale": 0.3},
    "causal": {"is_causal": True},
    "padding [batch, 1, 1, keys]": {"attn_mask": keep(BATCH, 1, 1, KEYS)},
    "padding for all [1, 1, 1, keys]": {"attn_mask": keep(1, 1, 1, KEYS)},
    "pairs [batch, 1, queries, keys]": {"attn_mask": keep(BATCH, 1, QUERIES, KEYS)},
    "pairs of each head": {"attn_mask": keep(1, HEADS, QUERIES, KEYS)},
    "keys of each head": {"attn_mask": keep(BATCH, HEADS, 1, KEYS)},
    "pairs for all [queries, keys]": {"attn_mask": keep(QUERIES, KEYS)},
    "bias": {"attn_mask": torch.where(keep(BATCH, 1, 1, KEYS), 0.5, -10000.0)},
    "bias of each head": {"attn_mask": torch.where(keep(BATCH, HEADS, QUERIES, KEYS), 0.5, float("-inf"))},
}


@pytest.mark.parametrize("arguments", CASES.values(), ids=CASES)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_call_is_torchs_own(dispatch: Callable[..., Any], arguments: dict[str, Any], compiled: bool) -> None:
    """Every form of mask that a backend of diffusers takes means the same here."""
    q, k, v = qkv()
    run = torch.compile(dispatch, fullgraph=True, backend="eager") if compiled else dispatch
    torch.compiler.reset()

    got = run(q, k, v, **arguments)

    wanted = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), **arguments
    ).transpose(1, 2)
    torch.testing.assert_close(got, wanted)


def test_padding_of_two_dimensions_is_of_keys(dispatch: Callable[..., Any]) -> None:
    """As diffusers' newest native backend reads it."""
    mask = keep(BATCH, KEYS)

    torch.testing.assert_close(dispatch(*qkv(), attn_mask=mask), dispatch(*qkv(), attn_mask=mask[:, None, None]))


def test_heads_are_grouped(dispatch: Callable[..., Any]) -> None:
    """Fewer KV heads than heads, as `enable_gqa` asks."""
    q, k, v = qkv(2)

    got = dispatch(q, k, v, enable_gqa=True)

    torch.testing.assert_close(got, dispatch(q, k.repeat_interleave(2, dim=2), v.repeat_interleave(2, dim=2)))


def test_the_log_sum_exp_is_given(dispatch: Callable[..., Any]) -> None:
    """To base e, `[batch, heads, queries]`."""
    q, k, v = qkv()

    out, lse = dispatch(q, k, v, attention_kwargs={"return_lse": True})

    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * SIZE**-0.5
    torch.testing.assert_close(lse, scores.logsumexp(dim=-1))
    torch.testing.assert_close(out, dispatch(q, k, v))


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "dropout": ({"dropout_p": 0.1}, "`dropout_p`: wanted 0.0, got 0.1"),
    "parallel": (
        {"parallel_config": object()},
        "`_parallel_config`: wanted None, got a configuration; context parallelism is not supported",
    ),
    "window": ({"attention_kwargs": {"window_size": (3, 3)}}, "`attention_kwargs`: wanted no `window_size`, got one"),
    "three dimensions": (
        {"attn_mask": keep(BATCH, QUERIES, KEYS)},
        "`attn_mask`: wanted [2, 7], [5, 7] or four dimensions, got [2, 5, 7]",
    ),
}


@pytest.mark.parametrize(("arguments", "message"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_honoured_is_refused(dispatch: Callable[..., Any], arguments: dict[str, Any], message: str) -> None:
    """With the value that was given."""
    with pytest.raises(CallRefused) as caught:
        dispatch(*qkv(), **arguments)

    assert str(caught.value) == message


def test_a_mask_that_could_mean_two_things_is_refused(dispatch: Callable[..., Any]) -> None:
    """As many queries as batches: nothing is guessed."""
    q, k, v = qkv()

    with pytest.raises(CallRefused, match=r"wanted a shape with one meaning, got \[2, 7\]"):
        dispatch(q[:, :BATCH], k, v, attn_mask=keep(BATCH, KEYS))


def test_arguments_that_ask_for_nothing_are_taken(dispatch: Callable[..., Any]) -> None:
    """Other backends' arguments may stand at their defaults."""
    torch.testing.assert_close(dispatch(*qkv(), attention_kwargs={"window_size": None}), dispatch(*qkv()))
