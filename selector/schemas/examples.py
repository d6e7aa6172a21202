"""An example or two for each schema, small and right."""

from __future__ import annotations

from collections.abc import Mapping

from selector.schemas import overlay_examples as overlays
from selector.schemas.annotations import Json

_B200: Json = {"platform": "cuda", "arch": "sm_100", "cudnn": 91002, "packages": {"flashinfer": "0.6.18"}}
_LAYER: Json = {"role": "self", "head_dim": 128, "mask_free": True}
_DECISION: Json = {
    "backend": "TORCH_SDPA",
    "source": "platform",
    "origin": "platform",
    "rule": "platform_default/torch-sdpa",
    "log": "Defaulting to diffusion attention backend SDPA",
    "warnings": [],
    "error": None,
    "provider": None,
    "build": None,
    "considered": [],
    "transform": None,
    "spec": None,
    "role": "self",
    "role_category": None,
    "policy": "fallback",
    "facts": {"platform": "cpu", "arch": None, "head_dim": 64, "role": "self", "policy": "fallback"},
    "origins": {
        "platform": "device query",
        "arch": "device query",
        "head_dim": "request",
        "role": "default",
        "policy": "default",
    },
    "missing": [],
    "digest": "4f" * 32,
    "outdated": None,
    "inputs": {
        "machine": {"platform": "cpu", "arch": None},
        "request": {"role": "self", "category": None, "model": None, "facts": {"head_dim": 64}, "call": None},
        "choices": {"per_role": {}, "default": None, "default_origin": "config", "unread": []},
        "policy": "fallback",
        "absent": [],
        "origins": {
            "platform": "device query",
            "arch": "device query",
            "head_dim": "request",
            "role": "default",
            "policy": "default",
        },
    },
}
_TABLE: Json = {
    "table": "platform_default",
    "targets": "backends",
    "actions": ["use"],
    "requires": ["platform"],
    "rows": [
        {
            "id": "newer-gpus",
            "when": {
                "platform": "cuda",
                "arch": ">=sm_100",
                "head_dim": {"multiple_of": 8, "max": 256, "unknown": "match"},
                "any": [{"packages.flashinfer": "present"}, {"cudnn": ">=9.5"}],
            },
            "use": "CUDNN_ATTN",
            "log": "({arch}, cuDNN {cudnn})",
            "because": "On these GPUs it is the fastest kernel that takes a mask.",
        },
        {"id": "last-resort", "use": "TORCH_SDPA", "because": "It is always there and takes every call."},
    ],
}
EXAMPLES: Mapping[str, list[Json]] = {
    "config": [
        {"default": "CUDNN_ATTN", "per_role": {"cross": "TORCH_SDPA"}},
        {"default": {"backend": "TRTLLM_ATTN", "skip_softmax": {"target_sparsity": 0.5}}},
        {"per_role": {"ltx2": {"audio_to_video": {"backend": "FLASHINFER_ATTN", "quant": {"dtype_vo": "fp8_e4m3"}}}}},
    ],
    "facts": [
        {
            "platform": "cuda",
            "cudnn": 91002,
            "packages": {"flash-attn": "2.8.3", "flashinfer": None, "sageattention": "unknown"},
            "devices": [{"index": 0, "name": "NVIDIA H200", "arch": "sm_90"}],
        },
        {"platform": "cpu", "arch": None, "cudnn": None, "packages": {}},
    ],
    "decision": [_DECISION],
    "decide-line": [{"id": 1, "facts": _B200, "request": _LAYER, "config": {"per_role": {"cross": "CUDNN_ATTN"}}}],
    "rule-table": [_TABLE, overlays.EDITS, overlays.NEW_TABLE],
    "vocabulary": [
        {
            "facts": {
                "arch": {"type": "string", "group": "machine", "order": "capability", "about": "The architecture."},
                "head_dim": {"type": "integer", "group": "request", "minimum": 1, "about": "Size of one head."},
            },
            "sets": {"newest": {"fact": "arch", "values": ["sm_103", "sm_12x"]}},
            "packages": {"flash-attn": {"distributions": ["flash-attn"], "about": "FlashAttention 2."}},
        },
        overlays.VOCABULARY,
    ],
    "backends": [
        {
            "backends": {
                "HOUSE_ATTN": {
                    "about": "The kernel of this house.",
                    "ability": {"platform": "cuda", "head_dim": {"in": [64, 128], "unknown": "match"}},
                }
            }
        },
        overlays.BACKENDS,
    ],
    "roles": [{"roles": {"ltx2.audio_self": "self", "my_model.*": "joint"}}, overlays.ROLES],
    "models": [
        {
            "models": [
                {
                    "names": ["MyPipeline", "me/my-model"],
                    "mask_free": False,
                    "head_dim": 128,
                    "roles": {"joint": {"num_heads": 24, "num_kv_heads": 24, "mask": "key_padding"}},
                }
            ]
        },
        overlays.MODELS,
    ],
    "warnings": [
        {
            "warnings": [
                {
                    "id": "old-driver",
                    "when": {"platform": "cuda", "arch": {"compare": "<sm_80", "unknown": "fail"}},
                    "warn": "{arch} is older than any kernel here was tried on",
                    "because": "It most likely runs, only nobody has looked.",
                }
            ]
        },
        overlays.WARNINGS,
    ],
    "rule-set": [overlays.RULE_SET],
    "scenarios": [
        {
            "scenarios": [
                {
                    "id": "wan-on-a-datacenter-gpu",
                    "facts": _B200,
                    "request": _LAYER,
                    "expect": {"backend": "TRTLLM_ATTN", "source": "platform", "warnings": 0},
                }
            ]
        }
    ],
}
