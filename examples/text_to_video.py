r"""A video from text by a diffusers pipeline, with the attention backend of each role chosen by the selector.

python examples/text_to_video.py --model Wan-AI/Wan2.2-TI2V-5B-Diffusers --prompt "a cat that decides" \
    --num-frames 49 --height 704 --width 1280 --output cat.mp4 --diffusion-attention-backend FLASH_ATTN

An mp4 needs imageio and imageio-ffmpeg; a gif needs nothing more.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from generating import generate, options_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the flags, run the pipeline, write the video."""
    options = options_of(__doc__ or "", arguments, height=480, width=832, num_frames=33, fps=16, output="video.gif")

    def save(result: Any, to: Path) -> None:  # noqa: ANN401 - diffusers has no types
        from diffusers.utils import export_to_gif, export_to_video
        from PIL import Image

        frames = [Image.fromarray((frame * 255).round().astype("uint8")) for frame in result.frames[0]]
        export = export_to_gif if to.suffix == ".gif" else export_to_video
        export(frames, str(to), fps=options.fps)

    return generate(options, save, height=options.height, width=options.width, num_frames=options.num_frames)


if __name__ == "__main__":
    sys.exit(main())
