"""What the examples share: their flags, a pipeline, and the backend of each role applied to it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from small_pipelines import small

from selector import Selector
from selector.command.inputs import config
from selector.command.options import CONFIG_FLAG
from selector.decision import SelectionError
from selector.rules.problems import ConfigError

PREFIX = f"{CONFIG_FLAG}."


def options_of(about: str, arguments: Sequence[str] | None, **defaults: Any) -> argparse.Namespace:  # noqa: ANN401
    """Read the flags; `defaults` are those of the sizes that the example takes."""
    parser = argparse.ArgumentParser(description=about, allow_abbrev=False)
    parser.add_argument("--model", required=True, metavar="ID|FOLDER", help="a hub id, or a folder with its files")
    parser.add_argument("--prompt", required=True)
    for name, value in defaults.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    parser.add_argument("--num-inference-steps", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", help="default: the GPU, or the CPU where there is none")
    parser.add_argument(
        "--random-weights", action="store_true", help="a small pipeline of the model's family, without any download"
    )
    group = parser.add_argument_group("attention", f"also {PREFIX}PATH VALUE, as in {PREFIX}per_role.cross TORCH_SDPA")
    group.add_argument("--diffusion-attention-backend", dest="backend", metavar="NAME")
    group.add_argument(CONFIG_FLAG, dest="config", metavar="JSON|FILE")
    plain, dotted = _parted(sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(plain)
    options.dotted = dotted
    return options


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Part the dotted flags, ``--…config.path value`` or ``=value``, from the others."""
    plain, dotted = [], []
    rest = iter(arguments)
    for argument in rest:
        if argument.startswith(PREFIX):
            name, sign, value = argument.removeprefix(PREFIX).partition("=")
            dotted.append((name, value if sign else next(rest, "")))
        else:
            plain.append(argument)
    return plain, dotted


def generate(options: argparse.Namespace, save: Callable[[Any, Path], None], **sizes: int) -> int:
    """Run the pipeline with the backend of each role, and save what came out. Gives the exit status."""
    import torch

    from selector.integrations.diffusers import ApplyError, apply

    try:
        selector = Selector(config=config(options), backend=options.backend)
        device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
        pipeline, given = _pipeline(options, device)
        with apply(pipeline, selector=selector) as report:
            print(report, file=sys.stderr)
            result = pipeline(
                num_inference_steps=options.num_inference_steps,
                generator=torch.Generator().manual_seed(options.seed),
                **sizes,
                **given,
            )
    except (ConfigError, ApplyError, SelectionError) as error:
        print(error, file=sys.stderr)
        return 3 if isinstance(error, SelectionError) else 2
    save(result, Path(options.output))
    print(options.output)
    return 0


def _pipeline(options: argparse.Namespace, device: str) -> tuple[Any, dict[str, Any]]:
    if options.random_weights:
        pipeline, given = small(options.model, options.prompt)
        moved = {name: value.to(device) if hasattr(value, "to") else value for name, value in given.items()}
        return pipeline.to(device), moved
    import torch
    from diffusers import DiffusionPipeline

    pipeline = DiffusionPipeline.from_pretrained(options.model, torch_dtype=torch.bfloat16)
    return pipeline.to(device), {"prompt": options.prompt}
