"""Geometries that a check needs, as near as possible to the one that it is asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backends.interface import Geometry

FEWEST_HEADS = 4
PADDED_HEAD_DIM = 72


def several_heads(geometry: Geometry) -> Geometry:
    """With four heads at least."""
    return geometry if geometry.num_heads >= FEWEST_HEADS else replace(geometry, num_heads=4, num_kv_heads=4)


def grouped(geometry: Geometry) -> Geometry:
    """With several KV heads, each for several heads, so that 0 0 1 1 and 0 1 0 1 differ."""
    heads, kv_heads = geometry.num_heads, geometry.num_kv_heads
    if 1 < kv_heads < heads:
        return geometry
    even = heads >= FEWEST_HEADS and heads % 2 == 0
    return replace(geometry, num_heads=heads if even else 4, num_kv_heads=heads // 2 if even else 2)


def filled_up(geometry: Geometry) -> Geometry:
    """With a head_dim that kernels fill up to a power of two."""
    dim = geometry.head_dim
    return geometry if dim & (dim - 1) else replace(geometry, head_dim=PADDED_HEAD_DIM)
