"""`fa3_fwd_interface`: the functions of `flash_attn_interface`, from a build without float16."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import torch

from tests.backends.fakes import flash3

if TYPE_CHECKING:
    from collections.abc import Callable

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def without_float16(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The function as that build answers it."""

    @wraps(function)
    def refusing(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        if isinstance(args[0], torch.Tensor) and args[0].dtype == torch.float16:
            raise RuntimeError("This flash attention build does not support FP16.")
        return function(*args, **kwargs)

    return refusing


flash_attn_func = without_float16(flash3.flash_attn_func)
flash_attn_varlen_func = without_float16(flash3.flash_attn_varlen_func)
