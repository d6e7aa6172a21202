"""Small models of each family with random weights, and what they are given; the classes are diffusers' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor

Inputs = dict[str, Any]
Untyped: TypeAlias = Any
"""What diffusers has no types for."""


@dataclass(frozen=True)
class Small:
    """A family: how a model of it is made, what it is given for a batch of prompts, and the roles of its modules.

    `lengths` are the valid text tokens of each prompt; a family that knows no padding takes them as one length.
    `fullgraph` says whether the stock model compiles as one graph.
    """

    name: str
    build: Callable[[], Untyped]
    inputs: Callable[[tuple[int, ...]], Inputs]
    roles: Mapping[str, int]
    fullgraph: bool = True
    pads: bool = False
    needs: str | None = field(default=None)

    def made(self) -> Untyped:
        """Give a model with weights that are the same each time, none of them zero."""
        torch.manual_seed(0)
        model = self.build().eval()
        for name, weight in model.named_parameters():
            # Zeros show nothing, and pad tokens are whatever stood in memory.
            if weight.dim() == 1 or name.endswith("pad_token") or weight.abs().max() == 0:
                torch.nn.init.normal_(weight, std=0.1)
        return model


def noise(*shape: int, seed: int = 1) -> Tensor:
    """Give random numbers, the same each time."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def keeps(lengths: tuple[int, ...], slots: int, *, first: bool = True) -> Tensor:
    """Give the padding mask of prompts, int64 `[batch, slots]`, padded behind or before."""
    positions = torch.arange(slots)
    rows = [positions < length if first else positions >= slots - length for length in lengths]
    return torch.stack(rows).long()


# --- Wan ---


def _wan() -> Untyped:
    from diffusers import WanTransformer3DModel

    return WanTransformer3DModel(
        num_attention_heads=2, attention_head_dim=16, in_channels=4, out_channels=4, text_dim=12, freq_dim=16,
        ffn_dim=24, num_layers=2, rope_max_seq_len=32,
    )  # fmt: skip


def _wan_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    return {
        "hidden_states": noise(batch, 4, 2, 8, 8),
        "timestep": torch.full((batch,), 500),
        "encoder_hidden_states": noise(batch, 9, 12, seed=2),
    }


# --- HunyuanVideo-1.5 ---


def _hunyuan() -> Untyped:
    from diffusers import HunyuanVideo15Transformer3DModel

    return HunyuanVideo15Transformer3DModel(
        in_channels=5, out_channels=4, num_attention_heads=2, attention_head_dim=16, num_layers=2,
        num_refiner_layers=1, mlp_ratio=2.0, text_embed_dim=12, text_embed_2_dim=10, image_embed_dim=8,
        rope_axes_dim=(4, 6, 6),
    )  # fmt: skip


def _hunyuan_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    return {
        "hidden_states": noise(batch, 5, 2, 4, 4),
        "timestep": torch.full((batch,), 500.0),
        "encoder_hidden_states": noise(batch, 12, 12, seed=2),
        "encoder_attention_mask": keeps(lengths, 12),
        "encoder_hidden_states_2": noise(batch, 6, 10, seed=3),
        "encoder_attention_mask_2": keeps(tuple(min(length // 3, 6) for length in lengths), 6),
        "image_embeds": torch.zeros(batch, 4, 8),
    }


# --- Qwen-Image ---


def _qwen() -> Untyped:
    from diffusers import QwenImageTransformer2DModel

    return QwenImageTransformer2DModel(
        patch_size=2, in_channels=16, out_channels=4, num_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=12, axes_dims_rope=(4, 6, 6),
    )  # fmt: skip


def _qwen_inputs(lengths: tuple[int, ...]) -> Inputs:
    import inspect

    from diffusers import QwenImageTransformer2DModel

    batch = len(lengths)
    older = "txt_seq_lens" in inspect.signature(QwenImageTransformer2DModel.forward).parameters
    given: Inputs = {
        "hidden_states": noise(batch, 16, 16),
        "encoder_hidden_states": noise(batch, 9, 12, seed=2),
        "encoder_hidden_states_mask": keeps(lengths, 9),
        "timestep": torch.full((batch,), 0.5),
        "img_shapes": [[(1, 4, 4)]] * batch,
    }
    return given | ({"txt_seq_lens": [9] * batch} if older else {})


# --- FLUX.1 ---


def _flux1() -> Untyped:
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(
        in_channels=8, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=12, pooled_projection_dim=16, guidance_embeds=True, axes_dims_rope=(4, 6, 6),
    )  # fmt: skip


def _flux1_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    return {
        "hidden_states": noise(batch, 16, 8),
        "encoder_hidden_states": noise(batch, 7, 12, seed=2),
        "pooled_projections": noise(batch, 16, seed=3),
        "timestep": torch.full((batch,), 0.5),
        "img_ids": torch.cartesian_prod(torch.arange(1), torch.arange(4), torch.arange(4)).float(),
        "txt_ids": torch.zeros(7, 3),
        "guidance": torch.full((batch,), 4.0),
    }


# --- FLUX.2 ---


def _flux2() -> Untyped:
    from diffusers import Flux2Transformer2DModel

    return Flux2Transformer2DModel(
        in_channels=8, num_layers=1, num_single_layers=2, attention_head_dim=16, num_attention_heads=2,
        joint_attention_dim=12, timestep_guidance_channels=16, axes_dims_rope=(4, 4, 4, 4),
    )  # fmt: skip


def _flux2_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    image = torch.cartesian_prod(torch.arange(1), torch.arange(4), torch.arange(4), torch.arange(1))
    text = torch.cartesian_prod(torch.arange(1), torch.arange(1), torch.arange(1), torch.arange(7))
    return {
        "hidden_states": noise(batch, 16, 8),
        "encoder_hidden_states": noise(batch, 7, 12, seed=2),
        "timestep": torch.full((batch,), 0.5),
        "img_ids": image.expand(batch, -1, -1).float(),
        "txt_ids": text.expand(batch, -1, -1).float(),
        "guidance": torch.full((batch,), 4.0),
    }


# --- LTX-2 ---


def _ltx2() -> Untyped:
    from diffusers import LTX2VideoTransformer3DModel

    return LTX2VideoTransformer3DModel(
        in_channels=8, out_channels=8, num_attention_heads=2, attention_head_dim=16, cross_attention_dim=32,
        audio_in_channels=6, audio_out_channels=6, audio_num_attention_heads=2, audio_attention_head_dim=8,
        audio_cross_attention_dim=16, num_layers=2, caption_channels=12, rope_double_precision=False,
    )  # fmt: skip


def _ltx2_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    return {
        "hidden_states": noise(batch, 2 * 3 * 3, 8),
        "audio_hidden_states": noise(batch, 5, 6, seed=2),
        "encoder_hidden_states": noise(batch, 9, 12, seed=3),
        "audio_encoder_hidden_states": noise(batch, 9, 12, seed=4),
        "timestep": torch.full((batch, 1), 500.0),
        "encoder_attention_mask": keeps(lengths, 9),
        "audio_encoder_attention_mask": keeps(lengths, 9),
        "num_frames": 2,
        "height": 3,
        "width": 3,
        "audio_num_frames": 5,
    }


def _connectors() -> Untyped:
    from diffusers.pipelines.ltx2 import LTX2TextConnectors

    return LTX2TextConnectors(
        caption_channels=6, text_proj_in_factor=3, video_connector_num_attention_heads=2,
        video_connector_attention_head_dim=3, video_connector_num_layers=1, video_connector_num_learnable_registers=4,
        audio_connector_num_attention_heads=2, audio_connector_attention_head_dim=3, audio_connector_num_layers=1,
        audio_connector_num_learnable_registers=4, rope_double_precision=False,
    )  # fmt: skip


def _connectors_inputs(lengths: tuple[int, ...]) -> Inputs:
    return {
        "text_encoder_hidden_states": noise(len(lengths), 12, 6, 3),
        "attention_mask": keeps(lengths, 12, first=False),
    }


# --- Stable Diffusion 3 ---


def _sd3() -> Untyped:
    from diffusers import SD3Transformer2DModel

    return SD3Transformer2DModel(
        sample_size=8, patch_size=2, in_channels=4, num_layers=2, attention_head_dim=8, num_attention_heads=4,
        joint_attention_dim=12, caption_projection_dim=32, pooled_projection_dim=16, out_channels=4,
        pos_embed_max_size=16, dual_attention_layers=(0,), qk_norm="rms_norm",
    )  # fmt: skip


def _sd3_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    return {
        "hidden_states": noise(batch, 4, 8, 8),
        "encoder_hidden_states": noise(batch, 7, 12, seed=2),
        "pooled_projections": noise(batch, 16, seed=3),
        "timestep": torch.full((batch,), 500),
    }


# --- Z-Image ---


def _z_image() -> Untyped:
    from diffusers import ZImageTransformer2DModel

    return ZImageTransformer2DModel(
        in_channels=4, dim=32, n_layers=2, n_refiner_layers=1, n_heads=2, n_kv_heads=2, cap_feat_dim=12,
        axes_dims=[4, 6, 6], axes_lens=[256, 32, 32],
    )  # fmt: skip


def _z_image_inputs(lengths: tuple[int, ...]) -> Inputs:
    return {
        "x": [noise(4, 1, 8, 8, seed=i) for i in range(len(lengths))],
        "t": torch.full((len(lengths),), 0.5),
        "cap_feats": [noise(4 * length, 12, seed=9 + i) for i, length in enumerate(lengths)],
    }


# --- Stable Diffusion XL ---


def _sdxl() -> Untyped:
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, block_out_channels=(16, 32), layers_per_block=1,
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"), up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(2, 4), cross_attention_dim=12, transformer_layers_per_block=(1, 2), norm_num_groups=8,
        use_linear_projection=True, addition_embed_type="text_time", addition_time_embed_dim=8,
        projection_class_embeddings_input_dim=6 * 8 + 10,
    )  # fmt: skip


def _sdxl_inputs(lengths: tuple[int, ...]) -> Inputs:
    batch = len(lengths)
    return {
        "sample": noise(batch, 4, 8, 8),
        "timestep": torch.tensor(500),
        "encoder_hidden_states": noise(batch, 9, 12, seed=2),
        "encoder_attention_mask": None if min(lengths) == 9 else keeps(lengths, 9),
        "added_cond_kwargs": {"text_embeds": noise(batch, 10, seed=3), "time_ids": torch.ones(batch, 6)},
    }


FAMILIES = (
    Small("wan", _wan, _wan_inputs, {"self": 2, "cross": 2}),
    Small("hunyuan_video15", _hunyuan, _hunyuan_inputs, {"joint": 2, "self": 1}, fullgraph=False, pads=True),
    Small("qwen_image", _qwen, _qwen_inputs, {"joint": 2}, pads=True),
    Small("flux1", _flux1, _flux1_inputs, {"joint": 3}),
    Small("flux2", _flux2, _flux2_inputs, {"joint": 3}),
    Small(
        "ltx2", _ltx2, _ltx2_inputs,
        {
            "self": 2, "cross": 2, "ltx2.audio_self": 2, "ltx2.audio_text_cross": 2, "ltx2.audio_to_video": 2,
            "ltx2.video_to_audio": 2,
        },
        pads=True, needs="LTX2VideoTransformer3DModel",
    ),
    Small("ltx2_connectors", _connectors, _connectors_inputs, {"ltx2.connector": 2}, pads=True,
          needs="LTX2VideoTransformer3DModel"),
    Small("sd3", _sd3, _sd3_inputs, {"joint": 2, "self": 1}),
    Small("z_image", _z_image, _z_image_inputs, {"joint": 2, "self": 2}, fullgraph=False, pads=True),
    Small("sdxl", _sdxl, _sdxl_inputs, {"self": 8, "cross": 8}, pads=True),
)  # fmt: skip
BY_NAME = {family.name: family for family in FAMILIES}
