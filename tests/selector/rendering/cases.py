"""Decisions that the tests of this folder draw: a machine, a config and a request under a name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from selector.ruleset import shipped
from selector.selecting import Selector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from selector.decision import Decision

B200: Mapping[str, object] = {
    "platform": "cuda", "arch": "sm_100", "cudnn": 91002, "packages": {"flashinfer": "0.6.18"},
}  # fmt: skip
RTX_PRO: Mapping[str, object] = {"platform": "cuda", "arch": "sm_120", "cudnn": 91002, "packages": {}}
H200: Mapping[str, object] = {
    "platform": "cuda", "arch": "sm_90", "cudnn": 91002,
    "packages": {"flash-attn-3": "3.0.0", "flash-attn-4": "4.0.0b18", "flashinfer": "0.6.18"},
}  # fmt: skip
CPU: Mapping[str, object] = {"platform": "cpu", "arch": None, "cudnn": None, "packages": {}}
WAN: Mapping[str, object] = {"model": "WanPipeline", "dtype": "bfloat16"}
HOSTILE = 'x"]\n; end\x1b[31m \u202eeman\x00 %%{init: {}}%% `b` <br> style:a#b; \ud800 日本'


@dataclass(frozen=True)
class Case:
    """One question to a selector; nothing is read from the machine or its environment."""

    facts: Mapping[str, object]
    request: Mapping[str, object] = field(default_factory=dict)
    config: Mapping[str, object] | None = None
    backend: str | None = None
    policy: str | None = None

    def selector(self) -> Selector:
        """Build the selector, with the shipped rules."""
        return Selector(
            rules=shipped(),
            facts=self.facts,
            config=self.config,
            backend=self.backend,
            policy=self.policy,
            environment={},
        )

    def decide(self) -> Decision:
        """Ask it."""
        return self.selector().decide(**self.request)  # type: ignore[arg-type]


CASES: Mapping[str, Case] = {
    "b200-mask-unknown": Case(B200, {"head_dim": 128}),
    "b200-declaration-wrong": Case(B200, {**WAN, "call": {"mask": "additive", "dtype": "bfloat16"}}),
    "sm120-flash-attn-3-hub": Case(RTX_PRO, {"head_dim": 128}, backend="FLASH_ATTN_3_HUB"),
    "sm90-trtllm-refused": Case(H200, {"head_dim": 128}, backend="TRTLLM_ATTN"),
    "sm100-sage-3-strict": Case(B200, {"head_dim": 128}, backend="SAGE_ATTN_3", policy="strict"),
    "sm90-call-substituted": Case(
        H200, {"head_dim": 128, "call": {"mask": "boolean_per_query", "dtype": "bfloat16"}}, backend="FLASH_ATTN"
    ),
    "ltx2-category": Case(
        RTX_PRO,
        {"role": "ltx2.audio_to_video", "model": "Lightricks/LTX-2", "dtype": "bfloat16"},
        config={"default": "TORCH_SDPA", "per_role": {"cross": "CUDNN_ATTN"}},
    ),
    "b200-quantised": Case(
        B200, WAN, config={"default": {"backend": "TRTLLM_ATTN", "quant": {"dtype_qk": "int8", "q_block_size": 4}}}
    ),
    "cpu": Case(CPU, {"head_dim": 64}),
    "no-platform": Case({"arch": "sm_90"}, {"head_dim": 128}),
    "request-invalid": Case(CPU, {"head_dim": 0, "rloe": "self", "dtype": "bfloat"}),
    "hostile-role": Case(CPU, {"role": HOSTILE, "model": "Wan\x1bPipeline"}),
}
