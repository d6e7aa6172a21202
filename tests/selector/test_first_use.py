"""The check of a first use: what fails it does not run, and what passed it is remembered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from backends.interface import Geometry, Kernel
from backends.torch_sdpa import BACKEND as SDPA
from selector import SelectionRefusedError, Selector, attention
from selector.cache import cache_folder
from selector.dispatch import first_use
from selector.dispatch.first_use import Evidence
from tests.selector.conftest import CPU, FA2, cuda


@dataclass
class Plugin:
    """A backend that counts how often it is bound; `broken` drops the last keys, as a faulty kernel does."""

    name: str
    broken: bool = False
    bound: list[Geometry] = field(default_factory=list)

    def bind(self, spec: Mapping[str, object], geometry: Geometry) -> Kernel:
        """Bind TORCH_SDPA's kernel, perhaps with a fault."""
        self.bound.append(geometry)
        right = SDPA.bind(spec, replace(geometry, provider=None))

        def kernel(q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Tensor:  # noqa: ANN401 - passed on as it is
            last = -2 if k.shape[1] > 2 and not more.get("mask") else None
            return right(q, k[:, :last], v[:, :last], **more)

        return kernel if self.broken else right


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give a cache of its own."""
    monkeypatch.setenv("ATTENTION_SELECTOR_CACHE", str(tmp_path / "cache"))
    first_use.forget()
    return tmp_path / "cache"


def use(monkeypatch: pytest.MonkeyPatch, *plugins: Plugin, home: str = "attention-selector") -> None:
    """Let plug-ins be what is installed, all of one distribution."""
    known = {plugin.name: plugin for plugin in plugins} | {"TORCH_SDPA": SDPA}
    monkeypatch.setattr("backends.registry.load", lambda name: known[name])
    monkeypatch.setattr(
        "backends.registry.available", lambda: dict.fromkeys(known, home) | {"TORCH_SDPA": "attention-selector"}
    )


def tensors(dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """Give q, k and v."""
    return [torch.randn(1, 8, 4, 64).to(dtype) for _ in range(3)]


def test_a_configured_kernel_that_fails_is_refused_with_the_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check that it failed, wanted and got."""
    plugin = Plugin("FLASH_ATTN", broken=True)
    use(monkeypatch, plugin)
    selector = Selector(facts=cuda("sm_89", FA2), backend="FLASH_ATTN", environment={}, first_use_check=True)

    with pytest.raises(
        SelectionRefusedError, match="FLASH_ATTN does not bind: it fails the check of a first use: "
    ) as told:
        attention(*tensors(), selector=selector)

    assert "tail-of-keys: failed: wanted" in str(told.value)


def test_a_default_that_fails_is_decided_again_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the rules, without it."""
    use(monkeypatch, Plugin("FLASH_ATTN", broken=True))
    selector = Selector(facts=cuda("sm_89", FA2), environment={}, first_use_check=True)
    q, k, v = tensors()

    out = attention(q, k, v, selector=selector)

    (plan,) = selector.serving.plans.values()
    decision = plan.decision  # type: ignore[attr-defined]
    assert decision.backend == "TORCH_SDPA"
    assert "it fails the check of a first use" in decision.warnings[0]
    assert out.shape == q.shape


@pytest.mark.parametrize(
    ("asked", "home", "checked"),
    [(None, "attention-selector", False), (None, "another", True), (True, "attention-selector", True),
     (False, "another", False)],
)  # fmt: skip
def test_who_is_checked(
    monkeypatch: pytest.MonkeyPatch, cache: Path, asked: bool | None, home: str, checked: bool
) -> None:
    """By default what comes from another distribution; always or never where that is asked."""
    use(monkeypatch, Plugin("FLASH_ATTN"), home=home)
    selector = Selector(facts=cuda("sm_89", FA2), environment={}, first_use_check=asked)

    attention(*tensors(), selector=selector)

    assert (cache / "first-use").exists() is checked


def test_what_is_unverified_is_checked_by_default(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    """As FlashAttention 2 is on Blackwell."""
    use(monkeypatch, Plugin("FLASH_ATTN"))
    selector = Selector(facts=cuda("sm_120", FA2), backend="FLASH_ATTN", environment={})

    attention(*tensors(), selector=selector)

    assert len(list((cache / "first-use").iterdir())) == 1


def test_a_check_is_remembered_in_the_process_and_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another selector, and by another process; another geometry or type is checked for itself."""
    plugin = Plugin("FLASH_ATTN")
    use(monkeypatch, plugin)
    counts = []
    for dtype in (torch.bfloat16, torch.bfloat16, torch.float16):
        selector = Selector(facts=cuda("sm_89", FA2), environment={}, first_use_check=True)
        before = len(plugin.bound)
        attention(*tensors(dtype), selector=selector)
        counts.append(len(plugin.bound) - before)
        first_use.forget()

    assert counts[0] > 1
    assert counts[1] == 1
    assert counts[2] == counts[0]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"passed": 1, "refused": [], "failed": []}', '{"passed": [2]}'])
def test_a_damaged_memory_is_as_if_it_were_not_there(monkeypatch: pytest.MonkeyPatch, cache: Path, text: str) -> None:
    """And is written again."""
    use(monkeypatch, Plugin("FLASH_ATTN"))
    attention(*tensors(), selector=Selector(facts=cuda("sm_89", FA2), environment={}, first_use_check=True))
    (path,) = (cache / "first-use").iterdir()
    good = path.read_text()
    path.write_text(text)
    first_use.forget()

    attention(*tensors(), selector=Selector(facts=cuda("sm_89", FA2), environment={}, first_use_check=True))

    assert path.read_text() == good


def test_a_memory_that_cannot_be_written_costs_nothing_but_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The call runs."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("ATTENTION_SELECTOR_CACHE", str(tmp_path / "file"))
    use(monkeypatch, Plugin("FLASH_ATTN"))

    out = attention(*tensors(), selector=Selector(facts=cuda("sm_89", FA2), environment={}, first_use_check=True))

    assert out.shape == (1, 8, 4, 64)


def test_the_cache_has_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable's, the desktop's, or that of the user."""
    assert cache_folder().name == "cache"
    monkeypatch.delenv("ATTENTION_SELECTOR_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert cache_folder() == Path("/x/attention-selector")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/someone")
    assert cache_folder() == Path("/home/someone/.cache/attention-selector")


def test_the_evidence_in_a_line() -> None:
    """What failed, or how much passed."""
    assert str(Evidence(("a", "b"), (), ())) == "2 checks passed"
    assert str(Evidence(("a",), ("b",), ("c: failed", "d: failed"))) == "c: failed; d: failed"


def test_torch_itself_passes(cache: Path) -> None:
    """On the CPU, whatever the type."""
    for dtype in (torch.bfloat16, torch.float32):
        attention(*tensors(dtype), selector=Selector(facts=CPU, environment={}, first_use_check=True))

    assert len(list((cache / "first-use").iterdir())) == 2
