"""How often code is compiled, and that its graph is the one of the call written by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend, EagerAndRecordGraphs
from torch.nn.functional import scaled_dot_product_attention as sdpa

from backends import masks
from backends.denoise import denoise_step
from selector import Attention, Selector, attention
from tests.selector.conftest import CPU

Mask = masks.Mask


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """Compile anew in each test."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def cpu() -> Selector:
    """Give a selector of a machine without a GPU."""
    return Selector(facts=CPU, environment={})


def tensors(queries: int = 9, keys: int = 13, batch: int = 2, kv_heads: int = 4) -> list[Tensor]:
    """Give q, k and v with heads of 16."""
    return [torch.randn(batch, *rest, 16) for rest in ((queries, 4), (keys, kv_heads), (keys, kv_heads))]


def nodes(function: Callable[..., Tensor], *given: Any) -> list[tuple[str, str]]:  # noqa: ANN401
    """Give the operators of the graph that Dynamo makes of a function."""
    torch._dynamo.reset()
    recorded = EagerAndRecordGraphs()
    torch.compile(function, fullgraph=True, backend=recorded)(*given)
    (graph,) = recorded.graphs
    return [(node.op, str(node.target)) for node in graph.graph.nodes if node.op.startswith("call")]


@pytest.mark.parametrize(
    ("causal", "kv_heads", "keys"),
    [(None, 4, 13), ("top_left", 4, 9), (None, 2, 13)],
    ids=["plain", "causal", "grouped"],
)
def test_the_graph_is_that_of_the_call_by_hand(cpu: Selector, causal: Any, kv_heads: int, keys: int) -> None:  # noqa: ANN401
    """Operator by operator, through the function and the layer, also after the same call was made eagerly."""
    given = tensors(9, keys, kv_heads=kv_heads)
    layer = Attention("self", selector=cpu)

    def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        heads = (q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2))
        return sdpa(*heads, is_causal=causal is not None, enable_gqa=kv_heads != 4).transpose(1, 2)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, causal=causal, selector=cpu)

    def method(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return layer(q, k, v, causal=causal)  # type: ignore[no-any-return]

    for call in (function, method):
        cold = nodes(call, *given)
        call(*given)
        call(*given)
        assert cold == nodes(call, *given) == nodes(by_hand, *given)


def test_the_graph_of_a_mask_is_that_of_the_call_by_hand(cpu: Selector) -> None:
    """Lengths on the host that leave every query a key need nothing more."""
    q, k, v = tensors()
    lengths = masks.key_lengths([13, 7], 13)

    def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        at = torch.arange(13, device=q.device)
        keep = torch.stack([at < 13, at < 7])[:, None, None, :]
        return sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), attn_mask=keep).transpose(1, 2)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, mask=lengths, selector=cpu)

    assert sorted(nodes(function, q, k, v)) == sorted(nodes(by_hand, q, k, v))


def test_a_step_of_denoising_compiles_nothing_anew(cpu: Selector) -> None:
    """Its number is for kernels that ask for it."""
    layer, counter = Attention("self", selector=cpu), CompileCounterWithBackend("aot_eager")
    whole, given = torch.compile(layer, fullgraph=True, backend=counter), tensors()

    for step in range(6):
        with denoise_step(step / 6):
            whole(*given)

    assert counter.frame_count == 1


class Layers(nn.Module):
    """Layers of one kind, compiled one by one as frameworks do."""

    def __init__(self, selector: Selector, count: int, compiled: Callable[[nn.Module], Any] | None) -> None:
        super().__init__()
        made = [Attention("self", selector=selector, head_dim=16, num_heads=4) for _ in range(count)]
        self.layers = nn.ModuleList(made)
        self.calls = [compiled(layer) if compiled else layer for layer in made]

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Run one after another."""
        for call in self.calls:
            q = call(q, k, v)
        return q


def test_layers_of_one_kind_are_compiled_once(cpu: Selector) -> None:
    """Each compiled by itself, in a loop."""
    counter = CompileCounterWithBackend("aot_eager")
    model = Layers(cpu, 4, lambda layer: torch.compile(layer, fullgraph=True, backend=counter))
    given = tensors()

    for _ in range(3):
        model(*given)

    assert counter.frame_count == 1
    assert [[ran.backend for ran in layer.report()] for layer in model.layers] == [["TORCH_SDPA"]] * 4  # type: ignore[operator]


def test_layers_in_one_graph_are_compiled_once(cpu: Selector) -> None:
    """The model as a whole."""
    counter = CompileCounterWithBackend("aot_eager")
    model = torch.compile(Layers(cpu, 3, None), fullgraph=True, backend=counter)
    given = tensors()

    for _ in range(3):
        model(*given)

    assert counter.frame_count == 1


def random_keep() -> Tensor:
    """Give a padding mask of other values each time."""
    return torch.rand(2, 13) < 0.7


@pytest.mark.parametrize(
    "mask",
    [
        lambda: masks.key_padding(random_keep()),
        lambda: masks.key_and_query_padding(random_keep()[:, :9], random_keep()),
        lambda: masks.boolean_per_query(torch.rand(2, 1, 9, 13) < 0.7),
        lambda: masks.additive(torch.randn(2, 4, 9, 13)),
        lambda: masks.key_padding(torch.arange(13)[None] < torch.randint(1, 14, (2, 1))),
    ],
    ids=["key padding", "both paddings", "boolean", "additive", "lengths in a tensor"],
)
@pytest.mark.parametrize("dynamic", [False, True])
def test_the_content_of_a_batch_compiles_nothing_anew(cpu: Selector, mask: Callable[[], Mask], dynamic: bool) -> None:
    """Other values of tensors, and other lengths in a tensor, are the same code."""
    counter = CompileCounterWithBackend("aot_eager")
    layer = Attention("self", selector=cpu)
    whole = torch.compile(layer, fullgraph=True, backend=counter, dynamic=dynamic)

    for _ in range(4):
        given, one = tensors(), mask()
        torch.testing.assert_close(whole(*given, mask=one), layer(*given, mask=one))

    assert counter.frame_count == 1


@pytest.mark.parametrize("masked", [False, True])
def test_new_shapes_compile_at_most_twice_again(cpu: Selector, masked: bool) -> None:
    """Batches and lengths are symbols; as many keys as queries is a case for itself."""
    counter = CompileCounterWithBackend("aot_eager")
    layer = Attention("self", selector=cpu)
    whole = torch.compile(layer, fullgraph=True, backend=counter, dynamic=True)

    for batch, queries, keys in (
        (2, 9, 13),
        (2, 12, 20),
        (3, 40, 7),
        (4, 8, 8),
        (2, 64, 64),
        (5, 100, 33),
        (3, 11, 11),
    ):
        given = tensors(queries, keys, batch)
        mask = masks.key_padding(torch.rand(batch, keys) < 0.7) if masked else None
        torch.testing.assert_close(whole(*given, mask=mask), layer(*given, mask=mask))

    assert counter.frame_count <= 3


def test_eager_calls_between_compile_nothing_anew(cpu: Selector) -> None:
    """What a layer is ready for, and counts, is no part of what is compiled."""
    counter = CompileCounterWithBackend("aot_eager")
    layer = Attention("self", selector=cpu)
    whole, given = torch.compile(layer, fullgraph=True, backend=counter), tensors()

    for length in range(5, 10):
        whole(*given)
        layer(*tensors(length))
        attention(*tensors(length), selector=cpu)

    assert counter.frame_count == 1
