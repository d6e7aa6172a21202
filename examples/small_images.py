"""Small pipelines of pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from small_parts import WIDTH, Made, drawn, length, of_diffusers, scheduler, vae


def _qwen(prompt: str) -> Made:
    pipeline = of_diffusers("QwenImagePipeline")(
        tokenizer=None,
        text_encoder=None,
        vae=of_diffusers("AutoencoderKLQwenImage")(base_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
        scheduler=scheduler(),
        transformer=of_diffusers("QwenImageTransformer2DModel")(
            num_attention_heads=2, num_layers=2, joint_attention_dim=WIDTH
        ),
    )
    words = length(prompt)
    keep = torch.ones(1, words, dtype=torch.int64)
    embeds = {"prompt_embeds": drawn(prompt, 1, words, WIDTH), "prompt_embeds_mask": keep}
    return pipeline, {**embeds, "true_cfg_scale": 1.0}


def _flux1(prompt: str) -> Made:
    pipeline = of_diffusers("FluxPipeline")(
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        vae=vae(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.0),
        scheduler=scheduler(),
        transformer=of_diffusers("FluxTransformer2DModel")(
            num_layers=1,
            num_single_layers=2,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            pooled_projection_dim=WIDTH,
            guidance_embeds=True,
        ),
    )
    return pipeline, {"prompt_embeds": drawn(prompt, 1, 24, WIDTH), "pooled_prompt_embeds": drawn(prompt, 1, WIDTH)}


def _flux2(prompt: str) -> Made:
    pipeline = of_diffusers("Flux2Pipeline")(
        tokenizer=None,
        text_encoder=None,
        vae=vae("AutoencoderKLFlux2", latent_channels=4),
        scheduler=scheduler(),
        transformer=of_diffusers("Flux2Transformer2DModel")(
            in_channels=16,
            num_layers=1,
            num_single_layers=2,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            timestep_guidance_channels=32,
        ),
    )
    return pipeline, {"prompt_embeds": drawn(prompt, 1, 24, WIDTH)}


def _z_image(prompt: str) -> Made:
    pipeline = of_diffusers("ZImagePipeline")(
        tokenizer=None,
        text_encoder=None,
        vae=vae(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.0),
        scheduler=scheduler(),
        transformer=of_diffusers("ZImageTransformer2DModel")(
            dim=256, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=WIDTH
        ),
    )
    for name, weight in pipeline.transformer.named_parameters():
        if name.endswith("pad_token"):  # older versions leave in it whatever stood in memory
            torch.nn.init.normal_(weight, std=0.02)
    texts = {"prompt_embeds": prompt, "negative_prompt_embeds": ""}
    return pipeline, {name: [drawn(text, length(text), WIDTH)] for name, text in texts.items()}


def _sd3(prompt: str) -> Made:
    encoders = ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "text_encoder_3", "tokenizer_3")
    pipeline = of_diffusers("StableDiffusion3Pipeline")(
        **dict.fromkeys(encoders),
        vae=vae(latent_channels=16, use_quant_conv=False, use_post_quant_conv=False, shift_factor=0.0),
        scheduler=scheduler(),
        transformer=of_diffusers("SD3Transformer2DModel")(
            sample_size=8,
            num_layers=2,
            num_attention_heads=2,
            joint_attention_dim=WIDTH,
            caption_projection_dim=128,
            pooled_projection_dim=WIDTH,
            dual_attention_layers=(0,),
        ),
    )
    return pipeline, _with_pooled(prompt)


def _sdxl(prompt: str) -> Made:
    encoders = ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2")
    pipeline = of_diffusers("StableDiffusionXLPipeline")(
        **dict.fromkeys(encoders),
        vae=vae(latent_channels=4),
        scheduler=of_diffusers("EulerDiscreteScheduler")(),
        unet=of_diffusers("UNet2DConditionModel")(
            sample_size=8,
            block_out_channels=(32, 64),
            layers_per_block=1,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            attention_head_dim=(2, 4),
            cross_attention_dim=WIDTH,
            transformer_layers_per_block=(1, 2),
            norm_num_groups=8,
            use_linear_projection=True,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=6 * 8 + WIDTH,
        ),
    )
    return pipeline, _with_pooled(prompt)


def _with_pooled(prompt: str) -> dict[str, Any]:
    embeds = {"prompt_embeds": drawn(prompt, 1, 24, WIDTH), "pooled_prompt_embeds": drawn(prompt, 1, WIDTH)}
    empty = {"negative_prompt_embeds": drawn("", 1, 24, WIDTH), "negative_pooled_prompt_embeds": drawn("", 1, WIDTH)}
    return embeds | empty


IMAGES: Mapping[str, Callable[[str], Made]] = {
    "qwenimage": _qwen,
    "flux1": _flux1,
    "flux2": _flux2,
    "zimage": _z_image,
    "stablediffusion3": _sd3,
    "stablediffusionxl": _sdxl,
}
"""By what a model's name has in it, letters and digits alone."""
