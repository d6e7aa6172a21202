"""A backend was named: paragraph 4 of the contract, one function a row of its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from packaging.version import Version

from tests.oracle.choices import Choice, RefusedError
from tests.oracle.configuration import Entry
from tests.oracle.layers import (
    Request,
    bfloat16,
    grouped,
    half,
    head_dim_among,
    head_dim_of_8_to_256,
    symbolic_warnings,
    traced_symbolic,
)
from tests.oracle.machines import (
    CUDNN_ON_BLACKWELL,
    Machine,
    ada_or_ampere,
    blackwell,
    datacenter,
    fa4_for_blackwell,
    hopper,
    sm_80_or_newer,
)

QUANTISING_FLASHINFER: Final = Version("0.6.16rc1")


def named(entry: Entry, machine: Machine, request: Request) -> Choice:
    """Paragraph 4: the table, one function a row."""
    rows = {
        "CUDNN_ATTN": cudnn,
        "FLASHINFER_ATTN": flashinfer,
        "FLASH_ATTN": flash,
        "SAGE_ATTN": sage,
        "SAGE_ATTN_3": sage_3,
        "FLASH_ATTN_HUB": flash_hub,
        "FLASH_ATTN_3_HUB": flash_3_hub,
    }
    if entry.backend == "TORCH_SDPA":
        return Choice("TORCH_SDPA")
    if entry.backend == "TRTLLM_ATTN":
        return trtllm(entry, machine, request)
    return rows[entry.backend](machine, request)


def cudnn(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `CUDNN_ATTN`, and paragraph 3 on a symbolic head_dim.

    Reading: a cuDNN that is not known is a warning on every GPU.
    """
    none = machine.cudnn_known and machine.cudnn is None
    old = blackwell(machine) and machine.cudnn is not None and machine.cudnn < CUDNN_ON_BLACKWELL
    if not sm_80_or_newer(machine) or none or old:
        raise RefusedError("CUDNN_ATTN")
    if not head_dim_of_8_to_256(request) or not half(request) or traced_symbolic(request):
        raise RefusedError("CUDNN_ATTN")
    unknown = () if machine.cudnn_known else ("cuDNN unknown",)
    return Choice("CUDNN_ATTN", warnings=(*unknown, *symbolic_warnings(request)))


def flashinfer(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `FLASHINFER_ATTN`: any CUDA GPU, known or not."""
    if machine.platform != "cuda" or not machine.has("flashinfer"):
        raise RefusedError("FLASHINFER_ATTN")
    if not head_dim_among(request, 64, 128, 256) or not half(request):
        raise RefusedError("FLASHINFER_ATTN")
    return Choice("FLASHINFER_ATTN")


def flash(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `FLASH_ATTN`; FA2 in place of FA4 on Blackwell counts as a substitution."""
    if not head_dim_of_8_to_256(request) or not half(request):
        return sdpa_instead("FLASH_ATTN")
    if blackwell(machine):
        if fa4_for_blackwell(machine):
            return Choice("FLASH_ATTN")
        if machine.has("flash-attn"):
            return Choice("FLASH_ATTN", warnings=("FA2 instead of FA4",))
    if hopper(machine) and any(machine.has(build) for build in ("flash-attn-3", "flash-attn-4", "flash-attn")):
        return Choice("FLASH_ATTN")
    if ada_or_ampere(machine) and machine.has("flash-attn"):
        return Choice("FLASH_ATTN")
    return sdpa_instead("FLASH_ATTN")


def sage(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `SAGE_ATTN`: the GPUs it has kernels for, and nothing unknown among them."""
    kernels_for = {(8, 0), (8, 6), (8, 9), (9, 0), (12, 0), (12, 1)}
    if machine.sm not in kernels_for or not machine.has("sageattention"):
        raise RefusedError("SAGE_ATTN")
    if (isinstance(request.head_dim, int) and request.head_dim > 128) or not half(request):
        raise RefusedError("SAGE_ATTN")
    return Choice("SAGE_ATTN")


def sage_3(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `SAGE_ATTN_3`: `TORCH_SDPA` otherwise."""
    runs = machine.sm in {(12, 0), (12, 1)} and machine.has("sageattn3")
    if runs and head_dim_among(request, 64, 128) and not grouped(request) and half(request):
        return Choice("SAGE_ATTN_3")
    return sdpa_instead("SAGE_ATTN_3")


def flash_hub(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `FLASH_ATTN_HUB`: `FLASH_ATTN` without its package or GPU, `TORCH_SDPA` for any other need."""
    if not machine.has("kernels") or not sm_80_or_newer(machine):
        return instead("FLASH_ATTN_HUB", flash(machine, request))
    if not head_dim_of_8_to_256(request) or not half(request):
        return sdpa_instead("FLASH_ATTN_HUB")
    return Choice("FLASH_ATTN_HUB", warnings=("unverified on Blackwell",) if blackwell(machine) else ())


def flash_3_hub(machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `FLASH_ATTN_3_HUB`: the package first, then the GPU, then any other need."""
    if not machine.has("kernels"):
        return instead("FLASH_ATTN_3_HUB", flash(machine, request))
    if not hopper(machine):
        return instead("FLASH_ATTN_3_HUB", flash_hub(machine, request))
    if not head_dim_of_8_to_256(request) or not half(request):
        return sdpa_instead("FLASH_ATTN_3_HUB")
    return Choice("FLASH_ATTN_3_HUB")


def trtllm(entry: Entry, machine: Machine, request: Request) -> Choice:
    """Paragraph 4, `TRTLLM_ATTN` and its quantisation: refused, always.

    Reading: a `quant` block without `dtype_qk` is dense and asks for no version of `flashinfer`.
    """
    version = machine.version("flashinfer")
    if not datacenter(machine) or version is None:
        raise RefusedError("TRTLLM_ATTN")
    if not head_dim_among(request, 128) or not bfloat16(request):
        raise RefusedError("TRTLLM_ATTN")
    dtype_qk = entry.quant.get("dtype_qk")
    if dtype_qk is not None and version < QUANTISING_FLASHINFER:
        raise RefusedError("TRTLLM_ATTN")
    if dtype_qk == "int8" and machine.sm != (10, 0):
        raise RefusedError("TRTLLM_ATTN")
    return Choice("TRTLLM_ATTN")


def instead(backend: str, choice: Choice) -> Choice:
    """Paragraph 1: one step of substitution, with its warning."""
    return replace(choice, warnings=(f"{choice.backend} instead of {backend}", *choice.warnings))


def sdpa_instead(backend: str) -> Choice:
    """Paragraph 4: the substitute where a need other than package or GPU fails, and of several rows."""
    return instead(backend, Choice("TORCH_SDPA"))
