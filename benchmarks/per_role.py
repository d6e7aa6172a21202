"""A backend per role, run: self-attention through one, cross-attention through another, and the report of both.

``python -m benchmarks.per_role`` uses the shapes of Wan 2.2 14B at 480×832, 33 frames (scaled down on a CPU), with
`FLASH_ATTN` for every layer but cross-attention, which gets `TORCH_SDPA`.
"""

from __future__ import annotations

import sys

from benchmarks.environment import heading
from benchmarks.timing import measure

_MODEL = "Wan-AI/Wan2.2-T2V-A14B-Diffusers"
_CONFIG = {"default": {"backend": "FLASH_ATTN"}, "per_role": {"cross": {"backend": "TORCH_SDPA"}}}
_HEADS, _HEAD_DIM = 40, 128


def main() -> int:
    """Run both roles and print what ran, how long it took, and how far it is from the definition."""
    import torch

    from backends.reference import attention as definition
    from selector import Attention, Selector

    cuda = torch.cuda.is_available()
    here = Selector(config=_CONFIG)
    print(heading("A backend per role"))
    print("| role | shape | ran | rule | warnings | calls | ms | error |\n|---|---|---|---|---|---|---|---|")
    lengths = {"self": (14_040, 14_040), "cross": (14_040, 512)} if cuda else {"self": (256, 256), "cross": (256, 64)}
    for role, (queries, keys) in lengths.items():
        layer = Attention(role, selector=here, model=_MODEL)
        device = "cuda" if cuda else "cpu"
        q, k, v = (
            torch.randn(1, length, _HEADS, _HEAD_DIM, device=device, dtype=torch.bfloat16)
            for length in (queries, keys, keys)
        )
        timing = measure(lambda layer=layer, q=q, k=k, v=v: layer(q, k, v))  # type: ignore[misc]
        wanted = definition(q, k, v)
        error = float((layer(q, k, v).double() - wanted).norm() / wanted.norm())
        for ran in layer.report():
            build = f" ({ran.build or ran.provider})" if ran.build or ran.provider else ""
            told = f"`{ran.backend}`{build} | `{ran.rule}` | {len(ran.warnings)} | {ran.calls}"
            print(f"| {role} | {queries}×{keys} | {told} | {timing.median:.3f} | {error:.1e} |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
