"""The dispatch inside compiled, exported, pickled and differentiated modules."""

from __future__ import annotations

import copy
import io
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch._dynamo.testing import CompileCounterWithBackend

from backends import masks
from backends.reference import attention as definition
from selector import Attention, Selector, attention, use_backends
from selector.dispatch import this_machine
from selector.dispatch.compiled import Marks, marks_of
from selector.ruleset import load_rules, shipped
from tests.selector.conftest import CPU, FA2
from tests.selector.rules.folders import file

HEADS, HEAD_DIM = 4, 16


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


def tensors(queries: int, keys: int | None = None, head_dim: int = HEAD_DIM, kv_heads: int = HEADS) -> list[Tensor]:
    """Give q, k and v."""
    generator = torch.Generator().manual_seed(queries)
    lengths = ((queries, HEADS), (keys or queries, kv_heads), (keys or queries, kv_heads))
    return [torch.randn(2, length, heads, head_dim, generator=generator) for length, heads in lengths]


def counted() -> CompileCounterWithBackend:
    """Give a compiler that counts how often it is asked."""
    return CompileCounterWithBackend("aot_eager")


class Block(nn.Module):
    """A small block of a diffusion transformer: self-attention, cross-attention, and a backend for each role."""

    def __init__(self, selector: Selector, width: int = HEADS * HEAD_DIM) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.attend = Attention("self", selector=selector, head_dim=HEAD_DIM, num_heads=HEADS)
        self.cross = Attention("cross", selector=selector, head_dim=HEAD_DIM, num_heads=HEADS)
        self.out = nn.Linear(width, width)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """Attend to the sequence itself and then to the text."""
        q, k, v = (split(part) for part in self.project(self.norm(x)).chunk(3, dim=-1))
        x = x + self.out(self.attend(q, k, v).flatten(2))
        words = split(text)
        seen: Tensor = x + self.cross(split(x), words, words).flatten(2)
        return seen


def split(x: Tensor) -> Tensor:
    """Give `[batch, seq, heads, head_dim]`."""
    return x.view(*x.shape[:2], HEADS, HEAD_DIM)


# --- compiled ---


def test_a_block_with_a_backend_per_role_is_compiled_whole_and_once(cpu: Selector) -> None:
    """Equal to eager, without a break, and without compiling again for the same shapes."""
    block, counter = Block(cpu), counted()
    whole = torch.compile(block, fullgraph=True, backend=counter)
    x, text = torch.randn(2, 9, 64), torch.randn(2, 5, 64)

    for _ in range(3):
        torch.testing.assert_close(whole(x, text), block(x, text))

    assert counter.frame_count == 1


def test_lengths_stay_symbolic(cpu: Selector) -> None:
    """What is compiled holds for every length on one side of what the rules ask; equal lengths are another case."""
    layer, counter = Attention("self", selector=cpu), counted()
    whole = torch.compile(layer, fullgraph=True, backend=counter, dynamic=True)

    for queries, keys in ((9, 13), (10, 13), (20, 31), (40, 7), (9, 9), (12, 12), (64, 64), (8, 15)):
        call = tensors(queries, keys)
        torch.testing.assert_close(whole(*call), layer(*call))

    assert counter.frame_count == 2


def test_each_head_size_is_compiled_for_itself(cpu: Selector) -> None:
    """A kernel is bound to it."""
    layer, counter = Attention("self", selector=cpu), counted()
    whole = torch.compile(layer, fullgraph=True, backend=counter, dynamic=True)

    for head_dim in (16, 24, 32, 24, 16):
        call = tensors(9, 13, head_dim)
        torch.testing.assert_close(whole(*call), layer(*call))

    assert counter.frame_count == 3


@pytest.mark.parametrize("causal", [None, "top_left", "bottom_right"])
def test_masks_alignment_and_grouped_heads(cpu: Selector, causal: str | None) -> None:
    """Of every kind, as eager."""
    q, k, v = tensors(9, 13, kv_heads=2)
    keep = torch.rand(2, 13, generator=torch.Generator().manual_seed(1)) < 0.7
    kinds = [
        None, masks.all_keep(), masks.key_lengths([7, 12], 13), masks.key_padding(keep),
        masks.boolean_per_query(keep[:, None, None].expand(2, 1, 9, 13)), masks.block_diagonal([4, 5], [6, 7]),
        masks.additive(torch.randn(2, HEADS, 9, 13)), masks.key_and_query_padding(keep[:, :9], keep),
    ]  # fmt: skip

    for mask in kinds:
        torch._dynamo.reset()

        def call(q: Tensor, k: Tensor, v: Tensor, mask: masks.Mask | None = mask) -> Tensor:
            return attention(q, k, v, mask=mask, causal=causal, selector=cpu)  # type: ignore[arg-type]

        got = torch.compile(call, fullgraph=True, backend="aot_eager")(q, k, v)
        wanted = definition(q, k, v, mask=mask, causal=causal)  # type: ignore[arg-type]
        torch.testing.assert_close(got.double(), wanted, atol=1e-5, rtol=1e-5)


def test_newer_rules_compile_it_anew(tmp_path: Path) -> None:
    """What was compiled with older ones is not run with newer ones."""
    file(tmp_path, "roles.yaml", "roles: {mine: cross}")
    selector = Selector(rules=tmp_path, facts=CPU, environment={})
    layer, counter, call = Attention("mine", selector=selector), counted(), tensors(9)
    whole = torch.compile(layer, fullgraph=True, backend=counter)
    whole(*call)
    file(tmp_path, "e.yaml", "table: call\nedits: [{id: none, before: heads-do-not-divide, when: {mask: none}, "
         "refuse: 'not any more', because: x}]\n")  # fmt: skip

    assert selector.reload().outcome == "swapped"

    with pytest.raises(Exception, match="not any more"):
        whole(*call)
    assert counter.frame_count == 1


def test_a_call_that_is_refused_is_refused_while_it_is_compiled() -> None:
    """With the selector's own words."""
    selector = Selector(facts=CPU, backend="TORCH_SDPA", environment={})
    q, k, v = tensors(9)

    with pytest.raises(Exception, match="4 query heads cannot share 3 KV heads evenly"):
        torch.compile(lambda: attention(q, k[:, :, :3], v[:, :, :3], selector=selector), fullgraph=True)()


def test_the_report_tells_what_compiled_code_runs(cpu: Selector) -> None:
    """Which nobody counts."""
    layer = Attention("self", selector=cpu)

    torch.compile(layer, fullgraph=True, backend="aot_eager")(*tensors(9))

    (ran,) = layer.report()
    assert (ran.backend, ran.calls) == ("TORCH_SDPA", 0)


# --- use_backends ---


def test_a_block_around_compiled_code_is_seen_and_restored(cpu: Selector) -> None:
    """Each choice is compiled once, also in another thread."""
    counter, call = counted(), tensors(9)
    other = Selector(facts={"platform": "cuda", "arch": "sm_90", "packages": FA2}, backend="TORCH_SDPA", environment={})

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v) + 1

    whole = torch.compile(run, fullgraph=True, backend=counter)
    counts = []
    with use_backends(cpu):
        whole(*call)
        counts.append(counter.frame_count)
        with use_backends(other):
            whole(*call)
            counts.append(counter.frame_count)
        whole(*call)
        counts.append(counter.frame_count)
    whole(*call)

    assert counts == [1, 2, 2]
    assert [len(selector.serving.plans) for selector in (cpu, other)] == [1, 1]
    assert len(this_machine().serving.plans) >= 1


def test_a_block_inside_compiled_code_is_traced(cpu: Selector) -> None:
    """Whole, and the stack is as it was afterwards."""
    call = tensors(9)

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with use_backends(cpu):
            return attention(q, k, v)

    torch.testing.assert_close(torch.compile(run, fullgraph=True, backend="aot_eager")(*call), run(*call))
    assert attention(*call).shape == call[0].shape
    assert len(cpu.serving.plans) == 2


def test_it_holds_in_its_own_thread_alone(cpu: Selector) -> None:
    """And ends with its block, however that ends."""
    seen: list[int] = []
    with use_backends(cpu):
        thread = threading.Thread(target=lambda: seen.append(len(_plans_after(cpu))))
        thread.start()
        thread.join()
        attention(*tensors(5))
    assert seen == [0]
    assert len(cpu.serving.plans) == 1

    with pytest.raises(RuntimeError, match="over"), use_backends(cpu):
        raise RuntimeError("over")
    attention(*tensors(6))
    assert len(cpu.serving.plans) == 1


def _plans_after(selector: Selector) -> dict[object, object]:
    attention(*tensors(7))
    return selector.serving.plans


def test_a_backend_is_named() -> None:
    """In any case of letters; a name that no backend has is told."""
    with use_backends("torch_sdpa") as chosen:
        assert chosen.decide().rule == "explicit/able"
    with pytest.raises(ValueError, match="did you mean `TORCH_SDPA`"), use_backends("TORCH_SDP"):
        pass


# --- how rules tell lengths apart ---


def test_the_marks_of_the_shipped_rules() -> None:
    """One key, and a number of keys above which a kernel is known to give noise; 0 and 1 always."""
    assert marks_of(shipped()) == Marks((0, 1, 160000, 160001), ())


def test_marks_of_other_rules(tmp_path: Path) -> None:
    """Comparisons, divisors and values."""
    row = 'when: {seq_len_kv: {multiple_of: 128}, seq_len_q: ">=64,<1024"}, use: TORCH_SDPA, because: x'
    file(tmp_path, "e.yaml", f"table: platform_default\nedits: [{{id: m, before: torch-sdpa, {row}}}]\n")

    assert marks_of(load_rules([tmp_path])) == Marks((0, 1, 63, 64, 1023, 1024, 160000, 160001), (128,))


@pytest.mark.parametrize("length", [0, 1, 2, 63, 64, 65, 127, 128, 256, 1023, 1024, 5000, 160001, 10**6])
def test_an_example_lies_where_a_length_lies(length: int) -> None:
    """On the same side of every bound, and divided by the same numbers."""
    marks = Marks((0, 1, 63, 64, 1023, 1024, 160000), (128, 48))

    found = marks.example(sum(length > bound for bound in marks.bounds), tuple(length % n == 0 for n in marks.divisors))

    assert all((found > bound) == (length > bound) for bound in marks.bounds)
    assert all((found % divisor == 0) == (length % divisor == 0) for divisor in marks.divisors)


# --- shape of use ---


@pytest.mark.parametrize("strict", [False, True])
def test_a_block_is_exported(cpu: Selector, strict: bool) -> None:
    """With the result of the block."""
    block = Block(cpu)
    x, text = torch.randn(2, 9, 64), torch.randn(2, 5, 64)

    program = torch.export.export(block, (x, text), strict=strict)

    torch.testing.assert_close(program.module()(x, text), block(x, text))


def again(value: Any) -> Any:  # noqa: ANN401 - whatever it is
    """Give a value through pickle."""
    return pickle.loads(pickle.dumps(value))  # noqa: S301 - its own bytes


def test_a_layer_with_a_bound_kernel_is_copied_and_pickled(cpu: Selector) -> None:
    """Deep, through pickle, and through `torch.save`; the copy binds again, and decides alike."""
    layer, call = Attention("self", selector=cpu, scale=0.3), tensors(9, 13)
    wanted = layer(*call)
    stream = io.BytesIO()
    torch.save(layer, stream)
    stream.seek(0)

    for other in (copy.deepcopy(layer), again(layer), torch.load(stream, weights_only=False)):
        assert other.report() == ()
        torch.testing.assert_close(other(*call), wanted)
        assert other.decision == layer.decision
        assert torch.compile(other, fullgraph=True, backend="aot_eager")(*call).shape == wanted.shape


def test_a_selector_with_rules_of_its_own_is_pickled(tmp_path: Path) -> None:
    """Its rules come back whole, with their digest."""
    file(tmp_path, "roles.yaml", "roles: {mine: cross}")
    selector = Selector(rules=tmp_path, facts=CPU, environment={})

    other = again(selector)

    assert other.rules.digest == selector.rules.digest
    assert other.decide("mine").role_category == "cross"
    assert again(shipped()) is shipped()


def test_gradients_flow_where_the_kernel_has_them(cpu: Selector) -> None:
    """As those of the definition."""
    q, k, v = (tensor.double().requires_grad_() for tensor in tensors(5, 7))
    mask = masks.key_lengths(4, 7)

    grads = torch.autograd.grad(attention(q, k, v, mask=mask, selector=cpu).square().sum(), (q, k, v))

    wanted = torch.autograd.grad(definition(q, k, v, mask=mask).square().sum(), (q, k, v))
    for got, want in zip(grads, wanted, strict=True):
        torch.testing.assert_close(got, want, atol=1e-9, rtol=1e-9)
