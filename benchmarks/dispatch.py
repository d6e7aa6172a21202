"""What the dispatch costs on top of the kernel called by hand.

``python -m benchmarks.dispatch [--quick] [--json FILE] [--markdown FILE] [--compare [FILE]]`` measures tensors so small
that the kernel takes as good as no time: on the CPU torch's function by hand, the layer, the function and, where it is
installed, the dispatcher of diffusers. With a GPU it also measures each backend that is usable there: eagerly,
compiled, and replayed from a CUDA graph. What is compared runs in turn, in short batches; a sample is the quickest of
five of them, which other work has disturbed least. *adds* is the median of the differences between samples of one turn.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import FunctionType
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, figure, main

if TYPE_CHECKING:
    from torch import Tensor

    from selector import Selector

    Call = Callable[[Tensor, Tensor, Tensor], Tensor]

MOST_OF_LAYER, MOST_OF_FUNCTION = 1.0, 2.0
"""Microseconds that are promised to be added at most."""
_SHAPE = (1, 4, 2, 8)
_SHAPE_ON_GPU = (1, 256, 8, 128)
_BATCH, _BATCH_ON_GPU, _IN_GRAPH = 50, 20, 20
_LEAST_OF = 5


def measure(quick: bool) -> Iterator[Figure]:  # noqa: FBT001 - as `benchmarks.figures.main` calls it
    """Measure the CPU and, where there is one, the GPU."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a kernel only waits for others
    yield from _on_cpu(20 if quick else 200)
    torch.set_num_threads(threads)
    if torch.cuda.is_available():
        yield from _on_gpu(5 if quick else 30)


# --- on the CPU ---------------------------------------------------------------------------------------------------


def _on_cpu(turns: int) -> Iterator[Figure]:
    import torch

    from selector import Attention, Selector, attention

    here = Selector(facts={"platform": "cpu"}, environment={})
    calls: dict[str, Call] = {
        "by hand": _by_hand(),
        "Attention.forward": Attention("self", selector=here).forward,
        "attention()": partial(attention, selector=here),
    }
    theirs = _diffusers()
    if theirs is not None:
        calls["diffusers' dispatcher"] = theirs
    tensors = [torch.randn(_SHAPE) for _ in range(3)]
    times = _in_turn({name: partial(_batch, call, tensors) for name, call in calls.items()}, turns)
    most = {"Attention.forward": MOST_OF_LAYER, "attention()": MOST_OF_FUNCTION}
    yield from _figures("", "by hand", times, most)
    if theirs is None:
        print("diffusers is not installed here: its dispatcher is not measured", file=sys.stderr)


def _figures(
    where: str, base: str, times: Mapping[str, list[float]], most: Mapping[str, float] | None = None
) -> Iterator[Figure]:
    """Give the times, each with its ratio to the base, and what each adds to it."""
    first = figure(where + base, times[base], "µs")
    yield first
    for name, samples in times.items():
        if name != base:
            yield figure(where + name, samples, "µs", to=first)
    for name, samples in times.items():
        if name != base:
            added = [one - other for one, other in zip(samples, times[base], strict=True)]
            yield figure(f"{where}{name} adds", added, "µs", most=(most or {}).get(name))


def _in_turn(runs: Mapping[str, Callable[[], float]], turns: int) -> dict[str, list[float]]:
    """Give the times of each, taken in turn after a warm-up."""
    for run in runs.values():
        for _ in range(3):
            run()
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns):
        found = [{name: run() for name, run in runs.items()} for _ in range(_LEAST_OF)]
        for name in runs:
            times[name].append(min(one[name] for one in found))
    return times


def _batch(call: Call, tensors: list[Tensor]) -> float:
    """Time calls one after another: microseconds for each."""
    q, k, v = tensors
    start = time.perf_counter()
    for _ in range(_BATCH):
        call(q, k, v)
    return (time.perf_counter() - start) / _BATCH * 1e6


def _by_hand() -> Call:
    from torch.nn.functional import scaled_dot_product_attention as sdpa

    def by_hand(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return sdpa(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)).transpose(1, 2)

    return by_hand


def _diffusers() -> Call | None:
    """Give diffusers' own dispatcher, where it is installed."""
    try:
        from diffusers.models.attention_dispatch import dispatch_attention_fn
    except ImportError:
        return None
    call: Call = dispatch_attention_fn
    return call


# --- on a GPU -----------------------------------------------------------------------------------------------------


def _on_gpu(turns: int) -> Iterator[Figure]:
    import torch

    from selector import Selector
    from selector.ruleset import shipped

    tensors = [torch.randn(_SHAPE_ON_GPU, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    for backend in shipped().backends:
        try:
            with torch.no_grad():
                yield from _of_backend(backend, Selector(backend=backend, policy="strict"), tensors, turns)
        except (ValueError, RuntimeError, ImportError) as error:  # refused, or not built for this machine
            print(f"{backend} is not measured: {str(error).splitlines()[0]}", file=sys.stderr)


def _of_backend(backend: str, selector: Selector, tensors: list[Tensor], turns: int) -> Iterator[Figure]:
    import torch

    from selector import Attention, attention
    from selector.dispatch import plan_for

    torch._dynamo.reset()  # noqa: SLF001 - there is no public name
    plan = plan_for(*tensors, selector=selector)
    name, by_hand = _hand_of(backend, plan.decision.provider, plan.kernel)
    calls: dict[str, Call] = {
        name: by_hand,
        "Attention.forward": Attention("self", selector=selector).forward,
        "attention()": partial(attention, selector=selector),
    }
    for way, made in (("eager", _eager), ("compiled", _compiled), ("CUDA graph", _captured)):
        runs = {}
        for said, call in calls.items():
            try:
                runs[said] = made(call, tensors)
            except Exception as error:  # noqa: BLE001 - what is called by hand may not be traced or captured
                print(f"{backend}, {way}, {said}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr)
        if name in runs:
            yield from _figures(f"{backend}, {way}: ", name, _in_turn(runs, turns))


def _eager(call: Call, tensors: list[Tensor]) -> Callable[[], float]:
    call(*tensors)
    return partial(_timed, partial(_repeat, call, tensors, _BATCH_ON_GPU), _BATCH_ON_GPU)


def _compiled(call: Call, tensors: list[Tensor]) -> Callable[[], float]:
    import torch

    def own(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return call(q, k, v)

    # With code of its own: what is compiled is kept by code, and looked through one after another.
    code = FunctionType(own.__code__.replace(), own.__globals__, closure=own.__closure__)
    return _eager(torch.compile(code), tensors)


def _captured(call: Call, tensors: list[Tensor]) -> Callable[[], float]:
    import torch

    side = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    with torch.cuda.stream(side):
        _repeat(call, tensors, 3)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _repeat(call, tensors, _IN_GRAPH)
    return partial(_timed, graph.replay, _IN_GRAPH)


def _repeat(call: Call, tensors: list[Tensor], times: int) -> None:
    q, k, v = tensors
    for _ in range(times):
        call(q, k, v)


def _timed(run: Callable[[], None], calls: int) -> float:
    """Time what is given until the GPU has done it: microseconds for each call."""
    import torch

    torch.cuda.synchronize()
    start = time.perf_counter()
    run()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / calls * 1e6


def _hand_of(backend: str, provider: str | None, bound: Callable[..., Tensor]) -> tuple[str, Call]:
    """Give what a user would write without us, or else the kernel as we bind it."""
    try:
        return "by hand", _HANDS[provider or backend]()
    except (KeyError, ImportError, AttributeError):
        return "kernel as bound", bound


def _cudnn() -> Call:
    from torch.nn.attention import SDPBackend, sdpa_kernel

    by_hand = _by_hand()

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return by_hand(q, k, v)

    return call


def _flash(module: str) -> Call:
    import importlib

    function = importlib.import_module(module).flash_attn_func

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = function(q, k, v)
        first: Tensor = out[0] if isinstance(out, tuple) else out
        return first

    return call


def _sage() -> Call:
    from sageattention import sageattn

    call: Call = partial(sageattn, tensor_layout="NHD")
    return call


def _flashinfer(kernel: str) -> Call:
    from flashinfer import single_prefill_with_kv_cache

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out: Tensor = single_prefill_with_kv_cache(q[0], k[0], v[0], kv_layout="NHD", backend=kernel)[None]
        return out

    return call


_HANDS: Mapping[str, Callable[[], Call]] = {
    "TORCH_SDPA": _by_hand,
    "CUDNN_ATTN": _cudnn,
    "fa4": partial(_flash, "flash_attn.cute"),
    "fa3": partial(_flash, "fa3_fwd_interface"),
    "fa2": partial(_flash, "flash_attn"),
    "sage1": _sage,
    "sage2": _sage,
    "flashinfer-fa2": partial(_flashinfer, "fa2"),
    "flashinfer-fa3": partial(_flashinfer, "fa3"),
}

if __name__ == "__main__":
    sys.exit(main("dispatch", "What the dispatch costs", measure))
