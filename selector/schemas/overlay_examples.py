"""Examples of what may be laid over the shipped rules: edits, a new table, single words and entries, a whole set."""

from __future__ import annotations

from selector.schemas.annotations import Json

EDITS: Json = {
    "table": "platform_default",
    "description": "What this house does otherwise.",
    "edits": [
        {"id": "hopper-flash-attn", "disable": True, "because": "Nobody here has a Hopper GPU."},
        {
            "id": "blackwell-flashinfer",
            "before": "blackwell-cudnn",
            "because": "Here FlashInfer is newer than cuDNN on every machine.",
        },
        {
            "id": "torch-sdpa",
            "use": "TORCH_SDPA",
            "log": "(last resort)",
            "because": "It is always there, and the log should say that nothing better was.",
        },
        {
            "id": "house-long-sequences",
            "when": {"platform": "cuda", "seq_len_kv": {"min": 65536}},
            "use": "FLASHINFER_ATTN",
            "before": "blackwell-flash-attn-4",
            "because": "Our long videos run fastest with it.",
        },
    ],
}
_HOUSE_ROWS: list[Json] = [
    {"id": "at-night", "when": {"platform": "cuda"}, "use": "TORCH_SDPA", "because": "Batches at night can wait."},
    {"id": "by-day", "refuse": "nothing else is decided here", "because": "The other tables decide by day."},
]
NEW_TABLE: Json = {"table": "house_batches", "new": True, "targets": "backends", "rows": _HOUSE_ROWS}
VOCABULARY: Json = {
    "facts": {"rack": {"type": "string", "group": "machine", "about": "The rack that the machine stands in."}},
    "sets": {
        "blackwell_tested": {"add": ["sm_110"]},
        "our_gpus": {"fact": "arch", "values": ["sm_90", "sm_100"]},
    },
}
BACKENDS: Json = {
    "backends": {"MY_ATTN": {"about": "Attention kernels made in house."}},
    "providers": {"fa2": {"backend": "FLASH_ATTN", "about": "FlashAttention 2 as this house builds it."}},
}
ROLES: Json = {"roles": {"my_model.audio": "self", "ltx2.audio_self": None}}
MODELS: Json = {"models": [{"names": ["WanPipeline"], "disable": True}]}
WARNINGS: Json = {"warnings": [{"id": "blackwell-untested", "disable": True}]}
RULE_SET: Json = {
    "roles": {"roles": {"my_model.audio": "self"}},
    "warnings": {"warnings": []},
    "tables": {
        "platform_default": {"edits": EDITS["edits"]},
        "house_batches": {"new": True, "targets": "backends", "rows": _HOUSE_ROWS},
    },
}
