r"""A picture from text by a diffusers pipeline, with the attention backend of each role chosen by the selector.

python examples/text_to_image.py --model Qwen/Qwen-Image --prompt "a cat that decides" --output cat.png \
    --diffusion-attention-config.per_role.joint FLASH_ATTN
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generating import generate, options_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the flags, run the pipeline, write the picture."""
    options = options_of(__doc__ or "", arguments, height=1024, width=1024, output="image.png")
    return generate(options, save, height=options.height, width=options.width)


def save(result: Any, to: Path) -> None:  # noqa: ANN401 - diffusers has no types
    """Write the first picture; the name's ending is the format."""
    result.images[0].save(to)


if __name__ == "__main__":
    sys.exit(main())
