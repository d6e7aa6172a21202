"""What the examples share: their flags, a pipeline, and the backend of each role applied to it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from example_error import ExampleError
from small_pipelines import small

from selector import Selector
from selector.command.inputs import config
from selector.command.usage import CONFIG_FLAG, UsageError, take_dotted
from selector.decision import SelectionError
from selector.rules.problems import ProblemsError

if TYPE_CHECKING:
    from small_parts import Made

PREFIX = f"{CONFIG_FLAG}."


class Size(NamedTuple):
    """What a flag is where it is not given: for a real model, and for a small one of random weights."""

    real: int
    small: int


STEPS = Size(real=30, small=2)


def options_of(about: str, arguments: Sequence[str] | None, sizes: Mapping[str, Size], output: str) -> Any:  # noqa: ANN401
    """Read the flags; `sizes` are those that the example takes, `output` the file where none is named."""
    parser = argparse.ArgumentParser(
        description=about, allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", required=True, metavar="ID|FOLDER", help="a hub id, or a folder with its files")
    parser.add_argument("--prompt", required=True)
    parser.add_argument("--output", type=Path, default=Path(output), metavar="FILE", help=f"default: {output}")
    numbers = {**sizes, "num_inference_steps": STEPS}
    for name, size in numbers.items():
        told = f"default: {size.real}" + (f", of random weights {size.small}" if size.small != size.real else "")
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N", help=told)
    parser.add_argument("--guidance-scale", type=float, metavar="X", help="default: the pipeline's")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="default: the GPU, or the CPU where there is none")
    parser.add_argument(
        "--random-weights", action="store_true", help="a small pipeline of the model's family, without any download"
    )
    group = parser.add_argument_group("attention", f"also {PREFIX}PATH VALUE, as in {PREFIX}per_role.cross TORCH_SDPA")
    group.add_argument("--diffusion-attention-backend", dest="backend", metavar="NAME")
    group.add_argument(CONFIG_FLAG, dest="config", metavar="JSON|FILE")
    try:
        plain, dotted = take_dotted(sys.argv[1:] if arguments is None else arguments)
    except UsageError as error:
        parser.error(str(error))
    options = parser.parse_args(plain)
    options.dotted = dotted
    for name, size in numbers.items():
        if getattr(options, name) is None:
            setattr(options, name, size.small if options.random_weights else size.real)
    return options


def generate(
    options: argparse.Namespace,
    families: Mapping[str, Callable[[str], Made]],
    save: Callable[[Any, Any], None],
    **more: object,
) -> int:
    """Run the pipeline with the backend of each role, and let `save(pipeline, result)` write what came out.

    `families` are the small pipelines, `more` is given to the pipeline as it is. Gives the exit status: 2 for what is
    wrong with the flags or does not hold in the model, 3 where the rules refuse.
    """
    from selector.integrations.diffusers import ApplyError, UnsupportedDiffusersError, apply

    try:
        selector = Selector(config=config(options), backend=options.backend)
        pipeline, given = _pipeline(options, families)
        given |= _sizes(pipeline, options) | more
        pipeline.set_progress_bar_config(disable=None)  # no bar where nobody watches
        with apply(pipeline, selector=selector) as report:
            print(report, file=sys.stderr)
            result = pipeline(**given)
    except SelectionError as error:
        print(error, file=sys.stderr)
        return 3
    except (ProblemsError, ExampleError, ApplyError, UnsupportedDiffusersError) as error:
        print(error, file=sys.stderr)
        return 2
    save(pipeline, result)
    print(options.output)
    return 0


def _pipeline(options: argparse.Namespace, families: Mapping[str, Callable[[str], Made]]) -> Made:
    import torch

    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.random_weights:
        pipeline, given = small(options.model, options.prompt, families)
        return pipeline.to(device), {name: _moved(value, device) for name, value in given.items()}
    from diffusers import DiffusionPipeline

    pipeline = DiffusionPipeline.from_pretrained(options.model, torch_dtype=torch.bfloat16)
    return pipeline.to(device), {"prompt": options.prompt}


def _moved(value: Any, device: str) -> Any:  # noqa: ANN401 - what a pipeline takes
    if isinstance(value, list):
        return [_moved(one, device) for one in value]
    return value.to(device) if hasattr(value, "to") else value


def _sizes(pipeline: Any, options: argparse.Namespace) -> dict[str, Any]:  # noqa: ANN401 - diffusers has no types
    """Give what the flags say of a picture or video, in the words of the pipeline's call."""
    import torch

    named = ("height", "width", "num_frames", "num_inference_steps")
    sizes = {name: getattr(options, name) for name in named if hasattr(options, name)}
    known = signature(type(pipeline).__call__).parameters
    if "frame_rate" in known and hasattr(options, "fps"):
        sizes["frame_rate"] = float(options.fps)
    if options.guidance_scale is not None:
        sizes |= _guidance(pipeline, options.guidance_scale)
    return sizes | {"generator": torch.Generator().manual_seed(options.seed)}


def _guidance(pipeline: Any, scale: float) -> dict[str, float]:  # noqa: ANN401 - diffusers has no types
    """Give the scale to the pipeline's call, or to its guider where it has one instead."""
    if "guidance_scale" in signature(type(pipeline).__call__).parameters:
        return {"guidance_scale": scale}
    if getattr(pipeline, "guider", None) is None:
        raise ExampleError(f"--guidance-scale: {type(pipeline).__name__} takes none")
    pipeline.guider = pipeline.guider.new(guidance_scale=scale)
    return {}
