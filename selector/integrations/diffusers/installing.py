"""Puts the dispatcher of a role into one module of attention, and takes it out again."""

from __future__ import annotations

import copy

from torch import nn

from selector.integrations.diffusers import registry
from selector.integrations.diffusers.modules import Found
from selector.integrations.diffusers.processors import through
from selector.integrations.diffusers.report import Installed, Row
from selector.integrations.diffusers.untyped import Untyped

_HUNYUAN = "HunyuanVideo15AttnProcessor2_0"


def install(found: Found, row: Row) -> Installed:
    """Give a module the dispatcher of its row, and say how that is looked after and taken back."""
    module, stock = found.module, found.module.processor
    ours = _processor(found, row)
    if ours is not stock:
        module.set_processor(ours)
    before = getattr(stock, "_attention_backend", None)
    if found.route == "dispatcher":
        _set_backend(module, row.member)

    def holds() -> str | None:
        if module.processor is not ours:
            return f"its processor was replaced by `{type(module.processor).__name__}`"
        backend = getattr(ours, "_attention_backend", None)
        if found.route == "dispatcher" and backend is not row.member:
            return f"its backend was set to `{getattr(backend, 'value', backend)}`"
        if registry.runs(row.member) is None:
            return "the name of its backend is no longer registered"
        return None

    return Installed(found.place, holds, lambda: _restore(found, row, ours, stock, before))


def _processor(found: Found, row: Row) -> Untyped:
    """Give a processor for one module alone: stock ones may be shared by several."""
    stock = found.module.processor
    if found.route == "torch":
        return through(stock, row.dispatcher)
    if isinstance(stock, nn.Module):
        return stock
    if type(stock).__name__ == _HUNYUAN:
        from selector.integrations.diffusers.hunyuan import DescribedProcessor

        return DescribedProcessor(row.dispatcher.recognised, row.member)
    return copy.copy(stock)


def _restore(found: Found, row: Row, ours: Untyped, stock: Untyped, before: object) -> None:
    """Put the processor and its backend back, but for what somebody has replaced since."""
    if found.module.processor is not ours:
        return
    since = getattr(ours, "_attention_backend", None)
    theirs = found.route == "dispatcher" and since is not row.member
    if ours is not stock:
        found.module.set_processor(_with_backend(stock, since) if theirs else stock)
    elif not theirs:
        stock._attention_backend = before  # noqa: SLF001 - what diffusers itself sets


def _with_backend(stock: Untyped, backend: object) -> Untyped:
    """Give the processor that was there before, with the backend that somebody has set since."""
    kept = copy.copy(stock)
    kept._attention_backend = backend  # noqa: SLF001 - what diffusers itself sets
    return kept


def _set_backend(module: Untyped, member: Untyped) -> None:
    if hasattr(module, "set_attention_backend"):
        module.set_attention_backend(member.value)
    else:  # modules of diffusers' older class have no method of their own
        module.processor._attention_backend = member  # noqa: SLF001 - what diffusers itself sets
