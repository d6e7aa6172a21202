"""What the Sage backends find when they try a kernel that they have bound."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from backends import sage, sage3
from backends._sage import SageKernel
from backends._sage_trial import measure
from backends.interface import CallRefused, Geometry
from backends.sage import SageAttention
from backends.sage3 import Sage3Attention
from tests.backends.fakes import sage1
from tests.backends.fakes import sage3 as fake3
from tests.backends.fakes.sage_bound import FAKES, HALF, Fake, installed

if TYPE_CHECKING:
    from backends._sage import Run

GEOMETRY = Geometry(64, 4, 4, "bfloat16", "cpu")


@pytest.mark.parametrize(
    ("fake", "key_heads"),
    [pytest.param(fake, h, id=f"{name}-{h}") for name, fake in FAKES.items() for h in fake.key_heads],
)
def test_the_trial_passes_what_only_rounds(fake: Fake, key_heads: int) -> None:
    """With room to the limit."""
    kernel = fake.backend(importer=installed(fake.module), device="cpu").bind(
        {}, replace(GEOMETRY, num_kv_heads=key_heads)
    )

    assert isinstance(kernel, SageKernel)
    errors = measure(kernel.bound, kernel.run)
    assert max(errors) < 0.75 * {SageAttention: sage.ERROR_MOST, Sage3Attention: sage3.ERROR_MOST}[fake.backend]


def test_the_trial_is_made_once() -> None:
    """A second layer of that geometry binds at once; another geometry is measured."""
    calls: list[int] = []

    @wraps(sage1.sageattn)
    def sageattn(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - with the package's signature
        calls.append(args[0].shape[2])
        return sage1.sageattn(*args, **options)

    backend = SageAttention(importer=installed(SimpleNamespace(sageattn=sageattn)), device="cpu")
    for heads in (2, 2, 3, 2):
        backend.bind({}, replace(GEOMETRY, num_heads=heads, num_kv_heads=1))

    assert calls == [2] * 5 + [3] * 5


def test_a_causal_kernel_that_loses_values_is_refused() -> None:
    """The released kernel of version 3 does from the second block on; its other calls run."""
    sizes = replace(HALF, seq_q=13)
    kernel = Sage3Attention(importer=installed(fake3.module(fake3.Sage3())), device="cpu").bind({}, GEOMETRY)
    q, k, v = sizes.qkv()

    message = (
        r"^`causal`: wanted none, got `top_left`; when bound, the kernel was off by 0\.5\d?, wanted at most 0\.28$"
    )
    with pytest.raises(CallRefused, match=message):
        kernel(q, k, v, causal="top_left")
    assert kernel(q, k, v).isfinite().all()


@dataclass(frozen=True)
class Deaf:
    """A way to run that does not hear of causal calls."""

    run: Run

    def __call__(self, q: Any, k: Any, v: Any, *, is_causal: bool, scale: float) -> Any:  # noqa: ANN401
        """As `Run`."""
        return self.run(q, k, v, is_causal=False, scale=scale)


def test_the_trial_finds_a_causal_flag_that_is_ignored() -> None:
    """By the size of the error."""
    kernel = SageAttention(importer=installed(sage1.MODULE), device="cpu").bind({}, GEOMETRY)
    assert isinstance(kernel, SageKernel)

    errors = measure(kernel.bound, Deaf(kernel.run))

    assert errors.dense < sage.ERROR_MOST < 0.3 < errors.causal
