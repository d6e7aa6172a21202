"""Processors that call torch's function themselves: all of their attention is the dispatcher's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - what everybody calls it
from torch import Tensor

from selector import Attention, Selector
from selector.integrations.diffusers.untyped import Untyped

SIZE = 8


class Stock:
    """A processor as diffusers has them; the options change how it finds torch's function."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float = 0.5) -> Tensor:
        """Attend."""
        return F.scaled_dot_product_attention(q, k, v, scale=scale) + F.relu(q)


class Derived(Stock):
    """One that leaves attention to another."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *, scale: float = 0.5) -> Tensor:
        """Attend twice: by the base, and here."""
        return super().__call__(q, k, v, scale=scale) + F.scaled_dot_product_attention(q, k, v, scale=scale)


class Helped:
    """One that attends in a method of its own too."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend."""
        return F.scaled_dot_product_attention(q, k, v)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend twice."""
        return self.attend(q, k, v) + F.scaled_dot_product_attention(q, k, v)


def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Attend."""
    return F.scaled_dot_product_attention(q, k, v)


class Calling:
    """One that attends in a function of its file too."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend twice."""
        return attended(q, k, v) + F.scaled_dot_product_attention(q, k, v)


class Spelt:
    """One that writes the name out."""

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend."""
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)


@pytest.fixture
def routed(diffusers: ModuleType, cpu: Selector) -> Callable[[Untyped], tuple[Untyped, Untyped]]:
    """Give what gives a processor with a dispatcher of ours, and the dispatcher."""
    from selector.integrations.diffusers.kernels import Dispatcher
    from selector.integrations.diffusers.processors import through
    from selector.integrations.diffusers.recognised import Recognised

    def made(stock: Untyped) -> tuple[Untyped, Untyped]:
        dispatcher = Dispatcher("self", Attention("self", selector=cpu, head_dim=SIZE), Recognised())
        return through(stock, dispatcher), dispatcher

    return made


def qkv() -> tuple[Tensor, Tensor, Tensor]:
    """Give `[batch, heads, seq, head_dim]`."""
    made = torch.Generator().manual_seed(0)
    return tuple(torch.randn(2, 3, 5, SIZE, generator=made) for _ in range(3))  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("stock", "calls"), [(Stock(), 1), (Derived(), 2), (Helped(), 2), (Calling(), 2), (Spelt(), 1)]
)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_all_attention_is_the_dispatchers(routed: Untyped, stock: Untyped, calls: int, *, compiled: bool) -> None:
    """However the processor reaches torch's function; the numbers are its own."""
    processor, dispatcher = routed(stock)
    run = torch.compile(processor.__call__, backend="eager", fullgraph=True) if compiled else processor

    out = run(*qkv())

    torch.testing.assert_close(out, stock(*qkv()))
    assert dispatcher.calls == (0 if compiled else calls)
    assert sum(ran.backend == "TORCH_SDPA" for ran in dispatcher.report()) == 1


@pytest.mark.parametrize(
    ("stock", "plain"), [(Stock(), True), (Derived(), False), (Helped(), False), (Calling(), False), (Spelt(), False)]
)
def test_other_functions_of_torch_are_called_without_a_detour(
    routed: Untyped, monkeypatch: pytest.MonkeyPatch, stock: Untyped, *, plain: bool
) -> None:
    """Where all of its attention stands in its own code; where it may not, every function is looked at."""
    from selector.integrations.diffusers.processors import Through

    entered: list[object] = []
    enter: Untyped = Through.__enter__

    def entering(mode: Untyped) -> Untyped:
        entered.append(mode)
        return enter(mode)

    monkeypatch.setattr(Through, "__enter__", entering)
    processor, _ = routed(stock)

    processor(*qkv())

    assert bool(entered) is not plain


def test_what_a_caller_gives_and_reads_is_as_it_was(routed: Untyped) -> None:
    """Arguments by name, defaults, and the signature, which diffusers looks at."""
    processor, _ = routed(Stock())

    torch.testing.assert_close(processor(*qkv(), scale=0.1), Stock()(*qkv(), scale=0.1))
    assert inspect.signature(processor.__call__) == inspect.signature(Stock().__call__)
    assert isinstance(processor, Stock)
    assert F.scaled_dot_product_attention is torch.nn.functional.scaled_dot_product_attention
