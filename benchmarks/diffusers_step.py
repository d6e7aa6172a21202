"""One denoising step of real transformers from diffusers, stock and with the backend of each role.

``python -m benchmarks.diffusers_step [--model NAME] [--backend NAME] [--small] [--markdown FILE] [--json FILE]`` builds
each model at its full size with random bfloat16 weights and times its forward: as diffusers ships it, after `apply`
with the machine's own default, then with each `--backend`. Weights need 17 GB (HunyuanVideo-1.5), 10 (Wan 2.2 5B), 41
(Qwen-Image), 65 (FLUX.2), 38 (LTX-2), 12 (Z-Image), 16 (Stable Diffusion 3.5) and 5 (SDXL); a model that does not fit
is left out with a word. ``--small`` shows on a CPU that it runs.
"""

from __future__ import annotations

import argparse
import gc
import inspect
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.environment import describe, heading
from benchmarks.timing import measure


class Step(NamedTuple):
    """A transformer and what one step gives it; `small` are the parts of its configuration that make it small.

    `lengths` are the valid text tokens of each prompt of the batch.
    """

    about: str
    cls: str
    config: Mapping[str, Any]
    small: Mapping[str, Any]
    inputs: Callable[[Any, bool, Sequence[int]], dict[str, Any]]
    lengths: tuple[int, ...] = (64,)


@dataclass(frozen=True, slots=True)
class Line:
    """One way to run a step: milliseconds, the largest memory beside the weights, and how far the output is off."""

    model: str
    way: str
    median: float
    low: float
    high: float
    mebibytes: float
    difference: float
    ran: str


# --- what a step is given ---


def _keeps(lengths: Sequence[int], slots: int) -> Any:  # noqa: ANN401 - torch is imported when it is used
    """Say of each slot of each prompt whether it is valid, the valid ones first."""
    import torch

    return (torch.arange(slots) < torch.tensor(lengths)[:, None]).long()


def _hunyuan(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001 - one signature
    import torch

    batch = len(lengths)
    frames, height, width = (2, 4, 6) if small else (9, 30, 52)
    slots = 100 if small else 1000
    return {
        "hidden_states": torch.randn(batch, config.in_channels, frames, height, width),
        "timestep": torch.full((batch,), 500.0),
        "encoder_hidden_states": torch.randn(batch, slots, config.text_embed_dim),
        "encoder_attention_mask": _keeps([length // 10 if small else length for length in lengths], slots),
        "encoder_hidden_states_2": torch.randn(batch, 256, config.text_embed_2_dim),
        "encoder_attention_mask_2": torch.zeros(batch, 256, dtype=torch.int64),
        "image_embeds": torch.zeros(batch, 729, config.image_embed_dim),
    }


def _wan(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch

    batch = len(lengths)
    frames, height, width = (2, 8, 8) if small else (13, 44, 80)
    return {
        "hidden_states": torch.randn(batch, config.in_channels, frames, height, width),
        "timestep": torch.full((batch,), 500),
        "encoder_hidden_states": torch.randn(batch, 512, config.text_dim),
    }


def _qwen(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch
    from diffusers import QwenImageTransformer2DModel

    batch, side, slots = len(lengths), 8 if small else 64, max(lengths)
    older = "txt_seq_lens" in inspect.signature(QwenImageTransformer2DModel.forward).parameters
    return {
        **({"txt_seq_lens": [slots] * batch} if older else {}),
        "hidden_states": torch.randn(batch, side * side, config.in_channels),
        "encoder_hidden_states": torch.randn(batch, slots, config.joint_attention_dim),
        "encoder_hidden_states_mask": _keeps(lengths, slots),
        "timestep": torch.full((batch,), 0.5),
        "img_shapes": [[(1, side, side)]] * batch,
    }


def _flux2(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch

    batch, side = len(lengths), 8 if small else 64
    one = torch.arange(1)
    return {
        "hidden_states": torch.randn(batch, side * side, config.in_channels),
        "encoder_hidden_states": torch.randn(batch, 512, config.joint_attention_dim),
        "timestep": torch.full((batch,), 0.5),
        "img_ids": torch.cartesian_prod(one, torch.arange(side), torch.arange(side), one)[None].float(),
        "txt_ids": torch.cartesian_prod(one, one, one, torch.arange(512))[None].float(),
        "guidance": torch.full((batch,), 4.0),
    }


def _ltx2(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch

    batch = len(lengths)
    frames, height, width, audio = (2, 3, 3, 5) if small else (16, 16, 24, 126)
    text = torch.randn(batch, 1024, config.caption_channels)
    return {
        "hidden_states": torch.randn(batch, frames * height * width, config.in_channels),
        "audio_hidden_states": torch.randn(batch, audio, config.audio_in_channels),
        "encoder_hidden_states": text,
        "audio_encoder_hidden_states": text,
        "timestep": torch.full((batch, 1), 500.0),
        "encoder_attention_mask": torch.ones(batch, 1024, dtype=torch.int64),
        "audio_encoder_attention_mask": torch.ones(batch, 1024, dtype=torch.int64),
        "num_frames": frames,
        "height": height,
        "width": width,
        "audio_num_frames": audio,
    }


def _z_image(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch

    side = 16 if small else 128
    return {
        "x": [torch.randn(config.in_channels, 1, side, side) for _ in lengths],
        "t": torch.full((len(lengths),), 0.5),
        "cap_feats": [torch.randn(length, config.cap_feat_dim) for length in lengths],
    }


def _sd3(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch

    batch, side = len(lengths), 16 if small else 128
    return {
        "hidden_states": torch.randn(batch, config.in_channels, side, side),
        "encoder_hidden_states": torch.randn(batch, 333, config.joint_attention_dim),
        "pooled_projections": torch.randn(batch, config.pooled_projection_dim),
        "timestep": torch.full((batch,), 500),
    }


def _sdxl(config: Any, small: bool, lengths: Sequence[int]) -> dict[str, Any]:  # noqa: ANN401, FBT001
    import torch

    batch, side = len(lengths), 16 if small else 128
    more = {"text_embeds": torch.randn(batch, 1280), "time_ids": torch.ones(batch, 6)}
    return {
        "sample": torch.randn(batch, config.in_channels, side, side),
        "timestep": torch.tensor(500),
        "encoder_hidden_states": torch.randn(batch, 77, config.cross_attention_dim),
        "added_cond_kwargs": more,
    }


_FEWEST = 2
_Parts = tuple[str, Mapping[str, Any], Mapping[str, Any], Callable[[Any, bool, Sequence[int]], dict[str, Any]]]
_TINY = {"num_attention_heads": 2, "num_layers": 2}
_HUNYUAN: _Parts = (
    "HunyuanVideo15Transformer3DModel",
    {"in_channels": 65, "task_type": "t2v"},
    {**_TINY, "num_refiner_layers": 1},
    _hunyuan,
)
_QWEN: _Parts = ("QwenImageTransformer2DModel", {}, _TINY, _qwen)
_SDXL = {
    "sample_size": 128, "block_out_channels": (320, 640, 1280), "attention_head_dim": (5, 10, 20),
    "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
    "up_block_types": ("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"), "cross_attention_dim": 2048,
    "transformer_layers_per_block": (1, 2, 10), "use_linear_projection": True, "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256, "projection_class_embeddings_input_dim": 2816,
}  # fmt: skip
STEPS: Mapping[str, Step] = {
    "hunyuan_video15": Step("HunyuanVideo-1.5, 480×832, 33 frames, 60 of 1,985 text slots valid", *_HUNYUAN, (60,)),
    "hunyuan_video15_pair": Step("HunyuanVideo-1.5, two prompts of 60 and 210 tokens", *_HUNYUAN, (60, 210)),
    "wan2.2_5b": Step(
        "Wan 2.2 5B, 704×1280, 49 frames",
        "WanTransformer3DModel",
        {
            "num_attention_heads": 24, "in_channels": 48, "out_channels": 48, "ffn_dim": 14336, "num_layers": 30,
        },
        {**_TINY, "ffn_dim": 64},
        _wan,
    ),
    "qwen_image": Step("Qwen-Image, 1024², 64 text tokens", *_QWEN),
    "qwen_image_pair": Step("Qwen-Image, two prompts of 64 and 20 tokens", *_QWEN, (64, 20)),
    "flux2": Step(
        "FLUX.2-dev, 1024²", "Flux2Transformer2DModel", {}, {**_TINY, "num_layers": 1, "num_single_layers": 1}, _flux2
    ),
    "ltx2": Step(
        "LTX-2, 512×768, 121 frames with sound",
        "LTX2VideoTransformer3DModel",
        {},
        {
            **_TINY, "cross_attention_dim": 256, "audio_num_attention_heads": 2, "audio_cross_attention_dim": 128,
        },
        _ltx2,
    ),
    "z_image": Step(
        "Z-Image, 1024², 64 text tokens",
        "ZImageTransformer2DModel",
        {},
        {"n_layers": 1, "n_refiner_layers": 1},
        _z_image,
    ),
    "sd3.5_large": Step(
        "Stable Diffusion 3.5 large, 1024²",
        "SD3Transformer2DModel",
        {
            "num_layers": 38, "num_attention_heads": 38, "caption_projection_dim": 2432, "pos_embed_max_size": 192,
            "qk_norm": "rms_norm",
        },
        {"num_layers": 1},
        _sd3,
    ),
    "sdxl": Step(
        "SDXL, 1024²", "UNet2DConditionModel", _SDXL, {"transformer_layers_per_block": (1, 1, 1)}, _sdxl, (77, 77)
    ),
}  # fmt: skip


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", action="append", choices=list(STEPS), help="default: all of them")
    parser.add_argument("--backend", action="append", default=[], help="another choice to time for every role")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--markdown", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args()
    if options.repeats < _FEWEST:
        parser.error(f"--repeats: wanted at least {_FEWEST}, for quartiles, got {options.repeats}")
    lines: list[Line] = []
    for name in options.model or STEPS:
        lines += _measured(STEPS[name], options.backend, small=options.small, repeats=options.repeats)
    page = _page(lines, small=options.small)
    print(page)
    if options.markdown:
        Path(options.markdown).write_text(page, encoding="utf-8")
    if options.json:
        told = {"environment": describe(), "lines": [asdict(line) for line in lines]}
        Path(options.json).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0


def _page(lines: list[Line], *, small: bool) -> str:
    stock = {line.model: line.median for line in lines if line.way == "stock"}
    rows = [
        f"| {line.model} | {line.way} | {line.median:.1f} ({line.low:.1f}–{line.high:.1f}) "
        f"| {stock[line.model] / line.median:.2f} | {line.mebibytes:.0f} | {line.difference:.1e} | {line.ran} |"
        for line in lines
    ]
    title = "One denoising step with diffusers" + (" (small models: the figures mean nothing)" if small else "")
    words = (
        "Random bfloat16 weights; one prompt, where no two are named. Memory is the largest beside the weights; the"
        " difference is relative, to the stock output.\n"
    )
    head = (
        "| model | way | ms (quartiles) | times as fast | MiB | difference | ran |",
        "|---|---|---|---|---|---|---|",
    )
    return "\n".join([heading(title), words, *head, *rows, ""])


def _measured(step: Step, backends: list[str], *, small: bool, repeats: int) -> Iterator[Line]:
    import torch

    try:
        yield from _ways(step, backends, small=small, repeats=repeats)
    except torch.OutOfMemoryError as error:
        print(f"{step.about}: left out, {str(error).splitlines()[0]}", file=sys.stderr)
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _ways(step: Step, backends: list[str], *, small: bool, repeats: int) -> Iterator[Line]:
    import torch

    from selector.integrations.diffusers import apply

    model, given = _built(step, small=small)

    def run() -> Any:  # noqa: ANN401 - a tensor of an untyped library
        with torch.no_grad():
            found = model(**given, return_dict=False)[0]
        return torch.stack(found) if isinstance(found, list) else found

    wanted = run().float()

    def line(way: str, ran: Callable[[], str]) -> Line:
        difference = float((run().float() - wanted).norm() / wanted.norm())
        before = _memory(reset=True)
        timing = measure(run, repeats=repeats, warm_ups=2)
        return Line(step.about, way, *timing, (_memory() - before) / 2**20, difference, ran())

    yield line("stock", lambda: "diffusers' default")
    for backend in (None, *backends):
        with apply(model, backend=backend) as report:
            ways = {role: _backends(row) for role, row in ((row.role, row) for row in report.rows)}
            yield line(
                "apply, the machine's default" if backend is None else f"apply, {backend}",
                lambda ways=ways: ", ".join(f"{role}: {told()}" for role, told in ways.items()),  # type: ignore[misc]
            )


def _backends(row: Any) -> Callable[[], str]:  # noqa: ANN401 - a row of a report
    def told() -> str:
        return " and ".join(sorted({f"{ran.backend}{f' ({ran.provider})' if ran.provider else ''}" for ran in row.ran}))

    return told


def _built(step: Step, *, small: bool) -> tuple[Any, dict[str, Any]]:
    """Build a transformer as diffusers loads one: of bfloat16 from the start, where it will run."""
    import diffusers
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    try:
        with torch.device(device):
            model = getattr(diffusers, step.cls)(**{**step.config, **(step.small if small else {})})
    finally:
        torch.set_default_dtype(before)
    given = step.inputs(model.config, small, step.lengths)
    return model.eval().to(device), {name: _moved(name, value, device) for name, value in given.items()}


def _moved(name: str, value: Any, device: str) -> Any:  # noqa: ANN401 - tensors and plain values
    import torch

    if isinstance(value, dict):
        return {key: _moved(key, item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [_moved(name, item, device) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    half = value.is_floating_point() and not name.endswith("_ids")
    return value.to(device, torch.bfloat16 if half else value.dtype)


def _memory(*, reset: bool = False) -> int:
    import torch

    if not torch.cuda.is_available():
        return 0
    if reset:
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    return torch.cuda.max_memory_allocated()


if __name__ == "__main__":
    sys.exit(main())
