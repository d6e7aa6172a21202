"""`SAGE_ATTN` with SageAttention 1.0.6 on a real GPU, against the float64 oracle and the fake of the package."""

from __future__ import annotations

import inspect
import warnings
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
import torch

from backends import masks, sage
from backends._sage import SageKernel
from backends._sage_trial import measure
from backends.interface import BindError
from backends.reference import attention
from tests.backends.cases import Sizes
from tests.backends.fakes import sage1
from tests.gpu.conftest import cuda_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

    from backends.masks import Mask


def package_reason() -> str | None:
    """Why the package cannot be tried here, or None where it can."""
    try:
        parameters = inspect.signature(import_module("sageattention").sageattn).parameters
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is the reason
        return f"sageattention: {type(error).__name__}: {error}"
    return None if "smooth_k" in parameters else f"sageattention: not version 1, its parameters are {list(parameters)}"


REASON = cuda_reason() or package_reason()
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

ABSOLUTE, RELATIVE = 0.1, 0.03
"""What eight bits leave: of an element, where few normal values are weighed, and of all; faults show 0.1 and more."""
SIZES = Sizes(seq_q=40, seq_kv=99, head_dim=64, dtype=torch.bfloat16, device="cuda:0")


def bind(sizes: Sizes) -> SageKernel:
    """The kernel, tried on this GPU."""
    kernel = sage.BACKEND.bind({}, replace(sizes.geometry, provider="sage1"))
    assert isinstance(kernel, SageKernel)
    return kernel


def errors(out: Tensor, truth: Tensor) -> tuple[float, float]:
    """The largest difference, and |out - truth| / |truth|; infinite where the output is not finite."""
    error = (out.double() - truth.double()).nan_to_num(nan=float("inf"))
    return error.abs().max().item(), (error.norm() / truth.double().norm()).item()


def agree(out: Tensor, truth: Tensor) -> bool:
    """Whether they do, to what eight bits leave."""
    absolute, relative = errors(out, truth)
    return absolute <= ABSOLUTE and relative <= RELATIVE


def package(q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Tensor:  # noqa: ANN401 - the package's own
    """The package itself, its keys a copy."""
    out: Tensor = import_module("sageattention").sageattn(q, k.clone(), v, tensor_layout="NHD", **options)
    return out


def test_the_fake_has_the_packages_signature() -> None:
    """Names, order and defaults."""
    real, fake = (
        [(x.name, x.kind, x.default) for x in inspect.signature(function).parameters.values()]
        for function in (import_module("sageattention").sageattn, sage1.sageattn)
    )

    assert real == fake


@pytest.mark.parametrize("keys", [13, 34, 64, 99, 128])
@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_the_fake_has_the_packages_numbers(head_dim: int, keys: int) -> None:
    """Right and wrong alike: keys that are missing in the last block count in the denominator of both."""
    q, k, v = replace(SIZES, head_dim=head_dim, seq_kv=keys).qkv()

    out = package(q, k, v)

    assert agree(out, sage1.sageattn(q, k.clone(), v, tensor_layout="NHD"))
    assert agree(out, attention(q, k, v)) is (keys % 64 == 0)


MASKS: dict[str, Callable[[int], Mask | None]] = {
    "nothing": lambda _: None,
    "all_keep": lambda _: masks.all_keep(),
    "one length": lambda keys: masks.key_lengths(max(1, keys - 2), keys),
    "other lengths": lambda keys: masks.key_lengths([keys - 1, keys // 2], keys),
    "one key and none": lambda keys: masks.key_lengths([1, 0], keys),
}
LENGTHS = [(72, 72), (40, 99), (99, 40), (1, 2), (3, 5), (9, 13), (34, 34), (200, 128), (130, 1024), (257, 513)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_every_cell_agrees_with_the_oracle(head_dim: int, kv_heads: int, dtype: torch.dtype) -> None:
    """Every kind of mask that it takes and every pair of lengths; rows that see nothing are exactly zero."""
    base = replace(SIZES, dtype=dtype, kv_heads=kv_heads, head_dim=head_dim)
    kernel, wrong = bind(base), []

    for (seq_q, seq_kv), kind in product(LENGTHS, MASKS):
        q, k, v = replace(base, seq_q=seq_q, seq_kv=seq_kv).qkv()
        mask = MASKS[kind](seq_kv)
        out, truth = kernel(q, k, v, mask=mask), attention(q, k, v, mask=mask)
        if out.dtype != dtype or not agree(out, truth) or not bool((out[truth == 0] == 0).all()):
            wrong.append((kind, seq_q, seq_kv, *errors(out, truth)))

    assert not wrong


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("kv_heads", [4, 2])
@pytest.mark.parametrize("head_dim", [64, 96, 128])
def test_causal_calls_agree_with_the_oracle(head_dim: int, kv_heads: int, dtype: torch.dtype) -> None:
    """Of equal lengths, whole blocks or not."""
    base = replace(SIZES, dtype=dtype, kv_heads=kv_heads, head_dim=head_dim)
    kernel, wrong = bind(base), []

    for length in (2, 5, 34, 63, 64, 65, 127, 128, 129, 192, 193, 257, 1024):
        q, k, v = replace(base, seq_q=length, seq_kv=length).qkv()
        out, truth = kernel(q, k, v, causal="bottom_right"), attention(q, k, v, causal="bottom_right")
        if not agree(out, truth):
            wrong.append((length, *errors(out, truth)))

    assert not wrong


@pytest.mark.parametrize("scale", [0.2, 0.05, 0.0, -0.1])
@pytest.mark.parametrize("causal", [None, "top_left"])
def test_scale(causal: Any, scale: float) -> None:  # noqa: ANN401 - an alignment or none
    """As it is, positive or not."""
    q, k, v = replace(SIZES, seq_q=99).qkv()

    out = bind(SIZES)(q, k, v, causal=causal, scale=scale)

    assert errors(out, attention(q, k, v, causal=causal, scale=scale))[1] <= 2 * RELATIVE


def test_whole_blocks_are_what_the_package_gives_itself() -> None:
    """To the last bit."""
    q, k, v = replace(SIZES, seq_kv=128).qkv()

    assert torch.equal(bind(SIZES)(q, k, v), package(q, k, v))


@pytest.mark.parametrize("keys", [99, 128])
def test_nothing_is_mutated(keys: int) -> None:
    """Not through a view either, and not where key and value are one tensor."""
    for order in ((0, 1, 2, 3), (0, 2, 1, 3)):
        q, k, v = (x.permute(order).contiguous().permute(order) for x in replace(SIZES, seq_kv=keys).qkv())
        before = [x.clone() for x in (q, k, v)]

        bind(SIZES)(q, k, v)
        out = bind(SIZES)(q, k + 2, k + 2)

        assert all(torch.equal(x, y) for x, y in zip((q, k, v), before, strict=True))
        assert errors(out, attention(q, k + 2, k + 2))[1] <= RELATIVE


@pytest.mark.parametrize("size", [1.0, 700.0, 6e4, 1e6])
def test_values_of_any_size(size: float) -> None:
    """Also those that float16, in which the package adds, cannot hold."""
    q, k, v = SIZES.qkv()
    v = (v * size).to(v.dtype)

    assert agree(bind(SIZES)(q, k, v) / size, attention(q, k, v) / size)


LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "heads first in memory": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "expanded heads": lambda x: x[:, :, :1].expand_as(x),
    "expanded batch": lambda x: x[:1].expand_as(x),
    "every second element": lambda x: torch.stack([x, x + 1], dim=-1).flatten(3)[..., ::2],
    "sliced from fused rows": lambda x: torch.cat([x + 1, x, x + 2], dim=3)[..., x.shape[3] : 2 * x.shape[3]],
    "one element off": lambda x: torch.cat([x[..., :1], x], dim=3)[..., 1:],
    "sliced from a longer sequence": lambda x: torch.cat([x, x + 1], dim=1)[:, : x.shape[1]],
}


@pytest.mark.parametrize("keys", [99, 128])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_memory_layout(layout: str, keys: int) -> None:
    """Strides do not matter to the result."""
    q, k, v = (LAYOUTS[layout](x) for x in replace(SIZES, seq_kv=keys).qkv())

    assert agree(bind(SIZES)(q, k, v), attention(q, k, v))


@contextmanager
def no_synchronisation() -> Iterator[None]:
    """Any wait of the host for the device is an error."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch says that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


CALLS: dict[str, dict[str, Any]] = {
    "dense": {},
    "causal": {"causal": "top_left"},
    "lengths": {"mask": masks.key_lengths([99, 40], 99)},
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_waits_for_nothing(call: str) -> None:
    """Once it has been compiled."""
    sizes = replace(SIZES, seq_q=99)
    kernel, tensors = bind(sizes), sizes.qkv()
    kernel(*tensors, **CALLS[call])

    with no_synchronisation():
        kernel(*tensors, **CALLS[call])


@pytest.mark.parametrize("call", CALLS)
def test_a_captured_call_replays(call: str) -> None:
    """A CUDA graph of the call gives the eager result."""
    sizes = replace(SIZES, seq_q=99)
    kernel, tensors = bind(sizes), sizes.qkv()
    eager = kernel(*tensors, **CALLS[call])
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()

    with torch.cuda.graph(graph):
        captured = kernel(*tensors, **CALLS[call])
    graph.replay()

    assert torch.equal(captured, eager)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("call", CALLS)
def test_traces_whole(call: str, backend: str) -> None:
    """Under `fullgraph=True`, with the eager result but for what inductor fuses."""
    torch.compiler.reset()
    sizes = replace(SIZES, seq_q=99)
    kernel, tensors = bind(sizes), sizes.qkv()

    out = torch.compile(kernel, fullgraph=True, backend=backend)(*tensors, **CALLS[call])

    assert agree(out, kernel(*tensors, **CALLS[call]))


def test_the_trial_finds_rounding_alone() -> None:
    """With room to the limit."""
    for head_dim in (64, 96, 128):
        kernel = bind(replace(SIZES, head_dim=head_dim))

        assert max(measure(kernel.bound, kernel.run)) < sage.ERROR_MOST / 2


def test_another_version_is_not_bound() -> None:
    """Though the package is there."""
    with pytest.raises(BindError, match=r"^`provider` of `SAGE_ATTN`: wanted sage1, which is installed, got sage2$"):
        sage.BACKEND.bind({}, replace(SIZES.geometry, provider="sage2"))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there is one GPU here, or none")
def test_tensors_on_another_device_than_the_current_one() -> None:
    """They run there, and the current device stays."""
    sizes = replace(SIZES, device="cuda:1")
    q, k, v = sizes.qkv()

    out = bind(sizes)(q, k, v)

    assert torch.cuda.current_device() == 0
    assert agree(out, attention(q, k, v))


@pytest.mark.parametrize("lengths", [(4352, 4352), (14_100, 14_100), (14_040, 512)])
@pytest.mark.parametrize("kind", ["nothing", "one length", "other lengths"])
def test_long_sequences(kind: str, lengths: tuple[int, int]) -> None:
    """As long as those of images and videos."""
    sizes = replace(SIZES, heads=2, kv_heads=2, seq_q=lengths[0], seq_kv=lengths[1], head_dim=128)
    (q, k, v), mask = sizes.qkv(), MASKS[kind](lengths[1])

    assert agree(bind(sizes)(q, k, v, mask=mask), attention(q, k, v, mask=mask))
