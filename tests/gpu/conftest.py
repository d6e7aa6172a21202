"""What the tests on a GPU need to know of the machine."""

from __future__ import annotations

import torch


def cuda_reason() -> str | None:
    """Why no test of this folder can run here, or None where one can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    return None
