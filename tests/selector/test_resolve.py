"""Resolution: what each machine, request and config gets, the row that says so, and the words that go with it."""

from __future__ import annotations

import functools
import json
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from selector.configuring import choose
from selector.decision import Decision, Inputs
from selector.facts import Request, read_machine, read_request
from selector.resolve import resolve, without_packages
from selector.rules.vocabulary import Value
from selector.ruleset import RuleSet, load_rules, shipped
from selector.tracing import Walk
from tests.selector.conftest import (
    ALL,
    BACKENDS,
    CPU,
    FA2,
    FA3,
    FA4,
    FI,
    HUB,
    SAGE1,
    SAGE2,
    SAGE3,
    cuda,
    decide,
    overlay,
    without,
)

CONFORMANCE = Path(__file__).parents[1] / "conformance"
WAN = {"head_dim": 128, "mask_free": True}
MASKED = {"head_dim": 128, "mask_free": False}
DATACENTER = ["sm_100", "sm_103"]
WORKSTATION = ["sm_120", "sm_121"]
UNTESTED = ["sm_101", "sm_102", "sm_109", "sm_110", "sm_119", "sm_122", "sm_129"]
BLACKWELL = [*DATACENTER, *WORKSTATION]
ADA = ["sm_80", "sm_86", "sm_87", "sm_89"]
OLD = ["sm_50", "sm_61", "sm_70", "sm_75"]
LATER = ["sm_130", "sm_99", "sm_91"]
OTHERS = ["rocm", "xpu", "npu", "musa", "cpu"]
NEW, OLDER = 91002, 90499


def variant(arch: str) -> list[str]:
    """Give the warning that goes with every decision on a Blackwell that nobody has tested, where it is one."""
    if arch not in UNTESTED:
        return []
    return [f"{arch} is a variant of Blackwell that nobody has tested: it is treated like sm_100 and sm_120"]


# --- nothing is configured ---

Default = tuple[Mapping[str, object], Mapping[str, object], str, str, str | None]
SDPA = ("TORCH_SDPA", "torch-sdpa", None)
FLASH4 = ("FLASH_ATTN", "blackwell-flash-attn-4", None)
FLASH9 = ("FLASH_ATTN", "hopper-flash-attn", None)
FLASH8 = ("FLASH_ATTN", "ampere-ada-flash-attn", None)


def trtllm(arch: str) -> tuple[str, str, str]:
    """Give what the first row of the table answers."""
    return "TRTLLM_ATTN", "blackwell-datacenter-trtllm", f"(datacenter Blackwell {arch}, head_dim 128)"


def cudnn(arch: str, version: int = NEW) -> tuple[str, str, str]:
    """Give what the second row of the table answers."""
    return "CUDNN_ATTN", "blackwell-cudnn", f"(Blackwell {arch}, cuDNN {version})"


def flashinfer(arch: str, version: int | str = "unavailable") -> tuple[str, str, str]:
    """Give what the third row of the table answers."""
    return "FLASHINFER_ATTN", "blackwell-flashinfer", f"(Blackwell {arch}, cuDNN {version})"


DEFAULTS: list[Default] = [
    # The datacenter kernel: every need of it, and each alone not met.
    *[(cuda(arch, FI), WAN, *trtllm(arch)) for arch in DATACENTER],
    *[(cuda(arch, ALL), WAN | {"dtype": "bfloat16"}, *trtllm(arch)) for arch in DATACENTER],
    (cuda("sm_100", FI, cudnn=None), WAN, *trtllm("sm_100")),
    (cuda("sm_100", {"flashinfer": "0.1"}), WAN, *trtllm("sm_100")),
    *[(cuda(arch, FI), WAN, *cudnn(arch)) for arch in [*WORKSTATION, *UNTESTED]],
    (cuda("sm_100"), WAN, *cudnn("sm_100")),
    (cuda("sm_100", {"flashinfer": None}), WAN, *cudnn("sm_100")),
    (cuda("sm_100", {"flashinfer": "unknown"}), WAN, *cudnn("sm_100")),
    (cuda("sm_100", FI), WAN | {"head_dim": 64}, *cudnn("sm_100")),
    (cuda("sm_100", FI), {"mask_free": True}, *cudnn("sm_100")),
    (cuda("sm_100", FI), {"mask_free": True, "head_dim": "symbolic", "compile": False}, *cudnn("sm_100")),
    (cuda("sm_100", FI), MASKED, *cudnn("sm_100")),
    (cuda("sm_100", FI), {"head_dim": 128}, *cudnn("sm_100")),
    (cuda("sm_100", FI), {}, *cudnn("sm_100")),
    (cuda("sm_100", FI), WAN | {"dtype": "float16"}, *cudnn("sm_100")),
    (cuda("sm_100", FI), WAN | {"dtype": "float32"}, *SDPA),
    # cuDNN.
    *[(cuda(arch, ALL), MASKED, *cudnn(arch)) for arch in [*BLACKWELL, *UNTESTED]],
    *[(cuda("sm_120", FI, version), MASKED, *cudnn("sm_120", version)) for version in (90500, 90501, 91900, 100000)],
    *[(cuda("sm_120", {}, NEW), {"head_dim": size}, *cudnn("sm_120")) for size in (8, 64, 72, 80, 128, 248, 256)],
    *[(cuda("sm_120", ALL, NEW), {"head_dim": size}, *SDPA) for size in (1, 4, 257, 100, 264, 320, 512)],
    (cuda("sm_120"), {"head_dim": 128, "dtype": "float16"}, *cudnn("sm_120")),
    (cuda("sm_120"), {"head_dim": 128, "dtype": "bfloat16"}, *cudnn("sm_120")),
    (cuda("sm_120", ALL), {"head_dim": 128, "dtype": "float32"}, *SDPA),
    (cuda("sm_120", ALL), {"head_dim": 128, "dtype": "float64"}, *SDPA),
    # FlashInfer where cuDNN is older or absent.
    *[(cuda(arch, FI, None), MASKED, *flashinfer(arch)) for arch in [*BLACKWELL, *UNTESTED]],
    *[(cuda("sm_120", FI, version), MASKED, *flashinfer("sm_120", version)) for version in (OLDER, 8907, 1)],
    *[(cuda("sm_120", FI | FA4, None), {"head_dim": size}, *flashinfer("sm_120")) for size in (64, 128, 256)],
    *[(cuda("sm_120", FI | FA4, None), {"head_dim": size}, *FLASH4) for size in (8, 72, 96, 192)],
    (cuda("sm_120", FI | FA4, None), {}, *flashinfer("sm_120")),
    (cuda("sm_120", FI | FA4, None), {"head_dim": 64, "dtype": "float32"}, *SDPA),
    (without(cuda("sm_120", FI | FA4), "cudnn"), MASKED, *FLASH4),
    (cuda("sm_120", {"flashinfer": "unknown"} | FA4, None), MASKED, *FLASH4),
    # FlashAttention 4 on Blackwell.
    *[(cuda(arch, FA4, None), MASKED, *FLASH4) for arch in [*BLACKWELL, *UNTESTED]],
    *[(cuda("sm_120", {"flash-attn-4": version}, None), MASKED, *FLASH4)
      for version in ("4.0.0b18", "4.0.0b36", "4.0.0rc1", "4.0.0", "4.1")],
    (cuda("sm_120", FA4, None), {"head_dim": 72}, *FLASH4),
    (cuda("sm_120", FA4, None), {}, *FLASH4),
    (cuda("sm_120", FA4, None), {"head_dim": 320}, *SDPA),
    (cuda("sm_120", FA4, None), MASKED | {"dtype": "float32"}, *SDPA),
    *[(cuda(arch, FA2 | FA3 | SAGE2 | SAGE3 | HUB, None), MASKED, *SDPA) for arch in [*BLACKWELL, *UNTESTED]],
    *[(cuda(arch, None, None), MASKED, *SDPA) for arch in BLACKWELL],
    # Hopper, Ada, Ampere.
    *[(cuda("sm_90", build), MASKED, *FLASH9) for build in (FA2, FA3, FA4, {"flash-attn-4": "4.0.0b1"}, ALL)],
    *[(cuda("sm_90", FA2, cudnn), WAN, *FLASH9) for cudnn in (None, OLDER, NEW)],
    *[(cuda("sm_90", FA2), {"head_dim": size}, *FLASH9) for size in (8, 72, 256)],
    *[(cuda("sm_90", ALL), {"head_dim": size}, *SDPA) for size in (4, 257, 320)],
    (cuda("sm_90", FA2), {}, *FLASH9),
    (cuda("sm_90", FA2), {"head_dim": "symbolic", "compile": True}, *FLASH9),
    (cuda("sm_90", FA2), MASKED | {"dtype": "float32"}, *SDPA),
    (cuda("sm_90", FI | SAGE2 | HUB), MASKED, *SDPA),
    *[(cuda(arch, FA2), MASKED, *FLASH8) for arch in ADA],
    *[(cuda(arch, FA3 | FA4 | FI | SAGE2 | HUB), MASKED, *SDPA) for arch in ADA],
    (cuda("sm_89", FA2), {"head_dim": 320}, *SDPA),
    (cuda("sm_89", FA2), {"head_dim": 64, "dtype": "float64"}, *SDPA),
    (cuda("sm_89", {"flash-attn": "unknown"}), MASKED, *SDPA),
    # Everything else.
    *[(cuda(arch, ALL), WAN, *SDPA) for arch in [*OLD, *LATER]],
    (cuda(None, ALL), WAN, *SDPA),
    (without(cuda("sm_100", ALL), "arch"), WAN, *SDPA),
    *[({"platform": platform, "arch": None, "cudnn": NEW, "packages": ALL}, WAN, *SDPA) for platform in OTHERS],
    *[({"platform": platform, "arch": "sm_100", "cudnn": NEW, "packages": ALL}, WAN, *SDPA) for platform in OTHERS],
    ({"platform": "cuda"}, {}, *SDPA),
    ({"platform": "cpu"}, {}, *SDPA),
]  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "request_", "backend", "row", "log"),
    DEFAULTS,
    ids=[f"{facts.get('arch', facts['platform'])}-{case[3]}-{i}" for i, (facts, *case) in enumerate(DEFAULTS)],
)
def test_the_platform_default(
    facts: Mapping[str, object], request_: Mapping[str, object], backend: str, row: str, log: str | None
) -> None:
    """Backend, row and log line; nothing to be warned of but a variant of GPU that is untested."""
    decision = decide(facts, request_)

    name = "SDPA" if backend == "TORCH_SDPA" else backend
    assert (decision.backend, decision.rule) == (backend, f"platform_default/{row}")
    assert decision.log == f"Defaulting to diffusion attention backend {name}{f' {log}' if log else ''}"
    assert (decision.source, decision.origin, decision.error) == ("platform", "platform", None)
    assert list(decision.warnings) == variant(str(facts.get("arch")))


LTX = "head_dim is symbolic: CUDNN_ATTN cannot be traced by torch.compile with it, and whether the layer is compiled"
OLD_FA4 = "FLASH_ATTN would run here with a newer package (packages.flash-attn-4: wanted >=4.0.0b18, got {})"
SYMBOLIC = {"head_dim": "symbolic"}


@pytest.mark.parametrize(
    ("facts", "request_", "backend", "warnings"),
    [
        (cuda("sm_120", FI), SYMBOLIC, "CUDNN_ATTN", [f"{LTX} is not known"]),
        (cuda("sm_120", FI), SYMBOLIC | {"compile": False}, "CUDNN_ATTN", []),
        (cuda("sm_120", FI), SYMBOLIC | {"compile": True}, "TORCH_SDPA", []),
        (cuda("sm_120", FI | FA4), SYMBOLIC | {"compile": True}, "FLASH_ATTN", []),
        (cuda("sm_120", FI, None), SYMBOLIC | {"compile": True}, "FLASHINFER_ATTN", []),
        (cuda("sm_120", FI), {"compile": True}, "CUDNN_ATTN", []),
        (cuda("sm_120", FI), {"compile": True, "head_dim": 64}, "CUDNN_ATTN", []),
        (cuda("sm_120", {"flash-attn-4": "4.0.0b17"} | FA2, None), MASKED, "TORCH_SDPA", [OLD_FA4.format("4.0.0b17")]),
        pytest.param(cuda("sm_120", {"flash-attn-4": "4.0.0b17"}, None), MASKED, "TORCH_SDPA",
                     [OLD_FA4.format("4.0.0b17")]),
        (cuda("sm_100", {"flash-attn-4": "3.9"} | FA2, None), MASKED, "TORCH_SDPA", [OLD_FA4.format("3.9")]),
        (cuda("sm_110", {"flash-attn-4": "4.0.0b4"} | FA2, None), MASKED, "TORCH_SDPA",
         [*variant("sm_110"), OLD_FA4.format("4.0.0b4")]),
        (cuda("sm_120", {"flash-attn-4": "4.0.0b17"}, NEW), MASKED, "CUDNN_ATTN", []),
        (cuda("sm_120", {"flash-attn-4": "4.0.0b17"}, None), {"head_dim": 320}, "TORCH_SDPA", []),
        (cuda("sm_120", {"flash-attn-4": "4.0.0b17"}, None), {"head_dim": 64, "dtype": "float32"}, "TORCH_SDPA", []),
        (cuda("sm_90", {"flash-attn-4": "4.0.0b17"}, None), MASKED, "FLASH_ATTN", []),
        (cuda("sm_89", {"flash-attn-4": "4.0.0b17"}, None), MASKED, "TORCH_SDPA", []),
        (cuda("sm_120", {"flash-attn-4": None}, None), MASKED, "TORCH_SDPA", []),
        (cuda("sm_120", None, OLDER), MASKED, "TORCH_SDPA", []),
    ],
)  # fmt: skip
def test_warnings_of_a_default(
    facts: Mapping[str, object], request_: Mapping[str, object], backend: str, warnings: list[str]
) -> None:
    """A symbolic size under cuDNN, and a package that is too old where nothing else stood in the way."""
    decision = decide(facts, request_)

    assert decision.backend == backend
    assert list(decision.warnings) == warnings


# --- a backend is named ---

Explicit = tuple[str, Mapping[str, object], Mapping[str, object], str | None]
SIZED = {"head_dim": 128, "dtype": "bfloat16"}
EXPLICIT: list[Explicit] = [
    # Needs nothing.
    *[("TORCH_SDPA", cuda(arch, ALL), SIZED, "TORCH_SDPA") for arch in [*OLD, *ADA, "sm_90", *BLACKWELL]],
    *[("TORCH_SDPA", {"platform": platform}, {}, "TORCH_SDPA") for platform in ["cuda", *OTHERS]],
    ("TORCH_SDPA", CPU, {"head_dim": 1, "dtype": "float64", "num_heads": 7, "num_kv_heads": 5}, "TORCH_SDPA"),
    # cuDNN.
    *[("CUDNN_ATTN", cuda(arch, None, OLDER), SIZED, "CUDNN_ATTN") for arch in [*ADA, "sm_90", *LATER]],
    *[("CUDNN_ATTN", cuda(arch, None, NEW), SIZED, "CUDNN_ATTN") for arch in [*BLACKWELL, *UNTESTED]],
    *[("CUDNN_ATTN", cuda(arch, None, OLDER), SIZED, None) for arch in [*BLACKWELL, *UNTESTED]],
    *[("CUDNN_ATTN", cuda(arch), SIZED, None) for arch in OLD],
    *[("CUDNN_ATTN", cuda(arch, None, None), SIZED, None) for arch in ["sm_80", "sm_90", "sm_100"]],
    *[("CUDNN_ATTN", cuda("sm_90"), {"head_dim": size}, "CUDNN_ATTN") for size in (8, 72, 256)],
    *[("CUDNN_ATTN", cuda("sm_90"), {"head_dim": size}, None) for size in (4, 12, 257, 264)],
    ("CUDNN_ATTN", cuda("sm_90"), {}, "CUDNN_ATTN"),
    ("CUDNN_ATTN", cuda("sm_90"), {"dtype": "float16"}, "CUDNN_ATTN"),
    ("CUDNN_ATTN", cuda("sm_90"), {"dtype": "float32"}, None),
    ("CUDNN_ATTN", cuda(None), SIZED, None),
    ("CUDNN_ATTN", without(cuda("sm_90"), "arch"), SIZED, None),
    ("CUDNN_ATTN", cuda("sm_90"), SYMBOLIC | {"compile": True}, None),
    ("CUDNN_ATTN", cuda("sm_90"), SYMBOLIC | {"compile": False}, "CUDNN_ATTN"),
    *[("CUDNN_ATTN", {"platform": platform, "arch": "sm_90", "cudnn": NEW}, SIZED, None) for platform in OTHERS],
    # FlashInfer.
    *[("FLASHINFER_ATTN", cuda(arch, FI, None), SIZED, "FLASHINFER_ATTN")
      for arch in [*OLD, *ADA, "sm_90", *BLACKWELL]],
    *[("FLASHINFER_ATTN", cuda("sm_90", FI), {"head_dim": size}, "FLASHINFER_ATTN") for size in (64, 128, 256)],
    *[("FLASHINFER_ATTN", cuda("sm_90", FI), {"head_dim": size}, None) for size in (8, 96, 72, 192, 512)],
    ("FLASHINFER_ATTN", cuda("sm_90", FI), {}, "FLASHINFER_ATTN"),
    ("FLASHINFER_ATTN", cuda("sm_90", FI), {"dtype": "float32"}, None),
    ("FLASHINFER_ATTN", cuda("sm_90", FI), SYMBOLIC | {"compile": True}, "FLASHINFER_ATTN"),
    ("FLASHINFER_ATTN", cuda("sm_90", FA2), SIZED, None),
    ("FLASHINFER_ATTN", cuda("sm_90", {"flashinfer": "unknown"}), SIZED, None),
    ("FLASHINFER_ATTN", {"platform": "rocm", "arch": "gfx942", "packages": FI}, SIZED, None),
    # FlashAttention.
    *[("FLASH_ATTN", cuda("sm_90", build), SIZED, "FLASH_ATTN")
      for build in (FA2, FA3, FA4, {"flash-attn-4": "4.0.0b1"})],
    *[("FLASH_ATTN", cuda(arch, FA2), SIZED, "FLASH_ATTN") for arch in ADA],
    *[("FLASH_ATTN", cuda(arch, FA3 | FA4), SIZED, "TORCH_SDPA") for arch in ADA],
    *[("FLASH_ATTN", cuda(arch, FA4), SIZED, "FLASH_ATTN") for arch in BLACKWELL],
    *[("FLASH_ATTN", cuda(arch, FA3), SIZED, "TORCH_SDPA") for arch in BLACKWELL],
    *[("FLASH_ATTN", cuda(arch, {"flash-attn-4": "4.0.0b17"}), SIZED, "TORCH_SDPA") for arch in BLACKWELL],
    *[("FLASH_ATTN", cuda(arch, ALL), SIZED, "TORCH_SDPA") for arch in [*OLD, *LATER]],
    ("FLASH_ATTN", cuda("sm_90"), SIZED, "TORCH_SDPA"),
    ("FLASH_ATTN", cuda("sm_90", FA2), {"head_dim": 320}, "TORCH_SDPA"),
    ("FLASH_ATTN", cuda("sm_90", FA2), {"head_dim": 12}, "TORCH_SDPA"),
    ("FLASH_ATTN", cuda("sm_90", FA2), {"dtype": "float32"}, "TORCH_SDPA"),
    ("FLASH_ATTN", cuda("sm_90", FA2), {}, "FLASH_ATTN"),
    *[("FLASH_ATTN", {"platform": platform, "arch": "sm_90", "packages": ALL}, SIZED, "TORCH_SDPA")
      for platform in OTHERS],
    # Sage.
    *[("SAGE_ATTN", cuda(arch, SAGE2), SIZED, "SAGE_ATTN")
      for arch in ("sm_80", "sm_86", "sm_89", "sm_90", "sm_120", "sm_121")],
    *[("SAGE_ATTN", cuda(arch, ALL), SIZED, None) for arch in [*OLD, "sm_87", *DATACENTER, *UNTESTED, *LATER]],
    *[("SAGE_ATTN", cuda("sm_90", SAGE2), {"head_dim": size}, "SAGE_ATTN") for size in (1, 64, 72, 128)],
    *[("SAGE_ATTN", cuda("sm_90", SAGE2), {"head_dim": size}, None) for size in (129, 136, 256)],
    ("SAGE_ATTN", cuda("sm_90", SAGE1), SIZED, "SAGE_ATTN"),
    ("SAGE_ATTN", cuda("sm_90", SAGE2), {"dtype": "float32"}, None),
    ("SAGE_ATTN", cuda("sm_90", SAGE3), SIZED, None),
    ("SAGE_ATTN", {"platform": "rocm", "arch": "gfx942", "packages": ALL}, SIZED, None),
    *[("SAGE_ATTN_3", cuda(arch, SAGE3), SIZED, "SAGE_ATTN_3") for arch in WORKSTATION],
    *[("SAGE_ATTN_3", cuda(arch, ALL), SIZED, "TORCH_SDPA")
      for arch in [*OLD, *ADA, "sm_90", *DATACENTER, *UNTESTED, *LATER]],
    *[("SAGE_ATTN_3", cuda("sm_120", SAGE3), {"head_dim": size}, "SAGE_ATTN_3") for size in (64, 128)],
    *[("SAGE_ATTN_3", cuda("sm_120", SAGE3), {"head_dim": size}, "TORCH_SDPA") for size in (32, 96, 256)],
    ("SAGE_ATTN_3", cuda("sm_120", SAGE3), {"num_heads": 32, "num_kv_heads": 32}, "SAGE_ATTN_3"),
    ("SAGE_ATTN_3", cuda("sm_120", SAGE3), {"num_heads": 32, "num_kv_heads": 8}, "TORCH_SDPA"),
    ("SAGE_ATTN_3", cuda("sm_120", SAGE3), {"num_heads": 32}, "SAGE_ATTN_3"),
    ("SAGE_ATTN_3", cuda("sm_120", SAGE3), {"dtype": "float32"}, "TORCH_SDPA"),
    ("SAGE_ATTN_3", cuda("sm_120", SAGE2), SIZED, "TORCH_SDPA"),
    # The hub.
    *[("FLASH_ATTN_HUB", cuda(arch, HUB), SIZED, "FLASH_ATTN_HUB") for arch in [*ADA, "sm_90", *BLACKWELL, *LATER]],
    *[("FLASH_ATTN_HUB", cuda(arch, FA2), SIZED, "FLASH_ATTN") for arch in [*ADA, "sm_90"]],
    *[("FLASH_ATTN_HUB", cuda(arch, None), SIZED, "TORCH_SDPA") for arch in ["sm_90", "sm_120"]],
    ("FLASH_ATTN_HUB", cuda("sm_75", HUB | FA2), SIZED, "TORCH_SDPA"),
    ("FLASH_ATTN_HUB", cuda("sm_90", HUB | FA2), {"head_dim": 320}, "TORCH_SDPA"),
    ("FLASH_ATTN_HUB", cuda("sm_90", HUB | FA2), {"dtype": "float32"}, "TORCH_SDPA"),
    ("FLASH_ATTN_HUB", cuda("sm_90", {"kernels": "unknown"} | FA2), SIZED, "FLASH_ATTN"),
    ("FLASH_ATTN_HUB", {"platform": "rocm", "arch": "gfx942", "packages": ALL}, SIZED, "TORCH_SDPA"),
    ("FLASH_ATTN_3_HUB", cuda("sm_90", HUB), SIZED, "FLASH_ATTN_3_HUB"),
    *[("FLASH_ATTN_3_HUB", cuda(arch, HUB), SIZED, "FLASH_ATTN_HUB") for arch in [*ADA, *BLACKWELL, "sm_91"]],
    ("FLASH_ATTN_3_HUB", cuda("sm_90", FA3), SIZED, "FLASH_ATTN"),
    ("FLASH_ATTN_3_HUB", cuda("sm_80", FA2), SIZED, "FLASH_ATTN"),
    ("FLASH_ATTN_3_HUB", cuda("sm_80", None), SIZED, "TORCH_SDPA"),
    ("FLASH_ATTN_3_HUB", cuda("sm_90", HUB), {"head_dim": 320}, "TORCH_SDPA"),
    ("FLASH_ATTN_3_HUB", cuda("sm_90", HUB), {"dtype": "float64"}, "TORCH_SDPA"),
    ("FLASH_ATTN_3_HUB", cuda("sm_75", HUB), SIZED, "TORCH_SDPA"),
    ("FLASH_ATTN_3_HUB", CPU, SIZED, "TORCH_SDPA"),
    # trtllm-gen.
    *[("TRTLLM_ATTN", cuda(arch, FI, None), SIZED, "TRTLLM_ATTN") for arch in DATACENTER],
    *[("TRTLLM_ATTN", cuda(arch, ALL), SIZED, None) for arch in [*OLD, *ADA, "sm_90", *WORKSTATION, *UNTESTED, *LATER]],
    ("TRTLLM_ATTN", cuda("sm_100", FI), MASKED, "TRTLLM_ATTN"),
    ("TRTLLM_ATTN", cuda("sm_100", FI), {}, "TRTLLM_ATTN"),
    ("TRTLLM_ATTN", cuda("sm_100", FI), {"head_dim": 64}, None),
    ("TRTLLM_ATTN", cuda("sm_100", FI), {"dtype": "float16"}, None),
    ("TRTLLM_ATTN", cuda("sm_100", None), SIZED, None),
    ("TRTLLM_ATTN", {"platform": "cpu", "arch": "sm_100", "packages": FI}, SIZED, None),
]  # fmt: skip
EXPLICIT_IDS = [f"{name}-{facts.get('arch', facts['platform'])}-{i}" for i, (name, facts, *_) in enumerate(EXPLICIT)]


@pytest.mark.parametrize(("name", "facts", "request_", "backend"), EXPLICIT, ids=EXPLICIT_IDS)
def test_a_named_backend(
    name: str, facts: Mapping[str, object], request_: Mapping[str, object], backend: str | None
) -> None:
    """It runs, another takes its place with a warning, or it is refused; whichever way it was named."""
    flag = decide(facts, request_, backend=name.lower())
    config = decide(facts, request_, config={"default": name})
    role = decide(facts, request_, config={"per_role": {"self": {"backend": name}}})
    env = decide(facts, request_, env={"DIFFUSION_ATTENTION_BACKEND": name})

    assert {decision.backend for decision in (flag, config, role, env)} == {backend}
    assert [(decision.source, decision.origin) for decision in (flag, config, role, env)] == [
        ("default", "flag"), ("default", "config"), ("role", "config"), ("default", "env"),
    ]  # fmt: skip
    if backend is None:
        assert flag.error is not None
        assert flag.error.code == "refused"
        assert flag.error.message.startswith(f"{name} cannot run here (")
        assert (flag.rule, flag.log) == (None, None)
    else:
        assert flag.rule == "explicit/able"
        assert flag.log == f"Using diffusion attention backend '{backend}'"
        assert backend == name or flag.warnings


@pytest.mark.parametrize(("name", "facts", "request_", "backend"), EXPLICIT, ids=EXPLICIT_IDS)
def test_a_named_backend_under_the_strict_policy(
    name: str, facts: Mapping[str, object], request_: Mapping[str, object], backend: str | None
) -> None:
    """What runs under `fallback` without a substitute runs, and everything else is refused."""
    decision = decide(facts, request_, backend=name, policy="strict")

    assert decision.backend == (name if backend == name else None)
    assert decision.policy == "strict"
    if backend != name:
        assert decision.error is not None
        assert decision.error.code == "refused"
        assert name in decision.error.message


NEVER_VERIFIED = (
    "FLASH_ATTN runs FlashAttention 2 2.8.3 in place of FlashAttention 4 (wanted flash-attn-4 >=4.0.0b18, got {}): "
    "on {} it is unverified and needs a build with Blackwell targets"
)
HUB_UNVERIFIED = "FLASH_ATTN_HUB is unverified on {}: the hub's FlashAttention 2 builds may hold no code for it"
NO_KERNELS = "{} needs the kernels package (none), so the local FLASH_ATTN takes its place"
NOT_LOOKED_FOR = "cuDNN was not looked for: CUDNN_ATTN needs it (on Blackwell 9.5 or newer)"
TO_HUB = "FLASH_ATTN_3_HUB holds kernels for Hopper alone (this is {}), so FLASH_ATTN_HUB takes its place"
TO_FLASH = "FLASH_ATTN_HUB needs a CUDA GPU of sm_80 or newer (this is {}), so FLASH_ATTN takes its place"


@pytest.mark.parametrize(
    ("name", "facts", "request_", "backend", "warnings"),
    [
        ("FLASH_ATTN", cuda("sm_120", FA2), SIZED, "FLASH_ATTN", [NEVER_VERIFIED.format("none", "sm_120")]),
        ("FLASH_ATTN", cuda("sm_100", FA2 | {"flash-attn-4": "4.0.0b4"}), SIZED, "FLASH_ATTN",
         [NEVER_VERIFIED.format("4.0.0b4", "sm_100")]),
        ("FLASH_ATTN", cuda("sm_100", FA2 | {"flash-attn-4": "unknown"}), SIZED, "FLASH_ATTN",
         [NEVER_VERIFIED.format("unknown", "sm_100")]),
        ("FLASH_ATTN", cuda("sm_100", FA2 | FA4), SIZED, "FLASH_ATTN", []),
        ("FLASH_ATTN", cuda("sm_110", FA4), SIZED, "FLASH_ATTN", variant("sm_110")),
        ("FLASH_ATTN_HUB", cuda("sm_120", HUB), SIZED, "FLASH_ATTN_HUB", [HUB_UNVERIFIED.format("sm_120")]),
        ("FLASH_ATTN_HUB", cuda("sm_90", HUB), SIZED, "FLASH_ATTN_HUB", []),
        ("FLASH_ATTN_HUB", cuda("sm_130", HUB), SIZED, "FLASH_ATTN_HUB", []),
        ("FLASH_ATTN_HUB", cuda("sm_90", FA2), SIZED, "FLASH_ATTN", [NO_KERNELS.format("FLASH_ATTN_HUB")]),
        ("FLASH_ATTN_HUB", cuda("sm_120", FA2), SIZED, "FLASH_ATTN",
         [NO_KERNELS.format("FLASH_ATTN_HUB"), NEVER_VERIFIED.format("none", "sm_120")]),
        ("FLASH_ATTN_3_HUB", cuda("sm_90", FA2), SIZED, "FLASH_ATTN", [NO_KERNELS.format("FLASH_ATTN_3_HUB")]),
        ("FLASH_ATTN_3_HUB", cuda("sm_80", HUB), SIZED, "FLASH_ATTN_HUB", [TO_HUB.format("cuda sm_80")]),
        ("FLASH_ATTN_3_HUB", cuda("sm_100", HUB), SIZED, "FLASH_ATTN_HUB",
         [TO_HUB.format("cuda sm_100"), HUB_UNVERIFIED.format("sm_100")]),
        ("FLASH_ATTN_3_HUB", cuda("sm_75", HUB), SIZED, "TORCH_SDPA",
         [TO_HUB.format("cuda sm_75"), TO_FLASH.format("cuda sm_75"), "FLASH_ATTN cannot run here"]),
        ("FLASH_ATTN_3_HUB", {"platform": "cpu", "arch": None, "packages": HUB}, SIZED, "TORCH_SDPA",
         [TO_HUB.format("cpu no GPU"), TO_FLASH.format("cpu no GPU"), "FLASH_ATTN cannot run here"]),
        ("CUDNN_ATTN", without(cuda("sm_90"), "cudnn"), SIZED, "CUDNN_ATTN", [NOT_LOOKED_FOR]),
        ("CUDNN_ATTN", without(cuda("sm_100"), "cudnn"), SIZED, "CUDNN_ATTN", [NOT_LOOKED_FOR]),
        ("CUDNN_ATTN", cuda("sm_90"), SYMBOLIC, "CUDNN_ATTN", [f"{LTX} is not known"]),
        ("CUDNN_ATTN", cuda("sm_110"), SIZED, "CUDNN_ATTN", variant("sm_110")),
        ("TORCH_SDPA", cuda("sm_129"), SIZED, "TORCH_SDPA", variant("sm_129")),
        ("SAGE_ATTN", cuda("sm_120", SAGE2), SIZED, "SAGE_ATTN", []),
        ("SAGE_ATTN_3", cuda("sm_100", SAGE3), SIZED, "TORCH_SDPA",
         ["SAGE_ATTN_3 cannot run here, so TORCH_SDPA takes its place"]),
        ("FLASH_ATTN", cuda("sm_90", FA2), {"head_dim": 320}, "TORCH_SDPA",
         ["FLASH_ATTN cannot run here, so TORCH_SDPA takes its place"]),
    ],
)  # fmt: skip
def test_warnings_of_a_named_backend(
    name: str, facts: Mapping[str, object], request_: Mapping[str, object], backend: str, warnings: Sequence[str]
) -> None:
    """One for each substitution on the way and for what is unverified of the backend that runs, in that order."""
    decision = decide(facts, request_, backend=name)

    assert decision.backend == backend
    assert len(decision.warnings) == len(warnings)
    assert all(told.startswith(begin) for told, begin in zip(decision.warnings, warnings, strict=True))


MANY_KEYS = "SAGE_ATTN on sm_120 was seen to give noise above some 160,000 keys, and this call has 200000"


def test_a_length_that_is_unverified_is_a_warning() -> None:
    """Where the layer says it."""
    decision = decide(cuda("sm_120", SAGE2), SIZED | {"seq_len_kv": 200_000}, backend="SAGE_ATTN")

    assert decision.warnings == (MANY_KEYS,)
    assert not decide(cuda("sm_90", SAGE2), SIZED | {"seq_len_kv": 200_000}, backend="SAGE_ATTN").warnings
    assert not decide(cuda("sm_120", SAGE2), SIZED | {"seq_len_kv": 160_000}, backend="SAGE_ATTN").warnings


def test_a_call_whose_length_is_unverified_is_a_warning() -> None:
    """A call says it of itself."""
    call = {"mask": "none", "dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 200_000}

    assert decide(cuda("sm_120", SAGE2), SIZED | {"call": call}, backend="SAGE_ATTN").warnings == (MANY_KEYS,)


@pytest.mark.parametrize(
    ("name", "facts", "request_", "needs"),
    [
        ("CUDNN_ATTN", cuda("sm_120", None, 90400), {"head_dim": 300},
         ["head_dim: wanted a multiple of 8, got 300", "head_dim: wanted at most 256, got 300",
          "cudnn: wanted >=9.5, got 90400"]),
        ("CUDNN_ATTN", cuda("sm_90", None, None), {}, ["cudnn: wanted present, got null"]),
        ("CUDNN_ATTN", CPU, {}, ["platform: wanted cuda, got cpu"]),
        ("TRTLLM_ATTN", cuda("sm_100"), {"head_dim": 64, "dtype": "float16"},
         ["packages.flashinfer: wanted present, got null", "head_dim: wanted 128, got 64",
          "dtype: wanted bfloat16, got float16"]),
        ("SAGE_ATTN", cuda("sm_100", SAGE2), {},
         ["arch: wanted one of sm_80, sm_86, sm_89, sm_90, sm_120, sm_121, got sm_100"]),
        ("FLASHINFER_ATTN", cuda("sm_90", {"flashinfer": "unknown"}), {},
         ["packages.flashinfer: wanted present, got unknown"]),
    ],
)  # fmt: skip
def test_a_refusal_names_each_need_that_is_not_met(
    name: str, facts: Mapping[str, object], request_: Mapping[str, object], needs: Sequence[str]
) -> None:
    """What was wanted and what is, for every one of them."""
    decision = decide(facts, request_, backend=name)

    assert decision.error is not None
    assert decision.error.message.startswith(f"{name} cannot run here (")
    assert all(need in decision.error.message for need in needs)


def test_a_gpu_without_its_builds_is_not_asked_for_another_architecture() -> None:
    """On Hopper the packages are named that would serve there, and no architecture."""
    (warning,) = decide(cuda("sm_90"), SIZED, backend="FLASH_ATTN").warnings

    assert "packages.flash-attn-3: wanted present, got null" in warning
    assert "arch: wanted" not in warning


NO_HUB = "packages.kernels: wanted present, got null"
NO_WORKSTATION = "arch: wanted blackwell_workstation (sm_120, sm_121), got sm_100"
STRICT, NOT_TAKEN = "the policy is strict, so", "does not take its place"


@pytest.mark.parametrize(
    ("name", "facts", "message"),
    [
        ("FLASH_ATTN", cuda("sm_120", FA2),
         "FlashAttention 2 would stand in for FlashAttention 4 on sm_120, and the policy is strict"),
        ("FLASH_ATTN_HUB", cuda("sm_90", FA2),
         f"FLASH_ATTN_HUB cannot run here ({NO_HUB}); {STRICT} FLASH_ATTN {NOT_TAKEN}"),
        ("SAGE_ATTN_3", cuda("sm_100", SAGE3),
         f"SAGE_ATTN_3 cannot run here ({NO_WORKSTATION}); {STRICT} TORCH_SDPA {NOT_TAKEN}"),
    ],
)  # fmt: skip
def test_what_the_strict_policy_says(name: str, facts: Mapping[str, object], message: str) -> None:
    """It says what would have taken the place."""
    decision = decide(facts, SIZED, backend=name, policy="strict")

    assert decision.error is not None
    assert decision.error.message == message


def test_the_strict_policy_lets_defaults_be() -> None:
    """A default is nobody's choice, so nothing is substituted."""
    assert decide(cuda("sm_90"), SIZED, policy="strict").backend == "TORCH_SDPA"
    assert decide(cuda("sm_120", FA2, None), SIZED, policy="strict").backend == "TORCH_SDPA"


# --- quantisation and Skip-Softmax ---

QUANT = [
    ("TRTLLM_ATTN", cuda("sm_100", FI), {"dtype_qk": "int8"}, True),
    ("TRTLLM_ATTN", cuda("sm_103", FI), {"dtype_qk": "int8"}, False),
    ("TRTLLM_ATTN", cuda("sm_100", FI), {"dtype_qk": "fp8_e4m3"}, True),
    ("TRTLLM_ATTN", cuda("sm_103", FI), {"dtype_qk": "fp8_e4m3"}, True),
    ("TRTLLM_ATTN", cuda("sm_103", FI), {"q_block_size": 4}, True),
    ("TRTLLM_ATTN", cuda("sm_103", {"flashinfer": "0.6.15"}), {"q_block_size": 4}, True),
    ("TRTLLM_ATTN", cuda("sm_103", {"flashinfer": "0.6.15"}), {}, True),
    *[
        ("TRTLLM_ATTN", cuda("sm_103", {"flashinfer": version}), {"dtype_qk": "fp8_e4m3"}, good)
        for version, good in (
            ("0.6.16rc1", True), ("0.6.16rc2", True), ("0.6.16", True), ("0.7", True),
            ("0.6.16rc0", False), ("0.6.16b1", False), ("0.6.16.dev1", False), ("0.6.15.post1", False), ("0.6", False),
        )
    ],
    ("FLASHINFER_ATTN", cuda("sm_90", FI), {"dtype_qk": "float16", "dtype_vo": "fp8_e4m3"}, True),
    ("FLASHINFER_ATTN", cuda("sm_90", {"flashinfer": "0.1"}), {"dtype_qk": "bfloat16"}, True),
    ("FLASHINFER_ATTN", cuda("sm_90", FI), {"flashinfer_backend": "fa3"}, True),
]  # fmt: skip


@pytest.mark.parametrize(("name", "facts", "block", "good"), QUANT)
def test_quantised_attention(name: str, facts: Mapping[str, object], block: Mapping[str, object], good: bool) -> None:
    """int8 needs sm_100, and both types a FlashInfer that has the kernels; block sizes alone ask for nothing."""
    decision = decide(facts, SIZED, config={"default": {"backend": name, "quant": block}})

    assert decision.backend == (name if good else None)
    assert decision.error is None if good else decision.error is not None and decision.error.code == "refused"


def test_skip_softmax_runs_where_its_kernel_does() -> None:
    """The block travels with the decision."""
    config = {"default": {"backend": "TRTLLM_ATTN", "skip_softmax": {"target_sparsity": 0.65}}}

    decision = decide(cuda("sm_103", FI), SIZED, config=config)

    assert decision.spec is not None
    assert decision.spec.blocks() == {"skip_softmax": {"target_sparsity": 0.65}}
    assert decision.facts["skip_softmax"] is True
    assert decide(cuda("sm_120", FI), SIZED, config=config).backend is None


def test_a_substitute_drops_the_blocks_it_does_not_read_with_a_warning(tmp_path: Path) -> None:
    """With rules that let another backend stand in for TRTLLM_ATTN, which the shipped ones never do."""
    edit = ("when: {backend: [FLASH_ATTN, ", "when: {backend: [TRTLLM_ATTN, FLASH_ATTN, ")
    rules = load_rules([overlay(tmp_path / "o", {"explicit.yaml": [edit]})])
    blocks = {"skip_softmax": {"threshold": 1.0}, "quant": {"dtype_qk": "int8"}}

    decision = decide(cuda("sm_90"), SIZED, config={"default": {"backend": "TRTLLM_ATTN"} | blocks}, rules=rules)

    assert decision.backend == "TORCH_SDPA"
    assert decision.warnings[1:] == (
        "TORCH_SDPA does not read skip_softmax, quant, which the config gives to TRTLLM_ATTN",
    )
    assert decision.spec is not None
    assert (decision.spec.backend, decision.spec.blocks()) == ("TORCH_SDPA", {})
    assert (decision.facts["skip_softmax"], decision.facts["quant.dtype_qk"]) == (False, None)
    plain = decide(cuda("sm_90"), SIZED, backend="TRTLLM_ATTN", rules=rules)
    assert len(plain.warnings) == 1


# --- which entry speaks ---

ROLES = {"default": "TORCH_SDPA", "per_role": {"ltx2.audio_to_video": "SAGE_ATTN", "cross": "FLASH_ATTN"}}


@pytest.mark.parametrize(
    ("config", "request_", "source", "backend"),
    [
        (ROLES, {"role": "ltx2.audio_to_video"}, "role", "SAGE_ATTN"),
        (ROLES, {"role": "ltx2.video_to_audio"}, "category", "FLASH_ATTN"),
        (ROLES, {"role": "ltx2.audio_text_cross"}, "category", "FLASH_ATTN"),
        (ROLES, {"role": "cross"}, "role", "FLASH_ATTN"),
        (ROLES, {"role": "ltx2.audio_self"}, "default", "TORCH_SDPA"),
        (ROLES, {"role": "self"}, "default", "TORCH_SDPA"),
        (ROLES, {}, "default", "TORCH_SDPA"),
        (ROLES, {"role": "nobody.knows"}, "default", "TORCH_SDPA"),
        (ROLES, {"role": "nobody.knows", "role_category": "cross"}, "category", "FLASH_ATTN"),
        (ROLES, {"role": "ltx2.video_to_audio", "role_category": "self"}, "default", "TORCH_SDPA"),
        ({"per_role": {"cross": "FLASH_ATTN"}}, {"role": "self"}, "platform", "FLASH_ATTN"),
        ({"per_role": {"cross": "auto"}}, {"role": "cross"}, "platform", "FLASH_ATTN"),
        ({"default": "SAGE_ATTN", "per_role": {"cross": "auto"}}, {"role": "cross"}, "default", "SAGE_ATTN"),
        ({"per_role": {"ltx2": {"audio_to_video": "auto"}, "cross": "SAGE_ATTN"}}, {"role": "ltx2.audio_to_video"},
         "category", "SAGE_ATTN"),
        ({"per_role": {"self": "SAGE_ATTN"}}, {"role": "ltx2.connector"}, "category", "SAGE_ATTN"),
        ({"per_role": {"self": "SAGE_ATTN"}}, {"role": "kandinsky6.text_self"}, "category", "SAGE_ATTN"),
        ({"per_role": {"Cross": "SAGE_ATTN"}}, {"role": "cross"}, "platform", "FLASH_ATTN"),
    ],
)  # fmt: skip
def test_which_entry_speaks_for_a_role(
    config: Mapping[str, object], request_: Mapping[str, object], source: str, backend: str
) -> None:
    """The role's own, its category's, the default, the platform; `auto` asks the next, and roles are spelt exactly."""
    decision = decide(cuda("sm_90", FA2 | SAGE2), SIZED | dict(request_), config=config)

    assert (decision.source, decision.backend) == (source, backend)
    assert decision.origin == ("platform" if source == "platform" else "config")
    assert decision.role == request_.get("role", "self")


def test_the_requests_own_category_goes_first() -> None:
    """Then the model's, then that of the roles table."""
    ltx = {"model": "LTX2Pipeline", "role": "ltx2.audio_to_video"}

    assert decide(CPU, ltx).role_category == "cross"
    assert decide(CPU, ltx | {"role_category": "joint"}).role_category == "joint"
    assert decide(CPU, {"role": "ltx2.connector"}).role_category == "self"
    assert decide(CPU, {"role": "self"}).role_category is None


# --- what a model supplies ---

MASK_FREE = [
    "WanPipeline",
    "WanImageToVideoPipeline",
    "WanVACEPipeline",
    "Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    "Wan-AI/Wan2.2-TI2V-5B-Diffusers",
]
USES_MASKS = [
    "HunyuanVideo15Pipeline",
    "hunyuanvideo-community/HunyuanVideo-1.5-Diffusers-480p_t2v",
    "QwenImagePipeline",
    "Qwen/Qwen-Image",
    "Flux2Pipeline",
    "black-forest-labs/FLUX.2-dev",
]


@pytest.mark.parametrize("model", [*MASK_FREE, *USES_MASKS])
def test_a_model_supplies_its_facts(model: str) -> None:
    """Whether it is mask-free, and its head size, for a role it has and for one it has not."""
    for role in ("self", "nobody.knows"):
        decision = decide(cuda("sm_100", FI), {"model": model, "role": role})

        assert decision.facts["mask_free"] is (model in MASK_FREE)
        assert decision.facts["head_dim"] == 128
        assert decision.backend == ("TRTLLM_ATTN" if model in MASK_FREE else "CUDNN_ATTN")
        assert not decision.warnings


@pytest.mark.parametrize("model", ["LTX2Pipeline", "Lightricks/LTX-2"])
@pytest.mark.parametrize(
    ("role", "size", "category", "symbolic"),
    [
        ("self", 128, None, False),
        ("cross", 128, None, False),
        ("ltx2.audio_self", 64, "self", True),
        ("ltx2.audio_text_cross", 64, "cross", True),
        ("ltx2.audio_to_video", 64, "cross", True),
        ("ltx2.video_to_audio", 64, "cross", True),
        ("ltx2.connector", 128, "self", False),
    ],
)
def test_ltx_2_has_symbolic_sizes_when_it_is_compiled(
    model: str, role: str, size: int, category: str | None, symbolic: bool
) -> None:
    """Video keeps its size, audio loses it, and cuDNN does not get what it cannot trace."""
    facts = cuda("sm_120", FI)
    eager = decide(facts, {"model": model, "role": role, "compile": False})
    compiled = decide(facts, {"model": model, "role": role, "compile": True})
    own = decide(facts, {"model": model, "role": role, "compile": True, "head_dim": 96})
    named = decide(facts, {"model": model, "role": role, "compile": True}, backend="CUDNN_ATTN")

    assert (eager.facts["head_dim"], eager.facts["mask_free"], eager.role_category) == (size, False, category)
    assert eager.backend == "CUDNN_ATTN"
    assert compiled.facts["head_dim"] == ("symbolic" if symbolic else size)
    assert compiled.backend == ("TORCH_SDPA" if symbolic else "CUDNN_ATTN")
    assert (own.facts["head_dim"], own.backend) == (96, "CUDNN_ATTN")
    assert named.backend == (None if symbolic else "CUDNN_ATTN")


def test_what_the_request_says_goes_before_the_model() -> None:
    """Each value alone."""
    decision = decide(cuda("sm_100", FI), {"model": "WanPipeline", "mask_free": False})

    assert decision.backend == "CUDNN_ATTN"
    assert decision.facts["head_dim"] == 128


@pytest.mark.parametrize(
    ("given", "heads"),
    [
        ({}, (24, 24)),
        ({"num_heads": 8}, (8, None)),
        ({"num_kv_heads": 8}, (None, 8)),
        ({"num_heads": 8, "num_kv_heads": 4}, (8, 4)),
        ({"num_heads": None}, (24, 24)),
    ],
)
def test_head_counts_come_as_a_pair(given: Mapping[str, object], heads: tuple[int | None, int | None]) -> None:
    """A model's count beside one of the request's own would make a ratio that nobody has."""
    facts = decide(CPU, {"model": "Wan-AI/Wan2.2-TI2V-5B-Diffusers"} | dict(given)).facts

    assert (facts.get("num_heads"), facts.get("num_kv_heads")) == heads


@pytest.mark.parametrize(
    ("model", "hint"),
    [
        ("WanPipelin", "; did you mean `WanPipeline`?"),
        ("wanpipeline", "; did you mean `WanPipeline`?"),
        ("Lightricks/LTX-2-variant", "; did you mean `Lightricks/LTX-2`?"),
        ("zzz", ""),
    ],
)
def test_an_unknown_model_is_a_warning(model: str, hint: str) -> None:
    """It supplies nothing, and the nearest name is told."""
    decision = decide(cuda("sm_100", FI), {"model": model, "head_dim": 128})

    assert decision.warnings == (f"no model `{model}` in the models table, so it supplies no facts{hint}",)
    assert "mask_free" not in decision.facts
    assert decision.backend == "CUDNN_ATTN"
    assert decision.facts["model"] == model


@pytest.mark.parametrize(
    ("per_role", "warnings"),
    [
        ({"self": "TORCH_SDPA", "cross": "TORCH_SDPA"}, []),
        ({"ltx2.audio_self": "TORCH_SDPA"}, []),
        ({"joint": "TORCH_SDPA"}, ["`per_role.joint` matches no role of LTX2Pipeline, which has {}"]),
        ({"ltx2": {"audio_selv": "TORCH_SDPA"}},
         ["`per_role.ltx2.audio_selv` matches no role of LTX2Pipeline, which has {}; did you mean `ltx2.audio_self`?"]),
        ({"joint": "auto"}, []),
    ],
)  # fmt: skip
def test_an_entry_that_no_role_of_the_model_reads_is_a_warning(
    per_role: Mapping[str, object], warnings: Sequence[str]
) -> None:
    """With the model's roles and the nearest of them; categories are read too."""
    roles = ", ".join(shipped().models["LTX2Pipeline"].roles)
    config = {"per_role": per_role}

    assert list(decide(CPU, {"model": "LTX2Pipeline"}, config=config).warnings) == [
        warning.format(roles) for warning in warnings
    ]
    assert not decide(CPU, {}, config=config).warnings
    assert len(decide(CPU, {"model": "zzz"}, config=config).warnings) == 1


@pytest.mark.parametrize("asked", [{"role": "joint"}, {"role": "x", "role_category": "joint"}])
def test_an_entry_that_this_very_request_reads_is_no_warning(asked: Mapping[str, object]) -> None:
    """Though the model is not known to have the role."""
    decision = decide(CPU, {"model": "LTX2Pipeline"} | dict(asked), config={"per_role": {"joint": "TORCH_SDPA"}})

    assert (decision.source in {"role", "category"}, decision.warnings) == (True, ())


# --- the call ---

KINDS = (
    "none", "all_keep", "suffix_key_padding", "key_padding", "key_and_query_padding", "block_diagonal",
    "boolean_per_query", "additive",
)  # fmt: skip
HOME: dict[str, dict[str, object]] = {
    "TORCH_SDPA": cuda("sm_100", ALL),
    "CUDNN_ATTN": cuda("sm_100", ALL),
    "FLASHINFER_ATTN": cuda("sm_100", ALL),
    "FLASH_ATTN": cuda("sm_100", ALL),
    "FLASH_ATTN_HUB": cuda("sm_90", ALL),
    "FLASH_ATTN_3_HUB": cuda("sm_90", ALL),
    "TRTLLM_ATTN": cuda("sm_100", ALL),
    "SAGE_ATTN": cuda("sm_120", ALL),
    "SAGE_ATTN_3": cuda("sm_120", ALL),
}
# For each backend a letter for each kind, in the order of KINDS: N native, L lossless, S to TORCH_SDPA, R refused.
PLAIN = {
    "TORCH_SDPA": "NNNNLLNN",
    "CUDNN_ATTN": "NNLNLLNN",
    "FLASH_ATTN": "NNLLLLSS",
    "FLASH_ATTN_HUB": "NNLLLLSS",
    "FLASH_ATTN_3_HUB": "NNLLLLSS",
    "FLASHINFER_ATTN": "NNLLLLLS",
    "TRTLLM_ATTN": "NNLRRLRR",
    "SAGE_ATTN": "NNLRRRRR",
    "SAGE_ATTN_3": "NNLRRRRR",
}
# The same for a causal call, aligned bottom right, of equal lengths; the others are as above.
CAUSAL = {
    "TORCH_SDPA": "NNLLLLLL",
    "CUDNN_ATTN": "NNLLLLLL",
    "FLASH_ATTN": "NNSSSSSS",
    "FLASH_ATTN_HUB": "NNSSSSSS",
    "FLASH_ATTN_3_HUB": "NNSSSSSS",
    "FLASHINFER_ATTN": "NNSSSSSS",
    "TRTLLM_ATTN": "NNRRRRRR",
    "SAGE_ATTN": "NNRRRRRR",
    "SAGE_ATTN_3": "NNRRRRRR",
}
# One cell each without a mask: fp32, GQA, causal top left and bottom right with unequal lengths, a single key.
OTHER_CALLS: dict[str, tuple[Mapping[str, object], Mapping[str, object]]] = {
    "fp32": ({"dtype": "float32"}, {}),
    "fp64": ({"dtype": "float64"}, {}),
    "gqa": ({}, {"num_heads": 32, "num_kv_heads": 8}),
    "top left": ({"causal": "top_left", "seq_len_q": 8}, {}),
    "bottom right": ({"causal": "bottom_right", "seq_len_q": 8}, {}),
    "one key": ({"seq_len_kv": 1}, {}),
    "one key and query": ({"seq_len_q": 1, "seq_len_kv": 1, "causal": "top_left"}, {}),
    "fp16": ({"dtype": "float16"}, {}),
}
OTHER = {
    "TORCH_SDPA": "NNNLLNNN",
    "CUDNN_ATTN": "SSNLLSSN",
    "FLASH_ATTN": "SSNSNNNN",
    "FLASH_ATTN_HUB": "SSNSNNNN",
    "FLASH_ATTN_3_HUB": "SSNSNNNN",
    "FLASHINFER_ATTN": "SSNSNNNN",
    "TRTLLM_ATTN": "RRNRNNNR",
    "SAGE_ATTN": "SSNRRSSN",
    "SAGE_ATTN_3": "SSSRRSSN",
}


def calls() -> Iterator[tuple[str, dict[str, object], dict[str, object], str]]:
    """Give every cell: backend, call, layer, letter."""
    whole: dict[str, object] = {"dtype": "bfloat16", "seq_len_q": 64, "seq_len_kv": 64, "causal": None}
    for backend in BACKENDS:
        for kind, plain, causal in zip(KINDS, PLAIN[backend], CAUSAL[backend], strict=True):
            yield backend, whole | {"mask": kind}, {}, plain
            yield backend, whole | {"mask": kind, "causal": "bottom_right"}, {}, causal
            yield backend, whole | {"mask": kind, "causal": "top_left"}, {}, causal
        for (call, layer), letter in zip(OTHER_CALLS.values(), OTHER[backend], strict=True):
            yield backend, whole | {"mask": "none"} | dict(call), dict(layer), letter
            yield backend, whole | {"mask": "all_keep"} | dict(call), dict(layer), letter


CALLS = list(calls())
CALL_IDS = [f"{backend}-{call['mask']}-{i}" for i, (backend, call, _, _) in enumerate(CALLS)]


@pytest.mark.parametrize(("backend", "call", "layer", "letter"), CALLS, ids=CALL_IDS)
def test_a_named_backend_meets_a_call(
    backend: str, call: dict[str, object], layer: dict[str, object], letter: str
) -> None:
    """Every cell of the table: native, lossless with its transform, TORCH_SDPA with a warning, or refused."""
    request = {"head_dim": 128, "call": call} | layer
    decision = decide(HOME[backend], request, backend=backend)
    strict = decide(HOME[backend], request, backend=backend, policy="strict")

    # As many KV heads as heads are asked for before any call, so its own row answers that first.
    early = backend == "SAGE_ATTN_3" and bool(layer)
    if letter == "R":
        assert decision.error is not None
        assert decision.error.code == "refused"
        assert (decision.backend, decision.rule, decision.log, decision.transform) == (None, None, None, None)
        assert (decision.source, decision.origin) == ("default", "flag")
        assert strict.error is not None
        return
    ran = "TORCH_SDPA" if letter == "S" else backend
    assert (decision.backend, decision.log) == (ran, f"Using diffusion attention backend '{ran}'")
    if letter == "S":
        assert str(decision.rule).startswith("explicit/able" if early else "call/")
        assert len(decision.warnings) == 1
        assert "TORCH_SDPA takes" in decision.warnings[0]
        assert strict.error is not None
        assert "the policy is strict, so TORCH_SDPA does not take its place" in strict.error.message
    else:
        assert decision.rule == "explicit/able"
        assert bool(decision.transform) is (letter == "L")
        assert not decision.warnings
        assert strict.backend == backend


def test_several_cells_at_once() -> None:
    """Refused goes before substituted, substituted before a transform."""
    whole = {"seq_len_q": 64, "seq_len_kv": 64, "causal": None}

    def told(backend: str, call: Mapping[str, object]) -> str | None:
        return decide(HOME[backend], {"head_dim": 128, "call": whole | dict(call)}, backend=backend).backend

    assert told("SAGE_ATTN", {"dtype": "float32", "mask": "key_padding"}) is None
    assert told("SAGE_ATTN_3", {"dtype": "bfloat16", "mask": "additive", "seq_len_kv": 1}) is None
    assert told("CUDNN_ATTN", {"dtype": "float32", "mask": "suffix_key_padding"}) == "TORCH_SDPA"
    assert told("FLASH_ATTN", {"dtype": "float32", "mask": "key_padding"}) == "TORCH_SDPA"
    assert told("CUDNN_ATTN", {"dtype": "bfloat16", "mask": "block_diagonal", "seq_len_kv": 1}) == "TORCH_SDPA"


def test_a_substitute_is_transformed_too() -> None:
    """TORCH_SDPA takes the call by its own row, with its own transform."""
    call = {"mask": "key_and_query_padding", "dtype": "float32", "seq_len_q": 8, "seq_len_kv": 8, "causal": None}

    decision = decide(HOME["FLASH_ATTN"], {"head_dim": 128, "call": call}, backend="FLASH_ATTN")

    assert (decision.backend, decision.rule) == ("TORCH_SDPA", "call/full-precision")
    assert decision.transform == "the keys are masked and the rows of padded queries are set to zero"


@pytest.mark.parametrize("backend", BACKENDS)
def test_heads_that_do_not_divide_are_refused(backend: str) -> None:
    """By every backend, named or not."""
    request = {"head_dim": 128, "num_heads": 10, "num_kv_heads": 4, "call": {"mask": "none"}}
    said = "10 query heads cannot share 4 KV heads evenly"

    for decision in (decide(HOME[backend], request, backend=backend), decide(HOME[backend], request)):
        assert decision.error is not None
        assert decision.error.code == "refused"
        assert decision.error.message == said


def test_a_default_is_substituted_even_under_the_strict_policy() -> None:
    """And its line then names SDPA."""
    call = {"mask": "none", "dtype": "float32", "seq_len_q": 8, "seq_len_kv": 8, "causal": None}

    for policy in ("fallback", "strict"):
        decision = decide(cuda("sm_120"), {"head_dim": 128, "call": call}, policy=policy)

        assert (decision.backend, decision.source, decision.rule) == ("TORCH_SDPA", "platform", "call/full-precision")
        assert decision.log == "Defaulting to diffusion attention backend SDPA"
        (warning,) = decision.warnings
        assert warning.startswith("CUDNN_ATTN takes half precision, and this call brings float32: TORCH_SDPA takes the")
        assert warning.endswith("(dtype: wanted half (bfloat16, float16), got float32)")


def test_a_mask_per_head_is_one_that_flashinfer_cannot_take() -> None:
    """One mask for all heads it can."""
    call = {"mask": "boolean_per_query", "dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 8}

    def told(per_head: bool | None) -> str | None:
        return decide(
            HOME["FLASHINFER_ATTN"],
            {"head_dim": 128, "call": call | {"mask_per_head": per_head}},
            backend="FLASHINFER_ATTN",
        ).backend

    assert told(per_head=True) == "TORCH_SDPA"
    assert told(per_head=False) == "FLASHINFER_ATTN"
    assert told(per_head=None) == "FLASHINFER_ATTN"


WRONG_DECLARATION = (
    "the model is declared mask-free, but this call brings a mask of the kind {}, so the declaration is wrong"
)


@pytest.mark.parametrize(
    ("call", "warnings"),
    [
        *[({"mask": kind}, [WRONG_DECLARATION.format(kind)])
          for kind in ("key_padding", "key_and_query_padding", "boolean_per_query", "additive")],
        ({"mask": "none", "dtype": "float16"}, []),
        ({"mask": "none", "causal": "top_left", "seq_len_q": 4}, []),
        ({"mask": "suffix_key_padding", "causal": "top_left"}, []),
        ({"mask": "block_diagonal", "causal": "bottom_right"}, []),
    ],
)  # fmt: skip
def test_a_default_that_is_refused_is_decided_again(call: Mapping[str, object], warnings: list[str]) -> None:
    """The next row of the platform's table takes the call; a mask also says that the model's declaration is wrong."""
    whole = {"dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 8} | dict(call)
    facts = cuda("sm_100", FI)

    decision = decide(facts, WAN | {"call": whole})
    named = decide(facts, WAN | {"call": whole}, backend="TRTLLM_ATTN")

    assert (decision.backend, decision.rule) == ("CUDNN_ATTN", "platform_default/blackwell-cudnn")
    assert decision.log == "Defaulting to diffusion attention backend CUDNN_ATTN (Blackwell sm_100, cuDNN 91002)"
    assert list(decision.warnings) == warnings
    assert decision.facts["mask_free"] is not bool(warnings)
    assert named.error is not None
    assert named.error.code == "refused"
    assert not named.warnings


def test_a_default_decided_again_may_be_substituted_then() -> None:
    """A kernel of half precision alone comes next, so TORCH_SDPA takes the call."""
    call = {"mask": "none", "dtype": "float32", "seq_len_q": 8, "seq_len_kv": 8}

    decision = decide(cuda("sm_100", FI), WAN | {"call": call})

    assert (decision.backend, decision.rule) == ("TORCH_SDPA", "call/full-precision")
    assert decision.log == "Defaulting to diffusion attention backend SDPA"


def test_the_next_default_may_be_the_last() -> None:
    """Without cuDNN and with FlashInfer alone, a call that FlashInfer substitutes ends at TORCH_SDPA."""
    call = {"mask": "additive", "dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 8}

    decision = decide(cuda("sm_100", FI, None), WAN | {"call": call})

    assert (decision.backend, decision.rule) == ("TORCH_SDPA", "call/flashinfer-additive")
    assert decision.warnings[0] == WRONG_DECLARATION.format("additive")


def test_the_first_refusal_is_the_reason_where_no_default_is_left(tmp_path: Path) -> None:
    """With rules that refuse every call, the sentence is the first backend's."""
    edits = [
        ("when: {heads_divide: false}", "when: {mask: additive}"),
        ("{num_heads} query heads cannot share {num_kv_heads} KV heads evenly", "{backend} never"),
    ]
    rules = load_rules([overlay(tmp_path / "o", {"call.yaml": edits})])
    call = {"mask": "additive", "dtype": "bfloat16", "seq_len_q": 8, "seq_len_kv": 8}

    decision = decide(cuda("sm_100", FI), WAN | {"call": call}, rules=rules)

    assert decision.error is not None
    assert decision.error.message == "TRTLLM_ATTN never"


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """Stop what would never end."""

    def stop(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_a_default_whose_substitute_is_refused_is_refused(tmp_path: Path) -> None:
    """With rules in which TORCH_SDPA may not take what the default cannot."""
    edits = [("when: {heads_divide: false}", "when: {backend: TORCH_SDPA, dtype: float32}")]
    rules = load_rules([overlay(tmp_path / "o", {"call.yaml": edits})])
    call = {"mask": "none", "dtype": "float32", "seq_len_q": 8, "seq_len_kv": 8}

    with within(1):
        decision = decide(cuda("sm_120"), {"head_dim": 128, "call": call}, rules=rules)

    assert decision.error is not None
    assert decision.error.code == "refused"


# --- facts that must be known ---


@pytest.mark.parametrize("backend", [None, *BACKENDS])
def test_without_a_platform_nothing_is_decided(backend: str | None) -> None:
    """The answer is invalid, with the path of what is missing."""
    decision = decide({"arch": "sm_90"}, SIZED, backend=backend)

    assert decision.error is not None
    assert (decision.error.code, decision.error.path) == ("invalid", "facts.platform")
    assert decision.error.message == "the fact `platform` is not known, and no decision is made without it"
    assert [str(problem) for problem in decision.error.problems] == [
        f"facts (facts.platform): missing-fact: {decision.error.message}"
    ]
    assert (decision.backend, decision.rule, decision.log) == (None, None, None)


def test_a_call_without_a_kind_of_mask_is_not_decided() -> None:
    """A mask is never guessed."""
    decision = decide(CPU, {"call": {"dtype": "float32"}})

    assert decision.error is not None
    assert (decision.error.code, decision.error.path, decision.backend) == ("invalid", "request.call.mask", None)
    assert decision.error.message == "the fact `mask` is not known, and no decision is made without it"


def test_a_call_that_is_not_valid_goes_before_a_refusal() -> None:
    """What is refused is told where all else is well."""
    decision = decide(CPU, {"call": {"dtype": "float32"}}, backend="SAGE_ATTN")

    assert decision.error is not None
    assert decision.error.code == "invalid"


# --- builds ---

MIXED = {"dtype_qk": "float16", "dtype_vo": "fp8_e4m3"}


@pytest.mark.parametrize(
    ("backend", "facts", "request_", "config", "provider"),
    [
        ("FLASH_ATTN", cuda("sm_90", ALL), SIZED, {}, "fa3"),
        ("FLASH_ATTN", cuda("sm_90", ALL), {"head_dim": 64}, {}, "fa3"),
        ("FLASH_ATTN", cuda("sm_90", ALL), {"dtype": "float16"}, {}, "fa4"),
        ("FLASH_ATTN", cuda("sm_90", FA2 | FA4), SIZED, {}, "fa4"),
        ("FLASH_ATTN", cuda("sm_90", FA2), SIZED, {}, "fa2"),
        ("FLASH_ATTN", cuda("sm_90", FA2 | {"flash-attn-4": "4.0.0b1"}), SIZED, {}, "fa4"),
        ("FLASH_ATTN", cuda("sm_120", ALL), SIZED, {}, "fa4"),
        ("FLASH_ATTN", cuda("sm_120", FA2 | FA3), SIZED, {}, "fa2"),
        ("FLASH_ATTN", cuda("sm_89", ALL), SIZED, {}, "fa2"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, {}, "flashinfer-fa3"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED | {"call": {"mask": "none"}}, {}, "flashinfer-fa3"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED | {"call": {"mask": "key_padding"}}, {}, "flashinfer-fa2"),
        ("FLASHINFER_ATTN", cuda("sm_120", FI), SIZED, {}, "flashinfer-fa2"),
        ("FLASHINFER_ATTN", cuda("sm_100", FI), SIZED, {"dtype_qk": "float16"}, "flashinfer-fa2"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, {"dtype_qk": "float16", "dtype_vo": "float16"}, "flashinfer-fa3"),
        ("FLASHINFER_ATTN", cuda("sm_100", FI), SIZED | {"call": {"mask": "none"}}, MIXED, "flashinfer-cute-dsl"),
        ("FLASHINFER_ATTN", cuda("sm_100", FI), SIZED | {"call": {"mask": "key_padding"}}, MIXED, None),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED | {"call": {"mask": "none"}}, MIXED, None),
        pytest.param("FLASHINFER_ATTN", cuda("sm_100", FI), SIZED, MIXED, "flashinfer-cute-dsl"),
        pytest.param("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, MIXED, None),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, {"flashinfer_backend": "fa2"}, "flashinfer-fa2"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, {"flashinfer_backend": "auto"}, "flashinfer-fa3"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, {"flashinfer_backend": "fa3"}, "flashinfer-fa3"),
        ("FLASHINFER_ATTN", cuda("sm_120", FI), SIZED, {"flashinfer_backend": "fa3"}, None),
        ("FLASHINFER_ATTN", cuda("sm_100", FI), SIZED, {"flashinfer_backend": "cute-dsl"}, "flashinfer-cute-dsl"),
        ("FLASHINFER_ATTN", cuda("sm_90", FI), SIZED, {"flashinfer_backend": "cute-dsl"}, None),
        ("SAGE_ATTN", cuda("sm_90", SAGE2), SIZED, {}, "sage2"),
        ("SAGE_ATTN", cuda("sm_90", SAGE1), SIZED, {}, "sage1"),
        ("SAGE_ATTN", cuda("sm_90", SAGE1), {"head_dim": 72}, {}, None),
        ("TORCH_SDPA", cuda("sm_90", ALL), SIZED, {}, None),
        ("CUDNN_ATTN", cuda("sm_90", ALL), SIZED, {}, None),
        ("TRTLLM_ATTN", cuda("sm_100", ALL), SIZED, {}, None),
    ],
)  # fmt: skip
def test_the_build_of_a_kernel(
    backend: str,
    facts: Mapping[str, object],
    request_: Mapping[str, object],
    config: Mapping[str, object],
    provider: str | None,
) -> None:
    """The fastest that suits; none where a backend has one alone, or where all are too narrow, which binding tells."""
    entry = {"backend": backend} | ({"quant": config} if config else {})

    decision = decide(facts, request_, config={"default": entry})

    assert (decision.backend, decision.provider) == (backend, provider)


# --- facts that are taken as absent ---


def test_packages_can_be_taken_as_absent() -> None:
    """As after a kernel that did not bind; one after another adds up."""
    _, machine = read_machine(cuda("sm_90", FA2 | FA3), shipped().vocabulary)
    inputs = Inputs(machine, Request(facts={"head_dim": 64, "dtype": "bfloat16"}))

    one = without_packages(inputs, ["packages.flash-attn-3"])
    both = without_packages(one, ["packages.flash-attn"])

    assert [resolve(asked, shipped()).provider for asked in (inputs, one)] == ["fa3", "fa2"]
    assert both.absent == ("packages.flash-attn-3", "packages.flash-attn")
    assert resolve(both, shipped()).backend == "TORCH_SDPA"


# --- every row has its reason to be there ---


def beyond_requests() -> Iterator[Decision]:
    """Give what only a call that brings its own sizes can reach."""
    _, machine = read_machine(cuda("sm_120"), shipped().vocabulary)
    call: dict[str, Value] = {"mask": "none", "causal": False, "causal_alignment": None, "dtype": "bfloat16"}
    yield resolve(Inputs(machine, Request(call=call | {"head_dim": 320})), shipped())
    _, machine = read_machine(cuda("sm_120", SAGE3), shipped().vocabulary)
    _, choices = choose(None, "SAGE_ATTN_3", {}, shipped())
    call |= {"num_heads": 8, "num_kv_heads": 4}
    yield resolve(Inputs(machine, Request(call=call), choices), shipped())


def of_conformance() -> Iterator[Decision]:
    """Give the decision of every line of the conformance files that is well."""
    rules = shipped()
    for path in sorted(CONFORMANCE.glob("*.jsonl")):
        for text in path.read_text(encoding="utf-8").splitlines():
            line = json.loads(text)
            _, machine = read_machine(line["facts"], rules.vocabulary)
            _, request = read_request(line["request"], rules.vocabulary)
            faults, choices = choose(line.get("config"), line.get("backend"), line.get("env", {}), rules)
            if not faults:
                yield resolve(Inputs(machine, request, choices, line.get("policy", "fallback")), rules)


def of_cases() -> Iterator[Decision]:
    """Give the decision of every case of this file's larger tables."""
    for facts, request, *_ in DEFAULTS:
        yield decide(facts, request)
    for name, facts, request, _ in EXPLICIT:
        for policy in ("fallback", "strict"):
            yield decide(facts, request, backend=name, policy=policy)
    for backend, call, layer, _ in CALLS:
        yield decide(HOME[backend], {"head_dim": 128, "call": call} | layer, backend=backend)
    for block, arch in (
        ({"flashinfer_backend": "fa2"}, "sm_90"),
        ({"flashinfer_backend": "fa3"}, "sm_90"),
        ({"flashinfer_backend": "cute-dsl"}, "sm_100"),
        (MIXED, "sm_100"),
    ):
        config = {"default": {"backend": "FLASHINFER_ATTN", "quant": block}}
        yield decide(cuda(arch, FI), SIZED, config=config)
        yield decide(cuda(arch, FI), SIZED | {"call": {"mask": "none"}}, config=config)
    for name, facts in ("SAGE_ATTN", cuda("sm_90", SAGE1)), ("FLASHINFER_ATTN", cuda("sm_90", FI)):
        for size in (72, 64):
            yield decide(facts, {"head_dim": size}, backend=name)
    per_head = {"mask": "boolean_per_query", "mask_per_head": True}
    yield decide(HOME["FLASHINFER_ATTN"], {"call": per_head}, backend="FLASHINFER_ATTN")
    other_bias = {"mask": "additive", "mask_matches_dtype": False}
    yield decide(HOME["CUDNN_ATTN"], {"call": other_bias}, backend="CUDNN_ATTN")
    lse = SIZED | {"call": {"mask": "none", "lse": True}}
    yield decide(cuda("sm_90", SAGE1), lse, backend="SAGE_ATTN")
    yield decide(
        HOME["TRTLLM_ATTN"], lse, config={"default": {"backend": "TRTLLM_ATTN", "quant": {"dtype_qk": "int8"}}}
    )
    yield decide(CPU, {"num_heads": 10, "num_kv_heads": 4, "call": {"mask": "none"}})
    yield decide(cuda("sm_90", FA2), {"role": "ltx2.connector"}, config={"per_role": {"self": "FLASH_ATTN"}})
    yield decide(cuda("sm_90", FA2), {"role": "x"}, config={"per_role": {"x": "FLASH_ATTN"}})


@functools.cache
def explained() -> tuple[tuple[Decision, tuple[Walk, ...]], ...]:
    """Give every one of these decisions with its walks."""
    every = (*of_cases(), *of_conformance(), *beyond_requests())
    return tuple((decision, tuple(decision.explain().walks)) for decision in every)


@functools.cache
def outcomes() -> tuple[frozenset[str], frozenset[str]]:
    """Give the rows that won somewhere, and those that something was blamed for not winning."""
    steps = [step for _, walks in explained() for walk in walks for step in walk.steps]
    won = frozenset(step.row.name for step in steps if step.outcome == "chosen")
    return won, frozenset(step.row.name for step in steps if step.blamed)


ROWS = [row.name for table in shipped().tables.values() for row in table.rows]
# Rows without a condition, of actions that need no ability, hold whenever they are reached.
ALWAYS = [
    row.name
    for table in shipped().tables.values()
    for row in table.rows
    if not row.conditional and (row.action != "use" or row.target == "TORCH_SDPA")
]


@pytest.mark.parametrize("row", ROWS)
def test_every_row_wins_somewhere(row: str) -> None:
    """A row that no case of ours reaches is a row nobody can rely on."""
    assert row in outcomes()[0]


@pytest.mark.parametrize("row", [row for row in ROWS if row not in ALWAYS])
def test_every_row_is_blamed_somewhere(row: str) -> None:
    """And one that never says why it does not win explains nothing."""
    assert row in outcomes()[1]


def test_rows_that_always_hold_are_last(rules: RuleSet) -> None:
    """They are the last resort of their table."""
    assert [table.rows[-1].name for table in rules.tables.values()] == ALWAYS


# --- rules are data ---


def test_a_row_may_warn_of_itself(tmp_path: Path) -> None:
    """Whenever it wins."""
    edits = [("    use: CUDNN_ATTN\n", '    use: CUDNN_ATTN\n    warn: "{arch} is warm"\n')]
    rules = load_rules([overlay(tmp_path / "o", {"platform_default.yaml": edits})])

    assert decide(cuda("sm_120"), MASKED, rules=rules).warnings == ("sm_120 is warm",)
    assert decide(cuda("sm_90"), MASKED, rules=rules).warnings == ()


def test_two_rows_swapped_change_the_decision(tmp_path: Path) -> None:
    """With no Python touched."""
    text = (Path(__file__).parents[2] / "rules" / "platform_default.yaml").read_text(encoding="utf-8")
    start, middle, end = (text.index(f"  - id: {name}") for name in (
        "blackwell-cudnn", "blackwell-flashinfer", "blackwell-flash-attn-4"))  # fmt: skip
    swapped = text[:start] + text[middle:end].replace('      any: [cudnn: absent, cudnn: "<9.5"]\n', "")
    swapped += text[start:middle] + text[end:]
    (tmp_path / "platform_default.yaml").write_text(swapped, encoding="utf-8")
    rules = load_rules([tmp_path])

    assert decide(cuda("sm_120", FI), MASKED).backend == "CUDNN_ATTN"
    assert decide(cuda("sm_120", FI), MASKED, rules=rules).backend == "FLASHINFER_ATTN"
    assert decide(cuda("sm_120"), MASKED, rules=rules).backend == "CUDNN_ATTN"
    assert rules.digest != shipped().digest


def test_a_new_generation_of_gpus_is_an_edit_of_the_rules(tmp_path: Path) -> None:
    """One set more, with no Python touched."""
    words = [("blackwell_class: {fact: arch, values: [sm_10x, sm_11x, sm_12x]}",
              "blackwell_class: {fact: arch, values: [sm_10x, sm_11x, sm_12x, sm_13x]}"),
             ("blackwell_tested: {fact: arch, values: [sm_100, sm_103, sm_120, sm_121]}",
              "blackwell_tested: {fact: arch, values: [sm_100, sm_103, sm_120, sm_121, sm_130]}")]  # fmt: skip
    rules = load_rules([overlay(tmp_path / "o", {"vocabulary.yaml": words})])

    assert decide(cuda("sm_130", FI), MASKED).backend == "TORCH_SDPA"
    decision = decide(cuda("sm_130", FI), MASKED, rules=rules)
    assert (decision.backend, decision.warnings) == ("CUDNN_ATTN", ())
    assert decide(cuda("sm_131", FI), MASKED, rules=rules).warnings


def test_every_trace_tells_its_decision() -> None:
    """It names the row that decided."""
    for decision, walks in explained():
        chosen = [walk.chosen.row.name for walk in walks if walk.chosen is not None]
        assert decision.rule is None or decision.rule in chosen
