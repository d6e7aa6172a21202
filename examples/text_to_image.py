r"""A picture from text by a diffusers pipeline, with the attention backend of each role chosen by the selector.

python examples/text_to_image.py --model Qwen/Qwen-Image --prompt "a cat that decides" --output cat.png \
    --diffusion-attention-config.per_role.joint TORCH_SDPA
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from generating import Size, generate, options_of
from small_images import IMAGES

SIZES = {"height": Size(real=1024, small=64), "width": Size(real=1024, small=64)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the flags, run the pipeline, write the picture; its name's ending is the format."""
    options = options_of(__doc__ or "", arguments, SIZES, "image.png")

    def save(pipeline: Any, result: Any) -> None:  # noqa: ANN401, ARG001 - diffusers has no types
        result.images[0].save(options.output)

    return generate(options, IMAGES, save)


if __name__ == "__main__":
    sys.exit(main())
