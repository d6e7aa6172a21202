"""What `FLASHINFER_ATTN` refuses to bind, with the whole message."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from backends import flashinfer
from backends.interface import BindError, Geometry
from tests.backends.cases import Sizes
from tests.backends.fakes.flashinfer_binding import PREFILL, flashinfer_backend
from tests.backends.fakes.flashinfer_prefill import single_prefill_with_kv_cache

GEOMETRY = Geometry(64, 4, 4, "float16", "cpu", provider="flashinfer-fa2")
HALF = Sizes(dtype=torch.float16)

UNBOUND: list[tuple[str, dict[str, object], Geometry, str]] = [
    (
        "no provider",
        {},
        replace(GEOMETRY, provider=None),
        ("`provider` of `FLASHINFER_ATTN`: wanted flashinfer-fa2, flashinfer-fa3, flashinfer-cute-dsl, got none"),
    ),
    (
        "another backend's provider",
        {},
        replace(GEOMETRY, provider="fa3"),
        "`provider` of `FLASHINFER_ATTN`: wanted flashinfer-fa2, flashinfer-fa3, flashinfer-cute-dsl, got fa3",
    ),
    (
        "another device",
        {},
        replace(GEOMETRY, device="meta"),
        "`device` of `FLASHINFER_ATTN`: wanted cpu, got meta",
    ),
    (
        "float32",
        {},
        replace(GEOMETRY, dtype="float32"),
        "`dtype` of `FLASHINFER_ATTN`: wanted float16 or bfloat16, got float32",
    ),
    (
        "another head_dim",
        {},
        replace(GEOMETRY, head_dim=72),
        "`head_dim` of `FLASHINFER_ATTN`: wanted 64, 128, 256, got 72",
    ),
    (
        "heads that do not group",
        {},
        replace(GEOMETRY, num_kv_heads=3),
        "`num_heads` of `FLASHINFER_ATTN`: wanted a multiple of `num_kv_heads`, 3, got 4",
    ),
    (
        "another block",
        {"skip_softmax": {}},
        GEOMETRY,
        "`spec` of `FLASHINFER_ATTN`: wanted `quant`, got `skip_softmax`",
    ),
    (
        "no block",
        {"quant": "float16"},
        GEOMETRY,
        "`quant` of `FLASHINFER_ATTN`: wanted a mapping, got 'float16'",
    ),
    (
        "a field that is not read",
        {"quant": {"k_block_size": 16}},
        GEOMETRY,
        ("`quant` of `FLASHINFER_ATTN`: wanted `dtype_qk`, `dtype_vo`, `flashinfer_backend`, got `k_block_size`"),
    ),
    (
        "another backend's type",
        {"quant": {"dtype_qk": "int8"}},
        GEOMETRY,
        "`quant.dtype_qk` of `FLASHINFER_ATTN`: wanted float16, bfloat16, got 'int8'",
    ),
    (
        "no type",
        {"quant": {"dtype_vo": 8}},
        GEOMETRY,
        "`quant.dtype_vo` of `FLASHINFER_ATTN`: wanted float16, bfloat16, fp8_e4m3, got 8",
    ),
    (
        "another kernel than the provider's",
        {"quant": {"flashinfer_backend": "fa3"}},
        GEOMETRY,
        "`quant.flashinfer_backend` of `FLASHINFER_ATTN`: wanted auto or fa2, got 'fa3'",
    ),
    (
        "values of their own type",
        {"quant": {"dtype_vo": "fp8_e4m3"}},
        GEOMETRY,
        (
            "`quant` of `FLASHINFER_ATTN`: wanted one type, for provider `flashinfer-fa2` reads values as it reads "
            "keys, got `dtype_qk` float16 and `dtype_vo` float8_e4m3fn"
        ),
    ),
    (
        "queries and keys of their own type",
        {"quant": {"dtype_qk": "bfloat16"}},
        replace(GEOMETRY, provider="flashinfer-fa3"),
        (
            "`quant` of `FLASHINFER_ATTN`: wanted one type, for provider `flashinfer-fa3` reads values as it reads "
            "keys, got `dtype_qk` bfloat16 and `dtype_vo` float16"
        ),
    ),
]


def unasked(module: str) -> object:
    """An importer that must not be called."""
    raise AssertionError(module)


@pytest.mark.parametrize(
    ("spec", "geometry", "message"), [case[1:] for case in UNBOUND], ids=[case[0] for case in UNBOUND]
)
def test_binding_refused(spec: dict[str, object], geometry: Geometry, message: str) -> None:
    """Each is said before anything is imported."""
    backend = replace(flashinfer_backend(), importer=unasked)

    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        backend.bind(spec, geometry)


@pytest.mark.parametrize(
    "error",
    [
        ModuleNotFoundError("No module named 'flashinfer'"),
        OSError("libcudart.so.13: cannot open shared object file"),
        AssertionError("Torch not compiled with CUDA enabled"),
        RuntimeError("flashinfer-cubin version does not match"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_package_that_does_not_import(error: Exception) -> None:
    """Whatever it raises is the cause of the refusal."""

    def importer(_: str) -> object:
        raise error

    with pytest.raises(BindError) as raised:
        replace(flashinfer_backend(), importer=importer).bind({}, GEOMETRY)

    assert raised.value.__cause__ is error
    assert str(raised.value) == (
        "`FLASHINFER_ATTN`: wanted `flashinfer.prefill.single_prefill_with_kv_cache`, got "
        f"{type(error).__name__}: {error}"
    )


@pytest.mark.parametrize(
    ("provider", "symbol"),
    [
        ("flashinfer-fa2", "single_prefill_with_kv_cache"),
        ("flashinfer-fa3", "BatchPrefillWithRaggedKVCacheWrapper"),
        ("flashinfer-cute-dsl", "BatchPrefillWithRaggedKVCacheWrapper"),
    ],
)
def test_a_version_without_a_symbol(provider: str, symbol: str) -> None:
    """The symbol is named."""
    module = SimpleNamespace(**{name: value for name, value in vars(PREFILL).items() if name != symbol})

    with pytest.raises(
        BindError, match=f"^`FLASHINFER_ATTN`: wanted `flashinfer.prefill.{symbol}`, got AttributeError"
    ):
        flashinfer_backend(module).bind({}, replace(GEOMETRY, provider=provider))


def test_a_kernel_that_does_not_run() -> None:
    """A compilation that fails shows when the kernel is bound."""
    error = RuntimeError("Ninja build failed")

    def fails(*_: object, **__: object) -> None:
        raise error

    module = SimpleNamespace(**{**vars(PREFILL), "single_prefill_with_kv_cache": fails})
    with pytest.raises(BindError) as raised:
        flashinfer_backend(module).bind({}, GEOMETRY)

    assert raised.value.__cause__ is error
    assert str(raised.value).startswith("`FLASHINFER_ATTN`: wanted a kernel of FlashInfer for Geometry(head_dim=64, ")
    assert str(raised.value).endswith("got RuntimeError: Ninja build failed")


@pytest.mark.parametrize("factor", [1.5, 0.0, float("nan")])
def test_a_kernel_that_runs_and_is_wrong(factor: float) -> None:
    """An average of ones has to be one."""

    def wrong(*tensors: torch.Tensor, **options: object) -> object:
        out = single_prefill_with_kv_cache(*tensors, **options)  # type: ignore[arg-type]
        assert isinstance(out, torch.Tensor)
        return out * factor

    module = SimpleNamespace(**{**vars(PREFILL), "single_prefill_with_kv_cache": wrong})

    with pytest.raises(BindError, match="got RuntimeError: wanted an average of ones to be 1, got one that is off by"):
        flashinfer_backend(module).bind({}, GEOMETRY)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_real_package_refuses() -> None:
    """Whether it is installed or not."""
    with pytest.raises(BindError, match=r"^`FLASHINFER_ATTN`: wanted `flashinfer\.prefill\."):
        flashinfer.BACKEND.bind({}, replace(GEOMETRY, device="cuda"))
