"""Scratch memory that kernels share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import torch

from backends.workspace import Workspaces

CPU, META = torch.device("cpu"), torch.device("meta")


def test_zeros_of_bytes() -> None:
    """As many as were asked for."""
    made = Workspaces().get(CPU, "kernel", 1000)

    assert (made.dtype, made.shape) == (torch.uint8, (1000,))
    assert not made.any()


def test_one_for_each_device_and_purpose() -> None:
    """The same object every time."""
    spaces = Workspaces()
    first = spaces.get(CPU, "one", 10)

    assert spaces.get(torch.device("cpu"), "one", 10) is first
    assert spaces.get(CPU, "other", 10) is not first
    assert spaces.get(META, "one", 10).device == META
    assert spaces.held() == {("cpu", "one"): 10, ("cpu", "other"): 10, ("meta", "one"): 10}


def test_it_grows_and_does_not_shrink() -> None:
    """A larger one is new zeros; a smaller wish is served by what is there, as it was left."""
    spaces = Workspaces()
    small = spaces.get(CPU, "kernel", 10)
    small[0] = 7

    large = spaces.get(CPU, "kernel", 20)
    large[1] = 9

    assert large.shape == (20,)
    assert not large[0]
    assert spaces.get(CPU, "kernel", 5) is large
    assert large[1] == 9
    assert small[0] == 7


@pytest.mark.parametrize(("device", "left"), [(None, set()), ("cpu", {("meta", "one")}), ("meta", {("cpu", "one")})])
def test_released(device: str | None, left: set[tuple[str, str]]) -> None:
    """Of one device or of all; what is asked for next is new."""
    spaces = Workspaces()
    spaces.get(CPU, "one", 10).fill_(1)
    spaces.get(META, "one", 10)

    spaces.release(device)

    assert set(spaces.held()) == left
    assert bool(spaces.get(CPU, "one", 10).any()) is (("cpu", "one") in left)


def test_threads_get_one_and_the_same() -> None:
    """However many ask for it at once."""
    spaces, barrier = Workspaces(), Barrier(8)

    def ask(_: int) -> int:
        barrier.wait()
        return id(spaces.get(CPU, "kernel", 10_000))

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(ask, range(8)))) == 1


def test_made_in_inference_mode_it_can_be_written_outside() -> None:
    """A buffer outlives the block in which it was first asked for."""
    spaces = Workspaces()
    with torch.inference_mode():
        made = spaces.get(CPU, "kernel", 10)

    made[0] = 1

    assert made[0] == 1
