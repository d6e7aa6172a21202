"""Videos, with their sound if they have one, as files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from example_error import ExampleError

if TYPE_CHECKING:
    import numpy as np


class Sound(NamedTuple):
    """Samples `[channels, samples]` from -1 to 1, float32, and how many of them make a second."""

    samples: np.ndarray
    rate: int


def check(to: Path) -> None:
    """Raise `ExampleError` for a file that `write` cannot write here."""
    if to.suffix not in _WRITERS:
        raise ExampleError(f"--output {to}: wanted a name that ends in {' or '.join(_WRITERS)}")
    if to.suffix == ".mp4":
        try:
            import av  # noqa: F401 - whether it is there
        except ImportError as error:
            raise ExampleError(f"--output {to}: an mp4 needs PyAV; pip install av, or name a gif") from error


def write(to: Path, frames: np.ndarray, fps: int, sound: Sound | None) -> None:
    """Write frames `[frames, height, width, 3]` of numbers from 0 to 1, and the sound; the name's ending decides how.

    A gif has no sound: it is left out, and standard error says so.
    """
    _WRITERS[to.suffix](to, (frames * 255).round().astype("uint8"), fps, sound)


def _write_gif(to: Path, frames: np.ndarray, fps: int, sound: Sound | None) -> None:
    from PIL import Image

    first, *others = [Image.fromarray(frame) for frame in frames]
    first.save(to, save_all=True, append_images=others, duration=1000 // fps, loop=0)
    if sound is not None:
        seconds = sound.samples.shape[1] / sound.rate
        print(f"{to}: {seconds:.2f} s of sound are left out, for a gif has none; an mp4 takes them", file=sys.stderr)


def _write_mp4(to: Path, frames: np.ndarray, fps: int, sound: Sound | None) -> None:
    import av

    with av.open(str(to), "w") as file:
        video = file.add_stream("libx264", rate=fps)
        video.height, video.width = frames.shape[1:3]
        video.pix_fmt = "yuv420p"
        streams = [(video, (av.VideoFrame.from_ndarray(frame, format="rgb24") for frame in frames))]
        if sound is not None:
            layout = "mono" if len(sound.samples) == 1 else "stereo"
            streams.append((file.add_stream("aac", rate=sound.rate, layout=layout), _sounding(sound, layout)))
        for stream, pieces in streams:
            for piece in (*pieces, None):  # None: what the encoder still holds
                file.mux(stream.encode(piece))


def _sounding(sound: Sound, layout: str) -> Iterator[Any]:
    import av

    frame = av.AudioFrame.from_ndarray(sound.samples, format="fltp", layout=layout)
    frame.sample_rate = sound.rate
    yield frame


_WRITERS = {".mp4": _write_mp4, ".gif": _write_gif}
