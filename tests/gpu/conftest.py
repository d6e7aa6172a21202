"""What the tests on a GPU need to know of the machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch


def cuda_reason() -> str | None:
    """Why no test of this folder can run here, or None where one can."""
    if torch.version.cuda is None:
        return f"torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return "torch sees no CUDA device"
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let kernel packages be imported that warn of what they themselves will lose."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.filterwarnings("ignore::DeprecationWarning"))
