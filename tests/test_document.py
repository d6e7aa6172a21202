"""The examples of the document that the product implements, each as a case."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from selector import AttentionConfig, AttentionSpec, AttnQuantSpec, ConfigError, SkipSoftmaxSpec
from selector.command import main
from selector.decision import Decision
from selector.ruleset import shipped
from selector.selecting import Selector

BACKENDS = [
    "TRTLLM_ATTN", "FLASH_ATTN", "CUDNN_ATTN", "FLASHINFER_ATTN", "TORCH_SDPA", "SAGE_ATTN", "SAGE_ATTN_3",
    "FLASH_ATTN_HUB", "FLASH_ATTN_3_HUB",
]  # fmt: skip
ENV = "DIFFUSION_ATTENTION_BACKEND"
FLASHINFER, FLASH_ATTN, FA4 = {"flashinfer": "0.6.18"}, {"flash-attn": "2.8.3"}, {"flash-attn-4": "4.0.0b18"}
SAGE, SAGE3, KERNELS = {"sageattention": "2.2.0"}, {"sageattn3": "1.0.0"}, {"kernels": "0.14.1"}
T2V, TI2V = "Wan-AI/Wan2.2-T2V-A14B-Diffusers", "Wan-AI/Wan2.2-TI2V-5B-Diffusers"
HUNYUAN, LTX = "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v", "Lightricks/LTX-2"


def gpu(arch: str, packages: Mapping[str, str] | None = None, cudnn: int | None = 91002) -> dict[str, object]:
    """Give the facts of a CUDA machine."""
    return {"platform": "cuda", "arch": arch, "cudnn": cudnn, "packages": dict(packages or {})}


DEFAULTING = "Defaulting to diffusion attention backend"
B200, B300, PRO6000 = (gpu(arch, FLASHINFER) for arch in ("sm_100", "sm_103", "sm_120"))
H100, L40, A100 = (gpu(arch, FLASH_ATTN) for arch in ("sm_90", "sm_89", "sm_80"))


def decide(facts: Mapping[str, object], request: Mapping[str, Any] | None = None, **given: Any) -> Decision:  # noqa: ANN401
    """Decide for a layer of a machine."""
    return Selector(facts=facts, **({"environment": {}} | given)).decide(**(request or {}))


def test_the_backends_are_those_of_the_document() -> None:
    """Nine names, no more."""
    assert set(shipped().backends) == set(BACKENDS)


# --- which machine gets what ---


@pytest.mark.parametrize(
    ("facts", "model", "line"),
    [
        (gpu("sm_120"), HUNYUAN, f"{DEFAULTING} CUDNN_ATTN (Blackwell sm_120, cuDNN 91002)"),
        (B200, T2V, f"{DEFAULTING} TRTLLM_ATTN (datacenter Blackwell sm_100, head_dim 128)"),
        (B300, TI2V, f"{DEFAULTING} TRTLLM_ATTN (datacenter Blackwell sm_103, head_dim 128)"),
        (B200, HUNYUAN, f"{DEFAULTING} CUDNN_ATTN (Blackwell sm_100, cuDNN 91002)"),
        (B200, "QwenImagePipeline", f"{DEFAULTING} CUDNN_ATTN (Blackwell sm_100, cuDNN 91002)"),
        (PRO6000, T2V, f"{DEFAULTING} CUDNN_ATTN (Blackwell sm_120, cuDNN 91002)"),
        (gpu("sm_121", FLASHINFER), T2V,
         f"{DEFAULTING} CUDNN_ATTN (Blackwell sm_121, cuDNN 91002)"),
        (gpu("sm_120", FLASHINFER, 90400), T2V,
         f"{DEFAULTING} FLASHINFER_ATTN (Blackwell sm_120, cuDNN 90400)"),
        (gpu("sm_120", FLASHINFER, None), T2V,
         f"{DEFAULTING} FLASHINFER_ATTN (Blackwell sm_120, cuDNN unavailable)"),
        (gpu("sm_120", FA4, None), T2V, f"{DEFAULTING} FLASH_ATTN"),
        (gpu("sm_120", None, None), T2V, f"{DEFAULTING} SDPA"),
        (H100, T2V, f"{DEFAULTING} FLASH_ATTN"),
        (L40, T2V, f"{DEFAULTING} FLASH_ATTN"),
        (A100, HUNYUAN, f"{DEFAULTING} FLASH_ATTN"),
        (gpu("sm_90"), T2V, f"{DEFAULTING} SDPA"),
        (gpu("sm_86", FLASHINFER), T2V, f"{DEFAULTING} SDPA"),
    ],
)  # fmt: skip
def test_the_line_that_confirms_the_route(facts: Mapping[str, object], model: str, line: str) -> None:
    """Blackwell in the document's order, then Hopper, Ada and Ampere."""
    decision = decide(facts, {"model": model})

    assert (decision.log, decision.warnings) == (line, ())


@pytest.mark.parametrize("backend", ["CUDNN_ATTN", "FLASHINFER_ATTN"])
@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90"])
def test_what_is_in_no_route_can_be_chosen(backend: str, arch: str) -> None:
    """By the environment, on a GPU before Blackwell."""
    decision = decide(gpu(arch, FLASHINFER), {"head_dim": 128}, environment={ENV: backend})

    assert (decision.backend, decision.origin) == (backend, "env")
    assert decision.log == f"Using diffusion attention backend '{backend}'"


def test_trtllm_stays_available_to_those_who_name_it() -> None:
    """It raises where a mask is received, and nowhere turns into something else."""
    masked = {"model": HUNYUAN, "call": {"mask": "key_padding", "dtype": "bfloat16"}}

    assert decide(B200, {"model": HUNYUAN}, backend="TRTLLM_ATTN").backend == "TRTLLM_ATTN"
    for facts, request in ((B200, masked), (PRO6000, {"model": T2V}), (gpu("sm_100"), {"model": T2V})):
        refused = decide(facts, request, backend="TRTLLM_ATTN")
        assert refused.error is not None
        assert refused.error.code == "refused"


# --- configuration ---

FLASH_THEN_SDPA = {"default": {"backend": "FLASH_ATTN"}, "per_role": {"cross": {"backend": "TORCH_SDPA"}}}
CONFIG = "--diffusion-attention-config"


@pytest.mark.parametrize(
    "flags",
    [
        [f"{CONFIG}.default.backend", "FLASH_ATTN", f"{CONFIG}.per_role.cross.backend", "TORCH_SDPA"],
        [CONFIG, json.dumps(FLASH_THEN_SDPA)],
        ["--diffusion-attention-backend", "FLASH_ATTN", f"{CONFIG}.per_role.cross.backend", "TORCH_SDPA"],
    ],
    ids=["dotted", "json", "shorthand"],
)
@pytest.mark.parametrize(("role", "backend"), [("self", "FLASH_ATTN"), ("cross", "TORCH_SDPA")])
def test_the_config_on_the_command_line(
    flags: list[str],
    role: str,
    backend: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In each of its forms it says the same."""
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(H100), encoding="utf-8")

    status = main(["explain", "--facts", str(facts), "--role", role, "--format", "json", *flags])

    assert status == 0
    assert json.loads(capsys.readouterr().out)["backend"] == backend


def test_the_config_in_a_program() -> None:
    """Typed, and as a plain mapping that becomes the same."""
    typed = AttentionConfig(
        default=AttentionSpec(backend="FLASH_ATTN"), per_role={"cross": AttentionSpec(backend="TORCH_SDPA")}
    )

    assert AttentionConfig.model_validate(FLASH_THEN_SDPA) == typed
    for config in (typed, FLASH_THEN_SDPA):
        assert decide(H100, {"role": "cross"}, config=config).backend == "TORCH_SDPA"
        assert decide(H100, {"role": "self"}, config=config).backend == "FLASH_ATTN"


def test_the_shorthand_excludes_what_it_stands_for() -> None:
    """But goes with entries per role."""
    with pytest.raises(ConfigError, match="mutually_exclusive"):
        decide(H100, config={"default": {"backend": "FLASH_ATTN"}}, backend="SAGE_ATTN")


@pytest.mark.parametrize(
    ("config", "source", "backend"),
    [
        ({"per_role": {"ltx2.audio_to_video": "SAGE_ATTN", "cross": "TORCH_SDPA"}, "default": "CUDNN_ATTN"},
         "role", "SAGE_ATTN"),
        ({"per_role": {"cross": "TORCH_SDPA"}, "default": "CUDNN_ATTN"}, "category", "TORCH_SDPA"),
        ({"per_role": {"self": "TORCH_SDPA"}, "default": "CUDNN_ATTN"}, "default", "CUDNN_ATTN"),
        ({"per_role": {"self": "TORCH_SDPA"}}, "platform", "FLASH_ATTN"),
    ],
)  # fmt: skip
def test_a_role_is_matched_in_order(config: Mapping[str, object], source: str, backend: str) -> None:
    """Its own entry, that of its category, the default, the platform."""
    facts = gpu("sm_90", FLASH_ATTN | SAGE)

    decision = decide(facts, {"role": "ltx2.audio_to_video", "head_dim": 64}, config=config)

    assert (decision.source, decision.backend) == (source, backend)


def test_the_layers_of_the_configuration() -> None:
    """Structured config before flag or environment, those before the platform."""
    facts = gpu("sm_90", FLASH_ATTN | SAGE)

    def told(**given: object) -> tuple[str | None, str | None]:
        decision = decide(facts, {"head_dim": 128}, **given)
        return decision.backend, decision.origin

    assert told(config={"default": "CUDNN_ATTN"}, environment={ENV: "SAGE_ATTN"}) == ("CUDNN_ATTN", "config")
    assert told(backend="SAGE_ATTN", environment={ENV: "CUDNN_ATTN"}) == ("SAGE_ATTN", "flag")
    assert told(environment={ENV: "SAGE_ATTN"}) == ("SAGE_ATTN", "env")
    assert told() == ("FLASH_ATTN", "platform")


# --- Skip-Softmax ---


@pytest.mark.parametrize(
    "block",
    [
        {"target_sparsity": 0.65, "disabled_until_timestep": 0.86},
        {"target_sparsity": 0.5},
        {"target_sparsity": 0.0},
        {"target_sparsity": 1.0},
        {"threshold": 0.0},
        {"threshold": 12.5},
        {"threshold": 1.0, "disabled_until_timestep": 0.0},
    ],
)
def test_skip_softmax(block: dict[str, float]) -> None:
    """The typed block and the plain one; it travels with the decision on datacenter Blackwell."""
    plain = {"default": {"backend": "TRTLLM_ATTN", "skip_softmax": block}}
    typed = AttentionConfig(default=AttentionSpec(backend="TRTLLM_ATTN", skip_softmax=SkipSoftmaxSpec(**block)))

    assert AttentionConfig.model_validate(plain) == typed
    for facts in (B200, B300):
        decision = decide(facts, {"model": T2V}, config=plain)
        assert decision.backend == "TRTLLM_ATTN"
        assert decision.spec == typed.default


@pytest.mark.parametrize(
    "block",
    [
        {"target_sparsity": -0.01},
        {"target_sparsity": 1.01},
        {"target_sparsity": float("nan")},
        {"threshold": -1.0},
        {"threshold": float("inf")},
        {"disabled_until_timestep": 1.5},
        {"disabled_until_timestep": float("-inf")},
        {"target_sparsity": 0.5, "threshold": 1.0},
    ],
)
def test_skip_softmax_outside_of_its_table(block: dict[str, float]) -> None:
    """The values are checked when the block is built."""
    with pytest.raises(ValidationError):
        SkipSoftmaxSpec(**block)


def test_skip_softmax_by_dotted_flags(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """As for every block."""
    facts = tmp_path / "facts.json"
    facts.write_text(json.dumps(B200), encoding="utf-8")
    flags = [f"{CONFIG}.default.backend", "TRTLLM_ATTN", f"{CONFIG}.default.skip_softmax.target_sparsity", "0.5"]

    status = main(["explain", "--facts", str(facts), "--model", T2V, "--format", "json", *flags])

    spec = json.loads(capsys.readouterr().out)["spec"]
    assert (status, spec) == (0, {"backend": "TRTLLM_ATTN", "skip_softmax": {"target_sparsity": 0.5}})


@pytest.mark.parametrize("backend", [name for name in BACKENDS if name != "TRTLLM_ATTN"])
def test_skip_softmax_elsewhere(backend: str) -> None:
    """No other backend has it."""
    with pytest.raises(ConfigError, match="does not read `skip_softmax`"):
        decide(B200, config={"default": {"backend": backend, "skip_softmax": {"threshold": 1.0}}})


def test_dense_is_the_absence_of_the_block() -> None:
    """Nothing else turns it off."""
    decision = decide(B200, {"model": T2V}, backend="TRTLLM_ATTN")

    assert decision.spec == AttentionSpec(backend="TRTLLM_ATTN")
    assert decision.facts["skip_softmax"] is False


# --- quantisation ---


def test_sage_quantisation() -> None:
    """The typed block and the plain one; block sizes have their defaults."""
    block = {"dtype_qk": "fp8_e4m3", "q_block_size": 1, "k_block_size": 16}
    plain = {"default": {"backend": "TRTLLM_ATTN", "quant": block}}
    typed = AttentionConfig(
        default=AttentionSpec(
            backend="TRTLLM_ATTN", quant=AttnQuantSpec(dtype_qk="fp8_e4m3", q_block_size=1, k_block_size=16)
        )
    )

    assert AttentionConfig.model_validate(plain) == typed
    assert AttnQuantSpec(dtype_qk="fp8_e4m3") == AttnQuantSpec(dtype_qk="fp8_e4m3", q_block_size=1, k_block_size=16)


@pytest.mark.parametrize(
    ("facts", "dtype", "good"),
    [
        (B200, "int8", True),
        (B200, "fp8_e4m3", True),
        (B300, "fp8_e4m3", True),
        (B300, "int8", False),
        (gpu("sm_100", {"flashinfer": "0.6.16rc1"}), "int8", True),
        (gpu("sm_100", {"flashinfer": "0.6.15"}), "int8", False),
        (gpu("sm_103", {"flashinfer": "0.6.15"}), "fp8_e4m3", False),
        (PRO6000, "int8", False),
    ],
)
def test_which_kernels_are_compiled(facts: Mapping[str, object], dtype: str, good: bool) -> None:
    """Both types on sm_100, one on sm_103, and a FlashInfer that has them."""
    config = {"default": {"backend": "TRTLLM_ATTN", "quant": {"dtype_qk": dtype}}}

    assert (decide(facts, {"model": T2V}, config=config).backend == "TRTLLM_ATTN") is good


@pytest.mark.parametrize(
    ("backend", "block"),
    [
        ("TRTLLM_ATTN", {"dtype_qk": "float16"}),
        ("TRTLLM_ATTN", {"dtype_vo": "fp8_e4m3"}),
        ("TRTLLM_ATTN", {"flashinfer_backend": "fa2"}),
        ("TRTLLM_ATTN", {"dtype_qk": "int8", "q_block_size": 2}),
        ("TRTLLM_ATTN", {"dtype_qk": "int8", "k_block_size": 8}),
        ("FLASHINFER_ATTN", {"dtype_qk": "int8"}),
        ("FLASHINFER_ATTN", {"dtype_qk": "fp8_e4m3"}),
        ("FLASHINFER_ATTN", {"dtype_qk": "float16", "q_block_size": 1}),
        ("CUDNN_ATTN", {"dtype_qk": "float16"}),
    ],
)
def test_each_backend_rejects_what_it_does_not_read(backend: str, block: dict[str, object]) -> None:
    """Values of the other's set, and fields of the other."""
    with pytest.raises(ValidationError):
        AttentionSpec(backend=backend, quant=AttnQuantSpec(**block))  # type: ignore[arg-type]


# --- limitations ---


@pytest.mark.parametrize(
    "role", ["ltx2.audio_self", "ltx2.audio_to_video", "ltx2.video_to_audio", "ltx2.audio_text_cross"]
)
def test_ltx_2_under_torch_compile(role: str) -> None:
    """Its audio layers never get cuDNN; the two that the document names as the way out run."""
    request = {"model": LTX, "role": role, "compile": True}

    assert decide(PRO6000, request).backend != "CUDNN_ATTN"
    assert decide(PRO6000, request | {"compile": False}).backend == "CUDNN_ATTN"
    named = decide(PRO6000, request, environment={ENV: "CUDNN_ATTN"})
    assert named.error is not None
    for backend in ("FLASHINFER_ATTN", "TORCH_SDPA"):
        assert decide(PRO6000, request, environment={ENV: backend}).backend == backend


@pytest.mark.parametrize(
    ("version", "backend"),
    [
        ("4.0.0b18", "FLASH_ATTN"),
        ("4.0.0b19", "FLASH_ATTN"),
        ("4.0.0", "FLASH_ATTN"),
        ("4.0.0b17", "TORCH_SDPA"),
        ("4.0.0b4", "TORCH_SDPA"),
    ],
)
def test_the_beta_that_compiles_on_blackwell(version: str, backend: str) -> None:
    """Earlier ones fail there, which is a warning."""
    facts = gpu("sm_120", {"flash-attn-4": version}, None)

    decision = decide(facts, {"model": T2V})

    assert decision.backend == backend
    assert bool(decision.warnings) is (backend == "TORCH_SDPA")


# --- packages of their own ---


def test_sage_attention() -> None:
    """Two and three, for the models of the examples; the third falls back where its kernel cannot run."""
    pro = gpu("sm_120", SAGE | SAGE3)
    gqa = {"head_dim": 128, "num_heads": 48, "num_kv_heads": 12}

    for model in (HUNYUAN, TI2V):
        assert decide(pro, {"model": model}, environment={ENV: "SAGE_ATTN"}).backend == "SAGE_ATTN"
        assert decide(pro, {"model": model}, environment={ENV: "SAGE_ATTN_3"}).backend == "SAGE_ATTN_3"
    assert decide(pro, gqa, environment={ENV: "SAGE_ATTN_3"}).backend == "TORCH_SDPA"
    assert decide(H100, {"head_dim": 128}, environment={ENV: "SAGE_ATTN_3"}).backend == "TORCH_SDPA"
    assert decide(pro, gqa, environment={ENV: "SAGE_ATTN"}).backend == "SAGE_ATTN"


@pytest.mark.parametrize(
    ("name", "facts", "backend"),
    [
        ("FLASH_ATTN_HUB", gpu("sm_90", KERNELS), "FLASH_ATTN_HUB"),
        ("FLASH_ATTN_3_HUB", gpu("sm_90", KERNELS), "FLASH_ATTN_3_HUB"),
        ("FLASH_ATTN_3_HUB", gpu("sm_80", KERNELS), "FLASH_ATTN_HUB"),
        ("FLASH_ATTN_3_HUB", gpu("sm_89", KERNELS), "FLASH_ATTN_HUB"),
        ("FLASH_ATTN_HUB", H100, "FLASH_ATTN"),
        ("FLASH_ATTN_3_HUB", H100, "FLASH_ATTN"),
    ],
)
def test_the_hub(name: str, facts: Mapping[str, object], backend: str) -> None:
    """Without its library the local build takes the place, on older GPUs the second version that of the third."""
    decision = decide(facts, {"head_dim": 128}, backend=name)

    assert decision.backend == backend
    assert decision.log == f"Using diffusion attention backend '{backend}'"
    assert bool(decision.warnings) is (backend != name)
