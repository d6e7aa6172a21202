"""What a padding mask costs, and what lengths save: HunyuanVideo-1.5's self-attention at 480×832, 33 frames.

``python -m benchmarks.masked [--json FILE] [--tokens N]`` compares, in one run, `attention()` with lengths under the
machine's own default, `CUDNN_ATTN` and `TORCH_SDPA` given the same padding as a mask, and torch's memory-efficient
kernel pinned; each against the definition in float64.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.environment import describe, heading
from benchmarks.timing import Timing, measure

if TYPE_CHECKING:
    from torch import Tensor

_TOKENS, _PADDED, _HEADS, _HEAD_DIM = 14_296, 196, 16, 128


class Contender(NamedTuple):
    """One way to compute the same rows."""

    name: str
    call: Callable[[], Tensor]
    rows: int


class Line(NamedTuple):
    """One contender's time and its largest error, relative to the largest output."""

    name: str
    timing: Timing
    error: float


def main() -> int:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--tokens", type=int, default=_TOKENS)
    options = parser.parse_args()
    lines = list(_measured(options.tokens))
    print(heading("Padding as lengths and as a mask"))
    print(f"`[1, {options.tokens}, {_HEADS}, {_HEAD_DIM}]` bfloat16, the last {_PADDED} keys hidden; median of 20.\n")
    print("| | ms | against the first | error |\n|---|---|---|---|")
    for line in lines:
        ratio = line.timing.median / lines[0].timing.median
        print(f"| {line.name} | {line.timing.median:.3f} | {ratio:.2f} | {line.error:.1e} |")
    if options.json:
        told = {
            "environment": describe(),
            "lines": [{"name": one.name, "error": one.error, **one.timing._asdict()} for one in lines],
        }
        Path(options.json).write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0


def _measured(tokens: int) -> Iterator[Line]:
    import torch

    from backends.masks import key_lengths
    from backends.reference import attention as definition

    device = "cuda" if torch.cuda.is_available() else "cpu"
    generator = torch.Generator().manual_seed(0)
    shape = (1, tokens, _HEADS, _HEAD_DIM)
    q, k, v = (torch.randn(shape, generator=generator).to(device, torch.bfloat16) for _ in range(3))
    valid = tokens - _PADDED
    wanted = definition(q, k, v, mask=key_lengths(valid, tokens))
    for contender in _contenders(q, k, v, valid):
        got = contender.call()
        error = float((got.double() - wanted).norm() / wanted.norm())
        yield Line(contender.name, measure(contender.call), error)


def _contenders(q: Tensor, k: Tensor, v: Tensor, valid: int) -> Iterator[Contender]:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    from backends.masks import key_lengths, key_padding
    from selector import Selector, attention
    from selector.dispatch import plan_for

    here = Selector()
    lengths = key_lengths(valid, q.shape[1])
    keep = (torch.arange(q.shape[1], device=q.device) < valid)[None]
    padding = key_padding(keep)
    chosen = plan_for(q, k, v, mask=lengths, selector=here).decision
    name = f"attention() with lengths: {chosen.backend}" + (f" ({chosen.provider})" if chosen.provider else "")
    yield Contender(name, lambda: attention(q, k, v, mask=lengths, selector=here), valid)
    named = ["CUDNN_ATTN", "TORCH_SDPA"] if q.is_cuda else ["TORCH_SDPA"]
    for backend in named:
        call = functools.partial(attention, q, k, v, mask=padding, selector=Selector(backend=backend))
        yield Contender(f"{backend} given the mask", call, valid)
    queries, keys, values = (tensor.transpose(1, 2) for tensor in (q, k, v))
    mask = keep[:, None, None]

    def efficient() -> Tensor:
        with sdpa_kernel([SDPBackend.EFFICIENT_ATTENTION]):
            return scaled_dot_product_attention(queries, keys, values, attn_mask=mask).transpose(1, 2)

    if q.is_cuda:
        yield Contender("torch's memory-efficient kernel, pinned, given the mask", efficient, valid)


if __name__ == "__main__":
    sys.exit(main())
