"""Where the models that bring masks have them: HunyuanVideo-1.5, Qwen-Image, LTX-2 and its text connectors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from backends.masks import AllKeep, KeyLengths, KeyPadding, Mask
from backends.prepare import prepare_mask
from selector.integrations.diffusers.recognised import NOTHING, Found, Known
from selector.integrations.diffusers.untyped import Untyped

if TYPE_CHECKING:
    from torch import Tensor


class Family(NamedTuple):
    """How the masks of a component are found: from which tensors, with their values and (compiled) without."""

    tensors: tuple[str, ...]
    eager: Callable[[Untyped, Mapping[str, Any]], Found]
    traced: Callable[[Untyped, Mapping[str, Any]], Found]


# --- Qwen-Image: keys are [text | image], and only text is padded ---


def _qwen(module: Untyped, given: Mapping[str, Any]) -> Found:  # noqa: ARG001
    text = given.get("encoder_hidden_states_mask")
    if text is None:
        return NOTHING
    keep = _with_ones(text.bool(), given["hidden_states"].shape[1], before=False)
    mask = prepare_mask(KeyPadding(keep)).mask
    if isinstance(mask, AllKeep):
        return Found({}, {"encoder_hidden_states_mask": None})
    return Found({"joint": Known(mask, *keep.shape)})


def _qwen_traced(module: Untyped, given: Mapping[str, Any]) -> Found:  # noqa: ARG001
    text = given.get("encoder_hidden_states_mask")
    if text is None:
        return NOTHING
    keep = _with_ones(text.bool(), given["hidden_states"].shape[1], before=False)
    return Found({"joint": Known(KeyPadding(keep), *keep.shape)})


def _with_ones(keep: Tensor, count: int, *, before: bool) -> Tensor:
    ones = keep.new_ones(keep.shape[0], count)
    return torch.cat((ones, keep) if before else (keep, ones), dim=1)


# --- HunyuanVideo-1.5: keys are [video | valid text | padding]; its own text refiner has the first text alone ---


def _hunyuan(module: Untyped, given: Mapping[str, Any]) -> Found:
    text = given["encoder_attention_mask"].bool()
    valid = _valid_text(given)
    slots, video = valid.slots, _video_tokens(module, given["hidden_states"])
    counts: tuple[int, ...] = tuple(valid.counts.tolist())  # read once, as those of the refiner are
    refiner = Known(prepare_mask(KeyPadding(text)).mask, *text.shape)
    longest = max(counts)
    mask: Mask = AllKeep() if min(counts) == longest else KeyLengths(
        tuple(video + count for count in counts), video + longest
    )  # fmt: skip
    joint = Known(mask, len(counts), video + longest)
    return Found({"joint": joint, "self": refiner}, text_len=None if longest == slots else longest)


def _hunyuan_traced(module: Untyped, given: Mapping[str, Any]) -> Found:
    text = given["encoder_attention_mask"].bool()
    valid = _valid_text(given)
    slots = torch.arange(valid.slots, device=text.device)
    keep = _with_ones(slots < valid.counts[:, None], _video_tokens(module, given["hidden_states"]), before=True)
    return Found({"joint": Known(KeyPadding(keep), *keep.shape), "self": Known(KeyPadding(text), *text.shape)})


class _Text(NamedTuple):
    counts: Tensor
    slots: int


def _valid_text(given: Mapping[str, Any]) -> _Text:
    """How many text tokens of each batch are valid, and how many slots there are; no value is read."""
    first, second, image = given["encoder_attention_mask"], given["encoder_attention_mask_2"], given["image_embeds"]
    counts = first.bool().sum(dim=1) + second.bool().sum(dim=1) + (image != 0).any() * image.shape[1]
    return _Text(counts, first.shape[1] + second.shape[1] + image.shape[1])


def _video_tokens(module: Untyped, latents: Tensor) -> int:
    config = module.config
    frames, height, width = latents.shape[2:]
    tokens: int = (frames // config.patch_size_t) * (height // config.patch_size) * (width // config.patch_size)
    return tokens


# --- LTX-2: text masks of ones and zeros, made into biases of -10000 ---


def _ltx2(module: Untyped, given: Mapping[str, Any]) -> Found:  # noqa: ARG001
    masks: dict[str, Known] = {}
    instead: dict[str, None] = {}
    for name, role in (("encoder_attention_mask", "cross"), ("audio_encoder_attention_mask", "ltx2.audio_text_cross")):
        given_mask = given.get(name)
        if given_mask is None or given_mask.dim() != 2 or not _is_padding(given_mask):  # noqa: PLR2004 - [batch, text]
            continue
        mask = prepare_mask(KeyPadding(given_mask.bool())).mask
        if isinstance(mask, AllKeep):
            instead[name] = None
        else:
            masks[role] = Known(mask, *given_mask.shape)
    return Found(masks, instead)


def _is_padding(mask: Tensor) -> bool:
    """Whether a mask `[batch, text]` is of ones and zeros, with a one in each batch: then its bias hides."""
    return bool(((mask == 0) | (mask == 1)).all() & (mask == 1).any(dim=1).all())


def _nothing(module: Untyped, given: Mapping[str, Any]) -> Found:  # noqa: ARG001
    return NOTHING


# --- LTX-2's text connectors: registers take the place of padding, so that nothing is hidden ---


def _connectors(module: Untyped, given: Mapping[str, Any]) -> Found:
    registers = [getattr(module, name, None) for name in ("video_connector", "audio_connector")]
    text = given.get("attention_mask")
    if text is None or any(getattr(connector, "learnable_registers", None) is None for connector in registers):
        return NOTHING
    return Found({"ltx2.connector": Known(AllKeep(), *text.shape)})


_QWEN = Family(("encoder_hidden_states_mask",), _qwen, _qwen_traced)
FAMILIES: Mapping[str, Family] = {
    "HunyuanVideo15Transformer3DModel": Family(
        ("encoder_attention_mask", "encoder_attention_mask_2", "image_embeds"), _hunyuan, _hunyuan_traced
    ),
    "QwenImageTransformer2DModel": _QWEN,
    "LTX2VideoTransformer3DModel": Family(("encoder_attention_mask", "audio_encoder_attention_mask"), _ltx2, _nothing),
    "LTX2TextConnectors": Family((), _connectors, _connectors),
}
"""By the class of the component."""
