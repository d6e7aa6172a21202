"""Small pipelines of videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from small_parts import SLOTS, WIDTH, Made, drawn, of_diffusers, padded, scheduler


def _wan(prompt: str) -> Made:
    pipeline = of_diffusers("WanPipeline")(
        tokenizer=None,
        text_encoder=None,
        vae=of_diffusers("AutoencoderKLWan")(base_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
        scheduler=scheduler(),
        transformer=of_diffusers("WanTransformer3DModel")(
            num_attention_heads=2, text_dim=WIDTH, freq_dim=32, ffn_dim=64, num_layers=2
        ),
    )
    texts = {"prompt_embeds": prompt, "negative_prompt_embeds": ""}
    return pipeline, {name: drawn(text, 1, SLOTS, WIDTH) for name, text in texts.items()}


def _hunyuan(prompt: str) -> Made:
    encoders = ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2")
    pipeline = of_diffusers("HunyuanVideo15Pipeline")(
        **dict.fromkeys(encoders),
        vae=of_diffusers("AutoencoderKLHunyuanVideo15")(
            latent_channels=8, block_out_channels=(16,) * 5, layers_per_block=1
        ),
        scheduler=scheduler(shift=5.0),
        transformer=of_diffusers("HunyuanVideo15Transformer3DModel")(
            in_channels=2 * 8 + 1,
            out_channels=8,
            num_attention_heads=2,
            num_layers=2,
            num_refiner_layers=1,
            mlp_ratio=2.0,
            text_embed_dim=WIDTH,
            text_embed_2_dim=WIDTH,
            image_embed_dim=WIDTH,
        ),
        guider=of_diffusers("ClassifierFreeGuidance")(guidance_scale=6.0),
    )
    pipeline.vision_num_semantic_tokens = 9  # of 729, which stand for a picture that is not given
    return pipeline, _two_texts("", prompt) | _two_texts("negative_", "")


def _two_texts(which: str, prompt: str) -> dict[str, Any]:
    """Give both texts of HunyuanVideo-1.5; the second is what stands in quotes in a prompt, here nothing."""
    return {
        f"{which}prompt_embeds": drawn(prompt, 1, SLOTS, WIDTH),
        f"{which}prompt_embeds_mask": padded(prompt),
        f"{which}prompt_embeds_2": torch.zeros(1, 8, WIDTH),
        f"{which}prompt_embeds_mask_2": torch.zeros(1, 8, dtype=torch.int64),
    }


_LAYERS = 3
_MEL = 16


def _ltx2(prompt: str) -> Made:
    made = of_diffusers("LTX2Pipeline")
    from diffusers.pipelines.ltx2 import LTX2Vocoder

    pipeline = made(
        tokenizer=None,
        text_encoder=None,
        vae=_ltx2_vae(),
        audio_vae=of_diffusers("AutoencoderKLLTX2Audio")(
            base_channels=8, latent_channels=2, num_res_blocks=1, mel_bins=_MEL
        ),
        scheduler=scheduler(use_dynamic_shifting=True),
        connectors=_ltx2_connectors(),
        transformer=of_diffusers("LTX2VideoTransformer3DModel")(
            in_channels=8,
            out_channels=8,
            num_attention_heads=2,
            cross_attention_dim=2 * 128,
            audio_in_channels=8,
            audio_out_channels=8,
            audio_num_attention_heads=2,
            audio_cross_attention_dim=2 * 64,
            num_layers=2,
            caption_channels=WIDTH,
        ),
        vocoder=LTX2Vocoder(in_channels=2 * _MEL, hidden_channels=64),
    )
    given: dict[str, Any] = {"spatio_temporal_guidance_blocks": [1]}
    for which, text in (("", prompt), ("negative_", "")):
        given[f"{which}prompt_embeds"] = drawn(text, 1, SLOTS, WIDTH * _LAYERS)
        given[f"{which}prompt_attention_mask"] = padded(text, behind=False)
    return pipeline, given


def _ltx2_vae() -> Any:  # noqa: ANN401 - diffusers has no types
    return of_diffusers("AutoencoderKLLTX2Video")(
        latent_channels=8,
        block_out_channels=(8, 16, 32, 64),
        decoder_block_out_channels=(8, 16, 32),
        layers_per_block=(1,) * 5,
        decoder_layers_per_block=(1,) * 4,
        spatial_compression_ratio=32,
        temporal_compression_ratio=8,
    )


def _ltx2_connectors() -> Any:  # noqa: ANN401 - diffusers has no types
    from diffusers.pipelines.ltx2 import LTX2TextConnectors

    sizes = {"num_attention_heads": 2, "attention_head_dim": WIDTH // 2, "num_layers": 1, "num_learnable_registers": 8}
    both = {f"{which}_connector_{name}": size for which in ("video", "audio") for name, size in sizes.items()}
    return LTX2TextConnectors(caption_channels=WIDTH, text_proj_in_factor=_LAYERS, **both)


VIDEOS: Mapping[str, Callable[[str], Made]] = {"wan": _wan, "hunyuanvideo15": _hunyuan, "ltx2": _ltx2}
"""By what a model's name has in it, letters and digits alone."""
