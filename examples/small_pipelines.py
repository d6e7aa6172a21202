"""Pipelines of real families with random weights, small enough for a CPU and made without a network.

Each is of diffusers' own classes: pipeline, transformer or UNet, VAE, scheduler. Text encoders are left out: numbers
drawn from the prompt stand for its embeddings, so that another prompt gives another picture, of noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import torch
from example_error import ExampleError

if TYPE_CHECKING:
    from small_parts import Made


def small(model: str, prompt: str, families: Mapping[str, Callable[[str], Made]]) -> Made:
    """Give a pipeline of the family that the model's name has in it, and what its call takes beside sizes and steps.

    Raises `ExampleError` for a name of none of the families, and where diffusers has no pipeline of the family.
    """
    plain = "".join(letter for letter in model.lower() if letter.isalnum())
    for family, make in families.items():
        if family in plain:
            torch.manual_seed(0)
            return make(prompt)
    names = ", ".join(families)
    raise ExampleError(f"--model {model}: with --random-weights wanted a name with one of these in it: {names}")
