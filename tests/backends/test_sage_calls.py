"""What the Sage kernels refuse to run, what they hand to their package, and what they leave as it was."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from backends import masks
from backends._sage import SageKernel
from backends.interface import CallRefused
from backends.reference import attention
from backends.sage import SageAttention
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes import sage1, sage2
from tests.backends.fakes.sage_bound import FAKES, HALF, Fake, installed, untried

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from torch import Tensor

every = pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
REFUSED_KINDS = {
    "key padding": "key_padding",
    "key and query padding": "key_and_query_padding",
    "block diagonal": "block_diagonal",
    "boolean": "boolean_per_query",
    "boolean per head": "boolean_per_query",
    "additive": "additive",
    "additive per key": "additive",
}


@every
@pytest.mark.parametrize("kind", REFUSED_KINDS)
def test_other_masks_are_refused_by_name(fake: Fake, kind: str) -> None:
    """The packages would swallow them."""
    q, k, v = HALF.qkv()
    message = f"mask: wanted `none`, `all_keep` or `suffix_key_padding`, got `{REFUSED_KINDS[kind]}`"

    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        fake.bind(HALF)(q, k, v, mask=MASKS[kind](replace(HALF, dtype=torch.float32)))


def made(*shape: int, device: str = "cpu", dtype: torch.dtype = torch.bfloat16) -> Tensor:
    """Ones."""
    return torch.ones(shape, dtype=dtype, device=device)


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "one key": ({"k": made(2, 1, 4, 64), "v": made(2, 1, 4, 64)}, "`seq_len_kv`: wanted 2 or more, got 1"),
    "float32": (
        {"q": made(2, 9, 4, 64, dtype=torch.float32)},
        "`q`: wanted bfloat16 on `cpu`, got float32 on `cpu`",
    ),
    "another head_dim": ({"q": made(2, 9, 4, 128)}, "`q`: wanted [2, 9, 4, 64], got [2, 9, 4, 128]"),
    "values of another length": ({"v": made(2, 12, 4, 64)}, "`v`: wanted [2, 13, 4, 64], got [2, 12, 4, 64]"),
    "causal as a flag": ({"causal": True}, "`causal`: wanted `top_left`, `bottom_right` or none, got `True`"),
    "causal with other lengths": (
        {"causal": "top_left"},
        "`causal`: wanted as many queries as keys, got 9 queries and 13 keys",
    ),
    "causal with key lengths": (
        {"causal": "bottom_right", "mask": masks.key_lengths([13, 13], 13)},
        "`causal`: wanted none beside a mask `suffix_key_padding`, got `bottom_right`",
    ),
    "lengths of other sizes": (
        {"mask": masks.key_lengths(3, 9)},
        "mask `suffix_key_padding`: wanted lengths over [batch, seq_kv] = [2, 13], got [2, 9]",
    ),
    "a gradient": (
        {"k": made(2, 13, 4, 64).requires_grad_()},
        (
            "`q`, `k`, `v`: wanted tensors without gradients, for this kernel has no backward pass, got one that "
            "requires them; call it under `torch.no_grad()`, or name TORCH_SDPA"
        ),
    ),
}


@every
@pytest.mark.parametrize("case", REFUSED)
def test_calls_refused(fake: Fake, case: str) -> None:
    """What was wanted, and what was got."""
    change, message = REFUSED[case]
    call: dict[str, Any] = {"q": made(2, 9, 4, 64), "k": made(2, 13, 4, 64), "v": made(2, 13, 4, 64), **change}

    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        fake.bind(HALF)(**call)


def test_more_elements_than_32_bits_count_are_refused() -> None:
    """The packages would read other ones."""
    geometry = replace(HALF, device="meta").geometry
    kernel = SageAttention(importer=installed(sage1.MODULE), device="meta", trial=untried).bind({}, geometry)
    q, k = made(1, 9, 4, 64, device="meta"), made(1, 2**23 - 100, 4, 64, device="meta")

    message = f"`k`: wanted fewer than {2**31} elements, filled up to whole blocks, got {2**31}"
    with pytest.raises(CallRefused, match=f"^{message}$"):
        kernel(q, k, k)


def test_a_tensor_that_requires_a_gradient_runs_where_none_is_recorded() -> None:
    """As a model's layers do in inference."""
    q, k, v = (x.requires_grad_() for x in HALF.qkv())

    with torch.no_grad():
        out = FAKES["1"].bind(HALF)(q, k, v)

    assert FAKES["1"].off(out, attention(q, k, v).detach()) <= 1


@dataclass
class Recorder:
    """A fake package that notes what it is called with."""

    package: Callable[..., Any]
    calls: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, **options: Any) -> Any:  # noqa: ANN401 - whatever is said
        """As the package."""
        self.calls.append({"q": q, "k": k, "v": v, "options": options})
        return self.package(q, k, v, **options)


def recorded(version: int, sizes: Sizes) -> tuple[SageKernel, list[dict[str, Any]]]:
    """A kernel of that version, and the calls that its package gets."""
    packages: dict[int, Callable[..., Any]] = {1: sage1.sageattn, 2: sage2.Sage2("sm90").sageattn}
    recorder = Recorder(packages[version])

    @wraps(recorder.package)
    def sageattn(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - with the package's signature
        return recorder(*args, **options)

    backend = SageAttention(importer=installed(SimpleNamespace(sageattn=sageattn)), device="cpu", trial=untried)
    kernel = backend.bind({}, sizes.geometry)
    assert isinstance(kernel, SageKernel)
    return kernel, recorder.calls


LONG = replace(HALF, batch=1, heads=1, kv_heads=1, seq_q=2)


@pytest.mark.parametrize(
    ("version", "sizes", "keys"),
    [
        (1, replace(HALF, seq_kv=64), [64]),
        (1, replace(HALF, seq_kv=13), [64, 64]),
        (1, replace(HALF, seq_kv=129), [192, 192]),
        (1, replace(LONG, seq_kv=16_065), [16_128]),
        (1, replace(LONG, seq_kv=16_001), [16_064, 16_064]),
        (2, replace(HALF, seq_kv=128), [128]),
        (2, replace(HALF, seq_kv=13), [128]),
        (2, replace(HALF, seq_kv=129), [256]),
    ],
)
def test_whole_blocks_of_keys_and_how_often(version: int, sizes: Sizes, keys: list[int]) -> None:
    """Version 1 is asked again for the share of the filling keys, but not where rounding hides it."""
    kernel, calls = recorded(version, sizes)
    q, k, v = sizes.qkv()

    out = kernel(q, k, v)

    assert [call["k"].shape[1] for call in calls] == keys
    assert [call["v"].shape[1] for call in calls] == keys
    assert ((out.double() - attention(q, k, v)).norm() / attention(q, k, v).norm()).item() < 0.06


@pytest.mark.parametrize("version", [1, 2])
def test_batches_of_one_length_run_together(version: int) -> None:
    """And only what is seen of the keys is handed over; nothing else is ever said, no mask above all."""
    sizes = replace(HALF, batch=5, seq_kv=256)
    kernel, calls = recorded(version, sizes)

    kernel(*sizes.qkv(), mask=masks.key_lengths([128, 128, 0, 256, 128], 256))

    assert [tuple(call["k"].shape[:2]) for call in calls] == [(2, 128), (1, 256), (1, 128)]
    others = {"tensor_layout", "is_causal", "sm_scale"} | {1: {"smooth_k"}, 2: {"return_lse"}}[version]
    assert all(set(call["options"]) == others for call in calls)


def test_tensors_that_can_be_read_are_not_copied() -> None:
    """Version 2 leaves its keys alone; version 1 gets others, and is told to leave those alone too."""
    q, k, v = replace(HALF, seq_kv=128).qkv()
    (first, calls_1), (second, calls_2) = recorded(1, HALF), recorded(2, HALF)

    first(q, k, v)
    second(q, k, v)

    assert [calls_1[0]["q"].data_ptr(), calls_2[0]["q"].data_ptr()] == [q.data_ptr()] * 2
    assert calls_2[0]["k"].data_ptr() == k.data_ptr() != calls_1[0]["k"].data_ptr()
    assert (calls_1[0]["options"]["smooth_k"], calls_2[0]["options"]["return_lse"]) == (False, False)


def test_whole_blocks_are_what_the_package_gives_itself() -> None:
    """To the last bit, as the caller of the package would get them."""
    sizes = replace(HALF, seq_q=40, seq_kv=128)
    q, k, v = sizes.qkv()

    first, second = (FAKES[name].bind(sizes)(q, k, v) for name in ("1", "2, sm90"))

    assert torch.equal(first, sage1.sageattn(q, k.clone(), v, tensor_layout="NHD"))
    assert torch.equal(second, sage2.Sage2("sm90").sageattn(q, k, v, tensor_layout="NHD"))  # type: ignore[arg-type]


def test_the_current_device_is_the_callers_again() -> None:
    """Version 2 sets it to that of the values and leaves it there."""
    current: list[object] = ["cuda:1"]

    def set_device(device: object) -> None:
        current[0] = device

    @contextmanager
    def guard(device: torch.device) -> Iterator[None]:
        before = current[0]
        set_device(device)
        yield
        set_device(before)

    package = sage2.Sage2("sm90", set_device)
    backend = SageAttention(importer=installed(package), device="cpu", guard=guard, trial=untried)
    q, k, v = HALF.qkv()
    package.sageattn(q, k, v, "NHD")
    left, current[0] = current[0], "cuda:1"

    backend.bind({}, HALF.geometry)(q, k, v)

    assert left == torch.device("cpu")
    assert current == ["cuda:1"]
