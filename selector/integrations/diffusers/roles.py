"""Which role a module of attention has: by its name where a model says so, else by how it is built."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from selector.integrations.diffusers.untyped import Untyped

ROLES: Mapping[str, Mapping[str, str]] = {
    "Flux2Transformer2DModel": {"*": "joint"},
    "FluxTransformer2DModel": {"*": "joint"},
    "HunyuanVideo15Transformer3DModel": {"context_embedder.*": "self", "*": "joint"},
    "LTX2TextConnectors": {"*": "ltx2.connector"},
    "LTX2VideoTransformer3DModel": {
        "*.audio_to_video_attn": "ltx2.audio_to_video",
        "*.video_to_audio_attn": "ltx2.video_to_audio",
        "*.audio_attn1": "ltx2.audio_self",
        "*.audio_attn2": "ltx2.audio_text_cross",
        "*.attn1": "self",
        "*.attn2": "cross",
    },
    "ZImageTransformer2DModel": {"noise_refiner.*": "self", "context_refiner.*": "self", "*": "joint"},
}
"""By the class of the component: a pattern of the module's name → role; the first that fits counts.

Blocks over image and text in one sequence (FLUX's single blocks, Z-Image's layers) are `joint`, as in `models.yaml`.
"""
PIPELINES: Mapping[str, str] = {
    "Flux2Transformer2DModel": "Flux2Pipeline",
    "HunyuanVideo15Transformer3DModel": "HunyuanVideo15Pipeline",
    "LTX2TextConnectors": "LTX2Pipeline",
    "LTX2VideoTransformer3DModel": "LTX2Pipeline",
    "QwenImageTransformer2DModel": "QwenImagePipeline",
    "WanTransformer3DModel": "WanPipeline",
    "WanVACETransformer3DModel": "WanVACEPipeline",
}
"""The name under which `models.yaml` knows the model of a component that comes without its pipeline."""


def role_of(component: str, name: str, module: Untyped) -> str:
    """Give the role of a module by its name inside a component of that class."""
    for pattern, role in ROLES.get(component, {}).items():
        if fnmatchcase(name, pattern):
            return role
    if getattr(module, "is_cross_attention", False):
        return "cross"
    return "self" if getattr(module, "add_q_proj", None) is None else "joint"
