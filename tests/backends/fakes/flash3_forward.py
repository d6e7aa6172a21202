"""`fa3_fwd_interface`: the functions of `flash_attn_interface`, from a build without float16 and backward pass."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar, cast

import torch

from tests.backends.fakes import flash3

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class Forward(torch.autograd.Function):
    """Takes part in autograd, as the real functions do, and fails when the gradient is asked for."""

    @staticmethod
    def forward(_ctx: object, out: torch.Tensor) -> torch.Tensor:
        """The output as it is."""
        return out.clone()

    @staticmethod
    def backward(_ctx: object, _gradient: torch.Tensor) -> torch.Tensor:
        """What the compiled library answers."""
        raise RuntimeError("This flash attention build does not support backward.")


def forward_alone(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function as that build answers it."""

    @wraps(function)
    def refusing(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float16:
            raise RuntimeError("This flash attention build does not support FP16.")
        result = function(*args, **kwargs)
        apply = cast("Callable[[object], Result]", Forward.apply)
        return cast("Result", (apply(result[0]), *result[1:])) if isinstance(result, tuple) else apply(result)

    return refusing


flash_attn_func = forward_alone(flash3.flash_attn_func)
flash_attn_varlen_func = forward_alone(flash3.flash_attn_varlen_func)
