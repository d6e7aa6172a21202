"""Scratch memory that kernels share: one zeroed buffer of bytes for each device and purpose.

A buffer per layer would cost gigabytes. Kernels of one purpose must therefore run one after another on a device, on one
stream, as the layers of a model do.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Workspaces:
    """The buffers of one process. Safe to ask from several threads."""

    _held: dict[tuple[torch.device, str], Tensor] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, device: torch.device, purpose: str, size: int) -> Tensor:
        """The uint8 buffer of `purpose` on `device`, of `size` bytes or more.

        It is zeros when it is made, the first time or because more is asked for than it has, and never shrinks. What a
        kernel leaves in it, the next one finds. A replaced buffer lives on where it is still in use, as in a captured
        graph.
        """
        key = (_exact(device), purpose)
        found = self._held.get(key)
        if found is None or found.numel() < size:
            with self._lock:
                found = self._held.get(key)
                if found is None or found.numel() < size:
                    found = self._held[key] = _zeros(key[0], size)
        return found

    def held(self) -> dict[tuple[str, str], int]:
        """The bytes of each buffer by device and purpose."""
        return {(str(device), purpose): buffer.numel() for (device, purpose), buffer in self._held.copy().items()}

    def release(self, device: torch.device | str | None = None) -> None:
        """Forgets the buffers of `device`, or of all devices.

        Not while a graph that was captured with one is still replayed.
        """
        wanted = None if device is None else _exact(torch.device(device))
        with self._lock:
            for key in [key for key in self._held if wanted in (None, key[0])]:
                del self._held[key]


def _exact(device: torch.device) -> torch.device:
    """The device with an index, where it has one."""
    return device if ":" in str(device) else torch.empty(0, device=device).device


def _zeros(device: torch.device, size: int) -> Tensor:
    """New zeros, there before any stream reads them."""
    with torch.inference_mode(mode=False):
        made = torch.zeros(size, dtype=torch.uint8, device=device)
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()
    return made


SHARED = Workspaces()
"""The buffers that every backend of this process uses."""
