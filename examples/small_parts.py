"""What the small pipelines share: diffusers' classes, numbers drawn from a prompt, and a VAE of pictures."""

from __future__ import annotations

import zlib
from typing import Any

import torch
from example_error import ExampleError

Made = tuple[Any, dict[str, Any]]
"""A pipeline, and what its call takes beside sizes and steps."""
WIDTH = 16
"""Numbers of an embedding."""
SLOTS = 32
"""Tokens that a prompt is padded to, where a family pads."""


def of_diffusers(name: str) -> Any:  # noqa: ANN401 - diffusers has no types
    """Give a class of diffusers. Raises `ExampleError` where the installed version has none of that name."""
    import diffusers

    found = getattr(diffusers, name, None)
    if found is None:
        raise ExampleError(f"diffusers {diffusers.__version__} has no {name}: this model needs a newer version")
    return found


def drawn(prompt: str, *shape: int) -> torch.Tensor:
    """Draw numbers, the same each time for the same prompt."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(zlib.crc32(prompt.encode())))


def length(prompt: str) -> int:
    """Count the tokens that stand for a prompt: one for each word, and one more."""
    return min(len(prompt.split()) + 1, SLOTS)


def padded(prompt: str, *, behind: bool = True) -> torch.Tensor:
    """Give the padding mask of a prompt, int64 `[1, SLOTS]`: 1 for its tokens, 0 for those behind or before them."""
    keep = torch.arange(SLOTS) < length(prompt)
    return (keep if behind else keep.flip(0)).long()[None]


def scheduler(**options: object) -> Any:  # noqa: ANN401 - diffusers has no types
    """Make the scheduler that all but UNets denoise with."""
    return of_diffusers("FlowMatchEulerDiscreteScheduler")(**options)


def vae(name: str = "AutoencoderKL", **options: object) -> Any:  # noqa: ANN401 - diffusers has no types
    """Make a VAE of pictures, which are eight times as high and wide as its latents."""
    return of_diffusers(name)(
        block_out_channels=(8,) * 4,
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        norm_num_groups=4,
        layers_per_block=1,
        **options,
    )
