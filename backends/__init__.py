"""Attention kernels behind one interface: a backend is loaded by name, bound to a geometry, and called.

Imports neither torch nor a kernel package: each is imported when it is first used.
"""

from backends.interface import Backend, BindError, CallRefused, Causal, Geometry, Kernel
from backends.masks import Mask
from backends.prepare import MaskPlan, prepare_mask
from backends.registry import available, load

__all__ = [
    "Backend",
    "BindError",
    "CallRefused",
    "Causal",
    "Geometry",
    "Kernel",
    "Mask",
    "MaskPlan",
    "available",
    "load",
    "prepare_mask",
]
