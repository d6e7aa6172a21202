"""Pipelines of real families with random weights, small enough for a CPU and made without a network.

Their text encoders are left out: numbers drawn from the prompt stand for its embeddings, so that another prompt gives
another picture, of noise.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import torch

Given = dict[str, Any]


def small(model: str, prompt: str) -> tuple[Any, Given]:
    """Give a pipeline of the family that the model's name has in it, and what its call takes beside sizes and steps.

    Raises `ValueError` for a name of none of the families.
    """
    plain = "".join(letter for letter in model.lower() if letter.isalnum())
    for family, make in FAMILIES.items():
        if family in plain:
            torch.manual_seed(0)
            return make(prompt)
    raise ValueError(f"`--model {model}`: wanted a name with one of {', '.join(FAMILIES)} in it for random weights")


def _drawn(prompt: str, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(zlib.crc32(prompt.encode())))


def _scheduler(**options: object) -> Any:  # noqa: ANN401 - diffusers has no types
    from diffusers import FlowMatchEulerDiscreteScheduler

    return FlowMatchEulerDiscreteScheduler(**options)


def _wan(prompt: str) -> tuple[Any, Given]:
    from diffusers import AutoencoderKLWan, WanPipeline, WanTransformer3DModel

    pipeline = WanPipeline(
        tokenizer=None,
        text_encoder=None,
        vae=AutoencoderKLWan(base_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
        scheduler=_scheduler(),
        transformer=WanTransformer3DModel(
            num_attention_heads=2,
            attention_head_dim=128,
            text_dim=16,
            freq_dim=32,
            ffn_dim=64,
            num_layers=2,
        ),
    )
    embeds = {"prompt_embeds": _drawn(prompt, 1, 32, 16), "negative_prompt_embeds": _drawn("", 1, 32, 16)}
    return pipeline, embeds


def _qwen(prompt: str) -> tuple[Any, Given]:
    from diffusers import AutoencoderKLQwenImage, QwenImagePipeline, QwenImageTransformer2DModel

    pipeline = QwenImagePipeline(
        tokenizer=None,
        text_encoder=None,
        vae=AutoencoderKLQwenImage(base_dim=4, dim_mult=[1, 1, 1, 1], num_res_blocks=1),
        scheduler=_scheduler(),
        transformer=QwenImageTransformer2DModel(num_attention_heads=2, num_layers=2, joint_attention_dim=16),
    )
    words = len(prompt.split()) + 1
    keep = torch.ones(1, words, dtype=torch.int64)
    return pipeline, {"prompt_embeds": _drawn(prompt, 1, words, 16), "prompt_embeds_mask": keep, "true_cfg_scale": 1.0}


def _sd3(prompt: str) -> tuple[Any, Given]:
    from diffusers import AutoencoderKL, SD3Transformer2DModel, StableDiffusion3Pipeline

    names = ("text_encoder", "tokenizer", "text_encoder_2", "tokenizer_2", "text_encoder_3", "tokenizer_3")
    pipeline = StableDiffusion3Pipeline(
        **dict.fromkeys(names),
        vae=AutoencoderKL(
            block_out_channels=(8, 8, 8, 8),
            down_block_types=("DownEncoderBlock2D",) * 4,
            up_block_types=("UpDecoderBlock2D",) * 4,
            latent_channels=16,
            norm_num_groups=4,
            use_quant_conv=False,
            use_post_quant_conv=False,
            shift_factor=0.0,
        ),
        scheduler=_scheduler(),
        transformer=SD3Transformer2DModel(
            sample_size=8,
            num_layers=2,
            num_attention_heads=2,
            joint_attention_dim=16,
            caption_projection_dim=128,
            pooled_projection_dim=16,
        ),
    )
    embeds = {"prompt_embeds": _drawn(prompt, 1, 24, 16), "pooled_prompt_embeds": _drawn(prompt, 1, 16)}
    empty = {"negative_prompt_embeds": _drawn("", 1, 24, 16), "negative_pooled_prompt_embeds": _drawn("", 1, 16)}
    return pipeline, embeds | empty


FAMILIES: Mapping[str, Callable[[str], tuple[Any, Given]]] = {
    "wan": _wan,
    "qwenimage": _qwen,
    "stablediffusion3": _sd3,
}
"""By what a model's name has in it, letters and digits alone."""
