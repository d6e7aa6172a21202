"""What the Sage backends do to tensors, and the operator behind which their packages run."""

from __future__ import annotations

import pytest
import torch

from backends._sage_operator import on_device, operator
from backends._sage_tensors import fitted, readable
from backends._sage_versions import Package1
from tests.backends.fakes import sage1


def ones(*shape: int, device: str = "cpu") -> torch.Tensor:
    """In half precision."""
    return torch.ones(shape, dtype=torch.bfloat16, device=device)


def test_no_device_is_made_current_without_a_gpu() -> None:
    """The guard of the CPU does nothing; that of a GPU is torch's."""
    with on_device(torch.device("cpu")):
        pass

    assert isinstance(on_device(torch.device("cuda:0")), torch.cuda.device)


def test_equal_packages_share_an_operator() -> None:
    """So that binding again adds nothing to what is kept."""
    assert operator(Package1(sage1.sageattn)) is operator(Package1(sage1.sageattn))


@pytest.mark.parametrize(
    ("tensor", "copied"),
    [
        (ones(2, 9, 4, 64), False),
        (ones(2, 9, 4, 64).transpose(1, 2), False),
        (ones(1, 9, 4, 64).expand(2, 9, 4, 64), False),
        (ones(2, 9, 4, 192)[..., 64:128], False),
        (ones(2, 9, 4, 65)[..., 1:], True),
        (ones(2, 9, 4, 72)[..., 8:], False),
        (ones(2, 9, 4, 128)[..., ::2], True),
        (ones(1, 2**21 + 1, 1, 1024, device="meta")[..., :64], True),
    ],
)
def test_only_what_cannot_be_read_is_copied(tensor: torch.Tensor, *, copied: bool) -> None:
    """Another last stride, an offset that is not a multiple of 16 bytes, or elements that 32 bits do not reach."""
    assert (readable(tensor) is not tensor) is copied


def test_powers_of_two_lose_nothing() -> None:
    """What is divided by them and multiplied again is the same, also where they are the largest there are."""
    for dtype, values in ((torch.bfloat16, [3e38, 1e3, 700.0, 1.0, 0.0]), (torch.float16, [65504.0, 513.0, 1.0, 0.0])):
        v = torch.tensor(values, dtype=dtype)[None, None, :, None].expand(1, 2, len(values), 8)

        smaller, powers = fitted(v, 512.0)

        assert torch.equal(smaller * powers, v)
        assert smaller.abs().max() <= 512
        assert torch.equal(powers[0, 0, -2:, 0], torch.ones(2, dtype=dtype))
