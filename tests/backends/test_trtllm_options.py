"""What `TRTLLM_ATTN` refuses to bind and to call, with the whole message."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest
import torch

from backends import masks, trtllm
from backends.calibration import Calibration, ComponentCurve, Curve
from backends.interface import BindError, CallRefused, Geometry
from tests.backends.cases import MASKS, Sizes
from tests.backends.fakes.flashinfer_binding import TRTLLM, bind_trtllm, trtllm_backend

if TYPE_CHECKING:
    from torch import Tensor

GEOMETRY = Geometry(128, 4, 4, "bfloat16", "cpu")
SIZES = Sizes(head_dim=128, dtype=torch.bfloat16)
CALIBRATION = Calibration((ComponentCurve("transformer", Curve(100.0, 2.0), ("blocks.0.attn1",)),))
LAYER = "transformer.blocks.1.attn1"


def skip(**fields: object) -> dict[str, object]:
    """A spec with the block of Skip-Softmax alone."""
    return {"skip_softmax": fields}


UNBOUND: list[tuple[str, dict[str, object], Geometry, str]] = [
    ("another device", {}, replace(GEOMETRY, device="meta"), "`device` of `TRTLLM_ATTN`: wanted cpu, got meta"),
    ("float16", {}, replace(GEOMETRY, dtype="float16"), "`dtype` of `TRTLLM_ATTN`: wanted bfloat16, got float16"),
    ("head_dim 64", {}, replace(GEOMETRY, head_dim=64), "`head_dim` of `TRTLLM_ATTN`: wanted 128, got 64"),
    ("a provider", {}, replace(GEOMETRY, provider="fa2"), "`provider` of `TRTLLM_ATTN`: wanted none, got fa2"),
    (
        "another key",
        {"sparsity": 0.5},
        GEOMETRY,
        "`spec` of `TRTLLM_ATTN`: wanted `quant`, `skip_softmax`, `calibration`, `layer`, got `sparsity`",
    ),
    (
        "another backend's field",
        {"quant": {"dtype_vo": "fp8_e4m3"}},
        GEOMETRY,
        "`quant` of `TRTLLM_ATTN`: wanted `dtype_qk`, `q_block_size`, `k_block_size`, got `dtype_vo`",
    ),
    (
        "another backend's type",
        {"quant": {"dtype_qk": "float16"}},
        GEOMETRY,
        "`quant.dtype_qk` of `TRTLLM_ATTN`: wanted int8, fp8_e4m3, got 'float16'",
    ),
    (
        "a block that is not compiled",
        {"quant": {"dtype_qk": "int8", "k_block_size": 8}},
        GEOMETRY,
        "`quant.k_block_size` of `TRTLLM_ATTN`: wanted 1, 4, 16, got 8",
    ),
    (
        "a block that is no number",
        {"quant": {"q_block_size": True}},
        GEOMETRY,
        "`quant.q_block_size` of `TRTLLM_ATTN`: wanted 1, 4, 16, got True",
    ),
    ("no block", {"skip_softmax": 0.5}, GEOMETRY, "`skip_softmax` of `TRTLLM_ATTN`: wanted a mapping, got 0.5"),
    (
        "a field of nobody",
        skip(first_dense_steps=3),
        GEOMETRY,
        (
            "`skip_softmax` of `TRTLLM_ATTN`: wanted `target_sparsity`, `threshold`, `disabled_until_timestep`, "
            "got `first_dense_steps`"
        ),
    ),
    (
        "both",
        skip(threshold=0.1, target_sparsity=0.5),
        GEOMETRY,
        "`skip_softmax` of `TRTLLM_ATTN`: wanted one of `target_sparsity` and `threshold`, got both",
    ),
    (
        "no calibration",
        skip(target_sparsity=0.5),
        GEOMETRY,
        (
            "`skip_softmax` of `TRTLLM_ATTN`: wanted a `calibration` of the checkpoint for `target_sparsity`, got "
            "none; `threshold` needs none"
        ),
    ),
    (
        "an empty calibration",
        skip(target_sparsity=0.5) | {"calibration": Calibration(()), "layer": LAYER},
        GEOMETRY,
        (
            "`skip_softmax` of `TRTLLM_ATTN`: wanted a `calibration` with a curve for `target_sparsity`, "
            "got an empty one; `threshold` needs none"
        ),
    ),
    (
        "another calibration",
        skip(target_sparsity=0.5) | {"calibration": {"a": 1}},
        GEOMETRY,
        "`calibration` of `TRTLLM_ATTN`: wanted a `backends.calibration.Calibration`, got {'a': 1}",
    ),
    (
        "no layer",
        skip(target_sparsity=0.5) | {"calibration": CALIBRATION},
        GEOMETRY,
        "`layer` of `TRTLLM_ATTN`: wanted the layer's name in the checkpoint, got None",
    ),
    *[
        (
            f"{field} of {value!r}",
            skip(**{field: value}),
            GEOMETRY,
            f"`skip_softmax.{field}` of `TRTLLM_ATTN`: wanted {bounds}, got {value!r}",
        )
        for field, bounds, values in (
            ("threshold", "a finite number of 0 or more", (-0.1, math.inf, math.nan, True, "0.5")),
            ("target_sparsity", "a number from 0 to 1", (-0.1, 1.1, math.nan, False)),
            ("disabled_until_timestep", "a number from 0 to 1", (-0.1, 1.1, math.inf, True)),
        )
        for value in values
    ],
]


def unasked(module: str) -> object:
    """An importer that must not be called."""
    raise AssertionError(module)


@pytest.mark.parametrize(
    ("spec", "geometry", "message"), [case[1:] for case in UNBOUND], ids=[case[0] for case in UNBOUND]
)
def test_binding_refused(spec: dict[str, object], geometry: Geometry, message: str) -> None:
    """Each is said before anything is imported."""
    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        replace(trtllm_backend(), importer=unasked).bind(spec, geometry)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"quant": {}, "skip_softmax": {}},
        {"quant": None, "skip_softmax": None, "calibration": None, "layer": None},
        skip(threshold=0),
        skip(threshold=2),
        skip(threshold=0.1, disabled_until_timestep=1),
        skip(threshold=0.1, disabled_until_timestep=None),
        skip(disabled_until_timestep=0.5),
        skip(target_sparsity=0.5) | {"calibration": CALIBRATION, "layer": LAYER},
        skip(target_sparsity=1) | {"calibration": CALIBRATION, "layer": "text_encoder.layer.0"},
        {"quant": {"dtype_qk": "int8"}} | skip(threshold=0.1),
    ],
)
def test_bound(spec: dict[str, object]) -> None:
    """What is in its range binds, and a calibration may be handed to every layer."""
    trtllm_backend().bind(spec, GEOMETRY)


@pytest.mark.parametrize(
    ("spec", "option"),
    [
        ({"quant": {"dtype_qk": "int8"}}, "sage_attn_sfs"),
        (skip(threshold=0.1), "skip_softmax_threshold_scale_factor"),
    ],
)
def test_a_version_that_lacks_what_is_wanted(spec: dict[str, object], option: str) -> None:
    """Told by its signature, when the kernel is bound."""

    def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        raise NotImplementedError

    message = f"`TRTLLM_ATTN`: wanted a FlashInfer whose kernel takes `{option}`, got one that does not"
    with pytest.raises(BindError, match=f"^{re.escape(message)}$"):
        trtllm_backend(SimpleNamespace(trtllm_ragged_attention_deepseek=attend)).bind(spec, GEOMETRY)


def test_a_version_without_the_kernel_or_the_quantiser() -> None:
    """The symbol is named, and the package's error is the cause."""
    with pytest.raises(BindError, match=r"^`TRTLLM_ATTN`: wanted `flashinfer\.prefill\.trtllm_ragged_att"):
        trtllm_backend(SimpleNamespace()).bind({}, GEOMETRY)
    module = SimpleNamespace(trtllm_ragged_attention_deepseek=TRTLLM.trtllm_ragged_attention_deepseek)
    with pytest.raises(BindError, match=r"wanted `flashinfer\.prefill\.trtllm_sage_attention_quantize`") as raised:
        trtllm_backend(module).bind({"quant": {"dtype_qk": "int8"}}, GEOMETRY)
    assert isinstance(raised.value.__cause__, AttributeError)


@pytest.mark.parametrize("spec", [{}, {"quant": {"dtype_qk": "int8"}}, skip(threshold=0.5)])
def test_a_kernel_that_is_missing(spec: dict[str, object]) -> None:
    """The device is asked with everything that is configured."""
    error = RuntimeError("Missing TRTLLM-GEN kernel ragged attention")

    def attend(
        *,
        query: Tensor,
        return_lse: bool,
        sage_attn_sfs: object = None,
        skip_softmax_threshold_scale_factor: float | None = None,
        skip_all_rows_active_check: bool = False,
        **options: object,
    ) -> Tensor:
        if spec and sage_attn_sfs is None and skip_softmax_threshold_scale_factor is None:
            return torch.ones(query.shape)
        raise error

    module = SimpleNamespace(**{**vars(TRTLLM), "trtllm_ragged_attention_deepseek": attend})

    with pytest.raises(BindError, match=r"^`TRTLLM_ATTN`: wanted a kernel of trtllm-gen for Geometry") as raised:
        trtllm_backend(module).bind(spec, GEOMETRY)

    assert raised.value.__cause__ is error


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_without_a_gpu_the_real_package_refuses() -> None:
    """Whether it is installed or not."""
    with pytest.raises(BindError, match=r"^`TRTLLM_ATTN`: wanted `flashinfer\.prefill\."):
        trtllm.BACKEND.bind({}, replace(GEOMETRY, device="cuda"))


KINDS = "none, all_keep, suffix_key_padding, block_diagonal"
NOTHING: dict[str, object] = {}
REFUSED: list[tuple[str, dict[str, object], dict[str, object], str]] = [
    *[
        (
            kind,
            NOTHING,
            dict[str, object](mask=MASKS[kind](SIZES)),
            f"mask `{name}`: wanted one that trtllm-gen takes ({KINDS}), got {name}",
        )
        for kind, name in (
            ("key padding", "key_padding"),
            ("key and query padding", "key_and_query_padding"),
            ("boolean", "boolean_per_query"),
            ("additive", "additive"),
        )
    ],
    (
        "causal with documents",
        {},
        {"mask": masks.block_diagonal([4, 5], [6, 7]), "causal": "bottom_right"},
        "`causal`: wanted none beside a mask `block_diagonal`, got `bottom_right`",
    ),
    (
        "top left",
        {},
        {"causal": "top_left"},
        "`causal`: wanted `bottom_right` for 9 queries and 13 keys, got `top_left`",
    ),
    (
        "causal and quantised",
        {"quant": {"dtype_qk": "int8"}},
        {"causal": "bottom_right"},
        "`causal`: wanted none with `quant`, got `bottom_right`",
    ),
    (
        "float16",
        {},
        {"q": torch.ones(2, 9, 4, 128, dtype=torch.float16)},
        "`q`: wanted bfloat16 on `cpu`, got float16 on `cpu`",
    ),
    (
        "a gradient",
        {},
        {"q": torch.ones(2, 9, 4, 128, dtype=torch.bfloat16, requires_grad=True)},
        (
            "`q`, `k`, `v`: wanted tensors without gradients, for this kernel has no backward pass, got one that "
            "requires them; call it under `torch.no_grad()`, or name TORCH_SDPA"
        ),
    ),
]


@pytest.mark.parametrize(
    ("spec", "change", "message"), [case[1:] for case in REFUSED], ids=[case[0] for case in REFUSED]
)
def test_calls_refused(spec: dict[str, object], change: dict[str, object], message: str) -> None:
    """Each argument that cannot be honoured is named with what was wanted and what was got."""
    q, k, v = SIZES.qkv()
    arguments: dict[str, object] = {"q": q, "k": k, "v": v} | change

    with pytest.raises(CallRefused, match=f"^{re.escape(message)}$"):
        bind_trtllm(SIZES, spec)(**arguments)  # type: ignore[arg-type]
