"""Every backend and every build of one is traced whole: the rules let all of them run in compiled code.

A backend that cannot be traced says so in its ability, and then stands in `UNTRACED` with what it says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest
import torch

from backends._flash import Family
from backends.hub import FlashHub
from backends.interface import CallRefused
from selector.rules import conditions
from selector.ruleset import shipped
from tests.backends.cases import BINDERS, MASKS, Sizes
from tests.backends.fakes import flash2, flash3, flash_packages
from tests.backends.fakes.flashinfer_binding import PROVIDERS, bind_flashinfer, bind_trtllm
from tests.backends.fakes.hub_folder import HUB_ID, lay_out
from tests.backends.fakes.kernels_library import Hub, newest
from tests.backends.fakes.sage_bound import FAKES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import ModuleType

    from backends.interface import Kernel

Name = tuple[str, str | None]
KINDS = ["nothing", "suffix", "key padding", "key and query padding", "block diagonal", "boolean", "additive"]
HALF = Sizes(dtype=torch.bfloat16)
UNTRACED: Mapping[str, list[str]] = {"CUDNN_ATTN": ["head_dim", "compile"]}
"""What abilities ask of compiled code: cuDNN's kernel wants a size of head that is a number."""


@dataclass(frozen=True)
class Case:
    """How a kernel is bound, and sizes that it takes."""

    bind: Callable[[Sizes, Path], Kernel]
    sizes: Sizes = HALF


def of_flash(fake: str) -> Case:
    """One build of FlashAttention."""
    return Case(lambda sizes, _: flash_packages.bind(fake, sizes))


def of_flashinfer(provider: str) -> Case:
    """One build of FlashInfer."""
    return Case(lambda sizes, _: bind_flashinfer(sizes, provider))


def of_sage(fake: str) -> Case:
    """One version of SageAttention."""
    return Case(lambda sizes, _: FAKES[fake].bind(sizes), replace(HALF, head_dim=64))


def of_hub(name: str, operators: str, code: ModuleType) -> Case:
    """A build of the hub."""

    def bind(sizes: Sizes, folder: Path) -> Kernel:
        library = newest(Hub({(HUB_ID, 1): lay_out(folder / "kernel", code.__name__)}))
        family = Family(name, device="cpu")
        return FlashHub(family, HUB_ID, (1,), operators, lambda _: library).bind({}, sizes.geometry)

    return Case(bind)


CASES: Mapping[Name, Case] = {
    ("TORCH_SDPA", None): Case(lambda sizes, _: BINDERS["TORCH_SDPA"](sizes), Sizes()),
    ("CUDNN_ATTN", None): Case(lambda sizes, _: BINDERS["CUDNN_ATTN, prepared"](sizes), Sizes()),
    **{("FLASH_ATTN", fake): of_flash(fake) for fake in ("fa4", "fa3", "fa2")},
    **{("FLASHINFER_ATTN", provider): of_flashinfer(provider) for provider in PROVIDERS},
    ("SAGE_ATTN", "sage2"): of_sage("2, sm90"),
    ("SAGE_ATTN", "sage1"): of_sage("1"),
    ("SAGE_ATTN_3", None): of_sage("3"),
    ("FLASH_ATTN_HUB", None): of_hub("FLASH_ATTN_HUB", "hub_fa2", flash2),
    ("FLASH_ATTN_3_HUB", None): of_hub("FLASH_ATTN_3_HUB", "hub_fa3", flash3),
    ("TRTLLM_ATTN", None): Case(lambda sizes, _: bind_trtllm(sizes), replace(HALF, head_dim=128)),
}


def test_every_backend_and_build_of_the_rules_is_looked_at() -> None:
    """One that is added is traced here, or says that it cannot be."""
    backends = shipped().backends

    assert set(CASES) == {(name, build) for name, one in backends.items() for build in one.providers or (None,)}


def test_what_the_rules_say_of_compiled_code() -> None:
    """No ability asks about it but cuDNN's."""
    abilities = [*shipped().abilities["backends"].items(), *shipped().abilities["providers"].items()]
    asked = {name: [test.fact for test in conditions.tests(ability)] for name, ability in abilities}

    assert {name for name, facts in asked.items() if "compile" in facts} == set(UNTRACED)
    assert all(set(facts) <= set(asked[name]) for name, facts in UNTRACED.items())


@pytest.mark.parametrize("name", CASES, ids=[build or backend for backend, build in CASES])
def test_is_traced_whole(name: Name, tmp_path: Path) -> None:
    """With symbolic lengths, for every kind of mask that it takes; the result is the eager one."""
    case, taken = CASES[name], []

    for kind in KINDS:
        torch.compiler.reset()
        kernel, (q, k, v), mask = case.bind(case.sizes, tmp_path / kind), case.sizes.qkv(), MASKS[kind](case.sizes)
        try:
            expected = kernel(q, k, v, mask=mask)
        except CallRefused:
            continue
        out = torch.compile(kernel, fullgraph=True, backend="eager", dynamic=True)(q, k, v, mask=mask)
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-6)
        taken.append(kind)

    assert {"nothing", "suffix"} <= set(taken)
