"""The timestep that a pipeline says and kernels read."""

from __future__ import annotations

import re
import threading

import pytest
import torch

from backends.denoise import current_timestep, denoise_step, record_denoise_step


def test_inside_a_block() -> None:
    """The innermost counts, and afterwards all is as it was."""
    seen = [current_timestep()]
    with denoise_step(0.9):
        seen.append(current_timestep())
        with denoise_step(0):
            seen.append(current_timestep())
        seen.append(current_timestep())
    seen.append(current_timestep())

    assert seen == [None, 0.9, 0.0, 0.9, None]


def test_after_an_error() -> None:
    """The block is left however it ends."""

    def fail() -> None:
        with denoise_step(0.5):
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert current_timestep() is None


def test_recorded() -> None:
    """For a loop without a block; a block goes before it."""
    record_denoise_step(0.7)
    try:
        assert current_timestep() == 0.7
        with denoise_step(0.2):
            assert current_timestep() == 0.2
        assert current_timestep() == 0.7
    finally:
        record_denoise_step(None)
    assert current_timestep() is None


def test_threads_do_not_see_each_other() -> None:
    """Two requests of one process are at different steps."""
    seen: list[float | None] = []
    with denoise_step(0.5):
        thread = threading.Thread(target=lambda: seen.append(current_timestep()))
        thread.start()
        thread.join()

    assert seen == [None]


@pytest.mark.parametrize("t", [-0.1, 1.1, 500, float("nan"), float("inf"), True, "0.5", None])
def test_what_is_no_timestep(t: object) -> None:
    """A scheduler's own number has to be normalised first."""
    message = f"^{re.escape(f'`t`: wanted a number from 0 to 1, got {t!r}')}$"

    with pytest.raises(ValueError, match=message), denoise_step(t):  # type: ignore[arg-type]
        pass
    assert current_timestep() is None
    if t is not None:
        with pytest.raises(ValueError, match=message):
            record_denoise_step(t)  # type: ignore[arg-type]


def test_inside_compiled_code() -> None:
    """It would be entered while tracing, and not where kernels run, so it is refused."""

    def step(x: torch.Tensor) -> torch.Tensor:
        with denoise_step(0.5):
            return x + 1

    with pytest.raises(Exception, match="wanted a call around compiled code, got one inside it"):
        torch.compile(step, fullgraph=True, backend="eager")(torch.ones(2))


def test_around_compiled_code() -> None:
    """It costs no new trace."""
    torch.compiler.reset()
    traces = []

    def backend(module: torch.fx.GraphModule, _: list[torch.Tensor]) -> torch.fx.GraphModule:
        traces.append(module)
        return module

    compiled = torch.compile(lambda x: x + 1, fullgraph=True, backend=backend)
    for t in (0.9, 0.5, 0.1):
        with denoise_step(t):
            compiled(torch.ones(2))

    assert len(traces) == 1
