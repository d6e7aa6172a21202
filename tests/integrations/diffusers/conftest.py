"""What the tests of diffusers share: another backend, and models whose weights are the same each time."""

from __future__ import annotations

import importlib
import inspect
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from backends.registry import installed
from selector import Selector
from tests.integrations.diffusers.small import Untyped

HERE = Path(__file__).parent
OTHER = HERE / "other"
# What diffusers 0.36 brings by itself: on a machine without a GPU, and where it is compiled.
THEIRS = ("ignore:.*CUDA is not available or torch_xla", "ignore:Dynamo detected a call to a `functools.lru_cache`")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let warnings of the older diffusers pass in these tests."""
    for item in items:
        if item.path.is_relative_to(HERE):
            for theirs in THEIRS:
                item.add_marker(pytest.mark.filterwarnings(theirs))


def outputs(model: Untyped, given: Mapping[str, Any]) -> list[Tensor]:
    """Give every tensor that a model puts out."""
    plain: Untyped = getattr(model, "_orig_mod", model)
    tuples = "return_dict" in inspect.signature(type(plain).forward).parameters
    with torch.no_grad():
        return list(_tensors(model(**given, return_dict=False) if tuples else model(**given)))


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _tensors(one)


def assert_same(got: list[Tensor], wanted: list[Tensor]) -> None:
    """Hold outputs to those of the stock model."""
    assert len(got) == len(wanted) > 0
    for mine, theirs in zip(got, wanted, strict=True):
        assert not theirs.is_floating_point() or theirs.std() > 0.01, (
            "a model that puts out the same everywhere shows nothing"
        )
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=2e-5)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Compute on one thread: for small models more of them cost ten times as long where other tests run beside."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def diffusers() -> ModuleType:
    """Give the library, whose own imports warn of what it uses; skip where it is not installed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return importlib.import_module("diffusers")
        except ImportError:
            pytest.skip("diffusers is not installed here; `make integrations` has environments with it")


@pytest.fixture
def cpu() -> Selector:
    """Give a selector for a CPU, with nothing chosen."""
    return Selector(facts={"platform": "cpu"}, environment={})


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Untyped]:
    """Give selectors for a CPU that know `COMPARED_ATTN` besides."""
    monkeypatch.syspath_prepend(OTHER)
    installed.cache_clear()

    def selector(config: Mapping[str, object], policy: str = "fallback") -> Selector:
        return Selector(
            facts={"platform": "cpu"}, environment={}, rules=OTHER / "rules", config=config, policy=policy,
            first_use_check=False,
        )  # fmt: skip

    yield selector
    installed.cache_clear()
