"""Nothing is configured: paragraph 3 of the contract."""

from __future__ import annotations

from tests.oracle.choices import Choice
from tests.oracle.layers import (
    Request,
    bfloat16,
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
)


def platform_default(machine: Machine, request: Request) -> Choice:
    """Paragraph 3: by the generation of the GPU; everything else is `TORCH_SDPA`."""
    if blackwell(machine):
        return blackwell_default(machine, request)
    present = machine.has("flash-attn")
    if hopper(machine):
        present = present or machine.has("flash-attn-3") or machine.has("flash-attn-4")
    if (hopper(machine) or ada_or_ampere(machine)) and present and head_dim_of_8_to_256(request) and half(request):
        return Choice("FLASH_ATTN")
    return Choice("TORCH_SDPA")


def blackwell_default(machine: Machine, request: Request) -> Choice:
    """Paragraph 3, Blackwell: five rows in order."""
    flashinfer = machine.has("flashinfer")
    if datacenter(machine) and flashinfer and request.head_dim == 128 and request.mask_free and bfloat16(request):
        return Choice("TRTLLM_ATTN", f" (datacenter Blackwell {machine.arch}, head_dim 128)")
    flexible = head_dim_of_8_to_256(request) and half(request)
    new_cudnn = machine.cudnn is not None and machine.cudnn >= CUDNN_ON_BLACKWELL
    if new_cudnn and flexible and not traced_symbolic(request):
        brackets = f" (Blackwell {machine.arch}, cuDNN {machine.cudnn})"
        return Choice("CUDNN_ATTN", brackets, symbolic_warnings(request))
    old_cudnn = machine.cudnn_known and not new_cudnn
    if flashinfer and old_cudnn and head_dim_among(request, 64, 128, 256) and half(request):
        version = "unavailable" if machine.cudnn is None else machine.cudnn
        return Choice("FLASHINFER_ATTN", f" (Blackwell {machine.arch}, cuDNN {version})")
    if flexible and fa4_for_blackwell(machine):
        return Choice("FLASH_ATTN")
    if flexible and machine.has("flash-attn-4"):
        return Choice("TORCH_SDPA", warnings=("FLASH_ATTN needs a newer FA4",))
    return Choice("TORCH_SDPA")
