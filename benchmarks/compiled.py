"""A block of a diffusion transformer, compiled whole, with a backend for each role.

``python -m benchmarks.compiled [--markdown FILE]`` compiles self-attention and cross-attention with what lies between
them, once for fixed and once for symbolic lengths, and tells how often code was compiled, how often the graph broke,
how far the result is from eager, and how long a step takes. On a GPU the step is captured into a CUDA graph as well.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.environment import heading
from benchmarks.timing import measure

if TYPE_CHECKING:
    import torch
    from torch import nn

_CONFIG = {"default": {"backend": "FLASH_ATTN"}, "per_role": {"cross": {"backend": "TORCH_SDPA"}}}
_HEAD_DIM = 128


def main() -> int:
    """Run and print the table; the status is 1 where the graph broke or the result differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--markdown", metavar="FILE")
    options = parser.parse_args()
    rows = [*_rows()]
    text = heading("A block, compiled whole") + "\n" + _table(rows)
    print(text)
    if options.markdown:
        Path(options.markdown).write_text(text, encoding="utf-8")
    return 1 if any(row["breaks"] or float(str(row["error"])) > 0.05 for row in rows) else 0  # noqa: PLR2004


def _rows() -> list[dict[str, object]]:
    import torch

    cuda = torch.cuda.is_available()
    lengths = [(4096, 512), (4608, 512), (2048, 256)] if cuda else [(64, 16), (80, 16), (48, 12)]
    return [_row(lengths, heads=16 if cuda else 4, dynamic=dynamic) for dynamic in (False, True)]


def _row(lengths: list[tuple[int, int]], *, heads: int, dynamic: bool) -> dict[str, object]:
    import torch
    from torch._dynamo.utils import counters

    from selector import Attention

    torch._dynamo.reset()  # noqa: SLF001 - there is no public name
    counters.clear()
    block = _block(heads)
    inputs = [_inputs(block, queries, keys) for queries, keys in lengths]
    whole = torch.compile(block, fullgraph=True, dynamic=dynamic)
    with torch.no_grad():
        errors = [float((whole(*one) - block(*one)).abs().max()) for one in inputs]
        eager, compiled = measure(lambda: block(*inputs[0])), measure(lambda: whole(*inputs[0]))
        graph = _captured(whole, inputs[0])
    frames = counters["stats"]["unique_graphs"]
    ran = {
        f"{role}: {one.backend}{f' {one.provider}' if one.provider else ''}"
        for role, layer in (("self", block.get_submodule("attend")), ("cross", block.get_submodule("cross")))
        if isinstance(layer, Attention)
        for one in layer.report()
    }
    return {
        "lengths": f"{len(lengths)}, {'symbolic' if dynamic else 'fixed'}", "ran": ", ".join(sorted(ran)),
        "graphs": frames, "breaks": sum(counters["graph_break"].values()), "error": f"{max(errors):.1e}",
        "eager": f"{eager.median:.3f}", "compiled": f"{compiled.median:.3f}", "captured": graph,
    }  # fmt: skip


def _block(heads: int) -> nn.Module:
    import torch
    from torch import nn

    from selector import Attention, Selector

    cuda = torch.cuda.is_available()
    selector = Selector(config=_CONFIG)
    width = heads * _HEAD_DIM

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.project, self.out = (
                nn.LayerNorm(width),
                nn.Linear(width, 3 * width),
                nn.Linear(width, width),
            )
            self.attend = Attention("self", selector=selector, head_dim=_HEAD_DIM, num_heads=heads)
            self.cross = Attention("cross", selector=selector, head_dim=_HEAD_DIM, num_heads=heads)

        def forward(self, x: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
            q, k, v = (self.split(part) for part in self.project(self.norm(x)).chunk(3, dim=-1))
            x = x + self.out(self.attend(q, k, v).flatten(2))
            words = self.split(text)
            out: torch.Tensor = x + self.cross(self.split(x), words, words).flatten(2)
            return out

        @staticmethod
        def split(x: torch.Tensor) -> torch.Tensor:
            return x.view(*x.shape[:2], heads, _HEAD_DIM)

    torch.manual_seed(0)
    return Block().to("cuda" if cuda else "cpu", torch.bfloat16).eval()


def _inputs(block: nn.Module, queries: int, keys: int) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    weight = next(block.parameters())
    width = next(block.get_submodule("norm").parameters()).shape[0]
    shapes = ((1, queries, width), (1, keys, width))
    x, text = (torch.randn(shape, device=weight.device, dtype=weight.dtype) for shape in shapes)
    return x, text


def _captured(whole: object, inputs: tuple[torch.Tensor, torch.Tensor]) -> str:
    """Replay the compiled step from a CUDA graph: its time, or why there is none."""
    import torch

    if not torch.cuda.is_available():
        return "no GPU"
    assert callable(whole)  # noqa: S101 - it is compiled
    wanted = whole(*inputs)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = whole(*inputs)
    graph.replay()
    torch.cuda.synchronize()
    if not torch.allclose(got, wanted, atol=1e-2, rtol=1e-2):
        return "differs"
    return f"{measure(graph.replay).median:.3f}"


def _table(rows: list[dict[str, object]]) -> str:
    head = ("lengths", "ran", "graphs", "breaks", "error", "eager", "compiled", "captured")
    told = (
        "lengths",
        "ran",
        "graphs compiled",
        "graph breaks",
        "largest difference",
        "eager ms",
        "compiled ms",
        "CUDA graph ms",
    )
    lines = ["| " + " | ".join(told) + " |", "|---" * len(told) + "|"]
    return "\n".join([*lines, *("| " + " | ".join(str(row[name]) for name in head) + " |" for row in rows), ""])


if __name__ == "__main__":
    sys.exit(main())
