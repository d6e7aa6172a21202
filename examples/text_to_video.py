r"""A video from text by a diffusers pipeline, with the attention backend of each role chosen by the selector.

python examples/text_to_video.py --model Wan-AI/Wan2.2-TI2V-5B-Diffusers --prompt "a cat that decides" \
    --output cat.mp4 --diffusion-attention-config.per_role.cross TORCH_SDPA

The file is an mp4, with the sound that LTX-2 makes, or a gif, without.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import writing
from example_error import ExampleError
from generating import Size, generate, options_of
from small_videos import VIDEOS

SIZES = {
    "height": Size(real=480, small=64),
    "width": Size(real=832, small=64),
    "num_frames": Size(real=33, small=9),
    "fps": Size(real=16, small=16),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the flags, run the pipeline, write the video."""
    options = options_of(__doc__ or "", arguments, SIZES, "video.mp4")
    try:
        writing.check(options.output)
    except ExampleError as error:
        print(error, file=sys.stderr)
        return 2

    def save(pipeline: Any, result: Any) -> None:  # noqa: ANN401 - diffusers has no types
        writing.write(options.output, result.frames[0], options.fps, sound_of(pipeline, result))

    return generate(options, VIDEOS, save, output_type="np")


def sound_of(pipeline: Any, result: Any) -> writing.Sound | None:  # noqa: ANN401 - diffusers has no types
    """Give the sound that was made with the video, if any."""
    sound = getattr(result, "audio", None)
    if sound is None:
        return None
    return writing.Sound(sound[0].float().cpu().numpy(), pipeline.vocoder.config.output_sampling_rate)


if __name__ == "__main__":
    sys.exit(main())
